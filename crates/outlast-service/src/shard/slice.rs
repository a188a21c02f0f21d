//! Workflow code gets its turn, and its answer is applied.

use outlast_engine::{Input, Run};
use outlast_model::event::TaskFailedCause;
use outlast_model::job::Activation;
use outlast_model::post::PostBody;
use outlast_model::task::{Rounds, TaskAnswer, TaskToken, WorkflowTask};
use outlast_model::{Command, Epoch, Event, Failure, Timestamp, limits};

use super::Shard;
use super::query::not_ready;
use super::visit::wants_task;
use crate::entry::{Arming, Entry, Letter, Path, Slice};
use crate::points;
use crate::read;
use crate::store::{ReadError, Store};

/// Whose thread answered a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// The one that drives the shard: it keeps the instance.
    Current,
    /// One that was replaced: its instances are gone.
    Replaced,
}

impl Shard {
    /// Gives the run's code a slice if it has something to see; else seals what was decided.
    pub(super) fn slice_for(
        &mut self,
        entry: &mut Entry,
        now: Timestamp,
        store: &dyn Store,
    ) -> Option<WorkflowTask> {
        if self.is_draining {
            // The next process will run it.
            self.seal(entry, now);
            return None;
        }
        let run = entry.run.as_ref()?;
        let is_task = wants_task(run, now) && self.has_code(run);
        // Code that cannot go on comes back with its task, when that is tried again.
        let is_rebuild = entry.needs_instance
            && !entry.is_cached
            && run.task().streak().is_none()
            && self.has_type(run);
        let needs_history = run.has_history() && !entry.is_cached;
        let is_query = !is_task && !entry.queries.is_empty() && self.may_ask(entry);
        if !is_task && !is_rebuild && !is_query {
            self.is_no_suspect(entry.row.no);
            self.seal(entry, now);
            return None;
        }
        if entry.arming != Arming::Unneeded && !self.is_armed(entry, now) {
            self.seal(entry, now);
            return None;
        }
        if is_task && !needs_history && entry.arming == Arming::Unneeded {
            if self.takes_slice_slot(entry, now) {
                return self.hand_out(entry, Path::Fast, None, now);
            }
            self.starve(entry, now);
            return None;
        }
        // The slow path: what was decided is committed and acknowledged on its own, and the code
        // is brought back from what is durable.
        self.seal(entry, now);
        if needs_history && !self.is_durable(entry.row.state.head) {
            entry.awaits_disk = true;
            self.deferred.push((entry.row.state.head, entry.row.no));
            return None;
        }
        if !self.takes_slice_slot(entry, now) {
            return None;
        }
        let history = match self.history(entry, needs_history, store) {
            Ok(history) => history,
            Err(error) => {
                self.give_slice_slot(entry);
                self.unread(entry, &error, now);
                return None;
            }
        };
        if is_query && !is_rebuild {
            return self.ask(entry, history, now);
        }
        let path = if is_task { Path::Slow } else { Path::Rebuild };
        self.hand_out(entry, path, history, now)
    }

    /// Whether its code can be asked; if it never can, whoever asks is told.
    fn may_ask(&mut self, entry: &mut Entry) -> bool {
        let Some(run) = entry.run.as_ref() else {
            return false;
        };
        let why = if !self.has_type(run) {
            "no worker here has its type"
        } else if is_quarantined(run) {
            "the process died in its code too often"
        } else if run.has_history() {
            return true;
        } else if run.task().streak().is_some() {
            "its code has failed before it came to rest for the first time"
        } else {
            return false;
        };
        for question in entry.queries.drain(..) {
            (question.reply)(Err(not_ready(&entry.row, why.into())));
        }
        false
    }

    pub(super) fn has_type(&self, run: &Run) -> bool {
        let started = run.started();
        let capabilities = &self.parts.capabilities;
        capabilities.has_workflow(&started.queue, &started.workflow_type)
    }

    fn history(
        &self,
        entry: &Entry,
        is_needed: bool,
        store: &dyn Store,
    ) -> Result<Option<Vec<Event>>, ReadError> {
        if !is_needed {
            return Ok(None);
        }
        read::recall(store, entry.row.no).map(Some)
    }

