//! Facts that pass: what the next fact of its kind makes useless.
//!
//! An activity that fails and is tried again says so each time, and so does a task that keeps
//! failing. None of that is history: only the newest counts. A commit of such facts alone
//! takes the place of commits like it right before it, with what both still say. One law holds:
//! folding what is left is folding all of it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use outlast_model::id::Seq;
use outlast_model::planted::{Bug, is_planted};
use outlast_model::{Fact, Record};

/// Whether a later record can make this one useless.
pub fn is_passing(record: &Record) -> bool {
    match record {
        Record::Event(_) => false,
        Record::Fact(fact) => match fact {
            Fact::AttemptStarted { .. }
            | Fact::AttemptFailed { .. }
            | Fact::AttemptLeft { .. }
            | Fact::AttemptHandedBack { .. }
            | Fact::Heartbeat { .. }
            | Fact::StepStarted { .. }
            | Fact::StepFailed { .. }
            | Fact::StepHandedBack { .. }
            | Fact::TaskRetry { .. }
            | Fact::SliceArmed
            | Fact::SliceDisarmed
            | Fact::Unblocked
            | Fact::EpochRaised { .. } => true,
            Fact::StepScheduled { .. }
            | Fact::StepResolved { .. }
            | Fact::Buffered { .. }
            | Fact::Inherited { .. }
            | Fact::UpdatesInherited { .. }
            | Fact::Noted { .. }
            | Fact::UpdateRejected { .. }
            | Fact::ClockBehind { .. }
            | Fact::BeganBehind { .. } => false,
        },
    }
}

/// Which of these records still say something, in their order.
pub fn needed<'a>(records: impl DoubleEndedIterator<Item = &'a Record>) -> Vec<bool> {
    let mut behind = Behind::default();
    if is_planted(Bug::OlderFailureKept) {
        return records.map(|record| behind.needs(record)).collect();
    }
    let mut needed: Vec<bool> = records.rev().map(|record| behind.needs(record)).collect();
    needed.reverse();
    needed
}

/// What was found so far, from the newest record back.
#[derive(Default)]
struct Behind {
    activities: BTreeMap<Seq, Attempts>,
    /// Steps whose newest hand-out was found: it says all that was before it.
    steps: BTreeSet<Seq>,
    task: Task,
    has_epoch: bool,
}

/// Records of one activity, newest first.
#[derive(Default)]
struct Attempts {
    has_started: bool,
    has_failed: bool,
    has_handed_back: bool,
    has_beat: bool,
    /// One that was kept folds only onto an open attempt: the hand-out before it is needed.
    wants_start: bool,
}

/// How far back the records about workflow code itself still count.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    /// All of them.
    #[default]
    All,
    /// The count of crashes began anew: failures and the block before it count.
    Disarmed,
    /// The block was lifted: only the failure before it counts.
    Unblocked,
    /// The newest failure says everything.
    Failed,
}

impl Behind {
    fn needs(&mut self, record: &Record) -> bool {
        let Record::Fact(fact) = record else {
            return true;
        };
        match fact {
            Fact::AttemptStarted { seq, .. } => self.of(*seq).start(),
            Fact::AttemptFailed { seq, .. } => {
                let attempts = self.of(*seq);
                let is_newest = !core::mem::replace(&mut attempts.has_failed, true);
                attempts.wants_start |= is_newest;
                is_newest
            }
            Fact::AttemptHandedBack { seq, .. } => {
                let attempts = self.of(*seq);
                // A failure behind it says since when the next attempt waits.
                let is_newest = !core::mem::replace(&mut attempts.has_handed_back, true)
                    && !attempts.has_failed;
                attempts.wants_start |= is_newest;
                is_newest
            }
            // Whoever reads on finds the attempt as open as it was.
            Fact::AttemptLeft { seq } => {
                let attempts = self.of(*seq);
                let is_newest = !attempts.has_started;
                attempts.wants_start |= is_newest;
                is_newest
            }
            Fact::Heartbeat { seq, .. } => !core::mem::replace(&mut self.of(*seq).has_beat, true),
            Fact::StepStarted { seq, .. } => self.steps.insert(*seq),
            Fact::StepFailed { seq, .. } | Fact::StepHandedBack { seq, .. } => {
                !self.steps.contains(seq)
            }
            Fact::TaskRetry { .. } => self.task_until(Task::Failed),
            Fact::Unblocked => self.task_until(Task::Unblocked),
            Fact::SliceDisarmed => self.task_until(Task::Disarmed),
            Fact::SliceArmed => self.task == Task::All,
            Fact::EpochRaised { .. } => !core::mem::replace(&mut self.has_epoch, true),
            Fact::StepScheduled { .. }
            | Fact::StepResolved { .. }
            | Fact::Buffered { .. }
            | Fact::Inherited { .. }
            | Fact::UpdatesInherited { .. }
            | Fact::Noted { .. }
            | Fact::UpdateRejected { .. }
            | Fact::ClockBehind { .. }
            | Fact::BeganBehind { .. } => true,
        }
    }

    fn of(&mut self, seq: Seq) -> &mut Attempts {
        self.activities.entry(seq).or_default()
    }

    fn task_until(&mut self, this: Task) -> bool {
        let counts = self.task < this;
        if counts {
            self.task = this;
        }
        counts
    }
}

