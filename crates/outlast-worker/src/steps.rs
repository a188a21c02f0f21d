//! Code of steps that are scheduled and not yet resolved. It comes from an instance and outlives
//! its eviction, so that a retry needs no replay. What its closures hold is dropped here, outside
//! the lock, and may panic.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use outlast_model::{RunId, Seq};
use outlast_runtime::StepCode;
use outlast_runtime::panic::discard;

/// Code of pending steps by run and number.
#[derive(Default)]
pub(crate) struct Steps {
    code: Mutex<BTreeMap<(RunId, Seq), StepCode>>,
}

impl Steps {
    pub(crate) fn keep(&self, run: RunId, seq: Seq, code: StepCode) {
        let before = self.lock().insert((run, seq), code);
        discard(before);
    }

    pub(crate) fn get(&self, run: RunId, seq: Seq) -> Option<StepCode> {
        self.lock().get(&(run, seq)).cloned()
    }

    pub(crate) fn resolved(&self, run: RunId, seq: Seq) {
        let gone = self.lock().remove(&(run, seq));
        discard(gone);
    }

    /// The run has ended, or is rebuilt before its steps run again.
    pub(crate) fn forget(&self, run: RunId) {
        let mut code = self.lock();
        let mine = (run, Seq(0))..=(run, Seq(u32::MAX));
        let gone: Vec<StepCode> = code.extract_if(mine, |_, _| true).map(|of| of.1).collect();
        drop(code);
        gone.into_iter().for_each(discard);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(RunId, Seq), StepCode>> {
        self.code.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
