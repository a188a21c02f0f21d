//! The handlers of a workflow: what answers its signals, queries and updates.
//!
//! Typed code on one side, names and payloads on the other. Content that does not decode is the
//! sender's mistake where somebody waits for an answer (a query fails, an update is turned away);
//! a signal was acknowledged already, so it fails the task and waits for code that reads it.

use std::fmt;
use std::future::{Future, Ready, ready};
use std::marker::PhantomData;
use std::rc::Rc;

use outlast_model::task::Query;
use outlast_model::{Payload, QueryName, SignalName, UpdateName};
use outlast_runtime::{Context, HandlerEnd, QueryHandler, StateView, UpdateHandler};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ctx::Ctx;
use crate::error::Error;
use crate::failure::{FailureTrace, IntoFailure};
use crate::subject::Subject;
use crate::wire::{Outcome, answer, encode, read_input, read_or_panic};

/// Registers the handlers of a workflow whose state is an `S`.
pub struct Handlers<S: 'static> {
    ctx: Context,
    state: PhantomData<fn() -> S>,
}

/// A message whose name the code does not know.
pub(crate) type Unnamed = (String, Payload);

impl<S: 'static> Handlers<S> {
    pub(crate) fn new(ctx: Context) -> Self {
        Self {
            ctx,
            state: PhantomData,
        }
    }

    /// Answers signals of one name.
    pub fn signal<I, W>(
        &self,
        name: &'static str,
        end: HandlerEnd,
        code: impl Fn(Ctx<S>, I) -> W + 'static,
    ) where
        I: DeserializeOwned + 'static,
        W: Future<Output: Handled> + 'static,
    {
        let code = Rc::new(code);
        let handler = move |ctx, payload: Payload| -> outlast_runtime::HandlerFuture {
            let code = Rc::clone(&code);
            Box::pin(async move {
                let input = read_or_panic(&Subject::Signal(name.into()), &payload);
                handled(code(Ctx::new(ctx), input).await)
            })
        };
        self.ctx
            .on_signal_until(SignalName::new(name), Rc::new(handler), end);
    }

    /// Answers signals of names that no other handler has.
    pub fn any_signal<W>(&self, end: HandlerEnd, code: impl Fn(Ctx<S>, Unnamed) -> W + 'static)
    where
        W: Future<Output: Handled> + 'static,
    {
        let code = Rc::new(code);
        let handler = move |ctx, name: SignalName, payload| -> outlast_runtime::HandlerFuture {
            let code = Rc::clone(&code);
            Box::pin(async move {
                let input = (name.as_str().to_owned(), payload);
                handled(code(Ctx::new(ctx), input).await)
            })
        };
        self.ctx.on_any_signal(Rc::new(handler), end);
    }

    /// Answers queries of one name.
    pub fn query<I, R>(&self, name: &'static str, code: impl Fn(&S, Ctx, I) -> R + 'static)
    where
        I: DeserializeOwned,
        R: Outcome,
    {
        let subject = Subject::Query(name.into());
        let handler: QueryHandler = Rc::new(move |ctx, query: &Query| {
            let input = read_input(&subject, &query.input).map_err(|failure| *failure)?;
            let read = |state: &S| code(state, Ctx::new(ctx), input);
            answer(&subject, Ctx::<S>::new(ctx).read_any(read))
        });
        self.ctx.on_query(QueryName::new(name), handler);
    }

    /// Answers queries of names that no other handler has.
    pub fn any_query<R: Outcome>(&self, code: impl Fn(&S, Ctx, Unnamed) -> R + 'static) {
        let handler: QueryHandler = Rc::new(move |ctx, query: &Query| {
            let name = query.name.as_str().to_owned();
            let subject = Subject::Query(name.clone().into());
            let read = |state: &S| code(state, Ctx::new(ctx), (name, query.input.clone()));
            answer(&subject, Ctx::<S>::new(ctx).read_any(read))
        });
        self.ctx.on_any_query(handler);
    }

    /// Answers updates of one name.
    pub fn update<I, E, R, W>(
        &self,
        name: &'static str,
        end: HandlerEnd,
        validate: impl Fn(&S, &I) -> Result<(), E> + 'static,
        code: impl Fn(Ctx<S>, I) -> W + 'static,
    ) where
        I: DeserializeOwned + 'static,
        E: IntoFailure,
        R: Outcome,
        W: Future<Output = R> + 'static,
    {
        let judge = move |ctx: Ctx<S>, input: &I| ctx.read_any(|state| validate(state, input));
        self.ctx.on_update(
            UpdateName::new(name),
            update_handler(name, end, judge, code),
        );
    }

    /// Answers updates of names that no other handler has.
    pub fn any_update<E, R, W>(
        &self,
        end: HandlerEnd,
        validate: impl Fn(&S, &Unnamed) -> Result<(), E> + 'static,
        code: impl Fn(Ctx<S>, Unnamed) -> W + 'static,
    ) where
        E: IntoFailure,
        R: Outcome,
        W: Future<Output = R> + 'static,
    {
        let code = Rc::new(code);
        let handler = UpdateHandler {
            validator: Some(Rc::new(move |ctx, request| {
                let input = (request.name.as_str().to_owned(), request.input.clone());
                let judge = |state: &S| validate(state, &input);
                let judged = Ctx::<S>::new(ctx).read_any(judge);
                judged.map_err(IntoFailure::into_failure)
            })),
            code: Rc::new(move |ctx, request| {
                let code = Rc::clone(&code);
                Box::pin(async move {
                    let name = request.name.as_str().to_owned();
                    let subject = Subject::Update(name.clone().into());
                    let result = code(Ctx::new(ctx), (name, request.input)).await;
                    answer(&subject, result)
                })
            }),
            end,
        };
        self.ctx.on_any_update(handler);
    }

    /// Answers the built-in query for the state.
    pub fn show_state(&self, view: impl Fn(&S) -> Result<Payload, FailureTrace> + 'static) {
        let view: StateView = Rc::new(move |ctx| Ctx::<S>::new(ctx).read_any(|state| view(state)));
        self.ctx.show_state(view);
    }
}

