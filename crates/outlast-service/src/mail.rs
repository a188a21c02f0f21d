//! What arrives at a shard, and how it is answered.
//!
//! An answer is sent only when everything it depends on is durable: answers travel with the
//! batch that carries their cause, and leave from whoever committed it.

use outlast_engine::Input;
use outlast_model::Refusal;
use outlast_model::event::UpdateRequest;
use outlast_model::post::{Post, PostNo};
use outlast_model::start::{StartReply, StartRequest, UpdateReply, UpdateStage};
use outlast_model::task::{AttemptOutcome, AttemptToken, Query, StopReason};
use outlast_model::view::{Description, RunOutcome, RunRef};
use outlast_model::{Payload, RunId, UpdateId};

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
        /// A message that goes with it, in the same commit.
        with: Option<With>,
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
    /// An update: a message that is answered.
    Update {
        /// To whom.
        run: RunRef,
        /// What.
        request: UpdateRequest,
        /// When to answer.
        stage: UpdateStage,
        /// Told when it has come so far, durably.
        reply: Reply<UpdateReply>,
    },
    /// A question about a run's state.
    Query {
        /// Which run.
        run: RunRef,
        /// What.
        query: Query,
        /// Told when the state it was asked of is durable.
        reply: Reply<Payload>,
    },
    /// What a run says to another.
    Post {
        /// Its number in the store.
        no: PostNo,
        /// What.
        post: Box<Post>,
        /// The life of the shards it was read in: later ones read it again.
        generation: u64,
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
    /// Somebody outside reports for an attempt.
    Report {
        /// To whom.
        run: RunRef,
        /// What: an [`Input::Report`].
        input: Input,
        /// Told, when it is durable, whether to stop.
        reply: Reply<Option<StopReason>>,
    },
    /// Something that is not durable woke this run's code.
    ForeignWake(RunId),
    /// Code that kept this run from its own has come back.
    MayGoOn(RunId),
    /// Look again: the clock was moved, or a commit became durable that somebody waits for.
    Look,
}

impl Mail {
    /// Whether a caller sent it, or another run whose post is kept anyway: both can come again.
    pub(crate) fn is_from_outside(&self) -> bool {
        match self {
            Self::Start { .. }
            | Self::Message { .. }
            | Self::Update { .. }
            | Self::Query { .. }
            | Self::Post { .. }
            | Self::Wait { .. }
            | Self::Describe { .. }
            | Self::Report { .. } => true,
            Self::Outcomes(_)
            | Self::Heartbeat(..)
            | Self::ForeignWake(_)
            | Self::MayGoOn(_)
            | Self::Look => false,
        }
    }

    /// It was not taken: whoever waits for an answer hears that nothing of it happened.
    pub(crate) fn turn_away(self) {
        let refusal = Refusal::ShuttingDown;
        match self {
            Self::Start { reply, with, .. } => {
                if let Some(With::Update(_, _, reply)) = with {
                    reply(Err(refusal.clone()));
                }
                reply(Err(refusal));
            }
            Self::Message { reply, .. } => reply(Err(refusal)),
            Self::Update { reply, .. } => reply(Err(refusal)),
            Self::Query { reply, .. } => reply(Err(refusal)),
            Self::Wait { reply, .. } => reply(Err(refusal)),
            Self::Describe { reply, .. } => reply(Err(refusal)),
            Self::Report { reply, .. } => reply(Err(refusal)),
            Self::Post { .. }
            | Self::Outcomes(_)
            | Self::Heartbeat(..)
            | Self::ForeignWake(_)
            | Self::MayGoOn(_)
            | Self::Look => {}
        }
    }
}

impl std::fmt::Debug for Mail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Start { .. } => "Start",
            Self::Message { .. } => "Message",
            Self::Update { .. } => "Update",
            Self::Query { .. } => "Query",
            Self::Post { .. } => "Post",
            Self::Wait { .. } => "Wait",
            Self::Describe { .. } => "Describe",
            Self::Outcomes(_) => "Outcomes",
            Self::Heartbeat(..) => "Heartbeat",
            Self::Report { .. } => "Report",
            Self::ForeignWake(_) => "ForeignWake",
            Self::MayGoOn(_) => "MayGoOn",
            Self::Look => "Look",
        })
    }
}

/// A message that goes with a start.
pub enum With {
    /// A signal: the start is answered when both are durable.
    Signal(Input),
    /// An update, answered on its own.
    Update(UpdateRequest, UpdateStage, Reply<UpdateReply>),
}

impl std::fmt::Debug for With {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Signal(_) => "Signal",
            Self::Update(..) => "Update",
        })
    }
}

/// An answer on its way out, once its batch is durable.
pub enum Ack {
    /// To a start.
    Start(Reply<StartReply>, StartReply),
    /// To a message that had its effect, or why it had none.
    Message(Reply<()>, Result<(), Refusal>),
    /// To a report from outside: whether to stop, or why it had no effect.
    Report(
        Reply<Option<StopReason>>,
        Result<Option<StopReason>, Refusal>,
    ),
    /// To whoever waits for the end of a run.
    Closed(Reply<RunOutcome>, RunOutcome),
    /// To an update, or why there is none.
    Update(Reply<UpdateReply>, Result<UpdateReply, Refusal>),
    /// To whoever waits for an update to come so far.
    Updated {
        /// Which.
        id: UpdateId,
        /// How far.
        stage: UpdateStage,
        /// Who.
        reply: Reply<UpdateReply>,
        /// The answer, or why there is none.
        answer: Result<UpdateReply, Refusal>,
    },
    /// To a query, or why there is none.
    Query(Reply<Payload>, Result<Payload, Refusal>),
}

impl Ack {
    /// It is durable.
    pub fn send(self) {
        match self {
            Self::Start(reply, answer) => reply(Ok(answer)),
            Self::Message(reply, answer) => reply(answer),
            Self::Report(reply, answer) => reply(answer),
            Self::Closed(reply, outcome) => reply(Ok(outcome)),
            Self::Update(reply, answer) => reply(answer),
            Self::Updated { reply, answer, .. } => reply(answer),
            Self::Query(reply, answer) => reply(answer),
        }
    }

    /// It is not, and will not be.
    pub fn refuse(self, refusal: Refusal) {
        match self {
            Self::Start(reply, _) => reply(Err(refusal)),
            Self::Message(reply, _) => reply(Err(refusal)),
            Self::Report(reply, _) => reply(Err(refusal)),
            Self::Closed(reply, _) => reply(Err(refusal)),
            Self::Update(reply, _) => reply(Err(refusal)),
            Self::Updated { reply, .. } => reply(Err(refusal)),
            Self::Query(reply, _) => reply(Err(refusal)),
        }
    }
}

impl std::fmt::Debug for Ack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Start(..) => "Start",
            Self::Message(..) => "Message",
            Self::Report(..) => "Report",
            Self::Closed(..) => "Closed",
            Self::Update(..) => "Update",
            Self::Updated { .. } => "Updated",
            Self::Query(..) => "Query",
        })
    }
}
