//! Scopes: code and the branches it spawns, over when all of them are.

use std::fmt;
use std::future::Future;

use outlast_runtime::{Context, Supervision};

use crate::call_error::CallError;
use crate::continuing::failure_of;
use crate::failure::IntoFailure;
use crate::task::{Ending, Task, observe, prepare};

/// The handle of a scope: spawn into it, cancel it.
#[derive(Clone)]
pub struct Scope {
    ctx: Context,
    raw: outlast_runtime::Scope,
}

impl Scope {
    /// Runs a branch in this scope, whatever scope the caller is in. The scope waits for it.
    #[track_caller]
    pub fn spawn<R: Ending>(
        &self,
        branch: impl Future<Output = R> + 'static,
    ) -> Task<R::Value, R::Error> {
        let (branch, slot) = prepare(self.ctx, branch);
        Task::new(self.raw.spawn(branch), slot)
    }

    /// Asks everything in it to stop: awaits resolve as cancelled, clean-up may follow.
    #[track_caller]
    pub fn cancel(&self) {
        self.raw.cancel();
    }

    /// Whether it was asked to stop, or a branch in it has failed.
    pub fn is_cancelled(&self) -> bool {
        self.raw.is_cancelled()
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("is_cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

/// Runs `body` in a scope of its own.
pub(crate) fn run<R: Ending, F: AsyncFnOnce(Scope) -> R>(
    ctx: Context,
    supervision: Supervision,
    body: F,
) -> impl Future<Output = Result<R::Value, CallError<<R::Error as IntoFailure>::Seen>>> {
    let scoped = ctx.scope(supervision, |raw| async move {
        let result = body(Scope { ctx, raw }).await.into_result();
        result.map_err(|error| failure_of(ctx, error, "a scope"))
    });
    async { scoped.await.map_err(observe::<R::Error>) }
}

#[cfg(test)]
mod tests;
