//! Events as sentences: what happened, to whom, and what to do next.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use outlast_model::event::{Site, TaskFailedCause};
use outlast_model::task::{AttemptKind, StopReason};
use outlast_model::{Failure, WorkflowType};

use super::{AttemptIn, EvictCause, PanicIn, RunIn, Severity, StopPhase, Stuck, WorkerEvent};

impl WorkerEvent {
    /// What to do about it, if there is something to do.
    pub fn next_step(&self) -> Option<&'static str> {
        Some(match self {
            Self::ThreadFailed { .. } => "raise the limit of threads of this process",
            Self::RuntimeGone => {
                "keep the runtime for as long as the application, or stop that first: \
                 app.shutdown().await; runs go on when it starts again"
            }
            Self::Stopped { left_behind } if !left_behind.is_empty() => {
                "nothing they still do counts; end the process to end them"
            }
            Self::DeadlockWarning(_) => {
                "workflow code must not block: move this work to an activity or a step"
            }
            Self::StuckGivenUp(_) | Self::RunBlocked { .. } => {
                "the run is blocked: fix its code and restart, or let it try again with \
                 app.get(workflow, id).retry()"
            }
            Self::TypeBlocked { .. } => {
                "workflow code must not block: fix it and restart; its runs go on as soon as a thread \
                 comes back"
            }
            Self::CancelIgnored { .. } | Self::Zombie { .. } => {
                "let its code look at is_cancelled() or wait for cancelled()"
            }
            Self::ZombieGivenUp { .. } => "only the end of the process ends it",
            Self::ZombieLimit { .. } => {
                "restart the process, and fix the code that ignores cancellation"
            }
            Self::PanicCaught { .. } => "fix the code; nothing else was harmed",
            Self::TaskFailed { .. } => "it is tried again by itself; fix its code if it stays",
            Self::FailsAgain { .. } => {
                "its retry policy says whether it is tried again, and .retry(..) sets it"
            }
            Self::SlotsExhausted { .. } => "work waits: add slots or workers",
            Self::StoreAway { .. } => {
                "look at the disk of the database file: nothing acknowledged is lost, and work goes \
                 on by itself"
            }
            Self::LogHeld { .. } => {
                "end that reader: nothing is lost meanwhile, and the log begins anew by itself"
            }
            Self::Missed { .. } => "let this subscriber do less per event",
            Self::Starting
            | Self::Started { .. }
            | Self::QueueRegistered { .. }
            | Self::QueueUnregistered { .. }
            | Self::QueueRecycled { .. }
            | Self::Stopping { .. }
            | Self::Stopped { .. }
            | Self::SlowSlice(_)
            | Self::ShardTakenOver { .. }
            | Self::ThreadReturned(_)
            | Self::TypeReleased { .. }
            | Self::ZombieEnded { .. }
            | Self::CodeWarning { .. }
            | Self::NotRegistered { .. }
            | Self::Evicted { .. }
            | Self::BackendUnavailable { .. }
            | Self::BackendBack { .. }
            | Self::StoreBack { .. }
            | Self::AnswerDropped { .. }
            | Self::PartRestarted { .. } => return None,
        })
    }

    fn what(&self) -> String {
        match self {
            Self::Starting => "the worker starts".into(),
            Self::Started { shards } => format!("the worker runs with {shards} engine threads"),
            Self::ThreadFailed { thread, error } => {
                format!("thread {thread} could not start: {error}")
            }
            Self::RuntimeGone => RUNTIME_GONE.into(),
            Self::QueueRegistered { queue } => format!("queue {queue} is served"),
            Self::QueueUnregistered { queue } => format!("queue {queue} is no longer served"),
            Self::QueueRecycled { queue, reason } => {
                format!("queue {queue} has a new connection, nothing is lost: {reason}")
            }
            Self::Stopping { phase, attempts } => {
                format!("the worker stops: {phase}, {attempts} attempts run")
            }
            Self::Stopped { left_behind } => stopped(left_behind),
            Self::SlowSlice(stuck) => format!("a slice takes long: {stuck}"),
            Self::ShardTakenOver { shard } => {
                format!("a spare thread drives shard {shard}: its own is busy with one run")
            }
            Self::DeadlockWarning(stuck) | Self::StuckGivenUp(stuck) => stuck.to_string(),
            Self::ThreadReturned(stuck) => format!("back after all: {stuck}"),
            Self::TypeBlocked {
                workflow_type,
                threads,
            } => type_blocked(workflow_type, *threads),
            Self::TypeReleased { workflow_type } => type_released(workflow_type),
            Self::CancelIgnored {
                attempt,
                reason,
                spent,
            } => {
                let (reason, since) = (why(*reason), seconds(*spent));
                format!("{attempt} was told to stop ({reason}) {since} ago and goes on")
            }
            Self::Zombie { attempt, spent } | Self::ZombieGivenUp { attempt, spent } => {
                zombie(attempt, *spent)
            }
            Self::ZombieEnded { attempt, spent } => zombie_ended(attempt, *spent),
            Self::ZombieLimit { zombies, limit } => format!(
                "{zombies} zombies, {limit} are allowed: the worker takes no more work and stops"
            ),
            Self::PanicCaught { place, message } => format!("panic in {place}: {message}"),
            Self::CodeWarning { run, text } => format!("{run}: {text}"),
            Self::TaskFailed {
                run,
                cause,
                failure,
            }
            | Self::RunBlocked {
                run,
                cause,
                failure,
            } => cannot_go_on(run, *cause, failure),
            Self::NotRegistered { text, .. } => text.clone(),
            Self::FailsAgain { attempt, failure } => format!("{attempt} failed again: {failure}"),
            Self::Evicted { run_id, cause, .. } => format!("run {run_id} left memory: {cause}"),
            Self::SlotsExhausted { queue, kind } => {
                format!("queue {queue}: all {kind} slots are taken")
            }
            Self::BackendUnavailable {
                backend,
                error,
                retry_in,
            } => away(&format!("{backend} does not answer"), error, *retry_in),
            Self::BackendBack { backend, away } => {
                format!("{backend} answers again after {}", seconds(*away))
            }
            Self::StoreAway { error, retry_in } => {
                away("the store takes nothing", error, *retry_in)
            }
            Self::StoreBack { away } => format!("the store is back after {}", seconds(*away)),
            Self::LogHeld { path, bytes } => log_held(path, *bytes),
            Self::AnswerDropped { queue, text } | Self::PartRestarted { queue, text } => {
                format!("queue {queue}: {text}")
            }
            Self::Missed { count } => format!("{count} events were missed"),
        }
    }
}

