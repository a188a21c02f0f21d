//! Why a command ends without success: one variant per exit code, so that scripts can tell.
//!
//! 0 ok, 1 failure, 2 usage, 3 a run failed, 4 not found, 5 timeout, 6 refused, 7 stopped by a
//! third signal. Codes 3 and 5 belong to commands that wait for runs.

use std::fmt;
use std::process::ExitCode;

use outlast::Stopped;
use outlast_model::Refusal;
use outlast_service::sqlite::OpenError;

/// Why a command ends without success. The text names the next step.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Something went wrong on the way.
    Failure(String),
    /// The command line does not say one thing.
    Usage(String),
    /// The file or the run is not there.
    NotFound(String),
    /// It is there, and somebody else has it.
    Refused(String),
    /// The user asked three times to stop.
    Forced(String),
}

impl Stop {
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Failure(_) => 1,
            Self::Usage(_) => 2,
            Self::NotFound(_) => 4,
            Self::Refused(_) => 6,
            Self::Forced(_) => 7,
        })
    }

    /// An application that stopped in order is fine; else what is left is named.
    pub(crate) fn if_left(stopped: Stopped) -> Result<(), Self> {
        let is_forced = stopped.is_forced;
        stopped.into_result().map_err(|error| {
            if is_forced {
                Self::Forced(error.to_string())
            } else {
                Self::Failure(error.to_string())
            }
        })
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failure(text)
            | Self::Usage(text)
            | Self::NotFound(text)
            | Self::Refused(text)
            | Self::Forced(text) => f.write_str(text),
        }
    }
}

impl From<&OpenError> for Stop {
    fn from(error: &OpenError) -> Self {
        let text = error.to_string();
        if matches!(error, OpenError::Missing { .. }) {
            Self::NotFound(text)
        } else if matches!(error, OpenError::InUse { .. } | OpenError::OpenHere { .. }) {
            Self::Refused(text)
        } else {
            Self::Failure(text)
        }
    }
}

impl From<OpenError> for Stop {
    fn from(error: OpenError) -> Self {
        Self::from(&error)
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        let text = format!("{refusal} [{}]", refusal.code());
        if matches!(refusal, Refusal::NotFound { .. }) {
            Self::NotFound(text)
        } else {
            Self::Failure(text)
        }
    }
}

impl From<outlast::Error> for Stop {
    fn from(error: outlast::Error) -> Self {
        match error.downcast_ref::<OpenError>() {
            Some(open) => Self::from(open),
            None => Self::Failure(error.to_string()),
        }
    }
}

impl From<outlast::CallError> for Stop {
    fn from(error: outlast::CallError) -> Self {
        Self::Failure(error.to_string())
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Failure(error.to_string())
    }
}
