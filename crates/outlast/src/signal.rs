//! Signals: typed messages to a running workflow, and the handlers that take them.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::rc::Rc;

use outlast_model::{Payload, SignalName};
use outlast_runtime::{Context, HandlerFuture};
use serde::de::DeserializeOwned;

use crate::ctx::Ctx;
use crate::failure::{FailureTrace, IntoFailure};
use crate::subject::Subject;
use crate::wire::read_or_panic;

/// A named, typed message that a running workflow can receive: one constant for both sides.
pub struct Signal<T> {
    name: &'static str,
    content: PhantomData<fn() -> T>,
}

/// A signal with this name.
pub const fn signal<T>(name: &'static str) -> Signal<T> {
    Signal {
        name,
        content: PhantomData,
    }
}

impl<T> Signal<T> {
    /// Its name.
    pub fn name(self) -> &'static str {
        self.name
    }
}

impl<T> Clone for Signal<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Signal<T> {}

impl<T> fmt::Debug for Signal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signal({})", self.name)
    }
}

/// Registers the handlers of a `#[workflow] impl`. Content that does not decode fails the task:
/// the message was acknowledged, so it waits for code that reads it.
pub struct Signals<S: 'static> {
    ctx: Context,
    state: PhantomData<fn() -> S>,
}

impl<S: 'static> Signals<S> {
    pub(crate) fn new(ctx: Context) -> Self {
        Self {
            ctx,
            state: PhantomData,
        }
    }

    /// A handler that does not wait and borrows the state.
    pub fn immediate<I, O, F>(&mut self, name: &'static str, handler: F)
    where
        I: DeserializeOwned + 'static,
        O: Handled,
        F: Fn(&mut S, Ctx, I) -> O + 'static,
    {
        let handler = Rc::new(handler);
        self.register(name, move |ctx, payload| {
            let handler = handler.clone();
            Box::pin(async move {
                let input = read_or_panic(&Subject::Signal(name), &payload);
                let handle = |state: &mut S| handler(state, Ctx::new(ctx), input);
                Ctx::<S>::new(ctx)
                    .with_any(handle)
                    .failure()
                    .map_or(Ok(()), Err)
            })
        });
    }

    /// A handler that waits and borrows the state for moments only.
    pub fn waiting<I, F, W>(&mut self, name: &'static str, handler: F)
    where
        I: DeserializeOwned + 'static,
        F: Fn(Ctx<S>, I) -> W + 'static,
        W: Future<Output: Handled> + 'static,
    {
        let handler = Rc::new(handler);
        self.register(name, move |ctx, payload| {
            let handler = handler.clone();
            Box::pin(async move {
                let input = read_or_panic(&Subject::Signal(name), &payload);
                handler(Ctx::new(ctx), input)
                    .await
                    .failure()
                    .map_or(Ok(()), Err)
            })
        });
    }

    fn register(
        &mut self,
        name: &'static str,
        handler: impl Fn(Context, Payload) -> HandlerFuture + 'static,
    ) {
        self.ctx.on_signal(SignalName::new(name), Rc::new(handler));
    }
}

impl<S> fmt::Debug for Signals<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signals")
    }
}

/// What a handler may return.
#[diagnostic::on_unimplemented(
    message = "a signal handler returns nothing or a `Result<()>`, but this one returns `{Self}`",
    label = "nobody waits for this value"
)]
pub trait Handled {
    /// What went wrong, if anything did: it is logged, counted and shown, and the run goes on.
    fn failure(self) -> Option<FailureTrace>;
}

impl Handled for () {
    fn failure(self) -> Option<FailureTrace> {
        None
    }
}

impl<E: IntoFailure> Handled for Result<(), E> {
    fn failure(self) -> Option<FailureTrace> {
        self.err().map(IntoFailure::into_failure)
    }
}
