//! A durable operation.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::FusedFuture;
use outlast_model::event::Site;
use outlast_model::{ActivityOptions, ActivityType, Resolution, Seq, StepOptions};

/// What kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An activity.
    Activity,
    /// A timer.
    Timer,
    /// A step.
    Step,
    /// A wait for a signal.
    Recv,
}

/// A durable operation, already scheduled.
#[derive(Debug)]
#[must_use = "a durable operation is cancelled when dropped: await it or detach it"]
pub struct Operation {
    _not_send: PhantomData<*const ()>,
}

impl Operation {
    /// Cancels it, in its mode.
    pub fn cancel(&self) {
        todo!()
    }
    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        todo!()
    }
    /// Lets it go on without anybody waiting.
    pub fn detach(self) {
        todo!()
    }
    /// Edits options until the task yields.
    #[track_caller]
    pub fn edit_activity(self, _: impl FnOnce(&mut ActivityOptions)) -> Self {
        todo!()
    }
    /// Edits options until the task yields.
    #[track_caller]
    pub fn edit_step(self, _: impl FnOnce(&mut StepOptions)) -> Self {
        todo!()
    }
    /// Moves it out of reach of scope cancellation.
    pub fn shielded(self) -> Self {
        todo!()
    }
    /// Remembers how to undo it.
    pub fn undo(self, _: ActivityType, _: ActivityOptions) -> Self {
        todo!()
    }
    /// The call.
    pub fn site(&self) -> &Site {
        todo!()
    }
    /// What it is.
    pub fn kind_and_seq(&self) -> (Kind, Seq) {
        todo!()
    }
}

impl Future for Operation {
    type Output = Resolution;
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Resolution> {
        todo!()
    }
}

impl FusedFuture for Operation {
    fn is_terminated(&self) -> bool {
        todo!()
    }
}
