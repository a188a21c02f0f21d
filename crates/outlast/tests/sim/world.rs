//! The world outside: attempts that run, slots that are scarce. It notes every effect when it
//! begins, and judges it against what is durable at that moment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use outlast_engine::Effect;
use outlast_model::failure::type_name;
use outlast_model::id::{Attempt, Seq};
use outlast_model::task::{
    ActivityTask, AttemptKind, AttemptToken, Permit, RunNo, SlotKind, StopReason,
};
use outlast_model::{EventKind, Fact, QueueName, Record, RunId};
use outlast_service::outlet::Outlet;

use super::disk::{Disk, event, fact};
use super::ledger::Desk;

/// An attempt that runs somewhere.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    pub token: AttemptToken,
    pub run_id: RunId,
    /// Which process runs it.
    pub life: u32,
    pub stop: Option<StopReason>,
}

#[derive(Debug, Default)]
struct Fleet {
    running: Vec<Running>,
    begun: BTreeMap<(RunNo, AttemptKind, Seq), Vec<AttemptToken>>,
    fresh: Vec<Running>,
}

/// The outside of all processes.
#[derive(Clone, Debug)]
pub struct World {
    fleet: Arc<Mutex<Fleet>>,
    disk: Arc<Disk>,
    desk: Desk,
}

impl World {
    pub fn new(disk: Arc<Disk>, desk: Desk) -> Self {
        Self {
            fleet: Arc::default(),
            disk,
            desk,
        }
    }

    /// Attempts that run, of living and dead processes.
    pub fn running(&self) -> Vec<Running> {
        self.lock().running.clone()
    }

    /// Attempts that began since the last look.
    pub fn take_fresh(&self) -> Vec<Running> {
        std::mem::take(&mut self.lock().fresh)
    }

    /// This attempt is over.
    pub fn remove(&self, token: AttemptToken) {
        self.lock().running.retain(|running| running.token != token);
    }

    /// This attempt is handed back: it does not count, and begins again under its number.
    pub fn not_begun(&self, token: AttemptToken) {
        let mut fleet = self.lock();
        let begun = fleet.begun.get_mut(&(token.run, token.kind, token.seq));
        if let Some(begun) = begun {
            begun.retain(|other| *other != token);
        }
    }

    /// Only attempts that are wanted go on.
    pub fn retain(&self, keep: impl FnMut(&Running) -> bool) {
        self.lock().running.retain(keep);
    }

    fn lock(&self) -> MutexGuard<'_, Fleet> {
        self.fleet.lock().expect("one thread")
    }

    fn begin(&self, token: AttemptToken, run_id: RunId, life: u32) {
        if let Err(why) = self.judge(token, life) {
            self.desk.violation(format!("{token:?}: {why}"));
        }
        let running = Running {
            token,
            run_id,
            life,
            stop: None,
        };
        let mut fleet = self.lock();
        let begun = fleet
            .begun
            .entry((token.run, token.kind, token.seq))
            .or_default();
        begun.push(token);
        fleet.running.push(running);
        fleet.fresh.push(running);
    }

    /// Nothing begins before its commit, twice, beside its own retry, or more often than it may.
    fn judge(&self, token: AttemptToken, life: u32) -> Result<(), String> {
        let limit = self.limit(token).ok_or("began before it was durable")?;
        if limit > 0 && !self.is_hand_out_durable(token) {
            return Err("a bounded attempt began before its hand-out was durable".into());
        }
        let fleet = self.lock();
        let before = fleet.begun.get(&(token.run, token.kind, token.seq));
        let before = before.map_or(&[][..], Vec::as_slice);
        if before.contains(&token) {
            return Err("began twice".into());
        }
        if limit > 0 && before.len() >= limit as usize {
            return Err(format!(
                "{} attempts began, {limit} are allowed",
                before.len() + 1
            ));
        }
        let is_beside = fleet.running.iter().any(|other| {
            is_same_operation(other.token, token) && other.life == life && other.stop.is_none()
        });
        if is_beside {
            return Err("began while an earlier attempt of the same process runs".into());
        }
        Ok(())
    }

    /// An attempt goes on from the newest report of those before it.
    fn judge_details(&self, task: &ActivityTask) {
        let newest = self.disk.with_records(task.token.run, |records| {
            records.iter().rev().find_map(|record| match fact(record)? {
                Fact::Heartbeat { seq, details, .. } if *seq == task.token.seq => {
                    Some(details.clone())
                }
                _ => None,
            })
        });
        if newest != task.heartbeat_details {
            let token = task.token;
            self.desk
                .violation(format!("{token:?} was given an old report"));
        }
    }

    /// An attempt whose code has returned is lost with no process: only an answer or its time
    /// ends it. How it ended may have made room for a newer failure, which has its own start.
    fn judge_loss(&self, task: &ActivityTask) {
        let token = task.token;
        let mut is_outside = false;
        let is_lost = self.disk.with_records(token.run, |records| {
            records.iter().filter_map(fact).any(|fact| match fact {
                Fact::AttemptLeft { seq } if *seq == token.seq => {
                    is_outside = true;
                    false
                }
                Fact::AttemptStarted { seq, .. } if *seq == token.seq => {
                    is_outside = false;
                    false
                }
                Fact::AttemptFailed { seq, failure, .. } if *seq == token.seq => {
                    let is_lost = failure.type_name() == Some(type_name::WORKER_LOST);
                    std::mem::take(&mut is_outside) && is_lost
                }
                _ => false,
            })
        });
        if is_lost {
            let text = format!("{token:?} was lost with a process that did not run it");
            self.desk.violation(text);
        }
    }

    /// How often it may be tried, 0 for without end; `None` if nothing durable asks for it.
    fn limit(&self, token: AttemptToken) -> Option<u32> {
        self.disk.with_records(token.run, |records| {
            records.iter().find_map(|record| match token.kind {
                AttemptKind::Activity => activity_limit(record, token.seq),
                AttemptKind::Step => step_limit(record, token.seq),
            })
        })
    }

    fn is_hand_out_durable(&self, token: AttemptToken) -> bool {
        self.disk.has(token.run, |record| match fact(record) {
            Some(Fact::AttemptStarted {
                seq,
                attempt,
                incarnation,
                ..
            }) => {
                token.kind == AttemptKind::Activity
                    && (*seq, *attempt, *incarnation)
                        == (token.seq, token.attempt, token.incarnation)
            }
            Some(Fact::StepStarted {
                seq,
                attempt,
                incarnation,
            }) => {
                token.kind == AttemptKind::Step
                    && (*seq, *attempt, *incarnation)
                        == (token.seq, token.attempt, token.incarnation)
            }
            _ => false,
        })
    }
}

