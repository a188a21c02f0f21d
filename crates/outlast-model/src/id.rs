//! Names and numbers that identify things. Each is its own type, so that no two can be swapped.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Deref;

use minicbor::{Decode, Decoder, Encode, Encoder, decode, encode};

/// The text of a name that mostly is part of the program, and then free to copy.
#[derive(Clone)]
enum Text {
    Fixed(&'static str),
    Shared(Arc<str>),
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Fixed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl From<Arc<str>> for Text {
    fn from(text: Arc<str>) -> Self {
        Self::Shared(text)
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text {}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(other)
    }
}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        name! { $(#[$doc])* $name(Arc<str>) }
    };
    ($(#[$doc:meta])* $name:ident($text:ty)) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($text);

        impl $name {
            /// Takes the text as it is; limits are checked where it enters the system.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(<$text>::from(text.into()))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self.as_str(), f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }

        impl<C> Encode<C> for $name {
            fn encode<W: encode::Write>(
                &self,
                e: &mut Encoder<W>,
                _: &mut C,
            ) -> Result<(), encode::Error<W::Error>> {
                e.str(self.as_str())?;
                Ok(())
            }
        }

        impl<'b, C> Decode<'b, C> for $name {
            fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, decode::Error> {
                Ok(Self::new(d.str()?))
            }
        }
    };
}

name! {
    /// The id a user gives to a workflow. Unique among open runs.
    WorkflowId
}
name! {
    /// The registered name of a workflow.
    WorkflowType
}
name! {
    /// The registered name of an activity.
    ActivityType(Text)
}

impl From<Cow<'static, str>> for ActivityType {
    fn from(text: Cow<'static, str>) -> Self {
        match text {
            Cow::Borrowed(text) => Self(Text::Fixed(text)),
            Cow::Owned(text) => Self::new(text),
        }
    }
}

name! {
    /// The name of a step, as written in `ctx.step("name", ..)`.
    StepName
}
/// The task queue of everything that names no other.
pub const DEFAULT_QUEUE: &str = "default";

name! {
    /// Where work waits for workers.
    QueueName
}
name! {
    /// Chosen by the caller of a request, so that a retried request has its effect once.
    RequestId
}
name! {
    /// The name of a signal.
    SignalName
}
name! {
    /// The name of an update's handler.
    UpdateName
}
name! {
    /// Names one update of a run: the same id again is the same update.
    UpdateId
}
name! {
    /// The name of a query's handler.
    QueryName
}
name! {
    /// Names one change of workflow code, for ever.
    PatchId
}
name! {
    /// Names one promise of a run.
    PromiseId
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
        #[cbor(transparent)]
        pub struct $name(#[n(0)] pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

name! {
    /// What answers an attempt from outside: text that fits into a URL. The backend that made it
    /// alone understands it. No secret: whoever may not answer must not see it.
    AnswerToken
}

number! {
    /// The number of an event in its history, from 1, without gaps.
    EventId(u64)
}
number! {
    /// The number of an operation among those of its kind in a run, from 1.
    Seq(u32)
}
number! {
    /// The number of an attempt, from 1.
    Attempt(u32)
}
number! {
    /// How many commits a run has had. Every commit names the one it builds on.
    Version(u64)
}
number! {
    /// The fencing number of a run: raised when whoever works on it must be shut out.
    Epoch(u32)
}

impl Attempt {
    /// The first attempt.
    pub const FIRST: Self = Self(1);

    /// The attempt after this one.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

macro_rules! uuid {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let v = self.0;
                write!(
                    f,
                    "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
                    v >> 96,
                    (v >> 80) & 0xffff,
                    (v >> 64) & 0xffff,
                    (v >> 48) & 0xffff,
                    v & 0xffff_ffff_ffff
                )
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl core::str::FromStr for $name {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<Self, NotAnId> {
                let mut value: u128 = 0;
                let mut digits = 0;
                for c in text.chars().filter(|c| *c != '-') {
                    let digit = c.to_digit(16).ok_or(NotAnId)?;
                    digits += 1;
                    if digits > 32 {
                        return Err(NotAnId);
                    }
                    value = (value << 4) | u128::from(digit);
                }
                if digits == 32 { Ok(Self(value)) } else { Err(NotAnId) }
            }
        }

        impl<C> Encode<C> for $name {
            fn encode<W: encode::Write>(
                &self,
                e: &mut Encoder<W>,
                _: &mut C,
            ) -> Result<(), encode::Error<W::Error>> {
                e.bytes(&self.0.to_be_bytes())?;
                Ok(())
            }
        }

        impl<'b, C> Decode<'b, C> for $name {
            fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, decode::Error> {
                let bytes: [u8; 16] = d
                    .bytes()?
                    .try_into()
                    .map_err(|_| decode::Error::message("an id has 16 bytes"))?;
                Ok(Self(u128::from_be_bytes(bytes)))
            }
        }
    };
}

uuid! {
    /// One execution of a workflow. A UUID, version 7 when Outlast makes it.
    RunId
}
uuid! {
    /// Random id of one process start: never a host name, so that a restarted process is not
    /// mistaken for the one that died.
    Incarnation
}

/// The text is not 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an id: expected 32 hexadecimal digits")]
pub struct NotAnId;

impl RunId {
    /// The id of a run that another run brings forth: its child number `seq`, or its successor for
    /// `seq` 0. Made from the maker's own id, so that no randomness is needed and the same cause
    /// gives the same run.
    pub fn derived(from: RunId, seq: Seq, millis: u64) -> Self {
        // Two rounds of a 64-bit mixer (splitmix64) over both halves: ids are unique, not secret.
        let mix = |mut z: u64| {
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        let (high, low) = ((from.0 >> 64) as u64, from.0 as u64);
        let salt = (u64::from(seq.0) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let first = mix(mix(low ^ salt) ^ high);
        let second = mix(first.wrapping_add(low).wrapping_add(salt));
        Self::v7(millis, (u128::from(first) << 64) | u128::from(second))
    }

    /// A version 7 UUID from the time and 74 random bits, both given by the caller.
    pub fn v7(millis: u64, random: u128) -> Self {
        let time = u128::from(millis & 0xffff_ffff_ffff) << 80;
        let version = 0x7_u128 << 76;
        let variant = 0b10_u128 << 62;
        let mask = (0xfff_u128 << 64) | ((1_u128 << 62) - 1);
        Self(time | version | variant | (random & mask))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::string::ToString;

    #[test]
    fn a_run_id_survives_text() {
        let id = RunId::v7(1_700_000_000_123, u128::MAX);
        let text = id.to_string();
        assert_eq!(text.parse::<RunId>(), Ok(id));
        assert_eq!(text.as_bytes()[14], b'7');
        assert_eq!("nonsense".parse::<RunId>(), Err(NotAnId));
    }

    /// Makers of the same millisecond, a few bits apart or not at all.
    fn makers() -> impl Iterator<Item = RunId> {
        let random = (0..100_u128).map(|n| RunId::v7(1_000, n));
        let drawn = (0..100_u128).map(|n| RunId::v7(1_000, (n << 64) | (n * n)));
        random.chain(drawn)
    }

    #[test]
    fn runs_that_others_bring_forth_have_ids_of_their_own() {
        let mut made: BTreeSet<RunId> = makers().collect();
        let before = made.len();
        for maker in makers().collect::<BTreeSet<_>>() {
            for seq in 0..500 {
                let id = RunId::derived(maker, Seq(seq), 2_000);
                assert!(made.insert(id), "child {seq} of {maker} is {id} again");
            }
        }
        assert_eq!(made.len(), before * 501);
    }

    #[test]
    fn a_chain_of_successors_never_meets_an_id_again() {
        let mut made = BTreeSet::new();
        let mut run = RunId::v7(1_000, 7);
        for _ in 0..10_000 {
            assert!(made.insert(run), "{run} again");
            run = RunId::derived(run, Seq(0), 1_000);
        }
    }

    #[test]
    fn ids_of_runs_that_others_bring_forth_are_ordered_by_time() {
        for maker in makers() {
            let at = |millis| (0..50).map(move |seq| RunId::derived(maker, Seq(seq), millis));
            let (early, late) = (at(5_000).max(), at(5_001).min());
            assert!(early < late, "{maker}");
        }
    }

    #[test]
    fn the_same_cause_brings_forth_the_same_run() {
        for maker in makers() {
            let id = RunId::derived(maker, Seq(3), 2_000);
            assert_eq!(id, RunId::derived(maker, Seq(3), 2_000));
            assert_eq!(id.to_string().as_bytes()[14], b'7', "a UUID of version 7");
        }
    }
}
