//! What workflow code holds: an index into the thread's slab, `Copy` and not `Send`.
//!
//! It can be moved into any `async move` block of the workflow and cannot leave its thread; one
//! that outlives its run is caught by its generation. Every durable call goes through here, so
//! that the place of the call is known.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;
use std::time::Duration;

use outlast_model::{
    ActivityOptions, ActivityType, Payload, QueryName, RunId, SignalName, StepName, StepOptions,
    Timestamp, UpdateName, WorkflowId,
};

use crate::branch::{Branch, Shield};
use crate::operation::Operation;
use crate::program::{
    AnySignalHandler, BranchFuture, QueryHandler, SignalHandler, StateView, StepCode, UpdateHandler,
};
use crate::shared::{Commands, Place, Shared, Spawned, site};
use crate::slab::{self, Address, Presence};

/// The context of a workflow.
#[derive(Clone, Copy)]
pub struct Context {
    address: Address,
    not_send: PhantomData<*const ()>,
}

/// Durable operations: scheduled by the call, awaited separately.
impl Context {
    /// Asks for an activity.
    #[track_caller]
    pub fn activity(
        self,
        activity_type: ActivityType,
        input: Payload,
        options: ActivityOptions,
    ) -> Operation {
        let (shared, place) = self.call();
        shared.schedule_activity(activity_type, input, options, site(place))
    }

    /// Asks for a timer.
    #[track_caller]
    pub fn timer(self, delay: Duration) -> Operation {
        let (shared, place) = self.call();
        shared.schedule_timer(delay, site(place))
    }

    /// Asks for a step: code that runs outside of the workflow, its outcome recorded.
    #[track_caller]
    pub fn step(self, name: StepName, options: StepOptions, code: StepCode) -> Operation {
        let (shared, place) = self.call();
        shared.schedule_step(name, options, code, site(place))
    }

    /// Waits for a signal: the oldest of this name that nobody has taken. Signals of a name that
    /// has a handler go to the handler.
    #[track_caller]
    pub fn recv(self, name: SignalName) -> Operation {
        let (shared, place) = self.call();
        shared.schedule_recv(name, site(place))
    }
}

/// Messages, branches and scopes.
impl Context {
    /// Hands all signals of this name to a handler, those that arrived before included.
    #[track_caller]
    pub fn on_signal(self, name: SignalName, handler: SignalHandler) {
        let shared = self.shared();
        shared.assert_writable("a new handler");
        shared.mailbox.borrow_mut().handle(name, handler);
    }

    /// Hands signals of names that have no handler, and that no code receives, to a handler.
    #[track_caller]
    pub fn on_any_signal(self, handler: AnySignalHandler) {
        let shared = self.shared();
        shared.assert_writable("a new handler");
        shared.mailbox.borrow_mut().handle_any(handler);
    }

    /// Hands all updates of this name to a handler.
    #[track_caller]
    pub fn on_update(self, name: UpdateName, handler: UpdateHandler) {
        let shared = self.shared();
        shared.assert_writable("a new handler");
        shared.mailbox.borrow_mut().handle_update(name, handler);
    }

    /// Hands updates of names that have no handler to a handler.
    #[track_caller]
    pub fn on_any_update(self, handler: UpdateHandler) {
        let shared = self.shared();
        shared.assert_writable("a new handler");
        shared.mailbox.borrow_mut().handle_any_update(handler);
    }

    /// Has queries of this name answered.
    #[track_caller]
    pub fn on_query(self, name: QueryName, handler: QueryHandler) {
        let shared = self.shared();
        shared.assert_writable("a new handler");
        shared.questions.borrow_mut().handle(name, handler);
    }

    /// Has queries of names that have no handler answered.
    #[track_caller]
    pub fn on_any_query(self, handler: QueryHandler) {
        let shared = self.shared();
        shared.assert_writable("a new handler");
        shared.questions.borrow_mut().handle_any(handler);
    }

    /// Says how the workflow's state is shown.
    #[track_caller]
    pub fn show_state(self, view: StateView) {
        let shared = self.shared();
        shared.assert_writable("a new handler");
        shared.questions.borrow_mut().show_state(view);
    }

    /// Runs a future as a task of its own, in a scope below the current one.
    #[track_caller]
    pub fn spawn(self, future: BranchFuture) -> Branch {
        let place = Location::caller();
        let shared = self.shared();
        let scope = shared.child_scope();
        if shared.commands.get() == Commands::On {
            let (id, waker) = shared.new_task();
            let scope = Rc::clone(&scope);
            shared.spawned.borrow_mut().push(Spawned {
                id,
                future,
                scope,
                waker,
                place,
            });
            shared.push_ready(id);
        }
        Branch::new(shared, scope)
    }

