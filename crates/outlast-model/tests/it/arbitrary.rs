//! Any record and any post: the generators behind the laws of the stored format.

mod between;

use std::time::Duration;

use outlast_model::Priority;
use outlast_model::event::{ActivityScheduled, Site, Started, StepRecorded, TaskFailedCause};
use outlast_model::failure::RetryState;
use outlast_model::payload::Encoding;
use outlast_model::{
    ActivityOptions, Attempt, CancelMode, Edition, Epoch, Event, EventId, EventKind, Fact, Failure,
    FailureKind, Headers, Incarnation, Payload, Record, Resolution, RetryPolicy, Seq, Shared,
    StepOptions, TimeoutKind, Timestamp,
};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

pub(crate) use between::post;

/// The records of one commit: events numbered on, times never going back.
pub(crate) fn records() -> BoxedStrategy<Vec<Record>> {
    let item = prop_oneof![
        (any::<u32>(), kind()).prop_map(|(pause, kind)| (pause, Ok(kind))),
        fact().prop_map(|fact| (0, Err(fact))),
    ];
    // What code asks for many times is written in another way than what it asks for once.
    let repeated = (item, prop_oneof![Just(1_u32), 2..12_u32]).prop_map(|(item, times)| {
        let like = |n| (item.0, again(&item.1, n));
        (0..times).map(like).collect::<Vec<_>>()
    });
    (
        1..1_000_000_u64,
        0..u64::from(u32::MAX),
        vec(repeated, 0..6),
    )
        .prop_map(|(first, begin, items)| {
            let (mut id, mut time) = (first, begin);
            let mut records = Vec::new();
            for (pause, item) in items.into_iter().flatten() {
                time += u64::from(pause);
                records.push(match item {
                    Ok(kind) => {
                        id += 1;
                        Record::Event(Event {
                            id: EventId(id - 1),
                            time: Timestamp(time),
                            kind,
                        })
                    }
                    Err(fact) => Record::Fact(fact),
                });
            }
            records
        })
        .boxed()
}

/// The same once more, with the next number if that makes it one of a row.
fn again(item: &Result<EventKind, Fact>, n: u32) -> Result<EventKind, Fact> {
    let mut item = item.clone();
    if let Ok(EventKind::ActivityScheduled(scheduled)) = &mut item {
        scheduled.seq = Seq(scheduled.seq.0.wrapping_add(n));
        scheduled.input.data = n.to_string().into();
    }
    if let Err(Fact::AttemptStarted { seq, .. }) = &mut item {
        *seq = Seq(seq.0.wrapping_add(n));
    }
    item
}

fn kind() -> BoxedStrategy<EventKind> {
    prop_oneof![
        run_kind(),
        task_kind(),
        activity_kind(),
        small_kind(),
        between::kind()
    ]
    .boxed()
}

fn run_kind() -> BoxedStrategy<EventKind> {
    prop_oneof![
        started().prop_map(|started| EventKind::Started(Shared::new(started))),
        payload().prop_map(|result| EventKind::Completed { result }),
        failure().prop_map(|failure| EventKind::Failed { failure }),
        Just(EventKind::TimedOut),
        Just(EventKind::Canceled),
        text().prop_map(|reason| EventKind::Terminated { reason }),
    ]
    .boxed()
}

fn started() -> BoxedStrategy<Started> {
    let request = (text(), text(), payload(), of(text()), of(duration()));
    let kin = (
        of(between::parent()),
        of(between::run_id()),
        of(between::run_id()),
    );
    (request, between::run_id(), kin, headers())
        .prop_map(|(request, run_id, kin, headers)| {
            let (id, name, input, request_id, run_timeout) = request;
            Started {
                workflow_id: id.as_str().into(),
                run_id,
                workflow_type: name.as_str().into(),
                queue: name.as_str().into(),
                input,
                request_id: request_id.map(|r| r.as_str().into()),
                run_timeout,
                parent: kin.0.map(Box::new),
                first_run_id: kin.1,
                continued_from: kin.2,
                headers,
                priority: run_timeout.map(|_| Priority::LAST),
                edition: run_timeout.map(|_| Edition::NEWEST),
            }
        })
        .boxed()
}

