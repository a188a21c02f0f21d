//! Changes of workflow code under open runs.
//!
//! A run that comes to a change for the first time, live, takes the new side and says so in its
//! history. In replay it takes the side its history names: a replay is told beforehand of every
//! change that the task at hand announced. The answer is kept for the whole run, so that all
//! places that ask for the same change agree.

use std::collections::{BTreeMap, BTreeSet};

use outlast_model::event::Site;
use outlast_model::{Command, PatchId};

use crate::shared::Shared;

#[derive(Default)]
pub(crate) struct Patches {
    /// In use by history.
    notified: BTreeSet<PatchId>,
    answers: BTreeMap<PatchId, bool>,
    announced: BTreeSet<PatchId>,
}

/// What code says about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announcement {
    /// It is in use here.
    InUse,
    /// It is in use, and the code before it is gone.
    Deprecated,
}

impl Patches {
    /// The task that is replayed announced this change.
    pub(crate) fn notify(&mut self, id: PatchId) {
        self.notified.insert(id);
    }

    fn answer(&mut self, id: &PatchId, is_replaying: bool) -> bool {
        if let Some(answer) = self.answers.get(id) {
            return *answer;
        }
        let answer = !is_replaying || self.notified.contains(id);
        self.answers.insert(id.clone(), answer);
        answer
    }
}

impl Shared {
    /// Whether the new side is taken.
    pub(crate) fn patched(&self, id: PatchId, announcement: Announcement, site: Site) -> bool {
        let is_replaying = self.header.get().is_replaying;
        let mut patches = self.patches.borrow_mut();
        let is_new = patches.answer(&id, is_replaying);
        if is_new && patches.announced.insert(id.clone()) {
            let is_deprecated = announcement == Announcement::Deprecated;
            self.answer(Command::SetPatch {
                id,
                is_deprecated,
                site,
            });
        }
        is_new
    }
}
