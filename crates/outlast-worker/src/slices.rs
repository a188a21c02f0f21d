//! Slices of one engine thread: its instances, and how a workflow task becomes an answer.
//!
//! Without a thread of its own, so that a simulator can drive it: tasks in, answers out. The
//! instances live here and nowhere else; evicting one loses nothing.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use outlast_model::event::TaskFailedCause;
use outlast_model::job::Job;
use outlast_model::task::{TaskAnswer, WorkflowTask};
use outlast_model::{Command, Failure, RunId};
use outlast_runtime::panic;
use outlast_runtime::{
    ForeignWake, Instance, Program, ReplayChecks, SliceWatch, Unwatched, run_task,
};

use crate::bus::Bus;
use crate::cache::{Cache, Leaving};
use crate::event::{EvictCause, RunIn, WorkerEvent};
use crate::queue::{Queue, Queues};
use crate::steps::Steps;

/// The instances of one engine thread.
pub struct Slices {
    queues: Arc<Queues>,
    foreign: ForeignWake,
    steps: Arc<Steps>,
    cache: Cache,
    bus: Bus,
}

type AnyProgram = Arc<dyn Program + Send + Sync>;

/// What a slice left behind.
#[derive(Debug)]
pub struct Done {
    /// For the backend.
    pub answer: TaskAnswer,
    /// Instances that had to leave.
    pub evicted: Vec<RunId>,
}

impl std::fmt::Debug for Slices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slices")
            .field("instances", &self.cache.len())
            .finish_non_exhaustive()
    }
}

impl Slices {
    /// For the only engine thread there is.
    pub fn new(queues: Arc<Queues>, foreign: ForeignWake, bus: Bus) -> Self {
        Self::with_steps(queues, 1, foreign, bus, Arc::default())
    }

    /// For one of so many engine threads.
    pub(crate) fn with_steps(
        queues: Arc<Queues>,
        threads: usize,
        foreign: ForeignWake,
        bus: Bus,
        steps: Arc<Steps>,
    ) -> Self {
        let cache = Cache::new(&queues, threads, bus.clone());
        Self {
            queues,
            foreign,
            steps,
            cache,
            bus,
        }
    }

    /// For a thread that takes over: no instances, the same code of steps.
    pub fn spare(&self) -> Self {
        Self {
            queues: self.queues.clone(),
            foreign: self.foreign.clone(),
            steps: self.steps.clone(),
            cache: self.cache.spare(),
            bus: self.bus.clone(),
        }
    }

    /// Runs one slice.
    pub fn run(&mut self, task: &WorkflowTask, watch: &dyn SliceWatch) -> Done {
        let (done, leaving) = self.slice(task, watch);
        for leaving in leaving {
            leaving.drop_watched(watch);
        }
        done
    }

    /// Runs one slice; those who had to leave for its instance are still to be dropped. That is no
    /// business of this run.
    pub(crate) fn slice(
        &mut self,
        task: &WorkflowTask,
        watch: &dyn SliceWatch,
    ) -> (Done, Vec<Leaving>) {
        let queue = self.queues.get(&task.queue).cloned();
        let Some((program, checks)) = queue.and_then(|queue| code(&queue, task)) else {
            return nothing_new(missing(task));
        };
        // A task that brings its history does not trust what is here: it saw a slice whose answer
        // did not count.
        let is_anew = task.history.is_some() || is_first(task);
        let mut instance = self.cache.take(task.run_id);
        if is_anew && let Some(old) = instance.take() {
            old.evict_watched(watch);
        }
        if let Some(lost) = is_lost(task, instance.is_some()) {
            return nothing_new(lost);
        }
        let ran = catch_unwind(AssertUnwindSafe(|| {
            run_task(instance, task, &*program, &self.foreign, watch, checks)
        }));
        // Every call of user code is guarded by itself; what slips through, such as a destructor
        // of what it once handed over, fails the task and not the thread.
        let (instance, answer) = ran.unwrap_or_else(|payload| (None, crashed(payload)));
        let Some(mut instance) = instance else {
            self.tell_last_words(task, &answer);
            self.cache.gone(task.run_id, &task.queue, why_gone(&answer));
            // The backend counts on an instance after a question.
            let is_asked = !task.queries.is_empty();
            let evicted = is_asked.then_some(task.run_id).into_iter().collect();
            return (Done { answer, evicted }, Vec::new());
        };
        for text in instance.warnings() {
            let run = RunIn::from(task);
            self.bus.emit(WorkerEvent::CodeWarning { run, text });
        }
        self.keep_steps(task, &instance, &answer);
        let (run, events) = (RunIn::from(task), task.activation.history_events);
        let leaving = self.cache.put((run, &task.queue), instance, events);
        let evicted = leaving.iter().map(|leaving| leaving.run.run_id).collect();
        (Done { answer, evicted }, leaving)
    }

