//! One value of every kind of event, fact and post, with every field filled in.

mod between;
mod headers;
mod rest;

use std::collections::BTreeMap;
use std::time::Duration;

use outlast_model::event::{
    ActivityScheduled, CancelOf, Site, Started, StepRecorded, TaskFailedCause,
};
use outlast_model::failure::RetryState;
use outlast_model::payload::Encoding;
use outlast_model::record::AcceptedBefore;
use outlast_model::{
    ActivityOptions, Attempt, CancelMode, Epoch, Event, EventId, EventKind, Fact, Failure,
    FailureKind, Headers, Incarnation, Payload, Resolution, RetryPolicy, RunId, Seq, Shared,
    StepOptions, TimeoutKind, Timestamp,
};

pub(crate) use between::{
    admitted_update_accepted, cancel_delivered, cancel_failed, cancel_initiated, child_canceled,
    child_completed, child_failed, child_failure, child_initiated, child_start_failed,
    child_started, child_terminated, child_timed_out, continued_as_new, continued_child,
    every_post, of_an_edition, patched, signal_delivered, signal_failed, signal_initiated,
    update_accepted, update_admitted, update_completed, update_failed,
};
pub(crate) use headers::{post_with_headers, with_headers};
use rest::noted;
pub(crate) use rest::noted_rest;

/// When the samples begin.
pub(crate) const BEGIN: Timestamp = Timestamp(1_700_000_000_000_000);

/// Numbers and dates a list of kinds: one millisecond apart, from 1.
pub(crate) fn history(kinds: impl IntoIterator<Item = EventKind>) -> Vec<Event> {
    let ids = 1..;
    let event = |(id, kind)| Event {
        id: EventId(id),
        time: Timestamp(BEGIN.0 + id * 1_000),
        kind,
    };
    ids.zip(kinds).map(event).collect()
}

pub(crate) fn json(text: &str) -> Payload {
    Payload::raw_json(text.as_bytes().to_vec())
}

pub(crate) fn site(line: u32) -> Site {
    Site {
        file: "src/orders.rs".into(),
        line,
    }
}

/// A failure of an activity, with its cause and every field.
pub(crate) fn deep_failure() -> Failure {
    let cause = FailureKind::Application {
        type_name: "CardDeclined".into(),
        non_retryable: true,
        details: Some(json("{\"code\":51}")),
        next_retry_delay: Some(Duration::from_millis(2_500)),
    };
    let outer = FailureKind::Activity {
        activity_type: "charge".into(),
        seq: Seq(1),
        retry_state: RetryState::NonRetryableFailure,
    };
    Failure::new(outer, "activity charge failed")
        .caused_by(Failure::new(cause, "card declined").at("src/pay.rs:7"))
}

/// A run that nobody but a client started.
fn start() -> Started {
    Started {
        workflow_id: "order-7".into(),
        run_id: run_id(1),
        workflow_type: "checkout".into(),
        queue: "orders".into(),
        input: json("{\"item\":\"pen\"}"),
        request_id: Some("req-1".into()),
        run_timeout: Some(Duration::from_secs(3_600)),
        parent: None,
        first_run_id: None,
        continued_from: None,
        headers: Headers::new(),
        priority: None,
        edition: None,
    }
}

pub(crate) fn run_id(number: u128) -> RunId {
    RunId(0x0192_0000_0000_7000_8000_0000_0000_0000 + number)
}

pub(crate) fn started() -> EventKind {
    EventKind::Started(Shared::new(start()))
}

pub(crate) fn retry_policy() -> RetryPolicy {
    RetryPolicy {
        initial: Duration::from_millis(250),
        coefficient: 1.5,
        max_interval: Duration::from_secs(10),
        max_attempts: 4,
        non_retryable: vec!["CardDeclined".into()],
    }
}

