//! Attempts that were told to stop and do not: code that cannot be dropped, since a thread is
//! inside it.
//!
//! ```text
//!  Told --grace--> Zombie --give up--> GivenUp
//!    |                |                   |
//!    +------ over ----+------- over ------+----> Ended
//! ```
//!
//! Such an attempt holds no slot and whatever it still says is thrown away, but its thread is
//! lost to the process. It is told again, in pauses that double; after a grace it counts as a
//! zombie; after an hour nobody tells it any more. Too many of them, and the worker is unfit: it
//! must go down while healthy work can still stop in order.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use outlast_model::task::{AttemptToken, StopReason};
use outlast_model::time::doubled;
use tokio::task::JoinHandle;

use crate::bus::Bus;
use crate::event::{AttemptIn, WorkerEvent};
use crate::life::Life;
use crate::settings::Settings;

/// How long an undead attempt has been known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It was told to stop.
    Told,
    /// It counts as a zombie.
    Zombie,
    /// It still does, and nobody tells it any more.
    GivenUp,
    /// It has ended.
    Ended,
}

/// What the watchdog sees of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A thread is inside, this long after it was told to stop.
    Inside(Duration),
    /// It has come out.
    Over,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Nothing,
    /// Count it, and say so.
    Count,
    /// Tell it no more, and say so.
    GiveUp,
    /// It is no longer counted.
    Uncount,
    /// It was never counted.
    Forget,
}

impl State {
    /// Applies what was seen. Pure: same arguments, same answer.
    pub fn apply(self, seen: Seen, settings: &Settings) -> (Self, Act) {
        match (self, seen) {
            (Self::Told, Seen::Inside(spent)) if spent >= settings.zombie_grace => {
                (Self::Zombie, Act::Count)
            }
            (Self::Zombie, Seen::Inside(spent)) if spent >= settings.zombie_give_up_after => {
                (Self::GivenUp, Act::GiveUp)
            }
            (state @ (Self::Told | Self::Zombie | Self::GivenUp), Seen::Inside(_)) => {
                (state, Act::Nothing)
            }
            (Self::Told, Seen::Over) => (Self::Ended, Act::Forget),
            (Self::Zombie | Self::GivenUp, Seen::Over) => (Self::Ended, Act::Uncount),
            (Self::Ended, Seen::Inside(_) | Seen::Over) => (Self::Ended, Act::Nothing),
        }
    }
}

/// The pause before the next try to end it: doubles up to a limit.
pub fn pause(tries: u32, settings: &Settings) -> Duration {
    doubled(settings.abort_after, tries, settings.zombie_retry_max)
}

/// An attempt that was told to stop and whose code cannot be dropped.
pub(crate) struct Case {
    token: AttemptToken,
    life: Arc<Life>,
    /// Children of the attempt that go on although it has ended; empty if it is its own code.
    children: Vec<JoinHandle<()>>,
    told: Instant,
    state: State,
    tries: u32,
    next_try: Instant,
}

impl Case {
    pub(crate) fn new(token: AttemptToken, life: Arc<Life>, told: Instant) -> Self {
        Self {
            token,
            life,
            children: Vec::new(),
            told,
            state: State::Told,
            tries: 0,
            next_try: told,
        }
    }

    pub(crate) fn of_children(self, children: Vec<JoinHandle<()>>) -> Self {
        Self { children, ..self }
    }

    fn is_over(&self) -> bool {
        if self.children.is_empty() {
            return self.life.is_over();
        }
        self.children.iter().all(JoinHandle::is_finished)
    }

    /// Tells it once more, if it is time.
    fn tell_again(&mut self, now: Instant, settings: &Settings) {
        if now < self.next_try || self.state == State::GivenUp {
            return;
        }
        self.life.stop.again();
        self.children.iter().for_each(JoinHandle::abort);
        self.next_try = now + pause(self.tries, settings);
        self.tries += 1;
    }
}

/// All undead attempts of a worker.
#[derive(Default)]
pub(crate) struct Undead {
    cases: Mutex<Vec<Case>>,
    zombies: AtomicUsize,
    ever: AtomicU64,
    is_over_limit: AtomicBool,
}

impl Undead {
    /// Takes one that has no slot any more.
    pub(crate) fn add(&self, case: Case, now: Instant, bus: &Bus) {
        let reason = case.life.stop.reason();
        bus.emit(WorkerEvent::CancelIgnored {
            attempt: case.life.name(case.token),
            reason: reason.unwrap_or(StopReason::NotFound),
            spent: now.duration_since(case.told),
        });
        self.lock().push(case);
    }

    /// The code of this one has come out, unless a thread of its own is inside: that says so itself.
    pub(crate) fn ended(&self, token: AttemptToken) {
        for case in self.lock().iter().filter(|case| case.token == token) {
            if !case.life.is_loose() {
                case.life.end();
            }
        }
    }

    /// How many there are, counted as zombies or not.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// How many count as zombies, now and ever.
    pub(crate) fn zombies(&self) -> (usize, u64) {
        let now = self.zombies.load(Ordering::Relaxed);
        (now, self.ever.load(Ordering::Relaxed))
    }

    /// Their names.
    pub(crate) fn names(&self) -> Vec<AttemptIn> {
        let cases = self.lock();
        cases
            .iter()
            .map(|case| case.life.name(case.token))
            .collect()
    }

