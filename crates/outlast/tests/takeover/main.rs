//! One cannot stop the others: workflow code that blocks its thread, code that never comes back,
//! and panics wherever user code is called.

mod again;
mod blocked;
mod drops;
mod endless;
mod gate;
mod panics;
mod pool;
#[path = "../support/mod.rs"]
mod support;
mod types;
mod zombies;
