//! Who gets what, and what goes back, without a thread or a backend.

use outlast_model::event::Started;
use outlast_model::failure::type_name;
use outlast_model::shared::Shared;
use outlast_model::task::Notes;
use outlast_model::{Activation, Headers, Payload};

use super::*;

fn first(run_id: RunId) -> PolledWork {
    PolledWork::Activate(activation(vec![Job::Initialize(Shared::new(Started {
        workflow_id: "order-1".into(),
        run_id,
        workflow_type: "flow".into(),
        queue: "q".into(),
        input: Payload::null(),
        request_id: None,
        run_timeout: None,
        parent: None,
        first_run_id: None,
        continued_from: None,
        headers: Headers::default(),
        priority: None,
        edition: None,
    }))]))
}

fn news() -> PolledWork {
    PolledWork::Activate(activation(vec![Job::CancelWorkflow {
        reason: "enough".into(),
    }]))
}

fn forget() -> PolledWork {
    PolledWork::Evict {
        reason: "full".into(),
    }
}

fn activation(jobs: Vec<Job>) -> Activation {
    Activation {
        now: Timestamp::default(),
        is_replaying: false,
        history_events: 3,
        suggest_continue_as_new: false,
        jobs,
    }
}

fn done() -> TaskAnswer {
    TaskAnswer::Completed {
        commands: Vec::new(),
        notes: Notes::default(),
    }
}

/// A board that keeps what it wants sent.
struct Table {
    board: Board,
    orders: Vec<Order>,
}

impl Table {
    fn new() -> Self {
        Self {
            board: Board::new("q".into(), 2),
            orders: Vec::new(),
        }
    }

    fn drive(&mut self, shard: usize) -> Lane {
        self.board.drive(shard, &mut self.orders)
    }

    fn arrive(&mut self, generation: u64, run_id: RunId, work: PolledWork) {
        let item = PolledActivation { run_id, work };
        let polled = Polled { generation, item };
        self.board.arrive(polled, &mut self.orders);
    }

    /// The task a thread finds.
    fn task(&mut self, lane: Lane) -> Option<TaskToken> {
        match self.board.find(lane, &mut self.orders) {
            Found::Next(Next::Task(task)) => Some(task.token),
            Found::Next(Next::Evict(_) | Next::Replaced | Next::Shutdown) | Found::Nothing => None,
        }
    }

    fn complete(&mut self, token: TaskToken) {
        self.board.complete(token, done(), &mut self.orders);
    }

    fn give_up(&mut self, token: TaskToken) {
        let failure = Failure::application(type_name::STUCK, "too long");
        self.board.give_up(token, failure, &mut self.orders);
    }

    fn answered(&mut self, run_id: RunId) {
        self.board.answered(run_id, &mut self.orders);
    }

    /// What was sent since the last look, in words.
    fn sent(&mut self) -> Vec<String> {
        let orders = self.orders.drain(..);
        orders
            .filter_map(|order| match order {
                Order::Ring(_) => None,
                Order::Evict { generation, run_id } => {
                    Some(format!("evict {} of {generation}", run_id.0))
                }
                Order::Refused => Some("refused".into()),
                Order::Answer(answer) => {
                    let what = match answer.completion {
                        Completion::Commands(_) => "commands",
                        Completion::Queried(_) => "answers",
                        Completion::Failed { .. } => "failure",
                        Completion::Evicted => "forgotten",
                    };
                    let (run, generation) = (answer.run_id.0, answer.generation);
                    Some(format!("{what} for {run} to {generation}"))
                }
            })
            .collect()
    }
}

const RUN: RunId = RunId(2);

#[test]
fn a_second_answer_to_one_activation_is_refused() {
    let mut table = Table::new();
    let lane = table.drive(0);
    table.arrive(1, RUN, first(RUN));
    let token = table.task(lane).expect("a task");
    table.complete(token);
    assert_eq!(table.sent(), ["commands for 2 to 1"]);
    table.complete(token);
    assert_eq!(table.sent(), ["refused"]);
    table.answered(RUN);
    table.complete(token);
    assert_eq!(table.sent(), ["refused"]);
}

#[test]
fn what_arrives_while_an_answer_is_on_its_way_waits() {
    let mut table = Table::new();
    let lane = table.drive(0);
    table.arrive(1, RUN, first(RUN));
    let token = table.task(lane).expect("a task");
    table.complete(token);
    table.arrive(1, RUN, news());
    assert!(table.task(lane).is_none(), "the answer comes first");
    table.answered(RUN);
    assert!(table.task(lane).is_some());
}

