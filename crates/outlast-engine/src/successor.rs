//! How a run goes on as a new one.
//!
//! The new run begins in the commit that ends the old one, with everything the old one was told
//! and had not dealt with: signals its code left in the buffer, messages that arrived while its
//! last slice ran, and the ids of requests and updates that had their effect.

use alloc::boxed::Box;
use alloc::vec::Vec;

use outlast_model::command::ContinueAsNew;
use outlast_model::event::{ContinuedAsNew, Started, UpdateEvent};
use outlast_model::id::{Attempt, EventId, RequestId, Seq, SignalName};
use outlast_model::planted::{Bug, is_planted};
use outlast_model::promise::Settlement;
use outlast_model::task::{PROMISE_SIGNAL, promise_request};
use outlast_model::{Edition, Event, EventKind, Fact, Payload, Record, RunId, Shared, Timestamp};

use crate::apply::Error;
use crate::close;
use crate::decision::Decision;
use crate::request::Window;
use crate::run::{Corrupt, Run};

/// The run that continues another one, with its first commit.
#[derive(Debug)]
pub struct Successor {
    /// Its state.
    pub run: Run,
    /// What must be written together with the end of the old run.
    pub decision: Decision,
}

/// Ends the run and begins the next one of its chain.
pub(crate) fn continue_as_new(
    run: &mut Run,
    command: ContinueAsNew,
    buffer: Vec<EventKind>,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    let old = run.started().clone();
    let (clock, now) = (now, now.max(run.last_event_time()));
    let ended = ContinuedAsNew {
        new_run_id: RunId::derived(old.run_id, Seq(0), now.0 / 1_000),
        workflow_type: command.workflow_type.unwrap_or(old.workflow_type.clone()),
        queue: command.queue.unwrap_or(old.queue.clone()),
        input: command.input,
        run_timeout: command.run_timeout.or(old.run_timeout),
        headers: command.headers,
    };
    let mut inherited = inherited(run, now);
    if clock < now && !is_planted(Bug::DueFromShownTime) {
        inherited.push(Fact::BeganBehind { at: clock });
    }
    let signals = command
        .signals
        .into_iter()
        .map(|signal| EventKind::Signaled {
            request_id: promise_of(&signal.name, &signal.input),
            name: signal.name,
            input: signal.input,
            headers: signal.headers,
        });
    let carried = signals
        .chain(buffer.into_iter().filter(is_carried))
        .collect();
    let successor = begin((&old, run.window), &ended, inherited, carried, now)?;
    close::close(
        run,
        decision,
        EventKind::ContinuedAsNew(Box::new(ended)),
        now,
    )?;
    decision.successor = Some(Box::new(successor));
    Ok(())
}

/// The request id of a settlement, so that it stays the only one.
fn promise_of(name: &SignalName, input: &Payload) -> Option<RequestId> {
    let settlement = Settlement::decode(input).ok()?;
    (name.as_str() == PROMISE_SIGNAL).then(|| promise_request(&settlement.id))
}

fn begin(
    (old, window): (&Started, Window),
    ended: &ContinuedAsNew,
    inherited: Vec<Fact>,
    carried: Vec<EventKind>,
    now: Timestamp,
) -> Result<Successor, Corrupt> {
    let started = Started {
        workflow_id: old.workflow_id.clone(),
        run_id: ended.new_run_id,
        workflow_type: ended.workflow_type.clone(),
        queue: ended.queue.clone(),
        input: ended.input.clone(),
        // Whoever asks for the start again asks for this chain.
        request_id: old.request_id.clone(),
        run_timeout: ended.run_timeout,
        parent: old.parent.clone(),
        first_run_id: Some(old.chain()),
        continued_from: Some(old.run_id),
        headers: ended.headers.clone(),
        priority: old.priority,
        edition: Some(Edition::NEWEST),
    };
    let first = Event {
        id: EventId(1),
        time: now,
        kind: EventKind::Started(Shared::new(started)),
    };
    let mut run = Run::from_first(&first)?;
    run.remembers(window);
    let mut decision = Decision::default();
    decision.records.push(Record::Event(first));
    for fact in inherited {
        decision.fact(&mut run, fact)?;
    }
    for kind in carried {
        decision.event(&mut run, kind, now)?;
    }
    let attempt = Attempt::FIRST;
    decision.event(&mut run, EventKind::TaskScheduled { attempt }, now)?;
    Ok(Successor { run, decision })
}

