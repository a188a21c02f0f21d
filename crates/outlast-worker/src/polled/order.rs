//! What the board wants sent to the backend, and the answers it is made of.

use outlast_model::event::TaskFailedCause;
use outlast_model::task::TaskAnswer;
use outlast_model::{Activation, Failure, RunId, Timestamp};

use crate::handle::{Completion, PolledWork};

/// Something to be sent to the backend.
#[derive(Debug, PartialEq)]
pub(super) enum Order {
    /// An answer.
    Answer(Answer),
    /// Something waits for the thread of this lane.
    Ring(usize),
    /// The instance should go.
    Evict { generation: u64, run_id: RunId },
    /// An answer came where none was due: it is thrown away, and somebody should know.
    Refused,
}

/// An answer to what arrived once.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) generation: u64,
    pub(super) run_id: RunId,
    pub(super) completion: Completion,
    /// The run waits until the backend has it.
    pub(super) is_awaited: bool,
}

/// What a thread said, as the backend wants it.
pub(super) fn completion(answer: TaskAnswer, asked: Vec<String>) -> Completion {
    match answer {
        TaskAnswer::Completed { commands, notes: _ } => Completion::Commands(commands),
        TaskAnswer::Queried(answers) => {
            Completion::Queried(asked.into_iter().zip(answers).collect())
        }
        TaskAnswer::Failed { cause, failure } => Completion::Failed { cause, failure },
    }
}

/// The instance is not where its activation came.
pub(super) fn lost() -> Completion {
    let text = "the instance is not in memory; the run is replayed";
    Completion::Failed {
        cause: TaskFailedCause::WorkerUnhandledFailure,
        failure: Failure::application("outlast.CacheMiss", text),
    }
}

pub(super) fn given_back(work: &PolledWork) -> Completion {
    match work {
        PolledWork::Evict { .. } => Completion::Evicted,
        PolledWork::Activate(_) | PolledWork::Ask(_) => lost(),
    }
}

/// The activation that goes with questions.
pub(super) fn nothing_new((now, history_events): (Timestamp, u64)) -> Activation {
    Activation {
        now,
        is_replaying: true,
        history_events,
        suggest_continue_as_new: false,
        jobs: Vec::new(),
    }
}
