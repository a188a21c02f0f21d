//! What runs say to each other, and what the world asks of them.

use std::time::Duration;

use outlast_model::event::{
    CancelInitiated, CancelOf, ChildEvent, ChildInitiated, ContinuedAsNew, DeliveryFailedCause,
    ExternalEvent, Parent, SignalInitiated, StartFailedCause, Started, UpdateAccepted, UpdateEvent,
    UpdateOutcome, UpdateRequest,
};
use outlast_model::post::{ChildRequest, Post, PostBody};
use outlast_model::start::ReusePolicy;
use outlast_model::view::{RunOutcome, RunRef};
use outlast_model::{
    ChildCancel, ChildOptions, Edition, EventId, EventKind, Failure, FailureKind, Headers,
    ParentClose, RunId, Seq, Shared, WorkflowId,
};

use super::{deep_failure, json, run_id, site, start};

fn parent() -> Parent {
    Parent {
        workflow_id: "month-3".into(),
        run_id: run_id(9),
        seq: Seq(4),
        initiated: EventId(12),
        priority: None,
    }
}

/// A run that is somebody's child and continues another one.
pub(crate) fn continued_child() -> EventKind {
    EventKind::Started(Shared::new(Started {
        parent: Some(Box::new(parent())),
        first_run_id: Some(run_id(7)),
        continued_from: Some(run_id(8)),
        ..start()
    }))
}

/// A run that began under rules that are not the first.
pub(crate) fn of_an_edition() -> EventKind {
    EventKind::Started(Shared::new(Started {
        edition: Some(Edition::SECOND),
        ..start()
    }))
}

pub(crate) fn continued_as_new() -> EventKind {
    EventKind::ContinuedAsNew(Box::new(ContinuedAsNew {
        new_run_id: run_id(2),
        workflow_type: "checkout-2".into(),
        queue: "orders".into(),
        input: json("{\"month\":4}"),
        run_timeout: Some(Duration::from_secs(7_200)),
        headers: Headers::new(),
    }))
}

fn child_options() -> ChildOptions {
    ChildOptions {
        queue: Some("parcels".into()),
        run_timeout: Some(Duration::from_millis(90_500)),
        parent_close: ParentClose::RequestCancel,
        cancel: ChildCancel::Try,
        reuse: ReusePolicy::RejectDuplicate,
        priority: None,
    }
}

fn child_id(seq: u32) -> WorkflowId {
    WorkflowId::new(format!("parcel-{seq}"))
}

fn child_run(seq: u32) -> RunId {
    run_id(2 + u128::from(seq))
}

pub(crate) fn child_initiated(seq: u32) -> EventKind {
    EventKind::Child(ChildEvent::Initiated(Box::new(ChildInitiated {
        seq: Seq(seq),
        workflow_id: child_id(seq),
        run_id: child_run(seq),
        workflow_type: "ship".into(),
        queue: "parcels".into(),
        input: json("\"pen\""),
        options: child_options(),
        site: site(40),
        headers: Headers::new(),
    })))
}

pub(crate) fn child_start_failed(seq: u32) -> EventKind {
    let (seq, cause) = (Seq(seq), StartFailedCause::AlreadyExists);
    EventKind::Child(ChildEvent::StartFailed { seq, cause })
}

pub(crate) fn child_started(seq: u32) -> EventKind {
    let (seq, run_id) = (Seq(seq), child_run(seq));
    EventKind::Child(ChildEvent::Started { seq, run_id })
}

pub(crate) fn child_completed(seq: u32) -> EventKind {
    let (seq, result) = (Seq(seq), json("\"delivered\""));
    EventKind::Child(ChildEvent::Completed { seq, result })
}

/// As the child said it.
pub(crate) fn child_failed(seq: u32) -> EventKind {
    let (seq, failure) = (Seq(seq), deep_failure());
    EventKind::Child(ChildEvent::Failed { seq, failure })
}

/// As its parent's code is told.
pub(crate) fn child_failure(seq: u32) -> Failure {
    let kind = FailureKind::Child {
        workflow_id: child_id(seq),
        workflow_type: "ship".into(),
        seq: Seq(seq),
    };
    Failure::new(kind, format!("child {} failed", child_id(seq))).caused_by(deep_failure())
}

pub(crate) fn child_canceled(seq: u32) -> EventKind {
    EventKind::Child(ChildEvent::Canceled { seq: Seq(seq) })
}

pub(crate) fn child_timed_out(seq: u32) -> EventKind {
    EventKind::Child(ChildEvent::TimedOut { seq: Seq(seq) })
}

pub(crate) fn child_terminated(seq: u32) -> EventKind {
    EventKind::Child(ChildEvent::Terminated { seq: Seq(seq) })
}

