//! The language side of the activation protocol: activation in, commands out.
//!
//! The runtime runs workflow code for an activation and returns its commands; it replays
//! histories and finds every difference. It is pure: no clock, no I/O, no threads, no hash
//! order. Of the standard library it uses a thread-local slab, `catch_unwind` and `Arc`s for
//! wakers; everything else would run without it.

pub mod context;
pub mod instance;
pub mod operation;
pub mod program;
pub mod task;

pub use context::{Branch, Context, Shield, in_slice};
pub use instance::{Instance, TaskFailure, WaitingBranch};
pub use operation::{Kind, Operation};
pub use program::{
    BranchFuture, ForeignWake, HandlerFuture, MainFuture, MainOutcome, Program, SignalHandler,
    SliceWatch, StepCode, Unwatched,
};
pub use task::{ReplayChecks, replay, run_task};
