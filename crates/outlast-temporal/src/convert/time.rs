//! Durations and points in time. The protocol counts nanoseconds, Outlast microseconds; a zero
//! duration there means that none was given.

use std::time::Duration;

use outlast_model::Timestamp;

pub(crate) type WireDuration = prost_wkt_types::Duration;
pub(crate) type WireTime = prost_wkt_types::Timestamp;

/// A duration; one too long for the protocol is its longest.
pub(crate) fn duration(d: Duration) -> WireDuration {
    WireDuration {
        seconds: i64::try_from(d.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(d.subsec_nanos()).unwrap_or(0),
    }
}

/// A duration that was given: absent, zero and negative ones were not.
pub(crate) fn given(d: Option<WireDuration>) -> Option<Duration> {
    d.map(exactly).filter(|d| !d.is_zero())
}

/// A duration as it is; a negative one is zero.
pub(crate) fn exactly(d: WireDuration) -> Duration {
    let (Ok(seconds), Ok(nanos)) = (u64::try_from(d.seconds), u32::try_from(d.nanos)) else {
        return Duration::ZERO;
    };
    Duration::new(seconds, nanos)
}

/// A point in time; one before 1970, or none, is 1970.
pub(crate) fn time(time: Option<WireTime>) -> Timestamp {
    let time = time.unwrap_or_default();
    let seconds = u64::try_from(time.seconds).unwrap_or(0);
    let nanos = u64::try_from(time.nanos).unwrap_or(0);
    Timestamp(
        seconds
            .saturating_mul(1_000_000)
            .saturating_add(nanos / 1_000),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_duration_survives(micros in 0..u64::MAX / 4) {
            let d = Duration::from_micros(micros);
            prop_assert_eq!(exactly(duration(d)), d);
        }
    }

    #[test]
    fn a_point_in_time_is_cut_to_microseconds() {
        let at = WireTime {
            seconds: 7,
            nanos: 1_999,
        };
        assert_eq!(time(Some(at)), Timestamp(7_000_001));
        assert_eq!(time(None), Timestamp(0));
    }

    #[test]
    fn a_zero_duration_was_not_given() {
        assert_eq!(given(Some(duration(Duration::ZERO))), None);
        assert_eq!(given(None), None);
        let negative = WireDuration {
            seconds: -1,
            nanos: 0,
        };
        assert_eq!(given(Some(negative)), None);
    }
}
