//! The future of a durable operation.
//!
//! The operation is scheduled when the future is made; awaiting it is separate. Options change
//! its command until the task that made it yields. Dropping it before it is resolved asks it to
//! stop, unless it was detached.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use futures_core::FusedFuture;
use outlast_model::event::Site;
use outlast_model::{
    ActivityOptions, ActivityType, ChildOptions, Command, Resolution, Seq, StepOptions, WorkflowId,
};

pub use crate::cell::Kind;
use crate::cell::{Key, OperationCell, State, Subject};
use crate::child::{ChildStarted, ChildSubject};
use crate::shared::Shared;
use crate::undo::{UndoInput, UndoPlan};

/// A durable operation, already scheduled. A timer resolves to `Completed` with no value.
#[must_use = "a durable operation is cancelled when dropped: await it or detach it"]
pub struct Operation {
    shared: Rc<Shared>,
    cell: Rc<OperationCell>,
}

impl Operation {
    pub(crate) fn new(shared: Rc<Shared>, cell: Rc<OperationCell>) -> Self {
        Self { shared, cell }
    }

    /// It is resolved before anybody could wait.
    pub(crate) fn fill(&self, resolution: Resolution) {
        self.shared.fill(&self.cell, resolution);
    }

    /// Asks it to stop, in its own mode. No effect on one that has ended or was asked before.
    #[track_caller]
    pub fn cancel(&self) {
        self.shared.assert_writable("a cancel");
        self.shared.cancel(&self.cell);
    }

    /// Whether it was asked to stop before it ended, or its scope was.
    pub fn is_cancelled(&self) -> bool {
        let is_open = !self.cell.state.borrow().is_filled();
        self.cell.is_cancelled.get() || (is_open && self.cell.scope.borrow().cuts_operations())
    }

    /// Lets it go on without anybody waiting for it.
    pub fn detach(self) {
        self.cell.is_owned.set(false);
        self.cell.waker.borrow_mut().take();
    }

    /// Changes the options of an activity.
    ///
    /// # Panics
    /// When the workflow has yielded since the call, or it is not an activity.
    #[track_caller]
    pub fn edit_activity(self, change: impl FnOnce(&mut ActivityOptions)) -> Self {
        self.assert_editable();
        let Subject::Activity { cancel, .. } = &self.cell.subject else {
            panic!("{} has no activity options", self.name());
        };
        self.shared.edit(&self.cell, |command| {
            if let Command::ScheduleActivity(command) = command {
                change(&mut command.options);
                cancel.set(command.options.cancel);
            }
        });
        self
    }

    /// Changes the options of a step.
    ///
    /// # Panics
    /// When the workflow has yielded since the call, or it is not a step.
    #[track_caller]
    pub fn edit_step(self, change: impl FnOnce(&mut StepOptions)) -> Self {
        self.assert_editable();
        assert!(
            self.cell.key.kind == Kind::Step,
            "{} has no step options",
            self.name()
        );
        self.shared.edit(&self.cell, |command| {
            if let Command::ScheduleStep { options, .. } = command {
                change(options);
            }
        });
        self
    }

    /// Changes the id and the options of a child.
    ///
    /// # Panics
    /// When the workflow has yielded since the call, or it is not a child.
    #[track_caller]
    pub fn edit_child(self, change: impl FnOnce(&mut WorkflowId, &mut ChildOptions)) -> Self {
        self.assert_editable();
        let Subject::Child(child) = &self.cell.subject else {
            panic!("{} has no options of a child", self.name());
        };
        self.shared.edit(&self.cell, |command| {
            if let Command::StartChild(command) = command {
                change(&mut command.workflow_id, &mut command.options);
                child.edited(&command.workflow_id, &command.options);
            }
        });
        self
    }

    /// The id of a child.
    pub fn child_id(&self) -> Option<WorkflowId> {
        self.child().map(ChildSubject::workflow_id)
    }

    /// The start of a child.
    ///
    /// # Panics
    /// When it is not a child.
    #[track_caller]
    pub fn started(&self) -> ChildStarted {
        assert!(self.child().is_some(), "{} does not start", self.name());
        ChildStarted::new(Rc::clone(&self.shared), Rc::clone(&self.cell))
    }

    fn child(&self) -> Option<&ChildSubject> {
        match &self.cell.subject {
            Subject::Child(child) => Some(child),
            Subject::Activity { .. }
            | Subject::Timer
            | Subject::Step { .. }
            | Subject::ExternalSignal { .. }
            | Subject::ExternalCancel { .. }
            | Subject::Promise { .. }
            | Subject::Recv { .. } => None,
        }
    }

    #[track_caller]
    fn assert_editable(&self) {
        assert!(
            self.cell.born == self.shared.poll.get(),
            "options must be set before the workflow yields: chain them on the call"
        );
    }

    /// Moves it out of reach of cancelled scopes. It can still be cancelled by itself.
    pub fn shielded(self) -> Self {
        let shield = self.shared.shield_scope();
        if !self.cell.state.borrow().is_filled() {
            shield.add(self.cell.key);
        }
        let before = self.cell.scope.replace(shield);
        before.remove(self.cell.key);
        self
    }

    /// When it completes, remembers to run this activity with its result, should main fail or be
    /// cancelled later.
    pub fn undo(self, activity_type: ActivityType, options: ActivityOptions) -> Self {
        self.undo_with(activity_type, options, UndoInput::Result { unknown: None })
    }

    /// As [`undo`](Self::undo), with another input.
    pub fn undo_with(
        self,
        activity_type: ActivityType,
        options: ActivityOptions,
        input: UndoInput,
    ) -> Self {
        let plan = UndoPlan {
            activity_type,
            options,
            input,
            sent_at: 0,
        };
        *self.cell.undo.borrow_mut() = Some(Box::new(plan));
        self
    }

    /// The call.
    pub fn site(&self) -> &Site {
        &self.cell.site
    }

    /// What it is, and its number among its kind.
    pub fn kind_and_seq(&self) -> (Kind, Seq) {
        let Key { kind, seq } = self.cell.key;
        (kind, seq)
    }

    fn name(&self) -> String {
        let Key { kind, seq } = self.cell.key;
        format!("{} {seq}", kind.name())
    }
}

impl Future for Operation {
    type Output = Resolution;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Resolution> {
        let Self { shared, cell } = &*self;
        shared.cut_off_if_doomed(cell);
        let state = std::mem::replace(&mut *cell.state.borrow_mut(), State::Taken);
        match state {
            State::Resolved(resolution) => return Poll::Ready(resolution),
            State::Taken => panic!(
                "{} at {} was polled after it resolved",
                self.name(),
                cell.site
            ),
            State::Unsent { .. } | State::Sent | State::Canceling => {
                *cell.state.borrow_mut() = state;
            }
        }
        if let Some(received) = shared.receive(cell) {
            return Poll::Ready(received);
        }
        if shared.is_out_of_reach(|| cell.title()) {
            *cell.state.borrow_mut() = State::Taken;
            return Poll::Ready(Resolution::Canceled(None));
        }
        cell.awaited_by.set(shared.polling.get());
        let mut waker = cell.waker.borrow_mut();
        if !waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl FusedFuture for Operation {
    fn is_terminated(&self) -> bool {
        *self.cell.state.borrow() == State::Taken
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if self.cell.is_owned.get() {
            self.shared.abandon(&self.cell);
        }
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation")
            .field("kind", &self.cell.key.kind)
            .field("seq", &self.cell.key.seq)
            .field("site", &self.cell.site)
            .finish_non_exhaustive()
    }
}
