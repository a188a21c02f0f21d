//! Children of a run: asked for, started, ended; cancelled in four ways.
//!
//! ```text
//!   asked --started--> runs --ended--> outcome
//!     |  could not start, or cancelled before it did
//!     +-------------------------------> outcome
//! ```
//!
//! A child has one operation, which resolves with its outcome, and a start that can be awaited
//! beside it. The start owns nothing: dropping it changes nothing. Whatever ends the operation
//! before the child has started ends the wait for the start too.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use outlast_model::command::StartChild;
use outlast_model::event::{Site, StartFailedCause};
use outlast_model::failure::{RetryState, type_name};
use outlast_model::job::ChildStart;
use outlast_model::{
    ChildCancel, ChildOptions, Command, Failure, FailureKind, Resolution, RunId, Seq, WorkflowId,
    WorkflowType,
};

use crate::cell::{Key, Kind, Mode, OperationCell, State, Subject};
use crate::failure::TaskFailure;
use crate::intercept::{Call, ChildCall};
use crate::operation::Operation;
use crate::shared::Shared;

/// What a child's operation is about.
pub(crate) struct ChildSubject {
    pub(crate) workflow_type: WorkflowType,
    pub(crate) cancel: Cell<ChildCancel>,
    workflow_id: RefCell<WorkflowId>,
    start: RefCell<Start>,
}

/// What is known of a child's start.
enum Start {
    /// Nothing; these wait.
    Open(Vec<Waker>),
    Started(RunId),
    Never(Failure),
}

impl ChildSubject {
    pub(crate) fn workflow_id(&self) -> WorkflowId {
        self.workflow_id.borrow().clone()
    }

    /// Code has changed what it asks for.
    pub(crate) fn edited(&self, workflow_id: &WorkflowId, options: &ChildOptions) {
        *self.workflow_id.borrow_mut() = workflow_id.clone();
        self.cancel.set(options.cancel);
    }

    /// The operation has ended: a child that has not started will not.
    pub(crate) fn never_starts(&self, resolution: &Resolution) {
        let never = match resolution {
            Resolution::Failed(failure, _) => failure.clone(),
            Resolution::Completed(_) | Resolution::Canceled(_) => {
                Failure::canceled("the child was cancelled before it was known to have started")
            }
        };
        self.settle(Start::Never(never));
    }

    /// Writes the start, once.
    fn settle(&self, start: Start) {
        let mut current = self.start.borrow_mut();
        let Start::Open(waiting) = &mut *current else {
            return;
        };
        let waiting = std::mem::take(waiting);
        *current = start;
        drop(current);
        waiting.into_iter().for_each(Waker::wake);
    }

    fn failure(&self, seq: Seq, cause: Failure) -> Failure {
        let (workflow_id, workflow_type) = (self.workflow_id(), self.workflow_type.clone());
        let text = format!("child `{workflow_type}` as `{workflow_id}` failed");
        let kind = FailureKind::Child {
            workflow_id,
            workflow_type,
            seq,
        };
        Failure::new(kind, text).caused_by(cause)
    }
}

/// Made, and told what became of it.
impl Shared {
    pub(crate) fn schedule_child(self: &Rc<Self>, mut call: ChildCall, site: Site) -> Operation {
        self.intercept(Call::Child(&mut call));
        let ChildCall {
            workflow_type,
            workflow_id,
            input,
            options,
            headers,
        } = call;
        let seq = self.next_seq(Kind::Child);
        let workflow_id =
            workflow_id.unwrap_or_else(|| WorkflowId::new(format!("{}_{seq}", self.run_id)));
        let subject = Subject::Child(ChildSubject {
            workflow_type: workflow_type.clone(),
            cancel: Cell::new(options.cancel),
            workflow_id: RefCell::new(workflow_id.clone()),
            start: RefCell::new(Start::Open(Vec::new())),
        });
        self.schedule(Kind::Child, subject, site, |seq, site| {
            let command = StartChild {
                seq,
                workflow_id,
                workflow_type,
                input,
                options,
                site,
                headers,
            };
            Some(Command::StartChild(Box::new(command)))
        })
    }

