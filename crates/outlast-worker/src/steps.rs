//! Code of steps that are scheduled and not yet resolved. It comes from an instance and outlives
//! its eviction, so that a retry needs no replay. What its closures hold is dropped here, outside
//! the lock, and may panic.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use outlast_model::{RunId, Seq};
use outlast_runtime::StepCode;
use outlast_runtime::panic::discard;

use crate::event::RunIn;

/// Code of pending steps by run and number.
#[derive(Default)]
pub(crate) struct Steps {
    code: Mutex<Code>,
}

/// With the names of the run: what the closures hold may not let go of their thread.
type Code = BTreeMap<(RunId, Seq), (RunIn, StepCode)>;

impl Steps {
    pub(crate) fn keep(&self, run: RunIn, seq: Seq, code: StepCode) {
        let before = self.lock().insert((run.run_id, seq), (run, code));
        discard(before);
    }

    pub(crate) fn get(&self, run: RunId, seq: Seq) -> Option<StepCode> {
        self.lock().get(&(run, seq)).map(|(_, code)| code.clone())
    }

    pub(crate) fn resolved(&self, run: RunId, seq: Seq) {
        let gone = self.lock().remove(&(run, seq));
        discard(gone);
    }

    /// The run has ended, or is rebuilt before its steps run again.
    pub(crate) fn forget(&self, run: RunId) {
        if let Some((_, code)) = self.take(run) {
            code.into_iter().for_each(discard);
        }
    }

    /// The same, for whoever drops it under watch.
    pub(crate) fn take(&self, run: RunId) -> Option<(RunIn, Vec<StepCode>)> {
        let mut code = self.lock();
        let mine = (run, Seq(0))..=(run, Seq(u32::MAX));
        let mut gone = code.extract_if(mine, |_, _| true).map(|(_, kept)| kept);
        let (run, first) = gone.next()?;
        let rest = gone.map(|(_, code)| code);
        Some((run, std::iter::once(first).chain(rest).collect()))
    }

    fn lock(&self) -> MutexGuard<'_, Code> {
        self.code.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
