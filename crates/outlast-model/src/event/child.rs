//! The life of a child, seen from its parent.

use alloc::boxed::Box;

use minicbor::{Decode, Encode};

use super::Site;
use crate::failure::Failure;
use crate::headers::Headers;
use crate::id::{QueueName, RunId, Seq, WorkflowId, WorkflowType};
use crate::options::ChildOptions;
use crate::payload::Payload;

/// A child, as workflow code asked for it and the engine filled it in.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ChildInitiated {
    /// Its number among the run's children.
    #[n(0)]
    pub seq: Seq,
    /// Its id.
    #[n(1)]
    pub workflow_id: WorkflowId,
    /// Its first run, should it be started.
    #[n(2)]
    pub run_id: RunId,
    /// Its type.
    #[n(3)]
    pub workflow_type: WorkflowType,
    /// Where its tasks wait.
    #[n(4)]
    pub queue: QueueName,
    /// Its input.
    #[n(5)]
    pub input: Payload,
    /// Policies and timeout.
    #[n(6)]
    pub options: ChildOptions,
    /// The call.
    #[n(7)]
    pub site: Site,
    /// What travels with it.
    #[n(8)]
    pub headers: Headers,
}

/// Why a child was not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum StartFailedCause {
    /// A run with its id exists and the policy says no.
    #[n(1)]
    AlreadyExists,
    /// No worker of this application has its type.
    #[n(2)]
    NotRegistered,
}

/// The life of a child, seen from its parent. Numbered as in Temporal.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub enum ChildEvent {
    /// Workflow code asked for it.
    #[n(29)]
    Initiated(#[n(0)] Box<ChildInitiated>),
    /// It could not be started.
    #[n(30)]
    StartFailed {
        /// Which child.
        #[n(0)]
        seq: Seq,
        /// Why.
        #[n(1)]
        cause: StartFailedCause,
    },
    /// It runs.
    #[n(31)]
    Started {
        /// Which child.
        #[n(0)]
        seq: Seq,
        /// Its run.
        #[n(1)]
        run_id: RunId,
    },
    /// It returned a result.
    #[n(32)]
    Completed {
        /// Which child.
        #[n(0)]
        seq: Seq,
        /// The result.
        #[n(1)]
        result: Payload,
    },
    /// It returned an error.
    #[n(33)]
    Failed {
        /// Which child.
        #[n(0)]
        seq: Seq,
        /// The error.
        #[n(1)]
        failure: Failure,
    },
    /// It stopped because it was asked to.
    #[n(34)]
    Canceled {
        /// Which child.
        #[n(0)]
        seq: Seq,
    },
    /// It ran out of time.
    #[n(35)]
    TimedOut {
        /// Which child.
        #[n(0)]
        seq: Seq,
    },
    /// An operator ended it.
    #[n(36)]
    Terminated {
        /// Which child.
        #[n(0)]
        seq: Seq,
    },
}

impl ChildEvent {
    /// Which child it is about.
    pub fn seq(&self) -> Seq {
        match self {
            Self::Initiated(child) => child.seq,
            Self::StartFailed { seq, .. }
            | Self::Started { seq, .. }
            | Self::Completed { seq, .. }
            | Self::Failed { seq, .. }
            | Self::Canceled { seq }
            | Self::TimedOut { seq }
            | Self::Terminated { seq } => *seq,
        }
    }
}
