//! A history cut into the turns that workflow code took.
//!
//! A turn is one completed workflow task: the jobs of all events since the turn before, up to
//! the start of the task, and the command events right behind its completion. A task that
//! failed is no turn: its events belong to the next. Steps are delivered ahead of their
//! markers, which stand among the commands of the turn that saw their outcome.

use outlast_model::event::{Role, StepRecorded};
use outlast_model::{Activation, Event, EventId, EventKind, Job, Timestamp, limits};

/// One completed workflow task of a history.
pub(crate) struct Turn<'a> {
    /// What the code was told first.
    pub(crate) activation: Activation,
    /// Steps whose outcome it was told, with the event and the round that told it.
    pub(crate) steps: Vec<RecordedStep<'a>>,
    /// The event that completed it.
    pub(crate) completed: EventId,
    /// What it asked for, markers included.
    pub(crate) commands: &'a [Event],
}

/// A marker of a step.
#[derive(Clone, Copy)]
pub(crate) struct RecordedStep<'a> {
    pub(crate) event: EventId,
    pub(crate) step: &'a StepRecorded,
}

impl RecordedStep<'_> {
    /// The job that delivers it.
    pub(crate) fn job(&self) -> Job {
        Job::ResolveStep {
            seq: self.step.seq,
            resolution: self.step.outcome.clone(),
        }
    }
}

/// The turns of a history, oldest first. What no turn has seen is left over.
pub(crate) struct Turns<'a> {
    rest: &'a [Event],
    jobs: Vec<Job>,
    cut: Option<Cut>,
}

/// The start of a task: what came before it belongs to its turn.
struct Cut {
    jobs: usize,
    event: EventId,
    time: Timestamp,
}

impl<'a> Turns<'a> {
    pub(crate) fn of(history: &'a [Event]) -> Self {
        Self {
            rest: history,
            jobs: Vec::new(),
            cut: None,
        }
    }

    fn turn(&mut self, cut: &Cut, completed: EventId) -> Turn<'a> {
        let count = self
            .rest
            .iter()
            .take_while(|event| is_command(event))
            .count();
        let (commands, rest) = self.rest.split_at(count);
        self.rest = rest;
        let unseen = self.jobs.split_off(cut.jobs.min(self.jobs.len()));
        let jobs = std::mem::replace(&mut self.jobs, unseen);
        let activation = Activation {
            now: cut.time,
            is_replaying: true,
            history_events: cut.event.0,
            suggest_continue_as_new: cut.event.0 >= limits::HISTORY_SUGGEST_EVENTS,
            jobs,
        };
        let steps = commands.iter().filter_map(recorded_step).collect();
        Turn {
            activation,
            steps,
            completed,
            commands,
        }
    }
}

impl<'a> Iterator for Turns<'a> {
    type Item = Turn<'a>;

    fn next(&mut self) -> Option<Turn<'a>> {
        while let Some((event, rest)) = self.rest.split_first() {
            self.rest = rest;
            let kind = &event.kind;
            if matches!(kind, EventKind::TaskStarted) {
                self.cut = Some(Cut {
                    jobs: self.jobs.len(),
                    event: event.id,
                    time: event.time,
                });
            } else if matches!(kind, EventKind::TaskFailed { .. }) {
                self.cut = None;
            } else if matches!(kind, EventKind::TaskCompleted) {
                if let Some(cut) = self.cut.take() {
                    return Some(self.turn(&cut, event.id));
                }
            } else {
                self.jobs.extend(Job::from_event(event));
            }
        }
        None
    }
}

fn is_command(event: &Event) -> bool {
    match event.kind.role() {
        Role::Command | Role::ClosingCommand => true,
        Role::Task | Role::Close | Role::Stimulus => false,
    }
}

fn recorded_step(event: &Event) -> Option<RecordedStep<'_>> {
    let EventKind::StepRecorded(step) = &event.kind else {
        return None;
    };
    Some(RecordedStep {
        event: event.id,
        step,
    })
}
