//! What an activation tells workflow code.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use crate::event::{
    CancelOf, ChildEvent, DeliveryFailedCause, Event, EventKind, ExternalEvent, StartFailedCause,
    Started, UpdateEvent, UpdateRequest,
};
use crate::failure::{Failure, FailureKind, RetryState, TimeoutKind};
use crate::headers::Headers;
use crate::id::{PatchId, RunId, Seq, SignalName};
use crate::payload::Payload;
use crate::shared::Shared;
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
    Initialize(#[n(0)] Shared<Started>),
    /// A message.
    #[n(1)]
    Signal {
        /// Its name.
        #[n(0)]
        name: SignalName,
        /// Its content.
        #[n(1)]
        input: Payload,
        /// What came with it.
        #[n(2)]
        headers: Headers,
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
    /// Somebody asks something of the run and waits for the answer.
    #[n(6)]
    Update(#[n(0)] Box<UpdateJob>),
    /// History uses this change of the code. Only in replay.
    #[n(7)]
    NotifyPatch {
        /// Which change.
        #[n(0)]
        id: PatchId,
    },
    /// A child runs, or could not be started.
    #[n(8)]
    ResolveChildStart {
        /// Which child.
        #[n(0)]
        seq: Seq,
        /// Which.
        #[n(1)]
        result: ChildStart,
    },
    /// A child ended.
    #[n(9)]
    ResolveChild {
        /// Which child.
        #[n(0)]
        seq: Seq,
        /// How.
        #[n(1)]
        resolution: Resolution,
    },
    /// A message to another run arrived, or did not.
    #[n(10)]
    ResolveSignalExternal {
        /// Which message.
        #[n(0)]
        seq: Seq,
        /// Why it did not.
        #[n(1)]
        cause: Option<DeliveryFailedCause>,
    },
    /// A request to stop arrived, or did not.
    #[n(11)]
    ResolveCancelExternal {
        /// Which request.
        #[n(0)]
        of: CancelOf,
        /// Why it did not.
        #[n(1)]
        cause: Option<DeliveryFailedCause>,
    },
    /// Random numbers are drawn anew from here: the run was reset. Only from a backend that
    /// resets runs in place.
    #[n(12)]
    UpdateRandomSeed {
        /// The new seed.
        #[n(0)]
        seed: u64,
    },
}

/// A signal as workflow code is given it.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalMessage {
    /// Its name.
    pub name: SignalName,
    /// Its content.
    pub input: Payload,
    /// What came with it.
    pub headers: Headers,
}

/// An update as workflow code is given it.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct UpdateJob {
    /// What is asked.
    #[n(0)]
    pub request: UpdateRequest,
    /// Whether it may still be turned away. Not in replay: it was accepted.
    #[n(1)]
    pub run_validator: bool,
}

/// What became of the start of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum ChildStart {
    /// It runs.
    #[n(0)]
    Started(#[n(0)] RunId),
    /// It could not be started.
    #[n(1)]
    Failed(#[n(0)] StartFailedCause),
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
            EventKind::Signaled {
                name,
                input,
                headers,
                ..
            } => Self::Signal {
                name: name.clone(),
                input: input.clone(),
                headers: headers.clone(),
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
            EventKind::Child(event) => return Self::from_child(event),
            EventKind::External(event) => return Self::from_external(event),
            EventKind::Update(UpdateEvent::Admitted(request)) => {
                Self::Update(Box::new(UpdateJob {
                    request: (**request).clone(),
                    run_validator: true,
                }))
            }
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
            | EventKind::Patched { .. }
            | EventKind::Update(UpdateEvent::Accepted(_) | UpdateEvent::Completed { .. })
            | EventKind::ContinuedAsNew(_)
            | EventKind::Terminated { .. } => return None,
        })
    }

    fn from_child(event: &ChildEvent) -> Option<Self> {
        let seq = event.seq();
        let resolution = match event {
            ChildEvent::Initiated(_) => return None,
            ChildEvent::StartFailed { cause, .. } => {
                let result = ChildStart::Failed(*cause);
                return Some(Self::ResolveChildStart { seq, result });
            }
            ChildEvent::Started { run_id, .. } => {
                let result = ChildStart::Started(*run_id);
                return Some(Self::ResolveChildStart { seq, result });
            }
            ChildEvent::Completed { result, .. } => Resolution::Completed(result.clone()),
            ChildEvent::Failed { failure, .. } => {
                Resolution::Failed(failure.clone(), RetryState::RetryPolicyNotSet)
            }
            ChildEvent::Canceled { .. } => Resolution::Canceled(None),
            ChildEvent::TimedOut { .. } => Resolution::Failed(
                Failure::timeout(TimeoutKind::StartToClose, None),
                RetryState::Timeout,
            ),
            ChildEvent::Terminated { .. } => Resolution::Failed(
                Failure::new(FailureKind::Terminated, "the child was terminated"),
                RetryState::RetryPolicyNotSet,
            ),
        };
        Some(Self::ResolveChild { seq, resolution })
    }

    fn from_external(event: &ExternalEvent) -> Option<Self> {
        Some(match event {
            ExternalEvent::CancelInitiated(_) | ExternalEvent::SignalInitiated(_) => return None,
            ExternalEvent::CancelFailed { of, cause } => Self::ResolveCancelExternal {
                of: *of,
                cause: Some(*cause),
            },
            ExternalEvent::CancelDelivered { of } => Self::ResolveCancelExternal {
                of: *of,
                cause: None,
            },
            ExternalEvent::SignalFailed { seq, cause } => Self::ResolveSignalExternal {
                seq: *seq,
                cause: Some(*cause),
            },
            ExternalEvent::SignalDelivered { seq } => Self::ResolveSignalExternal {
                seq: *seq,
                cause: None,
            },
        })
    }

    /// The class by which core orders jobs of one activation: lower first, stable within.
    pub fn class(&self) -> u8 {
        match self {
            Self::Initialize(_) => 0,
            Self::NotifyPatch { .. } => 1,
            Self::UpdateRandomSeed { .. } => 2,
            Self::Signal { .. } | Self::Update(_) => 3,
            Self::FireTimer { .. }
            | Self::ResolveActivity { .. }
            | Self::CancelWorkflow { .. }
            | Self::ResolveChildStart { .. }
            | Self::ResolveChild { .. }
            | Self::ResolveSignalExternal { .. }
            | Self::ResolveCancelExternal { .. } => 4,
            Self::ResolveStep { .. } => 5,
        }
    }
}
