//! What went wrong, as data: Temporal's failures in meaning.
//!
//! A failure is a chain: the outermost says where it surfaced (an activity, a timeout), its
//! causes say why. The chain is bounded when it is made, so that storing it always succeeds.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::time::Duration;

use minicbor::{Decode, Decoder, Encode, Encoder, decode, encode};

use crate::id::{ActivityType, Seq, WorkflowId, WorkflowType};
use crate::limits::{self, cut};
use crate::payload::Payload;

/// Type names Outlast itself gives to application failures.
pub mod type_name {
    /// User code panicked.
    pub const PANIC: &str = "outlast.Panic";
    /// The process died while the attempt ran.
    pub const WORKER_LOST: &str = "outlast.WorkerLost";
    /// A payload could not be decoded into the declared type.
    pub const DECODE: &str = "outlast.Decode";
    /// A value is over the payload limit.
    pub const TOO_LARGE: &str = "outlast.TooLarge";
    /// A result did not serialise.
    pub const ENCODE: &str = "outlast.Encode";
    /// The run ended before the update it had accepted.
    pub const RUN_FINISHED: &str = "outlast.RunFinished";
    /// There is no handler of this name.
    pub const UNKNOWN_HANDLER: &str = "outlast.UnknownHandler";
    /// A query, validator or condition tried to do something.
    pub const READ_ONLY: &str = "outlast.ReadOnly";
    /// A child's id is taken.
    pub const ALREADY_EXISTS: &str = "outlast.AlreadyExists";
    /// A message to another run found no open run.
    pub const NOT_FOUND: &str = "outlast.NotFound";
    /// No worker has this type.
    pub const NOT_REGISTERED: &str = "outlast.NotRegistered";
    /// Workflow code took too long.
    pub const STUCK: &str = "outlast.Stuck";
    /// A message to another run found its history full.
    pub const HISTORY_FULL: &str = "outlast.HistoryFull";
}

/// What went wrong. One pointer wide, because whatever can fail has room for one and most things
/// do not fail; what it says is in its first [`Link`].
#[derive(Clone, PartialEq)]
pub struct Failure(Box<Link>);

/// One link of a chain of causes.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// What happened, for a person.
    pub message: String,
    /// What kind of thing happened, for a program.
    pub kind: FailureKind,
    /// Where it came from, if known: `file:line` or a stack trace.
    pub trace: Option<String>,
    /// Why it happened.
    pub cause: Option<Failure>,
}

impl Deref for Failure {
    type Target = Link;

    fn deref(&self) -> &Link {
        &self.0
    }
}

impl DerefMut for Failure {
    fn deref_mut(&mut self) -> &mut Link {
        &mut self.0
    }
}

impl From<Link> for Failure {
    fn from(link: Link) -> Self {
        Self(Box::new(link))
    }
}

impl From<Failure> for Link {
    fn from(failure: Failure) -> Self {
        *failure.0
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure")
            .field("message", &self.message)
            .field("kind", &self.kind)
            .field("trace", &self.trace)
            .field("cause", &self.cause)
            .finish()
    }
}

/// Which clock ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum TimeoutKind {
    /// The attempt took too long.
    #[n(1)]
    StartToClose,
    /// No worker took it in time.
    #[n(2)]
    ScheduleToStart,
    /// All attempts together took too long.
    #[n(3)]
    ScheduleToClose,
    /// The attempt stopped reporting.
    #[n(4)]
    Heartbeat,
}

/// Why there will be no further attempt, or why there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum RetryState {
    /// Another attempt follows.
    #[n(1)]
    InProgress,
    /// The failure says that a retry is useless.
    #[n(2)]
    NonRetryableFailure,
    /// Out of time.
    #[n(3)]
    Timeout,
    /// Out of attempts.
    #[n(4)]
    MaximumAttemptsReached,
    /// There is no retry policy.
    #[n(5)]
    RetryPolicyNotSet,
    /// Somebody asked to stop.
    #[n(7)]
    CancelRequested,
}

/// What kind of thing went wrong.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub enum FailureKind {
    /// User code said so.
    #[n(0)]
    Application {
        /// The error's type, for retry rules and typed catching.
        #[n(0)]
        type_name: String,
        /// A retry is useless.
        #[n(1)]
        non_retryable: bool,
        /// The error itself, encoded.
        #[n(2)]
        details: Option<Payload>,
        /// When to try again, if the error knows better than the policy.
        #[cbor(n(3), with = "crate::cbor::opt_duration", has_nil)]
        next_retry_delay: Option<Duration>,
    },
    /// A clock ran out.
    #[n(1)]
    Timeout {
        /// Which one.
        #[n(0)]
        kind: TimeoutKind,
        /// The newest heartbeat details, so that the next attempt can go on.
        #[n(1)]
        last_heartbeat: Option<Payload>,
    },
    /// It was asked to stop, and did.
    #[n(2)]
    Canceled {
        /// What the code had to say about it.
        #[n(0)]
        details: Option<Payload>,
    },
    /// An operator ended the run.
    #[n(3)]
    Terminated,
    /// The system, not the user's code.
    #[n(4)]
    Server {
        /// A retry is useless.
        #[n(0)]
        non_retryable: bool,
    },
    /// An activity ended in failure; the cause says how.
    #[n(5)]
    Activity {
        /// Its type.
        #[n(0)]
        activity_type: ActivityType,
        /// Its number.
        #[n(1)]
        seq: Seq,
        /// Why there was no further attempt.
        #[n(2)]
        retry_state: RetryState,
    },
    /// A child ended in failure; the cause says how.
    #[n(6)]
    Child {
        /// Its id.
        #[n(0)]
        workflow_id: WorkflowId,
        /// Its type.
        #[n(1)]
        workflow_type: WorkflowType,
        /// Its number.
        #[n(2)]
        seq: Seq,
    },
}

