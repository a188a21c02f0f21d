//! Whether calls of one task came back in another order.
//!
//! Calls are matched by number, so calls of one type that changed places show as calls whose
//! inputs changed, and each would be handed the result of another. Every changed input is an edge
//! from what is recorded to what the code says now: where edges close a circle, the inputs are a
//! permutation of recorded ones. A change that is none (every number one higher, say) closes no
//! circle.

use std::collections::BTreeMap;

use outlast_model::event::{ChildEvent, ExternalEvent};
use outlast_model::{Command, Event, EventKind, Payload};

/// Two inputs are the same if these are: only calls of one kind and type can change places.
type Key<'a> = (
    &'static str,
    &'a str,
    &'a str,
    &'a [u8],
    Option<&'a BTreeMap<String, Vec<u8>>>,
);

/// A call whose input is not the recorded one.
pub(super) struct Changed<'a> {
    pub(super) event: &'a Event,
    pub(super) command: &'a Command,
    was: Key<'a>,
    is: Key<'a>,
}

impl<'a> Changed<'a> {
    /// Both sides, if they are one call with another input.
    pub(super) fn of(event: &'a Event, command: &'a Command) -> Option<Self> {
        let (kind, name, was, is) = inputs(event, command)?;
        (was != is).then(|| Self {
            event,
            command,
            was: key(kind, name, was),
            is: key(kind, name, is),
        })
    }
}

fn inputs<'a>(
    event: &'a Event,
    command: &'a Command,
) -> Option<(&'static str, &'a str, &'a Payload, &'a Payload)> {
    let kind = command.name();
    if let (EventKind::ActivityScheduled(was), Command::ScheduleActivity(is)) =
        (&event.kind, command)
    {
        let name = was.activity_type.as_str();
        return Some((kind, name, &was.input, &is.input));
    }
    if let (EventKind::Child(ChildEvent::Initiated(was)), Command::StartChild(is)) =
        (&event.kind, command)
    {
        let name = was.workflow_type.as_str();
        return Some((kind, name, &was.input, &is.input));
    }
    if let (EventKind::External(ExternalEvent::SignalInitiated(was)), Command::SignalExternal(is)) =
        (&event.kind, command)
    {
        return Some((kind, was.name.as_str(), &was.input, &is.input));
    }
    None
}

fn key<'a>(kind: &'static str, name: &'a str, payload: &'a Payload) -> Key<'a> {
    let encoding = payload.encoding.as_str();
    (
        kind,
        name,
        encoding,
        &payload.data,
        payload.metadata.as_deref(),
    )
}

/// The first of those that changed places, and the one whose recorded input it has now.
pub(super) fn permuted<'c, 'a>(
    changed: &'c [Changed<'a>],
) -> Option<(&'c Changed<'a>, &'c Changed<'a>)> {
    let graph = Graph::of(changed);
    let circle = graph.circle()?;
    let first = *circle.iter().min()?;
    let (_, to) = graph.edges[first];
    let other = circle.iter().find(|edge| graph.edges[**edge].0 == to)?;
    Some((&changed[first], &changed[*other]))
}

/// Inputs are nodes, changes are edges.
struct Graph {
    edges: Vec<(usize, usize)>,
    nodes: usize,
}

impl Graph {
    fn of(changed: &[Changed<'_>]) -> Self {
        let mut numbers = BTreeMap::new();
        let mut number = |key| {
            let next = numbers.len();
            *numbers.entry(key).or_insert(next)
        };
        let edges = changed
            .iter()
            .map(|changed| (number(changed.was), number(changed.is)))
            .collect();
        let nodes = numbers.len();
        Self { edges, nodes }
    }

    /// The edges of one circle, if there is one.
    fn circle(&self) -> Option<Vec<usize>> {
        let into = self.edges_behind_circles();
        let mut node = into
            .iter()
            .flatten()
            .map(|edge| self.edges[*edge].1)
            .next()?;
        // Against the arrows every step leads to a node that has one before it: into a circle.
        for _ in 0..self.nodes {
            node = self.edges[into[node]?].0;
        }
        let (begin, mut circle) = (node, Vec::new());
        loop {
            let edge = into[node]?;
            circle.push(edge);
            node = self.edges[edge].0;
            if node == begin {
                return Some(circle);
            }
        }
    }

    /// For every node one edge that leads to it from a circle, if one does: what can be reached
    /// without one is taken away, from its beginnings on.
    fn edges_behind_circles(&self) -> Vec<Option<usize>> {
        let mut leaving = vec![Vec::new(); self.nodes];
        let mut arriving = vec![0_usize; self.nodes];
        for (edge, (from, to)) in self.edges.iter().enumerate() {
            leaving[*from].push(edge);
            arriving[*to] += 1;
        }
        let mut is_left = vec![true; self.edges.len()];
        let mut free: Vec<usize> = (0..self.nodes).filter(|n| arriving[*n] == 0).collect();
        while let Some(node) = free.pop() {
            for edge in &leaving[node] {
                is_left[*edge] = false;
                let (_, to) = self.edges[*edge];
                arriving[to] -= 1;
                if arriving[to] == 0 {
                    free.push(to);
                }
            }
        }
        let mut into = vec![None; self.nodes];
        for (edge, (_, to)) in self.edges.iter().enumerate().rev() {
            if is_left[edge] {
                into[*to] = Some(edge);
            }
        }
        into
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circle(edges: &[(usize, usize)]) -> Option<Vec<usize>> {
        let graph = Graph {
            edges: edges.to_vec(),
            nodes: edges.iter().map(|(a, b)| a.max(b) + 1).max().unwrap_or(0),
        };
        graph.circle().map(|mut circle| {
            circle.sort_unstable();
            circle
        })
    }

    #[test]
    fn only_a_circle_is_a_permutation() {
        assert_eq!(circle(&[]), None);
        assert_eq!(circle(&[(0, 1)]), None);
        assert_eq!(circle(&[(0, 1), (1, 2), (2, 3)]), None);
        assert_eq!(circle(&[(0, 1), (0, 1), (2, 1)]), None);
        assert_eq!(circle(&[(0, 1), (1, 0)]), Some(vec![0, 1]));
        assert_eq!(circle(&[(0, 1), (1, 2), (2, 0)]), Some(vec![0, 1, 2]));
    }

    #[test]
    fn a_circle_is_found_among_other_changes() {
        let edges = [(9, 0), (0, 1), (1, 2), (2, 3), (3, 1), (3, 4), (4, 5)];
        assert_eq!(circle(&edges), Some(vec![2, 3, 4]));
    }
}
