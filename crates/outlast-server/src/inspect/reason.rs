//! Why a run does not move: a closed list, in the order in which reasons count, each with the
//! next step. Trouble of the run's own code comes first: nothing else matters before it is gone.

use outlast_model::event::TaskFailedCause;
use outlast_model::view::{Description, Trouble, Waiting};
use outlast_model::{Status, Timestamp};

use super::text::{ago, span};

/// Why a run does not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// It has ended.
    Ended,
    /// Its records contradict themselves.
    Damaged,
    /// Its code and its history disagree.
    Mismatch,
    /// Its code did not come back.
    Stuck,
    /// Its code took the process down, too often.
    Quarantined,
    /// Its commands break a rule.
    BadCommand,
    /// Its code fails and is tried again.
    Failing,
    /// An attempt failed and the next one is not due yet.
    RetryBackOff,
    /// An activity is due and nobody runs it.
    ActivityPending,
    /// An activity runs.
    ActivityRunning,
    /// An activity's code has returned, and somebody outside will answer.
    Outside,
    /// A step runs or waits.
    Step,
    /// Another run has to end or to answer.
    OtherRun,
    /// An update runs.
    Update,
    /// Workflow code is due.
    Task,
    /// A timer is not due yet.
    Timer,
    /// Nothing but a message would move it.
    Message,
}

/// A reason with what is known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) reason: Reason,
    pub(super) text: String,
    pub(super) next: String,
}

impl Reason {
    /// For programs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Damaged => "damaged",
            Self::Mismatch => "blocked-mismatch",
            Self::Stuck => "blocked-stuck",
            Self::Quarantined => "blocked-quarantined",
            Self::BadCommand => "blocked-bad-command",
            Self::Failing => "failing-task",
            Self::RetryBackOff => "retry-back-off",
            Self::ActivityPending => "activity-pending",
            Self::ActivityRunning => "activity-running",
            Self::Outside => "answer-from-outside",
            Self::Step => "step",
            Self::OtherRun => "other-run",
            Self::Update => "update",
            Self::Task => "task",
            Self::Timer => "timer",
            Self::Message => "message",
        }
    }

    /// What would help. `run` and `db` are as they go on a command line.
    fn next(self, run: &str, db: &str) -> String {
        let look = format!("outlast show {run} --events {db}");
        match self {
            Self::Ended => format!("nothing to do; its story: {look}"),
            Self::Damaged => "keep a copy of the file and restore a backup".into(),
            Self::Mismatch => format!(
                "deploy the code this run began with, or make the change compatible; \
                 a new process tries again by itself; {look}"
            ),
            Self::Stuck => "find the call that does not return at the line named; a new process \
                            tries again by itself"
                .into(),
            Self::Quarantined => format!(
                "its code takes the process down (abort, stack overflow): fix it, then \
                 handle.retry(); {look}"
            ),
            Self::BadCommand => format!("fix what the error names and deploy; {look}"),
            Self::Failing => "fix the error and deploy: the run goes on where it is".into(),
            Self::RetryBackOff => {
                "wait, or fix what the error names: the next attempt finds it".into()
            }
            Self::ActivityPending => {
                "start the process that owns the file; if it runs, check that \
                                      it registers this activity and has a free slot"
                    .into()
            }
            Self::ActivityRunning | Self::Step => {
                "wait; if the process that owns the file is gone, start it: the attempt counts as \
                 lost and is made again; if it takes too long, give it a timeout"
                    .into()
            }
            Self::Outside => "whoever has the activity's token answers with \
                              app.activity(token).complete(..)"
                .into(),
            Self::Task => "start the process that owns the file; if it runs, check that it \
                           registers this workflow"
                .into(),
            Self::OtherRun => "look at the run named: `outlast why` says what keeps it".into(),
            Self::Update => "look at what its handler waits for, above".into(),
            Self::Timer => "wait; the process that owns the file must run by then".into(),
            Self::Message => "send the signal it waits for, or cancel it".into(),
        }
    }
}

/// Everything that keeps the run, what counts most first.
pub(super) fn reasons(run: &Description, now: Timestamp, db: &str) -> Vec<Answer> {
    let id = run.summary.workflow_id.as_str();
    let answer = |(reason, text): (Reason, String)| Answer {
        reason,
        text,
        next: reason.next(id, db),
    };
    if !run.summary.status.is_open() {
        return vec![answer((Reason::Ended, ended(run, now)))];
    }
    let trouble = run.trouble.iter().map(|trouble| troubled(trouble, now));
    let mut waits: Vec<(Reason, String)> = run
        .waiting
        .iter()
        .map(|waiting| waits(waiting, now))
        .collect();
    waits.sort_by_key(|(reason, _)| *reason as u8);
    trouble.chain(waits).map(answer).collect()
}

/// The answer for a run that cannot be read.
pub(super) fn damaged(what: &str, db: &str) -> Answer {
    let reason = Reason::Damaged;
    Answer {
        reason,
        text: what.into(),
        next: reason.next("", db),
    }
}

fn ended(run: &Description, now: Timestamp) -> String {
    let status = run.summary.status;
    let when = run
        .summary
        .closed
        .map_or_else(String::new, |t| format!(", {}", ago(t, now)));
    match (&run.outcome, status) {
        (Some(outlast_model::view::RunOutcome::Failed(failure)), Status::Failed) => {
            format!("it has ended ({status}{when}): {failure}")
        }
        (_, status) => format!("it has ended ({status}{when})"),
    }
}

