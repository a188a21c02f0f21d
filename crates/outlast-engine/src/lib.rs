//! The rules of a run: what a Temporal server's history service does, as a function.
//!
//! [`apply()`] takes a run, an [`Input`] and the time, and says what to write and what to do once
//! it is written. A run is the fold of its [records](outlast_model::Record): deciding means
//! making records, and every record changes the run through [`Run::evolve`] alone, live and when
//! it is loaded. So what is in memory cannot differ from what is on disk.
//!
//! No I/O, no clock, no randomness, no threads: time and ids are arguments.
//!
//! Reading order: [`input`], [`apply()`](apply::apply), then the machines ([`workflow_task`],
//! [`activity`], [`timer`], [`step`], [`close`]), then [`run`], what they all write to.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod activity;
pub mod apply;
pub mod child;
pub mod close;
pub mod completion;
pub mod deadline;
pub mod decision;
pub mod describe;
pub mod input;
mod measure;
pub mod passing;
pub mod post;
mod rare;
pub mod request;
pub mod retry;
pub mod run;
pub mod start;
pub mod step;
pub mod successor;
pub mod timer;
pub mod update;
pub mod workflow_task;

pub use apply::{Error, apply, repeated};
pub use decision::{Decision, Effect};
pub use input::Input;
pub use run::{Corrupt, Run};
