//! The tasks of an instance, polled in the order in which they were woken.
//!
//! Main, branches and handlers are separate tasks with their own wakers. A poll is the unit of
//! everything that must not depend on luck: options may change until it ends, cancels caused by
//! drops are sorted when it ends, and a panic in it fails the workflow task.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use outlast_model::event::Site;
use outlast_model::{Failure, limits};

use crate::failure::{TaskFailure, Whence};
use crate::mailbox::Delivery;
use crate::panic::discard;
use crate::program::{
    BranchFuture, HandlerEnd, HandlerFuture, MainFuture, MainOutcome, SliceWatch,
};
use crate::scope::{Node, Side};
use crate::shared::{Shared, Spawned, site};
use crate::slab::{Entry, Presence};
use crate::undo::UndoFuture;
use crate::update;
use crate::wake::{TaskId, TaskWaker};

/// The code of a task.
pub(crate) enum Body {
    Main(MainFuture),
    Undo(UndoFuture),
    Branch(BranchFuture),
    /// With what it handles, for people.
    Handler(String, HandlerFuture),
}

/// How a task ended.
pub(crate) enum Ended {
    Main(MainOutcome),
    Undo,
    Branch(Result<(), Failure>),
    Handler(String, Result<(), Failure>),
}

/// A task that has ended: how, and what is left of it.
pub(crate) struct Finished {
    pub(crate) ended: Ended,
    pub(crate) name: String,
    pub(crate) scope: Rc<Node>,
}

impl Body {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        match self {
            Self::Main(future) => Pin::new(future).poll(cx).map(Ended::Main),
            Self::Undo(future) => Pin::new(future).poll(cx).map(|()| Ended::Undo),
            Self::Branch(future) => Pin::new(future).poll(cx).map(Ended::Branch),
            Self::Handler(name, future) => Pin::new(future)
                .poll(cx)
                .map(|result| Ended::Handler(std::mem::take(name), result)),
        }
    }

    fn is_branch(&self) -> bool {
        match self {
            Self::Branch(_) => true,
            Self::Main(_) | Self::Undo(_) | Self::Handler(..) => false,
        }
    }

    fn is_handler(&self) -> bool {
        match self {
            Self::Handler(..) => true,
            Self::Main(_) | Self::Undo(_) | Self::Branch(_) => false,
        }
    }
}

/// One task.
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) last_call: Option<Site>,
    /// What becomes of it when main has returned.
    end: HandlerEnd,
    body: Body,
    scope: Rc<Node>,
    wake: Arc<TaskWaker>,
    waker: Waker,
}

impl Task {
    pub(crate) fn is_of_main(&self) -> bool {
        self.body.is_branch() && self.scope.side == Side::Main
    }

    pub(crate) fn whence(&self) -> Whence<'_> {
        Whence {
            branch: &self.name,
            last_call: self.last_call.as_ref(),
        }
    }
}

/// All tasks of an instance.
#[derive(Default)]
pub(crate) struct Executor {
    /// Boxed: most instances have one, and a tree makes room for eleven at once.
    pub(crate) tasks: BTreeMap<TaskId, Box<Task>>,
    /// How many branches there were. Tasks are no measure: an update that was turned away had
    /// one, and has none in replay.
    branches: u32,
}

impl Executor {
    /// Adds a task; whoever calls puts it into the ready queue.
    pub(crate) fn add(
        &mut self,
        shared: &Shared,
        name: String,
        body: Body,
        scope: &Rc<Node>,
    ) -> TaskId {
        let (id, wake) = shared.new_task();
        self.insert(id, wake, name, body, Rc::clone(scope));
        id
    }

    /// Adds a task that has its number.
    pub(crate) fn insert(
        &mut self,
        id: TaskId,
        wake: Arc<TaskWaker>,
        name: String,
        body: Body,
        scope: Rc<Node>,
    ) -> &mut Task {
        let waker = Waker::from(Arc::clone(&wake));
        let task = Task {
            name,
            last_call: None,
            end: HandlerEnd::default(),
            body,
            scope,
            wake,
            waker,
        };
        self.tasks.entry(id).or_insert(Box::new(task))
    }

    /// Adds the task of a handler: its code runs when it is polled.
    pub(crate) fn add_handler(&mut self, shared: &Rc<Shared>, delivery: Delivery) -> TaskId {
        let ctx = crate::context::Context::at(shared.address);
        let (title, end, future): (String, HandlerEnd, HandlerFuture) = match delivery {
            Delivery::Signal {
                signal,
                handler,
                end,
            } => (
                format!("handler of signal `{}`", signal.name),
                end,
                match shared.interceptors() {
                    None => Box::pin(async move { handler(ctx, signal.input).await }),
                    Some(all) => Box::pin(async move { all.signal(ctx, signal, handler).await }),
                },
            ),
            Delivery::Update { job, handler } => (
                format!("handler of update `{}`", job.request.name),
                handler.end,
                update::run(Rc::clone(shared), job, handler),
            ),
        };
        let body = Body::Handler(title.clone(), future);
        let scope = shared.branch_scope(&shared.handler_scope);
        let (id, wake) = shared.new_task();
        self.insert(id, wake, title, body, scope).end = end;
        id
    }