fn task_kind() -> BoxedStrategy<EventKind> {
    prop_oneof![
        attempt().prop_map(|attempt| EventKind::TaskScheduled { attempt }),
        Just(EventKind::TaskStarted),
        Just(EventKind::TaskCompleted),
        (cause(), failure()).prop_map(|(cause, failure)| EventKind::TaskFailed { cause, failure }),
    ]
    .boxed()
}

fn activity_kind() -> BoxedStrategy<EventKind> {
    let ended = || (seq(), failure(), retry_state());
    prop_oneof![
        (seq(), text(), payload(), options(), site(), headers()).prop_map(
            |(seq, name, input, options, site, headers)| {
                EventKind::ActivityScheduled(Shared::new(ActivityScheduled {
                    seq,
                    activity_type: name.as_str().into(),
                    queue: name.as_str().into(),
                    input,
                    options: options.into(),
                    site,
                    headers,
                }))
            }
        ),
        (seq(), attempt(), of(failure())).prop_map(|(seq, attempt, last_failure)| {
            EventKind::ActivityStarted {
                seq,
                attempt,
                last_failure,
            }
        }),
        (seq(), payload()).prop_map(|(seq, result)| EventKind::ActivityCompleted { seq, result }),
        ended().prop_map(|(seq, failure, retry_state)| {
            EventKind::ActivityFailed {
                seq,
                failure,
                retry_state,
            }
        }),
        ended().prop_map(|(seq, failure, retry_state)| {
            EventKind::ActivityTimedOut {
                seq,
                failure,
                retry_state,
            }
        }),
        seq().prop_map(|seq| EventKind::ActivityCancelRequested { seq }),
        (seq(), of(payload()))
            .prop_map(|(seq, details)| EventKind::ActivityCanceled { seq, details }),
    ]
    .boxed()
}

fn small_kind() -> BoxedStrategy<EventKind> {
    let step = (seq(), text(), attempt(), resolution(), any::<u32>(), site());
    prop_oneof![
        (seq(), duration(), site()).prop_map(|(seq, delay, site)| EventKind::TimerStarted {
            seq,
            delay,
            site
        }),
        seq().prop_map(|seq| EventKind::TimerFired { seq }),
        seq().prop_map(|seq| EventKind::TimerCanceled { seq }),
        (text(), of(text())).prop_map(|(reason, id)| {
            EventKind::CancelRequested {
                reason,
                request_id: id.map(|r| r.as_str().into()),
            }
        }),
        step.prop_map(|(seq, name, attempt, outcome, activation, site)| {
            let name = name.as_str().into();
            let step = StepRecorded {
                seq,
                name,
                attempt,
                outcome,
                activation,
                site,
            };
            EventKind::StepRecorded(Box::new(step))
        }),
        (text(), payload(), of(text()), headers()).prop_map(|(name, input, id, headers)| {
            EventKind::Signaled {
                name: name.as_str().into(),
                input,
                request_id: id.map(|r| r.as_str().into()),
                headers,
            }
        }),
    ]
    .boxed()
}

fn fact() -> BoxedStrategy<Fact> {
    prop_oneof![attempt_fact(), step_fact(), run_fact(), between::fact()].boxed()
}

fn attempt_fact() -> BoxedStrategy<Fact> {
    prop_oneof![
        (seq(), attempt(), incarnation(), time()).prop_map(|(seq, attempt, incarnation, at)| {
            Fact::AttemptStarted {
                seq,
                attempt,
                incarnation,
                at,
            }
        }),
        (seq(), failure(), time()).prop_map(|(seq, failure, due)| Fact::AttemptFailed {
            seq,
            failure,
            due
        }),
        (seq(), time()).prop_map(|(seq, at)| Fact::AttemptHandedBack { seq, at }),
        (seq(), payload(), time()).prop_map(|(seq, details, at)| Fact::Heartbeat {
            seq,
            details,
            at
        }),
        seq().prop_map(|seq| Fact::AttemptLeft { seq }),
    ]
    .boxed()
}

