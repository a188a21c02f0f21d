//! How a run looks from outside, from its state alone.

use alloc::string::String;
use alloc::vec::Vec;

use outlast_model::rest::Unread;
use outlast_model::view::{Trouble, Waiting};

use crate::run::Run;
use crate::{activity, child, step, timer};

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
            activity::State::Outside { attempt, since, .. } => Waiting::ActivityOutside {
                seq,
                activity_type,
                attempt: *attempt,
                since: *since,
                due: a.deadline(),
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
    waiting.extend(others(run));
    // The handler of an update may rest as well as main.
    let has_event = |waiting: &Waiting| !matches!(waiting, Waiting::Update { .. });
    if run.status().is_open() && !waiting.iter().any(has_event) {
        let at = run.rest().map_or_else(Vec::new, |rest| rest.at.clone());
        if waiting.is_empty() || !at.is_empty() {
            waiting.push(Waiting::Message { at });
        }
    }
    waiting
}

fn others(run: &Run) -> impl Iterator<Item = Waiting> {
    let children = run.children().map(|(seq, c)| Waiting::Child {
        seq,
        workflow_id: c.initiated.workflow_id.clone(),
        run_id: c.initiated.run_id,
        is_started: c.state != child::State::Initiated,
        site: c.initiated.site.clone(),
    });
    let signals = run.signals().map(|s| Waiting::SignalExternal {
        seq: s.seq,
        target: s.target.clone(),
        name: s.name.clone(),
        site: s.site.clone(),
    });
    let cancels = run.cancels().map(|c| Waiting::CancelExternal {
        of: c.of,
        target: c.target.clone(),
        site: c.site.clone(),
    });
    let updates = run.updates().filter(|(_, update)| update.is_open());
    let updates = updates.map(|(id, update)| Waiting::Update {
        id: id.clone(),
        name: update.name.clone(),
    });
    children.chain(signals).chain(cancels).chain(updates)
}

/// What its code had to say that is no failure, the newest last.
pub fn notes(run: &Run) -> Vec<String> {
    run.notes().to_vec()
}

/// Some of the signals that its code has not taken, by name.
pub fn unread(run: &Run) -> Vec<Unread> {
    run.rest().map_or_else(Vec::new, |rest| rest.unread.clone())
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
