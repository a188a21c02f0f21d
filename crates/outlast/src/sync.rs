//! Between the branches of one run: locks, channels, cells.
//!
//! They are ordinary values of workflow code, for one run on its one thread (none is `Send`).
//! Nothing of them is recorded: what branches do to each other is repeated by a replay. Whoever
//! waited first is served first, and a cancel of the scope reaches every wait: it gives
//! [`CallError::Cancelled`](crate::CallError). What is at hand is given to cancelled code, too:
//! clean-up can take a free lock.

mod channel;
mod line;
mod mutex;
mod once;
mod semaphore;
mod watched;

pub use channel::{ChannelError, Receiver, Sender, channel, unbounded};
pub use mutex::{Mutex, MutexGuard};
pub use once::WriteOnce;
pub use semaphore::{Acquire, Permit, Semaphore};
pub use watched::Watched;

use std::panic::Location;

use outlast_runtime::{Context, Wait};

/// A place in the source.
type Place = &'static Location<'static>;

/// A wait of the code that is being polled.
fn wait(place: Place) -> Wait {
    match Context::current() {
        Some(ctx) => ctx.wait(place),
        None => panic!("a wait at {place} works only inside a workflow"),
    }
}

/// For everything that others may wait for: queries, validators and conditions do not touch it.
#[track_caller]
fn assert_writable(what: &str) {
    if let Some(ctx) = Context::current() {
        ctx.assert_writable(what);
    }
}

#[cfg(test)]
mod tests;
