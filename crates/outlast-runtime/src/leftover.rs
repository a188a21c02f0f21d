//! The home of a planted bug: commands made while an instance was evicted.
//!
//! Evicting switches commands off, so nothing ever comes here, unless the bug
//! [`EvictionEmitsCommands`](outlast_model::planted::Bug::EvictionEmitsCommands) is planted.
//! Then they wait, per thread and run, for the next live slice of the run, which sends them as
//! if its code had asked: what would happen if destructors of an evicted instance were heard.

use std::cell::RefCell;
use std::collections::BTreeMap;

use outlast_model::planted::{Bug, is_planted};
use outlast_model::{Command, RunId};

thread_local! {
    static LEFTOVER: RefCell<BTreeMap<RunId, Vec<Command>>> = RefCell::default();
}

/// Keeps commands for the next live slice of the run.
pub(crate) fn keep(run_id: RunId, commands: Vec<Command>) {
    if !commands.is_empty() {
        LEFTOVER.with_borrow_mut(|kept| kept.insert(run_id, commands));
    }
}

/// Takes what was kept.
pub(crate) fn take(run_id: RunId) -> Vec<Command> {
    if !is_planted(Bug::EvictionEmitsCommands) {
        return Vec::new();
    }
    LEFTOVER
        .with_borrow_mut(|kept| kept.remove(&run_id))
        .unwrap_or_default()
}
