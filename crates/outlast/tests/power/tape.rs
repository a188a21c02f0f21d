//! Records a scenario of the crash suite: what was done to the files, and beside it, mark by mark,
//! what its client had been told and what had been done in the world.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlast_service::faulty::Lie;
use outlast_service::sqlite::OpenOptions;
use outlast_vfs::{Call, Fault, How, Lab, Tape};

use crate::client::{Ack, Disk, Memory};
use crate::exam::Seen;
use crate::judge;
use crate::life::{Lives, Story, live, new_case};
use crate::script::Scenario;
use crate::world::{Effect, Ledger};

/// A scenario with a fault that comes after the first acknowledgement, or none.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) scenario: &'static Scenario,
    pub(crate) fault: Option<Fault>,
    pub(crate) options: OpenOptions,
}

/// What was so at a mark.
#[derive(Clone, Debug, Default)]
struct Moment {
    acks: usize,
    effects: usize,
    token: Option<String>,
    is_fixed: bool,
    now: Duration,
}

/// A scenario on record.
pub(crate) struct Recording {
    pub(crate) tape: Tape,
    scenario: &'static Scenario,
    case: String,
    moments: Vec<Moment>,
    acks: Vec<Ack>,
    ledger: Arc<Ledger>,
    clean: Story,
    /// Calls that failed.
    struck: u32,
}

/// Who writes the marks.
struct Scribe {
    lab: Lab,
    moments: Mutex<Vec<Moment>>,
    ledger: Arc<Ledger>,
    memory: Arc<Memory>,
    fault: Mutex<Option<Fault>>,
    /// Calls of each kind up to the first acknowledgement, from which on faults come.
    before: Mutex<Option<Calls>>,
    /// And up to the end of the client.
    after: Mutex<Option<Calls>>,
}

/// Calls of each kind.
pub(crate) type Calls = BTreeMap<Call, u64>;

impl Scribe {
    fn calls(&self) -> Calls {
        Call::ALL.map(|call| (call, self.lab.calls(call))).into()
    }

    /// The client is done.
    fn end(&self) {
        *lock(&self.after) = Some(self.calls());
        self.lab.disarm();
    }

    /// How many calls failed.
    fn struck(&self) -> u32 {
        u32::try_from(self.lab.struck()).unwrap_or(u32::MAX)
    }

    fn mark(&self, now: Option<Duration>) {
        let mut moments = lock(&self.moments);
        let last = moments.last().map(|moment| moment.now).unwrap_or_default();
        let moment = Moment {
            acks: self.memory.acks().len(),
            effects: self.ledger.effects().len(),
            token: self.ledger.token(),
            is_fixed: self.ledger.is_fixed(),
            now: now.map_or(last, |now| now.max(last)),
        };
        if moment.acks > 0 {
            lock(&self.before).get_or_insert_with(|| self.calls());
            if let Some(fault) = lock(&self.fault).take() {
                self.lab.arm(fault);
            }
        }
        moments.push(moment);
        self.lab.mark(moments.len() - 1);
    }
}

