//! From typed functions to what a worker can run: payload in, payload out.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use outlast_model::Payload;
use outlast_model::command::ContinueAsNew;
use outlast_model::event::Started;
use outlast_model::task::AttemptResult;
use outlast_runtime::{Context, MainFuture, MainOutcome, Program};
use outlast_worker::attempt::AttemptCtx;
use outlast_worker::registry::{ActivityCode, Body};

use crate::activity::{ActivityCtx, ActivityMeta, Code};
use crate::continuing::Continuation;
use crate::ctx::Ctx;
use crate::failure::{FailureTrace, IntoFailure};
use crate::handlers::Handlers;
use crate::state::States;
use crate::subject::Subject;
use crate::wire::{Data, Outcome, attempt_result, encode, read_input};
use crate::workflow::WorkflowMeta;

/// A workflow that an engine thread can run.
pub(crate) type AnyProgram = Arc<dyn Program + Send + Sync>;

/// The code of an `#[activity]` function.
pub(crate) fn activity_code<M: ActivityMeta<Input: Data>>(states: States) -> ActivityCode {
    Arc::new(move |attempt: AttemptCtx, input: Payload| {
        let ctx = ActivityCtx::new(attempt, states.clone());
        let subject = Subject::Activity(M::NAME.into());
        let input = match read_input::<M::Input>(&subject, &input) {
            Ok(input) => input,
            Err(failure) => return ready(AttemptResult::Failed(*failure)),
        };
        match M::code(&ctx, input) {
            Code::Async(work) => Body::Async(Box::pin(async move {
                let result = work.await;
                attempt_result(&subject, result, ctx.stop_reason())
            })),
            Code::Blocking(work) => Body::Blocking(Box::new(move || {
                let result = work();
                attempt_result(&subject, result, ctx.stop_reason())
            })),
        }
    })
}

/// The code of a definition bound to a closure, or of a mock.
pub(crate) fn closure_code<I, R, F, W>(name: &'static str, states: States, work: F) -> ActivityCode
where
    I: Data,
    R: Outcome + 'static,
    F: Fn(ActivityCtx, I) -> W + Send + Sync + 'static,
    W: Future<Output = R> + Send + 'static,
{
    Arc::new(move |attempt: AttemptCtx, input: Payload| {
        let ctx = ActivityCtx::new(attempt, states.clone());
        let subject = Subject::Activity(name.into());
        let input = match read_input::<I>(&subject, &input) {
            Ok(input) => input,
            Err(failure) => return ready(AttemptResult::Failed(*failure)),
        };
        let work = work(ctx.clone(), input);
        Body::Async(Box::pin(async move {
            let result = work.await;
            attempt_result(&subject, result, ctx.stop_reason())
        }))
    })
}

fn ready(result: AttemptResult) -> Body {
    Body::Async(Box::pin(std::future::ready(result)))
}

/// The program of a `#[workflow]`.
pub(crate) fn workflow_program<M: WorkflowMeta<Input: Data>>() -> AnyProgram {
    Arc::new(Written::<M>(PhantomData))
}

struct Written<M>(PhantomData<fn() -> M>);

impl<M: WorkflowMeta<Input: Data>> Program for Written<M> {
    fn start(&self, ctx: Context, started: &Started) -> Result<MainFuture, FailureTrace> {
        let subject = Subject::Workflow(M::NAME);
        let input = read_input::<M::Input>(&subject, &started.input).map_err(|failure| *failure)?;
        // Before main's first poll: messages that came with the start find their handlers.
        ctx.set_state(Box::new(M::init(&input)));
        M::handlers(&Handlers::new(ctx));
        let main = M::main(Ctx::new(ctx), input);
        Ok(Box::pin(async move {
            main_outcome::<M::Input, _>(ctx, &subject, main.await)
        }))
    }
}

/// The program of a definition bound to a closure.
pub(crate) fn closure_program<I, R, F, W>(name: &'static str, main: F) -> AnyProgram
where
    I: Data,
    R: Outcome + 'static,
    F: Fn(Ctx, I) -> W + Send + Sync + 'static,
    W: Future<Output = R> + 'static,
{
    Arc::new(Bound {
        name,
        main,
        input: PhantomData,
    })
}

struct Bound<I, F> {
    name: &'static str,
    main: F,
    input: PhantomData<fn(I)>,
}

impl<I, R, F, W> Program for Bound<I, F>
where
    I: Data,
    R: Outcome + 'static,
    F: Fn(Ctx, I) -> W,
    W: Future<Output = R> + 'static,
{
    fn start(&self, ctx: Context, started: &Started) -> Result<MainFuture, FailureTrace> {
        let subject = Subject::Workflow(self.name);
        let input = read_input::<I>(&subject, &started.input).map_err(|failure| *failure)?;
        let main = (self.main)(Ctx::new(ctx), input);
        Ok(Box::pin(async move {
            main_outcome::<I, _>(ctx, &subject, main.await)
        }))
    }
}

/// A cancellation counts as one only if the run was asked to stop: code that cancels one of its
/// own operations and returns that error has failed.
fn main_outcome<I, R>(ctx: Context, subject: &Subject, result: R) -> MainOutcome
where
    I: Data,
    R: Outcome,
{
    match result.into_result() {
        Ok(value) => match encode(&value) {
            Ok(payload) => MainOutcome::Completed(payload),
            Err(unstorable) => panic!("{}", unstorable.text("result", subject)),
        },
        Err(error) => {
            if let Some(next) = error.continuation() {
                return MainOutcome::ContinueAsNew(checked::<I>(subject, next));
            }
            let failure = error.into_failure();
            if failure.is_canceled() && ctx.is_cancelled() {
                return MainOutcome::Canceled;
            }
            MainOutcome::Failed(failure)
        }
    }
}

/// A next run of the same workflow must be able to read its input: found here, the code can be
/// fixed and the run goes on.
fn checked<I: Data>(subject: &Subject, next: &Continuation) -> Box<ContinueAsNew> {
    if let Some(input) = next.own_input()
        && let Err(failure) = read_input::<I>(subject, input)
    {
        panic!("continue_as_new: {}", failure.message);
    }
    next.command()
}

#[cfg(test)]
mod tests;
