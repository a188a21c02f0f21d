//! Attempts and slots: an attempt that may start gets a slot in the commit that makes it
//! possible, or waits for one.

use outlast_engine::{Effect, Input, Run};
use outlast_model::task::{AttemptKind, AttemptToken, Permit, RunNo, SlotKind};
use outlast_model::{Priority, QueueName, Seq, Timestamp};

use super::Shard;
use crate::entry::Entry;
use crate::points;

impl Shard {
    /// Hands out what the decision made ready, as far as there are slots.
    pub(super) fn hand_out_ready(&mut self, entry: &mut Entry, now: Timestamp) {
        let ready = std::mem::take(&mut entry.decision.ready);
        entry.decision.effects.reserve(ready.len());
        let mut runnable = None;
        for (kind, seq) in ready {
            entry.has_steps |= kind == AttemptKind::Step;
            let Some(run) = entry.run.as_ref() else {
                return;
            };
            if !self.can_run(run, (kind, seq), &mut runnable) {
                continue;
            }
            if self.goes_on(entry, (kind, seq)) {
                continue;
            }
            let Some(run) = entry.run.as_ref() else {
                return;
            };
            if kind == AttemptKind::Step && !entry.is_cached && entry.needs_instance {
                // Its code comes with the instance; see `hand_out_steps`.
                continue;
            }
            let queue = queue_of(run, kind, seq);
            let is_first = !self.waiting.has(queue, kind.into()) && !self.is_draining;
            if is_first && self.takes_slot(queue, kind, now) {
                self.hand_out_one(entry, (kind, seq), now);
            } else {
                let priority = priority_of(run, kind, seq);
                let (line, item) = ((queue.clone(), kind.into()), (entry.row.no, seq));
                entry.waiting_attempts += 1;
                self.waiting.push(line, priority, item);
            }
        }
    }

    /// The instance is back: all its steps that wait are handed out.
    pub(super) fn hand_out_steps(&mut self, entry: &mut Entry, now: Timestamp) {
        let Some(run) = entry.run.as_ref() else {
            return;
        };
        let waiting = run
            .steps()
            .filter(|(_, step)| matches!(step.state, outlast_engine::step::State::Waiting { .. }));
        let ready = waiting.map(|(seq, _)| (AttemptKind::Step, seq)).collect();
        let others = std::mem::replace(&mut entry.decision.ready, ready);
        let activities = others
            .into_iter()
            .filter(|(kind, _)| *kind == AttemptKind::Activity);
        entry.decision.ready.extend(activities);
        self.hand_out_ready(entry, now);
    }

    /// Slots became free: in each line those who are first get them.
    pub(super) fn feed_slots(&mut self, now: Timestamp) {
        if self.is_draining || self.waiting.is_empty() {
            return;
        }
        for line in self.waiting.lines() {
            let kind = match line.1 {
                SlotKind::Activity => AttemptKind::Activity,
                SlotKind::Step => AttemptKind::Step,
                SlotKind::Workflow => continue,
            };
            while let Some((no, seq)) = self.waiting.first(&line).copied() {
                let is_wanted = self.wants_slot(no, kind, seq);
                if is_wanted && !self.takes_slot(&line.0, kind, now) {
                    break;
                }
                self.waiting.pop(&line);
                self.fed(no, is_wanted.then_some((kind, seq)), now);
            }
        }
        let free = std::mem::take(&mut self.free_effects);
        if !free.is_empty() {
            self.parts.outlet.release(free);
        }
    }

    fn takes_slot(&mut self, queue: &QueueName, kind: AttemptKind, now: Timestamp) -> bool {
        match self.parts.outlet.take_slot(queue, kind.into()) {
            Permit::Taken => true,
            Permit::Full => false,
            Permit::Later(pause) => {
                self.ask_again(pause, now);
                false
            }
        }
    }