    /// Looks at all of them. `true` when there are too many, once.
    pub(crate) fn look(&self, now: Instant, settings: &Settings, bus: &Bus) -> bool {
        let mut events = Vec::new();
        self.lock().retain_mut(|case| {
            let spent = now.duration_since(case.told);
            let seen = if case.is_over() {
                Seen::Over
            } else {
                Seen::Inside(spent)
            };
            let (state, act) = case.state.apply(seen, settings);
            case.state = state;
            if state != State::Ended {
                case.tell_again(now, settings);
            }
            events.extend(self.act(act, case, spent));
            state != State::Ended
        });
        for event in events {
            bus.emit(event);
        }
        self.is_unfit(settings, bus)
    }

    fn act(&self, act: Act, case: &Case, spent: Duration) -> Option<WorkerEvent> {
        let attempt = || case.life.name(case.token);
        match act {
            Act::Nothing | Act::Forget => None,
            Act::Count => {
                self.zombies.fetch_add(1, Ordering::Relaxed);
                self.ever.fetch_add(1, Ordering::Relaxed);
                let attempt = attempt();
                Some(WorkerEvent::Zombie { attempt, spent })
            }
            Act::GiveUp => {
                let attempt = attempt();
                Some(WorkerEvent::ZombieGivenUp { attempt, spent })
            }
            Act::Uncount => {
                self.zombies.fetch_sub(1, Ordering::Relaxed);
                let attempt = attempt();
                Some(WorkerEvent::ZombieEnded { attempt, spent })
            }
        }
    }

    fn is_unfit(&self, settings: &Settings, bus: &Bus) -> bool {
        let (zombies, limit) = (self.zombies().0, settings.zombie_limit);
        let is_over = limit > 0 && zombies > limit;
        if !is_over || self.is_over_limit.swap(true, Ordering::Relaxed) {
            return false;
        }
        bus.emit(WorkerEvent::ZombieLimit { zombies, limit });
        true
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Case>> {
        self.cases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Work;
    use crate::clock;
    use crate::event::Severity;
    use crate::queue::Queues;
    use outlast_model::task::{AttemptKind, RunNo, StepTask};
    use outlast_model::{Attempt, Incarnation, QueueName, RunId, Seq, StepName};
    use std::fmt::Write;

    /// Every state against everything that can be seen: a reviewer reads this table.
    #[test]
    fn transition_table() {
        let settings = Settings::default();
        let second = Duration::from_secs(1);
        let seen = [
            Seen::Inside(second),
            Seen::Inside(10 * second),
            Seen::Inside(3_600 * second),
            Seen::Over,
        ];
        let mut table = String::new();
        for state in [State::Told, State::Zombie, State::GivenUp, State::Ended] {
            for seen in seen {
                let (next, act) = state.apply(seen, &settings);
                writeln!(table, "{state:?} | {seen:?} => {next:?} + {act:?}")
                    .expect("writes to a string");
            }
        }
        insta::assert_snapshot!(table);
    }

    /// A step that ignores that it should stop.
    fn deaf() -> (AttemptToken, Arc<Life>) {
        let token = AttemptToken {
            shard: 0,
            run: RunNo(1),
            kind: AttemptKind::Step,
            seq: Seq(1),
            attempt: Attempt::FIRST,
            incarnation: Incarnation::default(),
        };
        let task = StepTask {
            token,
            run_id: RunId(7),
            name: StepName::new("deaf"),
            queue: QueueName::new("default"),
        };
        let life = Life::new(&Work::Step(task), &Queues::default());
        life.stop.fire(StopReason::Cancelled);
        (token, Arc::new(life))
    }

    /// A whole life, looked at every second, with the times as they are by default.
    #[test]
    fn it_is_told_in_doubling_pauses_counted_after_the_grace_and_given_up_after_an_hour() {
        let (settings, bus, undead) = (Settings::default(), Bus::default(), Undead::default());
        let (heard, told) = (Arc::new(Mutex::new(Vec::new())), clock::now());
        let ear = heard.clone();
        bus.listen(Severity::Debug, move |event| {
            ear.lock().expect("nobody panics").push(event.name());
        });
        let (token, life) = deaf();
        undead.add(Case::new(token, life.clone(), told), told, &bus);
        let (mut said, mut tries) = (Vec::new(), Vec::new());
        for second in 1..=2 * 3_600 {
            let before = undead.lock()[0].tries;
            let now = told + Duration::from_secs(second);
            assert!(
                !undead.look(now, &settings, &bus),
                "one is no reason to stop"
            );
            if undead.lock()[0].tries > before {
                tries.push(second);
            }
            let heard = std::mem::take(&mut *heard.lock().expect("nobody panics"));
            said.extend(heard.into_iter().map(|name| (second, name)));
            let counted = usize::from(second >= 10);
            assert_eq!(undead.zombies().0, counted, "at {second} s");
        }
        assert_eq!(tries[..8], [1, 2, 4, 8, 16, 32, 64, 124]);
        assert!(tries[7..].windows(2).all(|two| two[1] - two[0] == 60));
        assert!(
            *tries.last().expect("told") < 3_600,
            "nobody tells it any more"
        );
        let expected = [
            (1, "cancel-ignored"),
            (10, "zombie"),
            (3_600, "zombie-given-up"),
        ];
        assert_eq!(said, expected);
        life.end();
        assert!(!undead.look(told + Duration::from_secs(7_201), &settings, &bus));
        assert_eq!(undead.zombies(), (0, 1), "gone, and remembered");
        assert_eq!(*heard.lock().expect("nobody panics"), ["zombie-ended"]);
    }

    #[test]
    fn pauses_double_up_to_a_minute() {
        let settings = Settings::default();
        let pauses = (0..40).map(|tries| pause(tries, &settings).as_secs());
        let pauses: Vec<u64> = pauses.collect();
        assert_eq!(pauses[..8], [1, 2, 4, 8, 16, 32, 60, 60]);
        assert!(pauses[8..].iter().all(|pause| *pause == 60));
    }
}
