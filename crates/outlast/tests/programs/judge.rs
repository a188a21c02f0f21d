//! Whether all executions of a program are one: live, replayed, rebuilt, slow.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use outlast_model::event::{Role, UpdateAccepted, UpdateEvent};
use outlast_model::{Event, EventId, EventKind, Timestamp, grammar};
use outlast_runtime::{ForeignWake, ReplayChecks, Unwatched, replay};

use super::ast::Program;
use super::bench::{Bench, Path, RunStory, Story};
use super::code::Interpreter;
use super::desk;
use super::marker;
use super::rng::Rng;

/// Replays that found nothing to say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verdict {
    pub replays: u64,
}

/// Runs a program in every way. Code that panics is as wrong as code that differs.
pub fn judge(program: &Program) -> Result<Verdict, String> {
    let judged = catch_unwind(AssertUnwindSafe(|| {
        Case {
            program,
            replays: 0,
        }
        .judge()
    }));
    judged.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panicked: {}", text.unwrap_or_default()))
    })
}

struct Case<'a> {
    program: &'a Program,
    replays: u64,
}

impl Case<'_> {
    fn judge(mut self) -> Result<Verdict, String> {
        let fast = self.played(Path::Fast)?;
        self.replay_whole(&fast)?;
        self.replay_beginning(&fast)?;
        let slow = self.played(Path::Slow)?;
        same(&fast, &slow)?;
        // A storm is not compared with anything but itself: every other one is enough.
        if self.program.seed.is_multiple_of(2) {
            let storm = self.played(Path::Storm)?;
            self.replay_whole(&storm)?;
        }
        Ok(Verdict {
            replays: self.replays,
        })
    }

    fn played(&self, path: Path) -> Result<Story, String> {
        desk::lay_out(self.program);
        let story = Bench::new(self.program, path).play(self.program.seed)?;
        marker::look(&story);
        for run in &story.runs {
            grammar::check(&run.history).map_err(|wrong| format!("{path:?}: {wrong:?}"))?;
        }
        Ok(story)
    }

    /// Every run, replayed from its first event, gives the log it gave live.
    fn replay_whole(&mut self, story: &Story) -> Result<(), String> {
        for run in &story.runs {
            self.replayed(run, run.history.len(), run.log.len())?;
        }
        Ok(())
    }

    /// A run, replayed to where it was at rest, stands where it stood.
    fn replay_beginning(&mut self, story: &Story) -> Result<(), String> {
        let mut rng = Rng::new(self.program.seed);
        if story.rests.is_empty() {
            return Ok(());
        }
        let (run_id, events, length) = story.rests[rng.index(story.rests.len())];
        let run = story.runs.iter().find(|run| run.run_id == run_id);
        let Some(run) = run else {
            return Err(format!("run {run_id} is not in the store"));
        };
        let events = usize::try_from(events).unwrap_or(usize::MAX);
        if events >= run.history.len() || !has_completed_task(&run.history[..events]) {
            return Ok(());
        }
        self.replayed(run, events, length)
    }

    fn replayed(&mut self, run: &RunStory, events: usize, length: usize) -> Result<(), String> {
        let history = &run.history[..events];
        if !has_completed_task(history) {
            return Ok(());
        }
        let foreign: ForeignWake = Arc::new(|run| panic!("a foreign wake of {run}"));
        let strict = ReplayChecks { strict: true };
        let replayed = replay(history, &Interpreter, &foreign, &Unwatched, strict);
        let mut instance = replayed.map_err(|failure| format!("replay: {failure}"))?;
        let warnings = instance.warnings();
        if !warnings.is_empty() {
            return Err(format!("replay warns: {warnings:?}"));
        }
        self.replays += 1;
        let log = desk::log(run.run_id);
        if log != run.log[..length.min(run.log.len())] {
            return Err(format!(
                "a replay of {events} events sees something else: {}",
                first_difference(&run.log, &log)
            ));
        }
        Ok(())
    }
}

/// Both paths are one.
fn same(fast: &Story, slow: &Story) -> Result<(), String> {
    if fast.runs.len() != slow.runs.len() {
        return Err(format!(
            "{} runs fast, {} slow",
            fast.runs.len(),
            slow.runs.len()
        ));
    }
    for (a, b) in fast.runs.iter().zip(&slow.runs) {
        equal("log", &a.log, &b.log)?;
        equal("commands", &a.commands, &b.commands)?;
        equal("history", &plain(&a.history), &plain(&b.history))?;
        equal("notes", &a.notes, &b.notes)?;
    }
    equal("answers", &fast.told, &slow.told)
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, a: &[T], b: &[T]) -> Result<(), String> {
    if a == b {
        return Ok(());
    }
    Err(format!("{what}: {}", first_difference(a, b)))
}

fn first_difference<T: PartialEq + std::fmt::Debug>(a: &[T], b: &[T]) -> String {
    let place = a.iter().zip(b).position(|(a, b)| a != b);
    let place = place.unwrap_or(a.len().min(b.len()));
    format!(
        "at {place}: {:?} and {:?}; before: {:?}",
        a.get(place),
        b.get(place),
        place.checked_sub(1).map(|before| &a[before])
    )
}

/// A history without what depends on the path: its cut into tasks is judged by its effects.
fn plain(history: &[Event]) -> Vec<(Timestamp, EventKind)> {
    let events = history.iter().filter(|event| {
        let is_admitted = matches!(event.kind, EventKind::Update(UpdateEvent::Admitted(_)));
        event.kind.role() != Role::Task && !is_admitted
    });
    let events = events.map(|event| {
        let kind = match &event.kind {
            EventKind::Update(UpdateEvent::Accepted(accepted)) => {
                let accepted = UpdateAccepted {
                    id: accepted.id.clone(),
                    request: None,
                    behind: EventId(0),
                };
                EventKind::Update(UpdateEvent::Accepted(Box::new(accepted)))
            }
            kind => kind.clone(),
        };
        (event.time, kind)
    });
    events.collect()
}

fn has_completed_task(history: &[Event]) -> bool {
    let mut events = history.iter();
    events.any(|event| matches!(event.kind, EventKind::TaskCompleted))
}
