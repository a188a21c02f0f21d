//! What somebody may have meant.

/// The most changes of one letter that still are a slip.
const SLIP: usize = 3;

/// The known word nearest to this one, if it is near at all.
pub(super) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let all = known.map(|other| (distance(word, other), other));
    all.min()
        .filter(|(distance, _)| *distance <= SLIP)
        .map(|(_, other)| other)
}

/// How many letters must change, come or go.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
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
