//! What goes before a batch that nobody waits for.
//!
//! Outcomes of many attempts come back in parts. What a part changes has no consequences yet, so
//! nobody waits for its commit, but the next part would wait for the disk if it were made at once. So
//! such a batch lets mail go first that is there already, and is committed with what follows from it.
//! While many attempts are out it also watches for a moment, awake; after each watch in vain twice as
//! many batches do not, until mail came in time again. All that only so often in a row.

use std::time::Duration;

use crate::inbox::Heard;

/// So often in a row.
const MOST: u32 = 16;

/// So many attempts must be out to watch for one.
pub(crate) const MANY: usize = 8;

/// After this many watches in vain it does not get rarer.
const MOST_VAIN: u32 = 6;

/// A watch is no longer than this: about as long as the commit that it may save.
pub(crate) const MOMENT: Duration = Duration::from_micros(250);

/// What a shard's batch has let go first.
#[derive(Debug, Default)]
pub(crate) struct Courtesy {
    parts: u32,
    /// The mail after which it watched last: if there is none since, that was in vain.
    watched: Option<Heard>,
    /// Watches in vain, one after the other.
    vain: u32,
    /// So many batches do not watch.
    pass: u32,
}

/// What goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goes {
    /// Mail, which is there.
    Mail,
    /// Mail, if it comes in a moment.
    MailSoon,
    /// The batch.
    Batch,
}

/// What is known of a shard that has nothing else to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene {
    /// There is a batch, and nobody waits for it.
    pub(crate) is_quiet: bool,
    /// Mail has come since the last was taken.
    pub(crate) has_mail: bool,
    /// How many attempts are out.
    pub(crate) attempts_out: usize,
    /// The mail that was taken last.
    pub(crate) heard: Heard,
}

impl Courtesy {
    /// What goes next.
    pub(crate) fn next(&mut self, scene: Scene) -> Goes {
        let watched = self.watched.take();
        let is_in_vain = watched == Some(scene.heard) && !scene.has_mail;
        if is_in_vain {
            self.vain = MOST_VAIN.min(self.vain + 1);
            self.pass = 1 << self.vain;
        } else if watched.is_some() || (scene.is_quiet && scene.has_mail) {
            (self.vain, self.pass) = (0, 0);
        }
        let goes = self.goes(scene);
        match goes {
            Goes::Mail => self.parts += 1,
            Goes::MailSoon => {
                self.parts += 1;
                self.watched = Some(scene.heard);
            }
            Goes::Batch => {
                self.parts = 0;
                self.pass = self.pass.saturating_sub(u32::from(scene.is_quiet));
            }
        }
        goes
    }

    fn goes(&self, scene: Scene) -> Goes {
        if !scene.is_quiet || self.parts >= MOST {
            Goes::Batch
        } else if scene.has_mail {
            Goes::Mail
        } else if scene.attempts_out >= MANY && self.pass == 0 {
            Goes::MailSoon
        } else {
            Goes::Batch
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene(is_quiet: bool, has_mail: bool, attempts_out: usize, heard: u64) -> Scene {
        Scene {
            is_quiet,
            has_mail,
            attempts_out,
            heard: Heard(heard),
        }
    }

    #[test]
    fn mail_goes_only_before_what_nobody_waits_for() {
        let table = [
            (scene(true, true, MANY, 1), Goes::Mail),
            (scene(true, true, 0, 1), Goes::Mail),
            (scene(true, false, MANY, 1), Goes::MailSoon),
            (scene(true, false, MANY - 1, 1), Goes::Batch),
            (scene(false, true, MANY, 1), Goes::Batch),
            (scene(false, true, 0, 1), Goes::Batch),
            (scene(false, false, MANY, 1), Goes::Batch),
            (scene(false, false, 0, 1), Goes::Batch),
        ];
        for (scene, goes) in table {
            assert_eq!(Courtesy::default().next(scene), goes, "{scene:?}");
        }
    }

    #[test]
    fn watches_in_vain_get_rarer_until_mail_comes_in_time() {
        let mut courtesy = Courtesy::default();
        let mut next = |has_mail, heard| courtesy.next(scene(true, has_mail, MANY, heard));
        assert_eq!(next(false, 1), Goes::MailSoon);
        assert_eq!(next(false, 2), Goes::MailSoon, "it came");
        assert_eq!(next(false, 2), Goes::Batch, "it did not");
        assert_eq!(next(false, 3), Goes::Batch, "the next batch does not watch");
        assert_eq!(next(false, 4), Goes::MailSoon);
        let batches = (0..4).map(|_| next(false, 4));
        let goes = [Goes::Batch, Goes::Batch, Goes::Batch, Goes::Batch];
        assert!(batches.eq(goes), "in vain again: three do not");
        assert_eq!(next(false, 4), Goes::MailSoon);
        assert_eq!(next(true, 4), Goes::Mail, "just in time");
        assert_eq!(next(false, 5), Goes::MailSoon, "it may pay again");
    }

    #[test]
    fn a_batch_that_somebody_waits_for_or_none_says_nothing_about_watching() {
        let mut courtesy = Courtesy::default();
        let mut next = |is_quiet, heard| courtesy.next(scene(is_quiet, !is_quiet, MANY, heard));
        assert_eq!(next(true, 1), Goes::MailSoon);
        assert_eq!(next(true, 1), Goes::Batch, "in vain");
        assert_eq!(next(false, 2), Goes::Batch);
        assert_eq!(next(true, 3), Goes::Batch, "this one does not watch");
        assert_eq!(next(false, 4), Goes::Batch);
        assert_eq!(next(true, 5), Goes::MailSoon, "the next does");
    }

    #[test]
    fn mail_that_never_ends_does_not_keep_a_batch_from_the_disk() {
        for has_mail in [true, false] {
            let mut courtesy = Courtesy::default();
            let mut next = |heard| courtesy.next(scene(true, has_mail, MANY, heard));
            let first: Vec<Goes> = (0..=u64::from(MOST)).map(&mut next).collect();
            let lets = first.iter().filter(|goes| **goes != Goes::Batch).count();
            assert_eq!(lets, MOST as usize);
            assert_eq!(first.last(), Some(&Goes::Batch));
            assert_ne!(next(99), Goes::Batch, "and from the beginning");
        }
    }
}