    /// The backend wants a run forgotten: its instance, and the code of its steps. Not before: a
    /// run that wants to end may have to go on.
    pub fn evict(&mut self, run_id: RunId) {
        if let Some(leaving) = self.take(run_id, EvictCause::Asked) {
            leaving.drop_watched(&Unwatched);
        }
        self.steps.forget(run_id);
    }

    /// Takes an instance out of memory, to be dropped.
    pub(crate) fn take(&mut self, run_id: RunId, cause: EvictCause) -> Option<Leaving> {
        self.cache.evict(run_id, cause)
    }

    /// Takes all of them out of memory, to be dropped: the thread leaves.
    pub(crate) fn leave(&mut self) -> Vec<Leaving> {
        self.cache.leave()
    }

    /// Code of pending steps, by run.
    pub(crate) fn steps(&self) -> &Steps {
        &self.steps
    }

    /// Code of a step, for a driver without a dispatcher.
    pub fn step_code(
        &self,
        run_id: RunId,
        seq: outlast_model::Seq,
    ) -> Option<outlast_runtime::StepCode> {
        self.steps.get(run_id, seq)
    }

    /// How many instances are in memory.
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.cache.len() == 0
    }

    /// The code of new steps is kept where the dispatcher finds it; after a rebuild, of all.
    fn keep_steps(&self, task: &WorkflowTask, instance: &Instance, answer: &TaskAnswer) {
        for job in &task.activation.jobs {
            if let Job::ResolveStep { seq, .. } = job {
                self.steps.resolved(task.run_id, *seq);
            }
        }
        if task.history.is_some() {
            for seq in instance.pending_steps() {
                if let Some(code) = instance.step_code(seq) {
                    self.steps.keep(RunIn::from(task), seq, code);
                }
            }
            return;
        }
        let TaskAnswer::Completed { commands, .. } = answer else {
            return;
        };
        for command in commands {
            if let Command::ScheduleStep { seq, .. } = command
                && let Some(code) = instance.step_code(*seq)
            {
                self.steps.keep(RunIn::from(task), *seq, code);
            }
        }
    }

    /// Tells what a slice said that left no instance behind to be asked for it.
    fn tell_last_words(&self, task: &WorkflowTask, answer: &TaskAnswer) {
        match answer {
            TaskAnswer::Completed { notes, .. } => {
                for text in notes.texts.iter().cloned() {
                    let run = RunIn::from(task);
                    self.bus.emit(WorkerEvent::CodeWarning { run, text });
                }
            }
            // The watchdog has told more.
            TaskAnswer::Failed { cause, .. } if *cause == TaskFailedCause::Stuck => {}
            TaskAnswer::Failed { cause, failure } => {
                let event = WorkerEvent::task_failed(task, *cause, failure.clone());
                self.bus.emit(event);
            }
            TaskAnswer::Queried(_) => {}
        }
    }
}

/// The code for a task, and how strict its replay is.
fn code(queue: &Queue, task: &WorkflowTask) -> Option<(AnyProgram, ReplayChecks)> {
    let program = queue.registry.workflows.get(&task.workflow_type)?;
    let strict = queue.settings.strict_replay;
    Some((program.clone(), ReplayChecks { strict }))
}

/// Why a slice left no instance behind.
fn why_gone(answer: &TaskAnswer) -> EvictCause {
    match answer {
        TaskAnswer::Completed { .. } => EvictCause::Closed,
        TaskAnswer::Queried(_) | TaskAnswer::Failed { .. } => EvictCause::Failed,
    }
}

fn nothing_new(answer: TaskAnswer) -> (Done, Vec<Leaving>) {
    let evicted = Vec::new();
    (Done { answer, evicted }, Vec::new())
}

fn crashed(payload: Box<dyn Any + Send>) -> TaskAnswer {
    TaskAnswer::Failed {
        cause: TaskFailedCause::WorkerUnhandledFailure,
        failure: Failure::panic(panic::text(payload)),
    }
}

fn missing(task: &WorkflowTask) -> TaskAnswer {
    let name = &task.workflow_type;
    let failure = Failure::application(
        outlast_model::failure::type_name::NOT_REGISTERED,
        format!("no worker has workflow {name}; add .workflow({name}) to the builder"),
    );
    TaskAnswer::Failed {
        cause: TaskFailedCause::WorkerUnhandledFailure,
        failure,
    }
}

/// The backend thinks the instance is here, but it is not.
fn is_lost(task: &WorkflowTask, is_here: bool) -> Option<TaskAnswer> {
    if is_here || is_first(task) || task.history.is_some() {
        return None;
    }
    let failure = Failure::application("outlast.CacheMiss", "the instance is not in memory");
    Some(TaskAnswer::Failed {
        cause: TaskFailedCause::WorkerUnhandledFailure,
        failure,
    })
}

fn is_first(task: &WorkflowTask) -> bool {
    matches!(task.activation.jobs.first(), Some(Job::Initialize(_)))
}
