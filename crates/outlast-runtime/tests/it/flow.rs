//! Small programs for tests: an async closure, its log, and short names for durable calls.

use std::cell::RefCell;
use std::future::Future;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use outlast_model::event::{Site, Started};
use outlast_model::task::AttemptResult;
use outlast_model::{ActivityOptions, CancelMode, Failure, Payload, Resolution, StepOptions};
use outlast_runtime::{
    Context, ForeignWake, MainFuture, MainOutcome, Operation, Program, SliceWatch, StepCode,
};

/// What the code of a program noted, newest last. Emptied when an instance is made.
#[derive(Clone, Default)]
pub(crate) struct Log(Rc<RefCell<Vec<String>>>);

impl Log {
    pub(crate) fn note(&self, text: impl Into<String>) {
        self.0.borrow_mut().push(text.into());
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.borrow().clone()
    }

    pub(crate) fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}

/// A program made of an async closure.
pub(crate) struct Flow {
    pub(crate) log: Log,
    code: Box<dyn Fn(Context, Log) -> MainFuture>,
}

impl Flow {
    pub(crate) fn new<F: Future<Output = MainOutcome> + 'static>(
        code: impl Fn(Context, Log) -> F + 'static,
    ) -> Self {
        let code = Box::new(move |ctx, log| Box::pin(code(ctx, log)) as MainFuture);
        Self {
            log: Log::default(),
            code,
        }
    }
}

impl Program for Flow {
    fn start(&self, ctx: Context, _: &Started) -> Result<MainFuture, Failure> {
        self.log.clear();
        Ok((self.code)(ctx, self.log.clone()))
    }
}

pub(crate) fn done() -> MainOutcome {
    MainOutcome::Completed(Payload::null())
}

#[track_caller]
pub(crate) fn act(ctx: Context, name: &str) -> Operation {
    ctx.activity(
        name.into(),
        Payload::bytes(name.to_owned()),
        ActivityOptions::default(),
    )
}

#[track_caller]
pub(crate) fn act_with(ctx: Context, name: &str, cancel: CancelMode) -> Operation {
    let options = ActivityOptions {
        cancel,
        ..ActivityOptions::default()
    };
    ctx.activity(name.into(), Payload::bytes(name.to_owned()), options)
}

#[track_caller]
pub(crate) fn sleep(ctx: Context, secs: u64) -> Operation {
    ctx.timer(Duration::from_secs(secs))
}

#[track_caller]
pub(crate) fn step(ctx: Context, name: &str) -> Operation {
    ctx.step(name.into(), StepOptions::default(), step_code())
}

pub(crate) fn step_code() -> StepCode {
    Arc::new(|| Box::pin(async { AttemptResult::Completed(Payload::null()) }))
}

/// An outcome in one word.
pub(crate) fn word(resolution: &Resolution) -> String {
    match resolution {
        Resolution::Completed(p) => format!("ok:{}", String::from_utf8_lossy(&p.data)),
        Resolution::Failed(failure, _) => format!("failed:{failure}"),
        Resolution::Canceled(_) => "cancelled".into(),
    }
}

pub(crate) fn no_foreign() -> ForeignWake {
    Arc::new(|run| panic!("nothing foreign is expected here: {run}"))
}

/// Keeps the warnings of instances that are gone.
#[derive(Default)]
pub(crate) struct Listening(pub(crate) RefCell<Vec<String>>);

impl SliceWatch for Listening {
    fn before_poll(&self, _: &str, _: Option<&Site>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn warned(&self, warning: &str) {
        self.0.borrow_mut().push(warning.into());
    }
}
