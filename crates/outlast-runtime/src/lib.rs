//! The language side of the activation protocol: activation in, commands out.
//!
//! The runtime runs workflow code for an activation and returns its commands; it replays
//! histories and finds every difference. It is pure: no clock, no I/O, no threads, no hash
//! order. Of the standard library it uses a thread-local slab, `catch_unwind` and `Arc`s for
//! wakers; everything else would run without it.
//!
//! Reading order: [`program`] says what it is given, [`context`] and [`operation`] what workflow
//! code holds, [`branch`], [`scoped`] and [`ending`] how it runs side by side and ends,
//! [`intercept`] who else may look, [`condition`] and [`wait`] how it waits for itself, [`instance`] how a slice runs, [`task`] how
//! a workflow task and a replay are made of slices.
#![allow(
    clippy::result_large_err,
    reason = "failures are rare, and are moved on as they are"
)]

pub mod branch;
mod cell;
mod check;
pub mod child;
pub mod condition;
pub mod context;
pub mod ending;
mod executor;
mod external;
pub mod failure;
pub mod guard;
pub mod instance;
pub mod intercept;
mod leftover;
mod mailbox;
pub mod operation;
pub mod panic;
mod patch;
pub mod program;
mod promise;
mod question;
pub mod random;
mod rest;
mod rules;
mod scope;
pub mod scoped;
mod shared;
mod slab;
mod state;
mod sync;
mod table;
pub mod task;
mod turn;
mod undo;
mod update;
pub mod wait;
mod wake;

pub use branch::{Branch, Scope, Shield};
pub use child::ChildStarted;
pub use condition::Predicate;
pub use context::{Context, Supervision, in_slice};
pub use ending::BranchEnd;
pub use failure::TaskFailure;
pub use guard::Reader;
pub use instance::{Instance, WaitingBranch};
pub use operation::{Kind, Operation};
pub use program::{
    AnySignalHandler, BranchFuture, ForeignWake, HandlerEnd, HandlerFuture, MainFuture,
    MainOutcome, Program, QueryHandler, SignalHandler, SliceWatch, StateView, StepCode, Unwatched,
    UpdateCode, UpdateFuture, UpdateHandler, UpdateValidator,
};
pub use scoped::Scoped;
pub use task::{ReplayChecks, replay, run_task};
pub use undo::UndoInput;
pub use wait::{Releaser, Wait, Waited};
