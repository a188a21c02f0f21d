//! What one run says to another: written in the commit of the one, taken in a commit of the
//! other, so that it has its effect exactly once whatever crashes in between.
//!
//! ```text
//!   parent --StartChild--> child            run --Signal, Cancel--> other run
//!   parent <--ChildStarted-- child          run <--Delivered-- other run
//!   parent <--ChildEnded-- child            parent --Cancel, Terminate--> child (parent close)
//! ```
//!
//! Posts of one run to another arrive in the order in which they were written. A post to a run
//! that is not there is answered in its name by whoever looked for it.

use alloc::boxed::Box;
use alloc::string::String;
use core::time::Duration;

use minicbor::{Decode, Encode};

use crate::event::{CancelOf, DeliveryFailedCause, Parent, StartFailedCause};
use crate::headers::Headers;
use crate::id::{QueueName, RunId, Seq, SignalName, WorkflowId, WorkflowType};
use crate::payload::Payload;
use crate::start::ReusePolicy;
use crate::view::{RunOutcome, RunRef};

/// The number of a post in its store, given by the service, rising. 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PostNo(pub u64);

/// One message between runs.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Post {
    /// Who says it.
    #[n(0)]
    pub from: RunRef,
    /// To whom.
    #[n(1)]
    pub to: RunRef,
    /// What.
    #[n(2)]
    pub body: PostBody,
}

/// What one run says to another.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub enum PostBody {
    /// Begin to exist, as my child.
    #[n(0)]
    StartChild(#[n(0)] Box<ChildRequest>),
    /// A message.
    #[n(1)]
    Signal {
        /// Its number among the sender's messages to others.
        #[n(0)]
        seq: Seq,
        /// Its name.
        #[n(1)]
        name: SignalName,
        /// Its content.
        #[n(2)]
        input: Payload,
        /// What travels with it.
        #[n(3)]
        headers: Headers,
    },
    /// Please stop.
    #[n(2)]
    Cancel {
        /// The sender's name for the request; `None`: it has ended and wants no word.
        #[n(0)]
        of: Option<CancelOf>,
        /// Why.
        #[n(1)]
        reason: String,
    },
    /// Stop now: your parent has ended.
    #[n(3)]
    Terminate {
        /// Why.
        #[n(0)]
        reason: String,
    },
    /// Your child runs, or could not be started.
    #[n(4)]
    ChildStarted {
        /// Which child.
        #[n(0)]
        seq: Seq,
        /// Why not.
        #[n(1)]
        failed: Option<StartFailedCause>,
    },
    /// Your child has ended.
    #[n(5)]
    ChildEnded {
        /// Which child.
        #[n(0)]
        seq: Seq,
        /// How.
        #[n(1)]
        outcome: RunOutcome,
    },
    /// Your message arrived, or did not.
    #[n(6)]
    SignalDelivered {
        /// Which message.
        #[n(0)]
        seq: Seq,
        /// Why not.
        #[n(1)]
        failed: Option<DeliveryFailedCause>,
    },
    /// Your request to stop arrived, or did not.
    #[n(7)]
    CancelDelivered {
        /// Which request.
        #[n(0)]
        of: CancelOf,
        /// Why not.
        #[n(1)]
        failed: Option<DeliveryFailedCause>,
    },
}

/// A child to be started.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ChildRequest {
    /// Its id.
    #[n(0)]
    pub workflow_id: WorkflowId,
    /// Its run, should it be started.
    #[n(1)]
    pub run_id: RunId,
    /// Its type.
    #[n(2)]
    pub workflow_type: WorkflowType,
    /// Where its tasks wait.
    #[n(3)]
    pub queue: QueueName,
    /// Its input.
    #[n(4)]
    pub input: Payload,
    /// How long its run may take.
    #[cbor(n(5), with = "crate::cbor::opt_duration", has_nil)]
    pub run_timeout: Option<Duration>,
    /// What if a run with its id has ended.
    #[n(6)]
    pub reuse: ReusePolicy,
    /// Who is told of its end.
    #[n(7)]
    pub parent: Parent,
    /// What travels with it.
    #[n(8)]
    pub headers: Headers,
}

impl Post {
    /// What the sender is told in the name of a run that is not there, or has ended; nothing if it
    /// wants no word.
    pub fn undelivered(&self, cause: DeliveryFailedCause) -> Option<Self> {
        let failed = Some(cause);
        let body = match &self.body {
            PostBody::Signal { seq, .. } => PostBody::SignalDelivered { seq: *seq, failed },
            PostBody::Cancel { of, .. } => PostBody::CancelDelivered { of: (*of)?, failed },
            PostBody::StartChild(_)
            | PostBody::Terminate { .. }
            | PostBody::ChildStarted { .. }
            | PostBody::ChildEnded { .. }
            | PostBody::SignalDelivered { .. }
            | PostBody::CancelDelivered { .. } => return None,
        };
        Some(Self {
            from: self.to.clone(),
            to: self.from.clone(),
            body,
        })
    }
}
