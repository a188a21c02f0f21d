//! Anything that runs say to each other, and that the world asks of them.

use outlast_model::Priority;
use outlast_model::event::{
    CancelInitiated, CancelOf, ChildEvent, ChildInitiated, ContinuedAsNew, DeliveryFailedCause,
    ExternalEvent, Parent, SignalInitiated, StartFailedCause, UpdateAccepted, UpdateEvent,
    UpdateOutcome, UpdateRequest,
};
use outlast_model::post::{ChildRequest, Post, PostBody};
use outlast_model::record::AcceptedBefore;
use outlast_model::rest::{Await, Awaited, Rest, Unread};
use outlast_model::start::ReusePolicy;
use outlast_model::view::{RunOutcome, RunRef};
use outlast_model::{
    ChildCancel, ChildOptions, EventId, EventKind, Fact, ParentClose, RunId, Timestamp,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use super::{duration, failure, headers, payload, seq, site, text};

pub(super) fn kind() -> BoxedStrategy<EventKind> {
    prop_oneof![
        child().prop_map(EventKind::Child),
        external().prop_map(EventKind::External),
        update().prop_map(EventKind::Update),
        (text(), any::<bool>(), site()).prop_map(|(id, is_deprecated, site)| {
            let id = id.as_str().into();
            EventKind::Patched {
                id,
                is_deprecated,
                site,
            }
        }),
        continued_as_new(),
    ]
    .boxed()
}

pub(super) fn fact() -> BoxedStrategy<Fact> {
    prop_oneof![
        (vec(text(), 0..4), any::<Option<[u64; 4]>>()).prop_map(|(ids, seen)| Fact::Inherited {
            request_ids: ids.iter().map(|id| id.as_str().into()).collect(),
            seen: seen.map(|times| times.map(Timestamp).to_vec()),
        }),
        vec((text(), any::<u128>()), 0..4).prop_map(|updates| {
            let updates = updates.into_iter().map(|(id, run_id)| AcceptedBefore {
                id: id.as_str().into(),
                run_id: RunId(run_id),
            });
            Fact::UpdatesInherited {
                updates: updates.collect(),
            }
        }),
        (vec(text(), 0..4), any::<u32>(), of(rest())).prop_map(
            |(notes, unhandled_signals, rest)| Fact::Noted {
                notes,
                unhandled_signals,
                rest: rest.map(Box::new),
            }
        ),
        any::<u64>().prop_map(|at| Fact::ClockBehind { at: Timestamp(at) }),
        any::<u64>().prop_map(|at| Fact::BeganBehind { at: Timestamp(at) }),
        (text(), failure()).prop_map(|(id, failure)| Fact::UpdateRejected {
            id: id.as_str().into(),
            failure
        }),
    ]
    .boxed()
}

fn rest() -> impl Strategy<Value = Rest> {
    let what = prop_oneof![
        text().prop_map(|name| Awaited::Signal(name.as_str().into())),
        text().prop_map(|id| Awaited::Promise(id.as_str().into())),
        Just(Awaited::Condition),
        Just(Awaited::Branch),
    ];
    let at = (what, site()).prop_map(|(what, site)| Await { what, site });
    let unread = (text(), any::<u32>()).prop_map(|(name, count)| Unread {
        name: name.as_str().into(),
        count,
    });
    (vec(at, 0..4), vec(unread, 0..4)).prop_map(|(at, unread)| Rest { at, unread })
}

pub(crate) fn post() -> BoxedStrategy<Post> {
    (run_ref(), run_ref(), body())
        .prop_map(|(from, to, body)| Post { from, to, body })
        .boxed()
}

fn body() -> BoxedStrategy<PostBody> {
    prop_oneof![
        child_request().prop_map(|child| PostBody::StartChild(Box::new(child))),
        (seq(), text(), payload(), headers()).prop_map(|(seq, name, input, headers)| {
            PostBody::Signal {
                seq,
                name: name.as_str().into(),
                input,
                headers,
            }
        }),
        (of(cancel_of()), text()).prop_map(|(of, reason)| PostBody::Cancel { of, reason }),
        text().prop_map(|reason| PostBody::Terminate { reason }),
        (seq(), of(start_failed()))
            .prop_map(|(seq, failed)| PostBody::ChildStarted { seq, failed }),
        (seq(), outcome()).prop_map(|(seq, outcome)| PostBody::ChildEnded { seq, outcome }),
        (seq(), of(not_delivered()))
            .prop_map(|(seq, failed)| PostBody::SignalDelivered { seq, failed }),
        (cancel_of(), of(not_delivered()))
            .prop_map(|(of, failed)| PostBody::CancelDelivered { of, failed }),
    ]
    .boxed()
}

fn child() -> BoxedStrategy<ChildEvent> {
    prop_oneof![
        initiated().prop_map(|child| ChildEvent::Initiated(Box::new(child))),
        (seq(), start_failed()).prop_map(|(seq, cause)| ChildEvent::StartFailed { seq, cause }),
        (seq(), run_id()).prop_map(|(seq, run_id)| ChildEvent::Started { seq, run_id }),
        (seq(), payload()).prop_map(|(seq, result)| ChildEvent::Completed { seq, result }),
        (seq(), failure()).prop_map(|(seq, failure)| ChildEvent::Failed { seq, failure }),
        seq().prop_map(|seq| ChildEvent::Canceled { seq }),
        seq().prop_map(|seq| ChildEvent::TimedOut { seq }),
        seq().prop_map(|seq| ChildEvent::Terminated { seq }),
    ]
    .boxed()
}

fn initiated() -> BoxedStrategy<ChildInitiated> {
    let names = (text(), text(), text());
    let rest = (child_options(), site(), headers());
    (seq(), names, run_id(), payload(), rest)
        .prop_map(
            |(seq, names, run_id, input, (options, site, headers))| ChildInitiated {
                seq,
                workflow_id: names.0.as_str().into(),
                run_id,
                workflow_type: names.1.as_str().into(),
                queue: names.2.as_str().into(),
                input,
                options,
                site,
                headers,
            },
        )
        .boxed()
}

fn child_request() -> BoxedStrategy<ChildRequest> {
    let names = (text(), text(), text());
    let rest = (payload(), of(duration()), reuse(), parent());
    (names, run_id(), rest, headers())
        .prop_map(|(names, run_id, rest, headers)| ChildRequest {
            workflow_id: names.0.as_str().into(),
            run_id,
            workflow_type: names.1.as_str().into(),
            queue: names.2.as_str().into(),
            input: rest.0,
            run_timeout: rest.1,
            reuse: rest.2,
            parent: rest.3,
            headers,
        })
        .boxed()
}

fn child_options() -> BoxedStrategy<ChildOptions> {
    let parent_close = select(vec![
        ParentClose::Terminate,
        ParentClose::Abandon,
        ParentClose::RequestCancel,
    ]);
    let cancel = select(vec![
        ChildCancel::Abandon,
        ChildCancel::Try,
        ChildCancel::Wait,
        ChildCancel::RequestOnly,
    ]);
    (of(text()), of(duration()), parent_close, cancel, reuse())
        .prop_map(
            |(queue, run_timeout, parent_close, cancel, reuse)| ChildOptions {
                queue: queue.map(|q| q.as_str().into()),
                run_timeout,
                parent_close,
                cancel,
                reuse,
                priority: run_timeout.map(|_| Priority::LAST),
            },
        )
        .boxed()
}

fn external() -> BoxedStrategy<ExternalEvent> {
    prop_oneof![
        (cancel_of(), run_ref(), text(), site()).prop_map(|(of, target, reason, site)| {
            ExternalEvent::CancelInitiated(Box::new(CancelInitiated {
                of,
                target,
                reason,
                site,
            }))
        }),
        (cancel_of(), not_delivered())
            .prop_map(|(of, cause)| ExternalEvent::CancelFailed { of, cause }),
        cancel_of().prop_map(|of| ExternalEvent::CancelDelivered { of }),
        (seq(), run_ref(), text(), payload(), site(), headers()).prop_map(
            |(seq, target, name, input, site, headers)| {
                ExternalEvent::SignalInitiated(Box::new(SignalInitiated {
                    seq,
                    target,
                    name: name.as_str().into(),
                    input,
                    site,
                    headers,
                }))
            }
        ),
        (seq(), not_delivered())
            .prop_map(|(seq, cause)| ExternalEvent::SignalFailed { seq, cause }),
        seq().prop_map(|seq| ExternalEvent::SignalDelivered { seq }),
    ]
    .boxed()
}

fn update() -> BoxedStrategy<UpdateEvent> {
    let outcome = prop_oneof![
        payload().prop_map(UpdateOutcome::Completed),
        failure().prop_map(UpdateOutcome::Failed),
    ];
    prop_oneof![
        (text(), of(update_request()), any::<u64>()).prop_map(|(id, request, behind)| {
            UpdateEvent::Accepted(Box::new(UpdateAccepted {
                id: id.as_str().into(),
                request,
                behind: EventId(behind),
            }))
        }),
        (text(), outcome).prop_map(|(id, outcome)| UpdateEvent::Completed {
            id: id.as_str().into(),
            outcome
        }),
        update_request().prop_map(|request| UpdateEvent::Admitted(Box::new(request))),
    ]
    .boxed()
}

fn update_request() -> BoxedStrategy<UpdateRequest> {
    (text(), text(), payload(), headers())
        .prop_map(|(id, name, input, headers)| UpdateRequest {
            id: id.as_str().into(),
            name: name.as_str().into(),
            input,
            headers,
        })
        .boxed()
}

fn continued_as_new() -> BoxedStrategy<EventKind> {
    let rest = (of(duration()), headers());
    (run_id(), text(), text(), payload(), rest)
        .prop_map(|(new_run_id, name, queue, input, (run_timeout, headers))| {
            EventKind::ContinuedAsNew(Box::new(ContinuedAsNew {
                new_run_id,
                workflow_type: name.as_str().into(),
                queue: queue.as_str().into(),
                input,
                run_timeout,
                headers,
            }))
        })
        .boxed()
}

fn outcome() -> BoxedStrategy<RunOutcome> {
    prop_oneof![
        payload().prop_map(RunOutcome::Completed),
        failure().prop_map(RunOutcome::Failed),
        Just(RunOutcome::Canceled),
        text().prop_map(|reason| RunOutcome::Terminated { reason }),
        Just(RunOutcome::TimedOut),
        run_id().prop_map(RunOutcome::ContinuedAsNew),
    ]
    .boxed()
}

pub(super) fn parent() -> BoxedStrategy<Parent> {
    (text(), run_id(), seq(), any::<u64>())
        .prop_map(|(id, run_id, seq, initiated)| Parent {
            workflow_id: id.as_str().into(),
            run_id,
            seq,
            initiated: EventId(initiated),
            priority: initiated.is_multiple_of(2).then_some(Priority::FIRST),
        })
        .boxed()
}

pub(super) fn run_id() -> BoxedStrategy<RunId> {
    any::<u128>().prop_map(RunId).boxed()
}

fn run_ref() -> BoxedStrategy<RunRef> {
    (text(), of(run_id()))
        .prop_map(|(id, run_id)| RunRef {
            workflow_id: id.as_str().into(),
            run_id,
        })
        .boxed()
}

fn cancel_of() -> BoxedStrategy<CancelOf> {
    prop_oneof![
        seq().prop_map(CancelOf::Child),
        seq().prop_map(CancelOf::External),
    ]
    .boxed()
}

fn reuse() -> BoxedStrategy<ReusePolicy> {
    select(vec![
        ReusePolicy::AllowDuplicate,
        ReusePolicy::AllowDuplicateFailedOnly,
        ReusePolicy::RejectDuplicate,
        ReusePolicy::UseExisting,
    ])
    .boxed()
}

fn start_failed() -> BoxedStrategy<StartFailedCause> {
    select(vec![
        StartFailedCause::AlreadyExists,
        StartFailedCause::NotRegistered,
    ])
    .boxed()
}

fn not_delivered() -> BoxedStrategy<DeliveryFailedCause> {
    select(vec![
        DeliveryFailedCause::NotFound,
        DeliveryFailedCause::HistoryFull,
    ])
    .boxed()
}
