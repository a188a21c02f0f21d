//! Every effect is kept by a run that completed, or undone exactly once: for random programs of
//! races, time limits, drops and cancels over calls with an undo, whatever happens to them and
//! whenever their process dies.
//!
//! `OUTLAST_UNDO_PROGRAMS` says how many programs run; `OUTLAST_UNDO_PROGRAM` runs one and prints it.
#![expect(clippy::print_stdout, reason = "a program is told to a person")]
#![allow(
    unreachable_pub,
    clippy::wildcard_enum_match_arm,
    reason = "a test binary; its judge looks for what it knows"
)]

#[cfg(feature = "planted")]
mod planted;
mod program;
#[path = "../sim/rng.rs"]
#[allow(dead_code, reason = "shared with the simulator")]
mod rng;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outlast_model::event::ChildEvent;
use outlast_model::{Event, EventKind, Seq, Timestamp, grammar};
use outlast_runtime::{ForeignWake, ReplayChecks, Unwatched, replay};

use program::{EffectKey, Interpreter, Program, UNDO, key_of};
use world::{Story, World};

/// What all programs together have met.
#[derive(Debug, Default)]
struct Met {
    kept: u64,
    undone: u64,
    /// Of calls that were asked to stop, or left to themselves.
    undone_late: u64,
    /// Of children that completed.
    undone_children: u64,
    undone_without_effect: u64,
    failed: u64,
    cancelled: u64,
    completed: u64,
    crashes: u64,
}

/// What a history says of the effects of its run.
#[derive(Default)]
struct Books {
    /// The undo activities of each, and how many of them completed.
    undos: BTreeMap<EffectKey, (u64, u64)>,
    /// Activities that were asked to stop.
    asked: BTreeSet<Seq>,
    calls: BTreeMap<Seq, (EffectKey, bool)>,
    /// When each was asked for.
    undone_at: BTreeMap<EffectKey, Timestamp>,
    children: BTreeSet<EffectKey>,
}

impl Books {
    fn of(history: &[Event]) -> Self {
        let mut books = Self::default();
        for event in history {
            match &event.kind {
                EventKind::ActivityScheduled(call) => {
                    let key = key_of(&call.input);
                    let is_undo = call.activity_type.as_str() == UNDO;
                    books.calls.insert(call.seq, (key, is_undo));
                    if is_undo {
                        books.undos.entry(key).or_default().0 += 1;
                        books.undone_at.insert(key, event.time);
                    }
                }
                EventKind::Child(ChildEvent::Initiated(child)) => {
                    books.children.insert(key_of(&child.input));
                }
                EventKind::ActivityCancelRequested { seq } => {
                    books.asked.insert(*seq);
                }
                EventKind::ActivityCompleted { seq, .. } => {
                    if let Some((key, true)) = books.calls.get(seq) {
                        books.undos.entry(*key).or_default().1 += 1;
                    }
                }
                _ => {}
            }
        }
        books
    }

    fn is_late(&self, key: EffectKey) -> bool {
        let mut asked = self.asked.iter().filter_map(|seq| self.calls.get(seq));
        asked.any(|(other, is_undo)| *other == key && !is_undo)
    }
}

fn judge(story: &Story, met: &mut Met) -> Result<(), String> {
    let history = &story.history;
    grammar::check(history).map_err(|wrong| format!("{wrong:?}"))?;
    let foreign: ForeignWake = Arc::new(|run| panic!("a foreign wake of {run}"));
    let strict = ReplayChecks { strict: true };
    replay(history, &Interpreter, &foreign, &Unwatched, strict).map_err(|why| why.to_string())?;
    let books = Books::of(history);
    judge_children(story, &books)?;
    met.crashes += story.crashes;
    let is_kept = match history.last().map(|event| &event.kind) {
        Some(EventKind::Completed { .. }) => {
            met.completed += 1;
            true
        }
        Some(EventKind::Failed { .. }) => {
            met.failed += 1;
            false
        }
        Some(EventKind::Canceled) => {
            met.cancelled += 1;
            false
        }
        other => return Err(format!("it ended otherwise: {other:?}")),
    };
    let keys: BTreeSet<EffectKey> = story
        .effects
        .iter()
        .chain(books.undos.keys())
        .copied()
        .collect();
    for key in keys {
        let has_effect = story.effects.contains(&key);
        let undos = books.undos.get(&key).copied().unwrap_or_default();
        match (is_kept, has_effect, undos) {
            (true, true, (0, 0)) => met.kept += 1,
            (false, true, (1, 1)) if books.is_late(key) => met.undone_late += 1,
            (false, true, (1, 1)) if books.children.contains(&key) => met.undone_children += 1,
            (false, true, (1, 1)) => met.undone += 1,
            // Nobody could know: an undo of nothing does nothing.
            (false, false, (1, 1)) => met.undone_without_effect += 1,
            (is_kept, has_effect, undos) => {
                return Err(format!(
                    "effect {key}: kept {is_kept}, taken {has_effect}, undone {undos:?}"
                ));
            }
        }
    }
    Ok(())
}

/// What a child does is done when its undo begins.
fn judge_children(story: &Story, books: &Books) -> Result<(), String> {
    for child in &story.children {
        grammar::check(child).map_err(|wrong| format!("of a child: {wrong:?}"))?;
        let Some(Event { time, kind, .. }) = child.last() else {
            continue;
        };
        if let EventKind::Completed { result } = kind {
            let key = key_of(result);
            let undone_at = books.undone_at.get(&key);
            if undone_at.is_some_and(|undone_at| undone_at < time) {
                return Err(format!("effect {key}: it came behind its undo"));
            }
        }
    }
    Ok(())
}

fn knob(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn every_effect_is_kept_by_a_completed_run_or_undone_exactly_once() {
    let mut met = Met::default();
    let seeds = match knob("OUTLAST_UNDO_PROGRAM") {
        Some(seed) => seed..seed + 1,
        None => 0..knob("OUTLAST_UNDO_PROGRAMS").unwrap_or(1_000),
    };
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let judged = World::new(seed)
            .play(seed)
            .and_then(|story| judge(&story, &mut met));
        if let Err(why) = judged {
            let program = Program::make(seed);
            panic!("program {seed}: {why}\n{program}\nrepeat with OUTLAST_UNDO_PROGRAM={seed}");
        }
    }
    println!("{count} programs: {met:?}");
    if count < 1_000 {
        return;
    }
    let Met {
        kept,
        undone,
        undone_late,
        undone_children,
        undone_without_effect,
        failed,
        cancelled,
        completed,
        crashes,
    } = met;
    let all = [
        kept,
        undone,
        undone_late,
        undone_children,
        undone_without_effect,
        failed,
        cancelled,
        completed,
        crashes,
    ];
    assert!(all.iter().all(|count| *count > 10), "{all:?}");
}
