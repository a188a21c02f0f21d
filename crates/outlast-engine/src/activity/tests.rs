//! Every state of an activity against every input, and the fence around its attempts.

use super::*;
use core::time::Duration;
use outlast_model::event::Site;
use outlast_model::id::Seq;
use outlast_model::{ActivityOptions, Headers, RetryPolicy};
use proptest::prelude::*;
use std::fmt::Write;
use std::string::String;
use std::vec::Vec;

const ME: Incarnation = Incarnation(1);
const OTHER: Incarnation = Incarnation(2);

fn activity(state: State) -> Activity {
    let scheduled = ActivityScheduled {
        seq: Seq(1),
        activity_type: "a".into(),
        queue: "default".into(),
        input: Payload::null(),
        options: ActivityOptions {
            schedule_to_close: Some(Duration::from_micros(1_000)),
            schedule_to_start: Some(Duration::from_micros(500)),
            start_to_close: Some(Duration::from_micros(300)),
            heartbeat: Some(Duration::from_micros(100)),
            retry: RetryPolicy::times(2).initial(Duration::from_micros(10)),
            ..ActivityOptions::default()
        }
        .into(),
        site: Site::default(),
        headers: Headers::new(),
    };
    Activity {
        state,
        ..Activity::new(Shared::new(scheduled), Timestamp(0))
    }
}

fn states() -> Vec<State> {
    let running = |attempt| State::Running {
        attempt: Attempt(attempt),
        incarnation: ME,
        since: Timestamp(100),
        beat: Timestamp(250),
    };
    Vec::from([
        State::Waiting {
            attempt: Attempt(1),
            due: Timestamp(50),
        },
        State::Waiting {
            attempt: Attempt(2),
            due: Timestamp(200),
        },
        running(1),
        running(2),
        State::Closing,
        State::Outside {
            attempt: Attempt(1),
            incarnation: ME,
            since: Timestamp(100),
            beat: Timestamp(250),
        },
    ])
}

fn inputs() -> Vec<Input> {
    let done = AttemptResult::Completed(Payload::null());
    let failed = AttemptResult::Failed(Failure::application("Busy", "busy"));
    Vec::from([
        Input::Clock,
        Input::HandOut,
        Input::Outcome(Attempt(1), ME, done.clone()),
        Input::Outcome(Attempt(1), OTHER, done.clone()),
        Input::Outcome(Attempt(2), ME, done),
        Input::Outcome(Attempt(1), ME, failed.clone()),
        Input::Outcome(Attempt(2), ME, failed),
        Input::Outcome(Attempt(1), ME, AttemptResult::Canceled(None)),
        Input::Outcome(Attempt(1), ME, AttemptResult::HandedBack),
        Input::Outcome(Attempt(2), OTHER, AttemptResult::HandedBack),
        Input::Outcome(Attempt(1), ME, AttemptResult::Later),
        Input::Heartbeat(Attempt(1), ME, Payload::null()),
        Input::Heartbeat(Attempt(9), ME, Payload::null()),
        Input::Cancel,
        Input::Recover(ME),
        Input::Recover(OTHER),
    ])
}

/// Every state against every input: a reviewer reads this table, not the match.
#[test]
fn transition_table() {
    let mut table = String::new();
    for state in states() {
        for input in inputs() {
            for now in [
                Timestamp(120),
                Timestamp(360),
                Timestamp(600),
                Timestamp(1_000),
            ] {
                let verdict = activity(state.clone()).decide(input.clone(), now);
                writeln!(
                    table,
                    "{state:?} | {input:?} | t={} => {}",
                    now.0,
                    short(&verdict)
                )
                .expect("writes to a string");
            }
        }
    }
    insta::assert_snapshot!(table);
}

