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

use outlast_model::view::RunRef;
use outlast_model::{
    ActivityOptions, ActivityType, ChildOptions, Failure, Headers, PatchId, Payload, PromiseId,
    QueryName, RunId, SignalName, StepName, StepOptions, Timestamp, UpdateName, WorkflowId,
    WorkflowType,
};

use crate::branch::{Branch, Scope, Shield};
use crate::condition::Predicate;
use crate::ending::BranchEnd;
use crate::guard::Reader;
use crate::intercept::{ActivityCall, CancelCall, ChildCall, Intercept, SignalCall, StepCall};
use crate::operation::Operation;
use crate::patch::Announcement;
use crate::program::{
    AnySignalHandler, HandlerEnd, QueryHandler, SignalHandler, StateView, StepCode, UpdateHandler,
};
use crate::random::Random;
use crate::scoped::Scoped;
use crate::shared::{Place, Shared, site};
use crate::slab::{self, Address, Presence};
use crate::wait::{Wait, WaitCell};

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
        let call = ActivityCall {
            activity_type,
            input,
            options,
            headers: Headers::new(),
        };
        shared.schedule_activity(call, site(place))
    }

    /// Asks for a timer.
    #[track_caller]
    pub fn timer(self, delay: Duration) -> Operation {
        let (shared, place) = self.call();
        shared.schedule_timer(delay, site(place))
    }

    /// Asks for the timer of a time limit on a block.
    #[track_caller]
    pub fn limit(self, delay: Duration) -> Operation {
        let (shared, place) = self.call();
        let timer = shared.schedule_timer(delay, site(place));
        if shared.rules.limits_are_shielded() {
            timer.shielded()
        } else {
            timer
        }
    }

    /// Asks for a step: code that runs outside of the workflow, its outcome recorded.
    #[track_caller]
    pub fn step(self, name: StepName, options: StepOptions, code: StepCode) -> Operation {
        let (shared, place) = self.call();
        let call = StepCall {
            name,
            options,
            code,
            headers: Headers::new(),
        };
        shared.schedule_step(call, site(place))
    }

    /// Waits for a signal: the oldest of this name that nobody has taken.
    ///
    /// # Panics
    /// If signals of this name go to a handler.
    #[track_caller]
    pub fn recv(self, name: SignalName) -> Operation {
        let (shared, place) = self.call();
        shared.schedule_recv(name, site(place))
    }
}

/// What the failure of a branch does to the scope it was spawned in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supervision {
    /// The scope fails with it, and the other branches are cancelled.
    FailTogether,
    /// Nothing: it is seen by whoever awaits the branch.
    FailAlone,
}

/// Other runs.
impl Context {
    /// Asks for a child. Without an id of its own it is named after this run.
    #[track_caller]
    pub fn child(
        self,
        workflow_type: WorkflowType,
        workflow_id: Option<WorkflowId>,
        input: Payload,
        options: ChildOptions,
    ) -> Operation {
        let (shared, place) = self.call();
        let call = ChildCall {
            workflow_type,
            workflow_id,
            input,
            options,
            headers: Headers::new(),
        };
        shared.schedule_child(call, site(place))
    }

    /// Sends a message to another run; resolves when it has arrived.
    #[track_caller]
    pub fn signal_external(self, target: RunRef, name: SignalName, input: Payload) -> Operation {
        let (shared, place) = self.call();
        let call = SignalCall {
            target,
            name,
            input,
            headers: Headers::new(),
        };
        shared.signal_external(call, site(place))
    }

    /// Asks another run to stop; resolves when the request has arrived.
    #[track_caller]
    pub fn cancel_external(self, target: RunRef, reason: &str) -> Operation {
        let (shared, place) = self.call();
        let reason = reason.into();
        shared.cancel_external(CancelCall { target, reason }, site(place))
    }

    /// Waits for a promise: somebody outside settles it by its id, before or after.
    #[track_caller]
    pub fn promise(self, id: PromiseId) -> Operation {
        let (shared, place) = self.call();
        shared.schedule_promise(id, site(place))
    }

    /// An id for a promise that needs no name of its own.
    #[track_caller]
    pub fn next_promise_id(self) -> PromiseId {
        let (shared, _) = self.call();
        shared.mailbox.borrow_mut().promises.next_id()
    }
}

