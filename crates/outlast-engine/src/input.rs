//! Everything that can move a run.

use alloc::boxed::Box;
use alloc::string::String;

use outlast_model::event::UpdateRequest;
use outlast_model::id::{Incarnation, RequestId, Seq, SignalName};
use outlast_model::post::Post;
use outlast_model::start::SignalRequest;
use outlast_model::task::{
    AttemptKind, AttemptOutcome, AttemptResult, AttemptToken, OpenAttempt, TaskAnswer,
};
use outlast_model::{Headers, Payload, Timestamp};

/// Everything that can move a run that has started.
#[derive(Clone, Debug)]
pub enum Input {
    /// A message.
    Signal {
        /// Its name.
        name: SignalName,
        /// Its content.
        input: Payload,
        /// For dedup.
        request_id: Option<RequestId>,
        /// What travels with it.
        headers: Headers,
    },
    /// Somebody asks the run to stop.
    Cancel {
        /// Why.
        reason: String,
        /// For dedup.
        request_id: Option<RequestId>,
    },
    /// Somebody asks something of the run and waits for the answer.
    Update {
        /// What.
        request: UpdateRequest,
        /// Whether workflow code will see it at once: if so, it need not be written first.
        is_fast: bool,
    },
    /// Workflow code does not answer at once: updates it was given are written.
    Admit,
    /// Another run says something.
    Post(Box<Post>),
    /// An operator ends the run.
    Terminate {
        /// Why.
        reason: String,
    },
    /// An attempt ended.
    Outcome(AttemptOutcome),
    /// A running attempt reports.
    Heartbeat {
        /// Which attempt.
        token: AttemptToken,
        /// What it reports.
        details: Payload,
    },
    /// Somebody outside answers for an attempt. Refused if nobody waits for it.
    Answer {
        /// Which attempt.
        attempt: OpenAttempt,
        /// How it ended.
        result: AttemptResult,
    },
    /// Somebody outside reports for an attempt. Refused if nobody waits for it.
    Report {
        /// Which attempt.
        attempt: OpenAttempt,
        /// What it reports.
        details: Payload,
    },
    /// The clock: whatever is due happens.
    Due,
    /// A waiting attempt got a slot in this process.
    HandOut {
        /// Activity or step.
        kind: AttemptKind,
        /// Which.
        seq: Seq,
        /// This process.
        incarnation: Incarnation,
    },
    /// The run was loaded by a new process: attempts of other processes are lost.
    Recover {
        /// This process.
        incarnation: Incarnation,
    },
    /// Somebody wants a blocked run to try again.
    Retry,
    /// The code that was given up as stuck has come back.
    Returned,
    /// Something that is not durable woke workflow code: it gets a task, which will fail.
    ForeignWake,
    /// The first slice after an unclean stop is about to run.
    ArmSlice,
    /// It ran and the process is still there, although workflow code had nothing to answer.
    DisarmSlice,
    /// Workflow code answered.
    Task {
        /// When its slice began: the workflow's time.
        started: Timestamp,
        /// What it said.
        answer: TaskAnswer,
    },
}

impl From<SignalRequest> for Input {
    fn from(signal: SignalRequest) -> Self {
        Self::Signal {
            name: signal.name,
            input: signal.input,
            request_id: signal.request_id,
            headers: signal.headers,
        }
    }
}