fn is_same_operation(a: AttemptToken, b: AttemptToken) -> bool {
    (a.run, a.kind, a.seq) == (b.run, b.kind, b.seq)
}

fn activity_limit(record: &Record, wanted: Seq) -> Option<u32> {
    match &event(record)?.kind {
        EventKind::ActivityScheduled(scheduled) if scheduled.seq == wanted => {
            Some(scheduled.options.retry.max_attempts)
        }
        _ => None,
    }
}

fn step_limit(record: &Record, wanted: Seq) -> Option<u32> {
    match fact(record)? {
        Fact::StepScheduled { seq, options, .. } if *seq == wanted => {
            Some(options.retry.max_attempts)
        }
        _ => None,
    }
}

/// The slots of one process, and its way out.
#[derive(Debug)]
pub struct Ramp {
    world: World,
    life: u32,
    slots: Mutex<Slots>,
}

#[derive(Clone, Copy, Debug)]
struct Slots {
    activities: u64,
    steps: u64,
}

impl Ramp {
    pub fn new(world: World, life: u32, activities: u64, steps: u64) -> Self {
        Self {
            world,
            life,
            slots: Mutex::new(Slots { activities, steps }),
        }
    }

    /// Slots nobody uses: of activities, of steps.
    pub fn free(&self) -> (u64, u64) {
        let slots = self.slots.lock().expect("one thread");
        (slots.activities, slots.steps)
    }

    /// An attempt has ended: its slot is free.
    pub fn ended(&self, kind: AttemptKind) {
        self.with(kind.into(), |free| *free += 1);
    }

    fn with<R>(&self, kind: SlotKind, change: impl FnOnce(&mut u64) -> R) -> R {
        let mut slots = self.slots.lock().expect("one thread");
        change(match kind {
            SlotKind::Activity => &mut slots.activities,
            SlotKind::Step => &mut slots.steps,
            SlotKind::Workflow => panic!("slices are not counted here"),
        })
    }
}

impl Outlet for Ramp {
    fn take_slot(&self, _: &QueueName, kind: SlotKind) -> Permit {
        let is_free = self.with(kind, |free| match free.checked_sub(1) {
            Some(rest) => {
                *free = rest;
                true
            }
            None => false,
        });
        if !is_free {
            self.world.desk.hit("slot.none-free");
        }
        if is_free { Permit::Taken } else { Permit::Full }
    }

    fn return_slot(&self, _: &QueueName, kind: SlotKind) {
        self.with(kind, |free| *free += 1);
    }

    fn release(&self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::StartActivity(order) => {
                    let task = order.task();
                    self.world.judge_details(&task);
                    self.world.judge_loss(&task);
                    self.world.begin(task.token, task.run_id, self.life);
                    if task.token.attempt > Attempt::FIRST {
                        self.world.desk.hit("attempt.retried");
                    }
                }
                Effect::StartStep(task) => {
                    self.world.begin(task.token, task.run_id, self.life);
                    if task.token.attempt > Attempt::FIRST {
                        self.world.desk.hit("step.retried");
                    }
                }
                Effect::Stop(token, reason) => {
                    self.world.desk.hit("attempt.told-to-stop");
                    let mut fleet = self.world.lock();
                    let told = fleet.running.iter_mut().find(|r| r.token == token);
                    if let Some(running) = told {
                        running.stop = Some(reason);
                    }
                }
                Effect::Closed(_) => self.world.desk.violation("Closed left the service"),
                Effect::Update(..) => self.world.desk.violation("Update left the service"),
            }
        }
    }
}
