//! Workflows: code whose progress is recorded. What `#[workflow]` generates, and the form
//! without macros.
//!
//! As with activities, the identity of a workflow function travels in its return type.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;

use crate::activity::{ByDef, ByFn};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::external::External;
use crate::failure::IntoFailure;
use crate::handle::Handle;
use crate::handlers::Handlers;
use crate::wire::{Data, Outcome};

/// A future that stays on its thread.
pub type LocalFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// The plain handle of a workflow that returns `R`.
pub type HandleOf<R> = Handle<<R as Outcome>::Ok, <R as Outcome>::Err>;

/// What a `#[workflow]` function returns: its code and, in the type, its durable identity.
#[must_use = "a workflow does nothing by itself: use `app.run(workflow, input).await`"]
pub struct WorkflowBody<M, F> {
    main: F,
    meta: PhantomData<fn() -> M>,
}

impl<M, F> WorkflowBody<M, F> {
    /// A body with the identity `M`.
    pub fn new(main: F) -> Self {
        Self {
            main,
            meta: PhantomData,
        }
    }
}

impl<M: WorkflowMeta, F> fmt::Debug for WorkflowBody<M, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkflowBody({})", M::NAME)
    }
}

/// Awaiting a workflow function inside another workflow runs it inline, in the same run.
impl<M, F: Future> IntoFuture for WorkflowBody<M, F> {
    type Output = F::Output;
    type IntoFuture = F;

    fn into_future(self) -> F {
        self.main
    }
}

/// The future of a body.
pub fn main_future<M, F: Future + 'static>(body: WorkflowBody<M, F>) -> LocalFuture<F::Output> {
    Box::pin(body.main)
}

/// The durable identity of a `#[workflow]`.
pub trait WorkflowMeta: Copy + Send + Sync + 'static {
    /// Its name in the history.
    const NAME: &'static str;
    /// File and line of its definition.
    const AT: (&'static str, u32);
    /// What its handlers share.
    type State: 'static;
    /// What it takes. That it is [`Data`] is asked elsewhere: the compiler's words are better
    /// there.
    type Input: Send + 'static;
    /// What it returns.
    type Return: Outcome;
    /// What a client gets.
    type Handle: From<HandleOf<Self::Return>> + Send + 'static;
    /// What another workflow gets.
    type Peer: From<External> + 'static;

    /// The state before the first event.
    fn init(input: &Self::Input) -> Self::State;

    /// The main routine.
    fn main(ctx: Ctx<Self::State>, input: Self::Input) -> LocalFuture<Self::Return>;

    /// Registers the handlers.
    fn handlers(handlers: &Handlers<Self::State>);
}

/// Something that can be started: a `#[workflow]`, or a [`WorkflowDef`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a workflow",
    label = "expected a function with `#[workflow]`",
    note = "put `#[workflow]` on the function; of a `#[workflow] impl Type` pass `Type::run`"
)]
pub trait Workflow<K>: Copy + Send + Sync + 'static {
    /// What it takes.
    type Input: Data;
    /// What it gives.
    type Output: Data;
    /// How it fails.
    type Error: IntoFailure;
    /// What a client gets.
    type Handle: From<Handle<Self::Output, Self::Error>> + Send + 'static;
    /// What another workflow gets.
    type Peer: From<External> + 'static;

    /// Its name in the history.
    fn name(&self) -> &'static str;
}

/// A workflow whose code is here: what `.workflow(..)` of the builder takes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a workflow with code",
    label = "expected a function with `#[workflow]`",
    note = "put `#[workflow]` on the function; of a `#[workflow] impl Type` pass `Type::run`"
)]
pub trait WorkflowFn<K>: Workflow<K> {
    /// Its metadata.
    type Meta: WorkflowMeta<Input: Data>;
}

macro_rules! functions {
    ($($argument:ident)*) => {
        impl<F, M, W, $($argument),*> Workflow<ByFn<($($argument,)*)>> for F
        where
            M: WorkflowMeta<Input: Data>,
            F: Fn($($argument),*) -> WorkflowBody<M, W> + Copy + Send + Sync + 'static,
        {
            type Input = M::Input;
            type Output = <M::Return as Outcome>::Ok;
            type Error = <M::Return as Outcome>::Err;
            type Handle = M::Handle;
            type Peer = M::Peer;

            fn name(&self) -> &'static str {
                M::NAME
            }
        }

        impl<F, M, W, $($argument),*> WorkflowFn<ByFn<($($argument,)*)>> for F
        where
            M: WorkflowMeta<Input: Data>,
            F: Fn($($argument),*) -> WorkflowBody<M, W> + Copy + Send + Sync + 'static,
        {
            type Meta = M;
        }
    };
}

functions!(A);
functions!(A B);

/// The form without macros: a typed contract, bound here or served elsewhere.
pub struct WorkflowDef<I, O, E = Error> {
    name: &'static str,
    types: PhantomData<fn(I) -> (O, E)>,
}

impl<I, O, E> WorkflowDef<I, O, E> {
    /// A contract with this name in the history.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            types: PhantomData,
        }
    }
}

impl<I, O, E> Clone for WorkflowDef<I, O, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, O, E> Copy for WorkflowDef<I, O, E> {}

impl<I, O, E> fmt::Debug for WorkflowDef<I, O, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkflowDef({})", self.name)
    }
}

impl<I: Data, O: Data, E: IntoFailure> Workflow<ByDef> for WorkflowDef<I, O, E> {
    type Input = I;
    type Output = O;
    type Error = E;
    type Handle = Handle<O, E>;
    type Peer = External;

    fn name(&self) -> &'static str {
        self.name
    }
}

/// The state of a `#[workflow] impl`: what `ctx.with(..)` borrows.
#[diagnostic::on_unimplemented(
    message = "this context has no state to borrow",
    label = "`Ctx` without a type parameter",
    note = "in a function workflow keep state in local variables; in a handler with `&mut self` use `self`",
    note = "state shared with signals needs `#[workflow] impl Type` and `ctx: Ctx<Self>`"
)]
pub trait WorkflowState: 'static {}
