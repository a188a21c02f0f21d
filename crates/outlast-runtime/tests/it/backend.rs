//! A backend that writes histories as the engine would, and does nothing by itself: the test
//! says which outcome comes when.

use std::collections::BTreeMap;
use std::rc::Rc;

use outlast_model::event::{ActivityScheduled, Started, StepRecorded};
use outlast_model::failure::RetryState;
use outlast_model::task::{RunNo, TaskAnswer, TaskToken, WorkflowTask};
use outlast_model::{
    Activation, Attempt, Command, Epoch, Event, EventId, EventKind, Failure, Job, Payload,
    Resolution, RunId, Seq, StepName, Timestamp,
};
use outlast_runtime::{
    ForeignWake, Instance, ReplayChecks, SliceWatch, TaskFailure, Unwatched, replay, run_task,
};

use crate::flow::{Flow, no_foreign};

/// Whether instances stay in memory between tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    Keep,
    EvictAlways,
}

pub(crate) struct Backend {
    pub(crate) flow: Rc<Flow>,
    pub(crate) history: Vec<Event>,
    pub(crate) instance: Option<Instance>,
    pub(crate) failed: Option<TaskFailure>,
    pub(crate) foreign: ForeignWake,
    pub(crate) checks: ReplayChecks,
    pub(crate) is_closed: bool,
    cache: Cache,
    unseen: Vec<Job>,
    pub(crate) activities: BTreeMap<Seq, String>,
    pub(crate) timers: BTreeMap<Seq, ()>,
    pub(crate) steps: BTreeMap<Seq, (StepName, bool)>,
}

pub(crate) const RUN: RunId = RunId(0x0190_0000_0000_7000_8000_0000_0000_0001);

impl Backend {
    /// A run that has started and has not been told so.
    pub(crate) fn new(flow: Flow) -> Self {
        Self::shared(Rc::new(flow), Cache::Keep)
    }

    pub(crate) fn shared(flow: Rc<Flow>, cache: Cache) -> Self {
        let mut backend = Self {
            flow,
            history: Vec::new(),
            instance: None,
            failed: None,
            foreign: no_foreign(),
            checks: ReplayChecks::default(),
            is_closed: false,
            cache,
            unseen: Vec::new(),
            activities: BTreeMap::new(),
            timers: BTreeMap::new(),
            steps: BTreeMap::new(),
        };
        backend.stimulus(EventKind::Started(Box::new(Started {
            workflow_id: "w".into(),
            run_id: RUN,
            workflow_type: "flow".into(),
            queue: "q".into(),
            input: Payload::null(),
            request_id: None,
            run_timeout: None,
            parent: None,
            first_run_id: None,
            continued_from: None,
        })));
        backend
    }

    /// A run whose first task is done.
    pub(crate) fn started(flow: Flow) -> Self {
        let mut backend = Self::new(flow);
        backend.turn();
        backend
    }

    fn write(&mut self, kind: EventKind) {
        let id = EventId(self.history.len() as u64 + 1);
        self.history.push(Event {
            id,
            time: Timestamp(id.0 * 1_000_000),
            kind,
        });
    }

    fn stimulus(&mut self, kind: EventKind) {
        self.write(kind);
        self.unseen
            .extend(self.history.last().and_then(Job::from_event));
    }
}

/// What comes from outside.
impl Backend {
    pub(crate) fn signal(&mut self, name: &str, text: &str) -> &mut Self {
        let (name, input) = (name.into(), Payload::bytes(text.to_owned()));
        self.stimulus(EventKind::Signaled {
            name,
            input,
            request_id: None,
        });
        self
    }

    pub(crate) fn complete(&mut self, seq: u32, result: &str) -> &mut Self {
        self.begin(seq);
        let result = Payload::bytes(result.to_owned());
        self.stimulus(EventKind::ActivityCompleted {
            seq: Seq(seq),
            result,
        });
        self
    }

    pub(crate) fn fail(&mut self, seq: u32, text: &str) -> &mut Self {
        self.begin(seq);
        let failure = Failure::application("test", text);
        let retry_state = RetryState::MaximumAttemptsReached;
        self.stimulus(EventKind::ActivityFailed {
            seq: Seq(seq),
            failure,
            retry_state,
        });
        self
    }

