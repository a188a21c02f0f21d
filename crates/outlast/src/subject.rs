//! What a message is about: "activity charge", "signal paid". Written out only when needed.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use outlast_model::{PromiseId, WorkflowId};

/// What a value belongs to, or what a call waits for.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Activity(Cow<'static, str>),
    Workflow(&'static str),
    Step(Arc<str>),
    Timer(Duration),
    Signal(Cow<'static, str>),
    Query(Cow<'static, str>),
    Update(Cow<'static, str>),
    Child(Cow<'static, str>),
    SignalTo(Cow<'static, str>, WorkflowId),
    CancelOf(WorkflowId),
    Promise(PromiseId),
}

impl Subject {
    /// What workflow code is given of it.
    pub(crate) fn value(&self) -> &'static str {
        match self {
            Self::Signal(_) | Self::Query(_) | Self::Update(_) => "content",
            Self::Promise(_) => "value",
            Self::Activity(_)
            | Self::Workflow(_)
            | Self::Step(_)
            | Self::Timer(_)
            | Self::Child(_)
            | Self::SignalTo(..)
            | Self::CancelOf(_) => "result",
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Activity(name) => write!(f, "activity {name}"),
            Self::Workflow(name) => write!(f, "workflow {name}"),
            Self::Step(name) => write!(f, "step {name}"),
            Self::Timer(delay) => write!(f, "timer of {delay:?}"),
            Self::Signal(name) => write!(f, "signal {name}"),
            Self::Query(name) => write!(f, "query {name}"),
            Self::Update(name) => write!(f, "update {name}"),
            Self::Child(name) => write!(f, "child {name}"),
            Self::SignalTo(name, id) => write!(f, "signal {name} to {id}"),
            Self::CancelOf(id) => write!(f, "cancel of {id}"),
            Self::Promise(id) => write!(f, "promise {id}"),
        }
    }
}
