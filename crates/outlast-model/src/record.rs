//! What a commit adds to a run, as bytes: events, and facts that no event says.
//!
//! A run is the fold of its records, in order. An [`Event`] is part of the history that a user
//! sees; a [`Fact`] is the engine's own (an attempt was handed out, a message is buffered), kept
//! in the same commit so that nothing lives only in memory.
//!
//! One commit is one blob: `version:u8 crc32:u32 cbor`, checked as a whole; the module `blob` says
//! what is in it. Variants and fields are numbered and only ever added; golden files hold every
//! version to that.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::convert::Infallible;

use minicbor::{Decode, Encode, Encoder};

use crate::event::{Event, EventKind, Site, TaskFailedCause};
use crate::failure::Failure;
use crate::id::{Attempt, Epoch, Incarnation, RequestId, RunId, Seq, StepName, UpdateId};
use crate::job::Resolution;
use crate::options::StepOptions;
use crate::payload::Payload;
use crate::rest::Rest;
use crate::time::Timestamp;

mod blob;

pub use blob::{Measured, decode, encode, has_events, measure, size};

/// The newest version this build writes. It reads this one and every one before it.
pub const VERSION: u8 = 2;
/// The version of what says everything in full.
const IN_FULL: u8 = 1;
const HEADER: usize = 5;

/// One thing a commit says.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// Part of the history.
    Event(Event),
    /// The engine's own.
    Fact(Fact),
}

/// What no event says, yet must survive.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub enum Fact {
    /// An attempt of an activity was handed out.
    #[n(0)]
    AttemptStarted {
        /// Which activity.
        #[n(0)]
        seq: Seq,
        /// Which attempt.
        #[n(1)]
        attempt: Attempt,
        /// To which process.
        #[n(2)]
        incarnation: Incarnation,
        /// When.
        #[n(3)]
        at: Timestamp,
    },
    /// An attempt failed and another one will follow.
    #[n(1)]
    AttemptFailed {
        /// Which activity.
        #[n(0)]
        seq: Seq,
        /// How it failed.
        #[n(1)]
        failure: Failure,
        /// When the next one is due.
        #[n(2)]
        due: Timestamp,
    },
    /// The code of an attempt has returned; somebody outside will answer.
    #[n(19)]
    AttemptLeft {
        /// Which activity.
        #[n(0)]
        seq: Seq,
    },
    /// A running attempt reported.
    #[n(2)]
    Heartbeat {
        /// Which activity.
        #[n(0)]
        seq: Seq,
        /// What it reported.
        #[n(1)]
        details: Payload,
        /// When.
        #[n(2)]
        at: Timestamp,
    },
    /// A step was asked for.
    #[n(3)]
    StepScheduled {
        /// Which step.
        #[n(0)]
        seq: Seq,
        /// Its name.
        #[n(1)]
        name: StepName,
        /// Retries.
        #[n(2)]
        options: Box<StepOptions>,
        /// The call.
        #[n(3)]
        site: Site,
        /// When.
        #[n(4)]
        at: Timestamp,
    },
    /// An attempt of a step was handed out.
    #[n(4)]
    StepStarted {
        /// Which step.
        #[n(0)]
        seq: Seq,
        /// Which attempt.
        #[n(1)]
        attempt: Attempt,
        /// To which process.
        #[n(2)]
        incarnation: Incarnation,
    },
    /// An attempt of a step failed and another one will follow.
    #[n(5)]
    StepFailed {
        /// Which step.
        #[n(0)]
        seq: Seq,
        /// How it failed.
        #[n(1)]
        failure: Failure,
        /// When the next one is due.
        #[n(2)]
        due: Timestamp,
    },
    /// A step has its outcome; the next task delivers it and writes its event.
    #[n(6)]
    StepResolved {
        /// Which step.
        #[n(0)]
        seq: Seq,
        /// How it ended.
        #[n(1)]
        outcome: Resolution,
    },
    /// Something arrived while workflow code ran; it becomes an event when that ends.
    #[n(7)]
    Buffered {
        /// The event it will be.
        #[n(0)]
        kind: Box<EventKind>,
    },
    /// A workflow task failed again: the streak goes on without new events.
    #[n(8)]
    TaskRetry {
        /// Which attempt failed.
        #[n(0)]
        attempt: Attempt,
        /// Why, for a program.
        #[n(1)]
        cause: TaskFailedCause,
        /// Why, for a person.
        #[n(2)]
        failure: Failure,
        /// When to try again; `None`: blocked until something changes.
        #[n(3)]
        next_try: Option<Timestamp>,
    },
    /// The first slice after an unclean stop is about to run.
    #[n(9)]
    SliceArmed,
    /// A blocked run may try again.
    #[n(10)]
    Unblocked,
    /// The slice that was announced has run.
    #[n(12)]
    SliceDisarmed,
    /// What a run that continues another one takes over from it.
    #[n(13)]
    Inherited {
        /// Requests that had their effect before, the newest, oldest first.
        #[n(0)]
        request_ids: Vec<RequestId>,
        /// When each of them had it; missing in what earlier builds wrote.
        #[n(1)]
        seen: Option<Vec<Timestamp>>,
    },
    /// Which updates earlier runs of its chain accepted.
    #[n(16)]
    UpdatesInherited {
        /// The newest of them.
        #[n(0)]
        updates: Vec<AcceptedBefore>,
    },
    /// What workflow code had to say that is no failure.
    #[n(14)]
    Noted {
        /// New notes, for people.
        #[n(0)]
        notes: Vec<String>,
        /// Signals that nobody has taken, now.
        #[n(1)]
        unhandled_signals: u32,
        /// Where it rests, and what it has not taken.
        #[n(2)]
        rest: Option<Box<Rest>>,
    },
    /// An update that had been admitted was turned away.
    #[n(15)]
    UpdateRejected {
        /// Which update.
        #[n(0)]
        id: UpdateId,
        /// Why.
        #[n(1)]
        failure: Failure,
    },
    /// An attempt was given back by a worker that goes down: the same one waits again.
    #[n(17)]
    AttemptHandedBack {
        /// Which activity.
        #[n(0)]
        seq: Seq,
        /// When.
        #[n(1)]
        at: Timestamp,
    },
    /// The same, of a step.
    #[n(18)]
    StepHandedBack {
        /// Which step.
        #[n(0)]
        seq: Seq,
        /// When.
        #[n(1)]
        at: Timestamp,
    },
    /// The event behind this shows a later time than the clock had, since times of events never
    /// fall: what it sets in motion is due by the clock.
    #[n(20)]
    ClockBehind {
        /// What the clock said.
        #[n(0)]
        at: Timestamp,
    },
    /// The same of the start, right behind it: the run goes on for one whose times were ahead.
    #[n(21)]
    BeganBehind {
        /// What the clock said.
        #[n(0)]
        at: Timestamp,
    },
    /// Whoever worked on the run before is shut out.
    #[n(11)]
    EpochRaised {
        /// The new epoch.
        #[n(0)]
        epoch: Epoch,
    },
}

