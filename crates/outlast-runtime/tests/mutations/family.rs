//! One workflow and all its changed forms: an order that is reserved, paid, shipped and closed.
//!
//! It makes every kind of command once at least. A change is a switch; the code under no switch
//! wrote the history that all others are replayed against.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use futures::future::{Either, join, join3, select, select_all};
use outlast_model::command::ContinueAsNew;
use outlast_model::view::RunRef;
use outlast_model::{
    ActivityOptions, ChildCancel, ChildOptions, Failure, Headers, ParentClose, Payload,
    RetryPolicy, StepOptions,
};
use outlast_runtime::{
    Context, HandlerEnd, MainOutcome, Operation, SignalHandler, UpdateCode, UpdateHandler,
};

use crate::change::Change::{self, *};
use crate::flow::{Flow, act, done, sleep, step, step_code};

/// Which form of the workflow runs.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    ctx: Context,
    change: Change,
    /// Runs of a process begun so far: what no replay can repeat.
    luck: usize,
}

impl Form {
    fn is(self, change: Change) -> bool {
        self.change == change
    }

    /// One of two, by the switch.
    fn or<T>(self, change: Change, new: T, old: T) -> T {
        if self.is(change) { new } else { old }
    }
}

/// The workflow in this form.
pub(crate) fn order(change: Change) -> Flow {
    let begun = Rc::new(Cell::new(0));
    Flow::new(move |ctx, _| {
        let luck = begun.replace(begun.get() + 1);
        let form = Form { ctx, change, luck };
        ctx.set_state(Box::new(false));
        handlers(form);
        main(form)
    })
}

/// The code of the run, in four stages. Each ends in a wait for the world.
async fn main(form: Form) -> MainOutcome {
    if let Some(ended) = reserve(form).await {
        return ended;
    }
    ship(form).await;
    tell(form).await;
    close(form).await
}

fn handlers(form: Form) {
    let note: SignalHandler = Rc::new(move |ctx, _| {
        Box::pin(async move {
            if form.is(HandlerDoesMore) {
                act(ctx, "stamp").detach();
            }
            if !form.is(HandlerDoesLess) {
                act(ctx, form.or(HandlerRenamesActivity, "archive", "file")).await;
            }
            Ok(())
        })
    });
    if !form.is(RemoveSignalHandler) {
        let name = form.or(RenameSignalHandler, "remark", "note");
        form.ctx.on_signal(name.into(), note);
    }
    let approved: SignalHandler = Rc::new(|ctx, _| {
        ctx.with_state(|state| {
            if let Some(is_approved) = state.downcast_mut::<bool>() {
                *is_approved = true;
            }
        });
        Box::pin(async { Ok(()) })
    });
    form.ctx.on_signal("approved".into(), approved);
    let code: UpdateCode = Rc::new(move |ctx, _| {
        Box::pin(async move {
            if form.is(UpdateDoesMore) {
                act(ctx, "audit").detach();
            }
            if !form.is(UpdateDoesLess) {
                sleep(ctx, form.or(UpdateTunesTimer, 8, 7)).await;
            }
            if form.is(UpdateFails) {
                return Err(Failure::application("No", "not any more"));
            }
            Ok(Payload::bytes(form.or(UpdateAnswersOther, "new", "old")))
        })
    });
    let update = UpdateHandler {
        validator: None,
        code,
        end: HandlerEnd::Warn,
    };
    if !form.is(RemoveUpdateHandler) {
        let name = form.or(RenameUpdateHandler, "modify", "change");
        form.ctx.on_update(name.into(), update);
    }
}

