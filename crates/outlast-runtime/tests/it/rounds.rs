//! A backend that makes the rounds itself: an activation is one round, live or replayed, and an
//! instance stays until the backend wants it forgotten.

use outlast_model::event::Started;
use outlast_model::task::{
    Query, Rounds, RunNo, TaskAnswer, TaskToken, WorkflowTask, builtin_query,
};
use outlast_model::{
    Activation, CancelMode, Edition, Epoch, Headers, Job, Payload, Resolution, RunId, Seq, Shared,
    Timestamp,
};
use outlast_runtime::random::Random;
use outlast_runtime::{Instance, ReplayChecks, Unwatched, run_task};

use crate::backend::short;
use crate::flow::{Flow, act_with, done, no_foreign, sleep, word};

const RUN: RunId = RunId(7);

/// A run whose activations the test sends.
struct Polled {
    flow: Flow,
    rounds: Rounds,
    instance: Option<Instance>,
}

impl Polled {
    fn new(rounds: Rounds, flow: Flow) -> Self {
        let instance = None;
        Self {
            flow,
            rounds,
            instance,
        }
    }

    fn answer(&mut self, jobs: Vec<Job>, is_replaying: bool, queries: Vec<Query>) -> TaskAnswer {
        let task = WorkflowTask {
            token: TaskToken {
                run: RunNo(1),
                epoch: Epoch(0),
                turn: 1,
            },
            run_id: RUN,
            workflow_id: "w".into(),
            workflow_type: "flow".into(),
            queue: "q".into(),
            activation: Activation {
                now: Timestamp(1_000_000),
                is_replaying,
                history_events: 3,
                suggest_continue_as_new: false,
                jobs,
            },
            history: None,
            queries,
            rounds: self.rounds,
        };
        let (instance, answer) = run_task(
            self.instance.take(),
            &task,
            &self.flow,
            &no_foreign(),
            &Unwatched,
            ReplayChecks::default(),
        );
        self.instance = instance;
        answer
    }

    /// The commands of an activation, in short.
    fn tell(&mut self, jobs: Vec<Job>, is_replaying: bool) -> Vec<String> {
        match self.answer(jobs, is_replaying, Vec::new()) {
            TaskAnswer::Completed { commands, .. } => short(&commands),
            other @ (TaskAnswer::Queried(_) | TaskAnswer::Failed { .. }) => panic!("{other:?}"),
        }
    }
}

fn initialize() -> Job {
    Job::Initialize(Shared::new(Started {
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
    }))
}

fn fire(seq: u32) -> Job {
    Job::FireTimer { seq: Seq(seq) }
}

/// Cancels an activity when a timer fires.
fn cancels() -> Flow {
    Flow::new(|ctx, log| async move {
        let call = act_with(ctx, "a", CancelMode::Try);
        sleep(ctx, 1).await;
        call.cancel();
        log.note(word(&call.await));
        done()
    })
}

#[test]
fn a_round_of_the_backend_does_not_follow_up_by_itself() {
    let mut whole = Polled::new(Rounds::Runtime, cancels());
    whole.tell(vec![initialize()], false);
    let in_one_task = whole.tell(vec![fire(1)], false);
    assert_eq!(in_one_task, ["cancel activity 1", "complete"]);

    let mut polled = Polled::new(Rounds::Backend, cancels());
    polled.tell(vec![initialize()], false);
    assert_eq!(polled.tell(vec![fire(1)], false), ["cancel activity 1"]);
    let resolution = Resolution::Canceled(None);
    let resolved = Job::ResolveActivity {
        seq: Seq(1),
        resolution,
    };
    assert_eq!(polled.tell(vec![resolved], false), ["complete"]);
    assert_eq!(polled.flow.log.lines(), whole.flow.log.lines());
}

#[test]
fn replayed_activations_build_the_instance_that_live_ones_had() {
    let steps = || [vec![initialize()], vec![fire(1)]];
    let mut live = Polled::new(Rounds::Backend, cancels());
    let mut replayed = Polled::new(Rounds::Backend, cancels());
    for jobs in steps() {
        let said = live.tell(jobs.clone(), false);
        assert_eq!(replayed.tell(jobs, true), said);
    }
    let waiting = |polled: &Polled| polled.instance.as_ref().map(Instance::waiting);
    assert_eq!(waiting(&replayed), waiting(&live));
}

#[test]
fn an_ended_run_can_be_asked_until_it_is_evicted() {
    let flow = Flow::new(|_, _| async { done() });
    let mut polled = Polled::new(Rounds::Backend, flow);
    assert_eq!(polled.tell(vec![initialize()], true), ["complete"]);
    for _ in 0..2 {
        let query = Query {
            name: builtin_query::HANDLERS.into(),
            input: Payload::null(),
            headers: Headers::new(),
        };
        let TaskAnswer::Queried(answers) = polled.answer(Vec::new(), true, vec![query]) else {
            panic!("questions are answered");
        };
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    }
    assert!(polled.instance.is_some());
}

#[test]
fn a_new_seed_gives_new_numbers() {
    let flow = Flow::new(|ctx, log| async move {
        log.note(ctx.random().to_string());
        sleep(ctx, 1).await;
        log.note(ctx.random().to_string());
        done()
    });
    let mut polled = Polled::new(Rounds::Backend, flow);
    polled.tell(vec![initialize()], false);
    polled.tell(vec![fire(1), Job::UpdateRandomSeed { seed: 99 }], false);
    let expected = [
        Random::of_run(RUN).draw().to_string(),
        Random::seeded(99).draw().to_string(),
    ];
    assert_eq!(polled.flow.log.lines(), expected);
}