impl Attempts {
    fn start(&mut self) -> bool {
        let is_newest = !core::mem::replace(&mut self.has_started, true);
        core::mem::take(&mut self.wants_start) | is_newest
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::format;

    use outlast_model::event::{ActivityScheduled, Site, Started, TaskFailedCause};
    use outlast_model::id::{Attempt, Epoch, EventId, Incarnation, RunId};
    use outlast_model::{
        ActivityOptions, Event, EventKind, Failure, Headers, Payload, Shared, StepOptions,
        Timestamp,
    };

    use super::*;
    use crate::run::Run;
    use crate::step::State;

    fn condense(records: Vec<Record>) -> Vec<Record> {
        let needed = needed(records.iter());
        let kept = records.into_iter().zip(needed).filter(|(_, kept)| *kept);
        kept.map(|(record, _)| record).collect()
    }

    struct Chance(u64);

    impl Chance {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 33) % end
        }
    }

    /// A run with two activities and two steps.
    fn run() -> Run {
        let event = |id, kind| Event {
            id: EventId(id),
            time: Timestamp(10),
            kind,
        };
        let started = Started {
            workflow_id: "w".into(),
            run_id: RunId(1),
            workflow_type: "t".into(),
            queue: "default".into(),
            input: Payload::null(),
            request_id: None,
            run_timeout: None,
            parent: None,
            first_run_id: None,
            continued_from: None,
            headers: Headers::new(),
            priority: None,
            edition: None,
        };
        let first = event(1, EventKind::Started(Shared::new(started)));
        let mut run = Run::from_first(&first).expect("a start");
        for seq in [1, 2] {
            let scheduled = ActivityScheduled {
                seq: Seq(seq),
                activity_type: "a".into(),
                queue: "default".into(),
                input: Payload::null(),
                options: ActivityOptions::default().into(),
                site: Site::default(),
                headers: Headers::new(),
            };
            let kind = EventKind::ActivityScheduled(Shared::new(scheduled));
            let asked = event(u64::from(seq) + 1, kind);
            run.evolve(&Record::Event(asked)).expect("it fits");
            let step = Fact::StepScheduled {
                seq: Seq(seq),
                name: "s".into(),
                options: Box::new(StepOptions::default()),
                site: Site::default(),
                at: Timestamp(10),
            };
            run.evolve(&Record::Fact(step)).expect("it fits");
        }
        run
    }

    fn fact(chance: &mut Chance, n: u64) -> Fact {
        let seq = Seq(1 + u32::try_from(chance.below(2)).unwrap_or(0));
        let (attempt, at) = (Attempt(u32::try_from(n).unwrap_or(1)), Timestamp(100 + n));
        let (failure, due) = (Failure::panic(format!("{n}")), at);
        let incarnation = Incarnation(u128::from(n));
        match chance.below(14) {
            0 | 1 => Fact::AttemptStarted {
                seq,
                attempt,
                incarnation,
                at,
            },
            2 | 3 => Fact::AttemptFailed { seq, failure, due },
            4 => Fact::AttemptLeft { seq },
            5 => Fact::AttemptHandedBack { seq, at },
            6 => Fact::Heartbeat {
                seq,
                details: Payload::raw_json(format!("{n}").into_bytes()),
                at,
            },
            7 => Fact::StepStarted {
                seq,
                attempt,
                incarnation,
            },
            8 => Fact::StepFailed { seq, failure, due },
            9 => Fact::StepHandedBack { seq, at },
            10 => Fact::TaskRetry {
                attempt,
                cause: TaskFailedCause::WorkerUnhandledFailure,
                failure,
                next_try: Some(due),
            },
            11 => Fact::SliceArmed,
            12 => Fact::Unblocked,
            _ if n.is_multiple_of(2) => Fact::SliceDisarmed,
            _ => Fact::EpochRaised {
                epoch: Epoch(u32::try_from(n).unwrap_or(1)),
            },
        }
    }

    fn folded(records: &[Record]) -> Run {
        let mut run = run();
        for record in records {
            run.evolve(record).expect("what is left fits");
        }
        run
    }

    /// Whether it can follow: of steps only those end that run, which folding does not ask.
    fn is_possible(run: &Run, record: &Record) -> bool {
        let step = match record {
            Record::Fact(Fact::StepFailed { seq, .. } | Fact::StepHandedBack { seq, .. }) => {
                run.step(*seq)
            }
            Record::Fact(_) | Record::Event(_) => None,
        };
        let is_idle = step.is_some_and(|step| matches!(step.state, State::Waiting { .. }));
        !is_idle && run.clone().evolve(record).is_ok()
    }

    #[test]
    fn what_is_left_folds_to_the_same_run_and_does_not_grow() {
        let mut chance = Chance(7);
        for _ in 0..300 {
            let (mut whole, mut all, mut left) = (run(), Vec::new(), Vec::new());
            for n in 1..200 {
                let record = Record::Fact(fact(&mut chance, n));
                assert!(is_passing(&record));
                if !is_possible(&whole, &record) {
                    continue;
                }
                whole.evolve(&record).expect("it fits");
                all.push(record.clone());
                left.push(record);
                if chance.below(3) == 0 {
                    left = condense(left);
                    assert!(left.len() <= 40, "{left:?}");
                    let short = folded(&left);
                    assert_eq!(short.snapshot(), whole.snapshot(), "{all:?}\n{left:?}");
                    assert_eq!(short.wake(), whole.wake());
                }
            }
        }
    }
}
