//! Runs that continue each other are one trip, and a trip's child is its own: everything else
//! that two runs of one id could be is wrong.

use std::collections::BTreeMap;

use outlast_model::event::{ChildEvent, Started};
use outlast_model::{EventKind, Status};

use super::runs::digest;
use super::{Findings, RunFacts, Wrong};
use crate::chaos::trip::{Mark, leg_of};

/// A trip: all its runs, told as one.
#[derive(Clone, Debug)]
pub(super) struct Trip {
    /// The events of all its runs, one after the other, and the status of the last.
    pub(super) whole: RunFacts,
    /// Its runs, in their order.
    pub(super) runs: Vec<String>,
    leg: Option<RunFacts>,
}

/// Sorts runs into trips and their children.
pub(super) fn join(runs: &[RunFacts], findings: &mut Findings) -> Vec<Trip> {
    let mut by_id: BTreeMap<&str, Vec<&RunFacts>> = BTreeMap::new();
    for run in runs {
        by_id.entry(&run.trip).or_default().push(run);
    }
    let is_leg = |id: &str| id.ends_with(&leg_of(""));
    let mut trips: BTreeMap<&str, Trip> = by_id
        .iter()
        .filter(|(id, _)| !is_leg(id))
        .map(|(id, runs)| (*id, chain(runs, findings)))
        .collect();
    for (id, runs) in by_id.iter().filter(|(id, _)| is_leg(id)) {
        if runs.len() > 1 {
            findings.note(Wrong::Duplicated, format!("{id} has two runs"));
        }
        let parent = id.strip_suffix(&leg_of("")).unwrap_or(id);
        match trips.get_mut(parent) {
            Some(trip) => trip.leg = runs.first().map(|run| (*run).clone()),
            None => findings.note(Wrong::Phantom, format!("{id} has no parent")),
        }
    }
    trips.into_values().collect()
}

/// Each run but the first continues the one before it, which says so too.
fn chain(runs: &[&RunFacts], findings: &mut Findings) -> Trip {
    let mut runs = runs.to_vec();
    runs.sort_by(|a, b| a.run.cmp(&b.run));
    let mut whole = runs[0].clone();
    let names = runs.iter().map(|run| run.run.clone()).collect();
    if before(runs[0]).is_some() {
        let text = format!("{} goes on from a run that is not there", whole.trip);
        findings.note(Wrong::Lost, text);
    }
    for pair in runs.windows(2) {
        let (last, next) = (pair[0], pair[1]);
        let is_next = before(next).as_ref() == Some(&last.run);
        if !is_next || after(last).as_ref() != Some(&next.run) {
            findings.note(Wrong::Duplicated, format!("{} has two runs", whole.trip));
            continue;
        }
        whole.events.extend(next.events.iter().cloned());
        (whole.run, whole.status) = (next.run.clone(), next.status);
    }
    if whole.status == Status::ContinuedAsNew {
        let text = format!("{} went on as a run that is not there", whole.trip);
        findings.note(Wrong::Lost, text);
    }
    let leg = None;
    Trip {
        whole,
        runs: names,
        leg,
    }
}

fn started(run: &RunFacts) -> Option<&Started> {
    if let EventKind::Started(started) = &run.events.first()?.kind {
        return Some(started);
    }
    None
}

/// The run it says it continues.
fn before(run: &RunFacts) -> Option<String> {
    Some(started(run)?.continued_from?.to_string())
}

/// The run it says it went on as.
fn after(run: &RunFacts) -> Option<String> {
    if let EventKind::ContinuedAsNew(next) = &run.events.last()?.kind {
        return Some(next.new_run_id.to_string());
    }
    None
}

/// A child runs once, because its parent asked for it, and what it returned is what its parent
/// was told.
pub(super) fn check_leg(trip: &Trip, findings: &mut Findings) {
    let id = leg_of(&trip.whole.trip);
    let asked = count(trip, |event| matches!(event, ChildEvent::Initiated(_)));
    if asked > 1 {
        findings.note(Wrong::Duplicated, format!("{id} was asked for twice"));
    }
    if asked == 0 && trip.leg.is_some() {
        findings.note(Wrong::Phantom, format!("{id} was never asked for"));
    }
    let told = told(trip);
    let returned = trip.leg.as_ref().and_then(result);
    if told.is_some() && told != returned {
        findings.note(Wrong::Lost, format!("{id} did not return what was told"));
    }
    if let Some(digest) = digest(&trip.whole)
        && digest.leg != told
    {
        let text = format!("{} saw another child than its history", trip.whole.trip);
        findings.note(Wrong::Phantom, text);
    }
    let Some(leg) = &trip.leg else { return };
    if leg.status == Status::Failed {
        findings.note(Wrong::Lost, format!("{id} failed, and nothing made it"));
    }
    if leg.status.is_open() && !trip.whole.status.is_open() {
        findings.note(Wrong::Stuck, format!("{id} has not ended with its parent"));
    }
}

/// The child of a trip, for the checks of any run.
pub(super) fn leg(trip: &Trip) -> Option<&RunFacts> {
    trip.leg.as_ref()
}

fn count(trip: &Trip, is_it: impl Fn(&ChildEvent) -> bool) -> usize {
    let events = trip.whole.events.iter();
    events
        .filter(|event| matches!(&event.kind, EventKind::Child(child) if is_it(child)))
        .count()
}

fn told(trip: &Trip) -> Option<Mark> {
    trip.whole.events.iter().find_map(|event| {
        if let EventKind::Child(ChildEvent::Completed { result, .. }) = &event.kind {
            return result.decode().ok();
        }
        None
    })
}

fn result(run: &RunFacts) -> Option<Mark> {
    if let EventKind::Completed { result } = &run.events.last()?.kind {
        return result.decode().ok();
    }
    None
}
