//! What an activation tells workflow code.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use crate::event::{Event, EventKind, Started};
use crate::failure::{Failure, RetryState};
use crate::id::{Seq, SignalName};
use crate::payload::Payload;
use crate::time::Timestamp;

/// News for workflow code, applied together before any of it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Activation {
    /// The workflow's time. Never goes back.
    pub now: Timestamp,
    /// Whether this happened before and only the state is wanted.
    pub is_replaying: bool,
    /// Events in the history so far.
    pub history_events: u64,
    /// The run should continue as new soon.
    pub suggest_continue_as_new: bool,
    /// The news, in history order.
    pub jobs: Vec<Job>,
}

/// One piece of news.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub enum Job {
    /// Create the instance. Comes first.
    #[n(0)]
    Initialize(#[n(0)] Box<Started>),
    /// A message.
    #[n(1)]
    Signal {
        /// Its name.
        #[n(0)]
        name: SignalName,
        /// Its content.
        #[n(1)]
        input: Payload,
    },
    /// A timer is due.
    #[n(2)]
    FireTimer {
        /// Which timer.
        #[n(0)]
        seq: Seq,
    },
    /// An activity ended.
    #[n(3)]
    ResolveActivity {
        /// Which activity.
        #[n(0)]
        seq: Seq,
        /// How.
        #[n(1)]
        resolution: Resolution,
    },
    /// A step ended.
    #[n(4)]
    ResolveStep {
        /// Which step.
        #[n(0)]
        seq: Seq,
        /// How.
        #[n(1)]
        resolution: Resolution,
    },
    /// The run is asked to stop.
    #[n(5)]
    CancelWorkflow {
        /// Why.
        #[n(0)]
        reason: String,
    },
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub enum Resolution {
    /// With a result.
    #[n(0)]
    Completed(#[n(0)] Payload),
    /// With a failure, for good.
    #[n(1)]
    Failed(#[n(0)] Failure, #[n(1)] RetryState),
    /// Because it was asked to stop.
    #[n(2)]
    Canceled(#[n(0)] Option<Payload>),
}

impl Job {
    /// The job an event gives to workflow code; commands, task events and steps (which are
    /// delivered ahead of their marker) give none.
    pub fn from_event(event: &Event) -> Option<Self> {
        Some(match &event.kind {
            EventKind::Started(started) => Self::Initialize(started.clone()),
            EventKind::Signaled { name, input, .. } => Self::Signal {
                name: name.clone(),
                input: input.clone(),
            },
            EventKind::TimerFired { seq } => Self::FireTimer { seq: *seq },
            EventKind::ActivityCompleted { seq, result } => Self::ResolveActivity {
                seq: *seq,
                resolution: Resolution::Completed(result.clone()),
            },
            EventKind::ActivityFailed {
                seq,
                failure,
                retry_state,
            }
            | EventKind::ActivityTimedOut {
                seq,
                failure,
                retry_state,
            } => Self::ResolveActivity {
                seq: *seq,
                resolution: Resolution::Failed(failure.clone(), *retry_state),
            },
            EventKind::ActivityCanceled { seq, details } => Self::ResolveActivity {
                seq: *seq,
                resolution: Resolution::Canceled(details.clone()),
            },
            EventKind::CancelRequested { reason, .. } => Self::CancelWorkflow {
                reason: reason.clone(),
            },
            EventKind::Completed { .. }
            | EventKind::Failed { .. }
            | EventKind::TimedOut
            | EventKind::TaskScheduled { .. }
            | EventKind::TaskStarted
            | EventKind::TaskCompleted
            | EventKind::TaskFailed { .. }
            | EventKind::ActivityScheduled(_)
            | EventKind::ActivityStarted { .. }
            | EventKind::ActivityCancelRequested { .. }
            | EventKind::TimerStarted { .. }
            | EventKind::TimerCanceled { .. }
            | EventKind::Canceled
            | EventKind::StepRecorded(_)
            | EventKind::Terminated { .. } => return None,
        })
    }

    /// The class by which core orders jobs of one activation: lower first, stable within.
    pub fn class(&self) -> u8 {
        match self {
            Self::Initialize(_) => 0,
            Self::Signal { .. } => 3,
            Self::FireTimer { .. } | Self::ResolveActivity { .. } | Self::CancelWorkflow { .. } => {
                4
            }
            Self::ResolveStep { .. } => 5,
        }
    }
}
