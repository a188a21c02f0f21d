//! A history cut into the turns that workflow code took.
//!
//! A turn is one completed workflow task: the jobs of all events since the turn before, up to
//! the start of the task, and the command events right behind its completion. A task that
//! failed is no turn: its events belong to the next. Some news stands among the commands of the
//! turn that saw it, and is looked up ahead: steps, whose marker says in which round they were
//! delivered; changes of the code in use; and updates, told at the place they had among the
//! signals. An update that was admitted and not accepted was turned away: nobody is told again.

use outlast_model::event::{Role, StepRecorded, UpdateAccepted, UpdateEvent, UpdateRequest};
use outlast_model::job::UpdateJob;
use outlast_model::planted::{Bug, is_planted};
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
    /// News that no turn has seen, with the events that brought it.
    news: Vec<(EventId, Job)>,
    /// Updates that wait for their acceptance, with the events that brought them.
    admitted: Vec<(EventId, &'a UpdateRequest)>,
    cut: Option<Cut>,
}

/// The start of a task: what came before it belongs to its turn.
struct Cut {
    event: EventId,
    time: Timestamp,
}

impl<'a> Turns<'a> {
    pub(crate) fn of(history: &'a [Event]) -> Self {
        Self {
            rest: history,
            news: Vec::new(),
            admitted: Vec::new(),
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
        let activation = Activation {
            now: cut.time,
            is_replaying: true,
            history_events: cut.event.0,
            suggest_continue_as_new: cut.event.0 >= limits::HISTORY_SUGGEST_EVENTS,
            jobs: self.jobs(cut, commands),
        };
        let steps = commands.iter().filter_map(recorded_step).collect();
        Turn {
            activation,
            steps,
            completed,
            commands,
        }
    }

    /// All news of a turn, in history order.
    fn jobs(&mut self, cut: &Cut, commands: &'a [Event]) -> Vec<Job> {
        let mut news = before(&mut self.news, cut.event);
        let admitted = before(&mut self.admitted, cut.event);
        let told = news.len();
        for event in commands {
            if let EventKind::Update(UpdateEvent::Accepted(accepted)) = &event.kind {
                news.extend(update(accepted, &admitted));
            } else if let EventKind::Patched { id, .. } = &event.kind {
                news.push((EventId(0), Job::NotifyPatch { id: id.clone() }));
            }
        }
        if news.len() > told {
            // Stable: an update comes behind the news of the event it stands behind.
            news.sort_by_key(|(event, _)| *event);
        }
        news.into_iter().map(|(_, job)| job).collect()
    }

    fn read(&mut self, event: &'a Event) {
        if let EventKind::Update(UpdateEvent::Admitted(request)) = &event.kind {
            self.admitted.push((event.id, request));
        } else if let Some(job) = Job::from_event(event) {
            self.news.push((event.id, job));
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
                self.read(event);
            }
        }
        None
    }
}

/// Takes what stands before this event.
fn before<T>(list: &mut Vec<(EventId, T)>, cut: EventId) -> Vec<(EventId, T)> {
    let count = list.partition_point(|(event, _)| *event < cut);
    let later = list.split_off(count);
    std::mem::replace(list, later)
}

/// An accepted update, as it is told again, and where: not always at its own event, which may
/// have been written while the code that had seen it ran on.
fn update(
    accepted: &UpdateAccepted,
    admitted: &[(EventId, &UpdateRequest)],
) -> Option<(EventId, Job)> {
    let waited = || admitted.iter().find(|(_, it)| it.id == accepted.id);
    let request = match &accepted.request {
        Some(request) => request,
        None => waited()?.1,
    };
    let event = if is_planted(Bug::UpdateReplayedFirst) {
        EventId(0)
    } else {
        accepted.behind
    };
    let request = request.clone();
    let job = UpdateJob {
        request,
        run_validator: false,
    };
    Some((event, Job::Update(Box::new(job))))
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