fn troubled(trouble: &Trouble, now: Timestamp) -> (Reason, String) {
    let reason = match trouble.cause {
        TaskFailedCause::NonDeterminism => Reason::Mismatch,
        TaskFailedCause::Stuck => Reason::Stuck,
        TaskFailedCause::Quarantined => Reason::Quarantined,
        TaskFailedCause::BadCommand => Reason::BadCommand,
        TaskFailedCause::WorkerUnhandledFailure | TaskFailedCause::UnhandledCommand => {
            Reason::Failing
        }
    };
    let (since, tries) = (ago(trouble.since, now), trouble.attempts);
    let next = match trouble.next_try {
        Some(time) => format!("next try {}", ago(time, now)),
        None => "not tried again by itself".into(),
    };
    let text = format!(
        "its code fails ({}), first {since}, {tries} times, {next}: {}",
        trouble.cause.name(),
        trouble.failure
    );
    (reason, text)
}

fn waits(waiting: &Waiting, now: Timestamp) -> (Reason, String) {
    match waiting {
        Waiting::ActivityPending { .. }
        | Waiting::ActivityRunning { .. }
        | Waiting::ActivityOutside { .. } => waits_for_activity(waiting, now),
        Waiting::Step {
            name,
            attempt,
            site,
            ..
        } => (
            Reason::Step,
            format!("step {name:?} is not done (attempt {attempt}, {site})"),
        ),
        Waiting::Timer { due, site, .. } if *due > now => (
            Reason::Timer,
            format!("a timer fires {} ({site})", ago(*due, now)),
        ),
        Waiting::Timer { due, site, .. } => (
            Reason::Timer,
            format!("a timer was due {} ({site})", ago(*due, now)),
        ),
        Waiting::Child { .. }
        | Waiting::SignalExternal { .. }
        | Waiting::CancelExternal { .. }
        | Waiting::Update { .. } => waits_for_others(waiting),
        Waiting::Task => (
            Reason::Task,
            "its code has something to see and has not run yet".into(),
        ),
        Waiting::Message => (
            Reason::Message,
            "it waits for a message or a condition".into(),
        ),
    }
}

/// What an activity has to bring.
fn waits_for_activity(waiting: &Waiting, now: Timestamp) -> (Reason, String) {
    let last = |failure: &Option<outlast_model::Failure>| match failure {
        Some(failure) => format!("; last error: {failure}"),
        None => String::new(),
    };
    match waiting {
        Waiting::ActivityPending {
            activity_type,
            attempt,
            due,
            last_failure,
            site,
            ..
        } if *due > now => {
            let (due, last) = (ago(*due, now), last(last_failure));
            let text = format!(
                "activity {activity_type} tries again {due} (attempt {attempt}, {site}){last}"
            );
            (Reason::RetryBackOff, text)
        }
        Waiting::ActivityPending {
            activity_type,
            attempt,
            due,
            last_failure,
            site,
            ..
        } => {
            let (due, last) = (span(now.since(*due)), last(last_failure));
            let text = format!(
                "activity {activity_type} has been due for {due} (attempt {attempt}, {site}){last}"
            );
            (Reason::ActivityPending, text)
        }
        Waiting::ActivityRunning {
            activity_type,
            attempt,
            since,
            last_failure,
            site,
            ..
        } => {
            let (since, last) = (span(now.since(*since)), last(last_failure));
            let text = format!(
                "activity {activity_type} runs for {since} (attempt {attempt}, {site}){last}"
            );
            (Reason::ActivityRunning, text)
        }
        Waiting::ActivityOutside {
            activity_type,
            attempt,
            since,
            due,
            site,
            ..
        } => {
            let since = span(now.since(*since));
            let due = due.map_or_else(String::new, |due| {
                format!("; it runs out of time {}", ago(due, now))
            });
            let text = format!(
                "activity {activity_type} has waited {since} for an answer from outside \
                 (attempt {attempt}, {site}){due}"
            );
            (Reason::Outside, text)
        }
        Waiting::Timer { .. }
        | Waiting::Step { .. }
        | Waiting::Child { .. }
        | Waiting::SignalExternal { .. }
        | Waiting::CancelExternal { .. }
        | Waiting::Update { .. }
        | Waiting::Task
        | Waiting::Message => (Reason::Task, String::new()),
    }
}

/// What only another run, or a handler, can bring to an end.
fn waits_for_others(waiting: &Waiting) -> (Reason, String) {
    match waiting {
        Waiting::Child {
            workflow_id,
            is_started,
            site,
            ..
        } => {
            let state = if *is_started {
                "runs"
            } else {
                "is being started"
            };
            (
                Reason::OtherRun,
                format!("its child {workflow_id} {state} ({site})"),
            )
        }
        Waiting::SignalExternal {
            target, name, site, ..
        } => (
            Reason::OtherRun,
            format!(
                "signal {name} is on its way to {} ({site})",
                target.workflow_id
            ),
        ),
        Waiting::CancelExternal { target, site, .. } => (
            Reason::OtherRun,
            format!("a cancel is on its way to {} ({site})", target.workflow_id),
        ),
        Waiting::Update { id, name } => {
            (Reason::Update, format!("update {name} ({id}) is not done"))
        }
        Waiting::ActivityPending { .. }
        | Waiting::ActivityRunning { .. }
        | Waiting::ActivityOutside { .. }
        | Waiting::Timer { .. }
        | Waiting::Step { .. }
        | Waiting::Task
        | Waiting::Message => (Reason::Task, String::new()),
    }
}

#[cfg(test)]
mod tests;
