//! Around what workflow code asks for.
//!
//! A call is seen before it has a number, with the options it has by then: what the code chains
//! on it afterwards wins. There is no `next`: the call goes out when all have seen it. A durable
//! call that an interceptor makes here is seen by those behind it only, so none meets itself.

use std::time::Duration;

use outlast_model::Headers;
use outlast_model::command::ContinueAsNew;
use outlast_runtime::intercept::{ActivityCall, CancelCall, ChildCall, SignalCall, StepCall};

use crate::ctx::Ctx;

/// Code around what workflow code asks for. The defaults let [`headers`](Self::headers) write.
pub trait WorkflowOutbound: 'static {
    /// Something with headers leaves.
    fn headers(&self, _ctx: Ctx, _headers: &mut Headers) {}

    /// An activity, also one that undoes.
    fn activity(&self, ctx: Ctx, call: &mut ActivityCall) {
        self.headers(ctx, &mut call.headers);
    }

    /// A step. Its headers stay in this process, as its code does.
    fn step(&self, ctx: Ctx, call: &mut StepCall) {
        self.headers(ctx, &mut call.headers);
    }

    /// A child.
    fn child(&self, ctx: Ctx, call: &mut ChildCall) {
        self.headers(ctx, &mut call.headers);
    }

    /// A signal to another run.
    fn signal_external(&self, ctx: Ctx, call: &mut SignalCall) {
        self.headers(ctx, &mut call.headers);
    }

    /// A request to another run to stop.
    fn cancel_external(&self, _ctx: Ctx, _call: &mut CancelCall) {}

    /// A timer.
    fn timer(&self, _ctx: Ctx, _delay: &mut Duration) {}

    /// The run goes on as a new one.
    fn continue_as_new(&self, ctx: Ctx, next: &mut ContinueAsNew) {
        self.headers(ctx, &mut next.headers);
    }
}
