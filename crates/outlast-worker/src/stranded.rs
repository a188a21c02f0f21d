//! Whether code may have one more thread, where others of its kind have not come back.
//!
//! A thread is lost when another one drives its shard, or when its code was given up. One run costs
//! at most one: while destructors of its last instance have not come back it gets no slice, while a
//! question has not it is asked no other. Eight of one workflow type are enough: then the type is
//! blocked, and the others go on. A type with a patience without end costs no thread for good, so
//! it is never blocked.
//!
//! ```text
//!   task --refuse--> refused, the run is blocked --a thread is back--> released, tried again
//! ```
//!
//! Threads that begin with a type together could all be lost together. So from the fourth lost one
//! on those that are under way count too, if they began first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use outlast_model::event::TaskFailedCause;
use outlast_model::failure::type_name;
use outlast_model::limits::STRANDED_THREADS;
use outlast_model::task::TaskAnswer;
use outlast_model::{Failure, RunId, WorkflowType};

use crate::event::{RunIn, WorkerEvent};
use crate::watch::Work;

/// Lost threads of a type from which on those under way count as well.
const MANY: usize = STRANDED_THREADS / 2;

/// What a thread is busy with, seen from another.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) run: RunIn,
    pub(crate) work: Work,
    pub(crate) since: Instant,
    /// What the thread is lost in, for people; none while it is not lost.
    pub(crate) lost: Option<String>,
}

impl Seen {
    fn is_lost(&self) -> bool {
        self.lost.is_some()
    }
}

/// Why code gets no thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Code of this very run has not come back: which, for people.
    Run(String),
    /// So many threads of its type have not.
    Type(usize),
}

/// What wants a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wants<'a> {
    pub(crate) run: &'a RunIn,
    /// Only asks something.
    pub(crate) is_question: bool,
    /// Whether its type is ever given up.
    pub(crate) is_limited: bool,
    pub(crate) since: Instant,
}

/// Why this may not have a thread beside these, if it may not.
pub(crate) fn refusal(wants: &Wants<'_>, others: &[Seen]) -> Option<Why> {
    let costs = |other: &Seen| match other.work {
        Work::Drop => true,
        Work::Questions(_) => wants.is_question,
        Work::Slice(_) => false,
    };
    let mine = |other: &&Seen| other.run.run_id == wants.run.run_id && costs(other);
    if let Some(lost) = others.iter().filter(mine).find_map(|o| o.lost.clone()) {
        return Some(Why::Run(lost));
    }
    let kind = &wants.run.workflow_type;
    let alike = || others.iter().filter(|o| o.run.workflow_type == *kind);
    let lost = alike().filter(|other| other.is_lost()).count();
    let is_before = |other: &&Seen| !other.is_lost() && other.since <= wants.since;
    let before = match lost {
        MANY.. => alike().filter(is_before).count(),
        _ => 0,
    };
    (wants.is_limited && lost + before >= STRANDED_THREADS).then_some(Why::Type(lost))
}

/// Runs that got no thread.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    runs: BTreeMap<RunId, RunIn>,
    /// Types of which somebody was told.
    told: BTreeSet<WorkflowType>,
}