impl Display for WorkerEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what())?;
        match self.next_step() {
            Some(step) => write!(f, "; {step}"),
            None => Ok(()),
        }
    }
}

const RUNTIME_GONE: &str =
    "the tokio runtime that the application was started on has ended, so nothing can run";

fn log_held(path: &str, bytes: u64) -> String {
    let size = bytes >> 20;
    format!("another program reads {path} without end, so that its log has grown to {size} MiB")
}

fn stopped(left_behind: &[String]) -> String {
    if left_behind.is_empty() {
        return "the worker has stopped".into();
    }
    let all = left_behind.join("; ");
    format!("the worker has stopped and left behind what did not end: {all}")
}

fn zombie(attempt: &AttemptIn, spent: Duration) -> String {
    format!(
        "{attempt} is a zombie: told to stop {} ago, still running",
        seconds(spent)
    )
}

fn zombie_ended(attempt: &AttemptIn, spent: Duration) -> String {
    let late = seconds(spent);
    format!("{attempt} has ended, {late} after it was told to")
}

fn type_blocked(workflow_type: &WorkflowType, threads: usize) -> String {
    format!(
        "workflow type {workflow_type} is blocked: {threads} threads have not come back from its code"
    )
}

fn type_released(workflow_type: &WorkflowType) -> String {
    format!("workflow type {workflow_type} goes on: a thread came back from its code")
}

fn away(what: &str, error: &str, retry_in: Duration) -> String {
    format!("{what}: {error}; tried again in {}", seconds(retry_in))
}

fn cannot_go_on(run: &RunIn, cause: TaskFailedCause, failure: &Failure) -> String {
    format!("{run}: its code cannot go on ({}): {failure}", cause.name())
}

fn seconds(time: Duration) -> String {
    if time < Duration::from_secs(10) {
        format!("{} ms", time.as_millis())
    } else {
        format!("{} s", time.as_secs())
    }
}

fn why(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Cancelled => "cancelled",
        StopReason::TimedOut => "timed out",
        StopReason::NotFound => "its run is gone",
        StopReason::Shutdown => "shutdown",
        StopReason::Paused => "paused",
        StopReason::Reset => "reset",
    }
}

impl Display for RunIn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            run_id,
            workflow_id,
            workflow_type,
        } = self;
        write!(f, "workflow {workflow_id} ({workflow_type}, run {run_id})")
    }
}

impl Display for AttemptIn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            AttemptKind::Activity => "activity",
            AttemptKind::Step => "step",
        };
        let Self {
            run_id,
            name,
            seq,
            attempt,
            ..
        } = self;
        let (seq, attempt) = (seq.0, attempt.0);
        write!(
            f,
            "attempt {attempt} of {kind} {name} (number {seq} of run {run_id})"
        )
    }
}

impl Display for Stuck {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let site = self
            .site
            .as_ref()
            .map_or_else(|| "no durable call yet".into(), Site::to_string);
        write!(
            f,
            "code of {} has not come back for {} ms: branch {}, last durable call {site}, thread {}",
            self.run,
            self.spent.as_millis(),
            self.branch,
            self.thread,
        )
    }
}

impl Display for PanicIn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workflow(run) => run.fmt(f),
            Self::Attempt(attempt) => attempt.fmt(f),
            Self::Callback(name) => f.write_str(name),
        }
    }
}

impl Display for StopPhase {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Finishing => "finishing",
            Self::Cancelling => "cancelling",
            Self::Evicting => "evicting",
            Self::HardStop => "hard stop",
        })
    }
}

impl Display for EvictCause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Runs => "its queue keeps no more runs",
            Self::Bytes => "its queue keeps no more history",
            Self::Closed => "it has ended",
            Self::Asked => "the backend asked for it",
            Self::Failed => "its task failed",
            Self::Stuck => "its code was given up as stuck",
            Self::Thread => "its thread leaves",
        })
    }
}

impl Display for Severity {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}
