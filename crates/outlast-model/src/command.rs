//! What workflow code asks for, in the order in which it asked.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::event::{Site, UpdateOutcome};
use crate::failure::Failure;
use crate::headers::Headers;
use crate::id::{
    ActivityType, PatchId, QueueName, Seq, SignalName, StepName, UpdateId, WorkflowId, WorkflowType,
};
use crate::job::SignalMessage;
use crate::options::{ActivityOptions, ChildOptions, StepOptions};
use crate::payload::Payload;
use crate::shared::Shared;
use crate::view::RunRef;

/// One wish of workflow code.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Run an activity.
    ScheduleActivity(Box<ScheduleActivity>),
    /// Ask an activity to stop. Never sent for one that was scheduled in the same slice.
    RequestCancelActivity {
        /// Which activity.
        seq: Seq,
    },
    /// Start a timer.
    StartTimer {
        /// Its number.
        seq: Seq,
        /// How long.
        delay: Duration,
        /// The call.
        site: Site,
    },
    /// Stop a timer. Never sent for one that was started in the same slice.
    CancelTimer {
        /// Which timer.
        seq: Seq,
    },
    /// Run a step: its code stays with the instance.
    ScheduleStep {
        /// Its number.
        seq: Seq,
        /// Its name.
        name: StepName,
        /// Retries.
        options: Box<StepOptions>,
        /// The call.
        site: Site,
    },
    /// Ask a running step to stop.
    CancelStep {
        /// Which step.
        seq: Seq,
    },
    /// Start a child.
    StartChild(Box<StartChild>),
    /// Ask a child to stop. Never sent for one that was started in the same slice.
    CancelChild {
        /// Which child.
        seq: Seq,
        /// Why.
        reason: String,
        /// The call.
        site: Site,
    },
    /// Send a message to another run.
    SignalExternal(Box<SignalExternal>),
    /// Ask another run to stop.
    CancelExternal(Box<CancelExternal>),
    /// This change of the code is in use here.
    SetPatch {
        /// Which change.
        id: PatchId,
        /// Whether the code before the change is gone.
        is_deprecated: bool,
        /// The call.
        site: Site,
    },
    /// An update passed its validator and runs.
    AcceptUpdate {
        /// Which update.
        id: UpdateId,
    },
    /// An update was turned away; nothing is recorded of it.
    RejectUpdate {
        /// Which update.
        id: UpdateId,
        /// Why.
        failure: Failure,
    },
    /// An accepted update has its outcome.
    CompleteUpdate {
        /// Which update.
        id: UpdateId,
        /// The outcome.
        outcome: UpdateOutcome,
    },
    /// The run goes on as a new one. Always last.
    ContinueAsNew(Box<ContinueAsNew>),
    /// The run returned a result. Always last.
    CompleteWorkflow {
        /// The result.
        result: Payload,
    },
    /// The run returned an error. Always last.
    FailWorkflow {
        /// The error.
        failure: Failure,
    },
    /// The run stopped because it was asked to. Always last.
    CancelWorkflow,
}

/// An activity that workflow code asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleActivity {
    /// Its number among the run's activities.
    pub seq: Seq,
    /// Its type.
    pub activity_type: ActivityType,
    /// Its input.
    pub input: Payload,
    /// Timeouts, retries, cancel mode, queue: as the code gave them.
    pub options: Shared<ActivityOptions>,
    /// The call.
    pub site: Site,
    /// What travels with it.
    pub headers: Headers,
}

/// A child that workflow code asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct StartChild {
    /// Its number among the run's children.
    pub seq: Seq,
    /// Its id.
    pub workflow_id: WorkflowId,
    /// Its type.
    pub workflow_type: WorkflowType,
    /// Its input.
    pub input: Payload,
    /// Policies, queue, timeout: as the code gave them.
    pub options: ChildOptions,
    /// The call.
    pub site: Site,
    /// What travels with it.
    pub headers: Headers,
}

/// A message to another run.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalExternal {
    /// Its number among the run's messages to others.
    pub seq: Seq,
    /// To whom.
    pub target: RunRef,
    /// Its name.
    pub name: SignalName,
    /// Its content.
    pub input: Payload,
    /// The call.
    pub site: Site,
    /// What travels with it.
    pub headers: Headers,
}

/// A request to another run to stop.
#[derive(Clone, Debug, PartialEq)]
pub struct CancelExternal {
    /// Its number among the run's requests to others.
    pub seq: Seq,
    /// To whom.
    pub target: RunRef,
    /// Why.
    pub reason: String,
    /// The call.
    pub site: Site,
}

/// How a run goes on as a new one.
#[derive(Clone, Debug, PartialEq)]
pub struct ContinueAsNew {
    /// Its type, if another.
    pub workflow_type: Option<WorkflowType>,
    /// Its queue, if another.
    pub queue: Option<QueueName>,
    /// Its input.
    pub input: Payload,
    /// How long the new run may take, if not as long as this one.
    pub run_timeout: Option<Duration>,
    /// Messages the code was given and nobody took: they come first in the new run.
    pub signals: Vec<SignalMessage>,
    /// What travels with it. Those of this run are not handed on by themselves.
    pub headers: Headers,
}

impl Command {
    /// Its name, for people.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ScheduleActivity(_) => "ScheduleActivity",
            Self::RequestCancelActivity { .. } => "RequestCancelActivity",
            Self::StartTimer { .. } => "StartTimer",
            Self::CancelTimer { .. } => "CancelTimer",
            Self::ScheduleStep { .. } => "ScheduleStep",
            Self::CancelStep { .. } => "CancelStep",
            Self::StartChild(_) => "StartChild",
            Self::CancelChild { .. } => "CancelChild",
            Self::SignalExternal(_) => "SignalExternal",
            Self::CancelExternal(_) => "CancelExternal",
            Self::SetPatch { .. } => "SetPatch",
            Self::AcceptUpdate { .. } => "AcceptUpdate",
            Self::RejectUpdate { .. } => "RejectUpdate",
            Self::CompleteUpdate { .. } => "CompleteUpdate",
            Self::ContinueAsNew(_) => "ContinueAsNew",
            Self::CompleteWorkflow { .. } => "CompleteWorkflow",
            Self::FailWorkflow { .. } => "FailWorkflow",
            Self::CancelWorkflow => "CancelWorkflow",
        }
    }

    /// Whether it ends the run.
    pub fn is_closing(&self) -> bool {
        match self {
            Self::CompleteWorkflow { .. }
            | Self::FailWorkflow { .. }
            | Self::CancelWorkflow
            | Self::ContinueAsNew(_) => true,
            Self::ScheduleActivity(_)
            | Self::RequestCancelActivity { .. }
            | Self::StartTimer { .. }
            | Self::CancelTimer { .. }
            | Self::ScheduleStep { .. }
            | Self::CancelStep { .. }
            | Self::StartChild(_)
            | Self::CancelChild { .. }
            | Self::SignalExternal(_)
            | Self::CancelExternal(_)
            | Self::SetPatch { .. }
            | Self::AcceptUpdate { .. }
            | Self::RejectUpdate { .. }
            | Self::CompleteUpdate { .. } => false,
        }
    }
}
