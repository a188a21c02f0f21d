//! Points in time, in whole microseconds since 1970. Never read from a clock here.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::time::Duration;

use minicbor::{Decode, Encode};

/// A point in time: microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Timestamp(#[n(0)] pub u64);

impl Timestamp {
    /// The end of time; saturating arithmetic stops here.
    pub const MAX: Self = Self(u64::MAX);

    /// This moment plus `d`, saturating: a huge delay is for ever, never an overflow.
    #[must_use]
    pub fn after(self, d: Duration) -> Self {
        let micros = u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// How long after `earlier` this is; zero if it is before.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// Year, month and day of this moment in UTC.
    pub fn date(self) -> (i64, u32, u32) {
        // Days to civil date, after Howard Hinnant's algorithm.
        let days = i64::try_from(self.0 / 86_400_000_000).unwrap_or(i64::MAX / 2);
        let z = days + 719_468;
        let era = z.div_euclid(146_097);
        let doe = z.rem_euclid(146_097);
        let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
        let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
        let mp = (5 * doy + 2) / 153;
        let day = u32::try_from(doy - (153 * mp + 2) / 5 + 1).unwrap_or(1);
        let month = u32::try_from(if mp < 10 { mp + 3 } else { mp - 9 }).unwrap_or(1);
        (yoe + era * 400 + i64::from(month <= 2), month, day)
    }
}

/// RFC 3339 in UTC with microseconds, as Temporal's JSON has it.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.date();
        let secs = self.0 / 1_000_000;
        let (h, m, s) = (secs / 3600 % 24, secs / 60 % 60, secs % 60);
        let micros = self.0 % 1_000_000;
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{micros:06}Z"
        )
    }
}

/// The pause after so many doublings of the first one, at most the longest; saturates.
pub fn doubled(first: Duration, doublings: u32, longest: Duration) -> Duration {
    let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest)
}

/// How long ago, or in how long, for people.
pub fn ago(time: Timestamp, now: Timestamp) -> String {
    if time > now {
        format!("in {}", span(time.since(now)))
    } else {
        format!("{} ago", span(now.since(time)))
    }
}

/// A length of time in its largest unit, for people.
pub fn span(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0 => format!("{} ms", length.as_millis()),
        1..10 => format!("{:.1} s", length.as_secs_f64()),
        10..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        172_800.. => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec::Vec;

    #[test]
    fn prints_as_rfc_3339() {
        assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(
            Timestamp(1_709_164_800_000_001).to_string(),
            "2024-02-29T00:00:00.000001Z"
        );
    }

    #[test]
    fn times_are_told_in_their_largest_unit() {
        let told: Vec<String> = [0, 900, 1_500, 60_000, 600_000, 10_000_000, 200_000_000]
            .map(|ms| span(Duration::from_millis(ms)))
            .into();
        assert_eq!(
            told,
            ["0 ms", "900 ms", "1.5 s", "60 s", "10 min", "2 h", "2 days"]
        );
        assert_eq!(ago(Timestamp(5_000_000), Timestamp(2_000_000)), "in 3.0 s");
    }

    #[test]
    fn a_pause_doubles_up_to_the_longest_and_never_overflows() {
        let second = Duration::from_secs(1);
        let pauses: Vec<u64> = [0, 1, 2, 9, 10, 31, 32, u32::MAX]
            .map(|n| doubled(second, n, second * 600).as_secs())
            .into();
        assert_eq!(pauses, [1, 2, 4, 512, 600, 600, 600, 600]);
        assert_eq!(doubled(Duration::MAX, 40, Duration::MAX), Duration::MAX);
        assert_eq!(doubled(Duration::ZERO, u32::MAX, second), Duration::ZERO);
    }

    #[test]
    fn a_huge_delay_saturates() {
        assert_eq!(Timestamp(5).after(Duration::MAX), Timestamp::MAX);
        assert_eq!(Timestamp(5).since(Timestamp(9)), Duration::ZERO);
    }
}
