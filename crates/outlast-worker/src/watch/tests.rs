//! Which time counts for what, by a clock that the test moves.

use outlast_model::task::{ActivityTask, AttemptOutcome, AttemptToken, RunNo, TaskAnswer};
use outlast_model::{AnswerToken, Epoch, Payload, RunId};

use super::stage::Shard;
use super::*;
use crate::port::Next;

/// A backend that hears nothing.
struct Nobody;

impl WorkerPort for Nobody {
    fn shards(&self) -> usize {
        1
    }

    fn drive(&self, shard: usize) -> Lane {
        Lane { shard, driver: 0 }
    }

    fn next_task(&self, _: Lane) -> Next {
        Next::Shutdown
    }

    fn complete_task(&self, _: Lane, _: TaskToken, _: TaskAnswer) {}
    fn go_slow(&self, _: Lane, _: TaskToken) {}
    fn give_up(&self, _: Lane, _: TaskToken, _: Failure) {}
    fn evicted(&self, _: Lane, _: RunId) {}
    fn foreign_wake(&self, _: RunId) {}
    fn complete_attempts(&self, _: Vec<AttemptOutcome>) {}
    fn heartbeat(&self, _: AttemptToken, _: Payload) {}

    fn answer_token(&self, _: &ActivityTask) -> AnswerToken {
        unreachable!("nothing here waits for an answer from outside")
    }

    fn drain(&self) {}
    fn shutdown(&self) {}
}

const ALL: [Input; 4] = [Input::Long, Input::Holds, Input::Late, Input::Over];

fn limits() -> Limits {
    Limits {
        fast_slice: Duration::from_millis(50),
        warning: Duration::from_secs(1),
        patience: Duration::from_secs(2),
    }
}

fn begun() -> Pulse {
    let lane = Lane {
        shard: 0,
        driver: 1,
    };
    let (settings, bell) = (Settings::default(), Arc::default());
    let pulse = Pulse::new(lane, Arc::new(Nobody), &settings, bell);
    let token = TaskToken {
        run: RunNo(1),
        epoch: Epoch(0),
        turn: 1,
    };
    let run = RunIn {
        run_id: RunId(7),
        workflow_id: "w".into(),
        workflow_type: "t".into(),
    };
    pulse.begin(Work::Slice(token), run);
    pulse
}

/// What the watchdog does when it looks now.
fn acts(pulse: &Pulse, now: Instant) -> Vec<Act> {
    let limits = limits();
    let judged = ALL
        .iter()
        .filter_map(|input| pulse.judge(*input, now, &limits));
    judged.map(|(act, _)| act).collect()
}

/// The slice has lasted so long; code was polled or got on so long ago.
fn lasts(pulse: &Pulse, slice: u64, part: u64, poll: u64) -> Instant {
    let now = clock::now() + Duration::from_secs(3_600);
    let before = |millis| now - Duration::from_millis(millis);
    if let Some(running) = pulse.lock().as_mut() {
        running.since = before(slice);
        running.part_since = before(part);
        running.poll_since = before(poll);
    }
    now
}

#[test]
fn one_poll_and_polls_without_end_come_to_the_same() {
    for poll in [true, false] {
        let pulse = begun();
        let at = |millis: u64| {
            let now = lasts(&pulse, millis, millis, if poll { millis } else { 1 });
            acts(&pulse, now)
        };
        assert_eq!(at(49), []);
        let at_once = [Act::GoSlow, Act::TakeOver];
        let first: &[Act] = if poll { &at_once } else { &[Act::GoSlow] };
        assert_eq!(at(60), first);
        assert_eq!(at(210), [Act::TakeOver]);
        pulse.relieved(0);
        assert_eq!(at(999), []);
        assert_eq!(at(1_001), [Act::Warn]);
        assert_eq!(at(2_001), [Act::GiveUp]);
        assert_eq!(at(9_000), []);
        assert!(pulse.is_given_up());
        assert_eq!(pulse.before_poll("main", None), ControlFlow::Break(()));
        assert!(pulse.end(0).is_some(), "it is told that it is back");
    }
}

#[test]
fn a_replay_that_gets_on_frees_its_shard_and_is_not_stuck() {
    let pulse = begun();
    let now = lasts(&pulse, 60_000, 900, 1);
    assert_eq!(acts(&pulse, now), [Act::GoSlow, Act::TakeOver]);
    pulse.relieved(0);
    assert_eq!(acts(&pulse, now), []);
    let now = lasts(&pulse, 62_000, 2_001, 1);
    assert_eq!(acts(&pulse, now), [Act::Warn, Act::GiveUp]);
}

#[test]
fn a_part_that_is_done_gives_the_next_its_time() {
    let pulse = begun();
    let now = lasts(&pulse, 3_000, 3_000, 3_000);
    pulse.part_done();
    if let Some(running) = pulse.lock().as_mut() {
        assert!(running.part_since < now - Duration::from_millis(3_000));
        assert_eq!(now.duration_since(running.since).as_secs(), 3);
    }
}

#[test]
fn a_spare_thread_that_comes_late_is_not_for_the_next_slice() {
    let pulse = begun();
    let now = lasts(&pulse, 100, 100, 100);
    assert_eq!(acts(&pulse, now), [Act::GoSlow, Act::TakeOver]);
    let no = pulse.lock().as_ref().map_or(0, |running| running.no);
    pulse.relieved(no + 1);
    let stage = pulse.lock().as_ref().map(|running| running.stage);
    assert_eq!(stage, Some(Stage::Slow(Shard::Waits)));
}