/// What had its effect before must not have it again in the new run.
fn inherited(run: &Run, now: Timestamp) -> Vec<Fact> {
    let mut facts = Vec::new();
    let (request_ids, seen) = run.requests_to_inherit(now);
    if !request_ids.is_empty() {
        let seen = Some(seen);
        facts.push(Fact::Inherited { request_ids, seen });
    }
    let updates = run.accepted_in_chain();
    if !updates.is_empty() {
        facts.push(Fact::UpdatesInherited { updates });
    }
    facts
}

/// Messages go on to the new run; outcomes of the old run's operations have no meaning there.
fn is_carried(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::Signaled { .. }
            | EventKind::CancelRequested { .. }
            | EventKind::Update(UpdateEvent::Admitted(_))
    ) && !is_planted(Bug::SuccessorWithoutMessages)
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use outlast_model::event::{UpdateAccepted, UpdateRequest};
    use outlast_model::{Headers, Payload, WorkflowId, limits};

    use super::*;

    const LATER: Timestamp = Timestamp(5_000);

    fn first() -> Run {
        let started = Started {
            workflow_id: WorkflowId::new("w"),
            run_id: RunId(1),
            workflow_type: "t".into(),
            queue: "default".into(),
            input: Payload::null(),
            request_id: Some("start".into()),
            run_timeout: None,
            parent: None,
            first_run_id: None,
            continued_from: None,
            headers: Headers::new(),
            priority: None,
            edition: None,
        };
        let first = Event {
            id: EventId(1),
            time: Timestamp(0),
            kind: EventKind::Started(Shared::new(started)),
        };
        Run::from_first(&first).expect("a start")
    }

    fn accept(run: &mut Run, numbers: core::ops::Range<usize>) {
        for n in numbers {
            let request = UpdateRequest {
                id: format!("u-{n}").as_str().into(),
                name: "add".into(),
                input: Payload::null(),
                headers: Headers::new(),
            };
            let accepted = UpdateAccepted {
                id: request.id.clone(),
                request: Some(request),
                behind: EventId(1),
            };
            let event = Event {
                id: EventId(run.events() + 1),
                time: Timestamp(0),
                kind: EventKind::Update(UpdateEvent::Accepted(Box::new(accepted))),
            };
            run.evolve(&Record::Event(event)).expect("it fits");
        }
    }

    fn next(run: &mut Run) -> Run {
        let command = ContinueAsNew {
            workflow_type: None,
            queue: None,
            input: Payload::null(),
            run_timeout: None,
            signals: Vec::new(),
            headers: Headers::new(),
        };
        let mut decision = Decision::default();
        continue_as_new(run, command, Vec::new(), LATER, &mut decision).expect("it ends");
        decision.successor.expect("it goes on").run
    }

    #[test]
    fn the_next_run_knows_which_run_accepted_an_update() {
        let mut first = first();
        accept(&mut first, 0..1);
        let mut second = next(&mut first);
        accept(&mut second, 1..2);
        let third = next(&mut second);
        let accepted_by = |n: usize| third.accepted_before(&format!("u-{n}").as_str().into());
        assert_eq!(accepted_by(0), Some(first.started().run_id));
        assert_eq!(accepted_by(1), Some(second.started().run_id));
        assert_eq!(accepted_by(2), None);
        assert_eq!(third.started().request_id, first.started().request_id);
    }

    #[test]
    fn of_too_many_updates_the_next_run_knows_the_newest() {
        let (mut first, most) = (first(), limits::UPDATES_INHERITED);
        accept(&mut first, 0..2);
        let mut second = next(&mut first);
        accept(&mut second, 2..most + 2);
        let third = next(&mut second);
        assert_eq!(third.accepted_before(&"u-1".into()), None);
        for n in 2..most + 2 {
            let id = format!("u-{n}").as_str().into();
            assert_eq!(third.accepted_before(&id), Some(second.started().run_id));
        }
    }
}
