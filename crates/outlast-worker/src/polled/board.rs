//! What a polled backend has sent and engine threads have not answered yet: per run, and in the
//! order of each lane.
//!
//! Decides and remembers; calls nobody. What is to be sent comes out as [`Order`]s, for whoever
//! holds no lock. A run always goes to the same lane. When a lane is taken over, what waits in it
//! goes to the new thread; instances do not, so their runs are evicted and come back replayed.

use std::collections::{BTreeMap, VecDeque};

use outlast_model::event::TaskFailedCause;
use outlast_model::task::{Query, Rounds, RunNo, TaskAnswer, TaskToken, WorkflowTask};
use outlast_model::{Epoch, Failure, Job, QueueName, RunId, Timestamp, WorkflowId, WorkflowType};

use super::order::{Answer, Order, completion, given_back, lost, nothing_new};
use super::run::{Input, State, Step};
use crate::handle::{Completion, PolledActivation, PolledQuery, PolledWork};
use crate::owner::Polled;
use crate::port::{Lane, Next};

/// What an engine thread finds.
pub(super) enum Found {
    /// This.
    Next(Next),
    /// Nothing; something may come.
    Nothing,
}

/// All runs of a queue.
pub(super) struct Board {
    queue: QueueName,
    lanes: Vec<LaneState>,
    runs: BTreeMap<RunId, Run>,
    /// Tasks with a thread, by turn.
    out: BTreeMap<u64, RunId>,
    turns: u64,
    is_over: bool,
}

#[derive(Default)]
struct LaneState {
    driver: u64,
    ready: VecDeque<RunId>,
}

#[derive(Default)]
struct Run {
    state: State,
    /// The handle it came through last.
    generation: u64,
    names: Option<(WorkflowId, WorkflowType)>,
    /// The thread that has its instance.
    holder: Option<u64>,
    /// Handed out, but no thread has taken it.
    ready: Option<PolledWork>,
    /// The backend's names of the questions under way.
    asked: Vec<String>,
    /// When its newest activation was, and how long its history.
    seen: (Timestamp, u64),
    waiting: VecDeque<Polled<PolledWork>>,
}

impl Board {
    pub(super) fn new(queue: QueueName, lanes: usize) -> Self {
        let lanes = (0..lanes.max(1)).map(|_| LaneState::default()).collect();
        Self {
            queue,
            lanes,
            runs: BTreeMap::new(),
            out: BTreeMap::new(),
            turns: 0,
            is_over: false,
        }
    }

    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// The lane of a run, for ever.
    pub(super) fn lane_of(&self, run_id: RunId) -> usize {
        lane_among(run_id, self.lanes.len())
    }

    /// A thread takes a lane over. The instances of whoever drove it are out of reach.
    pub(super) fn drive(&mut self, shard: usize, orders: &mut Vec<Order>) -> Lane {
        let driver = match self.lanes.get_mut(shard) {
            Some(lane) => {
                lane.driver += 1;
                lane.driver
            }
            None => 0,
        };
        let lanes = self.lanes.len();
        for (run_id, run) in &mut self.runs {
            if lane_among(*run_id, lanes) == shard && run.state == State::Idle {
                if run.holder.take().is_none() {
                    continue;
                }
                let generation = run.generation;
                orders.push(Order::Evict {
                    generation,
                    run_id: *run_id,
                });
            }
        }
        Lane { shard, driver }
    }

    /// The backend sent something.
    pub(super) fn arrive(&mut self, polled: Polled<PolledActivation>, orders: &mut Vec<Order>) {
        let Polled { generation, item } = polled;
        let PolledActivation { run_id, work } = item;
        let run = self.runs.entry(run_id).or_default();
        if generation < run.generation {
            // A newer handle has this run: what the old one says is about another instance.
            orders.push(Order::Answer(Answer {
                generation,
                run_id,
                completion: given_back(&work),
                is_awaited: false,
            }));
            return;
        }
        self.hand_out(
            run_id,
            Polled {
                generation,
                item: work,
            },
            orders,
        );
    }

