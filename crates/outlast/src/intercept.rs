//! Interceptors: code around every call, for what all of them need and none is about. Traces,
//! tenants, authorisation, logs, limits.
//!
//! ```text
//!   client --[ClientInterceptor]--> backend --[WorkflowInbound]--> workflow code
//!   workflow code --[WorkflowOutbound]--> activity, step, child, timer, other runs
//!   backend --[ActivityInterceptor]--> activity code --[heartbeat]--> backend
//! ```
//!
//! An [`Interceptor`] says which of the three sides it is about. Those of a chain are asked in
//! the order in which they were given to the builder; each may change the arguments and passes
//! on with `next`. What belongs to a call beside its input travels in its [`Headers`](outlast_model::Headers).
//!
//! The workflow side is code of the run: it runs on replay too, must be as deterministic as
//! the workflow itself, and what it asks for are commands like any other. Headers alone are free:
//! replay does not compare them.

mod activity;
mod client;
mod inbound;
mod instance;
mod outbound;
mod propagate;

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use outlast_worker::Registry;
use outlast_worker::port::ClientPort;

use crate::erase::AnyProgram;
use crate::state::States;

pub use activity::{ActivityInterceptor, Attempt, AttemptFuture, AttemptNext};
pub use client::{Answer, ClientInterceptor, Next};
pub use inbound::{
    Execute, ExecuteNext, QueryNext, SignalNext, UpdateNext, ValidateNext, WorkflowInbound,
};
pub use outbound::WorkflowOutbound;
pub use outlast_model::command::ContinueAsNew;
pub use outlast_model::event::UpdateRequest;
pub use outlast_model::job::SignalMessage;
pub use outlast_model::start::{SignalRequest, StartReply, StartRequest, UpdateReply, UpdateStage};
pub use outlast_model::task::{AttemptKind, AttemptResult, Query as QueryRequest};
pub use outlast_model::view::{RunOutcome, RunRef};
pub use outlast_runtime::intercept::{ActivityCall, CancelCall, ChildCall, SignalCall, StepCall};
pub use outlast_runtime::{HandlerFuture, MainFuture, MainOutcome, UpdateFuture};
pub use propagate::{Propagate, TRACER_DATA, traceparent, traces};

pub(crate) use activity::Attempts;

/// Code around calls. The defaults are about nothing.
pub trait Interceptor: Send + Sync + 'static {
    /// Around what clients ask for. Asked once.
    fn client(&self) -> Option<Arc<dyn ClientInterceptor>> {
        None
    }

    /// Around the code of one run. Asked for every instance: what it keeps is of that run, and
    /// is built again when the run is replayed.
    fn workflow(&self) -> Option<Rc<dyn WorkflowInterceptor>> {
        None
    }

    /// Around attempts of activities and steps. Asked once.
    fn activity(&self) -> Option<Arc<dyn ActivityInterceptor>> {
        None
    }
}

/// Both directions of a run: for everything that has both.
pub trait WorkflowInterceptor: WorkflowInbound + WorkflowOutbound {}

impl<T: WorkflowInbound + WorkflowOutbound> WorkflowInterceptor for T {}

/// The interceptors of an application, in the order in which they are asked.
#[derive(Clone, Default)]
pub(crate) struct Interceptors(Vec<Arc<dyn Interceptor>>);

impl Interceptors {
    pub(crate) fn push(&mut self, interceptor: impl Interceptor) {
        self.0.push(Arc::new(interceptor));
    }

    /// Puts them around everything that can run here. Without any, nothing changes.
    pub(crate) fn around<'a>(
        &self,
        registries: impl Iterator<Item = &'a mut Registry>,
        states: &States,
    ) {
        if self.0.is_empty() {
            return;
        }
        let attempts = Attempts::new(self.0.iter().filter_map(|one| one.activity()));
        if let Some(attempts) = &attempts {
            states.intercept_with(attempts.clone());
        }
        for registry in registries {
            if let Some(attempts) = &attempts {
                for (name, code) in &mut registry.activities {
                    *code = attempts.around(name.as_str(), code.clone(), states);
                }
            }
            for program in registry.workflows.values_mut() {
                *program = instance::around(program.clone(), self.clone(), attempts.clone());
            }
        }
    }

    /// Puts them around one workflow, whose attempts run elsewhere.
    pub(crate) fn around_one(&self, program: AnyProgram) -> AnyProgram {
        instance::around(program, self.clone(), None)
    }

    /// Puts them around what clients ask for.
    pub(crate) fn before(&self, port: Arc<dyn ClientPort>) -> Arc<dyn ClientPort> {
        let clients = self.0.iter().rev().filter_map(|one| one.client());
        clients.fold(port, |next, interceptor| client::before(interceptor, next))
    }

    /// Those of one new instance.
    fn of_run(&self) -> Rc<[Rc<dyn WorkflowInterceptor>]> {
        self.0.iter().filter_map(|one| one.workflow()).collect()
    }
}

impl fmt::Debug for Interceptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} interceptors", self.0.len())
    }
}
