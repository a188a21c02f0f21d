//! The clocks of the binary: one place reads them.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use outlast_model::Timestamp;

/// For durations.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// For people, and to compare with the times in a history.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn wall() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}
