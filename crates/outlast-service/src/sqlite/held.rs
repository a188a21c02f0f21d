//! A log that another program keeps from beginning anew: a reader of its own that never ends. It
//! cannot be interrupted, and commits go on; somebody should know, once.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The log of a database has become longer than it should, since another program reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLog {
    /// The database.
    pub path: PathBuf,
    /// Bytes of its log.
    pub bytes: u64,
}

type Tell = Box<dyn Fn(&HeldLog) + Send + Sync>;

/// Who hears of it.
#[derive(Default)]
pub(super) struct Teller(Mutex<Option<Tell>>);

impl Teller {
    pub(super) fn set(&self, tell: Tell) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(tell);
    }

    pub(super) fn tell(&self, held: &HeldLog) {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tell) = told.as_ref() {
            tell(held);
        }
    }
}

impl fmt::Debug for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Teller").finish_non_exhaustive()
    }
}
