//! Where a typed handle is used: by a client, or inside another workflow.
//!
//! `CartHandle` is `CartHandle<App>`: signals, queries, updates. `CartHandle<Ctx>` is what
//! `ctx.get(Cart::run, "cart-7")` gives: its signals are durable calls of the workflow that sends
//! them. Questions are not there, by type: their answer would not be part of the history.

use std::fmt;

use crate::call::{Call, kind};
use crate::client::App;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::external::External;
use crate::outgoing::{Encoded, Outgoing};
use crate::signal::Sent;
use crate::wire::Outcome;
use crate::workflow::HandleOf;

/// A side from which a run can be reached: [`App`] or [`Ctx`](crate::Ctx).
pub trait Via: Sized + 'static {
    /// The plain handle of a workflow that returns an `R`.
    type To<R: Outcome>: Clone + fmt::Debug;
    /// A signal on its way.
    type Sent;

    /// Sends a signal, for a generated handle.
    #[doc(hidden)]
    #[track_caller]
    fn send<R: Outcome>(to: &Self::To<R>, name: &'static str, content: Encoded) -> Self::Sent;
}

impl Via for App {
    type To<R: Outcome> = HandleOf<R>;
    type Sent = Sent;

    fn send<R: Outcome>(to: &HandleOf<R>, name: &'static str, content: Encoded) -> Sent {
        Sent::new(Outgoing::new(to, name, content))
    }
}

impl Via for Ctx {
    type To<R: Outcome> = External;
    type Sent = Call<(), Error, kind::External>;

    #[track_caller]
    fn send<R: Outcome>(to: &External, name: &'static str, content: Encoded) -> Self::Sent {
        to.send_named(name.into(), content)
    }
}