/// The kind of timeout that ends an activity whose first attempt no worker took, for every
/// combination of the two limits it may have; and when.
#[test]
fn what_no_worker_took_in_time_is_late_to_start() {
    use TimeoutKind::{ScheduleToClose, ScheduleToStart};
    let kind_of = |whole: Option<u64>, to_start: Option<u64>, waiting: (u32, u64), now| {
        let (attempt, since) = waiting;
        let mut late = activity(State::Waiting {
            attempt: Attempt(attempt),
            due: Timestamp(since),
        });
        late.waiting_since = Timestamp(since);
        let mut scheduled = (*late.scheduled).clone();
        scheduled.options.schedule_to_close = whole.map(Duration::from_micros);
        scheduled.options.schedule_to_start = to_start.map(Duration::from_micros);
        late.scheduled = Shared::new(scheduled);
        let verdict = late.decide(Input::Clock, Timestamp(now));
        let Verdict::Close(outcome, None) = verdict else {
            assert_eq!(verdict, Verdict::Ready);
            return None;
        };
        let Ending::TimedOut(failure, RetryState::Timeout) = outcome.ending else {
            panic!("{outcome:?}");
        };
        let outlast_model::FailureKind::Timeout { kind, .. } = failure.kind else {
            panic!("{failure:?}");
        };
        Some(kind)
    };
    let first = (1, 0);
    // As it is filled in if only the whole is named: both pass together.
    assert_eq!(kind_of(Some(50), Some(50), first, 49), None);
    assert_eq!(
        kind_of(Some(50), Some(50), first, 50),
        Some(ScheduleToStart)
    );
    assert_eq!(
        kind_of(Some(50), Some(50), first, 99),
        Some(ScheduleToStart)
    );
    // The shorter of two passed first, also if nobody looked until both had.
    assert_eq!(
        kind_of(Some(50), Some(20), first, 20),
        Some(ScheduleToStart)
    );
    assert_eq!(
        kind_of(Some(50), Some(20), first, 99),
        Some(ScheduleToStart)
    );
    assert_eq!(kind_of(None, Some(20), first, 20), Some(ScheduleToStart));
    assert_eq!(kind_of(None, None, first, 99), None);
    // A later attempt has the limit to start anew, and the whole runs on.
    let second = (2, 30);
    assert_eq!(kind_of(Some(50), Some(50), second, 49), None);
    assert_eq!(
        kind_of(Some(50), Some(50), second, 50),
        Some(ScheduleToClose)
    );
    assert_eq!(
        kind_of(Some(50), Some(50), second, 99),
        Some(ScheduleToClose)
    );
    assert_eq!(
        kind_of(Some(60), Some(20), second, 99),
        Some(ScheduleToStart)
    );
}

#[test]
fn time_that_passed_while_no_process_ran_ends_it_and_not_the_loss() {
    let mut lost = activity(State::Running {
        attempt: Attempt(2),
        incarnation: ME,
        since: Timestamp(100),
        beat: Timestamp(250),
    });
    lost.last_failure = Some(Failure::application("Busy", "the first was busy"));
    let before = lost.decide(Input::Recover(OTHER), Timestamp(999));
    assert!(
        short(&before).contains("failed \"the process"),
        "{before:?}"
    );
    let Verdict::Close(outcome, None) = lost.decide(Input::Recover(OTHER), Timestamp(1_000)) else {
        panic!("it is over");
    };
    assert_eq!(outcome.attempt, Some(Attempt(2)));
    let Ending::TimedOut(failure, RetryState::Timeout) = outcome.ending else {
        panic!("{:?}", outcome.ending);
    };
    let kind = TimeoutKind::ScheduleToClose;
    assert_eq!(failure.kind, Failure::timeout(kind, None).kind);
    assert_eq!(failure.cause, lost.last_failure);
}

fn short(verdict: &Verdict) -> String {
    let text = std::format!("{verdict:?}");
    match verdict {
        Verdict::Retry(failure, due, stop) => {
            std::format!(
                "Retry at {} after {:?}, stop {stop:?}",
                due.0,
                failure.message
            )
        }
        Verdict::Close(outcome, stop) => {
            let ending = match &outcome.ending {
                Ending::Completed(_) => "completed".into(),
                Ending::Failed(f, s) => std::format!("failed {:?} {s:?}", f.message),
                Ending::TimedOut(f, s) => std::format!("timed out {:?} {s:?}", f.message),
                Ending::Canceled(_) => String::from("canceled"),
            };
            std::format!("Close {ending} by {:?}, stop {stop:?}", outcome.attempt)
        }
        Verdict::Ready
        | Verdict::Start(_)
        | Verdict::Leave
        | Verdict::Beat(_)
        | Verdict::HandBack
        | Verdict::Stop(..)
        | Verdict::Wait(_)
        | Verdict::Ignore => text,
    }
}

proptest! {
    /// An outcome of another attempt or another process never counts.
    #[test]
    fn an_outcome_is_fenced(attempt in 1u32..5, mine in 1u32..5, by_me: bool, now: u64) {
        let state = State::Running {
            attempt: Attempt(mine),
            incarnation: ME,
            since: Timestamp(0),
            beat: Timestamp(0),
        };
        let incarnation = if by_me { ME } else { OTHER };
        let done = AttemptResult::Completed(Payload::null());
        let verdict = activity(state)
            .decide(Input::Outcome(Attempt(attempt), incarnation, done), Timestamp(now));
        let counts = verdict != Verdict::Ignore;
        prop_assert_eq!(counts, attempt == mine && by_me);
    }
}
