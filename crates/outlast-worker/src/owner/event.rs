//! What the owner tells whoever watches it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use outlast_model::QueueName;

use crate::handle::{CompleteError, OpenError};

/// Something happened to a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerEvent {
    /// Which queue.
    pub queue: QueueName,
    /// What.
    pub kind: OwnerEventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerEventKind {
    /// A handle is open.
    Opened {
        /// Its number.
        generation: u64,
    },
    /// A handle could not be opened.
    OpenFailed {
        /// Why.
        error: OpenError,
        /// How many times in a row.
        failures: u32,
    },
    /// A poll failed and will be repeated.
    PollFailed {
        /// Why.
        text: String,
    },
    /// A handle is broken and will be opened anew.
    Broken {
        /// Its number.
        generation: u64,
        /// Why.
        text: String,
    },
    /// A handle has stopped.
    Stopped {
        /// Its number.
        generation: u64,
    },
    /// An answer was not taken; the backend hands the work out again.
    AnswerDropped {
        /// What it was about.
        subject: String,
        /// Why.
        error: CompleteError,
    },
    /// A part panicked or was ended from outside, and begins again.
    Restarted {
        /// Which part.
        part: &'static str,
        /// Its last words.
        text: String,
    },
}

impl fmt::Display for OwnerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, kind } = self;
        write!(f, "queue {queue}: ")?;
        match kind {
            OwnerEventKind::Opened { generation } => write!(f, "handle {generation} is open"),
            OwnerEventKind::OpenFailed { error, failures } => {
                write!(f, "no handle after {failures} tries: {error}")
            }
            OwnerEventKind::PollFailed { text } => write!(f, "a poll failed: {text}"),
            OwnerEventKind::Broken { generation, text } => {
                write!(f, "handle {generation} is broken and opened anew: {text}")
            }
            OwnerEventKind::Stopped { generation } => write!(f, "handle {generation} has stopped"),
            OwnerEventKind::AnswerDropped { subject, error } => {
                write!(f, "the answer to {subject} was dropped: {error}")
            }
            OwnerEventKind::Restarted { part, text } => {
                write!(f, "{part} ended and begins again: {text}")
            }
        }
    }
}

/// Where events go. A watcher that panics hurts nobody.
#[derive(Clone)]
pub struct OwnerEvents(Arc<dyn Fn(OwnerEvent) + Send + Sync>);

impl OwnerEvents {
    /// To this watcher.
    pub fn new(watch: impl Fn(OwnerEvent) + Send + Sync + 'static) -> Self {
        Self(Arc::new(watch))
    }

    pub(crate) fn tell(&self, queue: &QueueName, kind: OwnerEventKind) {
        let queue = queue.clone();
        let told = catch_unwind(AssertUnwindSafe(|| (self.0)(OwnerEvent { queue, kind })));
        // It has said so itself.
        drop(told);
    }
}

impl fmt::Debug for OwnerEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerEvents")
    }
}
