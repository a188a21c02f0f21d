//! The bytes of a payload: one block of memory, however many hold it.
//!
//! Payloads are made once, held by records, state, jobs and attempts of several threads, and never
//! changed or cut. So nothing is needed but a count in front of the bytes: no second block for it,
//! and no room that growing left behind.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

use minicbor::{Decode, Decoder, Encode, Encoder, decode, encode};

/// Bytes that nobody changes. Cheap to clone; empty ones have no block at all.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Bytes(Option<Arc<[u8]>>);

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        Self((!bytes.is_empty()).then(|| bytes.into()))
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        bytes.as_slice().into()
    }
}

impl From<&str> for Bytes {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

impl From<String> for Bytes {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({})", self.len())
    }
}

/// As a CBOR byte string.
impl<C> Encode<C> for Bytes {
    fn encode<W: encode::Write>(
        &self,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        e.bytes(self)?;
        Ok(())
    }
}

impl<'b, C> Decode<'b, C> for Bytes {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, decode::Error> {
        Ok(d.bytes()?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn holders_share_one_block_and_nothing_needs_none() {
        let bytes = Bytes::from("text");
        assert_eq!(bytes.clone().as_ptr(), bytes.as_ptr());
        assert_eq!(Bytes::from(Vec::new()), Bytes::default());
        assert_eq!(Bytes::from(Vec::new()).0, None);
    }

    #[test]
    fn debug_shows_no_user_data() {
        assert_eq!(format!("{:?}", Bytes::from("secret")), "Bytes(6)");
    }
}