    /// A job says whether a child has started.
    pub(crate) fn child_started(&self, seq: Seq, result: ChildStart) -> Result<(), TaskFailure> {
        let Some(cell) = self.open_child(seq)? else {
            if let ChildStart::Failed(_) = result {
                self.registered_ended(child_key(seq), &never_began());
            }
            return Ok(());
        };
        let Subject::Child(child) = &cell.subject else {
            return Ok(());
        };
        match result {
            ChildStart::Started(run_id) => child.settle(Start::Started(run_id)),
            ChildStart::Failed(cause) => {
                let failure = child.failure(seq, not_started(cause, &child.workflow_id()));
                let resolution = Resolution::Failed(failure, RetryState::NonRetryableFailure);
                self.fill(&cell, resolution);
            }
        }
        Ok(())
    }

    /// A job says how a child has ended.
    pub(crate) fn child_ended(&self, seq: Seq, resolution: Resolution) -> Result<(), TaskFailure> {
        let Some(cell) = self.open_child(seq)? else {
            self.registered_ended(child_key(seq), &resolution);
            return Ok(());
        };
        let Subject::Child(child) = &cell.subject else {
            return Ok(());
        };
        let resolution = match resolution {
            Resolution::Failed(cause, state) => {
                Resolution::Failed(child.failure(seq, cause), state)
            }
            ended @ (Resolution::Completed(_) | Resolution::Canceled(_)) => ended,
        };
        self.fill(&cell, resolution);
        Ok(())
    }

    /// A child was told to stop: who waits for no more than that is done.
    pub(crate) fn child_told_to_stop(&self, seq: Seq) -> Result<(), TaskFailure> {
        let Some(cell) = self.open_child(seq)? else {
            return Ok(());
        };
        let is_asked = *cell.state.borrow() == State::Canceling;
        if is_asked && cell.mode() == Mode::RequestOnly {
            self.part_from(&cell, true);
        }
        Ok(())
    }

    fn open_child(&self, seq: Seq) -> Result<Option<Rc<OperationCell>>, TaskFailure> {
        self.open_cell(child_key(seq))
    }
}

fn child_key(seq: Seq) -> Key {
    Key {
        kind: Kind::Child,
        seq,
    }
}

/// How a child ends that nobody waits for and that has not started.
fn never_began() -> Resolution {
    let failure = Failure::application("", "the child did not start");
    Resolution::Failed(failure, RetryState::NonRetryableFailure)
}

fn not_started(cause: StartFailedCause, workflow_id: &WorkflowId) -> Failure {
    match cause {
        StartFailedCause::AlreadyExists => Failure::application(
            type_name::ALREADY_EXISTS,
            format!("there is a run `{workflow_id}` already: give the child another id"),
        ),
        StartFailedCause::NotRegistered => Failure::application(
            type_name::NOT_REGISTERED,
            "no worker of this application has its type: add it to the builder with `.workflow(..)`",
        ),
    }
}

/// The start of a child: its run, or why there is none. Dropping it changes nothing.
#[must_use = "futures do nothing unless polled"]
pub struct ChildStarted {
    shared: Rc<Shared>,
    cell: Rc<OperationCell>,
}

impl ChildStarted {
    pub(crate) fn new(shared: Rc<Shared>, cell: Rc<OperationCell>) -> Self {
        Self { shared, cell }
    }
}

impl Future for ChildStarted {
    type Output = Result<RunId, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Subject::Child(child) = &self.cell.subject else {
            unreachable!("it is made for children only")
        };
        match &mut *child.start.borrow_mut() {
            Start::Started(run_id) => Poll::Ready(Ok(*run_id)),
            Start::Never(failure) => Poll::Ready(Err(failure.clone())),
            Start::Open(waiting) => {
                let start = || format!("the start of {}", self.cell.title());
                if self.shared.is_out_of_reach(start) {
                    return Poll::Ready(Err(Failure::canceled("the run is over")));
                }
                if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                    waiting.push(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

impl fmt::Debug for ChildStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildStarted")
            .field("seq", &self.cell.key.seq)
            .finish_non_exhaustive()
    }
}
