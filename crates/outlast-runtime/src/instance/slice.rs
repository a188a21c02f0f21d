//! One slice of an instance: jobs are applied, woken tasks polled until nothing moves.
//!
//! Applying runs no user code: it fills cells and creates tasks of handlers. Only then do tasks
//! run, handlers of this activation first, the others in the order in which they were woken.
//! Signals that were buffered and have found a handler since start another round.

use outlast_model::job::SignalMessage;
use outlast_model::planted::{Bug, is_planted};
use outlast_model::{Activation, Command, Job, Payload, Resolution, Seq};

use super::{Instance, Phase};
use crate::cell::{Key, Kind};
use crate::executor::{Ended, Finished};
use crate::failure::{TaskFailure, Whence};
use crate::mailbox::Arrival;
use crate::program::SliceWatch;
use crate::scope::Cancel;
use crate::slab::{Entry, Presence};
use crate::wake::TaskId;

/// What applying jobs leaves to do before code runs.
#[derive(Default)]
struct Applied {
    /// Tasks of handlers that were created.
    handlers: Vec<TaskId>,
    /// Whether the run was asked to stop.
    is_cancelled: bool,
}

impl Instance {
    /// Marks the thread, and looks for foreign wakes on both sides of the work.
    pub(super) fn in_slice<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, TaskFailure>,
    ) -> Result<T, TaskFailure> {
        assert!(
            !crate::in_slice(),
            "a slice cannot run inside workflow code"
        );
        self.check_wakes()?;
        let _inside = Entry::new(self.shared.address, Presence::Runtime);
        self.shared.bell.slice_begins();
        let worked = work(self);
        self.shared.bell.slice_ends();
        let worked = worked?;
        self.check_wakes()?;
        Ok(worked)
    }

    pub(super) fn slice(
        &mut self,
        activation: &Activation,
        watch: &dyn SliceWatch,
    ) -> Result<Vec<Command>, TaskFailure> {
        if self.phase == Phase::Closed {
            return Err(TaskFailure::mismatch(
                "the code has ended the run, but it goes on".into(),
            ));
        }
        self.apply(&activation.jobs)?;
        self.run_to_rest(watch)?;
        if self.has_to_part() {
            self.part_from_main()?;
            // What main leaves behind may be waited for.
            self.run_to_rest(watch)?;
        }
        while self.undo_handlers()? {
            self.run_to_rest(watch)?;
        }
        self.settle()
    }

    /// Applies jobs in the order of their classes. No user code runs.
    fn apply(&mut self, jobs: &[Job]) -> Result<(), TaskFailure> {
        let mut applied = Applied::default();
        if jobs.is_sorted_by_key(Job::class) {
            jobs.iter()
                .try_for_each(|job| self.apply_one(job, &mut applied))?;
        } else {
            let mut sorted: Vec<&Job> = jobs.iter().collect();
            sorted.sort_by_key(|job| job.class());
            sorted
                .into_iter()
                .try_for_each(|job| self.apply_one(job, &mut applied))?;
        }
        // After all outcomes: what has ended is not cancelled, wherever the cancel stands.
        if applied.is_cancelled {
            self.shared.handler_scope.cancel(Cancel::Tell);
            self.shared.cancel_scope(&self.shared.main_scope);
        }
        // Handlers run before main, whatever woke main.
        if is_planted(Bug::HandlerReplayedLast) && self.shared.header.get().is_replaying {
            for id in applied.handlers {
                self.shared.push_ready(id);
            }
        } else {
            self.shared.push_ready_first(&applied.handlers);
        }
        Ok(())
    }

    fn apply_one(&mut self, job: &Job, applied: &mut Applied) -> Result<(), TaskFailure> {
        match job {
            // The instance exists: it was created for this job.
            Job::Initialize(_) => {}
            Job::Signal {
                name,
                input,
                headers,
            } => {
                let signal = SignalMessage {
                    name: name.clone(),
                    input: input.clone(),
                    headers: headers.clone(),
                };
                let arrival = self.shared.mailbox.borrow_mut().arrive(signal);
                self.arrived(arrival, applied)?;
            }
            Job::FireTimer { seq } => {
                let key = Key {
                    kind: Kind::Timer,
                    seq: *seq,
                };
                self.shared
                    .resolve(key, Resolution::Completed(Payload::null()))?;
            }
            Job::ResolveActivity { seq, resolution } => {
                let key = Key {
                    kind: Kind::Activity,
                    seq: *seq,
                };
                self.shared.resolve(key, resolution.clone())?;
            }
            Job::ResolveStep { seq, resolution } => {
                let key = Key {
                    kind: Kind::Step,
                    seq: *seq,
                };
                self.shared.resolve(key, resolution.clone())?;
            }
            Job::CancelWorkflow { .. } => applied.is_cancelled = true,
            Job::Update(job) => {
                let delivery = self.shared.mailbox.borrow_mut().arrive_update(job);
                if let Some(delivery) = delivery {
                    let id = self.executor.add_handler(&self.shared, delivery);
                    applied.handlers.push(id);
                }
            }
            Job::NotifyPatch { id } => self.shared.patches.borrow_mut().notify(id.clone()),
            Job::UpdateRandomSeed { seed } => self.shared.reseed(*seed),
            Job::ResolveChildStart { seq, result } => self.shared.child_started(*seq, *result)?,
            Job::ResolveChild { seq, resolution } => {
                self.shared.child_ended(*seq, resolution.clone())?;
            }
            Job::ResolveSignalExternal { seq, cause } => {
                self.shared.signal_arrived(*seq, *cause)?;
            }
            Job::ResolveCancelExternal { of, cause } => self.shared.cancel_arrived(*of, *cause)?,
        }
        Ok(())
    }

    /// Does what a signal calls for where it went.
    fn arrived(&mut self, arrival: Arrival, applied: &mut Applied) -> Result<(), TaskFailure> {
        match arrival {
            Arrival::Handle(delivery) => {
                applied
                    .handlers
                    .push(self.executor.add_handler(&self.shared, delivery));
            }
            Arrival::Settled(waiting) => {
                let kind = Kind::Promise;
                for (seq, resolution) in waiting {
                    self.shared.resolve(Key { kind, seq }, resolution)?;
                }
            }
            Arrival::Unreadable(error) => self
                .shared
                .warn_live(|| format!("nobody can say which promise was settled: {error}")),
            Arrival::Buffered(waiting) => {
                for seq in waiting {
                    self.look(seq);
                }
            }
        }
        Ok(())
    }

    /// A `recv` may have something to take.
    fn look(&self, seq: Seq) {
        let open = self.shared.open.borrow();
        let cell = open.get(Key {
            kind: Kind::Recv,
            seq,
        });
        let waker = cell.and_then(|cell| cell.waker.borrow_mut().take());
        drop(open);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Polls until nothing moves, testing conditions and delivering buffered signals that found
    /// a handler.
    fn run_to_rest(&mut self, watch: &dyn SliceWatch) -> Result<(), TaskFailure> {
        loop {
            while let Some(id) = self.shared.pop_ready() {
                self.poll(id, watch)?;
                self.check_wakes()?;
            }
            if self.shared.has_conditions_to_test() && self.test_conditions(watch)? {
                continue;
            }
            let deliveries = self.shared.mailbox.borrow_mut().deliverable();
            if deliveries.is_empty() {
                return Ok(());
            }
            for delivery in deliveries {
                let id = self.executor.add_handler(&self.shared, delivery);
                self.shared.push_ready(id);
            }
        }
    }

    /// Tests conditions until one ends its wait.
    fn test_conditions(&self, watch: &dyn SliceWatch) -> Result<bool, TaskFailure> {
        let main = self.executor.tasks.values().next();
        let last_call = main.and_then(|main| main.last_call.as_ref());
        watch.enter("the test of a condition", last_call)?;
        let has_moved = self.shared.test_conditions();
        self.shared.end_poll();
        Ok(has_moved)
    }

    fn poll(&mut self, id: TaskId, watch: &dyn SliceWatch) -> Result<(), TaskFailure> {
        // Main has returned: its branches are over, handlers may go on.
        if matches!(self.phase, Phase::Closing(_)) && self.executor.is_of_main(id) {
            return Ok(());
        }
        let finished = self.executor.poll(id, &self.shared, watch)?;
        if let Some(Finished { ended, name, scope }) = finished {
            match ended {
                Ended::Main(outcome) => return self.main_returned(outcome),
                Ended::Undo => self.undone(),
                Ended::Branch(result) => self.shared.branch_ended(&scope, &name, result),
                Ended::Handler(title, result) => {
                    if let Err(failure) = self.shared.handler_ended(&scope, result) {
                        self.shared
                            .warn_live(|| format!("{title} failed: {failure}"));
                    }
                }
            }
        }
        self.shared.end_poll();
        Ok(())
    }

    /// Something foreign woke a task: nothing it did since then can be repeated.
    fn check_wakes(&self) -> Result<(), TaskFailure> {
        let Some(id) = self.shared.bell.rung_for() else {
            return Ok(());
        };
        let gone = Whence {
            branch: "a branch that has ended",
            last_call: None,
        };
        let whence = self
            .executor
            .tasks
            .get(&id)
            .map_or(gone, |task| task.whence());
        Err(TaskFailure::foreign_wake(&whence))
    }
}
