//! What workflow code asks for, in the order in which it asked.

use alloc::boxed::Box;
use core::time::Duration;

use crate::event::Site;
use crate::failure::Failure;
use crate::id::{ActivityType, Seq, StepName};
use crate::options::{ActivityOptions, StepOptions};
use crate::payload::Payload;

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
    pub options: ActivityOptions,
    /// The call.
    pub site: Site,
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
            Self::CompleteWorkflow { .. } => "CompleteWorkflow",
            Self::FailWorkflow { .. } => "FailWorkflow",
            Self::CancelWorkflow => "CancelWorkflow",
        }
    }

    /// Whether it ends the run.
    pub fn is_closing(&self) -> bool {
        match self {
            Self::CompleteWorkflow { .. } | Self::FailWorkflow { .. } | Self::CancelWorkflow => {
                true
            }
            Self::ScheduleActivity(_)
            | Self::RequestCancelActivity { .. }
            | Self::StartTimer { .. }
            | Self::CancelTimer { .. }
            | Self::ScheduleStep { .. }
            | Self::CancelStep { .. } => false,
        }
    }
}
