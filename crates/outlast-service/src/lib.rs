//! Load, apply, commit, release: where the engine's rules meet a store.
//!
//! The [`store`] port is what a driver must do; [`memory`] is the model of it and the oracle in
//! tests.

pub mod batch;
pub mod clock;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod courtesy;
mod entry;
pub mod faulty;
pub mod inbox;
#[cfg(feature = "sqlite")]
pub mod inspect;
#[cfg(all(test, shuttle))]
mod interleavings;
mod layers;
pub mod mail;
pub mod memory;
pub mod meter;
mod out;
pub mod outlet;
pub mod points;
mod read;
mod salvage;
pub mod service;
pub mod shard;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod store;
mod sync;
pub mod vigil;
mod waiting;
mod writer;
