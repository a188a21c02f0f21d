//! The context of a workflow: the only door from its code to the world.
//!
//! It is `Copy`, so `async move` blocks need no clones, and not `Send`, so it cannot leave the
//! run's thread: `tokio::spawn` with a context inside does not compile.

use std::any::{Any, type_name};
use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use outlast_model::payload::PayloadError;
use outlast_model::{
    ActivityType, Headers, Payload, RunId, SignalName, StepName, StepOptions, WorkflowId,
};
use outlast_runtime::{Context, StepCode, Supervision};
use serde_json::Value;

use crate::activity::{Activity, Defaults};
use crate::arg::Arg;
use crate::call::{Call, kind};
use crate::call_error::CallError;
use crate::error::{Error, Result};
use crate::failure::IntoFailure;
use crate::scope::{self, Scope};
use crate::signal::Signal;
use crate::subject::Subject;
use crate::task::{Ending, Task, prepare};
use crate::wait::{WaitFor, WaitUntil};
use crate::wire::{Data, attempt_result, store_or_panic};
use crate::workflow::WorkflowState;

/// The context of a workflow; `S` is the state of a `#[workflow] impl`.
pub struct Ctx<S: 'static = ()> {
    raw: Context,
    state: PhantomData<fn() -> S>,
}

impl<S> Clone for Ctx<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Ctx<S> {}

impl<S> fmt::Debug for Ctx<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ctx<{}>", type_name::<S>())
    }
}

/// Durable operations. Each is scheduled when it is called and awaited when its result is
/// needed; dropping it before that cancels it.
impl<S> Ctx<S> {
    /// Runs an activity.
    ///
    /// # Panics
    /// If the input does not serialise or is over the limit: the task fails, and fixed code
    /// resumes the run.
    #[track_caller]
    pub fn run<A, K>(self, activity: A, input: impl Arg<A::Input>) -> Call<A::Output, A::Error>
    where
        A: Activity<K>,
    {
        self.run_named(
            activity.name().into(),
            &activity.defaults(),
            input.payload(),
        )
    }

    /// Runs an activity that this program knows by name only: JSON in, JSON out.
    ///
    /// # Panics
    /// If the input is over the limit.
    #[track_caller]
    pub fn run_raw(self, activity: &str, input: &Value) -> Call<Value> {
        let name = Cow::Owned(activity.to_owned());
        self.run_named(name, &Defaults::default(), Arg::<Value>::payload(input))
    }

    #[track_caller]
    fn run_named<T, E: IntoFailure>(
        self,
        name: Cow<'static, str>,
        defaults: &Defaults,
        input: std::result::Result<Payload, PayloadError>,
    ) -> Call<T, E> {
        let activity_type = ActivityType::from(name.clone());
        let subject = Subject::Activity(name);
        let input = store_or_panic(&subject, input);
        let operation = self.raw.activity(activity_type, input, defaults.options());
        Call::new(self.raw, operation, subject).with_limits_of(defaults)
    }

    /// Waits. The time is durable: a run may sleep through restarts, for years.
    #[track_caller]
    pub fn sleep(self, delay: Duration) -> Call<(), Error, kind::Timer> {
        Call::new(self.raw, self.raw.timer(delay), Subject::Timer(delay))
    }

    /// Runs a closure once and records its result. It may be called again after a failure or a
    /// crash; its result is recorded once.
    #[track_caller]
    pub fn step<T, F, W>(self, name: &str, work: F) -> Call<T, Error, kind::Step>
    where
        T: Data,
        F: Fn() -> W + Send + Sync + 'static,
        W: Future<Output = Result<T>> + Send + 'static,
    {
        let subject = Subject::Step(name.into());
        let asker = subject.clone();
        let code: StepCode = Arc::new(move || {
            let (work, subject) = (work(), subject.clone());
            Box::pin(async move { attempt_result(&subject, work.await, None) })
        });
        let options = StepOptions::default();
        Call::new(
            self.raw,
            self.raw.step(StepName::new(name), options, code),
            asker,
        )
    }

