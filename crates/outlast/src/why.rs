//! Why a run does not move: a closed list, in the order in which reasons count, each with the
//! next step. Trouble of the run's own code comes first: nothing else matters before it is gone.
//! Then comes whoever should run it and does not; then what it waits for.
//!
//! [`Handle::why`](crate::Handle::why) asks from inside a process that knows its own worker;
//! `outlast why` asks from outside, with what the file says.

mod around;
mod waits;

use outlast_model::event::TaskFailedCause;
use outlast_model::failure::type_name;
use outlast_model::time::ago;
use outlast_model::view::{Description, Trouble, Waiting};
use outlast_model::{Status, Timestamp};

pub use around::Around;
use waits::waits;

/// Why a run does not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
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
    /// No worker has what it needs.
    NotRegistered,
    /// The worker goes down.
    ShuttingDown,
    /// No worker serves its queue, or there is none at all.
    NoWorker,
    /// The store or the server does not answer.
    BackendAway,
    /// An attempt of it was told to stop and goes on.
    Zombie,
    /// All slots are taken.
    SlotsBusy,
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
    /// Signals came that its code has not taken.
    Unread,
    /// Its code had something to say that does not stop it.
    Noted,
}

/// A reason with what is known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which.
    pub reason: Reason,
    /// What is known about it.
    pub text: String,
    /// What would help.
    pub next: String,
}

impl Reason {
    /// For programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Damaged => "damaged",
            Self::Mismatch => "blocked-mismatch",
            Self::Stuck => "blocked-stuck",
            Self::Quarantined => "blocked-quarantined",
            Self::BadCommand => "blocked-bad-command",
            Self::Failing => "failing-task",
            Self::NotRegistered => "not-registered",
            Self::ShuttingDown => "shutting-down",
            Self::NoWorker => "no-worker",
            Self::BackendAway => "backend-away",
            Self::Zombie => "zombie",
            Self::SlotsBusy => "slots-busy",
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
            Self::Unread => "unread-signals",
            Self::Noted => "noted",
        }
    }

    /// What would help. `run` and `db` are as they go on a command line.
    fn next(self, run: &str, db: &str) -> String {
        let look = format!("outlast show {run} --events {db}");
        let look = look.trim_end();
        match self {
            Self::Ended => format!("nothing to do; its story: {look}"),
            Self::Damaged => {
                "keep a copy of the file and restore a backup, or terminate it: its id is \
                              free then, and what is left of it stays in the file"
                    .into()
            }
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
            Self::NotRegistered => "register what is named, in a process that serves its queue: \
                                    the run goes on by itself"
                .into(),
            Self::ShuttingDown => "start the application again: the run goes on where it is".into(),
            Self::NoWorker => "start a process that serves it, and look at what it says".into(),
            Self::BackendAway => "look at the disk or at the server; it is tried again".into(),
            Self::Zombie => "let the code of the attempt look at is_cancelled(); only the end of \
                             the process ends it"
                .into(),
            Self::SlotsBusy => "wait, or give the queue more slots or more workers".into(),
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
            Self::Task => "wait; if it stays so, check that a process owns the file and registers \
                           this workflow"
                .into(),
            Self::OtherRun => "look at the run named: `outlast why` says what keeps it".into(),
            Self::Update => "look at what its handler waits for, above".into(),
            Self::Timer => "wait; the process that owns the file must run by then".into(),
            Self::Message => "send what it waits for, or cancel it".into(),
            Self::Unread => "compare the names with those that its code takes (recv, handlers): \
                             they are kept until it does"
                .into(),
            Self::Noted => {
                "nothing, if it is meant so; else fix the code at the lines named and deploy".into()
            }
        }
    }
}

/// Everything that keeps the run, what counts most first. Of a run in trouble it is known that its
/// code is due: the trouble says why it does not come to rest. `db` is the rest of a command line that
/// names the file, or nothing.
pub fn reasons(run: &Description, around: &Around<'_>, now: Timestamp, db: &str) -> Vec<Answer> {
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
    let is_left = matches!(around, Around::Nobody { .. });
    let mut waits: Vec<(Reason, String)> = run
        .waiting
        .iter()
        .filter(|waiting| run.trouble.is_none() || **waiting != Waiting::Task)
        .map(|waiting| waits(waiting, now, is_left))
        .collect();
    waits.sort_by_key(|(reason, _)| *reason as u8);
    let around = around.reasons(run, now);
    let said = unread(run).into_iter().chain(noted(run));
    let all = trouble.chain(around).chain(waits).chain(said);
    all.map(answer).collect()
}

/// Signals that came and that its code has not taken.
fn unread(run: &Description) -> Option<(Reason, String)> {
    if run.unhandled_signals == 0 {
        return None;
    }
    let mut names: Vec<String> = run.unread.iter().map(ToString::to_string).collect();
    let named: u32 = run.unread.iter().map(|unread| unread.count).sum();
    if named < run.unhandled_signals {
        names.push(format!("others ({})", run.unhandled_signals - named));
    }
    let text = format!(
        "it was sent signals that its code has not taken: {}",
        names.join(", ")
    );
    Some((Reason::Unread, text))
}

/// The newest notes, newest first.
fn noted(run: &Description) -> Option<(Reason, String)> {
    const SHOWN: usize = 3;
    let mut newest: Vec<&str> = run.notes.iter().rev().map(String::as_str).collect();
    let more = newest.len().saturating_sub(SHOWN);
    newest.truncate(SHOWN);
    let text = match (&*newest, more) {
        ([], _) => return None,
        (_, 0) => format!("its code says: {}", newest.join("; ")),
        (_, more) => format!(
            "its code says: {}; and {more} older notes",
            newest.join("; ")
        ),
    };
    Some((Reason::Noted, text))
}

/// The answer for a run that cannot be read.
pub fn damaged(what: &str, db: &str) -> Answer {
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
    if trouble.failure.type_name() == Some(type_name::NOT_REGISTERED) {
        let since = ago(trouble.since, now);
        let text = format!("since {since}: {}", trouble.failure);
        return (Reason::NotRegistered, text);
    }
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
        Some(time) if time <= now => "tried again now".into(),
        Some(time) => format!("next try {}", ago(time, now)),
        None if trouble.cause == TaskFailedCause::Stuck => {
            "tried again when its thread comes back".into()
        }
        None => "not tried again by itself".into(),
    };
    let text = format!(
        "its code fails ({}), first {since}, {tries} times, {next}: {}",
        trouble.cause.name(),
        trouble.failure
    );
    (reason, text)
}

#[cfg(test)]
mod tests;
