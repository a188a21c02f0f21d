//! How a promise is settled: the payload of the reserved signal.
//!
//! It is JSON, so that anybody who can send a signal can settle a promise, on a cluster too:
//! `{"id": "approval", "ok": value}` or `{"id": "approval", "err": {"type": "..", "message":
//! ".."}}`. The value travels as it was written, digit by digit.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::id::PromiseId;
use crate::payload::{Encoding, Payload, PayloadError};

/// The type of a failure that says none.
const REJECTED: &str = "outlast.Rejected";

/// What becomes of a promise.
#[derive(Clone, Debug, PartialEq)]
pub struct Settlement {
    /// Which promise.
    pub id: PromiseId,
    /// Its value, or why there is none.
    pub outcome: Result<Payload, Failure>,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ok: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    err: Option<Rejection>,
}

#[derive(Serialize, Deserialize)]
struct Rejection {
    #[serde(rename = "type", default = "rejected")]
    type_name: String,
    #[serde(default)]
    message: String,
}

fn rejected() -> String {
    REJECTED.to_owned()
}

impl Settlement {
    /// As the payload of a signal.
    ///
    /// # Errors
    /// [`PayloadError::Encode`] when the value is not JSON.
    pub fn encode(&self) -> Result<Payload, PayloadError> {
        let (ok, err) = match &self.outcome {
            Ok(value) => (json(value)?, None),
            Err(failure) => {
                let type_name = failure.type_name().unwrap_or(REJECTED).to_owned();
                let message = failure.message.clone();
                (None, Some(Rejection { type_name, message }))
            }
        };
        let id = self.id.as_str().to_owned();
        Payload::encode(&Wire { id, ok, err })
    }

    /// From the payload of a signal. Neither value nor error is the value `null`.
    ///
    /// # Errors
    /// [`PayloadError::Decode`] when it is something else.
    pub fn decode(payload: &Payload) -> Result<Self, PayloadError> {
        let Wire { id, ok, err } = payload.decode()?;
        let outcome = match (ok, err) {
            (Some(value), None) => Ok(Payload::raw_json(String::from(Box::<str>::from(value)))),
            (None, None) => Ok(Payload::null()),
            (Some(_) | None, Some(rejection)) => {
                Err(Failure::application(rejection.type_name, rejection.message))
            }
        };
        let id = PromiseId::new(id);
        Ok(Self { id, outcome })
    }
}

fn json(value: &Payload) -> Result<Option<Box<RawValue>>, PayloadError> {
    match &value.encoding {
        Encoding::Null => Ok(None),
        Encoding::Json => value.decode().map(Some),
        Encoding::Bytes | Encoding::Other(_) => Err(PayloadError::Encode(
            "the value of a promise is JSON".into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(outcome: Result<Payload, Failure>) -> Settlement {
        let id = "approval".into();
        Settlement { id, outcome }
    }

    #[test]
    fn a_settlement_survives_its_signal() {
        let digits = Payload::raw_json(r#"{"n":1.10,"b":18446744073709551616}"#);
        for outcome in [
            Ok(digits),
            Ok(Payload::null()),
            Err(Failure::application("NoBudget", "not this year")),
        ] {
            let settlement = settled(outcome);
            let payload = settlement.encode().expect("encodes");
            assert_eq!(Settlement::decode(&payload), Ok(settlement));
        }
    }

    #[test]
    fn people_may_write_it_by_hand() {
        let by_hand = Payload::raw_json(r#"{ "err": { "message": "no" }, "id": "approval" }"#);
        let no = Err(Failure::application(REJECTED, "no"));
        assert_eq!(Settlement::decode(&by_hand), Ok(settled(no)));
        let nothing = Payload::raw_json(r#"{"id":"approval"}"#);
        assert_eq!(
            Settlement::decode(&nothing),
            Ok(settled(Ok(Payload::null())))
        );
    }

    #[test]
    fn what_is_not_json_is_refused_on_both_sides() {
        assert!(settled(Ok(Payload::bytes("raw"))).encode().is_err());
        assert!(Settlement::decode(&Payload::raw_json(r#"{"ok":1}"#)).is_err());
    }
}