    /// Runs a plain closure once and records what it returns; it cannot fail, unless it panics.
    /// Otherwise as [`step`](Self::step). For what takes long there are blocking activities.
    #[track_caller]
    pub fn step_fn<T, F>(self, name: &str, work: F) -> Call<T, Error, kind::Step>
    where
        T: Data,
        F: Fn() -> T + Send + Sync + 'static,
    {
        let work = Arc::new(work);
        self.step(name, move || {
            let work = Arc::clone(&work);
            async move { Ok(work()) }
        })
    }

    /// Waits for the oldest signal of this name that nobody has taken.
    ///
    /// # Panics
    /// If signals of this name go to a handler: it would wait for ever.
    #[track_caller]
    pub fn recv<T: Data>(self, signal: Signal<T>) -> Call<T, Error, kind::Recv> {
        let (name, subject) = (
            SignalName::new(signal.name()),
            Subject::Signal(signal.name().into()),
        );
        Call::new(self.raw, self.raw.recv(name), subject)
    }

    /// Runs a branch of this workflow beside the others, in its own cancellation scope. If it
    /// fails, it fails the scope it was spawned in: the rest is cancelled, and the failure is the
    /// result of that scope, of main in the end; see [`Task::supervised`].
    #[track_caller]
    pub fn spawn<R: Ending>(
        self,
        branch: impl Future<Output = R> + 'static,
    ) -> Task<R::Value, R::Error> {
        let (branch, slot) = prepare(self.raw, branch);
        Task::new(self.raw.spawn(branch), slot)
    }

    /// Runs `body` in a scope of its own: it is over when all branches spawned in it are. The
    /// first failure cancels the rest and is the result; [`Scope::cancel`] cancels all of it.
    #[track_caller]
    pub fn scope<R, F>(
        self,
        body: F,
    ) -> impl Future<Output = Result<R::Value, CallError<<R::Error as IntoFailure>::Seen>>>
    where
        R: Ending,
        F: AsyncFnOnce(Scope) -> R,
    {
        scope::run(self.raw, Supervision::FailTogether, body)
    }

    /// Runs `body` in a scope of its own, in which every branch fails alone: its failure is seen
    /// by whoever awaits it.
    #[track_caller]
    pub fn supervise<R, F>(
        self,
        body: F,
    ) -> impl Future<Output = Result<R::Value, CallError<<R::Error as IntoFailure>::Seen>>>
    where
        R: Ending,
        F: AsyncFnOnce(Scope) -> R,
    {
        scope::run(self.raw, Supervision::FailAlone, body)
    }

    /// Lets everything else that can run do so first.
    pub fn yield_now(self) -> impl Future<Output = ()> {
        let mut has_yielded = false;
        std::future::poll_fn(move |wakers| {
            if std::mem::replace(&mut has_yielded, true) {
                return Poll::Ready(());
            }
            wakers.waker().wake_by_ref();
            Poll::Pending
        })
    }

    /// Runs `work` out of reach of cancellation: the place for clean-up.
    #[track_caller]
    pub fn shield<T, F>(self, work: F) -> impl Future<Output = T>
    where
        F: AsyncFnOnce() -> T,
    {
        self.raw.shield(|| work())
    }
}

/// Facts.
impl<S> Ctx<S> {
    pub(crate) fn new(raw: Context) -> Self {
        Self {
            raw,
            state: PhantomData,
        }
    }

    pub(crate) fn raw(self) -> Context {
        self.raw
    }

    /// The same context without access to the state.
    pub fn plain(self) -> Ctx {
        Ctx::new(self.raw)
    }

    /// The workflow's time: the same on replay. Does not move while code runs.
    #[track_caller]
    pub fn now(self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_micros(self.raw.now().0)
    }

    /// A random number: the same on replay.
    #[track_caller]
    pub fn random(self) -> u64 {
        self.raw.random()
    }

