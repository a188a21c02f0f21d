//! Plays the part of the engine in tests of workflow code: jobs in, commands out.

use std::sync::Arc;

use outlast_model::event::{Started, UpdateOutcome, UpdateRequest};
use outlast_model::failure::RetryState;
use outlast_model::id::Epoch;
use outlast_model::job::{ChildStart, UpdateJob};
use outlast_model::promise::Settlement;
use outlast_model::task::{
    PROMISE_SIGNAL, Query, Rounds, RunNo, TaskAnswer, TaskToken, WorkflowTask,
};
use outlast_model::{
    Activation, Command, Edition, Failure, Headers, Job, Payload, PromiseId, QueryName, QueueName,
    Resolution, RunId, Seq, Shared, SignalName, Timestamp, UpdateId, UpdateName, WorkflowId,
    WorkflowType,
};
use outlast_runtime::{ForeignWake, Instance, ReplayChecks, StepCode, Unwatched, run_task};
use serde::Serialize;

use crate::activity::ByFn;
use crate::erase::{AnyProgram, workflow_program};
use crate::workflow::WorkflowFn;

/// A run, and what its code has asked for last.
pub(crate) struct Play {
    program: AnyProgram,
    instance: Option<Instance>,
    /// The commands of the last task.
    pub(crate) commands: Vec<Command>,
    /// Why the last task failed.
    pub(crate) failure: Option<Failure>,
    /// The answers to the queries of the last task.
    pub(crate) answers: Vec<Result<Payload, Failure>>,
    /// What the last task had to say.
    pub(crate) notes: Vec<String>,
    /// The events it has seen.
    events: u64,
}

impl Play {
    /// Starts a `#[workflow]`.
    pub(crate) fn start<W, A>(workflow: W, input: impl Serialize) -> Self
    where
        W: WorkflowFn<ByFn<A>>,
    {
        Self::of(workflow_program::<W::Meta>(), workflow.name(), input)
    }

    pub(crate) fn of(program: AnyProgram, name: &str, input: impl Serialize) -> Self {
        let started = Started {
            workflow_id: WorkflowId::new("order-42"),
            run_id: RunId(7),
            workflow_type: WorkflowType::new(name),
            queue: QueueName::new("default"),
            input: payload(input),
            request_id: None,
            run_timeout: None,
            parent: None,
            first_run_id: None,
            continued_from: None,
            headers: Headers::new(),
            priority: None,
            edition: Some(Edition::NEWEST),
        };
        let mut play = Self {
            program,
            instance: None,
            commands: Vec::new(),
            failure: None,
            answers: Vec::new(),
            notes: Vec::new(),
            events: 0,
        };
        play.tell(vec![Job::Initialize(Shared::new(started))]);
        play
    }

    /// Runs a task with these jobs.
    pub(crate) fn tell(&mut self, jobs: Vec<Job>) -> &mut Self {
        self.task(jobs, Vec::new())
    }

    fn task(&mut self, jobs: Vec<Job>, queries: Vec<Query>) -> &mut Self {
        self.events += 3;
        let task = WorkflowTask {
            token: TaskToken {
                run: RunNo(1),
                epoch: Epoch(0),
                turn: 1,
            },
            run_id: RunId(7),
            workflow_id: WorkflowId::new("order-42"),
            workflow_type: WorkflowType::new("test"),
            queue: QueueName::new("default"),
            activation: Activation {
                now: Timestamp(1_000_000),
                is_replaying: false,
                history_events: self.events,
                suggest_continue_as_new: false,
                jobs,
            },
            history: None,
            queries,
            rounds: Rounds::Runtime,
        };
        let foreign: ForeignWake = Arc::new(|run| panic!("a foreign wake of {run}"));
        let instance = self.instance.take();
        let checks = ReplayChecks::default();
        let (instance, answer) = run_task(
            instance,
            &task,
            &*self.program,
            &foreign,
            &Unwatched,
            checks,
        );
        self.instance = instance;
        (self.commands, self.failure) = (Vec::new(), None);
        match answer {
            TaskAnswer::Completed { commands, notes } => {
                (self.commands, self.notes) = (commands, notes.texts);
            }
            TaskAnswer::Queried(answers) => self.answers = answers,
            TaskAnswer::Failed { failure, .. } => self.failure = Some(failure),
        }
        self
    }

    /// Asks something; the answer as JSON, or the message of the failure.
    pub(crate) fn query(&mut self, name: &str, input: impl Serialize) -> Result<String, String> {
        let (name, input) = (QueryName::new(name), payload(input));
        self.task(
            Vec::new(),
            vec![Query {
                name,
                input,
                headers: Headers::new(),
            }],
        );
        let answer = self.answers.pop().expect("one answer to one query");
        answer
            .map(|payload| text(&payload))
            .map_err(|failure| failure.message.clone())
    }

    pub(crate) fn update(&mut self, name: &str, input: impl Serialize) -> &mut Self {
        let request = UpdateRequest {
            id: UpdateId::new(format!("{name}-1")),
            name: UpdateName::new(name),
            input: payload(input),
            headers: Headers::new(),
        };
        self.tell(vec![Job::Update(Box::new(UpdateJob {
            request,
            run_validator: true,
        }))])
    }