pub(crate) fn activity_scheduled(seq: u32) -> EventKind {
    EventKind::ActivityScheduled(Shared::new(ActivityScheduled {
        seq: Seq(seq),
        activity_type: "charge".into(),
        queue: "payments".into(),
        input: json("[\"pen\",3]"),
        options: ActivityOptions {
            schedule_to_close: Some(Duration::from_secs(60)),
            schedule_to_start: Some(Duration::from_secs(5)),
            start_to_close: Some(Duration::from_millis(30_500)),
            heartbeat: Some(Duration::from_secs(2)),
            retry: retry_policy(),
            cancel: CancelMode::Wait,
            queue: Some("payments".into()),
            priority: None,
        }
        .into(),
        site: site(12),
        headers: Headers::new(),
    }))
}

pub(crate) fn activity_started(seq: u32) -> EventKind {
    let last_failure = Some(Failure::timeout(TimeoutKind::Heartbeat, Some(json("40"))));
    EventKind::ActivityStarted {
        seq: Seq(seq),
        attempt: Attempt(2),
        last_failure,
    }
}

pub(crate) fn activity_completed(seq: u32) -> EventKind {
    EventKind::ActivityCompleted {
        seq: Seq(seq),
        result: json("\"receipt\""),
    }
}

pub(crate) fn activity_failed(seq: u32) -> EventKind {
    let retry_state = RetryState::MaximumAttemptsReached;
    EventKind::ActivityFailed {
        seq: Seq(seq),
        failure: deep_failure(),
        retry_state,
    }
}

pub(crate) fn activity_timed_out(seq: u32) -> EventKind {
    let failure = Failure::timeout(TimeoutKind::ScheduleToStart, None);
    EventKind::ActivityTimedOut {
        seq: Seq(seq),
        failure,
        retry_state: RetryState::Timeout,
    }
}

pub(crate) fn activity_cancel_requested(seq: u32) -> EventKind {
    EventKind::ActivityCancelRequested { seq: Seq(seq) }
}

pub(crate) fn activity_canceled(seq: u32) -> EventKind {
    EventKind::ActivityCanceled {
        seq: Seq(seq),
        details: Some(json("\"half\"")),
    }
}

pub(crate) fn timer_started(seq: u32) -> EventKind {
    EventKind::TimerStarted {
        seq: Seq(seq),
        delay: Duration::from_millis(3_500),
        site: site(20),
    }
}

pub(crate) fn timer_fired(seq: u32) -> EventKind {
    EventKind::TimerFired { seq: Seq(seq) }
}

pub(crate) fn timer_canceled(seq: u32) -> EventKind {
    EventKind::TimerCanceled { seq: Seq(seq) }
}

pub(crate) fn step_recorded(seq: u32, outcome: Resolution) -> EventKind {
    EventKind::StepRecorded(Box::new(StepRecorded {
        seq: Seq(seq),
        name: "stamp".into(),
        attempt: Attempt(1),
        outcome,
        activation: 0,
        site: site(31),
    }))
}

pub(crate) fn step_completed(seq: u32) -> EventKind {
    step_recorded(seq, Resolution::Completed(json("7")))
}

pub(crate) fn signaled(request_id: &str) -> EventKind {
    let metadata = BTreeMap::from([("key-id".into(), b"k1".to_vec())]);
    let input = Payload {
        encoding: Encoding::Other(Box::new("binary/encrypted".into())),
        data: vec![0, 255, 16].into(),
        metadata: Some(Box::new(metadata)),
    };
    EventKind::Signaled {
        name: "approve".into(),
        input,
        request_id: Some(request_id.into()),
        headers: Headers::new(),
    }
}

pub(crate) fn cancel_requested() -> EventKind {
    EventKind::CancelRequested {
        reason: "no longer needed".into(),
        request_id: None,
    }
}

pub(crate) fn task_scheduled(attempt: u32) -> EventKind {
    EventKind::TaskScheduled {
        attempt: Attempt(attempt),
    }
}

pub(crate) fn task_failed() -> EventKind {
    let cause = TaskFailedCause::WorkerUnhandledFailure;
    EventKind::TaskFailed {
        cause,
        failure: Failure::panic("index out of bounds"),
    }
}

pub(crate) fn completed() -> EventKind {
    EventKind::Completed {
        result: json("\"shipped\""),
    }
}

pub(crate) fn failed() -> EventKind {
    EventKind::Failed {
        failure: deep_failure(),
    }
}

