//! Attempts whose code has returned and that somebody outside answers for: at once, later, after
//! a restart, twice, or too late. Whoever answers knows no more than the token.

use outlast_engine::{Input, activity};
use outlast_model::task::{AttemptKind, AttemptResult, OpenAttempt, StopReason};
use outlast_model::view::RunRef;
use outlast_model::{EventKind, Fact, Failure, Payload, Record};
use outlast_service::mail::Mail;
use outlast_service::store::Store;

use super::disk::{Disk, fact};
use super::driver::{Simulation, identity};
use super::ledger::{Call, Ledger, Said, kind_of};
use super::program::encoded;
use super::world::Running;

/// What somebody says about an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Word {
    /// It is over, and how.
    Answer(AttemptResult),
    /// It goes on, and how far it is.
    Report(Payload),
}

impl Simulation {
    /// The code of an attempt returns, and its token is out.
    pub fn leave(&mut self, running: Running) {
        self.desk.hit("outside.left");
        self.clients.outside.push(running);
        self.end_attempt(running, AttemptResult::Later);
    }

    /// Whether this attempt leaves its answer to somebody else.
    pub fn leaves(&mut self, running: &Running) -> bool {
        running.token.kind == AttemptKind::Activity && self.rng.chance(20)
    }

    /// Somebody answers, for an attempt that may be long gone.
    pub fn answer_outside(&mut self) {
        let Some(chosen) = self.some_outside() else {
            return;
        };
        let result = match self.rng.below(6) {
            0..=3 => AttemptResult::Completed(encoded(&identity(&chosen))),
            4 => AttemptResult::Failed(Failure::application("sim.Outside", "it failed")),
            _ => AttemptResult::Canceled(None),
        };
        self.say_outside(&chosen, Word::Answer(result));
    }

    /// Somebody reports.
    pub fn report_outside(&mut self) {
        let Some(chosen) = self.some_outside() else {
            return;
        };
        let details = self.next_report();
        self.say_outside(&chosen, Word::Report(details));
    }

    /// What a report says: more than all before it.
    pub fn next_report(&mut self) -> Payload {
        self.clients.reports += 1;
        encoded(&(self.clients.reports * 1_000 + self.rng.below(1_000)))
    }

    /// Everybody answers: no run waits for ever.
    pub fn all_outside_answer(&mut self) -> bool {
        let all = std::mem::take(&mut self.clients.outside);
        for running in &all {
            let result = AttemptResult::Completed(encoded(&identity(running)));
            self.say_outside(running, Word::Answer(result));
        }
        !all.is_empty()
    }

    fn some_outside(&mut self) -> Option<Running> {
        let count = self.clients.outside.len();
        (count > 0).then(|| self.clients.outside[self.rng.index(count)])
    }

    fn say_outside(&mut self, running: &Running, word: Word) {
        let row = self.disk.store.find_run(running.run_id).ok().flatten();
        let Some(row) = row else {
            // The run was never durable: nobody has its token.
            return;
        };
        if running.life != self.process.life {
            self.desk.hit("outside.after-restart");
        }
        self.trace(&format!("outside {:?} {word:?}", running.token));
        let attempt = open_attempt(running);
        let (id, run_id) = (row.workflow_id, Some(running.run_id));
        let call = Call::Outside(attempt, word.clone());
        let workflow_id = id.clone();
        let run = RunRef {
            workflow_id,
            run_id,
        };
        match word {
            Word::Answer(result) => {
                let reply = self.desk.ask(&id, call, |()| Said::Done);
                let input = Input::Answer { attempt, result };
                self.accept(Mail::Message { run, input, reply });
            }
            Word::Report(details) => {
                let reply = self.desk.ask(&id, call, Said::Reported);
                let input = Input::Report { attempt, details };
                self.accept(Mail::Report { run, input, reply });
            }
        }
    }
}

fn open_attempt(running: &Running) -> OpenAttempt {
    OpenAttempt {
        run_id: running.run_id,
        seq: running.token.seq,
        attempt: running.token.attempt,
        incarnation: running.token.incarnation,
    }
}

impl Ledger {
    /// An answer or a report was taken; says whether it is durable.
    pub fn heard_outside(&mut self, of: OpenAttempt, word: &Word, disk: &Disk) -> bool {
        let row = disk.store.find_run(of.run_id).ok().flatten();
        let has = |is_it: &dyn Fn(&Record) -> bool| {
            row.as_ref().is_some_and(|row| disk.has(row.no, is_it))
        };
        match word {
            Word::Report(details) => {
                self.markers.hit("outside.reported");
                let said = details.decode::<u64>().ok();
                // The newest says it for all before it.
                has(&|record| {
                    matches!(fact(record), Some(Fact::Heartbeat { seq, details: kept, .. })
                        if *seq == of.seq && kept.decode().ok() >= said)
                })
            }
            Word::Answer(result) => {
                self.markers.hit("outside.answered");
                if self.answered.contains(&of) {
                    let text = format!("{of:?} was answered twice");
                    self.violations.push(text);
                }
                self.answered.push(of);
                has(&|record| is_recorded(record, of, result))
            }
        }
    }

    /// Whether an attempt may be told to stop when it reports.
    pub fn judge_stop(&mut self, of: OpenAttempt, stop: Option<StopReason>, disk: &Disk) {
        if stop.is_some() {
            self.markers.hit("outside.told-to-stop");
        }
        let is_open = is_outside(disk, of);
        if is_open && stop.is_some_and(|reason| reason != StopReason::Cancelled) {
            let text = format!("{of:?} was told {stop:?}");
            self.violations.push(text);
        }
    }

    /// Whether it may be refused as over: not while it is durably open.
    pub fn may_be_over(&mut self, call: &Call, disk: &Disk) -> bool {
        let Call::Outside(of, _) = call else {
            return false;
        };
        self.markers.hit("outside.too-late");
        !is_outside(disk, *of)
    }
}

/// Whether the answer had its effect.
fn is_recorded(record: &Record, of: OpenAttempt, result: &AttemptResult) -> bool {
    let has_failed =
        matches!(fact(record), Some(Fact::AttemptFailed { seq, .. }) if *seq == of.seq);
    match (result, kind_of(record)) {
        (
            AttemptResult::Completed(value),
            Some(EventKind::ActivityCompleted { seq, result, .. }),
        ) => (*seq, result) == (of.seq, value),
        (AttemptResult::Failed(_), Some(EventKind::ActivityFailed { seq, .. })) => *seq == of.seq,
        (
            AttemptResult::Canceled(_),
            Some(EventKind::ActivityCanceled { seq, .. } | EventKind::ActivityFailed { seq, .. }),
        ) => *seq == of.seq,
        (AttemptResult::Failed(_) | AttemptResult::Canceled(_), _) => has_failed,
        _ => false,
    }
}

/// Whether this very attempt waits for an answer, as far as the disk knows.
fn is_outside(disk: &Disk, of: OpenAttempt) -> bool {
    let Some(row) = disk.store.find_run(of.run_id).ok().flatten() else {
        return false;
    };
    let Ok((run, _)) = disk.load_both(row.no) else {
        return false;
    };
    run.activity(of.seq)
        .is_some_and(|activity| match activity.state {
            activity::State::Outside {
                attempt,
                incarnation,
                ..
            } => (attempt, incarnation) == (of.attempt, of.incarnation),
            _ => false,
        })
}