    /// One that waited leaves the queue, with a slot or because it is gone.
    fn fed(&mut self, no: RunNo, slot: Option<(AttemptKind, Seq)>, now: Timestamp) {
        let Some(mut entry) = self.runs.remove(&no) else {
            return;
        };
        entry.waiting_attempts = entry.waiting_attempts.saturating_sub(1);
        if let Some((kind, seq)) = slot
            && self.goes_on(&mut entry, (kind, seq))
        {
            if let Some(run) = entry.run.as_ref() {
                let queue = queue_of(run, kind, seq);
                self.parts.outlet.return_slot(queue, kind.into());
            }
        } else if let Some((kind, seq)) = slot {
            let is_open = entry.decision.records.is_empty() || entry.open_since.is_some();
            let is_alone = is_open && entry.slice.is_none();
            self.hand_out_one(&mut entry, (kind, seq), now);
            if is_alone {
                self.seal_hand_out(&mut entry, kind, seq, now);
            }
        }
        self.put_back(entry);
    }

    fn wants_slot(&self, no: RunNo, kind: AttemptKind, seq: Seq) -> bool {
        let run = self.runs.get(&no).and_then(|entry| entry.run.as_ref());
        run.is_some_and(|run| match kind {
            AttemptKind::Activity => run.activity(seq).is_some(),
            AttemptKind::Step => run.step(seq).is_some(),
        })
    }

    /// Hands out one for which a slot was taken.
    fn hand_out_one(&mut self, entry: &mut Entry, (kind, seq): (AttemptKind, Seq), now: Timestamp) {
        let incarnation = self.parts.incarnation;
        let before = entry.decision.effects.len();
        self.apply_input(
            entry,
            Input::HandOut {
                kind,
                seq,
                incarnation,
            },
            now,
        );
        if let Some(effect) = entry.decision.effects.get(before) {
            points::pass("attempt.handed-out");
            if let Some(token) = token_of(effect) {
                self.out.insert(token, now);
            }
        } else if let Some(run) = entry.run.as_ref() {
            let queue = queue_of(run, kind, seq);
            self.parts.outlet.return_slot(queue, kind.into());
        }
    }

    /// An attempt without a bound keeps its number after a crash, so handing it out needs no
    /// commit of its own, and waits for none if what asks for it is on disk; a bounded one is
    /// recorded first.
    fn seal_hand_out(&mut self, entry: &mut Entry, kind: AttemptKind, seq: Seq, now: Timestamp) {
        let is_bounded = entry
            .run
            .as_ref()
            .is_some_and(|run| is_bounded(run, kind, seq));
        if is_bounded {
            return self.seal(entry, now);
        }
        points::pass("attempt.lazy");
        if entry.open_since.is_none() {
            // Else it goes with what was decided before it.
            entry.lazy.append(&mut entry.decision.records);
        }
        let effects = std::mem::take(&mut entry.decision.effects);
        if self.is_durable(entry.row.state.head) {
            // A decision that was left open asks for nothing: what does is in a commit.
            for effect in &effects {
                self.meter.handed_out(effect, now);
            }
            self.free_effects.extend(effects);
        } else {
            let no = entry.row.no;
            let effects = effects.into_iter().map(|effect| (no, effect));
            self.batch.effects.extend(effects);
        }
        let wake = entry.run.as_ref().and_then(Run::wake);
        self.arm(entry, wake);
    }
}

/// The attempt that an effect begins.
fn token_of(effect: &Effect) -> Option<AttemptToken> {
    match effect {
        Effect::StartActivity(order) => Some(order.token),
        Effect::StartStep(task) => Some(task.token),
        Effect::Stop(..) | Effect::Closed(_) | Effect::Update(..) => None,
    }
}

/// The task queue whose slot an attempt needs.
fn queue_of(run: &Run, kind: AttemptKind, seq: Seq) -> &QueueName {
    let own = &run.started().queue;
    match kind {
        AttemptKind::Activity => run.activity(seq).map_or(own, |a| &a.scheduled.queue),
        AttemptKind::Step => own,
    }
}

/// How urgent an attempt is among those of its queue.
fn priority_of(run: &Run, kind: AttemptKind, seq: Seq) -> Priority {
    let own = match kind {
        AttemptKind::Activity => run.activity(seq).and_then(|a| a.scheduled.options.priority),
        AttemptKind::Step => run.started().priority(),
    };
    own.unwrap_or_default()
}

fn is_bounded(run: &Run, kind: AttemptKind, seq: Seq) -> bool {
    match kind {
        AttemptKind::Activity => run
            .activity(seq)
            .is_some_and(|a| a.scheduled.options.retry.is_bounded()),
        AttemptKind::Step => run.step(seq).is_some_and(|s| s.options.retry.is_bounded()),
    }
}
