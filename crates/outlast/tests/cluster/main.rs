//! A Temporal cluster under fire: workers that are killed, a server that goes away, wrong keys.
//!
//! Workers are processes: this very binary, asked for [`worker::process`]. What they do is said
//! line by line, so that whoever kills them knows what was in their hands.
#![cfg(feature = "temporal")]

mod absence;
mod fake;
mod journey;
mod kills;
mod queues;
mod recycled;
#[path = "../sim/rng.rs"]
#[allow(dead_code, unreachable_pub, reason = "others use the rest")]
mod rng;
#[path = "../support/mod.rs"]
mod support;
mod worker;
