//! A history as both paths must write it: the slow path also writes updates that nobody has judged
//! yet, and the tasks of slices that only turned some away.

use outlast_model::event::{ChildEvent, ExternalEvent, Started, UpdateEvent};
use outlast_model::{Event, EventId, EventKind, Shared, Timestamp};

/// What happened, and when.
pub type Entry = (Timestamp, EventKind);

/// What a history says, whichever path wrote it: without updates that nobody has judged yet, and
/// without tasks that only turned some away.
pub fn normal(history: Vec<Event>) -> Vec<Entry> {
    let is_admitted =
        |event: &Event| matches!(event.kind, EventKind::Update(UpdateEvent::Admitted(_)));
    let history = history.into_iter().filter(|event| !is_admitted(event));
    let mut rest = history.peekable();
    let mut kept: Vec<Entry> = Vec::new();
    // Whether workflow code has something to see, as far as history says.
    let mut is_news = false;
    while let Some(Event { time, mut kind, .. }) = rest.next() {
        let is_end = kind == EventKind::TaskCompleted;
        if is_end && !is_news && !rest.peek().is_some_and(|next| is_command(&next.kind)) {
            kept.truncate(kept.len() - 2);
            continue;
        }
        let is_task = matches!(
            kind,
            EventKind::TaskScheduled { .. } | EventKind::TaskStarted
        );
        is_news = !is_end && (is_news || !(is_task || is_command(&kind)));
        forget_places(&mut kind);
        kept.push((time, kind));
    }
    kept
}

fn is_command(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::ActivityScheduled(_)
            | EventKind::ActivityCancelRequested { .. }
            | EventKind::TimerStarted { .. }
            | EventKind::TimerCanceled { .. }
            | EventKind::StepRecorded(_)
            | EventKind::Child(ChildEvent::Initiated(_))
            | EventKind::External(
                ExternalEvent::SignalInitiated(_) | ExternalEvent::CancelInitiated(_),
            )
            | EventKind::Update(UpdateEvent::Accepted(_) | UpdateEvent::Completed { .. })
            | EventKind::Patched { .. }
            | EventKind::Completed { .. }
            | EventKind::Failed { .. }
            | EventKind::Canceled
            | EventKind::ContinuedAsNew(_)
    )
}

/// Numbers of events differ by those that only one path writes.
fn forget_places(kind: &mut EventKind) {
    match kind {
        EventKind::Update(UpdateEvent::Accepted(accepted)) => {
            accepted.request = None;
            accepted.behind = EventId(0);
        }
        EventKind::Started(started) => {
            let mut plain = Started::clone(started);
            if let Some(parent) = &mut plain.parent {
                parent.initiated = EventId(0);
            }
            *started = Shared::new(plain);
        }
        _ => {}
    }
}
