//! What must have happened somewhere in the programs: every kind of node, and every meeting
//! that the law speaks of. Silence about what never happened proves nothing.

use outlast_model::event::{CancelOf, ChildEvent, ExternalEvent, UpdateEvent, UpdateOutcome};
use outlast_model::{Command, EventKind, Seq};

use super::bench::Story;
use super::desk::hit;

/// All of them.
pub const ALL: &[&str] = &[
    "Activity",
    "AwaitPut",
    "CancelOther",
    "Child",
    "Deprecated",
    "Detach",
    "Draw",
    "Fail",
    "Join",
    "FirstN",
    "FirstOk",
    "Limited",
    "Locked",
    "Permitted",
    "UntilPanic",
    "OnAnySignal",
    "OnAnyUpdate",
    "OnSignal",
    "OnUpdate",
    "Patched",
    "Promise",
    "Put",
    "Receive",
    "Regret",
    "Scope",
    "ScopeThenCancel",
    "Select",
    "Send",
    "Seq",
    "Shield",
    "SignalOther",
    "Spawn",
    "SpawnThenCancel",
    "Step",
    "Take",
    "Timeout",
    "Timer",
    "Unordered",
    "Until",
    "UntilOrLate",
    "Write",
    "Yield",
    "activity.cancelled-and-completed",
    "activity.failed",
    "attempt.told-to-stop",
    "cancel.in-the-same-slice",
    "cancel.lost-against-the-outcome",
    "cancel.of-a-finished-call",
    "cancel.of-a-running-call",
    "child.asked-at-parent-close",
    "child.cancelled-before-its-start",
    "child.completed",
    "child.ended-at-parent-close",
    "child.failed",
    "child.not-started",
    "code.cancelled",
    "condition.cancelled",
    "condition.met",
    "condition.panicked",
    "condition.too-late",
    "external.failed",
    "handler.left-unfinished",
    "instance.evicted",
    "news.while-code-runs",
    "promise.settled-twice",
    "query.of-a-closed-run",
    "query.unknown",
    "run.cancelled",
    "run.completed",
    "run.continued-with-unread-signals",
    "run.failed",
    "run.terminated",
    "scope.failed",
    "shield.in-a-cancelled-scope",
    "signal.to-the-handler-of-any",
    "signal.unread",
    "slice.rebuilt",
    "step.recorded",
    "task.went-round-again",
    "timeout.in-time",
    "timeout.too-late",
    "timer.cancelled",
    "undo",
    "update.admitted",
    "update.answered-by-the-end",
    "update.completed",
    "update.failed",
    "update.rejected",
    "update.sent-twice",
    "update.without-handler",
];

/// Looks for what only the whole story shows.
pub fn look(story: &Story) {
    for run in &story.runs {
        let (mut requested, mut initiated) = (Vec::new(), Vec::new());
        for event in &run.history {
            if let EventKind::ActivityCancelRequested { seq } = &event.kind {
                requested.push(*seq);
            }
            if let EventKind::ActivityCompleted { seq, .. } = &event.kind
                && requested.contains(seq)
            {
                hit("activity.cancelled-and-completed");
            }
            look_at_child(&event.kind, &mut initiated);
            look_at(&event.kind);
        }
        for command in &run.commands {
            if let Command::ContinueAsNew(next) = command
                && !next.signals.is_empty()
            {
                hit("run.continued-with-unread-signals");
            }
        }
        for note in &run.notes {
            if note.contains("still waits") {
                hit("handler.left-unfinished");
            }
            if note.contains("nobody has read") {
                hit("signal.unread");
            }
        }
    }
    for line in story.told.iter().flatten() {
        look_at_answer(line);
    }
}

/// Keeps the children that nobody has heard of yet.
fn look_at_child(event: &EventKind, initiated: &mut Vec<Seq>) {
    match event {
        EventKind::Child(ChildEvent::Initiated(child)) => initiated.push(child.seq),
        EventKind::Child(child) => initiated.retain(|seq| *seq != child.seq()),
        EventKind::External(ExternalEvent::CancelInitiated(cancel))
            if initiated
                .iter()
                .any(|seq| cancel.of == CancelOf::Child(*seq)) =>
        {
            hit("child.cancelled-before-its-start");
        }
        _ => {}
    }
}

fn look_at(event: &EventKind) {
    let found = match event {
        EventKind::ActivityFailed { .. } => "activity.failed",
        EventKind::ActivityScheduled(activity) if activity.activity_type.as_str() == "undo" => {
            "undo"
        }
        EventKind::TimerCanceled { .. } => "timer.cancelled",
        EventKind::StepRecorded(_) => "step.recorded",
        EventKind::TaskFailed { .. } => "task.went-round-again",
        EventKind::Completed { .. } => "run.completed",
        EventKind::Failed { .. } => "run.failed",
        EventKind::Canceled => "run.cancelled",
        EventKind::Child(ChildEvent::StartFailed { .. }) => "child.not-started",
        EventKind::Child(ChildEvent::Completed { .. }) => "child.completed",
        EventKind::Child(ChildEvent::Failed { .. }) => "child.failed",
        EventKind::External(
            ExternalEvent::SignalFailed { .. } | ExternalEvent::CancelFailed { .. },
        ) => "external.failed",
        EventKind::Update(UpdateEvent::Admitted(_)) => "update.admitted",
        EventKind::Update(UpdateEvent::Completed { outcome, .. }) => match outcome {
            UpdateOutcome::Completed(_) => "update.completed",
            UpdateOutcome::Failed(_) => "update.failed",
        },
        _ => return,
    };
    hit(found);
}

fn look_at_answer(line: &str) {
    let signs = [
        ("UnknownHandler", "update.without-handler"),
        ("Rejected", "update.rejected"),
        ("RunFinished", "update.answered-by-the-end"),
        ("query nobody knows", "query.unknown"),
        ("was settled", "promise.settled-twice"),
    ];
    for (sign, marker) in signs {
        if line.contains(sign) {
            hit(marker);
        }
    }
}