/// An update that an earlier run of the chain accepted: that run has its answer.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct AcceptedBefore {
    /// Which update.
    #[n(0)]
    pub id: UpdateId,
    /// The run that accepted it.
    #[n(1)]
    pub run_id: RunId,
}

/// Why a blob cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damaged {
    /// The bytes are not those that were written.
    #[error("checksum differs: {found:08x} instead of {expected:08x}")]
    Checksum {
        /// As stored.
        expected: u32,
        /// As computed.
        found: u32,
    },
    /// Written by a newer Outlast.
    #[error("written in format {0}, this build reads up to {VERSION}: use the newer build")]
    Newer(u8),
    /// Too short, or not what the format says.
    #[error("does not decode: {0}")]
    Malformed(String),
}

/// Wraps any versioned value as a checked blob: commits, snapshots.
pub fn frame<T: Encode<()>>(body: &T) -> Vec<u8> {
    framed_by(IN_FULL, 256, |e| e.encode(body).map(|_| ()))
}

/// `bytes`: about as many as the body will have.
fn framed_by(
    version: u8,
    bytes: usize,
    body: impl FnOnce(&mut Encoder<&mut Vec<u8>>) -> Result<(), minicbor::encode::Error<Infallible>>,
) -> Vec<u8> {
    let mut blob = Vec::with_capacity(HEADER + bytes);
    blob.extend_from_slice(&[version, 0, 0, 0, 0]);
    // Writing to a growing vector cannot fail: its error type has no values.
    let written = body(&mut Encoder::new(&mut blob));
    debug_assert!(written.is_ok());
    let crc = checksum(version, &blob[HEADER..]);
    blob[1..HEADER].copy_from_slice(&crc.to_le_bytes());
    blob
}

/// Checks and reads what [`frame`] wrote.
///
/// # Errors
/// [`Damaged`] says what is wrong with the bytes.
pub fn unframe<T: for<'b> Decode<'b, ()>>(blob: &[u8]) -> Result<T, Damaged> {
    let Some((header, body)) = blob.split_at_checked(HEADER) else {
        return Err(Damaged::Malformed("shorter than its header".into()));
    };
    let expected = u32::from_le_bytes([header[1], header[2], header[3], header[4]]);
    let found = checksum(header[0], body);
    if found != expected {
        return Err(Damaged::Checksum { expected, found });
    }
    if header[0] > VERSION {
        return Err(Damaged::Newer(header[0]));
    }
    minicbor::decode(body).map_err(|e| Damaged::Malformed(e.to_string()))
}

/// Covers the version too: a flipped bit there must not pass for another format. Header and
/// checksum are the same in every format.
fn checksum(version: u8, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[version]);
    hasher.update(body);
    hasher.finalize()
}
