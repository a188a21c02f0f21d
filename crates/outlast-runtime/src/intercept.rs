//! Where code that is not the workflow's own may look at what goes in and out of an instance.
//!
//! An interceptor is code of the run: it runs in its polls, on replay too, and what it asks for
//! are commands like any other. It sees an outgoing call before the call has a number, so that
//! its own calls come first and the numbers stay in order. Headers it sets are recorded and never
//! compared; what else it changes is held to the history like the workflow's own code.

use std::rc::Rc;
use std::time::Duration;

use outlast_model::event::UpdateRequest;
use outlast_model::job::SignalMessage;
use outlast_model::task::Query;
use outlast_model::view::RunRef;
use outlast_model::{
    ActivityOptions, ActivityType, ChildOptions, Failure, Headers, Payload, SignalName, StepName,
    StepOptions, WorkflowId, WorkflowType,
};

use crate::context::Context;
use crate::program::{
    HandlerFuture, QueryHandler, SignalHandler, StepCode, UpdateCode, UpdateFuture, UpdateValidator,
};
use crate::shared::{Commands, Shared};

/// All interceptors of one instance.
pub trait Intercept {
    /// A signal reaches its handler.
    fn signal(&self, ctx: Context, signal: SignalMessage, handler: SignalHandler) -> HandlerFuture;

    /// A signal is taken by whoever waits for it.
    fn received(&self, ctx: Context, signal: &mut SignalMessage);

    /// A question reaches its handler. It only reads.
    ///
    /// # Errors
    /// What the answer is instead.
    fn query(&self, ctx: Context, query: Query, handler: &QueryHandler)
    -> Result<Payload, Failure>;

    /// An update is judged, by its validator if it has one. It only reads.
    ///
    /// # Errors
    /// Why it is turned away.
    fn validate(
        &self,
        ctx: Context,
        request: UpdateRequest,
        validator: Option<&UpdateValidator>,
    ) -> Result<(), Failure>;

    /// An accepted update reaches its handler.
    fn update(&self, ctx: Context, request: UpdateRequest, code: UpdateCode) -> UpdateFuture;

    /// Code asks for something.
    fn call(&self, ctx: Context, call: Call<'_>);
}

/// What code asks for, before it has a number.
#[derive(Debug)]
pub enum Call<'a> {
    /// An activity.
    Activity(&'a mut ActivityCall),
    /// A timer.
    Timer(&'a mut Duration),
    /// A step.
    Step(&'a mut StepCall),
    /// A child.
    Child(&'a mut ChildCall),
    /// A message to another run.
    Signal(&'a mut SignalCall),
    /// A request to another run to stop.
    Cancel(&'a mut CancelCall),
}

/// An activity that code asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivityCall {
    /// Its type.
    pub activity_type: ActivityType,
    /// Its input.
    pub input: Payload,
    /// As far as they are known: code may add to them until it yields.
    pub options: ActivityOptions,
    /// What travels with it.
    pub headers: Headers,
}

/// A step that code asks for.
pub struct StepCall {
    /// Its name.
    pub name: StepName,
    /// As far as they are known: code may add to them until it yields.
    pub options: StepOptions,
    /// Makes the future of one attempt.
    pub code: StepCode,
    /// What travels with it. It stays in this process, as the code does.
    pub headers: Headers,
}

impl std::fmt::Debug for StepCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StepCall")
            .field("name", &self.name)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

/// A child that code asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildCall {
    /// Its type.
    pub workflow_type: WorkflowType,
    /// Its id, as far as it is known: without one it is named after this run.
    pub workflow_id: Option<WorkflowId>,
    /// Its input.
    pub input: Payload,
    /// As far as they are known: code may add to them until it yields.
    pub options: ChildOptions,
    /// What travels with it.
    pub headers: Headers,
}

/// A message that code sends to another run.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalCall {
    /// To whom.
    pub target: RunRef,
    /// Its name.
    pub name: SignalName,
    /// Its content.
    pub input: Payload,
    /// What travels with it.
    pub headers: Headers,
}

/// A request that code makes of another run to stop.
#[derive(Clone, Debug, PartialEq)]
pub struct CancelCall {
    /// To whom.
    pub target: RunRef,
    /// Why.
    pub reason: String,
}

impl Shared {
    /// Those of this instance, if it has any.
    pub(crate) fn interceptors(&self) -> Option<Rc<dyn Intercept>> {
        self.interceptors.borrow().clone()
    }

    /// Shows a call to the interceptors, if there are any. A call that will not be made, because
    /// the run has ended or its instance goes away, is none of theirs.
    pub(crate) fn intercept(&self, call: Call<'_>) {
        if let Some(interceptors) = self.interceptors()
            && self.commands.get() == Commands::On
        {
            interceptors.call(Context::at(self.address), call);
        }
    }
}