fn target() -> RunRef {
    RunRef {
        workflow_id: "stock".into(),
        run_id: Some(run_id(5)),
    }
}

pub(crate) fn cancel_initiated(of: CancelOf) -> EventKind {
    EventKind::External(ExternalEvent::CancelInitiated(Box::new(CancelInitiated {
        of,
        target: target(),
        reason: "sold out".into(),
        site: site(44),
    })))
}

pub(crate) fn cancel_failed(of: CancelOf) -> EventKind {
    let cause = DeliveryFailedCause::NotFound;
    EventKind::External(ExternalEvent::CancelFailed { of, cause })
}

pub(crate) fn cancel_delivered(of: CancelOf) -> EventKind {
    EventKind::External(ExternalEvent::CancelDelivered { of })
}

pub(crate) fn signal_initiated(seq: u32) -> EventKind {
    EventKind::External(ExternalEvent::SignalInitiated(Box::new(SignalInitiated {
        seq: Seq(seq),
        target: RunRef::newest("stock".into()),
        name: "take".into(),
        input: json("3"),
        site: site(47),
        headers: Headers::new(),
    })))
}

pub(crate) fn signal_failed(seq: u32) -> EventKind {
    let (seq, cause) = (Seq(seq), DeliveryFailedCause::HistoryFull);
    EventKind::External(ExternalEvent::SignalFailed { seq, cause })
}

pub(crate) fn signal_delivered(seq: u32) -> EventKind {
    EventKind::External(ExternalEvent::SignalDelivered { seq: Seq(seq) })
}

fn update_request(id: &str) -> UpdateRequest {
    UpdateRequest {
        id: id.into(),
        name: "set-address".into(),
        input: json("\"Main Street 1\""),
        headers: Headers::new(),
    }
}

fn accepted(id: &str, request: Option<UpdateRequest>, behind: u64) -> EventKind {
    EventKind::Update(UpdateEvent::Accepted(Box::new(UpdateAccepted {
        id: id.into(),
        request,
        behind: EventId(behind),
    })))
}

pub(crate) fn update_accepted(id: &str, behind: u64) -> EventKind {
    accepted(id, Some(update_request(id)), behind)
}

/// The request is in the event that admitted it.
pub(crate) fn admitted_update_accepted(id: &str, behind: u64) -> EventKind {
    accepted(id, None, behind)
}

pub(crate) fn update_completed(id: &str) -> EventKind {
    EventKind::Update(UpdateEvent::Completed {
        id: id.into(),
        outcome: UpdateOutcome::Completed(json("\"changed\"")),
    })
}

pub(crate) fn update_failed(id: &str) -> EventKind {
    EventKind::Update(UpdateEvent::Completed {
        id: id.into(),
        outcome: UpdateOutcome::Failed(child_failure(1)),
    })
}

pub(crate) fn update_admitted(id: &str) -> EventKind {
    EventKind::Update(UpdateEvent::Admitted(Box::new(update_request(id))))
}

pub(crate) fn patched(id: &str) -> EventKind {
    EventKind::Patched {
        id: id.into(),
        is_deprecated: true,
        site: site(50),
    }
}

/// Every post, in the order of their numbers.
pub(crate) fn every_post() -> Vec<Post> {
    let seq = Seq(4);
    let bodies = [
        PostBody::StartChild(Box::new(ChildRequest {
            workflow_id: child_id(1),
            run_id: child_run(1),
            workflow_type: "ship".into(),
            queue: "parcels".into(),
            input: json("\"pen\""),
            run_timeout: Some(Duration::from_millis(90_500)),
            reuse: ReusePolicy::AllowDuplicateFailedOnly,
            parent: parent(),
            headers: Headers::new(),
        })),
        PostBody::Signal {
            seq,
            name: "take".into(),
            input: json("3"),
            headers: Headers::new(),
        },
        PostBody::Cancel {
            of: Some(CancelOf::Child(seq)),
            reason: "sold out".into(),
        },
        PostBody::Terminate {
            reason: "the parent has ended".into(),
        },
        PostBody::ChildStarted {
            seq,
            failed: Some(StartFailedCause::NotRegistered),
        },
        PostBody::ChildEnded {
            seq,
            outcome: RunOutcome::Failed(child_failure(2)),
        },
        PostBody::SignalDelivered {
            seq,
            failed: Some(DeliveryFailedCause::HistoryFull),
        },
        PostBody::CancelDelivered {
            of: CancelOf::External(seq),
            failed: Some(DeliveryFailedCause::NotFound),
        },
    ];
    let post = |body| Post {
        from: RunRef {
            workflow_id: "order-7".into(),
            run_id: Some(run_id(1)),
        },
        to: target(),
        body,
    };
    bodies.map(post).into()
}
