//! Durations as one says them: `30.secs()`, `14.days()`.

use std::time::Duration;

/// Durations from whole numbers. Only for `u64`, so that a bare literal has one meaning.
pub trait UnitExt {
    /// Milliseconds.
    fn millis(self) -> Duration;
    /// Seconds.
    fn secs(self) -> Duration;
    /// Minutes.
    fn mins(self) -> Duration;
    /// Hours.
    fn hours(self) -> Duration;
    /// Days of 24 hours.
    fn days(self) -> Duration;
}

impl UnitExt for u64 {
    fn millis(self) -> Duration {
        Duration::from_millis(self)
    }

    fn secs(self) -> Duration {
        Duration::from_secs(self)
    }

    fn mins(self) -> Duration {
        Duration::from_secs(self.saturating_mul(60))
    }

    fn hours(self) -> Duration {
        Duration::from_secs(self.saturating_mul(3_600))
    }

    fn days(self) -> Duration {
        Duration::from_secs(self.saturating_mul(86_400))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_become_durations() {
        assert_eq!(90.secs(), Duration::from_secs(90));
        assert_eq!(2.mins() + 1.hours(), Duration::from_secs(3_720));
        assert_eq!(u64::MAX.days(), Duration::from_secs(u64::MAX));
    }
}
