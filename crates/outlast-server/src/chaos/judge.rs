//! The judge: pure, so that it can be judged itself. It compares what was asked, answered and
//! done (the ledger) with what the runs say happened (their histories).
//!
//! - *lost*: acknowledged or recorded as a success, and not there;
//! - *phantom*: there, and nobody asked for it;
//! - *duplicated*: begun again although nothing made that necessary;
//! - *stuck*: acknowledged and not ended.
//!
//! A second attempt is allowed only if the first failed on purpose or its process was killed.
//! That bound is what keeps "at least once" from hiding real duplicates.

mod attempts;
mod books;
mod chains;
mod requests;
mod runs;

use outlast_model::{Event, Status};

use super::record::Line;
use books::Books;

/// A run as the file has it.
#[derive(Clone, Debug)]
pub(crate) struct RunFacts {
    pub(crate) trip: String,
    pub(crate) run: String,
    pub(crate) status: Status,
    pub(crate) events: Vec<Event>,
}

/// What kind of wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Lost,
    Phantom,
    Duplicated,
    Stuck,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    pub(crate) wrongs: Vec<(Wrong, String)>,
    pub(crate) acked: u64,
    pub(crate) retries: u64,
    pub(crate) bound: u64,
    /// Attempts that ended and were made again, because the kill came before the commit.
    pub(crate) ambiguous: u64,
}

impl Findings {
    pub(crate) fn count(&self, kind: Wrong) -> usize {
        self.wrongs
            .iter()
            .filter(|(wrong, _)| *wrong == kind)
            .count()
    }

    fn note(&mut self, kind: Wrong, text: String) {
        self.wrongs.push((kind, text));
    }
}

/// Judges one chaos run.
pub(crate) fn judge(lines: &[Line], runs: &[RunFacts]) -> Findings {
    let books = Books::new(lines);
    let mut findings = Findings::default();
    let trips = chains::join(runs, &mut findings);
    requests::check(&books, &trips, &mut findings);
    runs::check(&books, runs, &trips, &mut findings);
    attempts::check(&books, runs, &mut findings);
    findings
}

#[cfg(test)]
mod tests;
