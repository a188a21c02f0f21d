//! Questions about the state of a run. They wait until its code is at rest, change nothing, and
//! are answered when everything the state came from is durable.

use std::collections::VecDeque;

use outlast_model::job::Activation;
use outlast_model::task::{Rounds, TaskAnswer, TaskToken, WorkflowTask};
use outlast_model::view::RunRef;
use outlast_model::{Failure, Payload, Refusal, Timestamp};

use super::Shard;
use crate::entry::{Entry, Question};
use crate::mail::Ack;
use crate::points;
use crate::read;
use crate::store::{CommitNo, RunRow, Store};

/// Questions about runs that have ended: answered by replay, whoever ran them.
#[derive(Default)]
pub(super) struct ClosedQueries {
    waiting: VecDeque<(RunRow, Question)>,
    /// The run's end is not durable yet; asked again when it is.
    undurable: VecDeque<(CommitNo, RunRef, Question)>,
    asked: Option<(u64, RunRow, Question)>,
    /// Whether the last slice was theirs: the next is for an open run, if one is ready.
    pub(super) had_turn: bool,
}

impl std::fmt::Debug for ClosedQueries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClosedQueries")
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}

impl ClosedQueries {
    pub(super) fn waits_for_disk(&self) -> bool {
        !self.undurable.is_empty()
    }

    /// Questions about runs whose end was to be in one of these commits.
    pub(super) fn take_undurable(&mut self, ends: &[CommitNo]) -> Vec<(RunRef, Question)> {
        let all = std::mem::take(&mut self.undurable);
        let is_theirs = |(commit, ..): &(CommitNo, RunRef, Question)| ends.contains(commit);
        let (theirs, others) = all.into_iter().partition(is_theirs);
        self.undurable = others;
        let theirs: VecDeque<(CommitNo, RunRef, Question)> = theirs;
        theirs
            .into_iter()
            .map(|(_, run, question)| (run, question))
            .collect()
    }

    /// The store failed, or the process goes down: nobody will answer.
    pub(super) fn refuse(&mut self, refusal: &Refusal) {
        let asked = self.asked.take().map(|(_, _, question)| question);
        let waiting = self.waiting.drain(..).map(|(_, question)| question);
        let undurable = self.undurable.drain(..).map(|(_, _, question)| question);
        for question in waiting.chain(undurable).chain(asked) {
            (question.reply)(Err(refusal.clone()));
        }
    }
}

impl Shard {
    /// A question arrives.
    pub(super) fn query(&mut self, run: RunRef, question: Question, store: &dyn Store) {
        if let Some(no) = self.open(&run) {
            if let Some(entry) = self.runs.get_mut(&no) {
                entry.queries.push(question);
            }
            return self.enqueue_no(no);
        }
        if let Some(head) = self.closing_run(&run).map(|entry| entry.row.state.head) {
            let undurable = &mut self.closed_queries.undurable;
            return undurable.push_back((head, run, question));
        }
        match read::row_of(store, &run) {
            Ok(row) => self.closed_queries.waiting.push_back((row, question)),
            Err(refusal) => (question.reply)(Err(refusal)),
        }
    }

    /// The run has ended before it was asked: it is asked when that is durable.
    pub(super) fn queries_end(&mut self, entry: &mut Entry) {
        let run = RunRef {
            workflow_id: entry.row.workflow_id.clone(),
            run_id: Some(entry.row.run_id),
        };
        let head = entry.row.state.head;
        let questions = entry.queries.drain(..).chain(entry.asked.drain(..));
        let undurable = &mut self.closed_queries.undurable;
        undurable.extend(questions.map(|question| (head, run.clone(), question)));
    }

    /// Questions about runs whose end has become durable.
    pub(super) fn settled_queries(&mut self, store: &dyn Store) {
        let durable = self.durable_no();
        let all = std::mem::take(&mut self.closed_queries.undurable);
        for (commit, run, question) in all {
            if commit <= durable {
                self.query(run, question, store);
            } else {
                let undurable = &mut self.closed_queries.undurable;
                undurable.push_back((commit, run, question));
            }
        }
    }

