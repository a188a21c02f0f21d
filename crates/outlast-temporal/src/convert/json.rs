//! A history as Temporal's tools export it, proto3 JSON, as its messages.
//!
//! The protocol's crate reads JSON of what is inside events (payloads, failures, policies, names
//! of enums) but not of the events themselves; so their fields are named here, one line each,
//! after the published definition. Fields that neither the core nor Outlast looks at are not
//! read, and fields that are not known are passed over: an export of a newer server replays.

mod between;
mod fields;
mod own;

use serde_json::Value;

use crate::proto::enums::EventType;
use crate::proto::history as wire;
use crate::proto::history::history_event::Attributes;

use fields::Fields;

/// Why a text is not a history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "OL-4012: this is not a history as Temporal's tools export it: {0}; make one with \
     `outlast show RUN -o json` or `temporal workflow show --output json`"
)]
pub struct NotHistory(pub(crate) String);

/// The messages of a whole history.
pub(crate) fn history(text: &str) -> Result<wire::History, NotHistory> {
    let value: Value = serde_json::from_str(text).map_err(|e| NotHistory(e.to_string()))?;
    let mut whole = Fields::of("the text", value)?;
    // `outlast show` tells more of a run than its history.
    let mut whole = whole.object("history")?.unwrap_or(whole);
    let events = whole.list("events")?;
    if events.is_empty() {
        return Err(NotHistory("it has no events".into()));
    }
    let events = events.into_iter().enumerate().map(|(at, value)| {
        event(value).map_err(|NotHistory(why)| NotHistory(format!("event {}: {why}", at + 1)))
    });
    Ok(wire::History {
        events: events.collect::<Result<_, _>>()?,
    })
}

fn event(value: Value) -> Result<wire::HistoryEvent, NotHistory> {
    let mut event = Fields::of("an event", value)?;
    let (name, mut it) = event.attributes()?;
    let attributes = match own::read(&name, &mut it)? {
        Some(read) => read,
        None => between::read(&name, &mut it)?.unwrap_or_else(unheard),
    };
    Ok(wire::HistoryEvent {
        event_id: event.number("eventId")?,
        event_time: event.message("eventTime")?,
        event_type: event.choice::<EventType>("eventType")?,
        attributes: Some(attributes),
        ..wire::HistoryEvent::default()
    })
}

/// What no workflow code hears of; which of these it was does not matter.
fn unheard() -> Attributes {
    Attributes::WorkflowPropertiesModifiedExternallyEventAttributes(
        wire::WorkflowPropertiesModifiedExternallyEventAttributes::default(),
    )
}

#[cfg(test)]
mod tests;
