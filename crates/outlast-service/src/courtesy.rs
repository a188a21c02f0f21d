//! Whether a batch that nobody waits for lets mail go first.
//!
//! Outcomes of many attempts come back in parts. What a part changes has no consequences yet, so
//! nobody waits for its commit, but the next part would wait for the disk if it were made at once. So
//! such a batch lets mail go first that is there already, and is committed with what follows from it.
//! Nothing ever waits for company: without mail it is committed, and after so many parts in any case.

/// So often in a row.
const MOST: u32 = 16;

/// How often a shard's batch has let mail go first.
#[derive(Debug, Default)]
pub(crate) struct Courtesy(u32);

impl Courtesy {
    /// Whether mail goes before the batch this time.
    pub(crate) fn lets_go_first(&mut self, is_quiet: bool, has_mail: bool) -> bool {
        let lets = is_quiet && has_mail && self.0 < MOST;
        self.0 = if lets { self.0 + 1 } else { 0 };
        lets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mail_that_is_there_goes_first_and_only_before_what_nobody_waits_for() {
        let mut courtesy = Courtesy::default();
        let table = [(true, true), (true, false), (false, true), (false, false)];
        let lets = table.map(|(is_quiet, has_mail)| courtesy.lets_go_first(is_quiet, has_mail));
        assert_eq!(lets, [true, false, false, false]);
    }

    #[test]
    fn mail_that_never_ends_does_not_keep_a_batch_from_the_disk() {
        let mut courtesy = Courtesy::default();
        let first: Vec<bool> = (0..=MOST)
            .map(|_| courtesy.lets_go_first(true, true))
            .collect();
        assert_eq!(first.iter().filter(|lets| **lets).count(), MOST as usize);
        assert_eq!(first.last(), Some(&false));
        assert!(courtesy.lets_go_first(true, true), "and from the beginning");
    }
}
