//! What a run says to another run, and whether it arrived.

use alloc::boxed::Box;
use alloc::string::String;

use minicbor::{Decode, Encode};

use super::Site;
use crate::headers::Headers;
use crate::id::{Seq, SignalName};
use crate::payload::Payload;
use crate::view::RunRef;

/// Whom a request to stop is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum CancelOf {
    /// The run's own child of this number.
    #[n(0)]
    Child(#[n(0)] Seq),
    /// Another run; the number is of the request.
    #[n(1)]
    External(#[n(0)] Seq),
}

/// A request to another run to stop.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct CancelInitiated {
    /// Which request.
    #[n(0)]
    pub of: CancelOf,
    /// To whom.
    #[n(1)]
    pub target: RunRef,
    /// Why.
    #[n(2)]
    pub reason: String,
    /// The call.
    #[n(3)]
    pub site: Site,
}

/// A message to another run.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct SignalInitiated {
    /// Its number among the run's messages to others.
    #[n(0)]
    pub seq: Seq,
    /// To whom.
    #[n(1)]
    pub target: RunRef,
    /// Its name.
    #[n(2)]
    pub name: SignalName,
    /// Its content.
    #[n(3)]
    pub input: Payload,
    /// The call.
    #[n(4)]
    pub site: Site,
    /// What travels with it.
    #[n(5)]
    pub headers: Headers,
}

/// Why a message to another run did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum DeliveryFailedCause {
    /// There is no such open run.
    #[n(1)]
    NotFound,
    /// Its history is full.
    #[n(2)]
    HistoryFull,
}

/// What a run says to others, and what became of it. Numbered as in Temporal.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub enum ExternalEvent {
    /// Workflow code asked another run to stop.
    #[n(22)]
    CancelInitiated(#[n(0)] Box<CancelInitiated>),
    /// The request did not arrive.
    #[n(23)]
    CancelFailed {
        /// Which request.
        #[n(0)]
        of: CancelOf,
        /// Why.
        #[n(1)]
        cause: DeliveryFailedCause,
    },
    /// The request arrived.
    #[n(24)]
    CancelDelivered {
        /// Which request.
        #[n(0)]
        of: CancelOf,
    },
    /// Workflow code sent a message.
    #[n(37)]
    SignalInitiated(#[n(0)] Box<SignalInitiated>),
    /// The message did not arrive.
    #[n(38)]
    SignalFailed {
        /// Which message.
        #[n(0)]
        seq: Seq,
        /// Why.
        #[n(1)]
        cause: DeliveryFailedCause,
    },
    /// The message arrived.
    #[n(39)]
    SignalDelivered {
        /// Which message.
        #[n(0)]
        seq: Seq,
    },
}
