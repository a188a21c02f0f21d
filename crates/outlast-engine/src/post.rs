//! What other runs say to a run.
//!
//! Each post is taken in the commit that records its effect; an answer to it is written in the
//! same commit. So it has its effect once, whatever crashes, and its sender hears once.

use outlast_model::event::{CancelOf, DeliveryFailedCause, ExternalEvent};
use outlast_model::id::{RequestId, Seq};
use outlast_model::post::{Post, PostBody};
use outlast_model::view::RunRef;
use outlast_model::{EventKind, Timestamp};

use crate::apply::{Error, news};
use crate::decision::Decision;
use crate::run::Run;
use crate::{child, close};

/// Applies a post to the run it was meant for.
pub(crate) fn receive(
    run: &mut Run,
    post: Post,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    let Post { from, body, .. } = post;
    match body {
        PostBody::Signal {
            seq,
            name,
            input,
            headers,
        } => {
            let failed = if run.is_full() {
                Some(DeliveryFailedCause::HistoryFull)
            } else {
                let signaled = EventKind::Signaled {
                    name,
                    input,
                    request_id: Some(dedup(&from, 's', seq)),
                    headers,
                };
                signal(run, signaled, now, decision)?;
                None
            };
            let body = PostBody::SignalDelivered { seq, failed };
            decision.say(run, from, body);
            Ok(())
        }
        PostBody::Cancel { of, reason } => {
            if !run.is_cancel_requested() {
                let request_id = None;
                decision.stimulus(run, EventKind::CancelRequested { reason, request_id }, now)?;
                news(run, decision, now)?;
            }
            if let Some(of) = of {
                let failed = None;
                decision.say(run, from, PostBody::CancelDelivered { of, failed });
            }
            Ok(())
        }
        PostBody::Terminate { reason } => Ok(close::force(
            run,
            decision,
            EventKind::Terminated { reason },
            now,
        )?),
        PostBody::ChildStarted { seq, failed } => {
            about_child(run, seq, child::Input::Started(failed), now, decision)
        }
        PostBody::ChildEnded { seq, outcome } => {
            about_child(run, seq, child::Input::Ended(outcome), now, decision)
        }
        PostBody::SignalDelivered { seq, failed } => {
            if run.is_signal_pending(seq) {
                let event = match failed {
                    None => ExternalEvent::SignalDelivered { seq },
                    Some(cause) => ExternalEvent::SignalFailed { seq, cause },
                };
                decision.stimulus(run, EventKind::External(event), now)?;
                news(run, decision, now)?;
            }
            Ok(())
        }
        PostBody::CancelDelivered { of, failed } => {
            cancel_delivered(run, of, failed, now, decision)
        }
        PostBody::StartChild(_) => Err(Error::Unexpected("a start, to a run that exists".into())),
    }
}

fn signal(
    run: &mut Run,
    signaled: EventKind,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    if let EventKind::Signaled { request_id, .. } = &signaled
        && run.has_seen(request_id.as_ref())
    {
        return Ok(());
    }
    decision.stimulus(run, signaled, now)?;
    news(run, decision, now)
}

fn cancel_delivered(
    run: &mut Run,
    of: CancelOf,
    failed: Option<DeliveryFailedCause>,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    if !run.is_cancel_pending(of) {
        return Ok(());
    }
    let event = match failed {
        None => ExternalEvent::CancelDelivered { of },
        Some(cause) => ExternalEvent::CancelFailed { of, cause },
    };
    decision.stimulus(run, EventKind::External(event), now)?;
    news(run, decision, now)
}

fn about_child(
    run: &mut Run,
    seq: Seq,
    input: child::Input,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    let Some(child) = run.child(seq) else {
        return Ok(());
    };
    match child.decide(input) {
        child::Verdict::Record(event) => {
            decision.stimulus(run, EventKind::Child(event), now)?;
            news(run, decision, now)
        }
        child::Verdict::Say(_) | child::Verdict::Ignore => Ok(()),
    }
}

fn dedup(from: &RunRef, kind: char, seq: Seq) -> RequestId {
    let run = from.run_id.unwrap_or_default();
    RequestId::new(alloc::format!("__outlast_post/{run}/{kind}{seq}"))
}
