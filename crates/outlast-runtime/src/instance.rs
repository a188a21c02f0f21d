//! The live futures of a run: activation in, commands out.
//!
//! ```text
//!   Running --main returned--> Closing --handlers wait--> Closed
//!      \                          ^
//!       +--failed or cancelled,   | all undone
//!          something to undo --> Undoing
//! ```
//!
//! One slice: apply every job, without running user code; poll woken tasks until none is ready;
//! test conditions if state was written, and again; deliver buffered signals that found a
//! handler, and again; then flush the commands. An instance is a cache: dropping it loses nothing, and its destructors run with commands
//! switched off.

mod main_task;
mod query;
mod slice;

use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;

use outlast_model::event::{Site, Started};
use outlast_model::planted::{Bug, is_planted};
use outlast_model::{Activation, Command, Job, Seq, StepName};

use crate::executor::Executor;
use crate::failure::TaskFailure;
use crate::leftover;
use crate::panic::discard;
use crate::program::{ForeignWake, MainOutcome, Program, SliceWatch, StepCode, Unwatched};
use crate::rules::Rules;
use crate::shared::{Commands, Shared};
use crate::slab::{self, Entry, Presence};

/// A branch that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingBranch {
    /// Its name.
    pub name: String,
    /// Its last durable call.
    pub site: Option<Site>,
}

/// Where an instance stands.
#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// Main waits or runs.
    Running,
    /// Main has returned this, and its work is being undone.
    Undoing(MainOutcome),
    /// Main has returned this; handlers that can run do.
    Closing(MainOutcome),
    /// The closing command was given.
    Closed,
}

/// The live futures of a run.
pub struct Instance {
    pub(crate) shared: Rc<Shared>,
    pub(crate) executor: Executor,
    phase: Phase,
    not_send: PhantomData<*const ()>,
}

impl Instance {
    /// Creates an instance from the activation that initialises it, and runs its first slice.
    ///
    /// # Errors
    /// The task failed; there is no instance.
    pub fn start(
        program: &dyn Program,
        activation: &Activation,
        foreign: &ForeignWake,
        watch: &dyn SliceWatch,
    ) -> Result<(Self, Vec<Command>), TaskFailure> {
        let started = activation.jobs.iter().find_map(initialize).ok_or_else(|| {
            TaskFailure::misuse("there is no instance of this run, and nothing to make one from")
        })?;
        let rules = Rules::of(started.edition())?;
        let shared = slab::insert(|address| Shared::new(address, started, rules, foreign));
        let (executor, phase) = (Executor::default(), Phase::Running);
        let mut instance = Self {
            shared,
            executor,
            phase,
            not_send: PhantomData,
        };
        let commands = instance.in_slice(|instance| {
            instance.shared.begin(activation);
            instance.create_main(program, started, watch)?;
            instance.slice(activation, watch)
        })?;
        Ok((instance, commands))
    }

    /// Runs one slice.
    ///
    /// # Errors
    /// The task failed; the instance must be dropped.
    pub fn activate(
        &mut self,
        activation: &Activation,
        watch: &dyn SliceWatch,
    ) -> Result<Vec<Command>, TaskFailure> {
        if activation.jobs.iter().any(|job| initialize(job).is_some()) {
            return Err(TaskFailure::misuse("a run is initialised once"));
        }
        self.in_slice(|instance| {
            instance.shared.begin(activation);
            instance.slice(activation, watch)
        })
    }

    /// Jobs that the commands of the last slice call for, in a further activation of the same
    /// workflow task: activities in mode *try* resolve cancelled.
    pub fn followups(&mut self) -> Vec<Job> {
        self.shared.follow_ups()
    }

    /// The code of a step that has no outcome yet.
    pub fn step_code(&self, seq: Seq) -> Option<StepCode> {
        self.shared.open_step(seq).map(|(_, _, code)| code)
    }

    /// Steps that have no outcome yet.
    pub fn pending_steps(&self) -> Vec<Seq> {
        self.shared.open_steps()
    }

