//! How a field type that minicbor does not know is written: durations.

/// `Duration` as whole microseconds: the precision of every clock in Outlast.
pub(crate) mod duration {
    use core::time::Duration;
    use minicbor::decode::Error as DecodeError;
    use minicbor::encode::{Error as EncodeError, Write};
    use minicbor::{Decoder, Encoder};

    pub(crate) fn encode<C, W: Write>(
        value: &Duration,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        e.u64(u64::try_from(value.as_micros()).unwrap_or(u64::MAX))?;
        Ok(())
    }

    pub(crate) fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<Duration, DecodeError> {
        Ok(Duration::from_micros(d.u64()?))
    }
}

/// An optional duration; absent is CBOR null.
pub(crate) mod opt_duration {
    use core::time::Duration;
    use minicbor::decode::Error as DecodeError;
    use minicbor::encode::{Error as EncodeError, Write};
    use minicbor::{Decoder, Encoder};

    pub(crate) fn encode<C, W: Write>(
        value: &Option<Duration>,
        e: &mut Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        match value {
            Some(d) => super::duration::encode(d, e, ctx),
            None => e.null().map(|_| ()),
        }
    }

    pub(crate) fn decode<C>(
        d: &mut Decoder<'_>,
        ctx: &mut C,
    ) -> Result<Option<Duration>, DecodeError> {
        if d.datatype()? == minicbor::data::Type::Null {
            d.null()?;
            return Ok(None);
        }
        super::duration::decode(d, ctx).map(Some)
    }

    pub(crate) fn is_nil(value: &Option<Duration>) -> bool {
        value.is_none()
    }

    pub(crate) fn nil() -> Option<Option<Duration>> {
        Some(None)
    }
}
