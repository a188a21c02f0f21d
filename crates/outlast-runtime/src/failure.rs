//! Why a workflow task could not complete.
//!
//! A task failure is never the run's failure: the code, or the machine it runs on, is at fault,
//! and the run waits for better code. So every text names the branch, the last durable call it
//! made, and what to do.

use std::any::Any;
use std::fmt;

use outlast_model::event::{Site, TaskFailedCause};
use outlast_model::failure::type_name;
use outlast_model::{Edition, Failure, limits};

use crate::cell::Key;
use crate::panic;

/// Why a workflow task could not complete.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskFailure {
    /// For a program.
    pub cause: TaskFailedCause,
    /// For a person.
    pub failure: Failure,
}

/// The type name of failures that are the runtime's own findings.
const NOT_DURABLE: &str = "outlast.NotDurable";
const MISMATCH: &str = "outlast.ReplayMismatch";
const MISUSE: &str = "outlast.Misuse";

impl TaskFailure {
    fn unhandled(failure: Failure) -> Self {
        Self {
            cause: TaskFailedCause::WorkerUnhandledFailure,
            failure,
        }
    }

    /// Code and history disagree.
    pub(crate) fn mismatch(text: String) -> Self {
        let failure = Failure::application(MISMATCH, text);
        Self {
            cause: TaskFailedCause::NonDeterminism,
            failure,
        }
    }

    /// The run began under rules that this version does not have.
    pub(crate) fn unknown_edition(edition: Edition) -> Self {
        let newest = Edition::NEWEST;
        Self::mismatch(format!(
            "the run began under edition {edition} of the rules, and this version of Outlast has \
             editions up to {newest}: run it with the version that started it, or a later one"
        ))
    }

    /// The caller of the runtime broke the protocol.
    pub(crate) fn misuse(text: &str) -> Self {
        Self::unhandled(Failure::application(MISUSE, text))
    }

    /// The slice was given up: this answer will not be heard.
    pub(crate) fn given_up() -> Self {
        let text = "the code does not come to rest, and nobody waits for it any more";
        Self {
            cause: TaskFailedCause::Stuck,
            failure: Failure::application(type_name::STUCK, text),
        }
    }

    /// There are more branches than a run may have.
    pub(crate) fn too_many_branches(whence: &Whence<'_>) -> Self {
        let text = format!(
            "{whence} spawns without end: a run has at most {} branches at a time. Wait for some \
             before you spawn more",
            limits::BRANCHES
        );
        Self::unhandled(Failure::application(MISUSE, text))
    }

    /// The input does not decode.
    pub(crate) fn refused_input(failure: Failure) -> Self {
        Self::unhandled(failure)
    }

    /// User code panicked.
    pub(crate) fn panic(payload: Box<dyn Any + Send>, whence: &Whence<'_>) -> Self {
        let (text, place) = (panic::text(payload), panic::place());
        let text = if wants_tokio(&text) {
            without_tokio(&text, place.as_deref())
        } else {
            text
        };
        Self::unhandled(Failure::panic(format!("{text} (in {whence})")).at(whence.to_string()))
    }

    /// Something that is not durable woke workflow code.
    pub(crate) fn foreign_wake(whence: &Whence<'_>) -> Self {
        let text = format!(
            "{whence} was woken by something that is not durable: another thread, a timer or a \
             socket of the process; a replay cannot repeat that. Do it in a step or an activity"
        );
        Self::unhandled(Failure::application(NOT_DURABLE, text))
    }

    /// Everything waits, and nothing durable can end the waiting.
    pub(crate) fn waits_for_nothing(whence: &Whence<'_>) -> Self {
        let text = format!(
            "{whence} waits for something that is not durable: no activity, timer, step or child \
             is open, no signal or promise is awaited and no message handled, so nothing recorded \
             can ever wake it"
        );
        Self::unhandled(Failure::application(NOT_DURABLE, text))
    }

    /// An outcome for an operation that the code has not made.
    pub(crate) fn unknown_operation(key: Key, last: u32) -> Self {
        let (kind, seq) = (key.kind.name(), key.seq);
        Self::mismatch(format!(
            "the history resolves {kind} {seq}, but the code has asked for only {last} of that \
             kind: it is not the code that wrote this history"
        ))
    }
}

impl fmt::Display for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.cause.name(), self.failure)
    }
}

impl std::error::Error for TaskFailure {}

/// Whether a panic says that something of tokio was used where no runtime of it is.
fn wants_tokio(text: &str) -> bool {
    ["Tokio 1.x", "no reactor running", "task::LocalSet"]
        .iter()
        .any(|said| text.contains(said))
}

fn without_tokio(text: &str, place: Option<&str>) -> String {
    let place = place.map_or(String::new(), |place| format!(" at {place}"));
    format!(
        "{text}{place}: no tokio runs where workflow code does; use ctx.sleep for time, ctx.spawn for \
         branches, and a step or an activity for everything else"
    )
}

/// A branch and the last durable call it made.
pub(crate) struct Whence<'a> {
    pub(crate) branch: &'a str,
    pub(crate) last_call: Option<&'a Site>,
}

impl fmt::Display for Whence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last_call {
            Some(site) => write!(f, "{}, last durable call at {site}", self.branch),
            None => write!(f, "{}, before its first durable call", self.branch),
        }
    }
}

/// There is no handler of this name, but there are these.
pub(crate) fn unknown_handler<'a>(
    kind: &str,
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> Failure {
    let known: Vec<String> = known.map(|name| format!("`{name}`")).collect();
    let known = if known.is_empty() {
        "none".into()
    } else {
        known.join(", ")
    };
    let text = format!("this workflow has no {kind} `{name}`; it has: {known}");
    Failure::application(type_name::UNKNOWN_HANDLER, text)
}