#[test]
fn a_lane_that_is_taken_over_keeps_what_waits_and_gives_up_its_instances() {
    let mut table = Table::new();
    let old = table.drive(0);
    let (idle, busy, fresh) = (RunId(2), RunId(4), RunId(6));
    for run_id in [idle, busy] {
        table.arrive(1, run_id, first(run_id));
        let token = table.task(old).expect("a task");
        table.complete(token);
        table.answered(run_id);
    }
    table.arrive(1, busy, news());
    table.arrive(1, fresh, first(fresh));
    table.sent();
    let new = table.drive(0);
    assert_eq!(table.sent(), ["evict 2 of 1"], "nobody waits for it");
    let token = table.task(new).expect("what waited is not lost");
    assert_eq!(
        table.sent(),
        ["failure for 4 to 1"],
        "it comes back replayed"
    );
    table.complete(token);
    assert_eq!(table.sent(), ["commands for 6 to 1"]);
    let replaced = table.board.find(old, &mut table.orders);
    assert!(matches!(replaced, Found::Next(Next::Replaced)));
}

#[test]
fn a_slow_slice_of_a_replaced_thread_still_counts() {
    let mut table = Table::new();
    let old = table.drive(0);
    table.arrive(1, RUN, first(RUN));
    let token = table.task(old).expect("a task");
    table.drive(0);
    assert_eq!(table.sent(), Vec::<String>::new());
    table.complete(token);
    assert_eq!(table.sent(), ["commands for 2 to 1"]);
    table.answered(RUN);
    assert_eq!(
        table.sent(),
        ["evict 2 of 1"],
        "its instance is out of reach"
    );
}

#[test]
fn a_stuck_run_is_failed_evicted_and_waits_for_its_thread() {
    let mut table = Table::new();
    let lane = table.drive(0);
    table.arrive(1, RUN, first(RUN));
    let token = table.task(lane).expect("a task");
    table.give_up(token);
    assert_eq!(table.sent(), ["failure for 2 to 1", "evict 2 of 1"]);
    table.answered(RUN);
    table.arrive(1, RUN, forget());
    assert_eq!(table.sent(), ["forgotten for 2 to 1"], "at once");
    table.arrive(1, RUN, first(RUN));
    assert!(table.task(lane).is_none(), "its thread is still inside");
    table.complete(token);
    assert_eq!(table.sent(), Vec::<String>::new(), "it is thrown away");
    assert!(table.task(lane).is_some(), "now it is tried again");
}

#[test]
fn what_an_older_handle_says_does_not_touch_the_instance() {
    let mut table = Table::new();
    let lane = table.drive(0);
    table.arrive(2, RUN, first(RUN));
    let token = table.task(lane).expect("a task");
    table.complete(token);
    table.answered(RUN);
    table.sent();
    table.arrive(1, RUN, forget());
    table.arrive(1, RUN, news());
    assert_eq!(
        table.sent(),
        ["forgotten for 2 to 1", "failure for 2 to 1"],
        "each is answered where it came from"
    );
    table.arrive(2, RUN, news());
    assert!(table.task(lane).is_some(), "the instance is as it was");
}

#[test]
fn a_run_is_forgotten_when_the_backend_has_it_evicted() {
    let mut table = Table::new();
    let lane = table.drive(0);
    table.arrive(1, RUN, first(RUN));
    let token = table.task(lane).expect("a task");
    table.complete(token);
    table.answered(RUN);
    table.arrive(1, RUN, forget());
    table.sent();
    let next = table.board.find(lane, &mut table.orders);
    assert!(matches!(next, Found::Next(Next::Evict(RUN))));
    assert_eq!(table.sent(), ["forgotten for 2 to 1"]);
    table.answered(RUN);
    assert_eq!(table.board.len(), 0);
    table.arrive(1, RUN, news());
    assert!(table.task(lane).is_none());
    assert_eq!(table.sent(), ["failure for 2 to 1"], "there is no instance");
}

#[test]
fn a_run_stays_with_its_lane_and_both_lanes_are_used() {
    let board = Board::new("q".into(), 2);
    let lanes: Vec<usize> = (0..100).map(|n| board.lane_of(RunId::v7(7, n))).collect();
    let again: Vec<usize> = (0..100).map(|n| board.lane_of(RunId::v7(7, n))).collect();
    assert_eq!(lanes, again);
    assert!(lanes.contains(&0) && lanes.contains(&1));
}
