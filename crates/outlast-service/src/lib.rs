//! Load, apply, commit, release: where the engine's rules meet a store.
//!
//! The [`store`] port is what a driver must do; [`memory`] is the model of it and the oracle in
//! tests.

pub mod store;
