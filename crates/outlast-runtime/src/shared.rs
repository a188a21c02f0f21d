//! What all code of one instance shares: its identity, the activation it runs for, its state,
//! and the queues that lead back to the executor.
//!
//! Everything is behind cells, and no cell is borrowed while user code runs: code may call back
//! at any moment, from a destructor too. The rules for operations are in [`crate::table`].

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use outlast_model::event::{Site, Started};
use outlast_model::{Activation, ActivityOptions, Headers, Line, RunId, Timestamp, WorkflowId};

use crate::cell::{Key, OperationCell};
use crate::condition::Conditions;
use crate::guard::Reader;
use crate::intercept::Intercept;
use crate::mailbox::Mailbox;
use crate::patch::Patches;
use crate::program::{BranchFuture, ForeignWake};
use crate::question::Questions;
use crate::random::Random;
use crate::rules::Rules;
use crate::scope::{Node, Side};
use crate::slab::Address;
use crate::table::{Outgoing, Sequences};
use crate::undo::{Registry, Undo};
use crate::wake::{Bell, TaskId, TaskWaker};

/// A place in the source, as the compiler knows it.
pub(crate) type Place = &'static Location<'static>;

/// The place as it is recorded.
pub(crate) fn site(place: Place) -> Site {
    Site {
        file: place.file().into(),
        line: place.line(),
    }
}

/// What becomes of commands that code makes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commands {
    /// They are sent.
    On,
    /// The run has ended: they are dropped, with a warning that names them.
    Late,
    /// The instance is evicted: they never were.
    Off,
}

/// A branch that was spawned and waits to be taken into the executor.
pub(crate) struct Spawned {
    pub(crate) id: TaskId,
    pub(crate) future: BranchFuture,
    pub(crate) scope: Rc<Node>,
    pub(crate) waker: Arc<TaskWaker>,
    pub(crate) place: Place,
}

/// What an activation says besides its jobs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Header {
    pub(crate) now: Timestamp,
    pub(crate) is_replaying: bool,
    pub(crate) history_events: u64,
    pub(crate) suggest_continue_as_new: bool,
}

/// What all code of one instance shares.
pub(crate) struct Shared {
    pub(crate) address: Address,
    pub(crate) workflow_id: WorkflowId,
    pub(crate) run_id: RunId,
    /// What came with the start.
    pub(crate) headers: Headers,
    pub(crate) interceptors: RefCell<Option<Rc<dyn Intercept>>>,
    pub(crate) header: Cell<Header>,
    /// Made when it is first used: few runs ever draw a number.
    random: RefCell<Option<Random>>,
    pub(crate) bell: Arc<Bell>,

    pub(crate) commands: Cell<Commands>,
    pub(crate) outgoing: RefCell<Outgoing>,
    pub(crate) sequences: RefCell<Sequences>,
    /// Of the last activity that was asked for.
    pub(crate) last_options: RefCell<Option<outlast_model::Shared<ActivityOptions>>>,
    pub(crate) open: RefCell<Line<Key, Rc<OperationCell>>>,
    /// What it began under.
    pub(crate) rules: Rules,
    pub(crate) undo: RefCell<Vec<Undo>>,
    /// Calls that can be undone and that nobody waits for any more.
    pub(crate) registry: RefCell<Registry>,
    pub(crate) mailbox: RefCell<Mailbox>,
    pub(crate) questions: RefCell<Questions>,
    pub(crate) patches: RefCell<Patches>,

    pub(crate) main_scope: Rc<Node>,
    pub(crate) handler_scope: Rc<Node>,
    pub(crate) scope: RefCell<Rc<Node>>,
    scopes: Cell<u64>,
    /// Their handles were dropped in this poll.
    pub(crate) dropped_scopes: RefCell<Vec<Rc<Node>>>,

