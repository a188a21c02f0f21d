//! Slices of one engine thread: its instances, and how a workflow task becomes an answer.
//!
//! Without a thread of its own, so that a simulator can drive it: tasks in, answers out. The
//! instances live here and nowhere else; evicting one loses nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use outlast_model::event::TaskFailedCause;
use outlast_model::job::Job;
use outlast_model::task::{TaskAnswer, WorkflowTask};
use outlast_model::{Command, Failure, RunId};
use outlast_runtime::{ForeignWake, Instance, ReplayChecks, SliceWatch, run_task};

use crate::bus::Bus;
use crate::event::{EvictCause, RunIn, Severity, WorkerEvent};
use crate::registry::Registry;
use crate::settings::Settings;
use crate::steps::Steps;

/// Bytes that one event of an instance's history is counted as.
const EVENT_BYTES: u64 = 160;

/// The instances of one engine thread.
pub struct Slices {
    registry: Arc<Registry>,
    foreign: ForeignWake,
    steps: Arc<Steps>,
    checks: ReplayChecks,
    cached_runs: usize,
    cached_bytes: u64,
    instances: HashMap<RunId, Cached>,
    /// Least recently used first.
    by_use: BTreeMap<u64, RunId>,
    uses: u64,
    bytes: u64,
    bus: Bus,
}

struct Cached {
    instance: Instance,
    used: u64,
    bytes: u64,
}

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
            .field("instances", &self.instances.len())
            .finish_non_exhaustive()
    }
}

impl Slices {
    /// For one engine thread.
    pub fn new(
        registry: Arc<Registry>,
        settings: &Settings,
        foreign: ForeignWake,
        bus: Bus,
    ) -> Self {
        Self::with_steps(registry, settings, foreign, bus, Arc::default())
    }

    pub(crate) fn with_steps(
        registry: Arc<Registry>,
        settings: &Settings,
        foreign: ForeignWake,
        bus: Bus,
        steps: Arc<Steps>,
    ) -> Self {
        Self {
            registry,
            foreign,
            steps,
            checks: ReplayChecks {
                strict: settings.strict_replay,
            },
            cached_runs: settings.cached_runs,
            cached_bytes: settings.cached_bytes,
            instances: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            bytes: 0,
            bus,
        }
    }

    /// For a thread that takes over: no instances, the same code of steps.
    pub fn spare(&self) -> Self {
        Self {
            registry: self.registry.clone(),
            foreign: self.foreign.clone(),
            steps: self.steps.clone(),
            checks: self.checks,
            cached_runs: self.cached_runs,
            cached_bytes: self.cached_bytes,
            instances: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            bytes: 0,
            bus: self.bus.clone(),
        }
    }

    /// Runs one slice.
    pub fn run(&mut self, task: &WorkflowTask, watch: &dyn SliceWatch) -> Done {
        let Some(program) = self.registry.workflows.get(&task.workflow_type).cloned() else {
            return Done {
                answer: missing(task),
                evicted: Vec::new(),
            };
        };
        // A task that brings its history does not trust what is here: it saw a slice whose answer
        // did not count.
        let is_anew = task.history.is_some() || is_first(task);
        let instance = self.take(task.run_id).filter(|_| !is_anew);
        if let Some(lost) = is_lost(task, instance.is_some()) {
            return Done {
                answer: lost,
                evicted: Vec::new(),
            };
        }
        let (instance, answer) =
            run_task(instance, task, &*program, &self.foreign, watch, self.checks);
        let evicted = match instance {
            Some(mut instance) => {
                for text in instance.warnings() {
                    let run = RunIn::from(task);
                    self.bus.emit(WorkerEvent::CodeWarning { run, text });
                }
                self.keep_steps(task, &instance, &answer);
                self.put(task, instance)
            }
            None => {
                self.tell_failure(task, &answer);
                // The backend counts on an instance after a question.
                let is_asked = !task.queries.is_empty();
                is_asked.then_some(task.run_id).into_iter().collect()
            }
        };
        Done { answer, evicted }
    }

    /// The backend wants a run forgotten: its instance, and the code of its steps. Not before: a
    /// run that wants to end may have to go on.
    pub fn evict(&mut self, run_id: RunId) {
        if self.take(run_id).is_some() {
            self.tell_eviction(run_id, EvictCause::Asked);
        }
        self.steps.forget(run_id);
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
        self.instances.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.instances.is_empty()
    }

    fn take(&mut self, run_id: RunId) -> Option<Instance> {
        let cached = self.instances.remove(&run_id)?;
        self.by_use.remove(&cached.used);
        self.bytes -= cached.bytes;
        Some(cached.instance)
    }

    fn put(&mut self, task: &WorkflowTask, instance: Instance) -> Vec<RunId> {
        self.uses += 1;
        let bytes = task.activation.history_events * EVENT_BYTES;
        self.bytes += bytes;
        self.by_use.insert(self.uses, task.run_id);
        self.instances.insert(
            task.run_id,
            Cached {
                instance,
                used: self.uses,
                bytes,
            },
        );
        let mut evicted = Vec::new();
        while self.instances.len() > self.cached_runs || self.bytes > self.cached_bytes {
            let Some(oldest) = self.by_use.first_key_value().map(|(_, run)| *run) else {
                break;
            };
            drop(self.take(oldest));
            self.tell_eviction(oldest, EvictCause::CacheFull);
            evicted.push(oldest);
        }
        evicted
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
                    self.steps.keep(task.run_id, seq, code);
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
                self.steps.keep(task.run_id, *seq, code);
            }
        }
    }

    fn tell_eviction(&self, run_id: RunId, cause: EvictCause) {
        self.bus.meter().evicted(cause);
        let event = || WorkerEvent::Evicted { run_id, cause };
        self.bus.emit_with(Severity::Debug, event);
    }

    /// A run that cannot go on must not do so in silence.
    fn tell_failure(&self, task: &WorkflowTask, answer: &TaskAnswer) {
        if let TaskAnswer::Failed { cause, failure } = answer {
            let event = WorkerEvent::task_failed(task, *cause, failure.clone());
            self.bus.emit(event);
        }
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