    pub(super) fn hand_out(
        &mut self,
        entry: &mut Entry,
        path: Path,
        history: Option<Vec<Event>>,
        now: Timestamp,
    ) -> Option<WorkflowTask> {
        self.turn += 1;
        let turn = self.turn;
        let run = entry.run.as_mut()?;
        let is_task = match path {
            Path::Fast | Path::Slow => true,
            Path::Rebuild | Path::Query => false,
        };
        let started = if is_task { run.slice_begins(now) } else { now };
        if is_task {
            entry.patient = entry.queries.len();
        }
        let jobs = if is_task {
            run.unseen().to_vec()
        } else {
            Vec::new()
        };
        // The number that TaskStarted will have: what replay will say. A task that failed before
        // is scheduled anew first.
        let is_retried = run.task().streak().is_some();
        let events = run.events() + 1 + u64::from(is_retried);
        let task = WorkflowTask {
            token: TaskToken {
                run: entry.row.no,
                epoch: run.epoch(),
                turn,
            },
            run_id: entry.row.run_id,
            workflow_id: entry.row.workflow_id.clone(),
            workflow_type: entry.row.workflow_type.clone(),
            queue: entry.row.queue.clone(),
            activation: Activation {
                now: started,
                is_replaying: false,
                history_events: events,
                suggest_continue_as_new: events >= limits::HISTORY_SUGGEST_EVENTS,
                jobs,
            },
            history,
            queries: Vec::new(),
            rounds: Rounds::Runtime,
        };
        points::pass(if is_task {
            "slice.handed-out"
        } else {
            "slice.rebuild"
        });
        entry.slice = Some(Slice {
            turn,
            started,
            path,
        });
        if !entry.mailbox.is_empty() {
            self.enqueue(entry);
        }
        Some(task)
    }

    /// The answer to a task. One with an old token is thrown away.
    pub fn complete(
        &mut self,
        token: TaskToken,
        answer: TaskAnswer,
        driver: Driver,
        now: Timestamp,
    ) {
        if self.closed_answered(token, &answer) {
            return;
        }
        let Some(mut entry) = self.runs.remove(&token.run) else {
            return;
        };
        match entry.slice {
            Some(slice) if slice.turn == token.turn && is_current(&entry, token.epoch) => {
                entry.slice = None;
                self.answered(&mut entry, slice, answer, driver, now);
            }
            Some(_) | None => self.too_late(&mut entry, token),
        }
        self.put_back(entry);
    }

    fn answered(
        &mut self,
        entry: &mut Entry,
        slice: Slice,
        answer: TaskAnswer,
        driver: Driver,
        now: Timestamp,
    ) {
        self.slice_is_over(entry);
        let keeps_instance = match &answer {
            TaskAnswer::Completed { commands, .. } => {
                !commands.last().is_some_and(Command::is_closing)
            }
            TaskAnswer::Queried(_) => true,
            TaskAnswer::Failed { .. } => false,
        };
        entry.is_cached = keeps_instance && driver == Driver::Current;
        let is_back = keeps_instance && std::mem::take(&mut entry.needs_instance);
        match slice.path {
            Path::Rebuild => return self.rebuilt(entry, answer, now),
            Path::Query => return self.at_rest_again(entry, answer, is_back, now),
            Path::Fast | Path::Slow => {}
        }
        let asks =
            !matches!(&answer, TaskAnswer::Completed { commands, .. } if commands.is_empty());
        let is_closing = !keeps_instance && matches!(answer, TaskAnswer::Completed { .. });
        if is_closing {
            self.let_messages_in(entry, slice, now);
        }
        let started = slice.started;
        self.apply_input(entry, Input::Task { started, answer }, now);
        if std::mem::take(&mut entry.decision.round_again) {
            entry.is_cached = false;
            entry.rounds += u32::from(is_closing);
        }
        if is_back {
            self.hand_out_steps(entry, now);
        } else {
            self.hand_out_ready(entry, now);
        }
        if asks || slice.path != Path::Fast {
            self.seal(entry, now);
        } else {
            self.gather(entry, now);
        }
        self.go_on(entry, now);
    }

    /// Questions were answered; whatever came meanwhile goes on.
    fn at_rest_again(
        &mut self,
        entry: &mut Entry,
        answer: TaskAnswer,
        is_back: bool,
        now: Timestamp,
    ) {
        self.queried(entry, answer);
        if is_back {
            self.hand_out_steps(entry, now);
        }
        if entry.run.as_ref().is_some_and(|run| run.crashes() > 0) {
            self.apply_input(entry, Input::DisarmSlice, now);
        }
        self.seal(entry, now);
        self.go_on(entry, now);
    }

    /// The instance is back; steps that waited for it may run now.
    fn rebuilt(&mut self, entry: &mut Entry, answer: TaskAnswer, now: Timestamp) {
        if let TaskAnswer::Failed { cause, failure } = answer {
            // The code that has the steps cannot be brought back: the run is in trouble, and says
            // so as a failed task would.
            self.fail_without_slice(entry, TaskAnswer::Failed { cause, failure }, now);
        } else {
            if entry.run.as_ref().is_some_and(|run| run.crashes() > 0) {
                self.apply_input(entry, Input::DisarmSlice, now);
            }
            self.hand_out_steps(entry, now);
        }
        self.seal(entry, now);
        self.go_on(entry, now);
    }

