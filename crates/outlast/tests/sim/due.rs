//! When things are due: so long after what the clock said when workflow code asked for them,
//! whatever it said before and whatever times the history shows.

use std::collections::{BTreeMap, BTreeSet};

use outlast_engine::{Run, timer};
use outlast_model::id::Seq;
use outlast_model::task::{TaskAnswer, WorkflowTask};
use outlast_model::{Command, RunId, Timestamp};

use super::driver::Simulation;

/// What code asked for, and when. An answer may be lost and code asked again: then each time is
/// right.
#[derive(Debug, Default)]
pub struct Asked(BTreeMap<(RunId, What), BTreeSet<Timestamp>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Timer(Seq),
    Activity(Seq),
}

impl Simulation {
    /// Workflow code has answered: what it asks for counts from now.
    pub fn note_asked(&mut self, task: &WorkflowTask, answer: &TaskAnswer) {
        let TaskAnswer::Completed { commands, .. } = answer else {
            return;
        };
        for command in commands {
            let (what, time) = match command {
                Command::StartTimer { seq, delay, .. } => {
                    (What::Timer(*seq), self.now.after(*delay))
                }
                Command::ScheduleActivity(asked) => (What::Activity(asked.seq), self.now),
                _ => continue,
            };
            let known = self.asked.0.entry((task.run_id, what)).or_default();
            known.insert(time);
        }
    }

    /// What waits in a run is due by the clock.
    pub fn check_due(&self, run: &Run) -> Result<(), String> {
        let timers = run.timers().filter_map(|(seq, timer)| match timer.state {
            timer::State::Running { due } => Some((What::Timer(seq), due)),
            timer::State::Firing => None,
        });
        let activities = run.activities();
        let activities = activities.map(|(seq, activity)| (What::Activity(seq), activity.at));
        for (what, time) in timers.chain(activities) {
            let known = self.asked.0.get(&(run.started().run_id, what));
            if !known.is_some_and(|known| known.contains(&time)) {
                return Err(format!(
                    "{what:?} counts from its own clock, to {time}: right is {known:?}"
                ));
            }
        }
        if run.last_event_time() > self.now && run.timers().next().is_some() {
            self.desk.hit("clock.behind-a-timer");
        }
        Ok(())
    }
}
