//! A backend that writes histories as the engine would, and does nothing by itself: the test
//! says which outcome comes when.

use std::collections::BTreeMap;
use std::rc::Rc;

use outlast_model::event::{
    ActivityScheduled, CancelInitiated, CancelOf, ChildEvent, ChildInitiated, ContinuedAsNew,
    ExternalEvent, SignalInitiated, Started, StepRecorded, UpdateAccepted, UpdateEvent,
    UpdateOutcome, UpdateRequest,
};
use outlast_model::failure::RetryState;
use outlast_model::job::UpdateJob;
use outlast_model::task::{Notes, Query, Rounds, RunNo, TaskAnswer, TaskToken, WorkflowTask};
use outlast_model::view::RunRef;
use outlast_model::{
    Activation, Attempt, Command, Edition, Epoch, Event, EventId, EventKind, Failure, Headers, Job,
    Payload, Resolution, RunId, Seq, Shared, StepName, Timestamp, UpdateId,
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
    /// Whether activities and steps go on when they are asked to stop.
    pub(crate) ignores_cancels: bool,
    unseen: Vec<Job>,
    pub(crate) activities: BTreeMap<Seq, String>,
    pub(crate) timers: BTreeMap<Seq, ()>,
    pub(crate) steps: BTreeMap<Seq, (StepName, bool)>,
    /// Open children, and whether they were told to have started.
    pub(crate) children: BTreeMap<Seq, bool>,
    /// Messages to other runs that nobody has confirmed.
    pub(crate) sent: BTreeMap<Seq, ()>,
    /// Requests to other runs to stop that nobody has confirmed.
    pub(crate) requests: BTreeMap<CancelOf, ()>,
    /// Updates that are not answered: the request if no event has it, and where they came.
    updates: BTreeMap<UpdateId, (Option<UpdateRequest>, EventId)>,
    /// How many updates were ever asked.
    pub(crate) asked: u32,
    /// What became of updates, in short.
    pub(crate) answers: Vec<String>,
    /// What the newest task had to say.
    pub(crate) notes: Notes,
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
            ignores_cancels: false,
            unseen: Vec::new(),
            activities: BTreeMap::new(),
            timers: BTreeMap::new(),
            steps: BTreeMap::new(),
            children: BTreeMap::new(),
            sent: BTreeMap::new(),
            requests: BTreeMap::new(),
            updates: BTreeMap::new(),
            asked: 0,
            answers: Vec::new(),
            notes: Notes::default(),
        };
        backend.stimulus(EventKind::Started(Shared::new(Started {
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
            headers: Headers::new(),
            priority: None,
            edition: Some(Edition::NEWEST),
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

    pub(crate) fn stimulus(&mut self, kind: EventKind) {
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
            headers: Headers::new(),
        });
        self
    }

    /// An update that runs at once: its request is in no event of its own.
    pub(crate) fn update(&mut self, id: &str, name: &str, text: &str) -> &mut Self {
        self.asked += 1;
        let request = request(id, name, text);
        let behind = EventId(self.history.len() as u64);
        self.updates
            .insert(id.into(), (Some(request.clone()), behind));
        self.unseen.push(Job::Update(Box::new(UpdateJob {
            request,
            run_validator: true,
        })));
        self
    }

    /// Writes the request of an update that code has seen already.
    pub(crate) fn write_request(&mut self, id: &str) {
        let (request, _) = self.updates.get_mut(&id.into()).expect("it waits");
        let request = Box::new(request.take().expect("it is in no event"));
        self.write(EventKind::Update(UpdateEvent::Admitted(request)));
    }

    /// An update that has to wait for workflow code.
    pub(crate) fn admit(&mut self, id: &str, name: &str, text: &str) -> &mut Self {
        self.asked += 1;
        let request = Box::new(request(id, name, text));
        self.stimulus(EventKind::Update(UpdateEvent::Admitted(request)));
        let behind = EventId(self.history.len() as u64);
        self.updates.insert(id.into(), (None, behind));
        self
    }

    pub(crate) fn child(&mut self, event: ChildEvent) -> &mut Self {
        let seq = event.seq();
        let is_started = self.children.get_mut(&seq).expect("the child is open");
        match &event {
            ChildEvent::Started { .. } => {
                assert!(
                    !std::mem::replace(is_started, true),
                    "child {seq} starts once"
                );
            }
            ChildEvent::StartFailed { .. } => {
                assert!(!*is_started, "child {seq} has started");
                self.children.remove(&seq);
            }
            ChildEvent::Initiated(_)
            | ChildEvent::Completed { .. }
            | ChildEvent::Failed { .. }
            | ChildEvent::Canceled { .. }
            | ChildEvent::TimedOut { .. }
            | ChildEvent::Terminated { .. } => {
                assert!(*is_started, "child {seq} has not started");
                self.children.remove(&seq);
            }
        }
        self.stimulus(EventKind::Child(event));
        self
    }

    pub(crate) fn child_started(&mut self, seq: u32) -> &mut Self {
        let (seq, run_id) = (Seq(seq), RunId(u128::from(seq)));
        self.child(ChildEvent::Started { seq, run_id })
    }

    pub(crate) fn child_completed(&mut self, seq: u32, result: &str) -> &mut Self {
        let (seq, result) = (Seq(seq), Payload::bytes(result.to_owned()));
        self.child(ChildEvent::Completed { seq, result })
    }

    pub(crate) fn external(&mut self, event: ExternalEvent) -> &mut Self {
        let was_open = match &event {
            ExternalEvent::SignalFailed { seq, .. } | ExternalEvent::SignalDelivered { seq } => {
                self.sent.remove(seq)
            }
            ExternalEvent::CancelFailed { of, .. } | ExternalEvent::CancelDelivered { of } => {
                self.requests.remove(of)
            }
            ExternalEvent::CancelInitiated(_) | ExternalEvent::SignalInitiated(_) => None,
        };
        assert!(was_open.is_some(), "the message is on its way");
        self.stimulus(EventKind::External(event));
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
        let task = task(activation, history, Vec::new());
        let (flow, foreign) = (Rc::clone(&self.flow), self.foreign.clone());
        let (instance, answer) = run_task(instance, &task, &*flow, &foreign, watch, self.checks);
        self.instance = instance;
        self.write(EventKind::TaskStarted);
        match answer {
            TaskAnswer::Completed { commands, notes } => {
                self.notes = notes;
                self.completed(&task.activation.jobs, commands)
            }
            TaskAnswer::Queried(_) => panic!("nothing was asked"),
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

    /// Asks a question, of a run that may have ended.
    pub(crate) fn query(&mut self, name: &str, text: &str) -> Result<String, Failure> {
        let instance = self.instance.take().filter(|_| self.cache == Cache::Keep);
        let history = instance.is_none().then(|| self.history.clone());
        let activation = Activation {
            now: Timestamp(0),
            is_replaying: false,
            history_events: 0,
            suggest_continue_as_new: false,
            jobs: Vec::new(),
        };
        let query = Query {
            name: name.into(),
            input: Payload::bytes(text.to_owned()),
            headers: Headers::new(),
        };
        let task = task(activation, history, vec![query]);
        let foreign = self.foreign.clone();
        let (instance, answer) = run_task(
            instance,
            &task,
            &*self.flow,
            &foreign,
            &Unwatched,
            self.checks,
        );
        self.instance = instance;
        let answer = match answer {
            TaskAnswer::Queried(mut answers) => answers.pop().expect("one question, one answer"),
            TaskAnswer::Failed { failure, .. } => Err(failure),
            TaskAnswer::Completed { .. } => panic!("a question is answered: {answer:?}"),
        };
        answer.map(|payload| String::from_utf8_lossy(&payload.data).into_owned())
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
        if self.ignores_cancels {
            stopped.clear();
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
                self.write(EventKind::ActivityScheduled(Shared::new(
                    ActivityScheduled {
                        seq: c.seq,
                        activity_type: c.activity_type,
                        queue: c.options.queue.clone().unwrap_or("q".into()),
                        input: c.input,
                        options: c.options,
                        site: c.site,
                        headers: c.headers,
                    },
                )));
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
                if !self.ignores_cancels && !std::mem::replace(is_resolved, true) {
                    let resolution = Resolution::Canceled(None);
                    self.unseen.push(Job::ResolveStep { seq, resolution });
                }
            }
            Command::CompleteWorkflow { result } => self.close(EventKind::Completed { result }),
            Command::FailWorkflow { failure } => self.close(EventKind::Failed { failure }),
            Command::CancelWorkflow => self.close(EventKind::Canceled),
            Command::ContinueAsNew(c) => {
                self.close(EventKind::ContinuedAsNew(Box::new(ContinuedAsNew {
                    new_run_id: RunId(2),
                    workflow_type: c.workflow_type.unwrap_or("flow".into()),
                    queue: c.queue.unwrap_or("q".into()),
                    input: c.input,
                    run_timeout: c.run_timeout,
                    headers: c.headers,
                })));
            }
            Command::StartChild(_)
            | Command::CancelChild { .. }
            | Command::SignalExternal(_)
            | Command::CancelExternal(_) => self.speak(command),
            Command::SetPatch {
                id,
                is_deprecated,
                site,
            } => self.write(EventKind::Patched {
                id,
                is_deprecated,
                site,
            }),
            Command::AcceptUpdate { .. }
            | Command::RejectUpdate { .. }
            | Command::CompleteUpdate { .. } => self.answer(command),
        }
    }

    fn answer(&mut self, command: Command) {
        if let Command::AcceptUpdate { id } = command {
            let (request, behind) = self.updates[&id].clone();
            self.answers.push(format!("{id} accepted"));
            let accepted = UpdateAccepted {
                id,
                request,
                behind,
            };
            self.write(EventKind::Update(UpdateEvent::Accepted(Box::new(accepted))));
        } else if let Command::RejectUpdate { id, failure } = command {
            assert!(self.updates.remove(&id).is_some(), "answered once");
            self.answers.push(format!("{id} rejected: {failure}"));
        } else if let Command::CompleteUpdate { id, outcome } = command {
            assert!(self.updates.remove(&id).is_some(), "answered once");
            let answer = match &outcome {
                UpdateOutcome::Completed(result) => {
                    format!("ok:{}", String::from_utf8_lossy(&result.data))
                }
                UpdateOutcome::Failed(failure) => format!("failed:{failure}"),
            };
            self.answers.push(format!("{id} {answer}"));
            self.write(EventKind::Update(UpdateEvent::Completed { id, outcome }));
        }
    }

    /// Carries out a command that is about another run.
    fn speak(&mut self, command: Command) {
        if let Command::StartChild(c) = command {
            let is_new = self.children.insert(c.seq, false).is_none();
            assert!(is_new, "numbers are used once");
            let child = ChildInitiated {
                seq: c.seq,
                workflow_id: c.workflow_id,
                run_id: RunId(u128::from(c.seq.0)),
                workflow_type: c.workflow_type,
                queue: c.options.queue.clone().unwrap_or("q".into()),
                input: c.input,
                options: c.options,
                site: c.site,
                headers: c.headers,
            };
            self.write(EventKind::Child(ChildEvent::Initiated(Box::new(child))));
        } else if let Command::CancelChild { seq, reason, site } = command {
            assert!(self.children.contains_key(&seq), "child {seq} is open");
            let target = RunRef::newest("child".into());
            self.ask_to_stop(CancelInitiated {
                of: CancelOf::Child(seq),
                target,
                reason,
                site,
            });
        } else if let Command::CancelExternal(c) = command {
            self.ask_to_stop(CancelInitiated {
                of: CancelOf::External(c.seq),
                target: c.target,
                reason: c.reason,
                site: c.site,
            });
        } else if let Command::SignalExternal(c) = command {
            assert!(
                self.sent.insert(c.seq, ()).is_none(),
                "numbers are used once"
            );
            let signal = SignalInitiated {
                seq: c.seq,
                target: c.target,
                name: c.name,
                input: c.input,
                site: c.site,
                headers: c.headers,
            };
            self.write(EventKind::External(ExternalEvent::SignalInitiated(
                Box::new(signal),
            )));
        }
    }

    fn ask_to_stop(&mut self, cancel: CancelInitiated) {
        let is_new = self.requests.insert(cancel.of, ()).is_none();
        assert!(is_new, "asked once: {:?}", cancel.of);
        let event = ExternalEvent::CancelInitiated(Box::new(cancel));
        self.write(EventKind::External(event));
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

fn task(activation: Activation, history: Option<Vec<Event>>, queries: Vec<Query>) -> WorkflowTask {
    WorkflowTask {
        token: TaskToken {
            run: RunNo(1),
            epoch: Epoch(0),
            turn: activation.history_events,
        },
        run_id: RUN,
        workflow_id: "w".into(),
        workflow_type: "flow".into(),
        queue: "q".into(),
        activation,
        history,
        queries,
        rounds: Rounds::Runtime,
    }
}

fn request(id: &str, name: &str, text: &str) -> UpdateRequest {
    UpdateRequest {
        id: id.into(),
        name: name.into(),
        input: Payload::bytes(text.to_owned()),
        headers: Headers::new(),
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
        Command::ContinueAsNew(c) => format!("continue with {} signals", c.signals.len()),
        Command::StartChild(c) => format!("child {} {}", c.seq, c.workflow_type),
        Command::CancelChild { seq, .. } => format!("cancel child {seq}"),
        Command::SignalExternal(c) => {
            format!("signal {} {} to {}", c.seq, c.name, c.target.workflow_id)
        }
        Command::CancelExternal(c) => format!("stop {} {}", c.seq, c.target.workflow_id),
        Command::SetPatch { id, .. } => format!("patch {id}"),
        Command::AcceptUpdate { id } => format!("accept {id}"),
        Command::RejectUpdate { id, .. } => format!("reject {id}"),
        Command::CompleteUpdate { id, .. } => format!("answer {id}"),
    });
    short.collect()
}