    /// A run that wants to end sees messages first that nobody has acknowledged yet, at most
    /// twice; later ones hear that it has ended.
    fn let_messages_in(&mut self, entry: &mut Entry, slice: Slice, now: Timestamp) {
        if slice.path != Path::Fast || entry.rounds >= limits::UNHANDLED_ROUNDS {
            return;
        }
        let (messages, rest): (Vec<Letter>, Vec<Letter>) = entry
            .mailbox
            .drain(..)
            .partition(|letter| is_message(&letter.input));
        entry.mailbox = messages.into();
        // They have room of their own: none hears of the end because of outcomes before it.
        entry.mail_bytes = 0;
        self.apply_mail(entry, now);
        entry.mailbox.extend(rest);
    }

    fn too_late(&mut self, entry: &mut Entry, token: TaskToken) {
        if entry.stuck_turn == Some(token.turn) {
            // The thread came back after all: the run may try again, in its time.
            entry.stuck_turn = None;
            entry.mailbox.push_back(Letter::own(Input::Returned));
            self.enqueue(entry);
        }
    }

    /// After a slice: more mail, or a task that is already scheduled again.
    fn go_on(&mut self, entry: &mut Entry, now: Timestamp) {
        let has_task = entry
            .run
            .as_ref()
            .is_some_and(|run| run.status().is_open() && wants_task(run, now));
        if has_task || !entry.mailbox.is_empty() || !entry.queries.is_empty() {
            self.enqueue(entry);
        }
    }

    /// The slice of this task takes long: what it was given is committed and acknowledged, and
    /// what arrives from now on is buffered on disk.
    pub fn go_slow(&mut self, token: TaskToken, now: Timestamp) {
        let Some(mut entry) = self.runs.remove(&token.run) else {
            return;
        };
        if let Some(slice) = &mut entry.slice
            && slice.turn == token.turn
            && slice.path == Path::Fast
        {
            slice.path = Path::Slow;
            self.apply_input(&mut entry, Input::Admit, now);
            self.seal(&mut entry, now);
            self.apply_mail(&mut entry, now);
            self.seal(&mut entry, now);
        }
        self.put_back(entry);
    }

    /// The slice of this task does not come back: its task fails, and whatever its thread still
    /// produces is thrown away. Says whether there was such a slice: it may be said twice.
    pub fn give_up(&mut self, token: TaskToken, failure: Failure, now: Timestamp) -> bool {
        let answer = TaskAnswer::Failed {
            cause: TaskFailedCause::Stuck,
            failure,
        };
        if self.closed_answered(token, &answer) {
            return true;
        }
        let Some(mut entry) = self.runs.remove(&token.run) else {
            return false;
        };
        let slice = entry.slice.filter(|slice| slice.turn == token.turn);
        if let Some(slice) = slice {
            entry.slice = None;
            entry.is_cached = false;
            self.slice_is_over(&mut entry);
            match slice.path {
                // A question that never ends costs its askers, not the run.
                Path::Query => self.at_rest_again(&mut entry, answer, false, now),
                Path::Rebuild => {
                    entry.stuck_turn = Some(token.turn);
                    self.rebuilt(&mut entry, answer, now);
                }
                Path::Fast | Path::Slow => {
                    entry.stuck_turn = Some(token.turn);
                    let started = slice.started;
                    self.apply_input(&mut entry, Input::Task { started, answer }, now);
                    self.seal(&mut entry, now);
                    self.go_on(&mut entry, now);
                }
            }
        }
        self.put_back(entry);
        slice.is_some()
    }
}

/// Whether its code must not run, not even to answer.
fn is_quarantined(run: &Run) -> bool {
    let streak = run.task().streak();
    streak.is_some_and(|s| s.cause == TaskFailedCause::Quarantined && s.next_try.is_none())
}

fn is_current(entry: &Entry, epoch: Epoch) -> bool {
    entry.run.as_ref().is_some_and(|run| run.epoch() == epoch)
}

pub(super) fn is_message(input: &Input) -> bool {
    match input {
        Input::Signal { .. } | Input::Cancel { .. } | Input::Update { .. } => true,
        Input::Post(post) => match &post.body {
            PostBody::Signal { .. } | PostBody::Cancel { .. } => true,
            PostBody::StartChild(_)
            | PostBody::Terminate { .. }
            | PostBody::ChildStarted { .. }
            | PostBody::ChildEnded { .. }
            | PostBody::SignalDelivered { .. }
            | PostBody::CancelDelivered { .. } => false,
        },
        Input::Admit
        | Input::Terminate { .. }
        | Input::Outcome(_)
        | Input::Heartbeat { .. }
        | Input::Answer { .. }
        | Input::Report { .. }
        | Input::Due
        | Input::HandOut { .. }
        | Input::Recover { .. }
        | Input::Retry
        | Input::Returned
        | Input::ForeignWake
        | Input::ArmSlice
        | Input::DisarmSlice
        | Input::Task { .. } => false,
    }
}
