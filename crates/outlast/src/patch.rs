//! Changes of workflow code under open runs.
//!
//! A run that came by with the old code must take the old side for ever; a new one takes the new
//! side. `ctx.patched(id)` asks which, and writes the answer into the history.

use outlast_model::PatchId;

use crate::ctx::Ctx;

/// Changes of the code.
impl<S> Ctx<S> {
    /// Whether this run takes the new side of a change: `if ctx.patched("fraud-check") { .. }`.
    /// New runs do; runs that came by here with the old code do not. An id means one change, for
    /// ever.
    #[track_caller]
    #[must_use = "it says which side of the change to take"]
    pub fn patched(self, id: &str) -> bool {
        self.raw().patched(PatchId::new(id))
    }

    /// No open run takes the old side any more: the `if` is gone, this line stays until the runs
    /// that wrote the change into their history have ended too.
    #[track_caller]
    pub fn deprecate_patch(self, id: &str) {
        self.raw().deprecate_patch(PatchId::new(id));
    }
}