    fn begin(&mut self, seq: u32) {
        assert!(
            self.activities.remove(&Seq(seq)).is_some(),
            "activity {seq} is open"
        );
        let (attempt, last_failure) = (Attempt::FIRST, None);
        self.stimulus(EventKind::ActivityStarted {
            seq: Seq(seq),
            attempt,
            last_failure,
        });
    }

    pub(crate) fn fire(&mut self, seq: u32) -> &mut Self {
        assert!(
            self.timers.remove(&Seq(seq)).is_some(),
            "timer {seq} is open"
        );
        self.stimulus(EventKind::TimerFired { seq: Seq(seq) });
        self
    }

    pub(crate) fn resolve_step(&mut self, seq: u32, resolution: Resolution) -> &mut Self {
        let (_, is_resolved) = self.steps.get_mut(&Seq(seq)).expect("the step is open");
        assert!(
            !std::mem::replace(is_resolved, true),
            "step {seq} is resolved once"
        );
        self.unseen.push(Job::ResolveStep {
            seq: Seq(seq),
            resolution,
        });
        self
    }

    pub(crate) fn cancel(&mut self) -> &mut Self {
        let reason = "enough".into();
        self.stimulus(EventKind::CancelRequested {
            reason,
            request_id: None,
        });
        self
    }
}

/// What workflow code says.
impl Backend {
    /// Runs one workflow task; the commands it gave.
    pub(crate) fn turn(&mut self) -> Vec<Command> {
        self.turn_watched(&Unwatched)
    }

    pub(crate) fn turn_watched(&mut self, watch: &dyn SliceWatch) -> Vec<Command> {
        self.write(EventKind::TaskScheduled {
            attempt: Attempt::FIRST,
        });
        let id = EventId(self.history.len() as u64 + 1);
        let activation = Activation {
            now: Timestamp(id.0 * 1_000_000),
            is_replaying: false,
            history_events: id.0,
            suggest_continue_as_new: false,
            jobs: std::mem::take(&mut self.unseen),
        };
        let instance = self.instance.take().filter(|_| self.cache == Cache::Keep);
        let history = instance.is_none().then(|| self.history.clone());
        let task = WorkflowTask {
            token: TaskToken {
                run: RunNo(1),
                epoch: Epoch(0),
                turn: id.0,
            },
            run_id: RUN,
            workflow_id: "w".into(),
            workflow_type: "flow".into(),
            activation,
            history,
            queries: Vec::new(),
        };
        let (flow, foreign) = (Rc::clone(&self.flow), self.foreign.clone());
        let (instance, answer) = run_task(instance, &task, &*flow, &foreign, watch, self.checks);
        self.instance = instance;
        self.write(EventKind::TaskStarted);
        match answer {
            TaskAnswer::Completed { commands, .. } => {
                self.completed(&task.activation.jobs, commands)
            }
            TaskAnswer::Queried(_) => Vec::new(),
            TaskAnswer::Failed { cause, failure } => {
                assert!(self.instance.is_none(), "a failed task leaves no instance");
                self.failed = Some(TaskFailure {
                    cause,
                    failure: failure.clone(),
                });
                self.write(EventKind::TaskFailed { cause, failure });
                self.unseen = task.activation.jobs;
                Vec::new()
            }
        }
    }

    fn completed(&mut self, jobs: &[Job], commands: Vec<Command>) -> Vec<Command> {
        self.write(EventKind::TaskCompleted);
        for job in jobs {
            if let Job::ResolveStep { seq, resolution } = job {
                self.record_step(*seq, resolution.clone());
            }
        }
        let mut stopped = Vec::new();
        for command in &commands {
            assert!(!self.is_closed, "a closing command is the last");
            self.carry_out(command.clone(), &mut stopped);
        }
        for seq in stopped {
            if self.activities.remove(&seq).is_some() && !self.is_closed {
                self.stimulus(EventKind::ActivityCanceled { seq, details: None });
            }
        }
        commands
    }

    fn record_step(&mut self, seq: Seq, outcome: Resolution) {
        let (name, _) = self.steps.remove(&seq).expect("a delivered step is open");
        self.write(EventKind::StepRecorded(Box::new(StepRecorded {
            seq,
            name,
            attempt: Attempt::FIRST,
            outcome,
            activation: 0,
            site: outlast_model::event::Site::default(),
        })));
    }