impl Plan {
    pub(crate) fn new(scenario: &'static Scenario, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            scenario,
            fault: None,
            options: OpenOptions::default(),
        }
    }

    /// With a log that is copied again and again.
    pub(crate) fn copying(mut self) -> Self {
        self.options.log_pages = 6;
        self
    }

    /// Runs it once, on record.
    pub(crate) fn record(&self) -> Result<Recording, String> {
        let clean = live(self.scenario, &[], Lie::None);
        let (lives, scribe) = self.live().map_err(|e| e.to_string())?;
        Ok(Recording {
            tape: scribe.lab.tape(),
            scenario: self.scenario,
            case: lives.story.case.clone(),
            moments: lock(&scribe.moments).clone(),
            acks: lives.memory.acks(),
            ledger: lives.ledger.clone(),
            clean,
            struck: scribe.struck(),
        })
    }

    /// One process, watched.
    fn live(&self) -> io::Result<(Lives, Arc<Scribe>)> {
        let mut lives = Lives::new(new_case());
        let scribe = Arc::new(Scribe {
            lab: Lab::on(&lives.place())?,
            moments: Mutex::default(),
            ledger: lives.ledger.clone(),
            memory: lives.memory.clone(),
            fault: Mutex::new(self.fault.clone()),
            before: Mutex::default(),
            after: Mutex::default(),
        });
        let (one, two, three) = (scribe.clone(), scribe.clone(), scribe.clone());
        let four = scribe.clone();
        lives.after = Some(Arc::new(move || four.end()));
        lives.ledger.watch(Arc::new(move || one.mark(None)));
        lives.memory.watch(Arc::new(move || two.mark(None)));
        lives.before = Some(Arc::new(move |now| three.mark(Some(now))));
        lives.options = self.options.clone();
        let is_full = |fault: &Fault| matches!(fault.how, How::Full | How::Short);
        if self.fault.as_ref().is_some_and(is_full) {
            lives.room = Disk::MayBeFull;
        }
        lives.one(self.scenario, None, Lie::None);
        Ok((lives, scribe))
    }

    /// Calls that can fail, and how it ends when none does.
    pub(crate) fn usual(&self) -> io::Result<(Calls, Story)> {
        let (lives, scribe) = self.live()?;
        let mut calls = lock(&scribe.after).clone().unwrap_or_default();
        for (call, before) in lock(&scribe.before).iter().flatten() {
            calls.entry(*call).and_modify(|all| *all -= before);
        }
        Ok((calls, lives.told()))
    }

    /// What is wrong with how it ends if this fails, in a process that lives on. Nothing is known if
    /// nothing failed.
    pub(crate) fn endure(&self, clean: &Story) -> io::Result<Option<Vec<String>>> {
        let (mut lives, scribe) = self.live()?;
        let struck = scribe.struck();
        if struck == 0 {
            return Ok(None);
        }
        lives.story.failures += struck;
        // The process lives: an attempt that runs while a commit fails counts.
        let scenario = Scenario {
            or_else: &[],
            ..*self.scenario
        };
        Ok(Some(judge::judge(&scenario, &lives.told(), Some(clean))))
    }
}

impl Recording {
    /// What is wrong with a disk that was cut off here.
    pub(crate) fn judge(&self, seen: &Seen, mark: Option<usize>) -> Vec<String> {
        let moment = self.moment(mark);
        judge::of_disk(&Story {
            acks: self.acks_at(&moment),
            effects: self.effects_at(&moment),
            runs: seen.recorded(),
            damage: seen.damage.clone(),
            ..Story::new(self.case.clone())
        })
    }

    /// What else than the disk decides how it goes on.
    pub(crate) fn key(&self, mark: Option<usize>) -> (usize, usize) {
        let moment = self.moment(mark);
        (moment.acks, moment.effects)
    }

    /// The next process goes on from these files to the end.
    pub(crate) fn go_on(
        &self,
        seen: &Seen,
        mark: Option<usize>,
        files: &std::path::Path,
    ) -> Vec<String> {
        let moment = self.moment(mark);
        let mut lives = Lives::new(self.case.clone());
        let token = moment.token.clone();
        lives.ledger = Arc::new(self.ledger.as_of(moment.effects, token, moment.is_fixed));
        lives.memory = Arc::new(Memory::of(self.acks_at(&moment)));
        lives.now = moment.now;
        lives.story.deaths = 1;
        lives.story.failures = self.struck;
        lives.story.remains.push(seen.recorded());
        lives.next(|_, to| crate::life::copy(files, to));
        lives.go_on(self.scenario, &[], Lie::None);
        let story = lives.told();
        judge::judge(self.scenario, &story, Some(&self.clean))
    }

    fn moment(&self, mark: Option<usize>) -> Moment {
        let found = mark.and_then(|mark| self.moments.get(mark));
        found.cloned().unwrap_or_default()
    }

    fn acks_at(&self, moment: &Moment) -> Vec<Ack> {
        self.acks[..moment.acks].to_vec()
    }

    fn effects_at(&self, moment: &Moment) -> Vec<Effect> {
        let effects = self.ledger.effects();
        effects.into_iter().take(moment.effects).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
