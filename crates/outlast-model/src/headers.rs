//! What travels with a call beside its input: a trace, a tenant, a deadline. Temporal's `Header`.
//!
//! Names have one payload each and keep the order of the alphabet. Interceptors write and read
//! them; the engine records them where Temporal does and never looks inside. Replay does not
//! compare them: an interceptor may change under open runs. A call without headers costs one
//! word, no allocation and no byte on disk.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::fmt;

use minicbor::data::Type;
use minicbor::{Decode, Decoder, Encode, Encoder, decode, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::payload::{Payload, PayloadError};
use crate::shared::Shared;

/// Payloads by name. Cheap to clone: copies share until one is changed.
#[derive(Clone, Default, PartialEq)]
pub struct Headers(Option<Shared<BTreeMap<String, Payload>>>);

impl Headers {
    /// None.
    pub const fn new() -> Self {
        Self(None)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |all| all.len())
    }

    /// The payload of this name.
    pub fn get(&self, name: &str) -> Option<&Payload> {
        self.0.as_ref()?.get(name)
    }

    /// The value of this name; `None` if there is none.
    ///
    /// # Errors
    /// It is there and is not a `T`.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, PayloadError> {
        self.get(name).map(Payload::decode).transpose()
    }

    /// Sets the payload of this name, whatever it was before.
    pub fn set(&mut self, name: impl Into<String>, payload: Payload) {
        let all = self.0.get_or_insert_with(|| Shared::new(BTreeMap::new()));
        all.insert(name.into(), payload);
    }

    /// Sets the value of this name, whatever it was before.
    ///
    /// # Errors
    /// The value does not serialise; nothing is changed.
    pub fn write<T: Serialize + ?Sized>(
        &mut self,
        name: impl Into<String>,
        value: &T,
    ) -> Result<(), PayloadError> {
        self.set(name, Payload::encode(value)?);
        Ok(())
    }

    /// Takes the payload of this name out.
    pub fn remove(&mut self, name: &str) -> Option<Payload> {
        self.get(name)?;
        let all = self.0.as_mut()?;
        let payload = all.remove(name);
        if all.is_empty() {
            self.0 = None;
        }
        payload
    }

    /// Names and payloads, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Payload)> {
        let all = self.0.iter().flat_map(|all| all.iter());
        all.map(|(name, payload)| (name.as_str(), payload))
    }

    /// Size in bytes, names included, as the limits count it.
    pub fn size(&self) -> usize {
        self.iter()
            .map(|(name, payload)| name.len() + payload.size())
            .sum()
    }
}

impl FromIterator<(String, Payload)> for Headers {
    fn from_iter<I: IntoIterator<Item = (String, Payload)>>(pairs: I) -> Self {
        let all: BTreeMap<String, Payload> = pairs.into_iter().collect();
        Self((!all.is_empty()).then(|| Shared::new(all)))
    }
}

/// Names and sizes only: user data never reaches a log by accident.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// A map; nothing at all where there are none.
impl<C> Encode<C> for Headers {
    fn encode<W: encode::Write>(
        &self,
        e: &mut Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        self.0.encode(e, ctx)
    }

    fn is_nil(&self) -> bool {
        self.is_empty()
    }
}

impl<'b, C> Decode<'b, C> for Headers {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, decode::Error> {
        if d.datatype()? == Type::Null {
            d.null()?;
            return Ok(Self::new());
        }
        let all: BTreeMap<String, Payload> = Decode::decode(d, ctx)?;
        Ok(all.into_iter().collect())
    }

    fn nil() -> Option<Self> {
        Some(Self::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    fn one() -> Headers {
        let mut headers = Headers::new();
        headers.write("tenant", "acme").expect("text serialises");
        headers
    }

    #[test]
    fn a_copy_does_not_see_what_the_other_changes() {
        let first = one();
        let mut second = first.clone();
        second.write("tenant", "other").expect("text serialises");
        second.set("more", Payload::null());
        assert_eq!(first.read::<String>("tenant"), Ok(Some("acme".into())));
        assert_eq!((first.len(), second.len()), (1, 2));
        assert_eq!(first.size(), "tenant".len() + "\"acme\"".len());
    }

    #[test]
    fn without_the_last_one_there_are_none() {
        let mut headers = one();
        assert_eq!(headers.remove("unknown"), None);
        assert!(headers.remove("tenant").is_some());
        assert_eq!(headers, Headers::new());
        assert_eq!(size_of::<Headers>(), size_of::<usize>());
    }

    #[test]
    fn a_name_that_is_not_there_is_none_and_a_wrong_value_is_an_error() {
        let headers = one();
        assert_eq!(headers.read::<u64>("other"), Ok(None));
        let error = headers.read::<u64>("tenant").expect_err("it is a text");
        assert!(format!("{error}").contains("does not decode"));
    }

    #[test]
    fn debug_shows_names_and_no_values() {
        assert_eq!(
            format!("{:?}", one()),
            "{\"tenant\": Payload(json/plain, 6 B)}"
        );
    }
}