    /// The next question about a run that has ended, for whoever runs code.
    pub(super) fn ask_closed(&mut self, now: Timestamp, store: &dyn Store) -> Option<WorkflowTask> {
        if !self.closed_queries.undurable.is_empty() {
            self.settled_queries(store);
        }
        if self.closed_queries.asked.is_some() {
            return None;
        }
        while let Some((row, question)) = self.closed_queries.waiting.pop_front() {
            let capabilities = &self.parts.capabilities;
            if !capabilities.has_workflow(&row.queue, &row.workflow_type) {
                let name = row.workflow_type.as_str().to_owned();
                let kind = "workflow";
                (question.reply)(Err(Refusal::NotRegistered { kind, name }));
                continue;
            }
            let history = match read::recall(store, row.no) {
                Ok(history) => history,
                Err(error) => {
                    (question.reply)(Err(read::unreadable(row.run_id, &error)));
                    continue;
                }
            };
            self.turn += 1;
            let task = WorkflowTask {
                token: TaskToken {
                    run: row.no,
                    epoch: row.state.epoch,
                    turn: self.turn,
                },
                run_id: row.run_id,
                workflow_id: row.workflow_id.clone(),
                workflow_type: row.workflow_type.clone(),
                queue: row.queue.clone(),
                activation: nothing_new(now, row.state.events),
                history: Some(history),
                queries: vec![question.query.clone()],
                rounds: Rounds::Runtime,
            };
            self.closed_queries.asked = Some((self.turn, row, question));
            return Some(task);
        }
        None
    }

    /// An answer about a run that has ended. `false`: it is none.
    pub(super) fn closed_answered(&mut self, token: TaskToken, answer: &TaskAnswer) -> bool {
        let asked = &mut self.closed_queries.asked;
        let Some((_, row, question)) = asked.take_if(|(turn, ..)| *turn == token.turn) else {
            return false;
        };
        let answer = first_answer(&row, &question, answer);
        self.batch
            .acks
            .push((row.no, Ack::Query(question.reply, answer)));
        true
    }

    /// Asks the code of an open run, which is at rest.
    pub(super) fn ask(
        &mut self,
        entry: &mut Entry,
        history: Option<Vec<outlast_model::Event>>,
        now: Timestamp,
    ) -> Option<WorkflowTask> {
        let mut task = self.hand_out(entry, crate::entry::Path::Query, history, now)?;
        let waiting = entry.queries.len();
        let count = match std::mem::take(&mut entry.patient) {
            0 => waiting,
            patient => patient.min(waiting),
        };
        entry.asked = entry.queries.drain(..count).collect();
        task.queries = entry.asked.iter().map(|q| q.query.clone()).collect();
        points::pass("query.asked");
        Some(task)
    }

    /// The code of an open run has answered.
    pub(super) fn queried(&mut self, entry: &mut Entry, answer: TaskAnswer) {
        let asked = std::mem::take(&mut entry.asked);
        let answers: Vec<Result<Payload, Failure>> = match answer {
            TaskAnswer::Queried(answers) => answers,
            TaskAnswer::Failed { failure, .. } => {
                for question in asked {
                    let refusal = not_ready(&entry.row, failure.to_string());
                    let ack = Ack::Query(question.reply, Err(refusal));
                    entry.acks.push(ack);
                }
                return;
            }
            TaskAnswer::Completed { .. } => Vec::new(),
        };
        let mut answers = answers.into_iter();
        for question in asked {
            let answer = judged(&entry.row, &question, answers.next());
            let ack = Ack::Query(question.reply, answer);
            entry.acks.push(ack);
        }
    }
}

/// An activation that only brings a run back.
pub(super) fn nothing_new(now: Timestamp, events: u64) -> Activation {
    Activation {
        now,
        is_replaying: true,
        history_events: events,
        suggest_continue_as_new: false,
        jobs: Vec::new(),
    }
}

fn first_answer(
    row: &RunRow,
    question: &Question,
    answer: &TaskAnswer,
) -> Result<Payload, Refusal> {
    match answer {
        TaskAnswer::Queried(answers) => judged(row, question, answers.first().cloned()),
        TaskAnswer::Failed { failure, .. } => Err(not_ready(row, failure.to_string())),
        TaskAnswer::Completed { .. } => judged(row, question, None),
    }
}

fn judged(
    row: &RunRow,
    question: &Question,
    answer: Option<Result<Payload, Failure>>,
) -> Result<Payload, Refusal> {
    match answer {
        Some(Ok(payload)) => Ok(payload),
        Some(Err(failure)) => Err(Refusal::QueryFailed {
            workflow_id: row.workflow_id.clone(),
            query: question.query.name.as_str().to_owned(),
            failure: Box::new(failure),
        }),
        None => Err(not_ready(row, "its code gave no answer".into())),
    }
}

/// The run cannot answer.
pub(super) fn not_ready(row: &RunRow, why: String) -> Refusal {
    Refusal::NotReady {
        workflow_id: row.workflow_id.clone(),
        run_id: row.run_id,
        why,
    }
}
