//! What somebody may have meant: whoever refuses a name can say which it knows.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The most changes of one letter that still are a slip.
const SLIP: usize = 3;

/// The most known words that are named when none is near.
const SOME: usize = 5;

/// The rest of a sentence that says a word is unknown: the one that was meant, or some that are
/// known, or nothing.
pub fn hint<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    if let Some(near) = nearest(word, known.clone()) {
        return format!("; did you mean {near}?");
    }
    let some: Vec<&str> = known.clone().take(SOME).collect();
    if some.is_empty() {
        return String::new();
    }
    let more = if known.count() > SOME { ", .." } else { "" };
    format!("; known: {}{more}", some.join(", "))
}

/// The known word nearest to this one, if it is near at all.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let all = known.map(|other| (distance(word, other), other));
    all.min()
        .filter(|(distance, _)| *distance <= SLIP)
        .map(|(_, other)| other)
}

/// How many letters must change, come or go.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut corner = core::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let change = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_the_one_that_was_meant_or_some_that_are_known() {
        let known = ["charge", "put_back", "refund", "reserve", "ship", "weigh"];
        let hint = |word: &str, known: &[&'static str]| hint(word, known.iter().copied());
        assert_eq!(hint("chrage", &known), "; did you mean charge?");
        assert_eq!(
            hint("send_mail", &known),
            "; known: charge, put_back, refund, reserve, ship, .."
        );
        assert_eq!(hint("send_mail", &known[..1]), "; known: charge");
        assert_eq!(hint("send_mail", &[]), "");
    }

    #[test]
    fn a_slip_is_recognised_and_a_guess_is_not_made() {
        let known = || ["worker.step_slots", "worker.slots"].into_iter();
        assert_eq!(
            nearest("worker.step_slot", known()),
            Some("worker.step_slots")
        );
        assert_eq!(nearest("worker.slts", known()), Some("worker.slots"));
        assert_eq!(nearest("worker.something", known()), None);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}