    pub(crate) fn activity(&mut self, seq: u32, result: impl Serialize) -> &mut Self {
        let resolution = Resolution::Completed(payload(result));
        self.tell(vec![Job::ResolveActivity {
            seq: Seq(seq),
            resolution,
        }])
    }

    /// Several results in one task.
    pub(crate) fn activities(&mut self, results: impl Iterator<Item = (u32, u32)>) -> &mut Self {
        let jobs = results.map(|(seq, result)| Job::ResolveActivity {
            seq: Seq(seq),
            resolution: Resolution::Completed(payload(result)),
        });
        self.tell(jobs.collect())
    }

    pub(crate) fn activity_fails(&mut self, seq: u32, failure: Failure) -> &mut Self {
        let resolution = Resolution::Failed(failure, RetryState::MaximumAttemptsReached);
        self.tell(vec![Job::ResolveActivity {
            seq: Seq(seq),
            resolution,
        }])
    }

    pub(crate) fn fire(&mut self, seq: u32) -> &mut Self {
        self.tell(vec![Job::FireTimer { seq: Seq(seq) }])
    }

    pub(crate) fn signal(&mut self, name: &str, input: impl Serialize) -> &mut Self {
        let (name, input) = (SignalName::new(name), payload(input));
        self.tell(vec![Job::Signal {
            name,
            input,
            headers: Headers::new(),
        }])
    }

    pub(crate) fn child_starts(&mut self, seq: u32) -> &mut Self {
        let (seq, result) = (Seq(seq), ChildStart::Started(RunId(77)));
        self.tell(vec![Job::ResolveChildStart { seq, result }])
    }

    pub(crate) fn child(&mut self, seq: u32, result: impl Serialize) -> &mut Self {
        let (seq, resolution) = (Seq(seq), Resolution::Completed(payload(result)));
        self.tell(vec![Job::ResolveChild { seq, resolution }])
    }

    pub(crate) fn child_fails(&mut self, seq: u32, failure: Failure) -> &mut Self {
        let resolution = Resolution::Failed(failure, RetryState::RetryPolicyNotSet);
        self.tell(vec![Job::ResolveChild {
            seq: Seq(seq),
            resolution,
        }])
    }

    /// Settles a promise.
    pub(crate) fn settle(&mut self, id: &str, outcome: Result<Payload, Failure>) -> &mut Self {
        let id = PromiseId::new(id);
        let input = Settlement { id, outcome }.encode().expect("it is JSON");
        let name = SignalName::new(PROMISE_SIGNAL);
        self.tell(vec![Job::Signal {
            name,
            input,
            headers: Headers::new(),
        }])
    }

    pub(crate) fn cancel(&mut self) -> &mut Self {
        self.tell(vec![Job::CancelWorkflow {
            reason: "enough".into(),
        }])
    }

    pub(crate) fn step_code(&self, seq: u32) -> StepCode {
        let instance = self.instance.as_ref().expect("the run is open");
        instance.step_code(Seq(seq)).expect("the step is pending")
    }

    /// The last commands, one word or two each.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.commands.iter().map(describe).collect()
    }

    /// Why the last task failed.
    pub(crate) fn trouble(&self) -> &str {
        &self.failure.as_ref().expect("the task failed").message
    }
}

/// Runs a future to its end.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime can be built").block_on(future)
}

pub(crate) fn payload(value: impl Serialize) -> Payload {
    Payload::encode(&value).expect("encodes")
}

fn text(payload: &Payload) -> String {
    String::from_utf8_lossy(&payload.data).into_owned()
}

fn describe(command: &Command) -> String {
    match command {
        Command::ScheduleActivity(command) => {
            format!("run {} {}", command.activity_type, text(&command.input))
        }
        Command::StartTimer { delay, .. } => format!("timer {delay:?}"),
        Command::CancelTimer { seq } => format!("cancel timer {seq}"),
        Command::RequestCancelActivity { seq } => format!("cancel activity {seq}"),
        Command::ScheduleStep { name, .. } => format!("step {name}"),
        Command::CancelStep { seq } => format!("cancel step {seq}"),
        Command::CompleteWorkflow { result } => format!("complete {}", text(result)),
        Command::FailWorkflow { failure } => format!("fail: {failure}"),
        Command::CancelWorkflow => "cancelled".into(),
        Command::AcceptUpdate { id } => format!("accept {id}"),
        Command::RejectUpdate { id, failure } => format!("reject {id}: {failure}"),
        Command::CompleteUpdate { id, outcome } => match outcome {
            UpdateOutcome::Completed(result) => format!("answer {id} {}", text(result)),
            UpdateOutcome::Failed(failure) => format!("fail {id}: {failure}"),
        },
        Command::StartChild(child) => {
            let (name, id) = (&child.workflow_type, &child.workflow_id);
            format!("child {name} as {id} {}", text(&child.input))
        }
        Command::CancelChild { seq, .. } => format!("cancel child {seq}"),
        Command::SignalExternal(signal) => {
            let (name, target) = (&signal.name, &signal.target.workflow_id);
            format!("send {name} to {target} {}", text(&signal.input))
        }
        Command::CancelExternal(cancel) => format!("stop {}", cancel.target.workflow_id),
        Command::SetPatch { id, .. } => format!("patch {id}"),
        Command::ContinueAsNew(next) => {
            let name = next.workflow_type.as_ref().map_or("", |name| name.as_str());
            format!("continue {name} {}", text(&next.input))
        }
    }
}
