//! The token of an attempt on the embedded backend: which attempt, as text that fits into a URL.
//!
//! `a1.<run>.<activity>.<attempt>.<incarnation>.<workflow>`, the last part with everything but
//! letters, digits, `-`, `_` and `~` written as `%XX`. It names the process that ran the attempt,
//! so that an attempt which was lost and made again is not answered for the lost one.

use outlast_model::id::{Attempt, Incarnation};
use outlast_model::task::{ActivityTask, OpenAttempt};
use outlast_model::{AnswerToken, Refusal, Seq, WorkflowId};

use crate::promise::token::{escaped, plain};

/// The first part: the form of the rest.
const FORM: &str = "a1";

pub(crate) fn write(task: &ActivityTask) -> AnswerToken {
    let (run, id) = (task.run_id, escaped(task.workflow_id.as_str()));
    let token = &task.token;
    let (seq, attempt, by) = (token.seq, token.attempt, token.incarnation.0);
    AnswerToken::new(format!("{FORM}.{run}.{seq}.{attempt}.{by:032x}.{id}"))
}

pub(crate) fn read(token: &AnswerToken) -> Result<(WorkflowId, OpenAttempt), Refusal> {
    parts(token.as_str()).ok_or_else(|| Refusal::InvalidId {
        what: "activity token",
        value: token.as_str().chars().take(64).collect(),
        why: "it was not made by `complete_later()` of an activity on this backend",
    })
}

fn parts(token: &str) -> Option<(WorkflowId, OpenAttempt)> {
    let mut parts = token.split('.');
    if parts.next() != Some(FORM) {
        return None;
    }
    let attempt = OpenAttempt {
        run_id: parts.next()?.parse().ok()?,
        seq: Seq(parts.next()?.parse().ok()?),
        attempt: Attempt(parts.next()?.parse().ok()?),
        incarnation: Incarnation(u128::from_str_radix(parts.next()?, 16).ok()?),
    };
    let workflow_id = WorkflowId::new(plain(parts.next()?)?);
    parts.next().is_none().then_some((workflow_id, attempt))
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_model::RunId;

    #[test]
    fn what_is_written_is_read_back() {
        let token =
            "a1.00000000-0000-0000-0000-000000000007.3.2.0000000000000000000000000000000f.a%2Eb";
        let (id, attempt) = read(&AnswerToken::new(token)).expect("it is one");
        assert_eq!(id.as_str(), "a.b");
        assert_eq!(attempt.run_id, RunId(7));
        assert_eq!((attempt.seq, attempt.attempt), (Seq(3), Attempt(2)));
        assert_eq!(attempt.incarnation, Incarnation(15));
    }

    #[test]
    fn anything_else_is_refused_by_name() {
        let tail = "00000000-0000-0000-0000-000000000007.3.2.f.a";
        for text in [
            "",
            "a1",
            &format!("p1.{tail}"),
            &format!("a1.{tail}.b"),
            "a1.x.3.2.f.a",
        ] {
            let refused = read(&AnswerToken::new(text)).expect_err("it is none");
            assert_eq!(refused.code(), "OL-1001", "{text}");
        }
    }
}
