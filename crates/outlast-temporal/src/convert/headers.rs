//! Headers, and the messages that travel in them.
//!
//! The cluster cannot move messages that nobody read into the next run of a chain, so they go in
//! the headers of its start, one each, beside those of the user and out of their sight.

use std::collections::HashMap;

use outlast_model::headers::Headers;
use outlast_model::job::SignalMessage;
use outlast_model::{Payload, SignalName};

use super::payload;
use crate::proto::common;

/// Headers that carry a message into the next run begin so; a number follows, and behind a `/`
/// the names of the message's own headers.
const CARRIED: &str = "outlast-signal-";
/// The metadata of such a header that names the message.
const CARRIED_NAME: &str = "outlast-signal-name";

type Map = HashMap<String, common::Payload>;

pub(crate) fn to_wire(headers: &Headers) -> Map {
    let headers = headers.iter();
    headers
        .map(|(name, value)| (name.to_owned(), payload::to_wire(value)))
        .collect()
}

/// The user's own.
pub(crate) fn from_wire(headers: Map) -> Headers {
    let own = headers
        .into_iter()
        .filter(|(name, _)| !name.starts_with(CARRIED));
    own.map(|(name, value)| (name, payload::from_wire(value)))
        .collect()
}

/// As the messages of the service have them.
pub(crate) fn some(headers: &Headers) -> Option<common::Header> {
    (!headers.is_empty()).then(|| common::Header {
        fields: to_wire(headers),
    })
}

/// As the messages of the service have them.
pub(crate) fn of(header: Option<common::Header>) -> Headers {
    from_wire(header.unwrap_or_default().fields)
}

/// The headers of the next run, with the messages it is to be told first.
pub(crate) fn carry(headers: &Headers, signals: &[SignalMessage]) -> Map {
    let mut all = to_wire(headers);
    for (index, signal) in signals.iter().enumerate() {
        let key = format!("{CARRIED}{index:08}");
        for (name, value) in signal.headers.iter() {
            all.insert(format!("{key}/{name}"), payload::to_wire(value));
        }
        let mut header = payload::to_wire(&signal.input);
        let name = signal.name.as_str().as_bytes().to_vec();
        header.metadata.insert(CARRIED_NAME.to_owned(), name);
        all.insert(key, header);
    }
    all
}

/// The messages in the headers of a start, in their order.
pub(crate) fn carried(headers: &Map) -> Vec<SignalMessage> {
    let is_message = |key: &&String| key.starts_with(CARRIED) && !key.contains('/');
    let mut keys: Vec<&String> = headers.keys().filter(is_message).collect();
    keys.sort();
    let signals = keys.into_iter().filter_map(|key| message(headers, key));
    signals.collect()
}

fn message(headers: &Map, key: &str) -> Option<SignalMessage> {
    let mut header = headers.get(key)?.clone();
    let name = header.metadata.remove(CARRIED_NAME)?;
    let own = headers.iter().filter_map(|(name, value)| {
        let name = name.strip_prefix(key)?.strip_prefix('/')?;
        Some((name.to_owned(), payload::from_wire(value.clone())))
    });
    let own: Vec<(String, Payload)> = own.collect();
    Some(SignalMessage {
        name: SignalName::new(String::from_utf8(name).ok()?),
        input: payload::from_wire(header),
        headers: own.into_iter().collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(names: &[&str]) -> Headers {
        let pairs = names
            .iter()
            .map(|name| ((*name).to_owned(), Payload::raw_json("1")));
        pairs.collect()
    }

    #[test]
    fn headers_survive() {
        let own = headers(&["tenant", "trace"]);
        assert_eq!(from_wire(to_wire(&own)), own);
        assert_eq!(of(some(&own)), own);
        assert_eq!(some(&Headers::new()), None);
    }

    #[test]
    fn messages_keep_their_order_their_headers_and_out_of_sight() {
        let messages: Vec<SignalMessage> = (0..12)
            .map(|n| SignalMessage {
                name: SignalName::new(format!("s{n}")),
                input: Payload::null(),
                headers: headers(&["a/b", "trace"]),
            })
            .collect();
        let own = headers(&["tenant"]);
        let all = carry(&own, &messages);
        assert_eq!(carried(&all), messages);
        assert_eq!(from_wire(all), own);
    }
}