    /// Branches that wait, main first.
    pub fn waiting(&self) -> Vec<WaitingBranch> {
        let tasks = self.executor.tasks.values();
        tasks
            .map(|task| WaitingBranch {
                name: task.name.clone(),
                site: task.last_call.clone(),
            })
            .collect()
    }

    /// Takes what should be told: differences on replay, failed handlers, late commands.
    pub fn warnings(&mut self) -> Vec<String> {
        self.shared.warnings.borrow_mut().drain()
    }

    /// Takes what the run itself has to say.
    pub(crate) fn notes(&mut self) -> Vec<String> {
        self.shared.notes.borrow_mut().drain()
    }

    /// Signals that nobody has taken.
    pub(crate) fn unhandled_signals(&self) -> u32 {
        let unread: usize = self.shared.mailbox.borrow().unread().map(|(_, n)| n).sum();
        u32::try_from(unread).unwrap_or(u32::MAX)
    }

    /// How many operations wait for their outcome.
    pub fn open_operations(&self) -> usize {
        self.shared.open.borrow().len()
    }

    /// Whether it has given its closing command.
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Forgets the instance: silently, destructors run with commands switched off.
    pub fn evict(self) {
        drop(self);
    }

    /// The same, for whoever wants to know where its destructors are.
    pub fn evict_watched(mut self, watch: &dyn SliceWatch) {
        self.dismantle(watch);
    }

    pub(crate) fn open_step(&self, seq: Seq) -> Option<(StepName, Site)> {
        self.shared
            .open_step(seq)
            .map(|(name, site, _)| (name, site))
    }

    /// A replayed call is not the recorded one: told now, and noted with the next task.
    pub(crate) fn changed(&self, difference: impl FnOnce() -> String) {
        let difference = difference();
        self.shared.changes.borrow_mut().add(&difference);
        self.shared.warn(|| difference);
    }

    /// Takes what replay found changed.
    pub(crate) fn changes(&mut self) -> Option<String> {
        self.shared.changes.take().into_note()
    }
}

/// The end: of an evicted instance, of a failed one and of a closed run alike.
impl Instance {
    /// Drops all user code. Commands its destructors make are ignored; those of a closed run
    /// are told.
    pub(crate) fn dismantle(&mut self, watch: &dyn SliceWatch) {
        let shared = &self.shared;
        shared.bell.silence();
        let _inside = Entry::new(shared.address, Presence::Runtime);
        if self.phase != Phase::Closed {
            if is_planted(Bug::EvictionEmitsCommands) {
                self.executor.clear(shared, watch);
                shared.end_poll();
                leftover::keep(shared.run_id, shared.flush());
            }
            shared.commands.set(Commands::Off);
        }
        self.executor.clear(shared, watch);
        watch.before_drop("the destructors of what the run shares", None);
        // One by one: the language ends the process if two of them panic together.
        discard(shared.state.take());
        discard(shared.conditions.take());
        discard(shared.mailbox.take());
        discard(shared.questions.take());
        discard(shared.open.take());
        discard(shared.interceptors.take());
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.dismantle(&Unwatched);
        slab::remove(self.shared.address);
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance")
            .field("run_id", &self.shared.run_id)
            .field("phase", &self.phase)
            .field("tasks", &self.executor.tasks.len())
            .finish_non_exhaustive()
    }
}

fn initialize(job: &Job) -> Option<&Started> {
    match job {
        Job::Initialize(started) => Some(started),
        Job::Signal { .. }
        | Job::FireTimer { .. }
        | Job::ResolveActivity { .. }
        | Job::ResolveStep { .. }
        | Job::CancelWorkflow { .. }
        | Job::Update(_)
        | Job::NotifyPatch { .. }
        | Job::UpdateRandomSeed { .. }
        | Job::ResolveChildStart { .. }
        | Job::ResolveChild { .. }
        | Job::ResolveSignalExternal { .. }
        | Job::ResolveCancelExternal { .. } => None,
    }
}
