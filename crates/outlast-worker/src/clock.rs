//! The one place of this crate that reads a clock: how long user code has been running.

use std::time::Instant;

/// A point in time for measuring, not for telling.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn now() -> Instant {
    Instant::now()
}
