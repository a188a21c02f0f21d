//! Locks, bells, flags and threads that meet, from one place: under `--cfg shuttle` they are those
//! of a scheduler that tries interleavings, so that the tests explore this very code.

#[cfg(not(shuttle))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize},
};
#[cfg(not(shuttle))]
pub(crate) use std::thread::{Builder, JoinHandle, yield_now};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize},
};
#[cfg(shuttle)]
pub(crate) use shuttle::thread::{Builder, JoinHandle, yield_now};
