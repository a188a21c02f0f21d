//! Handlers of a function workflow: closures over its local variables.
//!
//! They are registered while the code runs; messages that came before wait for them. State they
//! share with main lives in an `Rc<Cell<..>>` or an `Rc<RefCell<..>>`: all of it stays on one
//! thread.

use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;

use outlast_model::event::UpdateRequest;
use outlast_model::{Payload, QueryName, SignalName, UpdateName};
use outlast_runtime::{
    AnySignalHandler, Context, HandlerEnd, QueryHandler, SignalHandler, UpdateCode, UpdateHandler,
};
use serde::de::DeserializeOwned;

use crate::ctx::Ctx;
use crate::error::Error;
use crate::failure::IntoFailure;
use crate::handlers::{Handled, handled, update_handler};
use crate::query::Query;
use crate::signal::Signal;
use crate::subject::Subject;
use crate::update::Update;
use crate::wire::{Data, answer, read_input, read_or_panic};

/// Handlers.
impl<S> Ctx<S> {
    /// Answers signals of this name, each in a branch of its own. It takes those that came before,
    /// too; [`recv`](Ctx::recv) gets none of them.
    #[track_caller]
    pub fn on_signal<T, R>(
        self,
        signal: Signal<T>,
        code: impl AsyncFn(T) -> R + 'static,
    ) -> OnSignal
    where
        T: DeserializeOwned + 'static,
        R: Handled + 'static,
    {
        let (name, code) = (signal.name(), Rc::new(code));
        let handler: SignalHandler = Rc::new(move |_, payload: Payload| {
            let code = Rc::clone(&code);
            Box::pin(async move {
                let input = read_or_panic(&Subject::Signal(name.into()), &payload);
                handled(code(input).await)
            })
        });
        OnSignal::register(
            self.raw(),
            Registered::Named(SignalName::new(name), handler),
        )
    }

    /// Answers signals that nobody else takes, with their name and their content as it came.
    #[track_caller]
    pub fn on_any_signal<R: Handled + 'static>(
        self,
        code: impl AsyncFn(String, Payload) -> R + 'static,
    ) -> OnSignal {
        let code = Rc::new(code);
        let handler: AnySignalHandler = Rc::new(move |_, name: SignalName, payload| {
            let code = Rc::clone(&code);
            Box::pin(async move { handled(code(name.as_str().to_owned(), payload).await) })
        });
        OnSignal::register(self.raw(), Registered::Any(handler))
    }

    /// Answers a question. The closure only reads; it gives the value or a `Result`.
    #[track_caller]
    pub fn on_query<I, O, E, R>(self, query: Query<I, O, E>, code: impl Fn(I) -> R + 'static)
    where
        I: DeserializeOwned,
        O: Data,
        E: IntoFailure,
        R: Answered<O, E>,
    {
        let subject = Subject::Query(query.name().into());
        let handler: QueryHandler = Rc::new(move |_, query| {
            let input = read_input(&subject, &query.input).map_err(|failure| *failure)?;
            answer(&subject, code(input).into_answer())
        });
        self.raw().on_query(QueryName::new(query.name()), handler);
    }

    /// Answers questions that no other handler knows, with their name and content as it came.
    #[track_caller]
    pub fn on_any_query<O: Data, E: IntoFailure>(
        self,
        code: impl Fn(String, Payload) -> Result<O, E> + 'static,
    ) {
        let handler: QueryHandler = Rc::new(move |_, query| {
            let name = query.name.as_str().to_owned();
            let subject = Subject::Query(name.clone().into());
            answer(&subject, code(name, query.input.clone()))
        });
        self.raw().on_any_query(handler);
    }

    /// Answers updates that no other handler knows, with their name and content as it came.
    #[track_caller]
    pub fn on_any_update<O: Data, E: IntoFailure>(
        self,
        code: impl AsyncFn(String, Payload) -> Result<O, E> + 'static,
    ) {
        let code = Rc::new(code);
        let code: UpdateCode = Rc::new(move |_, request: UpdateRequest| {
            let code = Rc::clone(&code);
            Box::pin(async move {
                let name = request.name.as_str().to_owned();
                let subject = Subject::Update(name.clone().into());
                answer(&subject, code(name, request.input).await)
            })
        });
        self.raw().on_any_update(UpdateHandler {
            validator: None,
            code,
            end: HandlerEnd::default(),
        });
    }

    /// Answers an update. The closure gives the value or a `Result`; it may wait.
    #[track_caller]
    pub fn on_update<I, O, E, R>(
        self,
        update: Update<I, O, E>,
        code: impl AsyncFn(I) -> R + 'static,
    ) -> OnUpdate<I>
    where
        I: DeserializeOwned + 'static,
        O: Data,
        E: IntoFailure,
        R: Answered<O, E>,
    {
        let code = Rc::new(code);
        let code = move |_: Ctx, input: I| {
            let code = Rc::clone(&code);
            async move { code(input).await.into_answer() }
        };
        let judge = |_: Ctx, _: &I| Ok::<(), Error>(());
        let handler = update_handler(update.name(), HandlerEnd::default(), judge, code);
        OnUpdate::register(self.raw(), update.name(), handler)
    }
}

