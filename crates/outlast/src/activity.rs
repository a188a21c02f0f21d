//! Activities: work with effects. What `#[activity]` generates, and the form without macros.
//!
//! A function item has no name in the type system, so no trait can be implemented for one
//! function. But its return type can be named: an activity returns [`ActivityBody<M, _>`], and
//! `M` carries its name, input, result and error. One blanket implementation over all functions
//! that return such a body makes `ctx.run(charge, ..)` know everything about `charge`, while
//! `charge(..)` stays a function that a test can call.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::time::Duration;

use outlast_model::{ActivityOptions, QueueName, limits};
use outlast_runtime::in_slice;

use crate::error::Error;
use crate::failure::IntoFailure;
use crate::wire::{Data, Outcome};

pub use crate::activity_ctx::{ActivityCtx, ActivityTaskHandle};

/// What an `#[activity]` function returns: its work and, in the type, its durable identity.
#[must_use = "an activity does nothing by itself: use `ctx.run(activity, input).await` in a workflow"]
pub struct ActivityBody<M, F> {
    work: F,
    meta: PhantomData<fn() -> M>,
}

impl<M, F> ActivityBody<M, F> {
    /// A body with the identity `M`.
    pub fn new(work: F) -> Self {
        Self {
            work,
            meta: PhantomData,
        }
    }
}

impl<M: ActivityMeta, F> fmt::Debug for ActivityBody<M, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActivityBody({})", M::NAME)
    }
}

/// Not a future itself: this is the one place that can see a direct call inside a workflow.
impl<M: ActivityMeta, F: Future> IntoFuture for ActivityBody<M, F> {
    type Output = F::Output;
    type IntoFuture = F;

    #[track_caller]
    fn into_future(self) -> F {
        refuse_in_workflow(M::NAME);
        self.work
    }
}

impl<M: ActivityMeta, R> ActivityBody<M, Blocking<R>> {
    /// Runs a blocking activity here and now: for tests, and for other blocking code.
    #[track_caller]
    pub fn wait(self) -> R {
        refuse_in_workflow(M::NAME);
        (self.work.0)()
    }
}

#[track_caller]
fn refuse_in_workflow(name: &str) {
    let place = Location::caller();
    assert!(
        !in_slice(),
        "activity {name} was called directly inside a workflow at {place}; write ctx.run({name}, \
         ..) so that its result is recorded"
    );
}

/// The work of a blocking activity.
pub struct Blocking<R>(Box<dyn FnOnce() -> R + Send>);

impl<R> Blocking<R> {
    /// Work to be done on a thread of its own.
    pub fn new(work: impl FnOnce() -> R + Send + 'static) -> Self {
        Self(Box::new(work))
    }
}

impl<R> fmt::Debug for Blocking<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Blocking")
    }
}

/// The work of one attempt, typed.
pub enum Code<R> {
    /// Polled on the async runtime.
    Async(Pin<Box<dyn Future<Output = R> + Send>>),
    /// Runs on a thread of its own.
    Blocking(Box<dyn FnOnce() -> R + Send>),
}

impl<R> fmt::Debug for Code<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Async(_) => "Async",
            Self::Blocking(_) => "Blocking",
        })
    }
}

/// The work of an async body.
pub fn async_code<M, F>(body: ActivityBody<M, F>) -> Code<F::Output>
where
    F: Future + Send + 'static,
{
    Code::Async(Box::pin(body.work))
}

/// The work of a blocking body.
pub fn blocking_code<M, R>(body: ActivityBody<M, Blocking<R>>) -> Code<R> {
    Code::Blocking(body.work.0)
}

/// Options of an activity that its definition gives; a call may change them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// All attempts together.
    pub schedule_to_close: Option<Duration>,
    /// Until a worker takes it.
    pub schedule_to_start: Option<Duration>,
    /// One attempt.
    pub start_to_close: Option<Duration>,
    /// Between two heartbeats.
    pub heartbeat: Option<Duration>,
    /// The task queue.
    pub queue: Option<&'static str>,
}

impl Defaults {
    /// Whether the ten minutes apply: neither an attempt nor the whole has a limit.
    pub(crate) fn has_no_limit(&self) -> bool {
        self.start_to_close.is_none() && self.schedule_to_close.is_none()
    }

    /// The options of a call that changes nothing. Without any limit an attempt gets ten
    /// minutes, sent explicitly: a lost worker must not hold a run for ever.
    pub(crate) fn options(&self) -> ActivityOptions {
        let standard = self
            .has_no_limit()
            .then_some(limits::START_TO_CLOSE_DEFAULT);
        ActivityOptions {
            schedule_to_close: self.schedule_to_close,
            schedule_to_start: self.schedule_to_start,
            start_to_close: self.start_to_close.or(standard),
            heartbeat: self.heartbeat,
            queue: self.queue.map(QueueName::new),
            ..ActivityOptions::default()
        }
    }
}

