//! The life of an update.

use alloc::boxed::Box;

use minicbor::{Decode, Encode};

use crate::failure::Failure;
use crate::headers::Headers;
use crate::id::{EventId, UpdateId, UpdateName};
use crate::payload::Payload;

/// What somebody asks of a run, to be answered.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct UpdateRequest {
    /// The same id again is the same update.
    #[n(0)]
    pub id: UpdateId,
    /// Its handler.
    #[n(1)]
    pub name: UpdateName,
    /// Its content.
    #[n(2)]
    pub input: Payload,
    /// What travels with it.
    #[n(3)]
    pub headers: Headers,
}

/// How an accepted update ended.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub enum UpdateOutcome {
    /// With a result.
    #[n(0)]
    Completed(#[n(0)] Payload),
    /// With an error.
    #[n(1)]
    Failed(#[n(0)] Failure),
}

/// An update that passed its validator.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct UpdateAccepted {
    /// Which update.
    #[n(0)]
    pub id: UpdateId,
    /// The request, unless its own event has it.
    #[n(1)]
    pub request: Option<UpdateRequest>,
    /// The event behind which the code was given it: replay gives it at the same point. Its own
    /// `Admitted`, unless the code had it before it was written.
    #[n(2)]
    pub behind: EventId,
}

/// The life of an update. Numbered as in Temporal. One that is turned away has no event.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub enum UpdateEvent {
    /// It passed its validator and runs.
    #[n(41)]
    Accepted(#[n(0)] Box<UpdateAccepted>),
    /// It has its outcome.
    #[n(43)]
    Completed {
        /// Which update.
        #[n(0)]
        id: UpdateId,
        /// The outcome.
        #[n(1)]
        outcome: UpdateOutcome,
    },
    /// It waits for workflow code: written only if that does not run at once.
    #[n(47)]
    Admitted(#[n(0)] Box<UpdateRequest>),
}
