//! An engine thread: drives one shard and holds the instances of its runs.

use std::sync::Arc;

use crate::bus::Bus;
use crate::event::{RunIn, WorkerEvent};
use crate::port::{Next, WorkerPort};
use crate::slices::Slices;
use crate::trace;
use crate::watch::{self, Pulse};

/// Works until the shard is taken over or the backend shuts down.
pub(crate) fn drive(port: &Arc<dyn WorkerPort>, pulse: &Pulse, mut slices: Slices, bus: &Bus) {
    let (lane, meter) = (pulse.lane, bus.meter());
    loop {
        match port.next_task(lane) {
            Next::Task(task) => {
                let begun = meter.begin();
                pulse.begin(task.token, RunIn::from(&*task));
                let done = {
                    let _span = trace::slice(&task);
                    slices.run(&task, pulse)
                };
                if let Some(stuck) = pulse.end(slices.len()) {
                    // It may have come back before the watchdog had said so: then it says so itself,
                    // and what it answers counts for nothing in any case.
                    port.give_up(lane, task.token, watch::failure(&stuck));
                    slices.drop_stuck(task.run_id);
                    bus.emit(WorkerEvent::ThreadReturned(stuck));
                }
                meter.slice(&task, &done.answer, begun);
                port.complete_task(lane, task.token, done.answer);
                for run_id in done.evicted {
                    port.evicted(lane, run_id);
                }
            }
            Next::Evict(run_id) => slices.evict(run_id),
            Next::Replaced | Next::Shutdown => return,
        }
    }
}
