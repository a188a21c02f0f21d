//! `outlast show`: one run, from its row to its history.

use std::fmt::Write as _;

use outlast::why::reasons;
use outlast_model::event::{ChildEvent, ExternalEvent, UpdateEvent, UpdateOutcome};
use outlast_model::view::{Description, RunOutcome};
use outlast_model::{Event, EventKind, Timestamp};

use super::{Output, Place, json, text};
use crate::stop::Stop;
use crate::{clock, out};

/// Events shown unless all are asked for.
const LAST_EVENTS: usize = 8;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Workflow id, run id, or a beginning of one
    run: String,
    #[command(flatten)]
    place: Place,
    /// The whole history
    #[arg(long)]
    events: bool,
    /// How to print; json has the whole history in Temporal's format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> Result<(), Stop> {
    let inspector = args.place.open()?;
    let run = args.place.find(&inspector, &args.run)?;
    let description = inspector.describe(&run)?;
    let events = inspector.history(&run)?;
    match args.output {
        Output::Json => out::line(&json::print(&json::run(&description, &events))),
        Output::Table => {
            let now = clock::wall();
            let mut page = head(&description, now);
            page.push_str(&waiting(&description, now, &args.place));
            let from = if args.events {
                0
            } else {
                events.len().saturating_sub(LAST_EVENTS)
            };
            page.push_str(&story(&events, from));
            out::line(page.trim_end());
        }
    }
    Ok(())
}

fn head(run: &Description, now: Timestamp) -> String {
    let s = &run.summary;
    let mut lines = vec![
        format!("{}  {}", s.workflow_id, s.status),
        format!("  run      {}", s.run_id),
        format!("  type     {} (queue {})", s.workflow_type, s.queue),
        format!("  started  {} ({})", s.started, text::ago(s.started, now)),
    ];
    if let Some(closed) = s.closed {
        lines.push(format!(
            "  ended    {closed} (took {})",
            text::span(closed.since(s.started))
        ));
    }
    lines.push(format!(
        "  history  {} events, {}",
        s.events,
        text::size(s.bytes)
    ));
    lines.push(format!("  input    {}", text::value(&run.input)));
    match &run.outcome {
        Some(RunOutcome::Completed(result)) => {
            lines.push(format!("  result   {}", text::value(result)));
        }
        Some(RunOutcome::Failed(failure)) => lines.push(format!("  error    {failure}")),
        Some(RunOutcome::Terminated { reason }) => lines.push(format!("  reason   {reason}")),
        Some(RunOutcome::ContinuedAsNew(next)) => lines.push(format!("  next     {next}")),
        Some(RunOutcome::Canceled | RunOutcome::TimedOut) | None => {}
    }
    lines.join("\n") + "\n"
}

fn waiting(run: &Description, now: Timestamp, place: &Place) -> String {
    if !run.summary.status.is_open() {
        return String::new();
    }
    let mut page = String::from("waiting\n");
    for answer in reasons(run, &place.around(), now, &place.suffix()) {
        // Writing to a String cannot fail.
        writeln!(page, "  {}", answer.text).ok();
    }
    page
}

fn story(events: &[Event], from: usize) -> String {
    let mut page = match from {
        0 => String::from("events\n"),
        _ => format!("last events of {} (all: --events)\n", events.len()),
    };
    let begin = events.first().map_or(Timestamp(0), |event| event.time);
    for event in events.iter().skip(from) {
        let after = event.time.since(begin).as_secs_f64();
        let (id, name, details) = (event.id.0, event.kind.name(), details(&event.kind));
        writeln!(page, "{id:>5}  +{after:<9.3} {name} {details}").ok();
    }
    page
}

