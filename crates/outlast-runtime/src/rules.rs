//! The rules of each edition, where they differ.
//!
//! A run keeps the rules it began under: what they decide is in its history.

use outlast_model::Edition;

use crate::failure::TaskFailure;

/// Which rules an instance runs under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Of runs that began before editions were recorded.
    First,
    /// Undo and time limits hold through races, drops and cancels.
    Second,
}

impl Rules {
    /// The rules of an edition.
    ///
    /// # Errors
    /// It is of a later version of Outlast.
    pub(crate) fn of(edition: Edition) -> Result<Self, TaskFailure> {
        match edition {
            Edition(0) | Edition::FIRST => Ok(Self::First),
            Edition::SECOND => Ok(Self::Second),
            Edition(_) => Err(TaskFailure::unknown_edition(edition)),
        }
    }

    /// Whether a call with an undo stays registered when nobody waits for it any more, and its
    /// undo runs although nobody knows how it ended.
    pub(crate) fn undo_outlasts_the_wait(self) -> bool {
        match self {
            Self::First => false,
            Self::Second => true,
        }
    }

    /// Whether the timer of a block's time limit is out of reach of cancellation: the block may
    /// clean up in a shield, and the limit holds for that too.
    pub(crate) fn limits_are_shielded(self) -> bool {
        match self {
            Self::First => false,
            Self::Second => true,
        }
    }
}
