//! Looking after a run that an earlier process left behind.

use outlast_engine::{Input, Run};
use outlast_model::task::{RunNo, TaskAnswer};
use outlast_model::{Failure, Timestamp, limits};

use super::Shard;
use crate::batch::Batch;
use crate::entry::{Arming, Entry};
use crate::points;

impl Shard {
    /// Once for each run and process: attempts of other processes are lost, code that could not go
    /// on is tried again.
    pub(super) fn recover(&mut self, entry: &mut Entry, now: Timestamp) {
        if entry.is_recovered {
            return;
        }
        entry.is_recovered = true;
        let incarnation = self.parts.incarnation;
        self.apply_input(entry, Input::Recover { incarnation }, now);
        points::pass("run.recovered");
        if entry
            .run
            .as_ref()
            .is_some_and(|run| may_be_mended(run, now))
        {
            self.apply_input(entry, Input::Retry, now);
        }
        if entry
            .run
            .as_ref()
            .is_some_and(|run| run.steps().next().is_some())
        {
            entry.needs_instance = true;
            entry.has_steps = true;
        }
    }

    /// After an unclean stop: says on disk that this run's code is about to run. `true` when the
    /// slice may start.
    pub(super) fn is_armed(&mut self, entry: &mut Entry, now: Timestamp) -> bool {
        match entry.arming {
            Arming::Unneeded => true,
            Arming::Said(commit) => {
                if self.is_durable(commit) {
                    return true;
                }
                self.deferred.push((commit, entry.row.no));
                false
            }
            Arming::Needed => {
                let crashes = entry.run.as_ref().map_or(0, Run::crashes);
                if crashes >= limits::SLICE_CRASHES {
                    self.quarantine(entry, crashes, now);
                    return false;
                }
                if crashes > 0 && !self.is_next_suspect(entry.row.no) {
                    return false;
                }
                self.apply_input(entry, Input::ArmSlice, now);
                self.seal(entry, now);
                let commit = entry.row.state.head;
                entry.arming = Arming::Said(commit);
                self.deferred.push((commit, entry.row.no));
                false
            }
        }
    }

    /// Runs that may have killed the process are tried one at a time.
    fn is_next_suspect(&mut self, no: RunNo) -> bool {
        match self.suspect {
            Some(other) if other != no => {
                if !self.suspects.contains(&no) {
                    self.suspects.push_back(no);
                }
                false
            }
            Some(_) | None => {
                self.suspect = Some(no);
                true
            }
        }
    }

    fn quarantine(&mut self, entry: &mut Entry, crashes: u32, now: Timestamp) {
        let cause = outlast_model::event::TaskFailedCause::Quarantined;
        let failure = Failure::application(
            "Quarantined",
            format!("the process died {crashes} times in a row while this run's code ran"),
        );
        entry.arming = Arming::Unneeded;
        self.fail_without_slice(entry, TaskAnswer::Failed { cause, failure }, now);
        self.is_no_suspect(entry.row.no);
        self.seal(entry, now);
        if !entry.queries.is_empty() {
            // Whoever asks hears of it.
            self.enqueue(entry);
        }
    }

    /// Fails the run's task, scheduling one first if there is none: its code is in trouble although
    /// it had nothing to see.
    pub(super) fn fail_without_slice(
        &mut self,
        entry: &mut Entry,
        answer: TaskAnswer,
        now: Timestamp,
    ) {
        self.apply_input(entry, Input::ForeignWake, now);
        let Some(run) = entry.run.as_mut() else {
            return;
        };
        let started = run.slice_begins(now);
        self.apply_input(entry, Input::Task { started, answer }, now);
    }

    /// A slice of this run ended, whichever way.
    pub(super) fn slice_is_over(&mut self, entry: &mut Entry) {
        entry.arming = Arming::Unneeded;
        self.give_slice_slot(entry);
        self.is_no_suspect(entry.row.no);
    }

    /// This run's code does not run, or not any more: the next suspect may be tried. It holds the
    /// place from here, so that the queue moves on even if it has nothing to run by now.
    pub(super) fn is_no_suspect(&mut self, no: RunNo) {
        if self.suspect != Some(no) {
            return;
        }
        self.suspect = None;
        while let Some(next) = self.suspects.pop_front() {
            let entry = self.runs.get(&next);
            if entry.is_some_and(|entry| entry.outcome.is_none() && entry.damage.is_none()) {
                self.suspect = Some(next);
                return self.enqueue_no(next);
            }
        }
    }

    /// The end of the process: whoever still waits for an answer hears that none will come.
    pub fn leave(&mut self) {
        self.batch = Batch::default();
        self.open_decisions.clear();
        self.runs.clear();
        self.open_ids.clear();
        self.by_run_id.clear();
        self.ready.clear();
        self.wakes.clear();
        self.closed_queries = super::query::ClosedQueries::default();
    }
}

/// Whether this process is worth another try of code that could not go on in the last one.
fn may_be_mended(run: &Run, now: Timestamp) -> bool {
    let streak = run.task().streak();
    streak.is_some_and(|streak| streak.is_for_a_new_process(run.crashes(), now))
}
