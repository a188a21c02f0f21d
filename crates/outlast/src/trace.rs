//! What happened, seen from outside: a chain of failures, and whose it is.
//!
//! A [`Trace`] is also a standard error. It sits behind every [`CallError`](crate::CallError) as
//! its source, and that is how a failure keeps its whole chain on the way through `anyhow`, a
//! `Box<dyn Error>` or any other error that names its source: [`Error`](crate::Error) looks for
//! it there.

use std::error::Error as StdError;
use std::fmt::{self, Write as _};

use outlast_model::failure::RetryState;
use outlast_model::{FailureKind, TimeoutKind};

use crate::failure::{Failure, FailureTrace};

/// The type name of the link that says which run failed.
const RUN: &str = "outlast.Run";

/// A chain of failures, outermost first, and what it befell.
#[derive(Clone)]
pub struct Trace {
    /// `workflow checkout (order-42) failed`: known to a client, not part of the run's own
    /// history.
    origin: Option<Box<str>>,
    failure: Box<FailureTrace>,
}

impl Trace {
    pub(crate) fn new(failure: FailureTrace) -> Self {
        Self {
            origin: None,
            failure: Box::new(failure),
        }
    }

    pub(crate) fn of(origin: impl Into<Box<str>>, failure: FailureTrace) -> Self {
        Self {
            origin: Some(origin.into()),
            failure: Box::new(failure),
        }
    }

    /// The outermost failure as it is stored.
    pub fn failure(&self) -> &FailureTrace {
        &self.failure
    }

    /// The failure that decides what kind of trouble it is: behind "activity x failed" and
    /// "child x failed".
    pub fn root(&self) -> &FailureTrace {
        let mut link = &*self.failure;
        while let (FailureKind::Activity { .. } | FailureKind::Child { .. }, Some(cause)) =
            (&link.kind, &link.cause)
        {
            link = cause;
        }
        link
    }

    /// Reads a typed failure back, wherever in the chain it is.
    pub fn find<F: Failure>(&self) -> Option<F> {
        self.failure.chain().find_map(read)
    }

    /// Everything on one line.
    pub fn summary(&self) -> String {
        match &self.origin {
            Some(origin) => format!("{origin}: {}", self.failure),
            None => self.failure.to_string(),
        }
    }

    /// One line per link, each further in than the last, with its kind and its place.
    pub fn tree(&self) -> String {
        let mut text = String::new();
        let mut depth = 0;
        if let Some(origin) = &self.origin {
            text.push_str(origin);
            text.push('\n');
            depth = 1;
        }
        for link in self.failure.chain() {
            let place = link
                .trace
                .as_ref()
                .map(|at| format!(" at {at}"))
                .unwrap_or_default();
            let indent = depth * 2;
            // Writing to a String cannot fail.
            writeln!(
                text,
                "{:indent$}{}{}{place}",
                "",
                link.message,
                label(&link.kind)
            )
            .ok();
            depth += 1;
        }
        text
    }

    /// The chain to store, with the origin as its first link.
    pub(crate) fn to_failure(&self) -> FailureTrace {
        match &self.origin {
            Some(origin) => {
                FailureTrace::application(RUN, &**origin).caused_by((*self.failure).clone())
            }
            None => (*self.failure).clone(),
        }
    }
}

/// Reads one link as a typed failure, if it is one.
pub(crate) fn read<F: Failure>(link: &FailureTrace) -> Option<F> {
    if let FailureKind::Application {
        type_name,
        details: Some(details),
        ..
    } = &link.kind
        && type_name == F::TYPE
    {
        return details.decode().ok();
    }
    None
}

fn label(kind: &FailureKind) -> String {
    match kind {
        FailureKind::Application {
            type_name,
            non_retryable,
            ..
        } => match (type_name.as_str(), non_retryable) {
            ("", true) => " [terminal]".into(),
            ("" | RUN, false) => String::new(),
            (name, true) => format!(" [{name}, terminal]"),
            (name, false) => format!(" [{name}]"),
        },
        FailureKind::Timeout { kind, .. } => format!(" [{} timeout]", clock(*kind)),
        FailureKind::Canceled { .. } => " [cancelled]".into(),
        FailureKind::Terminated => " [terminated]".into(),
        FailureKind::Server { .. } => " [server]".into(),
        FailureKind::Activity { retry_state, .. } => format!(" [{}]", why_no_more(*retry_state)),
        FailureKind::Child { workflow_id, .. } => format!(" [child {workflow_id}]"),
    }
}

fn clock(kind: TimeoutKind) -> &'static str {
    match kind {
        TimeoutKind::StartToClose => "start-to-close",
        TimeoutKind::ScheduleToStart => "schedule-to-start",
        TimeoutKind::ScheduleToClose => "schedule-to-close",
        TimeoutKind::Heartbeat => "heartbeat",
    }
}

fn why_no_more(state: RetryState) -> &'static str {
    match state {
        RetryState::InProgress => "still retried",
        RetryState::NonRetryableFailure => "not worth a retry",
        RetryState::Timeout => "out of time",
        RetryState::MaximumAttemptsReached => "out of attempts",
        RetryState::RetryPolicyNotSet => "no retry policy",
        RetryState::CancelRequested => "cancelled",
    }
}

/// The tree, because whoever prints a chain of sources has already seen the summary.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.tree().trim_end())
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl StdError for Trace {}
