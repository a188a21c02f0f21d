//! Where a run stands, as its last event tells.

use core::fmt;

use minicbor::{Decode, Encode};

/// Where a run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum Status {
    /// Open.
    #[default]
    #[n(1)]
    Running,
    /// Returned `Ok`.
    #[n(2)]
    Completed,
    /// Returned `Err`.
    #[n(3)]
    Failed,
    /// Ended because it was asked to.
    #[n(4)]
    Canceled,
    /// Ended by an operator.
    #[n(5)]
    Terminated,
    /// Went on as a new run.
    #[n(6)]
    ContinuedAsNew,
    /// Ran out of time.
    #[n(7)]
    TimedOut,
}

impl Status {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Running,
        Self::Completed,
        Self::Failed,
        Self::Canceled,
        Self::Terminated,
        Self::ContinuedAsNew,
        Self::TimedOut,
    ];

    /// Whether the run has not ended.
    pub fn is_open(self) -> bool {
        self == Self::Running
    }

    /// The number it is stored as.
    pub fn number(self) -> u8 {
        match self {
            Self::Running => 1,
            Self::Completed => 2,
            Self::Failed => 3,
            Self::Canceled => 4,
            Self::Terminated => 5,
            Self::ContinuedAsNew => 6,
            Self::TimedOut => 7,
        }
    }

    /// The status with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.number() == number)
    }

    /// Its name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "cancelled",
            Self::Terminated => "terminated",
            Self::ContinuedAsNew => "continued-as-new",
            Self::TimedOut => "timed-out",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
