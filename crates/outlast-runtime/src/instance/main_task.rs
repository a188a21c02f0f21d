//! From the first line of main to the closing command.
//!
//! Main is created with the instance and polled after the handlers of the same activation. When
//! it has returned, its work is undone if it failed or was cancelled, handlers that can run do,
//! and the commands of the last slice end with the one that closes the run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use outlast_model::Command;
use outlast_model::event::Started;
use outlast_model::job::UpdateJob;

use super::{Instance, Phase};
use crate::context::Context;
use crate::executor::Body;
use crate::failure::{TaskFailure, Whence, unknown_handler};
use crate::program::{HandlerEnd, MainOutcome, Program, SliceWatch};
use crate::shared::Commands;
use crate::slab::{Entry, Presence};
use crate::undo::Reach;
use crate::{leftover, undo};

/// The name of the first task.
const MAIN: &str = "main";

impl Instance {
    /// Calls the program. Main itself is polled after the handlers of the same activation.
    pub(super) fn create_main(
        &mut self,
        program: &dyn Program,
        started: &Started,
        watch: &dyn SliceWatch,
    ) -> Result<(), TaskFailure> {
        let shared = Rc::clone(&self.shared);
        // Before the program can spawn: main is the first task.
        let (id, wake) = shared.new_task();
        shared.begin_poll(&shared.main_scope);
        watch.enter(MAIN, None)?;
        let made = {
            let _polling = Entry::new(shared.address, Presence::Polling);
            let ctx = Context::at(shared.address);
            catch_unwind(AssertUnwindSafe(|| program.start(ctx, started)))
        };
        let whence = Whence {
            branch: MAIN,
            last_call: None,
        };
        let main = made
            .map_err(|payload| TaskFailure::panic(payload, &whence))?
            .map_err(TaskFailure::refused_input)?;
        shared.end_poll();
        let (body, scope) = (Body::Main(main), Rc::clone(&shared.main_scope));
        self.executor.insert(id, wake, MAIN.into(), body, scope);
        self.executor.adopt(&shared);
        shared.push_ready(id);
        Ok(())
    }

    pub(super) fn main_returned(&mut self, outcome: MainOutcome) -> Result<(), TaskFailure> {
        // A branch that failed has failed main, whatever main made of it.
        let failure = self.shared.main_scope.failure();
        let outcome = failure.map_or(outcome, MainOutcome::Failed);
        let wants_undo = match &outcome {
            MainOutcome::Failed(_) | MainOutcome::Canceled => true,
            MainOutcome::Completed(_) => false,
            MainOutcome::ContinueAsNew(_) => {
                self.warn_about_undo();
                false
            }
        };
        if !wants_undo || !self.shared.may_have_to_undo() {
            self.shared.end_last_poll();
            self.phase = Phase::Closing(outcome);
            return Ok(());
        }
        // Undoing takes time: what main left running must not go on beside it.
        self.shared.end_poll();
        self.part_from_main()?;
        self.begin_undo(outcome, Reach::Main);
        Ok(())
    }

    fn begin_undo(&mut self, outcome: MainOutcome, reach: Reach) {
        self.shared.stop_what_may_be_undone(reach);
        let body = Body::Undo(undo::run(Rc::clone(&self.shared)));
        let scope = self.shared.shield_scope();
        let id = self.executor.add(&self.shared, "undo".into(), body, &scope);
        self.shared.push_ready(id);
        self.phase = Phase::Undoing(outcome);
    }

    /// Handlers have ended, or end now, and what they did can be undone as well: then they are left
    /// behind before the run ends, and not with its end.
    pub(super) fn undo_handlers(&mut self) -> Result<bool, TaskFailure> {
        let has_failed = match &self.phase {
            Phase::Closing(MainOutcome::Failed(_) | MainOutcome::Canceled) => true,
            Phase::Closing(MainOutcome::Completed(_) | MainOutcome::ContinueAsNew(_))
            | Phase::Running
            | Phase::Undoing(_)
            | Phase::Closed => false,
        };
        // Every slice comes here: only one that ends badly looks further.
        if !has_failed || !self.shared.rules.undo_outlasts_the_wait() || self.has_to_finish() {
            return Ok(false);
        }
        if !self.shared.may_have_to_undo() {
            return Ok(false);
        }
        self.part_from_main()?;
        self.warn_about_handlers();
        self.executor.end_handlers(&self.shared)?;
        self.shared.end_poll();
        if let Phase::Closing(outcome) = std::mem::replace(&mut self.phase, Phase::Running) {
            self.begin_undo(outcome, Reach::Everything);
        }
        Ok(true)
    }