    /// Counts polls: options of an operation may change until the poll that made it ends.
    pub(crate) poll: Cell<u64>,
    pub(crate) last_call: Cell<Option<Place>>,
    /// The task that is being polled.
    pub(crate) polling: Cell<Option<TaskId>>,
    ready: RefCell<VecDeque<TaskId>>,
    pub(crate) spawned: RefCell<Vec<Spawned>>,
    tasks: Cell<u32>,

    pub(crate) state: RefCell<Option<Box<dyn Any>>>,
    /// What has borrowed the state, and where.
    pub(crate) borrowed: Cell<Option<(&'static str, Place)>>,
    /// How often state was written.
    pub(crate) writes: Cell<u64>,
    pub(crate) conditions: RefCell<Conditions>,
    waits: Cell<u64>,
    /// Who reads, while nothing may change.
    pub(crate) reader: Cell<Option<Reader>>,
    pub(crate) warnings: RefCell<Warnings>,
    /// Those that belong to the run and not to its replay.
    pub(crate) notes: RefCell<Warnings>,
    /// Replayed calls that are not the recorded ones.
    pub(crate) changes: RefCell<Changes>,
}

impl Shared {
    pub(crate) fn new(
        address: Address,
        started: &Started,
        rules: Rules,
        foreign: &ForeignWake,
    ) -> Self {
        let main_scope = Node::root(0, Side::Main);
        let handler_scope = Node::root(1, Side::Handlers);
        handler_scope.supervise_members();
        Self {
            address,
            workflow_id: started.workflow_id.clone(),
            run_id: started.run_id,
            headers: started.headers.clone(),
            interceptors: RefCell::new(None),
            header: Cell::default(),
            random: RefCell::new(None),
            bell: Arc::new(Bell::new(started.run_id, Arc::clone(foreign))),
            commands: Cell::new(Commands::On),
            outgoing: RefCell::default(),
            sequences: RefCell::default(),
            last_options: RefCell::default(),
            open: RefCell::default(),
            rules,
            undo: RefCell::default(),
            registry: RefCell::default(),
            mailbox: RefCell::default(),
            questions: RefCell::default(),
            patches: RefCell::default(),
            scope: RefCell::new(Rc::clone(&main_scope)),
            main_scope,
            handler_scope,
            scopes: Cell::new(2),
            dropped_scopes: RefCell::default(),
            poll: Cell::new(0),
            last_call: Cell::new(None),
            polling: Cell::new(None),
            ready: RefCell::default(),
            spawned: RefCell::default(),
            tasks: Cell::new(0),
            state: RefCell::new(None),
            borrowed: Cell::new(None),
            writes: Cell::new(0),
            conditions: RefCell::default(),
            waits: Cell::new(0),
            reader: Cell::new(None),
            warnings: RefCell::default(),
            notes: RefCell::default(),
            changes: RefCell::default(),
        }
    }

    /// Takes over what an activation says besides its jobs.
    pub(crate) fn begin(&self, activation: &Activation) {
        self.header.set(Header {
            now: activation.now,
            is_replaying: activation.is_replaying,
            history_events: activation.history_events,
            suggest_continue_as_new: activation.suggest_continue_as_new,
        });
    }

    /// Whether nothing has happened since the last slice.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.ready.borrow().is_empty() && self.outgoing.borrow().is_empty()
    }

