//! Every attempt after the first must have its reason.

use std::collections::{BTreeMap, BTreeSet};

use super::books::Books;
use super::{Findings, RunFacts, Wrong};
use crate::chaos::record::{Effect, LedgerSeq};

/// The activity whose number of attempts is bounded: a crash uses an attempt up.
const BOUNDED: &str = "pay";

type Begin<'a> = (LedgerSeq, &'a Effect);

pub(super) fn check(books: &Books, runs: &[RunFacts], findings: &mut Findings) {
    let known: BTreeSet<&str> = runs.iter().map(|run| run.run.as_str()).collect();
    let mut chains: BTreeMap<(&str, &str), Vec<Begin<'_>>> = BTreeMap::new();
    for (seq, effect) in &books.begins {
        if !known.contains(effect.run.as_str()) {
            let text = format!(
                "{} of {} ran, its run is not there",
                effect.name, effect.trip
            );
            findings.note(Wrong::Phantom, text);
        }
        let key = (effect.run.as_str(), effect.name.as_str());
        chains.entry(key).or_default().push((*seq, effect));
    }
    for chain in chains.values() {
        check_chain(books, chain, findings);
    }
}

fn check_chain(books: &Books, chain: &[Begin<'_>], findings: &mut Findings) {
    let retries = chain.len() as u64 - 1;
    let bound = bound(books, chain);
    findings.retries += retries;
    findings.bound += bound;
    for pair in chain.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        if let Some(why) = fault(books, before, after) {
            let (name, trip) = (&after.1.name, &after.1.trip);
            findings.note(Wrong::Duplicated, format!("{name} of {trip} {why}"));
        }
        if before.1.child != after.1.child && books.fate(before.0).ended.is_some() {
            findings.ambiguous += 1;
        }
    }
    if retries > bound {
        let (name, trip) = (&chain[0].1.name, &chain[0].1.trip);
        let text = format!("{name} of {trip}: {retries} retries, {bound} are explained");
        findings.note(Wrong::Duplicated, text);
    }
}

/// How many further attempts errors and kills explain. A kill after the recorded success hit
/// nothing.
fn bound(books: &Books, chain: &[Begin<'_>]) -> u64 {
    let failed = |(seq, _): &&Begin<'_>| books.fate(*seq).failed.is_some();
    let failed = chain.iter().filter(failed).count();
    let open = match chain.split_last() {
        Some(((last, _), before)) if books.fate(*last).ended.is_some() => before,
        Some(_) | None => chain,
    };
    let killed: BTreeSet<_> = open
        .iter()
        .map(|(_, effect)| effect.child)
        .filter(|child| books.kills.contains_key(child))
        .collect();
    (failed + killed.len()) as u64
}

/// Why the second attempt should not have begun.
fn fault(books: &Books, (first, before): Begin<'_>, (second, after): Begin<'_>) -> Option<String> {
    let fate = books.fate(first);
    if before.child == after.child {
        if before.attempt == after.attempt {
            return Some(format!(
                "began attempt {} twice in one process",
                after.attempt
            ));
        }
        return match fate.failed {
            Some(failed) if failed < second => None,
            Some(_) | None if fate.ended.is_some() => Some("began again after it ended".into()),
            Some(_) | None => Some("began again while it ran".into()),
        };
    }
    let is_dead = books
        .exits
        .get(&before.child)
        .is_some_and(|exit| *exit < second);
    if !is_dead {
        return Some("began while another process ran it".into());
    }
    if before.name == BOUNDED && after.attempt <= before.attempt {
        return Some(format!("used attempt {} again", after.attempt));
    }
    None
}
