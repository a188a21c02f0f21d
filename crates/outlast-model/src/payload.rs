//! User data as bytes with an encoding. JSON by default, byte-compatible with Temporal's
//! `json/plain`; anything else passes through untouched, so that a codec may wrap it.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use minicbor::{Decode, Encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bytes::Bytes;

/// How the bytes of a payload are to be read.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Encoding {
    /// Nothing: `()` or no value. Temporal's `binary/null`.
    #[n(0)]
    Null,
    /// UTF-8 JSON. Temporal's `json/plain`.
    #[n(1)]
    Json,
    /// Bytes as they are. Temporal's `binary/plain`.
    #[n(2)]
    Bytes,
    /// What a codec or another SDK wrote; the engine never looks inside. Boxed: it is rare, and
    /// makes every payload a word shorter.
    #[n(3)]
    Other(#[n(0)] Box<String>),
}

impl Encoding {
    /// The value of Temporal's `encoding` metadata key.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Null => "binary/null",
            Self::Json => "json/plain",
            Self::Bytes => "binary/plain",
            Self::Other(name) => name,
        }
    }
}

/// One value of a user: an input, a result, a detail.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
pub struct Payload {
    /// How to read `data`.
    #[n(0)]
    pub encoding: Encoding,
    /// The value itself. Cheap to clone.
    #[n(1)]
    pub data: Bytes,
    /// Metadata beyond the encoding, kept for codecs and other SDKs. Boxed: it is rare, and a
    /// payload is moved often.
    #[n(2)]
    pub metadata: Option<Box<BTreeMap<String, Vec<u8>>>>,
}

/// A value could not become a payload, or a payload not the expected value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The value's own serialisation failed.
    #[error("value does not serialise: {0}")]
    Encode(String),
    /// The bytes are not what the reader expects.
    #[error("payload ({encoding}, {size} bytes) does not decode: {reason}")]
    Decode {
        /// Encoding found.
        encoding: String,
        /// Size in bytes.
        size: usize,
        /// What the decoder said.
        reason: String,
    },
}

impl Payload {
    /// No value.
    pub fn null() -> Self {
        Self {
            encoding: Encoding::Null,
            data: Bytes::default(),
            metadata: None,
        }
    }

    /// Raw bytes.
    pub fn bytes(data: impl Into<Bytes>) -> Self {
        Self {
            encoding: Encoding::Bytes,
            data: data.into(),
            metadata: None,
        }
    }

    /// JSON text that is already encoded.
    pub fn raw_json(data: impl Into<Bytes>) -> Self {
        Self {
            encoding: Encoding::Json,
            data: data.into(),
            metadata: None,
        }
    }

    /// Any serialisable value. `()` and `None` become [`Encoding::Null`], as in Temporal.
    ///
    /// # Errors
    /// [`PayloadError::Encode`] when the value's `Serialize` fails (a map with non-text keys).
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, PayloadError> {
        let data = serde_json::to_vec(value).map_err(|e| PayloadError::Encode(e.to_string()))?;
        if data == b"null" {
            return Ok(Self::null());
        }
        Ok(Self::raw_json(data))
    }

    /// Reads the value back.
    ///
    /// # Errors
    /// [`PayloadError::Decode`] when the bytes are not a `T`, or wrapped by an unknown codec.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, PayloadError> {
        let decoded = match &self.encoding {
            Encoding::Null => serde_json::from_slice(b"null"),
            Encoding::Json => serde_json::from_slice(&self.data),
            Encoding::Bytes | Encoding::Other(_) => {
                return Err(self.undecodable("this encoding needs a codec".into()));
            }
        };
        decoded.map_err(|e| self.undecodable(e.to_string()))
    }

    /// Size in bytes, as the limits count it.
    pub fn size(&self) -> usize {
        self.data.len()
    }

    fn undecodable(&self, reason: String) -> PayloadError {
        PayloadError::Decode {
            encoding: self.encoding.as_str().into(),
            size: self.data.len(),
            reason,
        }
    }
}

/// Size and encoding only: user data never reaches a log by accident.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Payload({}, {} B)",
            self.encoding.as_str(),
            self.data.len()
        )
    }
}

/// The seam for compression and encryption: applied on the way in and out of the system.
pub trait Codec: Send + Sync {
    /// Wraps a payload before it is stored.
    ///
    /// # Errors
    /// What went wrong, in words; the call is refused and nothing is written.
    fn wrap(&self, payload: Payload) -> Result<Payload, PayloadError>;

    /// Undoes [`wrap`](Codec::wrap). A payload it does not know passes unchanged.
    ///
    /// # Errors
    /// What went wrong, for example a missing key: the run blocks and nothing is lost.
    fn unwrap(&self, payload: Payload) -> Result<Payload, PayloadError>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn json_is_byte_compatible_with_temporal() {
        let p = Payload::encode(&("a", 1)).expect("encodes");
        assert_eq!(p.encoding.as_str(), "json/plain");
        assert_eq!(&p.data[..], b"[\"a\",1]");
        assert_eq!(Payload::encode(&()).expect("encodes"), Payload::null());
        assert_eq!(Payload::null().decode::<Option<u8>>(), Ok(None));
    }

    #[test]
    fn a_wrong_payload_says_what_it_is() {
        let p = Payload::encode("text").expect("encodes");
        let e = p.decode::<u64>().expect_err("not a number");
        assert!(format!("{e}").starts_with("payload (json/plain, 6 bytes) does not decode"));
    }

    #[test]
    fn debug_shows_no_user_data() {
        let p = Payload::encode("secret").expect("encodes");
        assert_eq!(format!("{p:?}"), "Payload(json/plain, 8 B)");
    }
}
