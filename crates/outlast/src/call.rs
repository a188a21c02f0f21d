//! A durable call: scheduled already, its result still to come.
//!
//! Options are postfix and edit the command until the workflow yields; the kind of the call, in
//! its type, says which it has. A call is a plain future (fused, `Unpin`), so that every
//! combinator takes it.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context as Wakers, Poll};
use std::time::Duration;

use futures_core::FusedFuture;
use outlast_model::failure::RetryState;
use outlast_model::{
    ActivityType, CancelMode, FailureKind, Priority, QueueName, Resolution, RetryPolicy,
    TimeoutKind,
};
use outlast_runtime::{Context, Operation};

use crate::activity::{Activity, Defaults};
use crate::arg::Arg;
use crate::call_error::CallError;
use crate::error::Error;
use crate::failure::{FailureTrace, IntoFailure};
use crate::subject::Subject;
use crate::trace::Trace;
use crate::undo::{Undoes, undone_by, undone_with};
use crate::wire::{Data, read_or_panic};

/// What a call waits for: decides which options it has.
pub mod kind {
    /// An activity.
    #[derive(Debug)]
    pub enum Activity {}
    /// A step.
    #[derive(Debug)]
    pub enum Step {}
    /// A timer.
    #[derive(Debug)]
    pub enum Timer {}
    /// A signal.
    #[derive(Debug)]
    pub enum Recv {}
    /// A child workflow that other code reaches as a `P`.
    #[derive(Debug)]
    pub struct Child<P>(
        std::marker::PhantomData<fn() -> P>,
        std::convert::Infallible,
    );
    /// The word that something reached another run.
    #[derive(Debug)]
    pub enum External {}
    /// A promise.
    #[derive(Debug)]
    pub enum Promise {}
}

/// A durable operation, already scheduled. Awaiting gives its result, dropping cancels it.
#[must_use = "durable calls are cancelled when dropped: `.await` them, or `.detach()`"]
pub struct Call<T, E: IntoFailure = Error, K = kind::Activity> {
    pub(crate) ctx: Context,
    pub(crate) operation: Operation,
    pub(crate) subject: Subject,
    deadline: Option<Deadline>,
    is_shielded: bool,
    /// No limit was asked for, the ten minutes apply.
    has_standard_limit: bool,
    is_done: bool,
    types: Types<T, E, K>,
}

type Types<T, E, K> = PhantomData<fn() -> (T, E, K)>;

struct Deadline {
    timer: Operation,
    after: Duration,
}

impl<T, E: IntoFailure, K> Call<T, E, K> {
    pub(crate) fn new(ctx: Context, operation: Operation, subject: Subject) -> Self {
        Self {
            ctx,
            operation,
            subject,
            deadline: None,
            is_shielded: false,
            has_standard_limit: false,
            is_done: false,
            types: PhantomData,
        }
    }

    /// Gives up after this time: the operation is cancelled and the result is
    /// [`CallError::TimedOut`].
    #[track_caller]
    pub fn timeout(mut self, after: Duration) -> Self {
        let timer = self.ctx.timer(after);
        let timer = if self.is_shielded {
            timer.shielded()
        } else {
            timer
        };
        self.deadline = Some(Deadline { timer, after });
        self
    }

    /// Out of reach of cancellation of the workflow or of the branch.
    pub fn shielded(mut self) -> Self {
        self.is_shielded = true;
        self.operation = self.operation.shielded();
        self.deadline = self.deadline.map(|deadline| Deadline {
            timer: deadline.timer.shielded(),
            ..deadline
        });
        self
    }

    /// Lets it go on with nobody waiting for it.
    pub fn detach(self) {
        self.operation.detach();
    }

    /// Asks it to stop; awaiting it gives [`CallError::Cancelled`] when it has.
    #[track_caller]
    pub fn cancel(&self) {
        self.operation.cancel();
    }

    /// Whether it was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.operation.is_cancelled()
    }
}

/// Options of activities.
impl<T, E: IntoFailure> Call<T, E> {
    pub(crate) fn with_limits_of(mut self, defaults: &Defaults) -> Self {
        self.has_standard_limit = defaults.has_no_limit();
        self
    }

