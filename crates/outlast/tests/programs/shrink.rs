//! A failing program made small: whatever can be left out while it still fails is left out.

use super::ast::{Node, Program};

/// Programs tried at most.
const TRIES: usize = 3_000;

/// The smallest program found that still fails, and why it does.
pub fn shrink(
    program: &Program,
    why: String,
    fails: &dyn Fn(&Program) -> Option<String>,
) -> (Program, String) {
    let (mut smallest, mut why) = (program.clone(), why);
    let mut tries = 0;
    loop {
        let mut smaller = None;
        for candidate in candidates(&smallest) {
            tries += 1;
            if tries > TRIES {
                return (smallest, why);
            }
            if let Some(reason) = fails(&candidate) {
                smaller = Some((candidate, reason));
                break;
            }
        }
        match smaller {
            Some(found) => (smallest, why) = found,
            None => return (smallest, why),
        }
    }
}

/// All programs that are one step smaller, the boldest steps first.
fn candidates(program: &Program) -> Vec<Program> {
    let mut found = Vec::new();
    for number in 0..program.parts.len() {
        if program.parts.len() > 1 {
            let mut smaller = program.clone();
            smaller.parts.remove(number);
            found.push(smaller);
        }
        for part in lists(&program.parts[number]) {
            let mut smaller = program.clone();
            smaller.parts[number] = part;
            found.push(smaller);
        }
    }
    for half in [program.news.len() / 2, 0] {
        if half > 0 {
            let mut smaller = program.clone();
            smaller.news.truncate(half);
            found.push(smaller);
        }
    }
    for number in 0..program.news.len() {
        let mut smaller = program.clone();
        smaller.news.remove(number);
        found.push(smaller);
        if program.news[number].has_company {
            let mut smaller = program.clone();
            smaller.news[number].has_company = false;
            found.push(smaller);
        }
    }
    found
}

/// All lists of nodes that are one step smaller: a node less, a node replaced by what is in it,
/// or a node with less in it.
fn lists(nodes: &[Node]) -> Vec<Vec<Node>> {
    let mut found = Vec::new();
    for index in 0..nodes.len() {
        let mut smaller = nodes.to_vec();
        smaller.remove(index);
        found.push(smaller);
        if let Node::Regret(node, _) = &nodes[index] {
            let mut smaller = nodes.to_vec();
            smaller[index] = (**node).clone();
            found.push(smaller);
        }
        let Some(inner) = nodes[index].inner() else {
            continue;
        };
        let mut smaller = nodes.to_vec();
        smaller.splice(index..=index, inner.iter().cloned());
        found.push(smaller);
        for less in lists(inner) {
            let mut smaller = nodes.to_vec();
            if let Some(inner) = smaller[index].inner_mut() {
                *inner = less;
            }
            found.push(smaller);
        }
    }
    found
}