fn step_fact() -> BoxedStrategy<Fact> {
    prop_oneof![
        (seq(), text(), retry(), site(), time()).prop_map(|(seq, name, retry, site, at)| {
            let (name, options) = (name.as_str().into(), Box::new(StepOptions { retry }));
            Fact::StepScheduled {
                seq,
                name,
                options,
                site,
                at,
            }
        }),
        (seq(), attempt(), incarnation()).prop_map(|(seq, attempt, incarnation)| {
            Fact::StepStarted {
                seq,
                attempt,
                incarnation,
            }
        }),
        (seq(), failure(), time()).prop_map(|(seq, failure, due)| Fact::StepFailed {
            seq,
            failure,
            due
        }),
        (seq(), time()).prop_map(|(seq, at)| Fact::StepHandedBack { seq, at }),
        (seq(), resolution()).prop_map(|(seq, outcome)| Fact::StepResolved { seq, outcome }),
    ]
    .boxed()
}

fn run_fact() -> BoxedStrategy<Fact> {
    prop_oneof![
        kind().prop_map(|kind| Fact::Buffered {
            kind: Box::new(kind)
        }),
        (attempt(), cause(), failure(), of(time())).prop_map(
            |(attempt, cause, failure, next_try)| Fact::TaskRetry {
                attempt,
                cause,
                failure,
                next_try
            }
        ),
        Just(Fact::SliceArmed),
        Just(Fact::Unblocked),
        Just(Fact::SliceDisarmed),
        any::<u32>().prop_map(|epoch| Fact::EpochRaised {
            epoch: Epoch(epoch)
        }),
    ]
    .boxed()
}

fn failure() -> BoxedStrategy<Failure> {
    let link = (text(), failure_kind(), of(text()));
    vec(link, 1..4)
        .prop_map(|links| {
            let mut chain: Option<Failure> = None;
            for (message, kind, trace) in links {
                let mut link = Failure::new(kind, message);
                link.trace = trace;
                chain = Some(match chain {
                    Some(cause) => link.caused_by(cause),
                    None => link,
                });
            }
            chain.expect("at least one link")
        })
        .boxed()
}

fn failure_kind() -> BoxedStrategy<FailureKind> {
    prop_oneof![
        (text(), any::<bool>(), of(payload()), of(duration())).prop_map(
            |(type_name, non_retryable, details, next_retry_delay)| FailureKind::Application {
                type_name,
                non_retryable,
                details,
                next_retry_delay
            }
        ),
        (timeout_kind(), of(payload())).prop_map(|(kind, last_heartbeat)| FailureKind::Timeout {
            kind,
            last_heartbeat
        }),
        of(payload()).prop_map(|details| FailureKind::Canceled { details }),
        Just(FailureKind::Terminated),
        any::<bool>().prop_map(|non_retryable| FailureKind::Server { non_retryable }),
        (text(), seq(), retry_state()).prop_map(|(name, seq, retry_state)| FailureKind::Activity {
            activity_type: name.as_str().into(),
            seq,
            retry_state
        }),
        (text(), text(), seq()).prop_map(|(id, name, seq)| FailureKind::Child {
            workflow_id: id.as_str().into(),
            workflow_type: name.as_str().into(),
            seq
        }),
    ]
    .boxed()
}

pub(crate) fn headers() -> BoxedStrategy<Headers> {
    vec((text(), payload()), 0..3)
        .prop_map(|pairs| pairs.into_iter().collect())
        .boxed()
}

