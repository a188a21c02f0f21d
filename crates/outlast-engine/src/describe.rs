//! How a run looks from outside, from its state alone.

use alloc::vec::Vec;

use outlast_model::view::{Trouble, Waiting};

use crate::run::Run;
use crate::{activity, step, timer};

/// What a run waits for.
pub fn waiting(run: &Run) -> Vec<Waiting> {
    let mut waiting = Vec::new();
    if run.task().is_pending() {
        waiting.push(Waiting::Task);
    }
    for (seq, a) in run.activities() {
        let activity_type = a.scheduled.activity_type.clone();
        let (last_failure, site) = (a.last_failure.clone(), a.scheduled.site.clone());
        waiting.push(match &a.state {
            activity::State::Waiting { attempt, due } => Waiting::ActivityPending {
                seq,
                activity_type,
                attempt: *attempt,
                due: *due,
                last_failure,
                site,
            },
            activity::State::Running { attempt, since, .. } => Waiting::ActivityRunning {
                seq,
                activity_type,
                attempt: *attempt,
                since: *since,
                last_failure,
                site,
            },
            activity::State::Closing => continue,
        });
    }
    for (seq, t) in run.timers() {
        if let timer::State::Running { due } = t.state {
            waiting.push(Waiting::Timer {
                seq,
                due,
                site: t.site.clone(),
            });
        }
    }
    for (seq, s) in run.steps() {
        if !matches!(s.state, step::State::Resolved { .. }) {
            let (name, attempt, site) = (s.name.clone(), s.attempt(), s.site.clone());
            waiting.push(Waiting::Step {
                seq,
                name,
                attempt,
                site,
            });
        }
    }
    if waiting.is_empty() && run.status().is_open() {
        waiting.push(Waiting::Message);
    }
    waiting
}

/// Why its code cannot go on, if it cannot.
pub fn trouble(run: &Run) -> Option<Trouble> {
    run.task().streak().map(|streak| Trouble {
        cause: streak.cause,
        since: streak.since,
        attempts: streak.attempts.0,
        failure: streak.failure.clone(),
        next_try: streak.next_try,
    })
}
