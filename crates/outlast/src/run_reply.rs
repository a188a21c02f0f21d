//! One answer for a caller who starts a run and waits for its end.
//!
//! The service answers twice: when the start is durable and when the run has ended. Such a caller
//! has nothing to do in between, and waking it for the first answer costs as much as the run's
//! own code. So the first is only kept, unless it is a refusal, and the caller wakes once. If the
//! second never comes, since the application goes down, the caller hears of the first.

use std::sync::{Arc, Mutex, PoisonError};

use outlast_model::start::StartReply;
use outlast_model::view::RunOutcome;
use outlast_model::{Refusal, RunId, WorkflowId};
use outlast_service::mail::Reply;
use tokio::sync::oneshot::{self, Receiver, Sender};

type Ended = Result<(RunId, RunOutcome), Refusal>;

/// What is known so far. Whichever answer comes first waits for the other: of a run that was
/// there already, the end may be known before the start is answered.
struct Known {
    workflow_id: WorkflowId,
    caller: Option<Sender<Ended>>,
    started: Option<RunId>,
    ended: Option<Result<RunOutcome, Refusal>>,
}

impl Known {
    fn tell(&mut self) {
        let answer = match (self.started, self.ended.take()) {
            (Some(run_id), Some(ended)) => ended.map(|outcome| (run_id, outcome)),
            (None, Some(ended)) => return self.ended = Some(ended),
            (Some(_) | None, None) => return,
        };
        self.send(answer);
    }

    fn send(&mut self, answer: Ended) {
        if let Some(caller) = self.caller.take() {
            // A caller who no longer listens is no reason to complain.
            drop(caller.send(answer));
        }
    }
}

impl Drop for Known {
    /// No reply is left.
    fn drop(&mut self) {
        if let Some(run_id) = self.started {
            let workflow_id = self.workflow_id.clone();
            self.send(Err(Refusal::NotAwaited {
                workflow_id,
                run_id,
            }));
        }
    }
}

/// The two replies of the service, and the one answer. Dropped replies close it, or tell of a run
/// that is there and was not waited for.
pub(crate) fn channel(
    workflow_id: WorkflowId,
) -> (Reply<StartReply>, Reply<RunOutcome>, Receiver<Ended>) {
    let (caller, answer) = oneshot::channel();
    let known = Arc::new(Mutex::new(Known {
        workflow_id,
        caller: Some(caller),
        started: None,
        ended: None,
    }));
    let same = known.clone();
    let started: Reply<StartReply> = Box::new(move |reply| {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        match reply {
            Ok(reply) => {
                known.started = Some(reply.run_id);
                known.tell();
            }
            Err(refusal) => known.send(Err(refusal)),
        }
    });
    let ended: Reply<RunOutcome> = Box::new(move |outcome| {
        let mut known = same.lock().unwrap_or_else(PoisonError::into_inner);
        known.ended = Some(outcome);
        known.tell();
    });
    (started, ended, answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> Result<StartReply, Refusal> {
        Ok(StartReply {
            run_id: RunId(7),
            started: true,
        })
    }

    #[test]
    fn the_answer_is_there_when_both_are_in_either_order() {
        for is_start_first in [true, false] {
            let (started, ended, mut answer) = channel("w".into());
            let end = || ended(Ok(RunOutcome::Canceled));
            if is_start_first {
                started(begun());
                assert!(answer.try_recv().is_err());
                end();
            } else {
                end();
                assert!(answer.try_recv().is_err());
                started(begun());
            }
            let found = answer.try_recv().expect("an answer");
            assert_eq!(found, Ok((RunId(7), RunOutcome::Canceled)));
        }
    }

    #[test]
    fn a_start_that_is_refused_is_told_at_once_though_the_end_is_open() {
        let (started, ended, mut answer) = channel("w".into());
        started(Err(Refusal::StoreFull));
        assert_eq!(answer.try_recv(), Ok(Err(Refusal::StoreFull)));
        ended(Err(Refusal::StoreFull));
    }

    #[test]
    fn replies_that_are_dropped_close_it() {
        let (started, ended, mut answer) = channel("w".into());
        drop((started, ended));
        assert_eq!(answer.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }

    #[test]
    fn a_start_whose_end_is_not_awaited_is_told() {
        let (started, ended, mut answer) = channel("w".into());
        started(begun());
        drop(ended);
        let refusal = Refusal::NotAwaited {
            workflow_id: "w".into(),
            run_id: RunId(7),
        };
        assert_eq!(answer.try_recv(), Ok(Err(refusal)));
    }
}