/// Changes of the code under open runs.
impl Context {
    /// Whether this run takes the new side of a change. New runs do; those that came by here
    /// with the old code do not.
    #[track_caller]
    pub fn patched(self, id: PatchId) -> bool {
        let (shared, place) = self.call();
        shared.patched(id, Announcement::InUse, site(place))
    }

    /// Says that the old side of a change is gone.
    #[track_caller]
    pub fn deprecate_patch(self, id: PatchId) {
        let (shared, place) = self.call();
        shared.patched(id, Announcement::Deprecated, site(place));
    }
}

/// Messages, branches and scopes.
impl Context {
    /// Hands all signals of this name to a handler, those that arrived before included.
    ///
    /// # Panics
    /// If code waits for one.
    #[track_caller]
    pub fn on_signal(self, name: SignalName, handler: SignalHandler) {
        self.on_signal_until(name, handler, HandlerEnd::default());
    }

    /// Hands signals of names that have no handler, and that no code receives, to a handler.
    #[track_caller]
    pub fn on_any_signal(self, handler: AnySignalHandler, end: HandlerEnd) {
        let shared = self.shared();
        shared.assert_writable("a new handler");
        shared.mailbox.borrow_mut().handle_any(handler, end);
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

    /// Has everything that goes in and out of the instance pass through here. Once, by whoever
    /// creates main.
    ///
    /// # Panics
    /// The second time.
    #[track_caller]
    pub fn intercept_with(self, interceptors: Rc<dyn Intercept>) {
        let before = self.shared().interceptors.replace(Some(interceptors));
        assert!(before.is_none(), "the interceptors of a run are set once");
    }

    /// Says how the workflow's state is shown.
    #[track_caller]
    pub fn show_state(self, view: StateView) {
        let shared = self.shared();
        shared.assert_writable("a new handler");
        shared.questions.borrow_mut().show_state(view);
    }

    /// Hands all signals of this name to a handler, and says what becomes of it when it still
    /// waits at the end of main.
    #[track_caller]
    pub fn on_signal_until(self, name: SignalName, handler: SignalHandler, end: HandlerEnd) {
        let shared = self.shared();
        shared.assert_writable("a new handler");
        shared.assert_not_received(&name, Location::caller());
        shared.mailbox.borrow_mut().handle(name, handler, end);
    }

    /// Runs a future as a task of its own, in a scope below the current one. If it fails, it
    /// fails that one.
    #[track_caller]
    pub fn spawn(self, future: impl Future<Output: BranchEnd> + 'static) -> Branch {
        let shared = self.shared();
        let around = Rc::clone(&shared.scope.borrow());
        Branch::spawn(&shared, &around, future)
    }

    /// Makes a future, and polls it, in a scope of its own below the current one; over when all
    /// branches spawned in it are. The first failure cancels the rest.
    #[track_caller]
    pub fn scope<T, F: Future<Output = Result<T, Failure>>>(
        self,
        supervision: Supervision,
        make: impl FnOnce(Scope) -> F,
    ) -> Scoped<T, F> {
        let shared = self.shared();
        let node = shared.child_scope();
        match supervision {
            Supervision::FailTogether => {}
            Supervision::FailAlone => node.supervise_members(),
        }
        let scope = Scope::new(Rc::clone(&shared), Rc::clone(&node));
        Scoped::new(shared, node, || make(scope))
    }

    /// Makes a future, and polls it, in a scope that cancellation does not reach.
    #[track_caller]
    pub fn shield<F: Future>(self, make: impl FnOnce() -> F) -> Shield<F> {
        let shared = self.shared();
        let scope = shared.shield_scope();
        Shield::new(shared, scope, make)
    }

    /// Why the current scope fails, if a branch in it did.
    #[track_caller]
    pub fn scope_failure(self) -> Option<Failure> {
        self.shared().scope.borrow().failure()
    }

    /// Whether the current scope is cancelled. A handler of messages is told that the workflow
    /// is, and may go on.
    #[track_caller]
    pub fn is_cancelled(self) -> bool {
        self.shared().scope.borrow().is_cancelled()
    }
}

/// State, and waiting for it.
impl Context {
    /// Sets the workflow's state.
    #[track_caller]
    pub fn set_state(self, state: Box<dyn Any>) {
        let before = self.shared().set_state(state);
        drop(before);
    }

    /// Changes the workflow's state.
    ///
    /// # Panics
    /// Inside another borrow, naming both places; where code may only read; when no state was
    /// set.
    #[track_caller]
    pub fn with_state<R>(self, change: impl FnOnce(&mut dyn Any) -> R) -> R {
        self.shared().with_state(change)
    }