    /// When and how often a failed attempt is tried again.
    #[track_caller]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.operation = self
            .operation
            .edit_activity(|options| options.retry = policy);
        self
    }

    /// How long one attempt may take.
    #[track_caller]
    pub fn start_to_close(mut self, limit: Duration) -> Self {
        self.has_standard_limit = false;
        let edit = |options: &mut outlast_model::ActivityOptions| {
            options.start_to_close = Some(limit);
        };
        self.operation = self.operation.edit_activity(edit);
        self
    }

    /// How long all attempts together may take. Alone, it is also the limit of one attempt.
    #[track_caller]
    pub fn schedule_to_close(mut self, limit: Duration) -> Self {
        let replaces_standard = self.has_standard_limit;
        self.operation = self.operation.edit_activity(|options| {
            options.schedule_to_close = Some(limit);
            if replaces_standard {
                options.start_to_close = None;
            }
        });
        self
    }

    /// How long it may wait for a worker.
    #[track_caller]
    pub fn schedule_to_start(mut self, limit: Duration) -> Self {
        let edit = |options: &mut outlast_model::ActivityOptions| {
            options.schedule_to_start = Some(limit);
        };
        self.operation = self.operation.edit_activity(edit);
        self
    }

    /// How often an attempt must report.
    #[track_caller]
    pub fn heartbeat(mut self, interval: Duration) -> Self {
        let edit =
            |options: &mut outlast_model::ActivityOptions| options.heartbeat = Some(interval);
        self.operation = self.operation.edit_activity(edit);
        self
    }

    /// The task queue it waits in.
    #[track_caller]
    pub fn queue(mut self, queue: &str) -> Self {
        self.operation = self
            .operation
            .edit_activity(|options| options.queue = Some(QueueName::new(queue)));
        self
    }

    /// How urgent it is among what waits for a slot of its queue: from 1, first, to 5, last. Without
    /// one it is as urgent as its run, and that is 3 unless it was started with another.
    #[track_caller]
    pub fn priority(mut self, key: u8) -> Self {
        self.operation = self
            .operation
            .edit_activity(|options| options.priority = Some(Priority::new(key)));
        self
    }

    /// What a cancel does.
    #[track_caller]
    pub fn cancel_mode(mut self, mode: CancelMode) -> Self {
        self.operation = self
            .operation
            .edit_activity(|options| options.cancel = mode);
        self
    }

    /// If the workflow fails or is cancelled later, runs `undo` with this call's result: last
    /// done, first undone, out of reach of cancellation. The call stays registered when it loses
    /// a race, runs out of time, is dropped or cancelled: the run ends when its outcome is known.
    ///
    /// Where it is not known whether the call took effect (it timed out, or was cancelled and
    /// stopped), there is no result: an undo that takes an `Option` is run with `None`, any other
    /// cannot run, and a note on the run says so. For money use [`undo_with`](Self::undo_with).
    pub fn undo<A: Activity<K, Input: Undoes<T>>, K>(mut self, undo: A) -> Self {
        self.operation = undone_by::<T, _, _>(self.operation, undo);
        self
    }

    /// As [`undo`](Self::undo), with an input that is known before the call, such as the key under
    /// which it is made: it runs also where it is not known whether the call took effect.
    ///
    /// # Panics
    /// If the input does not serialise or is over the limit.
    #[track_caller]
    pub fn undo_with<A: Activity<K>, K>(mut self, undo: A, input: impl Arg<A::Input>) -> Self {
        self.operation = undone_with(self.operation, undo, input);
        self
    }
}