/// What tells an event from its neighbours of the same kind.
fn details(kind: &EventKind) -> String {
    match kind {
        EventKind::Started(started) => started.workflow_type.to_string(),
        EventKind::Failed { failure } => failure.to_string(),
        EventKind::TaskFailed { cause, failure } => format!("{}: {failure}", cause.name()),
        EventKind::ActivityScheduled(a) => format!("#{} {} ({})", a.seq, a.activity_type, a.site),
        EventKind::ActivityStarted { seq, attempt, .. } => format!("#{seq} attempt {attempt}"),
        EventKind::ActivityCompleted { seq, result } => format!("#{seq} {}", text::value(result)),
        EventKind::ActivityFailed { seq, failure, .. }
        | EventKind::ActivityTimedOut { seq, failure, .. } => format!("#{seq} {failure}"),
        EventKind::TimerStarted { seq, delay, site } => format!("#{seq} {delay:?} ({site})"),
        EventKind::ActivityCancelRequested { seq }
        | EventKind::ActivityCanceled { seq, .. }
        | EventKind::TimerFired { seq }
        | EventKind::TimerCanceled { seq } => format!("#{seq}"),
        EventKind::StepRecorded(s) => format!("#{} step {:?} ({})", s.seq, s.name, s.site),
        EventKind::Signaled { name, input, .. } => format!("{name} {}", text::value(input)),
        EventKind::CancelRequested { reason, .. } | EventKind::Terminated { reason } => {
            reason.clone()
        }
        EventKind::Completed { result } => text::value(result),
        EventKind::ContinuedAsNew(ended) => format!("as {}", ended.new_run_id),
        EventKind::Patched { id, site, .. } => format!("patch {id:?} ({site})"),
        EventKind::Child(event) => child(event),
        EventKind::External(event) => external(event),
        EventKind::Update(event) => update(event),
        EventKind::TaskScheduled { attempt } if attempt.0 > 1 => format!("attempt {attempt}"),
        EventKind::TaskScheduled { .. }
        | EventKind::TimedOut
        | EventKind::TaskStarted
        | EventKind::TaskCompleted
        | EventKind::Canceled => String::new(),
    }
}

fn child(event: &ChildEvent) -> String {
    let seq = event.seq();
    match event {
        ChildEvent::Initiated(c) => {
            format!(
                "#{seq} {} as {} ({})",
                c.workflow_type, c.workflow_id, c.site
            )
        }
        ChildEvent::StartFailed { cause, .. } => format!("#{seq} {cause:?}"),
        ChildEvent::Started { run_id, .. } => format!("#{seq} run {run_id}"),
        ChildEvent::Completed { result, .. } => format!("#{seq} {}", text::value(result)),
        ChildEvent::Failed { failure, .. } => format!("#{seq} {failure}"),
        ChildEvent::Canceled { .. }
        | ChildEvent::TimedOut { .. }
        | ChildEvent::Terminated { .. } => format!("#{seq}"),
    }
}

fn external(event: &ExternalEvent) -> String {
    match event {
        ExternalEvent::CancelInitiated(c) => format!("to {} ({})", c.target.workflow_id, c.site),
        ExternalEvent::CancelFailed { cause, .. } => format!("{cause:?}"),
        ExternalEvent::CancelDelivered { .. } => String::new(),
        ExternalEvent::SignalInitiated(s) => format!(
            "#{} {} to {} ({})",
            s.seq, s.name, s.target.workflow_id, s.site
        ),
        ExternalEvent::SignalFailed { seq, cause } => format!("#{seq} {cause:?}"),
        ExternalEvent::SignalDelivered { seq } => format!("#{seq}"),
    }
}

fn update(event: &UpdateEvent) -> String {
    match event {
        UpdateEvent::Admitted(request) => format!("{} {}", request.name, request.id),
        UpdateEvent::Accepted(accepted) => accepted.id.to_string(),
        UpdateEvent::Completed { id, outcome } => match outcome {
            UpdateOutcome::Completed(result) => format!("{id} {}", text::value(result)),
            UpdateOutcome::Failed(failure) => format!("{id} {failure}"),
        },
    }
}