pub(crate) fn terminated() -> EventKind {
    EventKind::Terminated {
        reason: "by hand".into(),
    }
}

/// Every kind of event, in the order of their numbers.
pub(crate) fn every_kind() -> Vec<EventKind> {
    vec![
        started(),
        completed(),
        failed(),
        EventKind::TimedOut,
        task_scheduled(1),
        EventKind::TaskStarted,
        EventKind::TaskCompleted,
        task_failed(),
        activity_scheduled(1),
        activity_started(1),
        activity_completed(1),
        activity_failed(1),
        activity_timed_out(1),
        activity_cancel_requested(1),
        activity_canceled(1),
        timer_started(1),
        timer_fired(1),
        timer_canceled(1),
        cancel_requested(),
        EventKind::Canceled,
        step_completed(1),
        signaled("req-2"),
        terminated(),
        continued_as_new(),
        child_initiated(1),
        child_start_failed(1),
        child_started(1),
        child_completed(1),
        child_failed(1),
        child_canceled(1),
        child_timed_out(1),
        child_terminated(1),
        cancel_initiated(CancelOf::External(Seq(1))),
        cancel_failed(CancelOf::External(Seq(1))),
        cancel_delivered(CancelOf::Child(Seq(1))),
        signal_initiated(1),
        signal_failed(1),
        signal_delivered(1),
        update_accepted("u-1", 3),
        update_completed("u-1"),
        update_admitted("u-1"),
        patched("eu-tax"),
    ]
}

/// Every fact, in the order of their numbers.
pub(crate) fn every_fact() -> Vec<Fact> {
    let incarnation = Incarnation(0xaaaa_bbbb_cccc_dddd_0000_1111_2222_3333);
    let (seq, attempt) = (Seq(3), Attempt(2));
    let (at, due) = (BEGIN, Timestamp(BEGIN.0 + 4_000_000));
    let failure = || Failure::panic("boom").at("src/pay.rs:9");
    let cause = TaskFailedCause::NonDeterminism;
    let canceled = Resolution::Canceled(Some(json("1")));
    let retry = retry_policy();
    let options = StepOptions { retry };
    vec![
        Fact::AttemptStarted {
            seq,
            attempt,
            incarnation,
            at,
        },
        Fact::AttemptFailed {
            seq,
            failure: failure(),
            due,
        },
        Fact::Heartbeat {
            seq,
            details: json("40"),
            at,
        },
        Fact::StepScheduled {
            seq,
            name: "stamp".into(),
            options: Box::new(options),
            site: site(31),
            at,
        },
        Fact::StepStarted {
            seq,
            attempt,
            incarnation,
        },
        Fact::StepFailed {
            seq,
            failure: failure(),
            due,
        },
        Fact::StepResolved {
            seq,
            outcome: canceled,
        },
        Fact::Buffered {
            kind: Box::new(signaled("req-3")),
        },
        Fact::TaskRetry {
            attempt,
            cause,
            failure: failure(),
            next_try: Some(due),
        },
        Fact::SliceArmed,
        Fact::Unblocked,
        Fact::EpochRaised { epoch: Epoch(2) },
        Fact::SliceDisarmed,
        Fact::Inherited {
            request_ids: vec!["req-1".into(), "req-2".into()],
            seen: None,
        },
        noted(),
        Fact::UpdateRejected {
            id: "u-1".into(),
            failure: failure(),
        },
        Fact::UpdatesInherited {
            updates: vec![AcceptedBefore {
                id: "u-1".into(),
                run_id: RunId(7),
            }],
        },
        Fact::AttemptHandedBack { seq, at },
        Fact::StepHandedBack { seq, at },
        Fact::AttemptLeft { seq },
        Fact::ClockBehind { at },
        Fact::BeganBehind { at },
    ]
}

/// With the times at which requests had their effect.
pub(crate) fn inherited_with_times() -> Fact {
    Fact::Inherited {
        request_ids: vec!["req-1".into(), "req-2".into()],
        seen: Some(vec![BEGIN, Timestamp(BEGIN.0 + 1_000_000)]),
    }
}
