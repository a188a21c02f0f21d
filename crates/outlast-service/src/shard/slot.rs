//! Slots of slices: code runs only while it holds one of its task queue. Where there are as many
//! slots as threads nobody counts. A run that gets none is sealed as on the slow path, so that
//! whoever spoke to it is answered, and waits in line.
//!
//! Slots are shared by all shards: one that is given back here may be waited for elsewhere.

use std::sync::atomic::Ordering;

use outlast_engine::Input;
use outlast_model::Timestamp;
use outlast_model::task::{Permit, SlotKind};

use super::Shard;
use super::visit::wants_task;
use crate::entry::Entry;
use crate::waiting::Waiting;

impl Shard {
    /// Takes the slot for a slice of this run, or puts the run in line for one.
    pub(super) fn takes_slice_slot(&mut self, entry: &mut Entry, now: Timestamp) -> bool {
        if !self.parts.capabilities.limits_slices(&entry.row.queue) {
            return true;
        }
        entry.holds_slot = self.asks_slot(entry, now);
        if !entry.holds_slot && !entry.is_starved {
            entry.is_starved = true;
            self.parts.numbers.starved.fetch_add(1, Ordering::SeqCst);
            let line = (entry.row.queue.clone(), SlotKind::Workflow);
            let run = entry.run.as_ref();
            let priority = run.and_then(|run| run.started().priority());
            let priority = priority.unwrap_or_default();
            self.starved.push(line, priority, entry.row.no);
            // Once more: one may have been given back before we said that we wait.
            entry.holds_slot = self.asks_slot(entry, now);
        }
        entry.holds_slot
    }

    /// A slice without a slot: whatever was decided for it goes the slow way.
    pub(super) fn starve(&mut self, entry: &mut Entry, now: Timestamp) {
        if entry.run.as_ref().is_some_and(|run| wants_task(run, now)) {
            self.apply_input(entry, Input::Admit, now);
        }
        self.seal(entry, now);
    }

    /// The slice is over, or will not begin.
    pub(super) fn give_slice_slot(&mut self, entry: &mut Entry) {
        if std::mem::take(&mut entry.holds_slot) {
            let outlet = &self.parts.outlet;
            outlet.return_slot(&entry.row.queue, SlotKind::Workflow);
            self.has_freed = true;
        }
    }

    /// In each queue where there is a slot again, those in line have their turn, in its order.
    pub(super) fn feed_starved(&mut self, now: Timestamp) {
        if self.starved.is_empty() {
            return;
        }
        for line in self.starved.lines() {
            match self.parts.outlet.take_slot(&line.0, line.1) {
                Permit::Taken => {
                    self.parts.outlet.return_slot(&line.0, line.1);
                    // Somebody elsewhere may have found it taken just now.
                    self.has_freed = true;
                }
                Permit::Full => continue,
                Permit::Later(pause) => {
                    self.ask_again(pause, now);
                    continue;
                }
            }
            // All of them: whoever is first may want it no longer.
            while let Some(no) = self.starved.pop(&line) {
                self.parts.numbers.starved.fetch_sub(1, Ordering::SeqCst);
                if let Some(entry) = self.runs.get_mut(&no) {
                    entry.is_starved = false;
                }
                self.enqueue_no(no);
            }
        }
    }

    /// Nobody waits any more: the shard starts over.
    pub(super) fn none_starve(&mut self) {
        for line in self.starved.lines() {
            while self.starved.pop(&line).is_some() {
                self.parts.numbers.starved.fetch_sub(1, Ordering::SeqCst);
            }
        }
        self.starved = Waiting::default();
    }

    /// Whether slots were given back that others may wait for.
    pub fn has_freed_slots(&mut self) -> bool {
        std::mem::take(&mut self.has_freed)
    }

    /// Slots that were refused for a while are asked for again then.
    pub(super) fn ask_again(&mut self, pause: std::time::Duration, now: Timestamp) {
        let again = now.after(pause);
        self.slots_again = Some(self.slots_again.map_or(again, |at| at.min(again)));
    }

    fn asks_slot(&mut self, entry: &Entry, now: Timestamp) -> bool {
        let outlet = &self.parts.outlet;
        match outlet.take_slot(&entry.row.queue, SlotKind::Workflow) {
            Permit::Taken => true,
            Permit::Full => false,
            Permit::Later(pause) => {
                self.ask_again(pause, now);
                false
            }
        }
    }
}