    fn hand_out(&mut self, run_id: RunId, polled: Polled<PolledWork>, orders: &mut Vec<Order>) {
        let shard = self.lane_of(run_id);
        let run = self.runs.entry(run_id).or_default();
        let input = match &polled.item {
            PolledWork::Evict { .. } => Input::ArriveEviction,
            PolledWork::Activate(_) | PolledWork::Ask(_) => Input::Arrive,
        };
        let (state, step) = run.state.apply(input);
        run.state = state;
        match step {
            Step::HandOut => {
                run.generation = polled.generation;
                run.ready = Some(polled.item);
                if let Some(lane) = self.lanes.get_mut(shard) {
                    lane.ready.push_back(run_id);
                }
                orders.push(Order::Ring(shard));
            }
            Step::SendForgotten => {
                run.holder = None;
                orders.push(Order::Answer(Answer {
                    generation: polled.generation,
                    run_id,
                    completion: Completion::Evicted,
                    is_awaited: false,
                }));
            }
            Step::Wait | Step::Send | Step::Next | Step::Nothing | Step::Refuse => {
                run.waiting.push_back(polled);
            }
        }
    }

    /// What a thread does next.
    pub(super) fn find(&mut self, lane: Lane, orders: &mut Vec<Order>) -> Found {
        loop {
            let Some(state) = self.lanes.get_mut(lane.shard) else {
                return Found::Next(Next::Shutdown);
            };
            if state.driver != lane.driver {
                return Found::Next(Next::Replaced);
            }
            let Some(run_id) = state.ready.pop_front() else {
                return if self.is_over {
                    Found::Next(Next::Shutdown)
                } else {
                    Found::Nothing
                };
            };
            if let Some(next) = self.take(lane, run_id, orders) {
                return Found::Next(next);
            }
        }
    }

    /// Hands the run's work to the thread; none if it can only be failed.
    fn take(&mut self, lane: Lane, run_id: RunId, orders: &mut Vec<Order>) -> Option<Next> {
        let run = self.runs.get_mut(&run_id)?;
        let (activation, queries) = match run.ready.take()? {
            PolledWork::Evict { .. } => {
                run.holder = None;
                run.names = None;
                self.settle(run_id, Completion::Evicted, orders);
                return Some(Next::Evict(run_id));
            }
            PolledWork::Activate(activation) => {
                if let Some(Job::Initialize(started)) = activation.jobs.first() {
                    run.names = Some((started.workflow_id.clone(), started.workflow_type.clone()));
                    run.holder = Some(lane.driver);
                }
                run.seen = (activation.now, activation.history_events);
                (activation, Vec::new())
            }
            PolledWork::Ask(queries) => (nothing_new(run.seen), queries),
        };
        let is_here = run.holder == Some(lane.driver);
        let Some((workflow_id, workflow_type)) = run.names.clone().filter(|_| is_here) else {
            run.holder = None;
            self.settle(run_id, lost(), orders);
            return None;
        };
        let (asked, queries): (Vec<String>, Vec<Query>) = queries
            .into_iter()
            .map(|PolledQuery { id, query }| (id, query))
            .unzip();
        run.asked = asked;
        self.turns += 1;
        self.out.insert(self.turns, run_id);
        Some(Next::Task(Box::new(WorkflowTask {
            token: TaskToken {
                run: RunNo(0),
                epoch: Epoch(0),
                turn: self.turns,
            },
            run_id,
            workflow_id,
            workflow_type,
            queue: self.queue.clone(),
            activation,
            history: None,
            queries,
            rounds: Rounds::Backend,
        })))
    }

