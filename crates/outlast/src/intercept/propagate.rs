//! Context propagation: a value that follows a call wherever it leads.
//!
//! The client writes it into the headers of what it asks for; a run hands what came with its
//! start to its activities, steps, children, messages and successors. Whoever wants it reads
//! `ctx.headers()`, in a workflow as in an activity. A header that is there already stays.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use outlast_model::{Headers, Payload};
use serde::Serialize;

use super::{
    ClientInterceptor, Interceptor, WorkflowInbound, WorkflowInterceptor, WorkflowOutbound,
};
use crate::ctx::Ctx;

/// The header in which the official SDKs of Temporal keep traces: a map of text, with
/// `traceparent` in it.
pub const TRACER_DATA: &str = "_tracer-data";

/// Hands one header on, from a client to everything that follows.
#[derive(Clone)]
pub struct Propagate {
    name: &'static str,
    /// What a client has now.
    source: Option<Source>,
}

type Source = Arc<dyn Fn() -> Option<Payload> + Send + Sync>;

impl Propagate {
    /// Hands on the header of this name, wherever it was set.
    pub fn new(name: &'static str) -> Self {
        Self { name, source: None }
    }

    /// Clients set it to what this says, unless a call has its own. Values that do not serialise
    /// are left out.
    #[must_use]
    pub fn from<T: Serialize>(
        mut self,
        source: impl Fn() -> Option<T> + Send + Sync + 'static,
    ) -> Self {
        self.source = Some(Arc::new(move || Payload::encode(&source()?).ok()));
        self
    }

    fn fill(&self, headers: &mut Headers, value: impl FnOnce() -> Option<Payload>) {
        if headers.get(self.name).is_none()
            && let Some(value) = value()
        {
            headers.set(self.name, value);
        }
    }
}

impl Interceptor for Propagate {
    fn client(&self) -> Option<Arc<dyn ClientInterceptor>> {
        self.source.as_ref()?;
        Some(Arc::new(self.clone()))
    }

    fn workflow(&self) -> Option<Rc<dyn WorkflowInterceptor>> {
        Some(Rc::new(self.clone()))
    }
}

impl ClientInterceptor for Propagate {
    fn headers(&self, headers: &mut Headers) {
        self.fill(headers, || self.source.as_ref()?());
    }
}

impl WorkflowInbound for Propagate {}

impl WorkflowOutbound for Propagate {
    fn headers(&self, ctx: Ctx, headers: &mut Headers) {
        self.fill(headers, || ctx.headers().get(self.name).cloned());
    }
}

impl fmt::Debug for Propagate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Propagate({})", self.name)
    }
}

/// Hands traces on: `current` gives the W3C `traceparent` of the span a client is in. Other SDKs
/// of Temporal read and write the same header.
pub fn traces(current: impl Fn() -> Option<String> + Send + Sync + 'static) -> Propagate {
    Propagate::new(TRACER_DATA).from(move || Some(BTreeMap::from([("traceparent", current()?)])))
}

/// The W3C `traceparent` that came with a call, if one did.
pub fn traceparent(headers: &Headers) -> Option<String> {
    let mut carrier: BTreeMap<String, String> = headers.read(TRACER_DATA).ok()??;
    carrier.remove("traceparent")
}
