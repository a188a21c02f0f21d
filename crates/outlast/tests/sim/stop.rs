//! A process that goes down in order, as a worker does: nothing new is handed out, what runs is
//! handed back, what comes in is kept, and what is decided is written. Then no attempt of it may
//! count as running: whoever comes next would take it for lost.

use outlast_engine::{Run, activity, step};
use outlast_model::id::Incarnation;
use outlast_model::task::{AttemptKind, AttemptResult, StopReason};
use outlast_service::shard::Turn;

use super::driver::Simulation;
use super::world::Running;

/// Things done on the way down after which it counts as stuck.
const PATIENCE: u32 = 2_000;

impl Simulation {
    /// Goes down in order, with everything in any order that threads could make of it.
    pub fn stop_in_order(&mut self) {
        if !self.faults.crashes {
            return;
        }
        self.trace("stop in order");
        self.desk.hit("stop.in-order");
        self.all_threads_return();
        self.process.shard.drain();
        let mut is_down = false;
        for _ in 0..PATIENCE {
            match self.rng.below(6) {
                0 | 1 => self.last_turn(),
                2 => self.hand_back(),
                3 => self.take_batch(),
                4 => self.commit_well(),
                _ => drop(self.deliver_post()),
            }
            // Asked once: what is due may go on when it is asked again, and need not.
            is_down = self.rng.chance(10) && self.is_down();
            if is_down {
                break;
            }
        }
        if !is_down {
            self.desk.violation("a process does not come down");
        }
        self.judge_stop();
        self.end_in_order();
    }

    /// What came in is applied; no code runs.
    fn last_turn(&mut self) {
        let now = self.now;
        match self.process.shard.next(now, &self.process.store) {
            None => {}
            Some(Turn::Evict(run_id)) => self.process.slices.evict(run_id),
            Some(Turn::Task(task)) => {
                let id = &task.workflow_id;
                self.desk
                    .violation(format!("{id} got a slice on the way down"));
            }
        }
    }

    /// One of its attempts ends: as it would have, or because it was told to.
    fn hand_back(&mut self) {
        let mine = self.mine();
        if mine.is_empty() {
            return;
        }
        let chosen = mine[self.rng.index(mine.len())];
        if self.rng.chance(30) {
            let result = self.result(&chosen);
            return self.end_attempt(chosen, result);
        }
        match chosen.stop {
            Some(StopReason::Cancelled) => self.end_attempt(chosen, AttemptResult::Canceled(None)),
            Some(_) | None => {
                self.desk.hit("attempt.handed-back");
                self.world.not_begun(chosen.token);
                self.end_attempt(chosen, AttemptResult::HandedBack);
            }
        }
    }

    fn mine(&self) -> Vec<Running> {
        let life = self.process.life;
        let running = self.world.running().into_iter();
        running.filter(|attempt| attempt.life == life).collect()
    }

    /// Whether there is nothing left that it could say.
    fn is_down(&mut self) -> bool {
        let now = self.now;
        self.mine().is_empty()
            && self.process.is_written()
            && self.process.shard.next(now, &self.process.store).is_none()
            && self.process.is_written()
    }

    fn judge_stop(&mut self) {
        // Attempts from before its store failed are void already.
        let me = self.process.incarnation;
        for row in self.disk.rows() {
            if !row.state.status.is_open() {
                continue;
            }
            let Ok((run, _)) = self.disk.load_both(row.no) else {
                continue;
            };
            for (kind, seq) in running_in(&run, me) {
                self.desk.violation(format!(
                    "{kind:?} {seq} of run {} was left running by a process that went down in order",
                    row.no.0
                ));
            }
        }
    }
}

/// Attempts that a process of this name seems to run.
fn running_in(run: &Run, me: Incarnation) -> Vec<(AttemptKind, outlast_model::Seq)> {
    let activities = run.activities().filter(|(_, activity)| {
        matches!(&activity.state, activity::State::Running { incarnation, .. } if *incarnation == me)
    });
    let steps = run.steps().filter(|(_, step)| {
        matches!(&step.state, step::State::Running { incarnation, .. } if *incarnation == me)
    });
    let activities = activities.map(|(seq, _)| (AttemptKind::Activity, seq));
    activities
        .chain(steps.map(|(seq, _)| (AttemptKind::Step, seq)))
        .collect()
}