    /// A thread answers.
    pub(super) fn complete(
        &mut self,
        token: TaskToken,
        answer: TaskAnswer,
        orders: &mut Vec<Order>,
    ) {
        let Some(run_id) = self.out.remove(&token.turn) else {
            orders.push(Order::Refused);
            return;
        };
        let Some(run) = self.runs.get_mut(&run_id) else {
            return;
        };
        if let TaskAnswer::Failed { .. } = &answer {
            run.holder = None;
        }
        let completion = completion(answer, std::mem::take(&mut run.asked));
        self.settle(run_id, completion, orders);
    }

    /// The watchdog answers for a thread.
    pub(super) fn give_up(&mut self, token: TaskToken, failure: Failure, orders: &mut Vec<Order>) {
        let Some(run_id) = self.out.get(&token.turn).copied() else {
            return;
        };
        // Said twice, by the watchdog and by the thread that has come back since, it counts once.
        let is_handed = |run: &&mut Run| run.state == State::Handed;
        let Some(run) = self.runs.get_mut(&run_id).filter(is_handed) else {
            return;
        };
        let completion = Completion::Failed {
            cause: TaskFailedCause::Stuck,
            failure,
        };
        run.holder = None;
        self.input(run_id, Input::GiveUp, Some(completion), orders);
        if let Some(run) = self.runs.get(&run_id) {
            let generation = run.generation;
            orders.push(Order::Evict { generation, run_id });
        }
    }

    /// The backend has taken an answer, or never will.
    pub(super) fn answered(&mut self, run_id: RunId, orders: &mut Vec<Order>) {
        self.input(run_id, Input::Answered, None, orders);
    }

    /// A thread has dropped an instance.
    pub(super) fn evicted(&mut self, run_id: RunId, orders: &mut Vec<Order>) {
        if let Some(run) = self.runs.get_mut(&run_id) {
            run.holder = None;
            let generation = run.generation;
            orders.push(Order::Evict { generation, run_id });
        }
    }

    /// Nothing will arrive any more: threads leave once nothing waits.
    pub(super) fn close(&mut self) {
        self.is_over = true;
    }

    /// How many runs are known.
    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    fn settle(&mut self, run_id: RunId, completion: Completion, orders: &mut Vec<Order>) {
        self.input(run_id, Input::Answer, Some(completion), orders);
    }

    fn input(
        &mut self,
        run_id: RunId,
        input: Input,
        completion: Option<Completion>,
        orders: &mut Vec<Order>,
    ) {
        let Some(run) = self.runs.get_mut(&run_id) else {
            return;
        };
        let (state, step) = run.state.apply(input);
        run.state = state;
        match step {
            Step::Send => {
                if let Some(completion) = completion {
                    orders.push(Order::Answer(Answer {
                        generation: run.generation,
                        run_id,
                        completion,
                        is_awaited: true,
                    }));
                }
            }
            Step::Next => self.go_on(run_id, orders),
            Step::Refuse => orders.push(Order::Refused),
            Step::HandOut | Step::Wait | Step::SendForgotten | Step::Nothing => {}
        }
    }

    /// The run is idle: what waits is handed out; who has nothing left is forgotten.
    fn go_on(&mut self, run_id: RunId, orders: &mut Vec<Order>) {
        let driver = self.driver_of(run_id);
        let Some(run) = self.runs.get_mut(&run_id) else {
            return;
        };
        if let Some(next) = run.waiting.pop_front() {
            self.hand_out(run_id, next, orders);
        } else if run.names.is_none() {
            self.runs.remove(&run_id);
        } else if run.holder.is_some_and(|holder| Some(holder) != driver) {
            run.holder = None;
            let generation = run.generation;
            orders.push(Order::Evict { generation, run_id });
        }
    }

    fn driver_of(&self, run_id: RunId) -> Option<u64> {
        let lane = self.lanes.get(self.lane_of(run_id));
        lane.map(|lane| lane.driver)
    }
}

/// Stable: the instance of a run is with one thread.
fn lane_among(run_id: RunId, lanes: usize) -> usize {
    let folded = run_id.0 ^ (run_id.0 >> 64);
    usize::try_from(folded % lanes as u128).unwrap_or(0)
}

#[cfg(test)]
mod tests;
