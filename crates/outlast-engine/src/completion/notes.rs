//! What workflow code has to say that is no failure: written when it is new, and then only.
//!
//! A run that takes one signal after the other rests at the same place each time, and a run that
//! calls an activity in between comes back to it. So a place is news only if it is another one,
//! and stays known while the run waits for what has events.

use alloc::string::String;

use outlast_model::Fact;
use outlast_model::rest::{Await, Rest, Unread};
use outlast_model::task::Notes;

use crate::run::Run;

/// What was noted before.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    unhandled_signals: u32,
    at: &'a [Await],
    unread: &'a [Unread],
    notes: &'a [String],
}

impl<'a> Known<'a> {
    pub(super) fn of(run: &'a Run) -> Self {
        let known = Self::new(run.unhandled_signals(), run.rest());
        let notes = run.notes();
        Self { notes, ..known }
    }

    fn is_noted(&self, text: &String) -> bool {
        self.notes.contains(text)
    }

    fn new(unhandled_signals: u32, rest: Option<&'a Rest>) -> Self {
        Self {
            unhandled_signals,
            at: rest.map_or(&[], |rest| &rest.at),
            unread: rest.map_or(&[], |rest| &rest.unread),
            notes: &[],
        }
    }
}

/// Whether it is worth a commit of its own. Where the code rests is not.
pub(super) fn must_be_told(known: Known<'_>, notes: &Notes) -> bool {
    let now = Known::new(notes.unhandled_signals, notes.rest.as_deref());
    let is_same = (now.unhandled_signals, now.unread) == (known.unhandled_signals, known.unread);
    let is_changed = notes.changed.iter().any(|text| !known.is_noted(text));
    !notes.texts.is_empty() || is_changed || !is_same
}

/// What there is to note, if anything is new.
pub(super) fn noted(known: Known<'_>, notes: Notes) -> Option<Fact> {
    let now = Known::new(notes.unhandled_signals, notes.rest.as_deref());
    let has_moved = !now.at.is_empty() && now.at != known.at;
    if !has_moved && !must_be_told(known, &notes) {
        return None;
    }
    let mut texts = notes.texts;
    texts.extend(notes.changed.filter(|text| !known.is_noted(text)));
    let mut rest = notes.rest.unwrap_or_default();
    if rest.at.is_empty() {
        rest.at = known.at.to_vec();
    }
    Some(Fact::Noted {
        notes: texts,
        unhandled_signals: notes.unhandled_signals,
        rest: (*rest != Rest::default()).then_some(rest),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;
    use alloc::string::String;
    use alloc::vec;
    use alloc::vec::Vec;
    use outlast_model::event::Site;
    use outlast_model::rest::Awaited;

    fn rest(line: u32, unread: u32) -> Rest {
        let site = Site {
            file: "a.rs".into(),
            line,
        };
        let what = Awaited::Signal("go".into());
        let name = "what".into();
        Rest {
            at: if line > 0 {
                vec![Await { what, site }]
            } else {
                Vec::new()
            },
            unread: if unread > 0 {
                vec![Unread {
                    name,
                    count: unread,
                }]
            } else {
                Vec::new()
            },
        }
    }

    fn notes(rest: Rest) -> Notes {
        Notes {
            texts: Vec::new(),
            unhandled_signals: rest.unread.iter().map(|unread| unread.count).sum(),
            rest: Some(Box::new(rest)),
            changed: None,
        }
    }

    #[test]
    fn what_replay_found_changed_is_noted_once() {
        let text = String::from("a call is not the recorded one");
        let notes = || Notes {
            changed: Some(text.clone()),
            ..Notes::default()
        };
        let known = Known::new(0, None);
        assert!(must_be_told(known, &notes()));
        let Some(Fact::Noted {
            notes: noted_now, ..
        }) = noted(known, notes())
        else {
            panic!("it is new");
        };
        assert_eq!(noted_now, std::slice::from_ref(&text));
        let known = Known {
            notes: &noted_now,
            ..known
        };
        assert!(!must_be_told(known, &notes()));
        assert_eq!(noted(known, notes()), None);
    }

    /// What is known after it, and whether it was written.
    fn after(known: &Rest, now: Rest) -> (Rest, bool) {
        let count = known.unread.iter().map(|unread| unread.count).sum();
        match noted(Known::new(count, Some(known)), notes(now)) {
            Some(Fact::Noted { rest, .. }) => (rest.map_or_else(Rest::default, |rest| *rest), true),
            Some(_) | None => (known.clone(), false),
        }
    }

    #[test]
    fn a_place_is_written_once_and_kept_while_it_waits_for_what_has_events() {
        let nothing = Rest::default();
        let (known, is_written) = after(&nothing, rest(7, 0));
        assert_eq!((&known, is_written), (&rest(7, 0), true));
        assert_eq!(after(&known, rest(7, 0)), (rest(7, 0), false));
        assert_eq!(after(&known, nothing.clone()), (rest(7, 0), false));
        assert_eq!(after(&known, rest(8, 0)), (rest(8, 0), true));
        assert_eq!(after(&known, rest(0, 2)), (rest(7, 2), true));
        assert_eq!(after(&rest(7, 2), rest(0, 2)), (rest(7, 2), false));
        assert_eq!(after(&rest(7, 2), nothing), (rest(7, 0), true));
    }

    #[test]
    fn where_it_rests_is_not_worth_a_commit() {
        let known = Known::new(0, None);
        assert!(!must_be_told(known, &notes(rest(7, 0))));
        assert!(must_be_told(known, &notes(rest(7, 1))));
    }
}
