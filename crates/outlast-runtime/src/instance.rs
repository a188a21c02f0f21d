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
//! deliver buffered signals that found a handler, and again; then flush the commands. An
//! instance is a cache: dropping it loses nothing, and its destructors run with commands
//! switched off.

use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use outlast_model::event::{Site, Started};
use outlast_model::planted::{Bug, is_planted};
use outlast_model::{Activation, Command, Job, Payload, Resolution, Seq, SignalName, StepName};

use crate::cell::{Key, Kind};
use crate::context::Context;
use crate::executor::{Body, Ended, Executor};
use crate::failure::{TaskFailure, Whence};
use crate::mailbox::Arrival;
use crate::program::{ForeignWake, MainOutcome, Program, SliceWatch, StepCode};
use crate::shared::{Commands, Shared};
use crate::slab::{self, Entry, Presence};
use crate::wake::TaskId;
use crate::{leftover, undo};

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

/// What applying jobs leaves to do before code runs.
#[derive(Default)]
struct Applied {
    /// Tasks of handlers that were created.
    handlers: Vec<TaskId>,
    /// Whether the run was asked to stop.
    is_cancelled: bool,
}

/// The live futures of a run.
pub struct Instance {
    shared: Rc<Shared>,
    executor: Executor,
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
        let shared = slab::insert(|address| Shared::new(address, started, foreign));
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

    pub(crate) fn open_step(&self, seq: Seq) -> Option<(StepName, Site)> {
        self.shared
            .open_step(seq)
            .map(|(name, site, _)| (name, site))
    }

    pub(crate) fn warn(&self, warning: impl FnOnce() -> String) {
        self.shared.warn(warning);
    }
}