/// Stage 1: a patch, an activity, a timer and two steps, then a race for the payment.
async fn reserve(form: Form) -> Option<MainOutcome> {
    let ctx = form.ctx;
    if !form.is(RemovePatch) {
        let _is_new = ctx.patched(form.or(RenamePatch, "v3", "v2").into());
    }
    if form.is(AddPatch) && ctx.patched("later".into()) {
        act(ctx, "new in later").detach();
    }
    if form.is(DeprecateAnotherPatch) {
        ctx.deprecate_patch("ancient".into());
    }
    if form.is(AddActivityFirst) {
        act(ctx, "greet").detach();
    }
    if form.is(AwaitStepFirst) {
        step(ctx, "scan").await;
    }
    if form.is(SwapActivityAndTimer) {
        let deadline = sleep(ctx, 60);
        drop(join(reservation(form), deadline).await);
        return None;
    }
    let reserved = reservation(form);
    if form.is(DuplicateActivity) {
        act(ctx, "reserve").detach();
    }
    let deadline = deadline(form);
    if form.is(AddStepFirst) {
        step(ctx, "warm up").detach();
    }
    let scan = if form.is(RemoveStep) {
        ctx.recv("paid".into())
    } else {
        step(ctx, form.or(RenameStep, "scan 2", "scan"))
    };
    let weigh = if form.is(StepBecomesActivity) {
        act(ctx, "weigh")
    } else {
        step(ctx, form.or(SwapSteps, "scan", "weigh"))
    };
    if form.is(AddDetachedStep) {
        let retry = RetryPolicy::times(9);
        ctx.step("extra".into(), StepOptions { retry }, step_code())
            .detach();
    }
    if form.is(EndEarly) {
        return Some(done());
    }
    let paid = ctx.recv(form.or(RenameSignal, "money", "paid").into());
    race(form, paid, reserved).await;
    if !form.is(KeepTimer) {
        deadline.cancel();
    }
    drop(join(scan, weigh).await);
    None
}

fn reservation(form: Form) -> Operation {
    let ctx = form.ctx;
    if form.is(RemoveActivity) {
        return ctx.recv("never".into());
    }
    if form.is(ActivityBecomesTimer) {
        return sleep(ctx, 1);
    }
    if form.is(ActivityBecomesStep) {
        return step(ctx, "reserve");
    }
    if form.is(ActivityBecomesChild) {
        let id = Some("reserve".into());
        return ctx.child(
            "reserve".into(),
            id,
            Payload::null(),
            ChildOptions::default(),
        );
    }
    let mut options = ActivityOptions::default();
    if form.is(TuneActivityTimeout) {
        options.start_to_close = Some(Duration::from_secs(99));
    }
    if form.is(TuneActivityRetry) {
        options.retry = RetryPolicy::never();
    }
    if form.is(TuneActivityQueue) {
        options.queue = Some("fast".into());
    }
    if form.is(TuneActivityCancel) {
        options.cancel = outlast_model::CancelMode::Abandon;
    }
    let input = Payload::bytes(form.or(TuneActivityInput, "two", "one"));
    let name = form.or(RenameActivity, "book", "reserve");
    ctx.activity(name.into(), input, options)
}

fn deadline(form: Form) -> Operation {
    if form.is(RemoveTimer) {
        return form.ctx.recv("never".into());
    }
    if form.is(TimerBecomesActivity) {
        return act(form.ctx, "deadline");
    }
    if form.is(AddTimer) {
        sleep(form.ctx, 59).detach();
    }
    sleep(form.ctx, form.or(TuneTimer, 61, 60))
}

/// Both come at once: who wins decides what is asked for next.
async fn race(form: Form, paid: Operation, reserved: Operation) {
    let ctx = form.ctx;
    let is_turned = form.is(SwapSelect) || form.is(RandomSelect) && form.luck % 2 == 1;
    let (first, second) = if is_turned {
        (reserved, paid)
    } else {
        (paid, reserved)
    };
    let is_first = match select(first, second).await {
        Either::Left(_) => true,
        Either::Right(_) => false,
    };
    if is_first != is_turned {
        act(ctx, "thank for the payment").await;
    } else {
        act(ctx, "thank for the reservation").await;
    }
    if form.is(ReceiveTwice) {
        ctx.recv("paid".into()).await;
    }
}

/// Stage 2: a child, a message and a request to others, all at once or in another order.
async fn ship(form: Form) {
    let ctx = form.ctx;
    if form.is(AddChild) {
        kid(form, "insurance", "insurance-1").detach();
    }
    if form.is(SwapChildAndMessage) {
        let (charged, stopped) = (charged(form), stopped(form));
        drop(join3(shipped(form), charged, stopped).await);
        return;
    }
    let shipped = shipped(form);
    if form.is(JoinBecomesRow) {
        shipped.await;
        charged(form).await;
        stopped(form).await;
        return;
    }
    if form.is(SwapMessages) {
        let stopped = stopped(form);
        drop(join3(shipped, charged(form), stopped).await);
        return;
    }
    let (charged, stopped) = (charged(form), stopped(form));
    drop(join3(shipped, charged, stopped).await);
    if form.is(AddActivityBetween) {
        act(ctx, "between").await;
    }
}

