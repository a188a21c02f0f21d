//! What a thread knows of the program it runs: its code, its logs, and what has happened.
//!
//! Thread-local, since workflow code has no other way to the outside that would not change what
//! it does; each program runs on one thread.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use outlast_model::{Payload, RunId};

use super::ast::{Node, Program};
use super::rng::hash;

/// What a condition says that panics as it was asked to.
pub const PANIC: &str = "a condition of a program panics";

thread_local! {
    static PARTS: RefCell<Vec<Vec<Node>>> = RefCell::default();
    static LOGS: RefCell<BTreeMap<RunId, Vec<String>>> = RefCell::default();
    static SEEN: RefCell<BTreeSet<&'static str>> = RefCell::default();
    /// Selects begun, if their order is to depend on that: what no replay can repeat.
    static SELECTS: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The program that runs from now on.
pub fn lay_out(program: &Program) {
    PARTS.replace(program.parts.clone());
    LOGS.take();
}

pub fn part(number: usize) -> Vec<Node> {
    PARTS.with_borrow(|parts| parts.get(number).cloned().unwrap_or_default())
}

pub fn parts() -> usize {
    PARTS.with_borrow(Vec::len)
}

/// This has happened.
pub fn hit(marker: &'static str) {
    SEEN.with_borrow_mut(|seen| {
        seen.insert(marker);
    });
}

/// What has happened on this thread.
pub fn take_seen() -> BTreeSet<&'static str> {
    SEEN.take()
}

/// For all programs of this thread the order of selects depends on luck.
#[cfg(feature = "planted")]
pub fn load_the_dice() {
    SELECTS.set(Some(0));
}

/// By how much a select of so many is turned.
pub fn turn_by(count: usize) -> usize {
    let Some(begun) = SELECTS.get() else {
        return 0;
    };
    SELECTS.set(Some(begun + 1));
    begun % count.max(1)
}

/// What the code of a run noted, newest last. Emptied when an instance is made.
#[derive(Clone, Copy)]
pub struct Log(RunId);

impl Log {
    pub fn new(run_id: RunId) -> Self {
        LOGS.with_borrow_mut(|logs| logs.insert(run_id, Vec::new()));
        Self(run_id)
    }

    pub fn note(self, text: impl Into<String>) {
        LOGS.with_borrow_mut(|logs| logs.entry(self.0).or_default().push(text.into()));
    }

    pub fn len(self) -> u64 {
        log_len(self.0) as u64
    }

    /// All of it, in short.
    pub fn digest(self) -> Payload {
        let digest = LOGS.with_borrow(|logs| {
            let lines = logs.get(&self.0).into_iter().flatten();
            lines.fold(0, |digest, line| hash(digest, line.as_bytes()))
        });
        Payload::bytes(format!("{digest:x}"))
    }
}

pub fn log_len(run_id: RunId) -> usize {
    LOGS.with_borrow(|logs| logs.get(&run_id).map_or(0, Vec::len))
}

pub fn log(run_id: RunId) -> Vec<String> {
    LOGS.with_borrow(|logs| logs.get(&run_id).cloned().unwrap_or_default())
}