    /// A random UUID: the same on replay.
    #[track_caller]
    pub fn uuid(self) -> String {
        RunId(self.raw.uuid()).to_string()
    }

    /// The id this workflow was started with.
    #[track_caller]
    pub fn id(self) -> WorkflowId {
        self.raw.workflow_id()
    }

    /// This run.
    #[track_caller]
    pub fn run_id(self) -> RunId {
        self.raw.run_id()
    }

    /// What came with the start of this run.
    #[track_caller]
    pub fn headers(self) -> Headers {
        self.raw.headers()
    }

    /// Whether this workflow, or the branch this is called in, was asked to stop.
    #[track_caller]
    pub fn is_cancelled(self) -> bool {
        self.raw.is_cancelled()
    }

    /// Whether this code ran before and only rebuilds its state: for logs, never for decisions.
    #[track_caller]
    pub fn is_replaying(self) -> bool {
        self.raw.is_replaying()
    }

    /// Events in the history so far.
    #[track_caller]
    pub fn history_events(self) -> u64 {
        self.raw.history_events()
    }
}

impl<S: 'static> Ctx<S> {
    /// Reads or changes the state. The closure cannot wait, so a borrow never lives across an
    /// await. Conditions are tested afterwards; to look only, there is [`read`](Self::read).
    ///
    /// # Panics
    /// If it is called inside another `ctx.with`: both places are named. Inside a condition, a
    /// query or a validator.
    #[track_caller]
    pub fn with<R>(self, look: impl FnOnce(&mut S) -> R) -> R
    where
        S: WorkflowState,
    {
        self.with_any(look)
    }

    /// Looks at the state.
    ///
    /// # Panics
    /// If it is called inside another `ctx.with` or `ctx.read`: both places are named.
    #[track_caller]
    pub fn read<R>(self, look: impl FnOnce(&S) -> R) -> R
    where
        S: WorkflowState,
    {
        self.read_any(look)
    }

    /// Waits until the condition holds. It is tested now, and then whenever everything waits and
    /// state was written; it only looks. If it panics, the wait gives
    /// [`CallError::Panicked`].
    ///
    /// # Panics
    /// If it is called inside `ctx.with`: both places are named.
    #[track_caller]
    pub fn wait_until(self, condition: impl Fn(&S) -> bool + 'static) -> WaitUntil
    where
        S: WorkflowState,
    {
        let wait = self
            .raw
            .wait_until(Box::new(move |state| condition(Self::state(state))));
        WaitUntil::new(self.raw, wait)
    }

    /// Waits until there is a value, and gives it: `ctx.wait_for(|s| s.order.clone())`. The closure
    /// is asked when [`wait_until`](Self::wait_until) would test its condition; the first `Some` is
    /// the result.
    ///
    /// # Panics
    /// If it is called inside `ctx.with`: both places are named.
    #[track_caller]
    pub fn wait_for<T: 'static>(self, look: impl Fn(&S) -> Option<T> + 'static) -> WaitFor<T>
    where
        S: WorkflowState,
    {
        WaitFor::new(self.raw, move |state| look(Self::state(state)))
    }

    fn state(state: &dyn Any) -> &S {
        match state.downcast_ref::<S>() {
            Some(state) => state,
            None => panic!("the state of this workflow is not a `{}`", type_name::<S>()),
        }
    }

    #[track_caller]
    pub(crate) fn read_any<R>(self, look: impl FnOnce(&S) -> R) -> R {
        self.raw.read_state(|state| look(Self::state(state)))
    }

    #[track_caller]
    pub(crate) fn with_any<R>(self, look: impl FnOnce(&mut S) -> R) -> R {
        self.raw
            .with_state(|state| match state.downcast_mut::<S>() {
                Some(state) => look(state),
                None => panic!("the state of this workflow is not a `{}`", type_name::<S>()),
            })
    }
}

#[cfg(test)]
pub(crate) mod play;
#[cfg(test)]
mod tests;