/// The handler of updates of one name, with its types put away.
pub(crate) fn update_handler<S: 'static, I, E, R, W>(
    name: &'static str,
    end: HandlerEnd,
    judge: impl Fn(Ctx<S>, &I) -> Result<(), E> + 'static,
    code: impl Fn(Ctx<S>, I) -> W + 'static,
) -> UpdateHandler
where
    I: DeserializeOwned + 'static,
    E: IntoFailure,
    R: Outcome,
    W: Future<Output = R> + 'static,
{
    let subject = Subject::Update(name.into());
    let (asker, code) = (subject.clone(), Rc::new(code));
    UpdateHandler {
        validator: Some(Rc::new(move |ctx, request| {
            let input = read_input(&asker, &request.input).map_err(|failure| *failure)?;
            judge(Ctx::new(ctx), &input).map_err(IntoFailure::into_failure)
        })),
        code: Rc::new(move |ctx, request| {
            let (code, subject) = (Rc::clone(&code), subject.clone());
            Box::pin(async move {
                let input = read_or_panic(&subject, &request.input);
                answer(&subject, code(Ctx::new(ctx), input).await)
            })
        }),
        end,
    }
}

impl<S> fmt::Debug for Handlers<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handlers")
    }
}

/// A handler that does not wait: it borrows the state, once.
pub fn now<S, I, R>(
    code: impl Fn(&mut S, Ctx, I) -> R + 'static,
) -> impl Fn(Ctx<S>, I) -> Ready<R> + 'static
where
    S: 'static,
{
    move |ctx, input| ready(ctx.with_any(|state| code(state, ctx.plain(), input)))
}

/// What a handler that cannot fail returns.
pub type Plain<T> = Result<T, Error>;

/// The value of a handler that cannot fail.
///
/// # Errors
/// Never.
pub fn plain<T>(value: T) -> Plain<T> {
    Ok(value)
}

/// The validator of an update that has none.
///
/// # Errors
/// Never.
pub fn unchecked<S, I>(_: &S, _: &I) -> Result<(), Error> {
    Ok(())
}

/// What the handler of a signal may return.
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

pub(crate) fn handled(result: impl Handled) -> Result<(), FailureTrace> {
    result.failure().map_or(Ok(()), Err)
}

/// A state that somebody wants to see.
#[derive(Debug)]
pub struct Shown<'a, S>(pub &'a S);

/// States that serialise are shown.
pub trait ShowAsJson {
    /// The state as JSON.
    ///
    /// # Errors
    /// The state's own `Serialize` failed.
    fn payload(&self) -> Result<Payload, FailureTrace>;
}

/// States that do not serialise say how they would.
pub trait ShowNothing {
    /// What to derive.
    ///
    /// # Errors
    /// Always.
    fn payload(&self) -> Result<Payload, FailureTrace>;
}

impl<S: Serialize> ShowAsJson for Shown<'_, S> {
    fn payload(&self) -> Result<Payload, FailureTrace> {
        let subject = Subject::Query("state".into());
        encode(self.0).map_err(|unstorable| unstorable.failure(&subject))
    }
}

impl<S> ShowNothing for &Shown<'_, S> {
    fn payload(&self) -> Result<Payload, FailureTrace> {
        let state = std::any::type_name::<S>();
        let message = format!("`{state}` cannot be shown: add `#[derive(Serialize)]` to it");
        Err(FailureTrace::application("", message))
    }
}

#[cfg(test)]
mod tests;
