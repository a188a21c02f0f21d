//! What travels with a call, on every kind of record that can have it.

use outlast_model::event::{ChildEvent, ExternalEvent, UpdateEvent};
use outlast_model::post::{Post, PostBody};
use outlast_model::{EventKind, Headers, Payload};

use super::json;

pub(crate) fn headers() -> Headers {
    let trace = json("{\"traceparent\":\"00-1-2-01\"}");
    [
        ("_tracer-data".into(), trace),
        ("tenant".into(), Payload::bytes("acme")),
    ]
    .into_iter()
    .collect()
}

/// The same event with headers; `None` if its kind has none.
pub(crate) fn with_headers(mut kind: EventKind) -> Option<EventKind> {
    let headers = headers();
    if let EventKind::Started(started) = &mut kind {
        started.headers = headers;
    } else if let EventKind::ActivityScheduled(activity) = &mut kind {
        activity.headers = headers;
    } else if let EventKind::Signaled { headers: all, .. } = &mut kind {
        *all = headers;
    } else if let EventKind::ContinuedAsNew(next) = &mut kind {
        next.headers = headers;
    } else if let EventKind::Child(ChildEvent::Initiated(child)) = &mut kind {
        child.headers = headers;
    } else if let EventKind::External(ExternalEvent::SignalInitiated(signal)) = &mut kind {
        signal.headers = headers;
    } else if let EventKind::Update(UpdateEvent::Admitted(request)) = &mut kind {
        request.headers = headers;
    } else if let EventKind::Update(UpdateEvent::Accepted(accepted)) = &mut kind {
        accepted.request.as_mut()?.headers = headers;
    } else {
        return None;
    }
    Some(kind)
}

/// The same post with headers; `None` if its kind has none.
pub(crate) fn post_with_headers(mut post: Post) -> Option<Post> {
    if let PostBody::StartChild(child) = &mut post.body {
        child.headers = headers();
    } else if let PostBody::Signal { headers: all, .. } = &mut post.body {
        *all = headers();
    } else {
        return None;
    }
    Some(post)
}
