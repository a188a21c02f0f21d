//! Between the protocol's messages and Outlast's nouns, one small file per noun.
//!
//! What the protocol can say and Outlast cannot mean is an [`Unsupported`], by name: it happens
//! only to runs and histories that another SDK wrote. What Outlast says and the protocol has no
//! field for travels in a header of Outlast's own, or is left out where it is only for people.

pub(crate) mod activation;
pub(crate) mod attempt;
pub(crate) mod command;
pub(crate) mod edition;
pub(crate) mod failure;
pub(crate) mod headers;
pub(crate) mod history;
pub(crate) mod json;
pub(crate) mod payload;
pub(crate) mod policy;
pub(crate) mod time;

use outlast_model::RunId;

/// Something the protocol can say and Outlast cannot mean.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// A kind of event, job or value that belongs to features Outlast does not have.
    #[error(
        "{what} is not supported: the run was made by another SDK, let its own workers serve it"
    )]
    Kind {
        /// Its name.
        what: String,
    },
    /// A field that must be there is not.
    #[error("{what} has no {field}: the history was cut or edited, export it again")]
    Missing {
        /// The message.
        what: &'static str,
        /// The field.
        field: &'static str,
    },
}

impl Unsupported {
    pub(crate) fn kind(what: impl Into<String>) -> Self {
        Self::Kind { what: what.into() }
    }
}

/// A run id of the cluster: always a UUID.
pub(crate) fn run_id(text: &str) -> Result<RunId, Unsupported> {
    text.parse()
        .map_err(|_| Unsupported::kind(format!("run id {text:?}")))
}

/// A run id that may be absent; the protocol says so with an empty text.
pub(crate) fn some_run_id(text: &str) -> Option<RunId> {
    text.parse().ok()
}
