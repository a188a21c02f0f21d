//! How long to wait after a failure: doubling, up to a limit, with a part of it left to chance so
//! that many workers do not come back at the same moment. Chance is given from outside.

use std::sync::Arc;
use std::time::Duration;

use outlast_model::time::doubled;

/// Draws any number; the owner's only source of chance.
pub type Chance = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The pauses between tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// At most.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            longest: Duration::from_secs(10),
        }
    }
}

impl Backoff {
    /// The pause after this many failures in a row: none after none, else between a half and the
    /// whole of the doubled one.
    pub fn after(&self, failures: u32, drawn: u64) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let whole = doubled(self.first, doublings, self.longest);
        let half = whole / 2;
        let share = u32::try_from(drawn % 1_000).unwrap_or(0);
        half + half.saturating_mul(share) / 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit_and_stay_in_their_range() {
        let backoff = Backoff::default();
        assert_eq!(backoff.after(0, 7), Duration::ZERO);
        for failures in 1..80 {
            let doubled = Duration::from_millis(100).saturating_mul(1 << (failures - 1).min(20));
            let whole = doubled.min(backoff.longest);
            for drawn in [0, 1, 499, 999, u64::MAX] {
                let pause = backoff.after(failures, drawn);
                assert!(
                    pause >= whole / 2 && pause <= whole,
                    "{failures}: {pause:?}"
                );
            }
        }
    }
}