    /// Takes in the branches that code has spawned.
    pub(crate) fn adopt(&mut self, shared: &Shared) {
        for Spawned {
            id,
            future,
            scope,
            waker,
            place,
        } in shared.spawned.take()
        {
            self.branches += 1;
            let name = format!("branch {} spawned at {}", self.branches, site(place));
            self.insert(id, waker, name, Body::Branch(future), scope);
        }
    }

    /// Polls one task.
    pub(crate) fn poll(
        &mut self,
        id: TaskId,
        shared: &Shared,
        watch: &dyn SliceWatch,
    ) -> Result<Option<Finished>, TaskFailure> {
        // Dropped before its turn came.
        let Some(task) = self.tasks.get_mut(&id) else {
            return Ok(None);
        };
        watch.enter(&task.name, task.last_call.as_ref())?;
        task.wake.unqueue();
        shared.begin_poll(&task.scope);
        shared.polling.set(Some(id));
        let polled = {
            let _polling = Entry::new(shared.address, Presence::Polling);
            let mut cx = Context::from_waker(&task.waker);
            catch_unwind(AssertUnwindSafe(|| task.body.poll(&mut cx)))
        };
        if let Some(place) = shared.last_call.take() {
            task.last_call = Some(site(place));
        }
        let polled = polled.map_err(|payload| TaskFailure::panic(payload, &task.whence()))?;
        self.adopt(shared);
        if self.tasks.len() > limits::BRANCHES
            && let Some(task) = self.tasks.get(&id)
        {
            return Err(TaskFailure::too_many_branches(&task.whence()));
        }
        match polled {
            Poll::Pending => Ok(None),
            Poll::Ready(ended) => {
                let left = self.end(id, shared)?;
                Ok(left.map(|(name, scope)| Finished { ended, name, scope }))
            }
        }
    }

    /// Drops a task that has ended; its destructors still belong to its last poll.
    fn end(
        &mut self,
        id: TaskId,
        shared: &Shared,
    ) -> Result<Option<(String, Rc<Node>)>, TaskFailure> {
        let Some(task) = self.tasks.remove(&id) else {
            return Ok(None);
        };
        task.wake.done();
        let Task {
            name,
            last_call,
            body,
            scope,
            ..
        } = *task;
        let _polling = Entry::new(shared.address, Presence::Polling);
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(body)));
        dropped.map_err(|payload| {
            let whence = Whence {
                branch: &name,
                last_call: last_call.as_ref(),
            };
            TaskFailure::panic(payload, &whence)
        })?;
        Ok(Some((name, scope)))
    }

    /// Drops the branches of main, in order of creation: main has ended, and with it its scope.
    pub(crate) fn end_branches(&mut self, shared: &Shared) -> Result<(), TaskFailure> {
        let branches = self.tasks.iter().filter(|(_, task)| task.is_of_main());
        let ids: Vec<TaskId> = branches.map(|(id, _)| *id).collect();
        for id in ids {
            if let Some((_, scope)) = self.end(id, shared)? {
                scope.end();
            }
        }
        Ok(())
    }

    /// Drops handlers and their branches, in order of creation: the run has failed, and what they
    /// did is undone.
    pub(crate) fn end_handlers(&mut self, shared: &Shared) -> Result<(), TaskFailure> {
        let ids: Vec<TaskId> = self.tasks.keys().copied().collect();
        for id in ids {
            if let Some((_, scope)) = self.end(id, shared)? {
                scope.end();
            }
        }
        Ok(())
    }

    /// Whether this task is a branch that ends with main.
    pub(crate) fn is_of_main(&self, id: TaskId) -> bool {
        self.tasks.get(&id).is_some_and(|task| task.is_of_main())
    }

    /// Handlers that wait, and what becomes of them.
    pub(crate) fn handlers(&self) -> impl Iterator<Item = (&Task, HandlerEnd)> {
        let handlers = self.tasks.values().filter(|task| task.body.is_handler());
        handlers.map(|task| (&**task, task.end))
    }

    /// Branches that nobody has asked to stop.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = &Task> {
        let branches = self.tasks.values().filter(|task| task.body.is_branch());
        branches
            .map(|task| &**task)
            .filter(|task| !task.scope.cuts_operations())
    }

    /// Drops everything, in order of creation; a destructor that panics stops nobody.
    pub(crate) fn clear(&mut self, shared: &Shared, watch: &dyn SliceWatch) {
        self.adopt(shared);
        while let Some((_, task)) = self.tasks.pop_first() {
            task.wake.done();
            let what = format!("the destructors of {}", task.name);
            watch.before_drop(&what, task.last_call.as_ref());
            // There is nobody left to tell: the instance goes away.
            discard(task);
            self.adopt(shared);
        }
    }
}
