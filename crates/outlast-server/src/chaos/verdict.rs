//! The verdict: everything that is known, and the one line that counts.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use outlast_model::id::WorkflowId;
use outlast_model::view::{ListFilter, RunRef};
use outlast_service::inspect::Inspector;
use outlast_service::points;

use super::Room;
use super::driver::Story;
use super::judge::{Findings, RunFacts, Wrong, judge};
use super::record::Line;
use crate::stop::Stop;

/// Findings that are told in full.
const TOLD: usize = 20;
/// Runs of one read.
const PAGE: usize = 500;

/// What came out of a chaos run.
#[derive(Debug)]
pub(crate) struct Verdict {
    findings: Findings,
    story: Story,
    /// What keeps the runs that are open, one line for each reason.
    open: Vec<String>,
}

/// Reads ledger and file, and judges.
pub(crate) fn of(room: &Room, story: Story) -> Result<Verdict, Stop> {
    let runs = read_runs(room)?;
    let findings = judge(&read_ledger(room)?, &runs);
    let open = what_keeps(room, &runs)?;
    Ok(Verdict {
        findings,
        story,
        open,
    })
}

/// Why the runs that are open do not end: without it a stuck run is a riddle.
fn what_keeps(room: &Room, runs: &[RunFacts]) -> Result<Vec<String>, Stop> {
    let inspector = Inspector::open(room.db())?;
    let mut lines = Vec::new();
    for run in runs.iter().filter(|run| run.status.is_open()).take(TOLD) {
        let newest = RunRef::newest(WorkflowId::new(run.trip.as_str()));
        let keeps = inspector.describe(&newest).map(|found| {
            let (trouble, waiting) = (found.trouble, found.waiting);
            let last = run.events.last().map(|event| &event.kind);
            format!("trouble {trouble:?}, waits for {waiting:?}, last {last:?}")
        });
        let keeps = keeps.unwrap_or_else(|refusal| refusal.to_string());
        lines.push(format!("open: {}: {keeps}", run.trip));
    }
    Ok(lines)
}

fn read_ledger(room: &Room) -> Result<Vec<Line>, Stop> {
    let file = std::fs::File::open(room.ledger())?;
    let mut lines = Vec::new();
    for line in BufReader::new(file).lines() {
        let line = serde_json::from_str(&line?);
        lines.push(line.map_err(|e| Stop::Failure(format!("the ledger: {e}")))?);
    }
    Ok(lines)
}

fn read_runs(room: &Room) -> Result<Vec<RunFacts>, Stop> {
    let inspector = Inspector::open(room.db())?;
    let mut filter = ListFilter {
        limit: PAGE,
        ..ListFilter::default()
    };
    let mut runs = Vec::new();
    loop {
        let page = inspector.list(&filter)?;
        let Some(last) = page.last() else {
            return Ok(runs);
        };
        filter.before = Some(last.run_id);
        for run in page {
            let workflow_id = run.workflow_id.clone();
            let events = inspector.history(&RunRef {
                workflow_id,
                run_id: Some(run.run_id),
            })?;
            runs.push(RunFacts {
                trip: run.workflow_id.to_string(),
                run: run.run_id.to_string(),
                status: run.status,
                events,
            });
        }
    }
}

impl Verdict {
    /// Whether the zeros are zeros.
    pub(crate) fn is_clean(&self) -> bool {
        self.findings.wrongs.is_empty() && self.story.unanswered == 0 && self.story.crashes == 0
    }

    /// What stands above the line.
    pub(crate) fn report(&self) -> String {
        let mut lines = Vec::new();
        for (kind, text) in self.findings.wrongs.iter().take(TOLD) {
            lines.push(format!("{kind:?}: {text}").to_lowercase());
        }
        lines.extend(self.open.iter().cloned());
        let seconds = self.story.took.as_secs_f64();
        let rate = self.story.kills as f64 / seconds.max(0.001);
        lines.push(format!(
            "{:.1} s, {rate:.1} kills/s; named points hit: {} of {}; attempts made again after \
             their end (killed before the commit): {}; runs set aside after five deaths in a row \
             and told to try again: {}; workers that died on their own: {}",
            seconds,
            self.story.points,
            points::ALL.len(),
            self.findings.ambiguous,
            self.story.set_aside,
            self.story.crashes,
        ));
        if !self.story.unreached.is_empty() {
            lines.push(format!(
                "points not hit: {}",
                self.story.unreached.join(", ")
            ));
        }
        lines.join("\n")
    }

    /// The line that counts.
    pub(crate) fn line(&self) -> String {
        let count = |kind| self.findings.count(kind);
        let stuck = count(Wrong::Stuck).max(self.story.unanswered);
        format!(
            "verdict: kills={} acked={} lost={} phantom={} duplicated={} retries={} bound={} \
             stuck={stuck} recover_p99_ms={}",
            self.story.kills,
            self.findings.acked,
            count(Wrong::Lost),
            count(Wrong::Phantom),
            count(Wrong::Duplicated),
            self.findings.retries,
            self.findings.bound,
            p99(&self.story.recoveries).as_millis(),
        )
    }
}

fn p99(durations: &[Duration]) -> Duration {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    let index = (sorted.len() * 99).div_ceil(100).saturating_sub(1);
    sorted.get(index).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p99_is_the_value_that_one_in_a_hundred_exceeds() {
        let millis: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(p99(&millis), Duration::from_millis(198));
        assert_eq!(p99(&[]), Duration::ZERO);
    }
}
