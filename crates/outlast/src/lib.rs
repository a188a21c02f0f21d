//! Durable execution for Rust: you write ordinary async Rust, and it outlasts the process, the
//! deploy and the machine.
//!
//! A **workflow** ([`#[workflow]`](macro@workflow)) is an async function whose progress is
//! recorded; an **activity** ([`#[activity]`](macro@activity)) is a function with effects that a
//! workflow asks for with [`Ctx::run`]. Whatever crashes, a workflow goes on where its record
//! ends.
//!
//! Others reach a run with **signals**, **queries** and **updates**: methods of a
//! `#[workflow] impl` and of its generated handle, or constants ([`Signal`], [`Query`],
//! [`Update`]) of a function workflow. `docs/clippy.toml` of the repository finds much of what
//! workflow code must not do.
//!
//! Reading order of this crate: [`Ctx`] and [`Call`] for what workflow code can do; [`Error`]
//! and [`CallError`] for how it fails; [`App`] and [`Handle`] for who starts it and talks to it.

#[cfg(test)]
// The macros write `::outlast`; in this crate's own tests that is the crate itself.
extern crate self as outlast;

mod activity;
mod activity_ctx;
mod answer;
mod arg;
mod builder;
mod call;
mod call_error;
mod cancellable;
mod child;
mod client;
pub mod combine;
pub mod config;
mod continuing;
mod ctx;
mod door;
mod embedded;
mod erase;
mod error;
mod external;
mod failure;
#[cfg(doctest)]
mod guide;
mod handle;
mod handlers;
pub mod intercept;
mod lifecycle;
pub mod metrics;
mod observe;
mod on;
mod outgoing;
mod patch;
mod promise;
mod query;
mod queue;
mod readers;
mod run_reply;
mod scope;
mod select;
mod signal;
mod signals;
mod start;
mod start_with;
mod state;
mod subject;
pub mod sync;
mod task;
pub mod testing;
mod trace;
mod undo;
mod units;
mod update;
mod via;
mod wait;
pub mod why;
mod wire;
mod witness;
mod workflow;

pub use activity::{Activity, ActivityCtx, ActivityDef, ActivityFn, ActivityTaskHandle};
pub use answer::{Answering, Later, OpenActivity};
pub use arg::Arg;
pub use builder::{Builder, Outlast};
pub use call::{Call, kind};
pub use call_error::CallError;
pub use cancellable::{Cancellable, CancellableFuture};
pub use child::{ChildOf, Started};
pub use client::App;
pub use config::Config;
pub use continuing::{CarriesOn, Continuation};
pub use ctx::Ctx;
pub use error::{Error, Result, ResultExt};
pub use external::External;
pub use failure::{Failure, FailureTrace, IntoFailure, Opaque, Retry};
pub use handle::Handle;
pub use lifecycle::Stopped;
pub use observe::{Health, HealthReason, StateWatch};
pub use on::{Answered, OnSignal, OnUpdate};
pub use promise::{PromiseHandle, Settling};
pub use query::{Asking, Query, query};
pub use queue::QueueBuilder;
pub use scope::Scope;
pub use select::{DurableExt, Timeout};
pub use signal::{Sent, Signal, signal};
pub use signals::{ShutdownSignal, ShutdownTrigger};
pub use start::{Run, Start};
pub use start_with::{StartWithSignal, StartWithUpdate};
pub use state::{FromActivity, State};
pub use task::{Ending, Task};
pub use trace::Trace;
pub use undo::Undoes;
pub use units::UnitExt;
pub use update::{Accepting, Update, UpdateHandle, Updating, update};
pub use via::Via;
pub use wait::{WaitFor, WaitUntil};
pub use workflow::{Workflow, WorkflowDef, WorkflowFn, WorkflowState};

pub use outlast_model as model;
pub use outlast_model::start::{ConflictPolicy, ReusePolicy};
pub use outlast_model::task::{Permit, SlotKind, StopReason};
pub use outlast_model::view::{Description, ListFilter, Summary};
pub use outlast_model::{
    AnswerToken, CancelMode, ChildCancel, Headers, ParentClose, Payload, Priority, Refusal,
    RetryPolicy, RunId, Status, WorkflowId,
};
pub use outlast_runtime::HandlerEnd;
#[cfg(feature = "sqlite")]
pub use outlast_service::sqlite::OpenError;
pub use outlast_worker::event;
pub use outlast_worker::settings::{self, SlotPolicy};
pub use outlast_worker::standing::{Life, Standing};
pub use outlast_worker::state::{SlotState, ThreadState, WorkerState};
pub use outlast_worker::{Ask, Events, Settings, Severity, SlotSupplier, WorkerEvent};

#[cfg(feature = "macros")]
pub use outlast_macros::{Failure, activity, test, workflow};

/// What most programs need: `use outlast::prelude::*`.
pub mod prelude {
    pub use crate::{
        ActivityCtx, CallError, Ctx, DurableExt, Error, Failure, Outlast, Query, Result, ResultExt,
        RetryPolicy, Signal, State, UnitExt, Update, query, signal, testing::TestEnv, update,
    };

    #[cfg(feature = "macros")]
    pub use crate::{activity, workflow};
}

/// `Ok` with the error type already known, for async blocks: `async { ..; outlast::Ok(v) }`.
///
/// # Errors
/// Never.
#[expect(non_snake_case, reason = "stands in for the variant of the same name")]
pub fn Ok<T>(value: T) -> Result<T> {
    std::result::Result::Ok(value)
}

/// What the macros name. Not for people: it changes without notice.
#[doc(hidden)]
pub mod __private {
    pub use crate::activity::{
        ActivityBody, ActivityMeta, Blocking, Code, Defaults, async_code, blocking_code,
    };
    pub use crate::continuing::ContinuesWith;
    pub use crate::handlers::{
        Handled, Handlers, Plain, ShowAsJson, ShowNothing, Shown, now, plain, unchecked,
    };
    pub use crate::outgoing::Encoded;
    pub use crate::query::{AskingOf, ask};
    pub use crate::state::{Extract, Has, Here, ProvidedBy, There};
    pub use crate::update::{UpdatingOf, send_update};
    pub use crate::wire::{Data, Outcome, assert_data};
    pub use crate::workflow::{HandleOf, LocalFuture, WorkflowBody, WorkflowMeta, main_future};
    pub use tokio;
}