/// Options of steps.
impl<T, E: IntoFailure> Call<T, E, kind::Step> {
    /// When and how often a failed attempt is tried again.
    #[track_caller]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.operation = self.operation.edit_step(|options| options.retry = policy);
        self
    }

    /// If the workflow fails or is cancelled later, runs `undo` with this step's result; as
    /// [`undo` of an activity](Call::undo).
    pub fn undo<A: Activity<K, Input: Undoes<T>>, K>(mut self, undo: A) -> Self {
        self.operation = undone_by::<T, _, _>(self.operation, undo);
        self
    }

    /// As [`undo`](Self::undo), with an input that is known before.
    ///
    /// # Panics
    /// If the input does not serialise or is over the limit.
    #[track_caller]
    pub fn undo_with<A: Activity<K>, K>(mut self, undo: A, input: impl Arg<A::Input>) -> Self {
        self.operation = undone_with(self.operation, undo, input);
        self
    }
}

impl<T: Data, E: IntoFailure, K> Future for Call<T, E, K> {
    type Output = Result<T, CallError<E::Seen>>;

    fn poll(mut self: Pin<&mut Self>, wakers: &mut Wakers<'_>) -> Poll<Self::Output> {
        let call = &mut *self;
        if let Poll::Ready(resolution) = Pin::new(&mut call.operation).poll(wakers) {
            call.is_done = true;
            call.deadline = None;
            return Poll::Ready(call.observe(resolution));
        }
        let Some(deadline) = &mut call.deadline else {
            return Poll::Pending;
        };
        let Poll::Ready(resolution) = Pin::new(&mut deadline.timer).poll(wakers) else {
            return Poll::Pending;
        };
        let after = deadline.after;
        call.deadline = None;
        match resolution {
            Resolution::Completed(_) => {
                call.is_done = true;
                call.operation.cancel();
                Poll::Ready(Err(CallError::TimedOut(call.too_late(after))))
            }
            // Cancelled with its scope; so is the operation, which says itself how it ends.
            Resolution::Failed(..) | Resolution::Canceled(_) => Poll::Pending,
        }
    }
}

impl<T: Data, E: IntoFailure, K> Call<T, E, K> {
    fn observe(&self, resolution: Resolution) -> Result<T, CallError<E::Seen>> {
        let (failure, retry_state) = match resolution {
            Resolution::Completed(result) => return Ok(read_or_panic(&self.subject, &result)),
            Resolution::Failed(failure, retry_state) => (failure, retry_state),
            Resolution::Canceled(details) => {
                let message = format!("{} was cancelled", self.subject);
                let kind = FailureKind::Canceled { details };
                (
                    FailureTrace::new(kind, message),
                    RetryState::CancelRequested,
                )
            }
        };
        Err(CallError::observe::<E>(self.trace(failure, retry_state)))
    }

    /// A failed activity says so in a link of its own, as in Temporal; the others just fail. The
    /// place is that of the call, unless the failure knows a better one.
    fn trace(&self, failure: FailureTrace, retry_state: RetryState) -> Trace {
        let site = self.operation.site().to_string();
        if let Subject::Activity(name) = &self.subject {
            let (_, seq) = self.operation.kind_and_seq();
            let activity_type = ActivityType::from(name.clone());
            let kind = FailureKind::Activity {
                activity_type,
                seq,
                retry_state,
            };
            let outer = FailureTrace::new(kind, format!("{} failed", self.subject));
            return Trace::new(outer.at(site).caused_by(failure));
        }
        let mut failure = match failure.trace {
            Some(_) => failure,
            None => failure.at(site),
        };
        if let (Subject::SignalTo(..) | Subject::CancelOf(_), FailureKind::Application { .. }) =
            (&self.subject, &failure.kind)
        {
            failure.message = format!("{} did not arrive: {}", self.subject, failure.message);
        }
        Trace::new(failure)
    }

    fn too_late(&self, after: Duration) -> Trace {
        let kind = FailureKind::Timeout {
            kind: TimeoutKind::ScheduleToClose,
            last_heartbeat: None,
        };
        let message = format!("{} gave no result within {after:?}", self.subject);
        Trace::new(FailureTrace::new(kind, message).at(self.operation.site().to_string()))
    }
}

impl<T: Data, E: IntoFailure, K> FusedFuture for Call<T, E, K> {
    fn is_terminated(&self) -> bool {
        self.is_done
    }
}

impl<T, E: IntoFailure, K> fmt::Debug for Call<T, E, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("subject", &self.subject)
            .finish_non_exhaustive()
    }
}
