//! Spans and events for `tracing`, behind the feature of that name. Without it nothing of this is
//! in the program; with it, and a level that nobody listens to, a slice costs one relaxed load.
//!
//! The convention: target `outlast`; span `slice` with `run_id`, `workflow_id`, `workflow_type`
//! and `replay` (the code runs over its history first: filter on it to keep logs of workflow code
//! silent then); span `attempt` with `run_id`, `kind`, `name`, `seq`, `attempt`; events with
//! `code`, `event` and `run_id`.

use std::future::Future;
use std::pin::Pin;

use outlast_model::task::{ActivityTask, AttemptOutcome, StepTask, WorkflowTask};

type Outcome = Pin<Box<dyn Future<Output = AttemptOutcome> + Send>>;

#[cfg(feature = "tracing")]
mod on {
    use std::future::poll_fn;

    use tracing::span::EnteredSpan;
    use tracing::{Level, Span};

    use super::{ActivityTask, Outcome, StepTask, WorkflowTask};
    use crate::bus::Bus;
    use crate::event::{Severity, WorkerEvent};

    macro_rules! told {
        ($level:ident, $event:ident) => {{
            let event: &WorkerEvent = $event;
            let run_id = event.run_id().map(tracing::field::display);
            let (code, name) = (event.code(), event.name());
            tracing::event!(target: "outlast", Level::$level, code, event = name, run_id, "{event}");
        }};
    }

    pub(crate) fn slice(task: &WorkflowTask) -> EnteredSpan {
        tracing::span!(
            target: "outlast",
            Level::DEBUG,
            "slice",
            run_id = %task.run_id,
            workflow_id = %task.workflow_id,
            workflow_type = %task.workflow_type,
            replay = task.history.is_some(),
        )
        .entered()
    }

    pub(crate) fn activity(task: &ActivityTask) -> Span {
        tracing::span!(
            target: "outlast",
            Level::DEBUG,
            "attempt",
            run_id = %task.run_id,
            kind = "activity",
            name = %task.activity_type,
            seq = task.token.seq.0,
            attempt = task.token.attempt.0,
        )
    }

    pub(crate) fn step(task: &StepTask) -> Span {
        tracing::span!(
            target: "outlast",
            Level::DEBUG,
            "attempt",
            run_id = %task.run_id,
            kind = "step",
            name = %task.name,
            seq = task.token.seq.0,
            attempt = task.token.attempt.0,
        )
    }

    /// The attempt's code runs inside the span.
    pub(crate) fn inside(span: Span, mut outcome: Outcome) -> Outcome {
        if span.is_disabled() {
            return outcome;
        }
        Box::pin(poll_fn(move |cx| {
            let _entered = span.enter();
            outcome.as_mut().poll(cx)
        }))
    }

    /// Events of the worker become events of `tracing`, from info on.
    pub fn forward(bus: &Bus) {
        bus.listen(Severity::Info, |event| match event.severity() {
            Severity::Debug => told!(DEBUG, event),
            Severity::Info => told!(INFO, event),
            Severity::Warning => told!(WARN, event),
            Severity::Error => told!(ERROR, event),
        });
    }
}

#[cfg(feature = "tracing")]
pub use on::forward;
#[cfg(feature = "tracing")]
pub(crate) use on::{activity, inside, slice, step};

#[cfg(not(feature = "tracing"))]
mod off {
    use super::{ActivityTask, Outcome, StepTask, WorkflowTask};

    /// Stands where a span would.
    pub(crate) struct NoSpan;

    pub(crate) fn slice(_: &WorkflowTask) -> NoSpan {
        NoSpan
    }

    pub(crate) fn activity(_: &ActivityTask) -> NoSpan {
        NoSpan
    }

    pub(crate) fn step(_: &StepTask) -> NoSpan {
        NoSpan
    }

    pub(crate) fn inside(_: NoSpan, outcome: Outcome) -> Outcome {
        outcome
    }
}

#[cfg(not(feature = "tracing"))]
pub(crate) use off::{activity, inside, slice, step};

#[cfg(all(test, feature = "tracing"))]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use crate::bus::Bus;
    use crate::event::WorkerEvent;

    /// Remembers the levels of the events it heard.
    #[derive(Clone, Default)]
    struct Heard(Arc<Mutex<Vec<String>>>);

    impl Subscriber for Heard {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "outlast"
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let level = event.metadata().level().to_string();
            self.0.lock().expect("one thread").push(level);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn events_of_the_worker_are_events_of_tracing() {
        let heard = Heard::default();
        tracing::subscriber::with_default(heard.clone(), || {
            let bus = Bus::default();
            super::forward(&bus);
            bus.emit(WorkerEvent::Starting);
            bus.emit(WorkerEvent::ShardTakenOver { shard: 0 });
            bus.emit(WorkerEvent::Missed { count: 1 });
        });
        let heard = heard.0.lock().expect("one thread").clone();
        assert_eq!(heard, ["INFO", "WARN"]);
    }
}
