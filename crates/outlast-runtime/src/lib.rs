//! The language side of the activation protocol: activation in, commands out.
//!
//! The runtime runs workflow code for an activation and returns its commands; it replays
//! histories and finds every difference. It is pure: no clock, no I/O, no threads, no hash
//! order. Of the standard library it uses a thread-local slab, `catch_unwind` and `Arc`s for
//! wakers; everything else would run without it.
//!
//! Reading order: [`program`] says what it is given, [`context`] and [`operation`] what workflow
//! code holds, [`instance`] how a slice runs, [`task`] how a workflow task and a replay are made
//! of slices.
#![allow(
    clippy::result_large_err,
    reason = "failures are rare, and are moved on as they are"
)]

pub mod branch;
mod cell;
mod check;
pub mod context;
mod executor;
pub mod failure;
pub mod guard;
pub mod instance;
mod leftover;
mod mailbox;
pub mod operation;
pub mod program;
mod question;
pub mod random;
mod scope;
mod shared;
mod slab;
mod table;
pub mod task;
mod turn;
mod undo;
mod update;
mod wake;

pub use branch::{Branch, Scope, Shield};
pub use context::{Context, in_slice};
pub use failure::TaskFailure;
pub use instance::{Instance, WaitingBranch};
pub use operation::{Kind, Operation};
pub use program::{
    AnySignalHandler, BranchFuture, ForeignWake, HandlerEnd, HandlerFuture, MainFuture,
    MainOutcome, Program, QueryHandler, SignalHandler, SliceWatch, StateView, StepCode, Unwatched,
    UpdateCode, UpdateFuture, UpdateHandler, UpdateValidator,
};
pub use task::{ReplayChecks, replay, run_task};