    /// Makes a future, and polls it, in a scope that cancellation does not reach.
    pub fn shield<F: Future>(self, make: impl FnOnce() -> F) -> Shield<F> {
        let shared = self.shared();
        let scope = shared.shield_scope();
        Shield::new(shared, scope, make)
    }

    /// Whether the current scope is cancelled. A handler of messages is told that the workflow
    /// is, and may go on.
    pub fn is_cancelled(self) -> bool {
        self.shared().scope.borrow().is_cancelled()
    }
}

/// State.
impl Context {
    /// Sets the workflow's state.
    pub fn set_state(self, state: Box<dyn Any>) {
        let before = self.shared().state.replace(Some(state));
        drop(before);
    }

    /// Looks at the workflow's state, and may change it.
    ///
    /// # Panics
    /// Inside another `with_state`, naming both places, and when no state was set.
    #[track_caller]
    pub fn with_state<R>(self, f: impl FnOnce(&mut dyn Any) -> R) -> R {
        let here = Location::caller();
        let shared = self.shared();
        if let Some(there) = shared.state_borrowed.get() {
            panic!(
                "ctx.with at {here} is inside another ctx.with at {there}: finish the first \
                 closure before you start the second"
            );
        }
        let Some(state) = shared.state.take() else {
            panic!("ctx.with at {here}: this workflow has no state");
        };
        shared.state_borrowed.set(Some(here));
        let mut borrowed = Borrowed {
            shared,
            state: Some(state),
        };
        match &mut borrowed.state {
            Some(state) => f(&mut **state),
            None => unreachable!("the state is there until the guard is dropped"),
        }
    }
}

/// Puts the state back, after a panic too: code may catch it.
struct Borrowed {
    shared: Rc<Shared>,
    state: Option<Box<dyn Any>>,
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.shared.state_borrowed.set(None);
        *self.shared.state.borrow_mut() = self.state.take();
    }
}

/// Facts of the run.
impl Context {
    /// The workflow's time: that of the activation.
    pub fn now(self) -> Timestamp {
        self.shared().header.get().now
    }

    /// A random number, the same on every replay.
    pub fn random(self) -> u64 {
        self.shared().random.borrow_mut().draw()
    }

    /// The bits of a version 4 UUID, the same on every replay.
    pub fn uuid(self) -> u128 {
        self.shared().random.borrow_mut().uuid()
    }

    /// The user's id.
    pub fn workflow_id(self) -> WorkflowId {
        self.shared().workflow_id.clone()
    }

    /// This run.
    pub fn run_id(self) -> RunId {
        self.shared().run_id
    }

    /// Whether this happened before and only the state is wanted.
    pub fn is_replaying(self) -> bool {
        self.shared().header.get().is_replaying
    }

    /// Events in the history when this slice began.
    pub fn history_events(self) -> u64 {
        self.shared().header.get().history_events
    }

    /// Whether the run should continue as new soon.
    pub fn suggest_continue_as_new(self) -> bool {
        self.shared().header.get().suggest_continue_as_new
    }

    /// The context of the code that is being polled on this thread.
    pub fn current() -> Option<Self> {
        match slab::entered() {
            Some((address, Presence::Polling)) => Some(Self::at(address)),
            Some((_, Presence::Runtime)) | None => None,
        }
    }
}

impl Context {
    pub(crate) fn at(address: Address) -> Self {
        Self {
            address,
            not_send: PhantomData,
        }
    }

    fn shared(self) -> Rc<Shared> {
        slab::find(self.address).unwrap_or_else(|| {
            panic!("this context belongs to a run that is no longer in memory: do not keep it")
        })
    }

    /// For calls that make commands: only code of the very run may.
    #[track_caller]
    fn call(self) -> (Rc<Shared>, Place) {
        let place = Location::caller();
        let shared = self.shared();
        assert!(
            slab::is_entered(self.address),
            "a durable call at {place} was made outside of the code of its own workflow"
        );
        shared.assert_writable("a durable call");
        shared.last_call.set(Some(place));
        (shared, place)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let run = slab::find(self.address).map(|shared| shared.run_id);
        f.debug_tuple("Context").field(&run).finish()
    }
}

/// Whether this thread is inside a poll of workflow code.
pub fn in_slice() -> bool {
    Context::current().is_some()
}
