//! Undoing what a run has done, when its main function failed or was cancelled.
//!
//! Each completed operation that was given an undo leaves one entry; they run last first, one
//! after another, in a shield, since clean-up must not be cut short by the very cancel that
//! caused it. An undo that fails is told and the rest goes on: stopping half-way would leave
//! more behind.

use std::pin::Pin;
use std::rc::Rc;

use outlast_model::event::Site;
use outlast_model::{ActivityOptions, ActivityType, Headers, Payload, Resolution};

use crate::intercept::ActivityCall;
use crate::shared::Shared;

/// The future that undoes.
pub(crate) type UndoFuture = Pin<Box<dyn Future<Output = ()>>>;

/// One action to take.
pub(crate) struct Undo {
    pub(crate) activity_type: ActivityType,
    pub(crate) input: Payload,
    pub(crate) options: ActivityOptions,
    /// The call that is undone.
    pub(crate) site: Site,
}

/// Runs all actions, last first.
pub(crate) fn run(shared: Rc<Shared>) -> UndoFuture {
    Box::pin(async move {
        loop {
            let Some(undo) = shared.undo.borrow_mut().pop() else {
                return;
            };
            let Undo {
                activity_type,
                input,
                options,
                site,
            } = undo;
            let name = activity_type.clone();
            let told = site.clone();
            let call = ActivityCall {
                activity_type,
                input,
                options,
                headers: Headers::new(),
            };
            match shared.schedule_activity(call, site).await {
                Resolution::Completed(_) => {}
                Resolution::Failed(failure, _) => shared
                    .warn_live(|| format!("undo `{name}` of the call at {told} failed: {failure}")),
                Resolution::Canceled(_) => {
                    shared
                        .warn_live(|| format!("undo `{name}` of the call at {told} was cancelled"));
                }
            }
        }
    })
}