/// What the handler of a query or an update gives: an `O`, or a `Result` of it.
pub trait Answered<O, E> {
    /// The `Result` it is.
    ///
    /// # Errors
    /// The error it holds.
    fn into_answer(self) -> Result<O, E>;
}

impl<O, E> Answered<O, E> for O {
    fn into_answer(self) -> Result<O, E> {
        Ok(self)
    }
}

impl<O, E> Answered<O, E> for Result<O, E> {
    fn into_answer(self) -> Self {
        self
    }
}

/// The registered handler of a signal.
pub struct OnSignal {
    ctx: Context,
    handler: Registered,
}

#[derive(Clone)]
enum Registered {
    Named(SignalName, SignalHandler),
    Any(AnySignalHandler),
}

impl OnSignal {
    #[track_caller]
    fn register(ctx: Context, handler: Registered) -> Self {
        Self { ctx, handler }.unfinished(HandlerEnd::default())
    }

    /// What becomes of it when it still waits at the end of main.
    #[track_caller]
    #[expect(clippy::must_use_candidate, reason = "it is registered already")]
    pub fn unfinished(self, end: HandlerEnd) -> Self {
        match self.handler.clone() {
            Registered::Named(name, handler) => self.ctx.on_signal_until(name, handler, end),
            Registered::Any(handler) => self.ctx.on_any_signal(handler, end),
        }
        self
    }
}

impl fmt::Debug for OnSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.handler {
            Registered::Named(name, _) => name.as_str(),
            Registered::Any(_) => "*",
        };
        f.debug_tuple("OnSignal").field(&name).finish()
    }
}

/// The registered handler of an update that takes an `I`.
pub struct OnUpdate<I> {
    ctx: Context,
    name: &'static str,
    handler: UpdateHandler,
    input: PhantomData<fn(I)>,
}

impl<I: DeserializeOwned + 'static> OnUpdate<I> {
    #[track_caller]
    fn register(ctx: Context, name: &'static str, handler: UpdateHandler) -> Self {
        let registered = Self {
            ctx,
            name,
            handler,
            input: PhantomData,
        };
        registered.put()
    }

    #[track_caller]
    fn put(self) -> Self {
        let name = UpdateName::new(self.name);
        self.ctx.on_update(name, self.handler.clone());
        self
    }

    /// Says whether an update may run; it only reads. What it turns away is not recorded.
    #[track_caller]
    pub fn validate<E: IntoFailure>(
        mut self,
        judge: impl Fn(&I) -> Result<(), E> + 'static,
    ) -> Self {
        let subject = Subject::Update(self.name.into());
        self.handler.validator = Some(Rc::new(move |_, request: &UpdateRequest| {
            let input = read_input(&subject, &request.input).map_err(|failure| *failure)?;
            judge(&input).map_err(IntoFailure::into_failure)
        }));
        self.put()
    }

    /// What becomes of it when it still waits at the end of main.
    #[track_caller]
    pub fn unfinished(mut self, end: HandlerEnd) -> Self {
        self.handler.end = end;
        self.put()
    }
}

impl<I> fmt::Debug for OnUpdate<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnUpdate").field(&self.name).finish()
    }
}