    /// Looks at the workflow's state. No condition is tested because of it.
    ///
    /// # Panics
    /// Inside another borrow, naming both places, and when no state was set.
    #[track_caller]
    pub fn read_state<R>(self, look: impl FnOnce(&dyn Any) -> R) -> R {
        self.shared().read_state(look)
    }

    /// Something outside of the state that conditions look at has changed.
    ///
    /// # Panics
    /// Where code may only read.
    #[track_caller]
    pub fn written(self) {
        let shared = self.shared();
        shared.assert_writable("a write");
        shared.count_write();
    }

    /// Waits until the predicate holds for the state; in a workflow without state it is given
    /// `()`. It is tested now, and then when the run is at rest and state was written.
    ///
    /// # Panics
    /// Inside a borrow of the state, naming both places.
    #[track_caller]
    pub fn wait_until(self, predicate: Predicate) -> Wait {
        let (shared, place) = self.call();
        shared.wait_until(predicate, place)
    }

    /// Waits until somebody inside the run releases it. The place is that of the wait, for
    /// people.
    ///
    /// # Panics
    /// Outside of the code of the run, and where code may only read.
    pub fn wait(self, place: &'static Location<'static>) -> Wait {
        let shared = self.call_at(place);
        let cell = WaitCell::new(shared.next_wait(), place, &shared.scope.borrow());
        Wait::new(shared, cell)
    }

    /// Runs code that may look at the run and not change it.
    ///
    /// # Errors
    /// It panicked, or tried to change something: the failure names the line.
    #[track_caller]
    pub fn read_only<R>(self, reader: Reader, look: impl FnOnce() -> R) -> Result<R, Failure> {
        self.shared().read_only(reader, look)
    }

    /// For code that changes something the runtime does not see.
    ///
    /// # Panics
    /// Where code may only read.
    #[track_caller]
    pub fn assert_writable(self, what: &str) {
        self.shared().assert_writable(what);
    }
}

/// Facts of the run.
impl Context {
    /// The workflow's time: that of the activation.
    #[track_caller]
    pub fn now(self) -> Timestamp {
        self.shared().header.get().now
    }

    /// A random number, the same on every replay.
    #[track_caller]
    pub fn random(self) -> u64 {
        let shared = self.shared();
        shared.assert_writable("a random number");
        shared.draw(Random::draw)
    }

    /// The bits of a version 4 UUID, the same on every replay.
    #[track_caller]
    pub fn uuid(self) -> u128 {
        let shared = self.shared();
        shared.assert_writable("a random number");
        shared.draw(Random::uuid)
    }

    /// The user's id.
    #[track_caller]
    pub fn workflow_id(self) -> WorkflowId {
        self.shared().workflow_id.clone()
    }

    /// This run.
    #[track_caller]
    pub fn run_id(self) -> RunId {
        self.shared().run_id
    }

    /// What came with the start of this run.
    #[track_caller]
    pub fn headers(self) -> Headers {
        self.shared().headers.clone()
    }

    /// Whether this happened before and only the state is wanted.
    #[track_caller]
    pub fn is_replaying(self) -> bool {
        self.shared().header.get().is_replaying
    }

    /// Events in the history when this slice began.
    #[track_caller]
    pub fn history_events(self) -> u64 {
        self.shared().header.get().history_events
    }

    /// Whether the run should continue as new soon.
    #[track_caller]
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

    #[track_caller]
    fn shared(self) -> Rc<Shared> {
        self.shared_at(Location::caller())
    }

    fn shared_at(self, place: Place) -> Rc<Shared> {
        slab::find(self.address).unwrap_or_else(|| {
            panic!(
                "the context used at {place} belongs to a run that is no longer in memory: use the \
                 one that your workflow was given, and do not keep it"
            )
        })
    }

    /// For calls that make commands: only code of the very run may.
    #[track_caller]
    fn call(self) -> (Rc<Shared>, Place) {
        let place = Location::caller();
        (self.call_at(place), place)
    }

    fn call_at(self, place: Place) -> Rc<Shared> {
        let shared = self.shared_at(place);
        assert!(
            slab::is_entered(self.address),
            "a durable call at {place} was made outside of the code of its own workflow"
        );
        shared.assert_writable_at("a durable call", place);
        shared.last_call.set(Some(place));
        shared
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
