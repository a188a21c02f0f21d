//! Another run, seen from workflow code: what is sent to it is durable on both sides.
//!
//! Awaiting says that it arrived, or that there was no open run to take it. It arrives once,
//! whatever crashes in between.

use std::borrow::Cow;
use std::fmt;

use outlast_model::view::RunRef;
use outlast_model::{RunId, SignalName};
use outlast_runtime::Context;
use serde_json::Value;

use crate::arg::Arg;
use crate::call::{Call, kind};
use crate::error::Error;
use crate::outgoing::Encoded;
use crate::signal::Signal;
use crate::subject::Subject;
use crate::wire::store_or_panic;

/// Another run, or the newest run of an id. `ctx.external(id)`, `ctx.get(workflow, id)`.
#[derive(Clone)]
pub struct External {
    ctx: Context,
    run: RunRef,
}

impl External {
    pub(crate) fn new(ctx: Context, run: RunRef) -> Self {
        Self { ctx, run }
    }

    /// The workflow's id.
    pub fn id(&self) -> &str {
        self.run.workflow_id.as_str()
    }

    /// The run, if it is a certain one.
    pub fn run_id(&self) -> Option<RunId> {
        self.run.run_id
    }

    /// Sends a signal. Awaiting gives [`CallError::NotFound`](crate::CallError::NotFound) if there
    /// is no open run.
    #[track_caller]
    pub fn send<T>(
        &self,
        signal: Signal<T>,
        content: impl Arg<T>,
    ) -> Call<(), Error, kind::External> {
        self.send_named(signal.name().into(), content.payload())
    }

    /// Sends a signal that this program knows by name only.
    #[track_caller]
    pub fn send_raw(&self, signal: &str, content: &Value) -> Call<(), Error, kind::External> {
        self.send_named(signal.to_owned().into(), Arg::<Value>::payload(content))
    }

    #[track_caller]
    pub(crate) fn send_named(
        &self,
        name: Cow<'static, str>,
        content: Encoded,
    ) -> Call<(), Error, kind::External> {
        let signal = SignalName::new(&*name);
        let subject = Subject::SignalTo(name, self.run.workflow_id.clone());
        let content = store_or_panic(&subject, content);
        let operation = self.ctx.signal_external(self.run.clone(), signal, content);
        Call::new(self.ctx, operation, subject)
    }

    /// Asks the run to stop. Awaiting says that it was told, not that it has stopped.
    #[track_caller]
    pub fn cancel(&self) -> Call<(), Error, kind::External> {
        let subject = Subject::CancelOf(self.run.workflow_id.clone());
        let reason = format!("asked by workflow {}", self.ctx.workflow_id());
        let operation = self.ctx.cancel_external(self.run.clone(), &reason);
        Call::new(self.ctx, operation, subject)
    }
}

impl fmt::Debug for External {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("External").field(&self.run).finish()
    }
}
