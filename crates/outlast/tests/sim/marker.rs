//! Situations that must have happened somewhere in the seeds: a simulation that never gets into
//! one of them is blind there, and its silence proves nothing.

use std::collections::BTreeSet;

/// Every situation.
pub const ALL: &[&str] = &[
    "activity.canceled",
    "activity.completed",
    "activity.failed",
    "activity.timed-out",
    "answer.buffered",
    "attempt.handed-back",
    "attempt.lost-with-its-process",
    "attempt.reported-by-the-dead",
    "attempt.reported-twice",
    "attempt.retried",
    "attempt.told-to-stop",
    "cancel.buffered",
    "chain.completed",
    "child.buffered",
    "child.canceled",
    "child.completed",
    "child.failed",
    "child.initiated",
    "child.not-started",
    "child.started",
    "child.terminated",
    "child.timed-out",
    "clock.back",
    "clock.behind-a-timer",
    "clock.forward",
    "commit.gathered",
    "commit.group",
    "commit.in-flight-two",
    "commit.replaces",
    "commit.snapshot",
    "commit.zombie-refused",
    "crash.after-commit",
    "crash.before-commit",
    "crash.between-commits",
    "describe.answered",
    "epoch.raised",
    "foreign-wake",
    "heartbeat.recorded",
    "instance.evicted",
    "patch",
    "post.cancel",
    "post.cancel-delivered",
    "post.cancel-failed",
    "post.child-ended",
    "post.child-not-started",
    "post.child-started",
    "post.parent-close-cancel",
    "post.parent-close-terminate",
    "post.signal",
    "post.signal-delivered",
    "post.signal-failed",
    "post.start-child",
    "outside.after-restart",
    "outside.answered",
    "outside.left",
    "outside.reported",
    "outside.told-to-stop",
    "outside.too-late",
    "promise.settled-before",
    "query.answered",
    "query.by-replay",
    "query.not-ready",
    "query.of-instance",
    "query.unknown",
    "run.canceled",
    "run.completed",
    "run.continued",
    "run.failed",
    "run.second-of-its-id",
    "run.terminated",
    "run.timed-out",
    "run.unhandled-message",
    "signal.buffered",
    "signal.refused-closed",
    "signal.repeated",
    "slice.armed",
    "slice.back-after-given-up",
    "slice.fast",
    "slice.first-after-crash",
    "slice.given-up",
    "slice.goes-slow",
    "slice.mail-meanwhile",
    "slice.panicked",
    "slice.rebuild",
    "slice.replayed",
    "slice.taken-over",
    "slot.none-free",
    "snapshot.loaded",
    "start.attached",
    "start.refused",
    "start.repeated",
    "start.replaced-another",
    "start.with-signal",
    "start.with-update",
    "step.canceled",
    "step.completed",
    "step.failed",
    "step.retried",
    "stop.clean",
    "stop.in-order",
    "store.failed-but-written",
    "store.failed-not-written",
    "store.full",
    "task.failed-again",
    "task.quarantined",
    "timer.canceled",
    "timer.fired",
    "type.missing",
    "undo",
    "update.accepted",
    "update.admitted",
    "update.buffered",
    "update.completed",
    "update.rejected",
    "update.rejection-recorded",
    "update.repeated",
    "update.run-finished",
    "update.told-accepted",
    "update.told-done",
    "wait.answered",
];

/// Situations that happened.
#[derive(Clone, Debug, Default)]
pub struct Markers(pub BTreeSet<&'static str>);

impl Markers {
    pub fn hit(&mut self, name: &'static str) {
        debug_assert!(ALL.contains(&name), "{name} is not in the list");
        self.0.insert(name);
    }

    pub fn merge(&mut self, other: &Self) {
        self.0.extend(other.0.iter().copied());
    }

    /// Those that never happened.
    pub fn missing(&self) -> Vec<&'static str> {
        let never = ALL.iter().filter(|name| !self.0.contains(**name));
        never.copied().collect()
    }
}
