//! Messages and requests to runs that are not children.

use outlast_model::event::{CancelOf, DeliveryFailedCause, ExternalEvent};
use outlast_model::failure::type_name;
use outlast_model::view::RunRef;
use outlast_model::{Payload, Resolution, Seq};
use outlast_runtime::{Context, Operation};

use crate::backend::{Backend, short};
use crate::flow::{Flow, done, sleep, word};

#[track_caller]
fn tell(ctx: Context, text: &str) -> Operation {
    let input = Payload::bytes(text.to_owned());
    ctx.signal_external(RunRef::newest("other".into()), "hello".into(), input)
}

#[track_caller]
fn stop(ctx: Context) -> Operation {
    ctx.cancel_external(RunRef::newest("other".into()), "enough")
}

fn kind_of(resolution: &Resolution) -> String {
    match resolution {
        Resolution::Failed(failure, _) => failure.type_name().unwrap_or_default().into(),
        Resolution::Completed(_) | Resolution::Canceled(_) => word(resolution),
    }
}

#[test]
fn both_resolve_when_they_have_arrived_or_cannot() {
    let flow = Flow::new(|ctx, log| async move {
        let calls = futures::join!(tell(ctx, "1"), tell(ctx, "2"), stop(ctx), stop(ctx));
        let (a, b, c, d) = calls;
        for resolution in [a, b, c, d] {
            log.note(kind_of(&resolution));
        }
        done()
    });
    let mut backend = Backend::new(flow);
    assert_eq!(
        short(&backend.turn()),
        [
            "signal 1 hello to other",
            "signal 2 hello to other",
            "stop 1 other",
            "stop 2 other"
        ]
    );
    let failed = DeliveryFailedCause::NotFound;
    backend.external(ExternalEvent::SignalFailed {
        seq: Seq(2),
        cause: failed,
    });
    backend
        .external(ExternalEvent::SignalDelivered { seq: Seq(1) })
        .turn();
    let (of, cause) = (CancelOf::External(Seq(1)), DeliveryFailedCause::HistoryFull);
    backend.external(ExternalEvent::CancelFailed { of, cause });
    let of = CancelOf::External(Seq(2));
    backend
        .external(ExternalEvent::CancelDelivered { of })
        .turn();
    assert!(backend.is_closed, "{}", backend.failure());
    let (missing, full) = (type_name::NOT_FOUND, type_name::HISTORY_FULL);
    assert_eq!(backend.log(), ["ok:", missing, full, "ok:"]);
    drop(backend.replayed().expect("replays"));
    assert_eq!(backend.log(), ["ok:", missing, full, "ok:"]);
}

#[test]
fn what_is_on_its_way_cannot_be_called_back_what_is_not_was_never_sent() {
    let flow = Flow::new(|ctx, log| async move {
        let unsent = tell(ctx, "unsent");
        unsent.cancel();
        log.note(word(&unsent.await));
        let sent = tell(ctx, "sent");
        sleep(ctx, 1).await;
        sent.cancel();
        log.note(word(&sent.await));
        ctx.recv("end".into()).await;
        done()
    });
    let mut backend = Backend::new(flow);
    assert_eq!(
        short(&backend.turn()),
        ["signal 2 hello to other", "timer 1"]
    );
    assert!(backend.fire(1).turn().is_empty());
    assert_eq!(backend.log(), ["cancelled", "cancelled"]);
    backend.external(ExternalEvent::SignalDelivered { seq: Seq(2) });
    assert_eq!(short(&backend.signal("end", "").turn()), ["complete"]);
}

#[test]
fn another_name_or_target_is_a_mismatch_and_other_content_is_told() {
    let flow = |to: &'static str, name: &'static str, text: &'static str| {
        Flow::new(move |ctx, _| async move {
            let target = RunRef::newest(to.into());
            ctx.signal_external(target, name.into(), Payload::bytes(text))
                .await;
            done()
        })
    };
    let recorded = Backend::started(flow("a", "s", "1"));
    let replay = |flow: Flow| {
        let mut other = Backend::new(flow);
        other.history.clone_from(&recorded.history);
        other.replayed()
    };
    for (flow, code) in [
        (
            flow("b", "s", "1"),
            "code:    SignalExternal, signal 1 `s` to `b`, asked at",
        ),
        (
            flow("a", "t", "1"),
            "code:    SignalExternal, signal 1 `t` to `a`, asked at",
        ),
    ] {
        let told = replay(flow).expect_err("differs").failure.message.clone();
        assert!(told.contains(code), "{told}");
        let history = "event 5 SignalExternalWorkflowExecutionInitiated, signal 1 `s` to `a`";
        assert!(told.contains(history), "{told}");
    }
    let mut tuned = replay(flow("a", "s", "22")).expect("replays");
    let warnings = tuned.warnings();
    assert!(
        warnings[0].ends_with("other input (2 bytes instead of 1)"),
        "{warnings:?}"
    );
}