impl Failure {
    /// A failure of the given kind, cut to the limits.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        let message = cut(message.into(), limits::FAILURE_MESSAGE_BYTES);
        Self::from(Link {
            message,
            kind,
            trace: None,
            cause: None,
        })
    }

    /// What user code raised.
    pub fn application(type_name: impl Into<String>, message: impl Into<String>) -> Self {
        let kind = FailureKind::Application {
            type_name: type_name.into(),
            non_retryable: false,
            details: None,
            next_retry_delay: None,
        };
        Self::new(kind, message)
    }

    /// A panic of user code.
    pub fn panic(message: impl Into<String>) -> Self {
        Self::application(type_name::PANIC, message)
    }

    /// A clock ran out.
    pub fn timeout(kind: TimeoutKind, last_heartbeat: Option<Payload>) -> Self {
        let message = match kind {
            TimeoutKind::StartToClose => "the attempt took longer than its start-to-close timeout",
            TimeoutKind::ScheduleToStart => {
                "no worker took it within its schedule-to-start timeout"
            }
            TimeoutKind::ScheduleToClose => {
                "all attempts together took longer than the schedule-to-close timeout"
            }
            TimeoutKind::Heartbeat => "the attempt sent no heartbeat within its heartbeat timeout",
        };
        Self::new(
            FailureKind::Timeout {
                kind,
                last_heartbeat,
            },
            message,
        )
    }

    /// A cancellation.
    pub fn canceled(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Canceled { details: None }, message)
    }

    /// Adds where it came from.
    #[must_use]
    pub fn at(mut self, trace: impl Into<String>) -> Self {
        self.trace = Some(cut(trace.into(), limits::FAILURE_TRACE_BYTES));
        self
    }

    /// Adds why it happened; a chain over the limit loses its innermost links.
    #[must_use]
    pub fn caused_by(mut self, cause: Failure) -> Self {
        self.cause = Some(cause);
        let mut link = &mut self;
        for _ in 1..limits::FAILURE_CAUSES {
            match &mut link.cause {
                Some(next) => link = next,
                None => return self,
            }
        }
        link.cause = None;
        self
    }

    /// This failure and its causes, outermost first.
    pub fn chain(&self) -> impl Iterator<Item = &Failure> {
        core::iter::successors(Some(self), |f| f.cause.as_ref())
    }

    /// Whether it, or what caused it, is a cancellation.
    pub fn is_canceled(&self) -> bool {
        self.chain()
            .any(|f| matches!(f.kind, FailureKind::Canceled { .. }))
    }

    /// The application type name, if user code raised it.
    pub fn type_name(&self) -> Option<&str> {
        if let FailureKind::Application { type_name, .. } = &self.kind {
            return Some(type_name);
        }
        None
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(cause) = &self.cause {
            write!(f, ": {cause}")?;
        }
        Ok(())
    }
}

/// Written as a flat list, outermost first: decoding never recurses, whatever the bytes say.
impl<C> Encode<C> for Failure {
    fn encode<W: encode::Write>(
        &self,
        e: &mut Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        let links = u64::try_from(self.chain().count()).unwrap_or(u64::MAX);
        e.array(links)?;
        for link in self.chain() {
            e.array(3)?.str(&link.message)?;
            link.kind.encode(e, ctx)?;
            link.trace.encode(e, ctx)?;
        }
        Ok(())
    }
}

impl<'b, C> Decode<'b, C> for Failure {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, decode::Error> {
        let count = d.array()?.unwrap_or(0);
        let mut links = Vec::new();
        for _ in 0..count {
            d.array()?;
            let message = d.str()?.to_owned();
            let kind = FailureKind::decode(d, ctx)?;
            let trace = Option::<String>::decode(d, ctx)?;
            links.push(Link {
                message,
                kind,
                trace,
                cause: None,
            });
        }
        let mut chain: Option<Failure> = None;
        for mut link in links.into_iter().rev() {
            link.cause = chain.take();
            chain = Some(link.into());
        }
        chain.ok_or_else(|| decode::Error::message("a failure has at least one link"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_survives_encoding() {
        let f = Failure::new(FailureKind::Terminated, "outer")
            .caused_by(Failure::panic("middle").caused_by(Failure::canceled("inner")));
        let bytes = minicbor::to_vec(&f).expect("encodes");
        assert_eq!(minicbor::decode::<Failure>(&bytes).expect("decodes"), f);
        assert!(f.is_canceled());
    }

    #[test]
    fn a_long_chain_and_a_long_message_are_cut() {
        let mut f = Failure::panic("x".repeat(10_000));
        for _ in 0..50 {
            f = Failure::panic("again").caused_by(f);
        }
        assert_eq!(f.chain().count(), limits::FAILURE_CAUSES);
        assert!(Failure::panic("y".repeat(10_000)).message.len() <= limits::FAILURE_MESSAGE_BYTES);
    }
}
