//! Payloads: Temporal's bytes and metadata, one to one.
//!
//! Other SDKs pass one payload per argument, Outlast one per call. So no argument is no payload;
//! several JSON payloads that come in are read as one JSON array, which is what a function of
//! several arguments takes.

use std::collections::{BTreeMap, HashMap};

use outlast_model::Payload;
use outlast_model::payload::Encoding;

use crate::proto::common;

const ENCODING: &str = "encoding";

pub(crate) fn to_wire(payload: &Payload) -> common::Payload {
    let mut metadata = HashMap::new();
    for (key, value) in payload.metadata.as_deref().into_iter().flatten() {
        metadata.insert(key.clone(), value.clone());
    }
    let encoding = payload.encoding.as_str().as_bytes().to_vec();
    metadata.insert(ENCODING.to_owned(), encoding);
    common::Payload {
        metadata,
        data: payload.data.to_vec(),
        ..common::Payload::default()
    }
}

pub(crate) fn from_wire(payload: common::Payload) -> Payload {
    let mut metadata: BTreeMap<String, Vec<u8>> = payload.metadata.into_iter().collect();
    let encoding = metadata.remove(ENCODING).unwrap_or_default();
    Payload {
        encoding: encoding_of(&encoding),
        data: payload.data.into(),
        metadata: (!metadata.is_empty()).then(|| Box::new(metadata)),
    }
}

fn encoding_of(name: &[u8]) -> Encoding {
    let known = [Encoding::Null, Encoding::Json, Encoding::Bytes];
    let same = |known: &Encoding| known.as_str().as_bytes() == name;
    known
        .into_iter()
        .find(same)
        .unwrap_or_else(|| Encoding::Other(Box::new(String::from_utf8_lossy(name).into_owned())))
}

/// An optional payload; absent is no value.
pub(crate) fn or_null(payload: Option<common::Payload>) -> Payload {
    payload.map_or_else(Payload::null, from_wire)
}

/// The arguments of a call: none, or the one.
pub(crate) fn arguments(input: &Payload) -> Vec<common::Payload> {
    match input.encoding {
        Encoding::Null => Vec::new(),
        Encoding::Json | Encoding::Bytes | Encoding::Other(_) => vec![to_wire(input)],
    }
}

/// The one input of a call.
pub(crate) fn input(mut arguments: Vec<common::Payload>) -> Payload {
    if arguments.len() > 1 {
        let all: Vec<Payload> = arguments.into_iter().map(from_wire).collect();
        return array(&all);
    }
    or_null(arguments.pop())
}

/// Several payloads as one JSON array; if one of them is not JSON, the first stands for all.
fn array(payloads: &[Payload]) -> Payload {
    let mut text = Vec::from(*b"[");
    for (index, payload) in payloads.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        match payload.encoding {
            Encoding::Json => text.extend_from_slice(&payload.data),
            Encoding::Null => text.extend_from_slice(b"null"),
            Encoding::Bytes | Encoding::Other(_) => return payloads[0].clone(),
        }
    }
    text.push(b']');
    Payload::raw_json(text)
}

/// Temporal's list, of one.
pub(crate) fn list(payload: &Payload) -> common::Payloads {
    common::Payloads {
        payloads: vec![to_wire(payload)],
    }
}

/// Temporal's list of the arguments of a call.
pub(crate) fn argument_list(input: &Payload) -> Option<common::Payloads> {
    let payloads = arguments(input);
    (!payloads.is_empty()).then_some(common::Payloads { payloads })
}

/// The one input of a call, from a list.
pub(crate) fn input_of(list: Option<common::Payloads>) -> Payload {
    input(list.unwrap_or_default().payloads)
}

/// What may be there or not: details, heartbeats.
pub(crate) fn detail(list: Option<common::Payloads>) -> Option<Payload> {
    let payloads = list?.payloads;
    (!payloads.is_empty()).then(|| input(payloads))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn payloads() -> impl Strategy<Value = Payload> {
        let encoding = prop_oneof![
            Just(Encoding::Json),
            Just(Encoding::Bytes),
            "[a-z/]{1,9}".prop_map(|name| Encoding::Other(Box::new(name))),
        ];
        let metadata = proptest::option::of(proptest::collection::btree_map(
            "[a-d]{1,3}",
            proptest::collection::vec(any::<u8>(), 0..4),
            1..3,
        ));
        let data = proptest::collection::vec(any::<u8>(), 0..20);
        (encoding, data, metadata).prop_map(|(encoding, data, metadata)| Payload {
            encoding,
            data: data.into(),
            metadata: metadata.map(Box::new),
        })
    }

    proptest! {
        #[test]
        fn a_payload_survives(payload in payloads()) {
            prop_assert_eq!(from_wire(to_wire(&payload)), payload.clone());
            prop_assert_eq!(input(arguments(&payload)), payload);
        }
    }

    #[test]
    fn no_value_is_no_argument_and_a_null_result() {
        assert!(arguments(&Payload::null()).is_empty());
        assert_eq!(input(Vec::new()), Payload::null());
        let result = list(&Payload::null()).payloads;
        assert_eq!(result[0].metadata[ENCODING], b"binary/null");
        assert_eq!(input(result), Payload::null());
    }

    #[test]
    fn several_arguments_of_another_language_are_one_array() {
        let one = Payload::encode(&1).expect("encodes");
        let text = Payload::encode("a").expect("encodes");
        let both = input(vec![
            to_wire(&one),
            to_wire(&text),
            to_wire(&Payload::null()),
        ]);
        assert_eq!(both, Payload::raw_json(r#"[1,"a",null]"#));
    }
}