fn shipped(form: Form) -> Operation {
    if form.is(RemoveChild) {
        return sleep(form.ctx, 0);
    }
    if form.is(ChildBecomesActivity) {
        return act(form.ctx, "shipping");
    }
    kid(
        form,
        form.or(RenameChild, "delivery", "shipping"),
        form.or(RenameChildId, "ship-2", "ship-1"),
    )
}

fn kid(form: Form, workflow_type: &str, id: &str) -> Operation {
    let mut options = ChildOptions::default();
    if form.is(TuneChildTimeout) {
        options.run_timeout = Some(Duration::from_secs(5));
    }
    if form.is(TuneChildClose) {
        options.parent_close = ParentClose::Abandon;
    }
    if form.is(TuneChildCancel) {
        options.cancel = ChildCancel::Try;
    }
    let input = Payload::bytes(form.or(TuneChildInput, "two", "one"));
    form.ctx
        .child(workflow_type.into(), Some(id.into()), input, options)
}

fn charged(form: Form) -> Operation {
    if form.is(RemoveMessage) {
        return form.ctx.recv("approved too".into());
    }
    let to = form.or(RetargetMessage, "bank", "billing");
    let name = form.or(RenameMessage, "billed", "charged");
    let input = Payload::bytes(form.or(TuneMessage, "two", "one"));
    form.ctx
        .signal_external(RunRef::newest(to.into()), name.into(), input)
}

fn stopped(form: Form) -> Operation {
    if form.is(RemoveRequest) {
        return form.ctx.recv("approved too".into());
    }
    let to = form.or(RetargetRequest, "older", "old");
    form.ctx.cancel_external(
        RunRef::newest(to.into()),
        form.or(TuneRequest, "late", "replaced"),
    )
}

/// Stage 3: a branch beside, two activities at once, and calls that are cancelled.
async fn tell(form: Form) {
    let ctx = form.ctx;
    let tidy = async move {
        sleep(ctx, 5).await;
        act(ctx, form.or(RenameInBranch, "sweep", "tidy")).await;
    };
    if form.is(BranchBecomesInline) {
        tidy.await;
    } else if !form.is(RemoveBranch) {
        drop(ctx.spawn(tidy));
    }
    if form.is(RowBecomesJoin) {
        drop(join(act(ctx, "mail"), act(ctx, "call")).await);
        return;
    }
    let told = if form.is(SwapJoin) {
        vec![act(ctx, "print"), act(ctx, "mail")]
    } else {
        vec![act(ctx, "mail"), act(ctx, "print")]
    };
    drop(select_all(told).await);
    let call = act(ctx, "call");
    let agent = kid(form, "agent", "agent-1");
    sleep(ctx, 3).await;
    if form.is(CancelInOtherOrder) {
        agent.cancel();
        call.cancel();
    } else {
        if !form.is(KeepActivity) {
            call.cancel();
        }
        if !form.is(KeepChild) {
            agent.cancel();
        }
    }
    drop(join(call, agent).await);
}

/// Stage 4: a promise and a condition, then the run continues as new.
async fn close(form: Form) -> MainOutcome {
    let ctx = form.ctx;
    if !form.is(RemovePromise) {
        ctx.promise(form.or(RenamePromise, "consent", "approval").into())
            .await;
    }
    act(ctx, "approve").await;
    if !form.is(RemoveCondition) {
        let wanted = !form.is(InvertCondition);
        let is_wanted =
            move |state: &dyn std::any::Any| state.downcast_ref::<bool>() == Some(&wanted);
        drop(ctx.wait_until(Box::new(is_wanted)).await);
    }
    act(ctx, form.or(RenameLast, "file away", "archive")).await;
    if form.is(AddActivityLast) {
        act(ctx, "one more").await;
    }
    if form.is(CompleteInstead) {
        return done();
    }
    if form.is(FailInstead) {
        return MainOutcome::Failed(Failure::application("No", "changed its mind"));
    }
    if form.is(CancelInstead) {
        return MainOutcome::Canceled;
    }
    MainOutcome::ContinueAsNew(Box::new(ContinueAsNew {
        workflow_type: form.is(ContinueAsOther).then(|| "other".into()),
        queue: None,
        input: Payload::bytes(form.or(TuneContinue, "two", "one")),
        run_timeout: None,
        signals: Vec::new(),
        headers: Headers::new(),
    }))
}
