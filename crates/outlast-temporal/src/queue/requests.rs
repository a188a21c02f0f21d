//! How many requests wait at a cluster, and where.
//!
//! A cluster keeps a queue in parts. A request waits at one of them; with fewer requests than
//! parts, a task in another part may wait until a request has lived its minute and comes again
//! elsewhere (docs/decisions/0018). And a cluster writes down every task that nobody waits for:
//! were there only as many requests for later tasks as for first ones, then a flood of starts
//! would pile up everywhere, not at the door only (docs/decisions/0019).

use outlast_worker::handle::QueueOptions;

/// The parts of a queue, unless a cluster was told otherwise: as many requests wait for first
/// tasks.
const PARTS: usize = 4;
/// Requests for what a run does next, and for activities.
const LATER: usize = 2 * PARTS;
/// The requests for workflow tasks that wait at the queue that all workers share, for first tasks;
/// the others wait at our own. A third, and a little: the core rounds down.
pub(super) const SHARED: f32 = 0.34;

/// Requests of one queue.
pub(super) struct Requests {
    /// For workflow tasks, first and later ones.
    pub(super) workflow: usize,
    /// For activities.
    pub(super) activity: usize,
}

impl Requests {
    /// As many as the settings say, and never too few.
    pub(super) fn of(options: &QueueOptions) -> Self {
        Self {
            workflow: options.workflow_pollers.max(PARTS + LATER),
            activity: options.activity_pollers.max(LATER),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First and later ones, as the core divides them.
    fn divided(requests: &Requests) -> (usize, usize) {
        let first = (requests.workflow as f32 * SHARED) as usize;
        (first, requests.workflow - first)
    }

    #[test]
    fn every_part_has_a_request_and_what_follows_has_twice_as_many() {
        let requests = Requests::of(&QueueOptions::new("q".into()));
        assert_eq!(divided(&requests), (PARTS, LATER));
        assert_eq!(requests.activity, LATER);
    }

    #[test]
    fn settings_raise_both_kinds() {
        for workflow_pollers in 12..500 {
            let requests = Requests::of(&QueueOptions {
                workflow_pollers,
                activity_pollers: workflow_pollers,
                ..QueueOptions::new("q".into())
            });
            let (first, later) = divided(&requests);
            assert!(first >= PARTS && later >= LATER, "{workflow_pollers}");
            assert_eq!(requests.activity, workflow_pollers);
        }
    }
}
