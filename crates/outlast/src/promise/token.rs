//! The token of a promise: which run, which promise, as text that fits into a URL.
//!
//! `p1.<run>.<promise>.<workflow>`, each part with everything but letters, digits, `-`, `_` and
//! `~` written as `%XX`. It is no secret: whoever may not settle a promise must not see it.

use outlast_model::view::RunRef;
use outlast_model::{PromiseId, Refusal, RunId, WorkflowId};

/// The first part: the form of the rest.
const FORM: &str = "p1";

/// The text is not a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotAToken(String);

impl NotAToken {
    pub(super) fn refusal(self) -> Refusal {
        Refusal::InvalidId {
            what: "promise token",
            value: self.0.chars().take(64).collect(),
            why: "it was not made by `.token()` of a promise",
        }
    }
}

pub(super) fn write(run: &RunRef, promise: &PromiseId) -> String {
    let run_id = run.run_id.map(|id| id.to_string()).unwrap_or_default();
    let (promise, id) = (escaped(promise.as_str()), escaped(run.workflow_id.as_str()));
    format!("{FORM}.{run_id}.{promise}.{id}")
}

pub(super) fn read(token: &str) -> Result<(RunRef, PromiseId), NotAToken> {
    parts(token).ok_or_else(|| NotAToken(token.to_owned()))
}

fn parts(token: &str) -> Option<(RunRef, PromiseId)> {
    let mut parts = token.split('.');
    if parts.next() != Some(FORM) {
        return None;
    }
    let run_id: RunId = parts.next()?.parse().ok()?;
    let (promise, workflow) = (plain(parts.next()?)?, plain(parts.next()?)?);
    if parts.next().is_some() {
        return None;
    }
    let run = RunRef {
        workflow_id: WorkflowId::new(workflow),
        run_id: Some(run_id),
    };
    Some((run, PromiseId::new(promise)))
}

pub(crate) fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
        escaped
    })
}

pub(crate) fn plain(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        let digits = std::str::from_utf8(&digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}