fn payload() -> BoxedStrategy<Payload> {
    let encoding = prop_oneof![
        Just(Encoding::Null),
        Just(Encoding::Json),
        Just(Encoding::Bytes),
        text().prop_map(|name| Encoding::Other(Box::new(name))),
    ];
    let metadata = of(btree_map(text(), vec(any::<u8>(), 0..4), 0..3));
    (encoding, vec(any::<u8>(), 0..24), metadata)
        .prop_map(|(encoding, data, metadata)| Payload {
            encoding,
            data: data.into(),
            metadata: metadata.map(Box::new),
        })
        .boxed()
}

fn resolution() -> BoxedStrategy<Resolution> {
    prop_oneof![
        payload().prop_map(Resolution::Completed),
        (failure(), retry_state()).prop_map(|(failure, state)| Resolution::Failed(failure, state)),
        of(payload()).prop_map(Resolution::Canceled),
    ]
    .boxed()
}

fn options() -> BoxedStrategy<ActivityOptions> {
    let timeouts = (
        of(duration()),
        of(duration()),
        of(duration()),
        of(duration()),
    );
    let mode = select(vec![CancelMode::Try, CancelMode::Wait, CancelMode::Abandon]);
    (timeouts, retry(), mode, of(text()))
        .prop_map(|(timeouts, retry, cancel, queue)| ActivityOptions {
            schedule_to_close: timeouts.0,
            schedule_to_start: timeouts.1,
            start_to_close: timeouts.2,
            heartbeat: timeouts.3,
            retry,
            cancel,
            queue: queue.map(|q| q.as_str().into()),
            priority: timeouts.0.map(|_| Priority::FIRST),
        })
        .boxed()
}

fn retry() -> BoxedStrategy<RetryPolicy> {
    (
        duration(),
        1.0..9.0,
        duration(),
        any::<u32>(),
        vec(text(), 0..3),
    )
        .prop_map(
            |(initial, coefficient, max_interval, max_attempts, non_retryable)| RetryPolicy {
                initial,
                coefficient,
                max_interval,
                max_attempts,
                non_retryable,
            },
        )
        .boxed()
}

fn cause() -> BoxedStrategy<TaskFailedCause> {
    select(vec![
        TaskFailedCause::WorkerUnhandledFailure,
        TaskFailedCause::NonDeterminism,
        TaskFailedCause::UnhandledCommand,
        TaskFailedCause::BadCommand,
        TaskFailedCause::Stuck,
        TaskFailedCause::Quarantined,
    ])
    .boxed()
}

fn retry_state() -> BoxedStrategy<RetryState> {
    select(vec![
        RetryState::InProgress,
        RetryState::NonRetryableFailure,
        RetryState::Timeout,
        RetryState::MaximumAttemptsReached,
        RetryState::RetryPolicyNotSet,
        RetryState::CancelRequested,
    ])
    .boxed()
}

fn timeout_kind() -> BoxedStrategy<TimeoutKind> {
    select(vec![
        TimeoutKind::StartToClose,
        TimeoutKind::ScheduleToStart,
        TimeoutKind::ScheduleToClose,
        TimeoutKind::Heartbeat,
    ])
    .boxed()
}

fn text() -> BoxedStrategy<String> {
    vec(any::<char>(), 0..6).prop_map(String::from_iter).boxed()
}

fn duration() -> BoxedStrategy<Duration> {
    any::<u64>().prop_map(Duration::from_micros).boxed()
}

fn time() -> BoxedStrategy<Timestamp> {
    any::<u64>().prop_map(Timestamp).boxed()
}

fn seq() -> BoxedStrategy<Seq> {
    any::<u32>().prop_map(Seq).boxed()
}

fn attempt() -> BoxedStrategy<Attempt> {
    any::<u32>().prop_map(Attempt).boxed()
}

fn incarnation() -> BoxedStrategy<Incarnation> {
    any::<u128>().prop_map(Incarnation).boxed()
}

fn site() -> BoxedStrategy<Site> {
    (text(), any::<u32>())
        .prop_map(|(file, line)| Site {
            file: file.into(),
            line,
        })
        .boxed()
}