/// One slice.
impl Instance {
    /// Marks the thread, and looks for foreign wakes on both sides of the work.
    fn in_slice<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, TaskFailure>,
    ) -> Result<T, TaskFailure> {
        assert!(
            !crate::in_slice(),
            "a slice cannot run inside workflow code"
        );
        self.check_wakes()?;
        let _inside = Entry::new(self.shared.address, Presence::Runtime);
        self.shared.bell.slice_begins();
        let worked = work(self);
        self.shared.bell.slice_ends();
        let worked = worked?;
        self.check_wakes()?;
        Ok(worked)
    }

    fn slice(
        &mut self,
        activation: &Activation,
        watch: &dyn SliceWatch,
    ) -> Result<Vec<Command>, TaskFailure> {
        if self.phase == Phase::Closed {
            return Err(TaskFailure::mismatch(
                "the code has ended the run, but it goes on".into(),
            ));
        }
        self.apply(&activation.jobs)?;
        self.run_to_rest(watch)?;
        self.settle()
    }

    /// Applies jobs in the order of their classes. No user code runs.
    fn apply(&mut self, jobs: &[Job]) -> Result<(), TaskFailure> {
        let mut applied = Applied::default();
        if jobs.is_sorted_by_key(Job::class) {
            jobs.iter()
                .try_for_each(|job| self.apply_one(job, &mut applied))?;
        } else {
            let mut sorted: Vec<&Job> = jobs.iter().collect();
            sorted.sort_by_key(|job| job.class());
            sorted
                .into_iter()
                .try_for_each(|job| self.apply_one(job, &mut applied))?;
        }
        // After all outcomes: what has ended is not cancelled, wherever the cancel stands.
        if applied.is_cancelled {
            self.shared.handler_scope.cancel();
            self.shared.cancel_scope(&self.shared.main_scope);
        }
        // Handlers run before main, whatever woke main.
        self.shared.push_ready_first(&applied.handlers);
        Ok(())
    }

    fn apply_one(&mut self, job: &Job, applied: &mut Applied) -> Result<(), TaskFailure> {
        match job {
            // The instance exists: it was created for this job.
            Job::Initialize(_) => {}
            Job::Signal { name, input } => self.arrive(name, input, applied),
            Job::FireTimer { seq } => {
                let key = Key {
                    kind: Kind::Timer,
                    seq: *seq,
                };
                self.shared
                    .resolve(key, Resolution::Completed(Payload::null()))?;
            }
            Job::ResolveActivity { seq, resolution } => {
                let key = Key {
                    kind: Kind::Activity,
                    seq: *seq,
                };
                self.shared.resolve(key, resolution.clone())?;
            }
            Job::ResolveStep { seq, resolution } => {
                let key = Key {
                    kind: Kind::Step,
                    seq: *seq,
                };
                self.shared.resolve(key, resolution.clone())?;
            }
            Job::CancelWorkflow { .. } => applied.is_cancelled = true,
        }
        Ok(())
    }

    fn arrive(&mut self, name: &SignalName, input: &Payload, applied: &mut Applied) {
        let arrival = self.shared.mailbox.borrow_mut().arrive(name, input);
        match arrival {
            Arrival::Handle(delivery) => {
                applied
                    .handlers
                    .push(self.executor.add_handler(&self.shared, delivery));
            }
            Arrival::Buffered(waiting) => {
                for seq in waiting {
                    self.look(seq);
                }
            }
        }
    }

    /// A `recv` may have something to take.
    fn look(&self, seq: Seq) {
        let open = self.shared.open.borrow();
        let cell = open.get(&Key {
            kind: Kind::Recv,
            seq,
        });
        let waker = cell.and_then(|cell| cell.waker.borrow_mut().take());
        drop(open);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Polls until nothing moves, delivering buffered signals that found a handler.
    fn run_to_rest(&mut self, watch: &dyn SliceWatch) -> Result<(), TaskFailure> {
        loop {
            while let Some(id) = self.shared.pop_ready() {
                self.poll(id, watch)?;
                self.check_wakes()?;
            }
            let deliveries = self.shared.mailbox.borrow_mut().deliverable();
            if deliveries.is_empty() {
                return Ok(());
            }
            for delivery in deliveries {
                let id = self.executor.add_handler(&self.shared, delivery);
                self.shared.push_ready(id);
            }
        }
    }

    fn poll(&mut self, id: TaskId, watch: &dyn SliceWatch) -> Result<(), TaskFailure> {
        // Main has returned: its branches are over, handlers may go on.
        if matches!(self.phase, Phase::Closing(_)) && self.executor.is_branch(id) {
            return Ok(());
        }
        let Some(ended) = self.executor.poll(id, &self.shared, watch)? else {
            self.shared.end_poll();
            return Ok(());
        };
        match ended {
            Ended::Main(outcome) => return self.main_returned(outcome),
            Ended::Undo => self.undone(),
            Ended::Branch | Ended::Handler(_, Ok(())) => {}
            Ended::Handler(name, Err(failure)) => {
                self.shared
                    .warn_live(|| format!("handler of signal `{name}` failed: {failure}"));
            }
        }
        self.shared.end_poll();
        Ok(())
    }

    /// Something foreign woke a task: nothing it did since then can be repeated.
    fn check_wakes(&self) -> Result<(), TaskFailure> {
        let Some(id) = self.shared.bell.rung_for() else {
            return Ok(());
        };
        let gone = Whence {
            branch: "a branch that has ended",
            last_call: None,
        };
        let whence = self
            .executor
            .tasks
            .get(&id)
            .map_or(gone, |task| task.whence());
        Err(TaskFailure::foreign_wake(&whence))
    }
}

/// From the first line of main to the closing command.
impl Instance {
    /// Calls the program. Main itself is polled after the handlers of the same activation.
    fn create_main(
        &mut self,
        program: &dyn Program,
        started: &Started,
        watch: &dyn SliceWatch,
    ) -> Result<(), TaskFailure> {
        let shared = Rc::clone(&self.shared);
        shared.begin_poll(&shared.main_scope);
        watch.before_poll(MAIN, None);
        let made = {
            let _polling = Entry::new(shared.address, Presence::Polling);
            let ctx = Context::at(shared.address);
            catch_unwind(AssertUnwindSafe(|| program.start(ctx, started)))
        };
        watch.after_poll();
        let whence = Whence {
            branch: MAIN,
            last_call: None,
        };
        let main = made
            .map_err(|payload| TaskFailure::panic(&*payload, &whence))?
            .map_err(TaskFailure::refused_input)?;
        shared.end_poll();
        let body = Body::Main(main);
        let id = self
            .executor
            .add(&shared, MAIN.into(), body, &shared.main_scope);
        shared.push_ready(id);
        Ok(())
    }

