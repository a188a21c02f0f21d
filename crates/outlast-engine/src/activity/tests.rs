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
