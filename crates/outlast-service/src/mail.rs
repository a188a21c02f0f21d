//! What arrives at a shard, and how it is answered.
//!
//! An answer is sent only when everything it depends on is durable: answers travel with the
//! batch that carries their cause, and leave from whoever committed it.

use outlast_engine::Input;
use outlast_model::Refusal;
use outlast_model::start::{StartReply, StartRequest};
use outlast_model::task::{AttemptOutcome, AttemptToken};
use outlast_model::view::{Description, RunOutcome, RunRef};
use outlast_model::{Payload, RunId};

/// Where an answer goes. Called once, from whichever thread made it durable.
pub type Reply<T> = Box<dyn FnOnce(Result<T, Refusal>) + Send>;

/// What arrives at a shard.
pub enum Mail {
    /// Start a run.
    Start {
        /// The request.
        request: Box<StartRequest>,
        /// Told when the start is durable.
        reply: Reply<StartReply>,
        /// Told when the run has ended.
        wait: Option<Reply<RunOutcome>>,
    },
    /// A message, a cancel, a terminate or a retry.
    Message {
        /// To whom.
        run: RunRef,
        /// What.
        input: Input,
        /// Told when it is durable.
        reply: Reply<()>,
    },
    /// Wait for the end of a run.
    Wait {
        /// Which.
        run: RunRef,
        /// Told when it has ended.
        reply: Reply<RunOutcome>,
    },
    /// How does an open run stand?
    Describe {
        /// Which.
        run: RunRef,
        /// Told at once.
        reply: Reply<Description>,
    },
    /// Attempts that ended.
    Outcomes(Vec<AttemptOutcome>),
    /// A running attempt reports.
    Heartbeat(AttemptToken, Payload),
    /// Something that is not durable woke this run's code.
    ForeignWake(RunId),
    /// Look again: the clock was moved, or a commit became durable that somebody waits for.
    Look,
}

impl std::fmt::Debug for Mail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Start { .. } => "Start",
            Self::Message { .. } => "Message",
            Self::Wait { .. } => "Wait",
            Self::Describe { .. } => "Describe",
            Self::Outcomes(_) => "Outcomes",
            Self::Heartbeat(..) => "Heartbeat",
            Self::ForeignWake(_) => "ForeignWake",
            Self::Look => "Look",
        })
    }
}

/// An answer on its way out, once its batch is durable.
pub enum Ack {
    /// To a start.
    Start(Reply<StartReply>, StartReply),
    /// To a message.
    Done(Reply<()>),
    /// To whoever waits for the end of a run.
    Closed(Reply<RunOutcome>, RunOutcome),
}

impl Ack {
    /// It is durable.
    pub fn send(self) {
        match self {
            Self::Start(reply, answer) => reply(Ok(answer)),
            Self::Done(reply) => reply(Ok(())),
            Self::Closed(reply, outcome) => reply(Ok(outcome)),
        }
    }

    /// It is not, and will not be.
    pub fn refuse(self, refusal: Refusal) {
        match self {
            Self::Start(reply, _) => reply(Err(refusal)),
            Self::Done(reply) => reply(Err(refusal)),
            Self::Closed(reply, _) => reply(Err(refusal)),
        }
    }
}

impl std::fmt::Debug for Ack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Start(..) => "Start",
            Self::Done(_) => "Done",
            Self::Closed(..) => "Closed",
        })
    }
}
