//! What can be wrong with settings from outside.

use std::fmt;
use std::path::PathBuf;

use outlast_worker::settings::WrongValue;

use super::Origin;

/// All that is wrong, found at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Each finding.
    pub problems: Vec<Problem>,
}

/// One finding: what, where it was said, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// A file cannot be read.
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A file is no TOML.
    Syntax {
        /// Where.
        origin: Origin,
        /// What is wrong there.
        reason: String,
    },
    /// There is no such setting.
    UnknownKey {
        /// What was said.
        key: String,
        /// Where.
        origin: Origin,
        /// What may have been meant.
        near: Option<&'static str>,
    },
    /// The value is none of this setting.
    WrongValue {
        /// Which setting.
        key: &'static str,
        /// What was said, and what is expected.
        wrong: WrongValue,
        /// Where.
        origin: Origin,
    },
    /// A queue cannot have this setting for itself.
    NotOfAQueue {
        /// Which setting.
        key: &'static str,
        /// Where it was said.
        origin: Origin,
    },
    /// A word of a command line that sets nothing.
    NoValue {
        /// What was said.
        text: String,
    },
}

impl Problem {
    /// Its code, which does not change.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "OL-6001",
            Self::Syntax { .. } => "OL-6002",
            Self::UnknownKey { .. } => "OL-6003",
            Self::WrongValue { .. } => "OL-6004",
            Self::NotOfAQueue { .. } => "OL-6005",
            Self::NoValue { .. } => "OL-6006",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, reason } => {
                write!(f, "{} cannot be read: {reason}", path.display())
            }
            Self::Syntax { origin, reason } => write!(f, "{origin}: {reason}"),
            Self::UnknownKey { key, origin, near } => {
                write!(f, "{origin}: there is no setting {key}")?;
                match near {
                    Some(near) => write!(f, "; did you mean {near}?"),
                    None => f.write_str("; `outlast config show` lists all"),
                }
            }
            Self::WrongValue { key, wrong, origin } => write!(f, "{origin}: {key}: {wrong}"),
            Self::NotOfAQueue { key, origin } => write!(
                f,
                "{origin}: {key} holds for the whole application; say it for all queues"
            ),
            Self::NoValue { text } => write!(
                f,
                "command line: {text:?} sets nothing; write KEY=VALUE, as worker.activity_slots=20"
            ),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{problem} [{}]", problem.code())?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self {
            problems: vec![problem],
        }
    }
}
