//! What the runtime is given: workflow code with its types erased, and those who want to know
//! what it does.
//!
//! The typed side of the house decodes and encodes; the runtime moves payloads only. Nothing
//! here is `Send` but what must leave the instance's thread: the code of steps, and the bell that
//! a foreign wake rings.

use std::fmt;
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use outlast_model::command::ContinueAsNew;
use outlast_model::event::{Site, Started, UpdateRequest};
use outlast_model::task::{AttemptResult, Query};
use outlast_model::{Failure, Payload, RunId, SignalName};

use crate::context::Context;
use crate::failure::TaskFailure;

/// The future of a workflow's main function.
pub type MainFuture = Pin<Box<dyn Future<Output = MainOutcome>>>;

/// A registered workflow, its types erased.
pub trait Program {
    /// Decodes the input, registers handlers and state, and returns main, not yet polled.
    ///
    /// # Errors
    /// The input does not decode: the workflow task fails, not the run.
    fn start(&self, ctx: Context, started: &Started) -> Result<MainFuture, Failure>;
}

/// How main ended.
#[derive(Clone, Debug, PartialEq)]
pub enum MainOutcome {
    /// With a result.
    Completed(Payload),
    /// With an error.
    Failed(Failure),
    /// Because it was asked to stop.
    Canceled,
    /// To go on as a new run. Signals that nobody took are added to those it names.
    ContinueAsNew(Box<ContinueAsNew>),
}

/// The code of a step: makes the future of one attempt.
pub type StepCode =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = AttemptResult> + Send>> + Send + Sync>;

/// What a signal handler returns.
pub type HandlerFuture = Pin<Box<dyn Future<Output = Result<(), Failure>>>>;

/// Code that answers signals of one name.
pub type SignalHandler = Rc<dyn Fn(Context, Payload) -> HandlerFuture>;

/// Code that answers signals of any name.
pub type AnySignalHandler = Rc<dyn Fn(Context, SignalName, Payload) -> HandlerFuture>;

/// Code that answers updates.
#[derive(Clone)]
pub struct UpdateHandler {
    /// Says whether an update may run. It only reads. A payload that does not decode is turned
    /// away here: once accepted, an update runs.
    pub validator: Option<UpdateValidator>,
    /// Runs it.
    pub code: UpdateCode,
    /// What becomes of it when main returns first.
    pub end: HandlerEnd,
}

impl fmt::Debug for UpdateHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpdateHandler")
            .field("has_validator", &self.validator.is_some())
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

/// Says whether an update may run, or why not.
pub type UpdateValidator = Rc<dyn Fn(Context, &UpdateRequest) -> Result<(), Failure>>;

/// Runs an accepted update.
pub type UpdateCode = Rc<dyn Fn(Context, UpdateRequest) -> UpdateFuture>;

/// What the handler of an update returns.
pub type UpdateFuture = Pin<Box<dyn Future<Output = Result<Payload, Failure>>>>;

/// Code that answers queries. It only reads.
pub type QueryHandler = Rc<dyn Fn(Context, &Query) -> Result<Payload, Failure>>;

/// Shows the workflow's state. It only reads.
pub type StateView = Rc<dyn Fn(Context) -> Result<Payload, Failure>>;

/// What becomes of a handler that still waits when main has returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandlerEnd {
    /// It is dropped, and a warning names it.
    #[default]
    Warn,
    /// It is dropped.
    Abandon,
    /// The run closes when it has ended.
    Finish,
}

/// The future of a spawned branch.
pub type BranchFuture = Pin<Box<dyn Future<Output = Result<(), Failure>>>>;

/// Told where the code is. Whoever runs slices measures time with it: the runtime has no clock.
pub trait SliceWatch {
    /// User code is about to run. `Break`: nobody waits for this slice any more, and it ends here.
    fn before_poll(&self, branch: &str, last_call: Option<&Site>) -> ControlFlow<()>;

    /// Destructors of user code are about to run, whether somebody waits or not. `last_call`: of
    /// the branch they belong to, if it is another than before.
    fn before_drop(&self, _what: &str, _last_call: Option<&Site>) {}

    /// A part of the task is done, of which there are only so many: a recorded activation was
    /// replayed, a question answered. Each has its time for itself.
    fn part_done(&self) {}

    /// A warning of an instance that is dropped with its task; those of one that lives on are
    /// fetched from it.
    fn warned(&self, _warning: &str) {}
}

impl dyn SliceWatch + '_ {
    /// User code is about to run, if somebody still waits for it.
    pub(crate) fn enter(&self, branch: &str, last_call: Option<&Site>) -> Result<(), TaskFailure> {
        match self.before_poll(branch, last_call) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(TaskFailure::given_up()),
        }
    }
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl SliceWatch for Unwatched {
    fn before_poll(&self, _: &str, _: Option<&Site>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Called, from any thread, when something foreign woke a task between slices.
pub type ForeignWake = Arc<dyn Fn(RunId) + Send + Sync>;
