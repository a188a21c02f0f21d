//! Code of steps that are scheduled and not yet resolved. It comes from an instance and outlives
//! its eviction, so that a retry needs no replay.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use outlast_model::{RunId, Seq};
use outlast_runtime::StepCode;

/// Code of pending steps by run and number.
#[derive(Default)]
pub(crate) struct Steps {
    code: Mutex<BTreeMap<(RunId, Seq), StepCode>>,
}

impl Steps {
    pub(crate) fn keep(&self, run: RunId, seq: Seq, code: StepCode) {
        self.lock().insert((run, seq), code);
    }

    pub(crate) fn get(&self, run: RunId, seq: Seq) -> Option<StepCode> {
        self.lock().get(&(run, seq)).cloned()
    }

    pub(crate) fn resolved(&self, run: RunId, seq: Seq) {
        self.lock().remove(&(run, seq));
    }

    /// The run has ended, or is rebuilt before its steps run again.
    pub(crate) fn forget(&self, run: RunId) {
        let mut code = self.lock();
        let first = (run, Seq(0));
        let mine: Vec<(RunId, Seq)> = code
            .range(first..=(run, Seq(u32::MAX)))
            .map(|(key, _)| *key)
            .collect();
        for key in mine {
            code.remove(&key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(RunId, Seq), StepCode>> {
        self.code.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