impl Refused {
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.told.is_empty()
    }

    /// The answer to a task that gets no thread, and what is to be told, once for each type.
    pub(crate) fn add(&mut self, wants: &Wants<'_>, why: Why) -> (TaskAnswer, Option<WorkerEvent>) {
        let RunIn { workflow_type, .. } = wants.run;
        if !wants.is_question {
            self.runs.insert(wants.run.run_id, wants.run.clone());
        }
        let (text, event) = match why {
            Why::Run(lost) => (
                format!(
                    "{lost}; an earlier instance of the run left it behind, and the run is tried \
                     again when it has come back"
                ),
                None,
            ),
            Why::Type(threads) => {
                let workflow_type = workflow_type.clone();
                let event = WorkerEvent::TypeBlocked {
                    workflow_type: workflow_type.clone(),
                    threads,
                };
                let is_new = threads >= STRANDED_THREADS && self.told.insert(workflow_type);
                (event.to_string(), is_new.then_some(event))
            }
        };
        let answer = TaskAnswer::Failed {
            cause: TaskFailedCause::Stuck,
            failure: Failure::application(type_name::STUCK, text),
        };
        (answer, event)
    }

    /// Runs that may try again, and types that are blocked no longer.
    pub(crate) fn release(
        &mut self,
        now: Instant,
        all: &[Seen],
        is_limited: impl Fn(&RunIn) -> bool,
    ) -> (Vec<RunId>, Vec<WorkflowType>) {
        let is_free = |run: &RunIn| {
            let wants = Wants {
                run,
                is_question: false,
                is_limited: is_limited(run),
                since: now,
            };
            refusal(&wants, all).is_none()
        };
        let free = self.runs.extract_if(.., |_, run| is_free(run));
        let free = free.map(|(run_id, _)| run_id).collect();
        let lost = |kind: &WorkflowType| {
            let mine = all.iter().filter(|seen| seen.run.workflow_type == *kind);
            mine.filter(|seen| seen.is_lost()).count()
        };
        let released = self
            .told
            .extract_if(.., |kind| lost(kind) < STRANDED_THREADS);
        (free, released.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use outlast_model::Epoch;
    use outlast_model::task::{RunNo, TaskToken};

    fn run(id: u128, kind: &str) -> RunIn {
        RunIn {
            run_id: RunId(id),
            workflow_id: "w".into(),
            workflow_type: kind.into(),
        }
    }

    fn seen(id: u128, kind: &str, work: Work, is_lost: bool) -> Seen {
        Seen {
            run: run(id, kind),
            work,
            since: clock::now(),
            lost: is_lost.then(|| format!("thread {id}")),
        }
    }

    fn token() -> TaskToken {
        TaskToken {
            run: RunNo(1),
            epoch: Epoch(0),
            turn: 1,
        }
    }

    fn asks(id: u128, is_question: bool, others: &[Seen]) -> Option<Why> {
        let wants = Wants {
            run: &run(id, "t"),
            is_question,
            is_limited: true,
            since: clock::now(),
        };
        refusal(&wants, others)
    }

    #[test]
    fn one_run_costs_at_most_one_thread() {
        let (slice, questions) = (Work::Slice(token()), Work::Questions(token()));
        // Work that is lost, and whether a slice and a question of the same run are refused.
        let table = [
            (slice, false, false),
            (questions, false, true),
            (Work::Drop, true, true),
        ];
        for (work, is_slice_refused, is_question_refused) in table {
            let others = [seen(1, "t", work, true)];
            assert_eq!(asks(1, false, &others).is_some(), is_slice_refused);
            assert_eq!(asks(1, true, &others).is_some(), is_question_refused);
            assert_eq!(asks(2, true, &others), None, "another run");
            if let Some(why) = asks(1, true, &others) {
                assert_eq!(why, Why::Run("thread 1".to_owned()), "it says which");
            }
            let others = [seen(1, "t", work, false)];
            assert_eq!(asks(1, true, &others), None, "it is not lost");
        }
    }

    #[test]
    fn eight_threads_of_a_type_block_it_and_no_other() {
        let lost = |n: u128, kind| seen(n, kind, Work::Slice(token()), true);
        let mut others: Vec<Seen> = (1..8).map(|n| lost(n, "t")).collect();
        others.extend((11..20).map(|n| lost(n, "other")));
        assert_eq!(asks(99, false, &others), None);
        others.push(lost(8, "t"));
        assert_eq!(asks(99, false, &others), Some(Why::Type(8)));
        let (free, unlimited) = (run(99, "third"), run(99, "t"));
        let wants = |run, is_limited| Wants {
            run,
            is_question: false,
            is_limited,
            since: clock::now(),
        };
        assert_eq!(refusal(&wants(&free, true), &others), None);
        assert_eq!(refusal(&wants(&unlimited, false), &others), None);
    }

    #[test]
    fn threads_that_begin_together_are_not_lost_together_beyond_the_limit() {
        let mut others: Vec<Seen> = (1..8)
            .map(|n| seen(n, "t", Work::Slice(token()), true))
            .collect();
        others.push(seen(8, "t", Work::Slice(token()), false));
        assert_eq!(asks(99, false, &others), Some(Why::Type(7)), "it was first");
        others[7].since += std::time::Duration::from_secs(3_600);
        assert_eq!(asks(99, false, &others), None, "it comes later");
    }

    #[test]
    fn what_was_refused_is_released_when_a_thread_is_back_and_told_once() {
        let mut refused = Refused::default();
        let mut others: Vec<Seen> = (1..=8)
            .map(|n| seen(n, "t", Work::Slice(token()), true))
            .collect();
        let told = [20, 21].map(|id| {
            let wants = Wants {
                run: &run(id, "t"),
                is_question: false,
                is_limited: true,
                since: clock::now(),
            };
            refused.add(&wants, Why::Type(8)).1.is_some()
        });
        assert_eq!(told, [true, false]);
        let now = clock::now();
        let nobody = refused.release(now, &others, |_| true);
        assert_eq!(nobody, (Vec::new(), Vec::new()));
        others.pop();
        let (free, released) = refused.release(now, &others, |_| true);
        assert_eq!(free, [RunId(20), RunId(21)]);
        assert_eq!(released, [WorkflowType::from("t")]);
        assert!(refused.is_empty());
    }
}
