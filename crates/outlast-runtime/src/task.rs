//! A workflow task and a replay, made of slices.
//!
//! A task is one or more rounds: the activation itself, then follow-up activations for cancels
//! that resolve in the same task. A live task and a replayed turn run through the very same
//! rounds, which is why both give the same commands. An operation that one round schedules and a
//! later one cancels was never sent: both commands are taken back. A backend may make the rounds
//! itself: then an activation is one round, and the instance stays until it is evicted.

use std::collections::BTreeSet;

use outlast_model::event::{Role, StepRecorded};
use outlast_model::planted::{Bug, is_planted};
use outlast_model::task::{Notes, Rounds, TaskAnswer, WorkflowTask};
use outlast_model::{Activation, Command, Event, Job};

use crate::cell::{Key, Kind};
use crate::check;
use crate::failure::TaskFailure;
use crate::instance::Instance;
use crate::program::{ForeignWake, Program, SliceWatch};
use crate::table::resolved_cancelled;
use crate::turn::{RecordedStep, Turns};

/// Rounds of one task after which the code counts as going in circles.
const ROUNDS: u32 = 10_000;

/// How hard replay checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayChecks {
    /// Differences in options, input or delay are errors, not warnings.
    pub strict: bool,
}

/// Runs one workflow task. Without an instance, one is built: from the history if there is one,
/// checking every replayed command, else from the activation itself. `history` is all events of
/// the run so far: what the last completed task has not seen is in the activation.
///
/// The instance is gone after a failure; and after the command that closes the run, unless the
/// backend makes the rounds: it may still ask something of a run that has ended.
pub fn run_task(
    instance: Option<Instance>,
    task: &WorkflowTask,
    program: &dyn Program,
    foreign: &ForeignWake,
    watch: &dyn SliceWatch,
    checks: ReplayChecks,
) -> (Option<Instance>, TaskAnswer) {
    let stage = Stage {
        program,
        foreign,
        watch,
        checks,
    };
    let mut instance = instance;
    let answered = if task.queries.is_empty() {
        stage.task(&mut instance, task)
    } else {
        stage.queries(&mut instance, task)
    };
    match answered {
        Ok(answer) => (instance, answer),
        Err(TaskFailure { cause, failure }) => {
            if let Some(instance) = &mut instance {
                stage.dismiss(instance);
            }
            (None, TaskAnswer::Failed { cause, failure })
        }
    }
}

/// Replays all completed tasks of a history, or of a beginning of one.
///
/// # Errors
/// Code and history disagree, the code failed, or there is no completed task.
pub fn replay(
    history: &[Event],
    program: &dyn Program,
    foreign: &ForeignWake,
    watch: &dyn SliceWatch,
    checks: ReplayChecks,
) -> Result<Instance, TaskFailure> {
    let stage = Stage {
        program,
        foreign,
        watch,
        checks,
    };
    stage.replay(history)?.ok_or_else(|| {
        TaskFailure::misuse("the history has no completed workflow task: nothing to replay")
    })
}

/// What a replay and a live task have in common.
struct Stage<'a> {
    program: &'a dyn Program,
    foreign: &'a ForeignWake,
    watch: &'a dyn SliceWatch,
    checks: ReplayChecks,
}