    pub(super) fn undone(&mut self) {
        let phase = std::mem::replace(&mut self.phase, Phase::Running);
        self.phase = match phase {
            Phase::Undoing(outcome) => Phase::Closing(outcome),
            phase @ (Phase::Running | Phase::Closing(_) | Phase::Closed) => phase,
        };
    }

    /// Everything waits: the commands go out, and with them the end of the run if it has come.
    pub(super) fn settle(&mut self) -> Result<Vec<Command>, TaskFailure> {
        let closing = match &self.phase {
            Phase::Closing(_) if self.has_to_finish() => None,
            Phase::Closing(outcome) => Some(self.closing_command(outcome.clone())),
            Phase::Running | Phase::Undoing(_) | Phase::Closed => None,
        };
        if closing.is_none() && self.waits_for_nothing() {
            let main = self.executor.tasks.values().next();
            let nobody = Whence {
                branch: MAIN,
                last_call: None,
            };
            let whence = main.map_or(nobody, |task| task.whence());
            return Err(TaskFailure::waits_for_nothing(&whence));
        }
        self.turn_away_unhandled();
        let mut commands = self.shared.flush();
        if !self.shared.header.get().is_replaying {
            commands.extend(leftover::take(self.shared.run_id));
        }
        if let Some(closing) = closing {
            commands.push(closing);
            self.warn_about_the_end();
            self.shared.commands.set(Commands::Late);
            self.phase = Phase::Closed;
        }
        Ok(commands)
    }

    /// The slice is over, and so is the time in which an update can find its handler.
    fn turn_away_unhandled(&self) {
        let unhandled = self.shared.mailbox.borrow_mut().unhandled_updates();
        for UpdateJob { request, .. } in unhandled {
            let failure = {
                let mailbox = self.shared.mailbox.borrow();
                unknown_handler("update", request.name.as_str(), mailbox.update_handlers())
            };
            let id = request.id;
            self.shared.answer(Command::RejectUpdate { id, failure });
        }
    }

    /// Whether a handler waits that the close has to wait for.
    fn has_to_finish(&self) -> bool {
        let mut handlers = self.executor.handlers();
        handlers.any(|(_, end)| end == HandlerEnd::Finish)
    }

    /// Whether the run goes on without main.
    pub(super) fn has_to_part(&self) -> bool {
        matches!(self.phase, Phase::Closing(_)) && self.has_to_finish()
    }

    /// The run goes on without main: what main left running does not.
    pub(super) fn part_from_main(&mut self) -> Result<(), TaskFailure> {
        self.shared.cancel_parting();
        let left = self.executor.unfinished().filter(|task| task.is_of_main());
        for whence in left.map(|task| task.whence()) {
            self.shared
                .warn_live(|| format!("main has ended while {whence}, still waits"));
        }
        self.executor.end_branches(&self.shared)?;
        self.shared.end_poll();
        Ok(())
    }

    fn waits_for_nothing(&self) -> bool {
        if matches!(self.phase, Phase::Undoing(_)) && self.shared.awaits_outcomes() {
            return false;
        }
        self.shared.open.borrow().is_empty() && !self.shared.mailbox.borrow().has_handlers()
    }

    fn closing_command(&self, outcome: MainOutcome) -> Command {
        match outcome {
            MainOutcome::Completed(result) => Command::CompleteWorkflow { result },
            MainOutcome::Failed(failure) => Command::FailWorkflow { failure },
            MainOutcome::Canceled => Command::CancelWorkflow,
            MainOutcome::ContinueAsNew(mut next) => {
                let unread = self.shared.mailbox.borrow_mut().take_unread();
                next.signals.extend(unread);
                Command::ContinueAsNew(next)
            }
        }
    }

    fn warn_about_undo(&self) {
        for (name, site) in self.shared.undos() {
            self.shared.warn_live(|| {
                format!(
                    "undo `{name}` of the call at {site} is forgotten: the run continues as new"
                )
            });
        }
    }

    fn warn_about_handlers(&self) {
        let handlers = self.executor.handlers();
        let told = handlers.filter(|(_, end)| *end == HandlerEnd::Warn);
        for whence in told.map(|(task, _)| task.whence()) {
            self.shared
                .warn_live(|| format!("the run has ended while {whence}, still waits"));
        }
    }

    fn warn_about_the_end(&self) {
        self.warn_about_handlers();
        for whence in self.executor.unfinished().map(|task| task.whence()) {
            self.shared
                .warn_live(|| format!("the run has ended while {whence}, still waits"));
        }
        for (name, count) in self.shared.mailbox.borrow().unread() {
            self.shared.warn_live(|| {
                format!("the run has ended with {count} signals `{name}` that nobody has read")
            });
        }
    }
}