    /// Draws from the generator of the run.
    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        let mut random = self.random.borrow_mut();
        draw(random.get_or_insert_with(|| Random::of_run(self.run_id)))
    }

    /// Random numbers are drawn anew: the run was reset.
    pub(crate) fn reseed(&self, seed: u64) {
        *self.random.borrow_mut() = Some(Random::seeded(seed));
    }

    /// Code of a task begins to run.
    pub(crate) fn begin_poll(&self, scope: &Rc<Node>) {
        self.poll.set(self.poll.get() + 1);
        self.last_call.set(None);
        *self.scope.borrow_mut() = Rc::clone(scope);
    }

    pub(crate) fn push_ready(&self, task: TaskId) {
        self.ready.borrow_mut().push_back(task);
    }

    /// Puts tasks ahead of all that are ready, keeping their order.
    pub(crate) fn push_ready_first(&self, tasks: &[TaskId]) {
        let mut ready = self.ready.borrow_mut();
        for task in tasks.iter().rev() {
            ready.push_front(*task);
        }
    }

    pub(crate) fn pop_ready(&self) -> Option<TaskId> {
        self.ready.borrow_mut().pop_front()
    }

    /// The number of the next task, and its waker, which counts as queued.
    pub(crate) fn new_task(&self) -> (TaskId, Arc<TaskWaker>) {
        let id = TaskId(self.tasks.replace(self.tasks.get() + 1));
        (
            id,
            TaskWaker::queued(self.address, id, Arc::clone(&self.bell)),
        )
    }

    /// A scope below the current one.
    pub(crate) fn child_scope(&self) -> Rc<Node> {
        Node::child(self.next_scope(), &self.scope.borrow())
    }

    /// The scope of a task that is spawned in this one.
    pub(crate) fn branch_scope(&self, around: &Rc<Node>) -> Rc<Node> {
        Node::branch(self.next_scope(), around)
    }

    /// A scope nothing reaches into.
    pub(crate) fn shield_scope(&self) -> Rc<Node> {
        Node::shield(self.next_scope(), &self.scope.borrow())
    }

    fn next_scope(&self) -> u64 {
        self.scopes.replace(self.scopes.get() + 1)
    }

    /// The number of the next wait.
    pub(crate) fn next_wait(&self) -> u64 {
        self.waits.replace(self.waits.get() + 1)
    }

    /// Something people should know.
    pub(crate) fn warn(&self, warning: impl FnOnce() -> String) {
        self.warnings.borrow_mut().push(warning);
    }

    /// Something people should know, unless they were told when it first happened.
    pub(crate) fn warn_live(&self, warning: impl FnOnce() -> String) {
        if !self.header.get().is_replaying {
            let warning = warning();
            self.notes.borrow_mut().push(|| warning.clone());
            self.warn(|| warning);
        }
    }
}

/// Calls that differ from what is recorded: how many, and the first. One note for all of them, the
/// same after every replay.
#[derive(Default)]
pub(crate) struct Changes {
    count: u64,
    first: Option<String>,
}

impl Changes {
    pub(crate) fn add(&mut self, difference: &str) {
        self.count += 1;
        self.first.get_or_insert_with(|| difference.to_owned());
    }

    pub(crate) fn into_note(self) -> Option<String> {
        let first = self.first?;
        Some(match self.count {
            1 => format!("a call is not the recorded one: {first}"),
            count => format!("{count} calls are not the recorded ones, first: {first}"),
        })
    }
}

/// What should be told, bounded: one change may differ from thousands of recorded calls.
#[derive(Default)]
pub(crate) struct Warnings {
    kept: Vec<String>,
    more: u64,
}

impl Warnings {
    const KEPT: usize = 64;

    fn push(&mut self, warning: impl FnOnce() -> String) {
        if self.kept.len() < Self::KEPT {
            self.kept.push(warning());
        } else {
            self.more += 1;
        }
    }

    /// Takes them all.
    pub(crate) fn drain(&mut self) -> Vec<String> {
        let more = std::mem::take(&mut self.more);
        let mut drained = std::mem::take(&mut self.kept);
        if more > 0 {
            drained.push(format!("and {more} more warnings of this run"));
        }
        drained
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_bounded_and_counted() {
        let mut warnings = Warnings::default();
        for n in 0..Warnings::KEPT + 3 {
            warnings.push(|| n.to_string());
        }
        let drained = warnings.drain();
        assert_eq!(drained.len(), Warnings::KEPT + 1);
        assert_eq!(
            drained.last().map(String::as_str),
            Some("and 3 more warnings of this run")
        );
        assert!(warnings.drain().is_empty());
    }
}
