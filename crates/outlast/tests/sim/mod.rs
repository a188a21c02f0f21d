//! The simulator: the real shard, the real instances and the model store in one thread, under a
//! seed that decides everything: programs, clients, attempts, time, crashes.
//!
//! Two phases: first with faults, where nothing may ever be wrong; then without, where
//! everything must come to an end. [`driver`] chooses what happens, [`life`] is what can happen
//! to a process, [`stop`] how it goes down in order, [`client`] and [`world`] are what is around it; [`ledger`], [`due`] and [`check`] judge.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::wildcard_enum_match_arm,
    reason = "two test binaries share it; a judge looks for what it knows"
)]

pub mod answer;
pub mod between;
pub mod check;
pub mod client;
pub mod disk;
pub mod driver;
pub mod due;
pub mod ledger;
pub mod life;
pub mod marker;
pub mod normal;
pub mod outside;
pub mod plan;
pub mod post;
pub mod process;
pub mod program;
pub mod rng;
pub mod stop;
pub mod world;