    fn carry_out(&mut self, command: Command, stopped: &mut Vec<Seq>) {
        match command {
            Command::ScheduleActivity(c) => {
                let open = self.activities.insert(c.seq, c.activity_type.to_string());
                assert!(open.is_none(), "numbers are used once");
                self.write(EventKind::ActivityScheduled(Box::new(ActivityScheduled {
                    seq: c.seq,
                    activity_type: c.activity_type,
                    queue: c.options.queue.clone().unwrap_or("q".into()),
                    input: c.input,
                    options: c.options,
                    site: c.site,
                })));
            }
            Command::RequestCancelActivity { seq } => {
                assert!(self.activities.contains_key(&seq), "activity {seq} is open");
                self.write(EventKind::ActivityCancelRequested { seq });
                stopped.push(seq);
            }
            Command::StartTimer { seq, delay, site } => {
                assert!(
                    self.timers.insert(seq, ()).is_none(),
                    "numbers are used once"
                );
                self.write(EventKind::TimerStarted { seq, delay, site });
            }
            Command::CancelTimer { seq } => {
                assert!(self.timers.remove(&seq).is_some(), "timer {seq} is open");
                self.write(EventKind::TimerCanceled { seq });
            }
            Command::ScheduleStep { seq, name, .. } => {
                assert!(
                    self.steps.insert(seq, (name, false)).is_none(),
                    "numbers are used once"
                );
            }
            Command::CancelStep { seq } => {
                let (_, is_resolved) = self.steps.get_mut(&seq).expect("the step is open");
                if !std::mem::replace(is_resolved, true) {
                    let resolution = Resolution::Canceled(None);
                    self.unseen.push(Job::ResolveStep { seq, resolution });
                }
            }
            Command::CompleteWorkflow { result } => self.close(EventKind::Completed { result }),
            Command::FailWorkflow { failure } => self.close(EventKind::Failed { failure }),
            Command::CancelWorkflow => self.close(EventKind::Canceled),
            other => panic!("{} is not written here", other.name()),
        }
    }

    fn close(&mut self, kind: EventKind) {
        assert!(self.instance.is_none(), "a closed run has no instance");
        self.is_closed = true;
        self.write(kind);
    }

    /// A task that starts and fails: what it was told, the next one is told again.
    pub(crate) fn fail_task(&mut self) {
        self.write(EventKind::TaskScheduled {
            attempt: Attempt::FIRST,
        });
        self.write(EventKind::TaskStarted);
        let failure = Failure::panic("once");
        let cause = outlast_model::event::TaskFailedCause::WorkerUnhandledFailure;
        self.write(EventKind::TaskFailed { cause, failure });
    }

    pub(crate) fn has_news(&self) -> bool {
        !self.unseen.is_empty()
    }
}

/// What tests look at.
impl Backend {
    pub(crate) fn log(&self) -> Vec<String> {
        self.flow.log.lines()
    }

    pub(crate) fn warnings(&mut self) -> Vec<String> {
        self.instance
            .as_mut()
            .map(Instance::warnings)
            .unwrap_or_default()
    }

    /// Replays all that was written; the log of the replay is in the flow.
    pub(crate) fn replayed(&self) -> Result<Instance, TaskFailure> {
        replay(
            &self.history,
            &*self.flow,
            &no_foreign(),
            &Unwatched,
            self.checks,
        )
    }

    pub(crate) fn failure(&self) -> String {
        self.failed
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default()
    }
}

/// Commands in short: `activity 1 a`, `cancel timer 2`, `complete`.
pub(crate) fn short(commands: &[Command]) -> Vec<String> {
    let short = commands.iter().map(|command| match command {
        Command::ScheduleActivity(c) => format!("activity {} {}", c.seq, c.activity_type),
        Command::RequestCancelActivity { seq } => format!("cancel activity {seq}"),
        Command::StartTimer { seq, .. } => format!("timer {seq}"),
        Command::CancelTimer { seq } => format!("cancel timer {seq}"),
        Command::ScheduleStep { seq, name, .. } => format!("step {seq} {name}"),
        Command::CancelStep { seq } => format!("cancel step {seq}"),
        Command::CompleteWorkflow { .. } => "complete".into(),
        Command::FailWorkflow { failure } => format!("fail {failure}"),
        Command::CancelWorkflow => "canceled".into(),
        other => other.name().into(),
    });
    short.collect()
}
