//! An engine thread: drives one shard and holds the instances of its runs.
//!
//! Everything of the user's runs here under watch: slices, and the destructors of instances that
//! leave memory. These are nobody's slice: they run behind the answer that made room for them, each
//! under the name of its own run.

use std::sync::Arc;

use outlast_model::RunId;
use outlast_model::task::WorkflowTask;
use outlast_runtime::SliceWatch;
use outlast_runtime::panic::discard;

use crate::bus::Bus;
use crate::cache::Leaving;
use crate::event::{EvictCause, RunIn, WorkerEvent};
use crate::port::{Next, WorkerPort};
use crate::slices::{Done, Slices};
use crate::trace;
use crate::watch::{self, Pulse, Work};
use crate::worker::Worker;

/// What an engine thread works with.
pub(crate) struct Engine<'a> {
    pub(crate) port: &'a Arc<dyn WorkerPort>,
    pub(crate) pulse: &'a Pulse,
    pub(crate) slices: Slices,
    pub(crate) bus: &'a Bus,
    pub(crate) worker: &'a Worker,
}

impl Engine<'_> {
    /// Works until the shard is taken over or the backend shuts down.
    pub(crate) fn drive(mut self) {
        loop {
            match self.port.next_task(self.pulse.lane) {
                Next::Task(task) => self.slice(&task),
                Next::Evict(run_id) => self.forget(run_id),
                Next::Replaced | Next::Shutdown => return self.leave(),
            }
        }
    }

    fn slice(&mut self, task: &WorkflowTask) {
        let (lane, meter) = (self.pulse.lane, self.bus.meter());
        let begun = meter.begin();
        let mut leaving = Vec::new();
        self.pulse.begin(Work::of(task), RunIn::from(task));
        let done = {
            let _span = trace::slice(task);
            match self.worker.refuses(self.pulse, task) {
                None => {
                    let (done, others) = self.slices.slice(task, self.pulse);
                    leaving.extend(others);
                    done
                }
                Some(answer) => {
                    // It is built again when it may go on.
                    leaving.extend(self.slices.take(task.run_id, EvictCause::Failed));
                    let evicted = Vec::new();
                    Done { answer, evicted }
                }
            }
        };
        if let Some(stuck) = self.pulse.end(self.slices.len()) {
            // It may have come back before the watchdog had said so: then it says so itself, and
            // what it answers counts for nothing in any case.
            let failure = watch::failure(&stuck);
            self.port.give_up(lane, task.token, failure);
            leaving.extend(self.slices.take(task.run_id, EvictCause::Stuck));
            self.bus.emit(WorkerEvent::ThreadReturned(stuck));
        }
        meter.slice(task, &done.answer, begun);
        self.port.complete_task(lane, task.token, done.answer);
        for run_id in done.evicted {
            self.port.evicted(lane, run_id);
        }
        for leaving in leaving {
            self.part_with(leaving);
        }
    }

    /// The backend wants a run forgotten: its instance, and the code of its steps.
    fn forget(&mut self, run_id: RunId) {
        if let Some(leaving) = self.slices.take(run_id, EvictCause::Asked) {
            self.part_with(leaving);
        }
        if let Some((run, code)) = self.slices.steps().take(run_id) {
            self.drop_watched(run, |watch| {
                watch.before_drop("the destructors of its steps", None);
                code.into_iter().for_each(discard);
            });
        }
    }

    fn leave(&mut self) {
        for leaving in self.slices.leave() {
            self.part_with(leaving);
        }
    }

    fn part_with(&self, leaving: Leaving) {
        let run = leaving.run.clone();
        self.drop_watched(run, |watch| leaving.drop_watched(watch));
    }

    fn drop_watched(&self, run: RunIn, destructors: impl FnOnce(&dyn SliceWatch)) {
        self.pulse.begin(Work::Drop, run);
        destructors(self.pulse);
        if let Some(stuck) = self.pulse.end(self.slices.len()) {
            self.bus.emit(WorkerEvent::ThreadReturned(stuck));
        }
    }
}