    fn main_returned(&mut self, outcome: MainOutcome) -> Result<(), TaskFailure> {
        let wants_undo = match &outcome {
            MainOutcome::Failed(_) | MainOutcome::Canceled => true,
            MainOutcome::Completed(_) => false,
        };
        if !wants_undo || self.shared.undo.borrow().is_empty() {
            self.shared.end_last_poll();
            self.phase = Phase::Closing(outcome);
            return Ok(());
        }
        // Undoing takes time: what main left running must not go on beside it.
        self.executor.end_branches(&self.shared)?;
        self.shared.end_poll();
        let body = Body::Undo(undo::run(Rc::clone(&self.shared)));
        let scope = self.shared.shield_scope();
        let id = self.executor.add(&self.shared, "undo".into(), body, &scope);
        self.shared.push_ready(id);
        self.phase = Phase::Undoing(outcome);
        Ok(())
    }

    fn undone(&mut self) {
        let phase = std::mem::replace(&mut self.phase, Phase::Running);
        self.phase = match phase {
            Phase::Undoing(outcome) => Phase::Closing(outcome),
            phase @ (Phase::Running | Phase::Closing(_) | Phase::Closed) => phase,
        };
    }

    /// Everything waits: the commands go out, and with them the end of the run if it has come.
    fn settle(&mut self) -> Result<Vec<Command>, TaskFailure> {
        let closing = match &self.phase {
            Phase::Closing(outcome) => Some(closing_command(outcome.clone())),
            Phase::Running | Phase::Undoing(_) | Phase::Closed => None,
        };
        if closing.is_none() && self.waits_for_nothing() {
            let main = self.executor.tasks.values().next();
            let nobody = Whence {
                branch: MAIN,
                last_call: None,
            };
            let whence = main.map_or(nobody, |task| task.whence());
            return Err(TaskFailure::waits_for_nothing(&whence));
        }
        let mut commands = self.shared.flush();
        if !self.shared.header.get().is_replaying {
            commands.extend(leftover::take(self.shared.run_id));
        }
        if let Some(closing) = closing {
            commands.push(closing);
            self.warn_about_the_end();
            self.shared.commands.set(Commands::Late);
            self.phase = Phase::Closed;
        }
        Ok(commands)
    }

    fn waits_for_nothing(&self) -> bool {
        self.shared.open.borrow().is_empty() && !self.shared.mailbox.borrow().has_handlers()
    }

    fn warn_about_the_end(&self) {
        for task in self.executor.handlers() {
            let whence = task.whence();
            self.shared
                .warn_live(|| format!("the run has ended while {whence}, still waits"));
        }
        for (name, count) in self.shared.mailbox.borrow().unread() {
            self.shared.warn_live(|| {
                format!("the run has ended with {count} signals `{name}` that nobody has read")
            });
        }
    }
}

/// The name of the first task.
const MAIN: &str = "main";

fn initialize(job: &Job) -> Option<&Started> {
    match job {
        Job::Initialize(started) => Some(started),
        Job::Signal { .. }
        | Job::FireTimer { .. }
        | Job::ResolveActivity { .. }
        | Job::ResolveStep { .. }
        | Job::CancelWorkflow { .. } => None,
    }
}

fn closing_command(outcome: MainOutcome) -> Command {
    match outcome {
        MainOutcome::Completed(result) => Command::CompleteWorkflow { result },
        MainOutcome::Failed(failure) => Command::FailWorkflow { failure },
        MainOutcome::Canceled => Command::CancelWorkflow,
    }
}

/// The end: of an evicted instance, of a failed one and of a closed run alike.
impl Instance {
    /// Drops all user code. Commands its destructors make are ignored; those of a closed run
    /// are told.
    pub(crate) fn dismantle(&mut self) {
        let shared = &self.shared;
        shared.bell.silence();
        let _inside = Entry::new(shared.address, Presence::Runtime);
        if self.phase != Phase::Closed {
            if is_planted(Bug::EvictionEmitsCommands) {
                self.executor.clear(shared);
                shared.end_poll();
                leftover::keep(shared.run_id, shared.flush());
            }
            shared.commands.set(Commands::Off);
        }
        self.executor.clear(shared);
        let owned = (
            shared.state.take(),
            shared.mailbox.take(),
            shared.open.take(),
        );
        catch_unwind(AssertUnwindSafe(|| drop(owned))).unwrap_or(());
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.dismantle();
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
