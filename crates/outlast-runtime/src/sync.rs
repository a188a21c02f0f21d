//! The flags that other threads may touch, from one place: under `--cfg shuttle` they are those
//! of a scheduler that tries interleavings.

#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU8, AtomicU32};
