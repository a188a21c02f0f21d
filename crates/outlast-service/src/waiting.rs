//! Those who wait for a slot: a line for each task queue and kind of slot, so that one queue that
//! is full never holds up another. In a line the most urgent come first, and among equals those
//! who came first.

use std::collections::{BTreeMap, VecDeque};

use outlast_model::task::SlotKind;
use outlast_model::{Priority, QueueName};

/// Whose slots a line waits for.
pub(crate) type Line = (QueueName, SlotKind);

/// Lines of those who wait; none is kept when it is empty.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    lines: BTreeMap<Line, BTreeMap<Priority, VecDeque<T>>>,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self {
            lines: BTreeMap::new(),
        }
    }
}

impl<T> Waiting<T> {
    /// Whether nobody waits at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        let ranks = self.lines.values().flat_map(BTreeMap::values);
        ranks.map(VecDeque::len).sum()
    }

    /// Whether somebody waits in this line.
    pub(crate) fn has(&self, queue: &QueueName, kind: SlotKind) -> bool {
        // The usual case needs no key.
        !self.lines.is_empty() && self.lines.contains_key(&(queue.clone(), kind))
    }

    /// All lines in which somebody waits.
    pub(crate) fn lines(&self) -> Vec<Line> {
        self.lines.keys().cloned().collect()
    }

    /// Who is next.
    pub(crate) fn first(&self, line: &Line) -> Option<&T> {
        self.lines.get(line)?.values().next()?.front()
    }

    /// Goes to the end of the equally urgent.
    pub(crate) fn push(&mut self, line: Line, priority: Priority, item: T) {
        let ranks = self.lines.entry(line).or_default();
        ranks.entry(priority).or_default().push_back(item);
    }

    /// Only these go on waiting.
    pub(crate) fn retain(&mut self, mut stays: impl FnMut(&T) -> bool) {
        self.lines.retain(|_, ranks| {
            ranks.retain(|_, rank| {
                rank.retain(&mut stays);
                !rank.is_empty()
            });
            !ranks.is_empty()
        });
    }

    /// Who is next leaves the line.
    pub(crate) fn pop(&mut self, line: &Line) -> Option<T> {
        let ranks = self.lines.get_mut(line)?;
        let mut rank = ranks.first_entry()?;
        let item = rank.get_mut().pop_front();
        if rank.get().is_empty() {
            rank.remove();
        }
        if ranks.is_empty() {
            self.lines.remove(line);
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(queue: &str) -> Line {
        (queue.into(), SlotKind::Activity)
    }

    #[test]
    fn the_urgent_come_first_and_equals_in_order_of_arrival() {
        let mut waiting = Waiting::default();
        for (priority, name) in [(3, "a"), (5, "b"), (1, "c"), (3, "d"), (1, "e")] {
            waiting.push(line("q"), Priority::new(priority), name);
        }
        assert_eq!(waiting.first(&line("q")), Some(&"c"));
        let order: Vec<&str> = std::iter::from_fn(|| waiting.pop(&line("q"))).collect();
        assert_eq!(order, ["c", "e", "a", "d", "b"]);
        assert!(waiting.is_empty());
    }

    #[test]
    fn whoever_leaves_the_line_leaves_no_empty_place() {
        let mut waiting = Waiting::default();
        for (queue, item) in [("q", 1), ("q", 2), ("r", 1)] {
            waiting.push(line(queue), Priority::default(), item);
        }
        waiting.retain(|item| *item == 2);
        assert_eq!(waiting.lines(), [line("q")]);
        assert_eq!(
            (waiting.pop(&line("q")), waiting.is_empty()),
            (Some(2), true)
        );
    }

    #[test]
    fn each_queue_and_kind_has_a_line_of_its_own() {
        let mut waiting = Waiting::default();
        let usual = Priority::default();
        waiting.push(line("q"), usual, 1);
        waiting.push(("q".into(), SlotKind::Step), usual, 2);
        waiting.push(line("r"), usual, 3);
        assert_eq!(waiting.lines().len(), 3);
        assert_eq!(waiting.pop(&line("r")), Some(3));
        assert!(!waiting.has(&"r".into(), SlotKind::Activity));
        assert!(waiting.has(&"q".into(), SlotKind::Step));
        assert!(!waiting.has(&"q".into(), SlotKind::Workflow));
    }
}
