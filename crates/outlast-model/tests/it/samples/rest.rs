//! What workflow code notes: its words, and where it rests.

use outlast_model::Fact;
use outlast_model::rest::{Await, Awaited, Rest, Unread};

use super::site;

/// What code has to say, without a place.
pub(crate) fn noted() -> Fact {
    Fact::Noted {
        notes: vec!["signal handler audit failed: no room".into()],
        unhandled_signals: 2,
        rest: None,
    }
}

/// A run that rests, of which every kind of wait is known.
pub(crate) fn noted_rest() -> Fact {
    let whats = [
        Awaited::Signal("go".into()),
        Awaited::Promise("approval".into()),
        Awaited::Condition,
        Awaited::Branch,
    ];
    let at = whats
        .map(|what| Await {
            what,
            site: site(9),
        })
        .into();
    let unread = vec![Unread {
        name: "what".into(),
        count: 2,
    }];
    Fact::Noted {
        notes: Vec::new(),
        unhandled_signals: 2,
        rest: Some(Box::new(Rest { at, unread })),
    }
}