/// The durable identity of an `#[activity]` function.
pub trait ActivityMeta: Copy + Send + Sync + 'static {
    /// Its name in the history.
    const NAME: &'static str;
    /// File and line of its definition.
    const AT: (&'static str, u32);
    /// What it takes. That it is [`Data`] is asked elsewhere: the compiler's words are better
    /// there.
    type Input: Send + 'static;
    /// What it takes from its surroundings, as a list.
    type Extractors;
    /// What it returns.
    type Return: Outcome;

    /// Options from its attribute.
    fn defaults() -> Defaults;

    /// The work of one attempt.
    fn code(ctx: &ActivityCtx, input: Self::Input) -> Code<Self::Return>;
}

/// Something `ctx.run` can run: an `#[activity]` function, or an [`ActivityDef`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an activity",
    label = "expected a function with `#[activity]`",
    note = "put `#[activity]` on the function, or run a closure with `ctx.step(\"name\", || async {{ .. }})`",
    note = "a workflow runs inside this one when awaited, `workflow(ctx, input).await`; as a child (`ctx.child(..)`) it cannot run yet"
)]
pub trait Activity<K>: Copy + Send + Sync + 'static {
    /// What it takes.
    type Input: Data;
    /// What it gives.
    type Output: Data;
    /// How it fails.
    type Error: IntoFailure;

    /// Its name in the history.
    fn name(&self) -> &'static str;

    /// Options that its definition gives.
    fn defaults(&self) -> Defaults;
}

/// An activity whose code is here: what `.activity(..)` of the builder takes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an activity with code",
    label = "expected a function with `#[activity]`",
    note = "give a definition its code with `.bind(DEFINITION, |ctx, input| async move {{ .. }})`"
)]
pub trait ActivityFn<K>: Activity<K> {
    /// What it takes from its surroundings, as a list.
    type Extractors;
    /// Its metadata.
    type Meta: ActivityMeta<Input: Data>;
}

/// How an activity was recognised: by its function.
#[derive(Debug)]
pub struct ByFn<A>(PhantomData<A>);

/// How an activity or a workflow was recognised: by its definition.
#[derive(Debug)]
pub struct ByDef;

macro_rules! functions {
    ($($argument:ident)*) => {
        impl<F, M, W, $($argument),*> Activity<ByFn<($($argument,)*)>> for F
        where
            M: ActivityMeta<Input: Data>,
            F: Fn($($argument),*) -> ActivityBody<M, W> + Copy + Send + Sync + 'static,
        {
            type Input = M::Input;
            type Output = <M::Return as Outcome>::Ok;
            type Error = <M::Return as Outcome>::Err;

            fn name(&self) -> &'static str {
                M::NAME
            }

            fn defaults(&self) -> Defaults {
                M::defaults()
            }
        }

        impl<F, M, W, $($argument),*> ActivityFn<ByFn<($($argument,)*)>> for F
        where
            M: ActivityMeta<Input: Data>,
            F: Fn($($argument),*) -> ActivityBody<M, W> + Copy + Send + Sync + 'static,
        {
            type Extractors = M::Extractors;
            type Meta = M;
        }
    };
}

functions!();
functions!(A);
functions!(A B);
functions!(A B C);
functions!(A B C D);
functions!(A B C D E);
functions!(A B C D E G);

/// The form without macros: a typed contract. Its code is bound here with `.bind(..)`, or lives
/// in another process or language.
pub struct ActivityDef<I, O, E = Error> {
    name: &'static str,
    defaults: Defaults,
    types: PhantomData<fn(I) -> (O, E)>,
}

impl<I, O, E> ActivityDef<I, O, E> {
    /// A contract with this name in the history.
    pub const fn new(name: &'static str) -> Self {
        let defaults = Defaults {
            schedule_to_close: None,
            schedule_to_start: None,
            start_to_close: None,
            heartbeat: None,
            queue: None,
        };
        Self {
            name,
            defaults,
            types: PhantomData,
        }
    }

    /// How long one attempt may take, unless a call says otherwise.
    #[must_use]
    pub const fn start_to_close(mut self, limit: Duration) -> Self {
        self.defaults.start_to_close = Some(limit);
        self
    }

    /// How often an attempt must report, unless a call says otherwise.
    #[must_use]
    pub const fn heartbeat(mut self, interval: Duration) -> Self {
        self.defaults.heartbeat = Some(interval);
        self
    }

    /// Where it runs, unless a call says otherwise.
    #[must_use]
    pub const fn queue(mut self, queue: &'static str) -> Self {
        self.defaults.queue = Some(queue);
        self
    }
}

impl<I, O, E> Clone for ActivityDef<I, O, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, O, E> Copy for ActivityDef<I, O, E> {}

impl<I, O, E> fmt::Debug for ActivityDef<I, O, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActivityDef({})", self.name)
    }
}

impl<I: Data, O: Data, E: IntoFailure> Activity<ByDef> for ActivityDef<I, O, E> {
    type Input = I;
    type Output = O;
    type Error = E;

    fn name(&self) -> &'static str {
        self.name
    }

    fn defaults(&self) -> Defaults {
        self.defaults
    }
}