impl Stage<'_> {
    fn task(
        &self,
        instance: &mut Option<Instance>,
        task: &WorkflowTask,
    ) -> Result<TaskAnswer, TaskFailure> {
        self.bring_back(instance, task)?;
        let (commands, notes) = match task.rounds {
            Rounds::Runtime => {
                let commands = self.rounds(instance, &task.activation, &[])?;
                (commands, self.notes(instance))
            }
            Rounds::Backend => self.round(instance, &task.activation)?,
        };
        Ok(TaskAnswer::Completed { commands, notes })
    }

    /// Runs an activation whose follow-ups the backend sends.
    fn round(
        &self,
        slot: &mut Option<Instance>,
        activation: &Activation,
    ) -> Result<(Vec<Command>, Notes), TaskFailure> {
        let commands = self.activate(slot, activation, Vec::new())?;
        let notes = slot.as_mut().map(|instance| {
            drop(instance.followups());
            Notes {
                unhandled_signals: instance.unhandled_signals(),
                rest: instance.rest(),
                texts: instance.notes(),
                changed: instance.changes(),
            }
        });
        Ok((commands, notes.unwrap_or_default()))
    }

    /// Replays, if there is no instance and something to replay.
    fn bring_back(
        &self,
        instance: &mut Option<Instance>,
        task: &WorkflowTask,
    ) -> Result<(), TaskFailure> {
        if let (None, Some(history)) = (&instance, &task.history) {
            *instance = self.replay(history)?;
        }
        Ok(())
    }

    /// Answers all questions of a task. One that fails fails alone: the run has done nothing
    /// wrong.
    fn queries(
        &self,
        slot: &mut Option<Instance>,
        task: &WorkflowTask,
    ) -> Result<TaskAnswer, TaskFailure> {
        self.bring_back(slot, task)?;
        let mut instance = slot.take().ok_or_else(|| {
            TaskFailure::misuse("the run has not run its first workflow task yet")
        })?;
        let asked = task.queries.iter();
        let answers = asked
            .map(|query| {
                let answer = instance.query(query, self.watch);
                self.watch.part_done();
                answer
            })
            .collect();
        let is_over = match task.rounds {
            Rounds::Runtime => instance.is_closed() || task.history.as_deref().is_some_and(is_over),
            Rounds::Backend => false,
        };
        if is_over || !instance.is_at_rest() {
            self.dismiss(&mut instance);
        } else {
            *slot = Some(instance);
        }
        Ok(TaskAnswer::Queried(answers))
    }

    fn replay(&self, history: &[Event]) -> Result<Option<Instance>, TaskFailure> {
        let mut instance = None;
        for turn in Turns::of(history) {
            let made = self.rounds(&mut instance, &turn.activation, &turn.steps)?;
            if let Some(instance) = &instance {
                check::commands(&turn, &made, instance, self.checks)?;
            }
            self.watch.part_done();
        }
        Ok(instance)
    }

    /// Runs an activation and all follow-ups of its task.
    fn rounds(
        &self,
        slot: &mut Option<Instance>,
        first: &Activation,
        steps: &[RecordedStep<'_>],
    ) -> Result<Vec<Command>, TaskFailure> {
        let recorded = self.recorded(steps, 0, slot.as_ref())?;
        let mut commands = self.activate(slot, first, recorded)?;
        let mut taken_back = Vec::new();
        for round in 1..=ROUNDS {
            let Some(instance) = slot.as_mut().filter(|instance| !instance.is_closed()) else {
                return Ok(commands);
            };
            let mut jobs = instance.followups();
            jobs.append(&mut taken_back);
            jobs.extend(self.recorded(steps, round, Some(instance))?);
            if jobs.is_empty() && steps.iter().all(|step| delivered_in(step.step) <= round) {
                return Ok(commands);
            }
            let more = instance.activate(
                &Activation {
                    jobs,
                    ..header(first)
                },
                self.watch,
            )?;
            taken_back = take_back(&mut commands, more);
        }
        Err(TaskFailure::misuse(
            "the code cancels what it has just asked for, without end",
        ))
    }

    /// The first round: the instance runs it, or is made from it.
    fn activate(
        &self,
        slot: &mut Option<Instance>,
        first: &Activation,
        recorded: Vec<Job>,
    ) -> Result<Vec<Command>, TaskFailure> {
        match slot {
            Some(instance) if recorded.is_empty() => instance.activate(first, self.watch),
            Some(instance) => {
                let mut activation = first.clone();
                activation.jobs.extend(recorded);
                instance.activate(&activation, self.watch)
            }
            None => {
                let (instance, commands) =
                    Instance::start(self.program, first, self.foreign, self.watch)?;
                *slot = Some(instance);
                Ok(commands)
            }
        }
    }

    /// Recorded steps of one round, as jobs.
    fn recorded(
        &self,
        steps: &[RecordedStep<'_>],
        round: u32,
        instance: Option<&Instance>,
    ) -> Result<Vec<Job>, TaskFailure> {
        let due = steps
            .iter()
            .filter(|recorded| delivered_in(recorded.step) == round);
        due.map(|recorded| check::step(*recorded, instance).map(|()| recorded.job()))
            .collect()
    }

    /// What the slice has to say; the instance of a run that has ended goes first, since its
    /// destructors may have to say something too.
    fn notes(&self, slot: &mut Option<Instance>) -> Notes {
        let Some(instance) = slot else {
            return Notes::default();
        };
        // What nobody has read is part of what the destructors take along.
        let (unhandled_signals, rest) = (instance.unhandled_signals(), instance.rest());
        if instance.is_closed() {
            self.dismiss(instance);
        }
        let (texts, changed) = (instance.notes(), instance.changes());
        *slot = slot.take().filter(|instance| !instance.is_closed());
        Notes {
            texts,
            unhandled_signals,
            rest,
            changed,
        }
    }

    /// Drops what an instance owns; nobody can ask it for its warnings any more.
    fn dismiss(&self, instance: &mut Instance) {
        instance.dismantle(self.watch);
        for warning in instance.warnings() {
            self.watch.warned(&warning);
        }
    }
}

/// Whether a run has ended, by its own word or by another's.
fn is_over(history: &[Event]) -> bool {
    history.last().is_some_and(|event| match event.kind.role() {
        Role::Close | Role::ClosingCommand => true,
        Role::Task | Role::Command | Role::Stimulus => false,
    })
}

/// The round of its task in which a step was told.
fn delivered_in(step: &StepRecorded) -> u32 {
    if is_planted(Bug::StepReplayedLate) {
        return step.activation + 1;
    }
    step.activation
}

/// The activation without its jobs.
fn header(activation: &Activation) -> Activation {
    let Activation {
        now,
        is_replaying,
        history_events,
        suggest_continue_as_new,
        jobs: _,
    } = *activation;
    Activation {
        now,
        is_replaying,
        history_events,
        suggest_continue_as_new,
        jobs: Vec::new(),
    }
}

/// Adds the commands of a later round. What an earlier round scheduled and this one cancels is
/// taken back; the jobs returned say so to those who wait.
fn take_back(commands: &mut Vec<Command>, more: Vec<Command>) -> Vec<Job> {
    let cancelled: BTreeSet<Key> = more.iter().filter_map(cancels).collect();
    if cancelled.is_empty() {
        commands.extend(more);
        return Vec::new();
    }
    let unsent: BTreeSet<Key> = commands
        .iter()
        .filter_map(schedules)
        .filter(|key| cancelled.contains(key))
        .collect();
    commands.extend(more);
    commands.retain(|command| {
        let key = schedules(command).or_else(|| cancels(command));
        !key.is_some_and(|key| unsent.contains(&key))
    });
    unsent.into_iter().filter_map(resolved_cancelled).collect()
}

fn schedules(command: &Command) -> Option<Key> {
    match command {
        Command::ScheduleActivity(command) => Some(Key {
            kind: Kind::Activity,
            seq: command.seq,
        }),
        Command::StartTimer { seq, .. } => Some(Key {
            kind: Kind::Timer,
            seq: *seq,
        }),
        Command::ScheduleStep { seq, .. } => Some(Key {
            kind: Kind::Step,
            seq: *seq,
        }),
        Command::StartChild(command) => Some(Key {
            kind: Kind::Child,
            seq: command.seq,
        }),
        Command::RequestCancelActivity { .. }
        | Command::CancelTimer { .. }
        | Command::CancelStep { .. }
        | Command::CompleteWorkflow { .. }
        | Command::FailWorkflow { .. }
        | Command::CancelWorkflow
        | Command::CancelChild { .. }
        | Command::SignalExternal(_)
        | Command::CancelExternal(_)
        | Command::SetPatch { .. }
        | Command::AcceptUpdate { .. }
        | Command::RejectUpdate { .. }
        | Command::CompleteUpdate { .. }
        | Command::ContinueAsNew(_) => None,
    }
}

fn cancels(command: &Command) -> Option<Key> {
    match command {
        Command::RequestCancelActivity { seq } => Some(Key {
            kind: Kind::Activity,
            seq: *seq,
        }),
        Command::CancelTimer { seq } => Some(Key {
            kind: Kind::Timer,
            seq: *seq,
        }),
        Command::CancelStep { seq } => Some(Key {
            kind: Kind::Step,
            seq: *seq,
        }),
        Command::CancelChild { seq, .. } => Some(Key {
            kind: Kind::Child,
            seq: *seq,
        }),
        Command::ScheduleActivity(_)
        | Command::StartTimer { .. }
        | Command::ScheduleStep { .. }
        | Command::CompleteWorkflow { .. }
        | Command::FailWorkflow { .. }
        | Command::CancelWorkflow
        | Command::StartChild(_)
        | Command::SignalExternal(_)
        | Command::CancelExternal(_)
        | Command::SetPatch { .. }
        | Command::AcceptUpdate { .. }
        | Command::RejectUpdate { .. }
        | Command::CompleteUpdate { .. }
        | Command::ContinueAsNew(_) => None,
    }
}
