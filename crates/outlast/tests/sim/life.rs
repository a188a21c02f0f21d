//! What a process goes through: slices on threads that may be replaced, commits that may fail,
//! crashes, clean stops, and zombies of earlier lives.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use outlast_model::event::TaskFailedCause;
use outlast_model::failure::type_name;
use outlast_model::id::{Attempt, Epoch, Incarnation, Seq};
use outlast_model::task::{AttemptKind, TaskAnswer, WorkflowTask};
use outlast_model::{Event, EventKind, Fact, Failure, Record, Refusal};
use outlast_runtime::Unwatched;
use outlast_service::batch::Batch;
use outlast_service::faulty::Fault;
use outlast_service::shard::{Driver, Turn};
use outlast_service::store::{Commit, CommitError, CommitNo, Expect, Store};
use outlast_worker::slices::Done;

use super::disk::fact;
use super::driver::Simulation;
use super::ledger::kind_of;
use super::process::{Process, Shape, Stuck};
use super::program::PANIC;

/// Slices.
impl Simulation {
    /// Workflow code gets its turn, on a good thread or on a bad one.
    pub fn slice(&mut self, task: WorkflowTask) {
        self.mark(&task);
        let jobs = task.activation.jobs.len();
        let has_history = task.history.is_some();
        self.trace(&format!(
            "slice of {} ({jobs} jobs, history {has_history})",
            task.workflow_id
        ));
        if !self.faults.threads {
            return self.answer(&task);
        }
        match self.rng.below(12) {
            0 => {
                self.go_slow(&task);
                self.meanwhile();
                self.answer(&task);
            }
            1 => {
                self.meanwhile();
                self.answer(&task);
            }
            2 => self.thread_is_replaced(task),
            _ => self.answer(&task),
        }
    }

    fn mark(&self, task: &WorkflowTask) {
        let desk = &self.desk;
        match &task.history {
            None if !task.queries.is_empty() => desk.hit("query.of-instance"),
            Some(_) if !task.queries.is_empty() => desk.hit("query.by-replay"),
            None => desk.hit("slice.fast"),
            Some(_) if task.activation.jobs.is_empty() => desk.hit("slice.rebuild"),
            Some(_) => desk.hit("slice.replayed"),
        }
        if self.lives > 0 {
            desk.hit("slice.first-after-crash");
        }
    }

    fn go_slow(&mut self, task: &WorkflowTask) {
        self.trace("the slice goes slow");
        self.desk.hit("slice.goes-slow");
        let now = self.now;
        self.process.shard.go_slow(task.token, now);
    }

    /// Mail arrives while the code runs, and time passes.
    fn meanwhile(&mut self) {
        self.desk.hit("slice.mail-meanwhile");
        for _ in 0..self.rng.below(4) {
            match self.rng.below(14) {
                0..=2 => self.signal(),
                8..=10 => {
                    self.deliver_post();
                }
                11 => self.update(),
                12 => self.query(),
                13 => self.terminate(),
                3 => self.deliver(),
                4 => self.cancel(),
                5 => self.start(),
                6 => self.now = self.now.after(Duration::from_secs(self.rng.below(30))),
                _ => {
                    self.process.take_batch();
                    self.commit_well();
                }
            }
        }
    }

    fn answer(&mut self, task: &WorkflowTask) {
        let Done { answer, evicted } = self.process.slices.run(task, &Unwatched);
        self.judge_answer(task, &answer);
        self.note_asked(task, &answer);
        let now = self.now;
        self.process
            .shard
            .complete(task.token, answer, Driver::Current, now);
        for run_id in evicted {
            self.desk.hit("instance.evicted");
            self.process.shard.evicted(run_id);
        }
    }

    /// Programs here are deterministic and only fail when they are made to.
    fn judge_answer(&mut self, task: &WorkflowTask, answer: &TaskAnswer) {
        if let TaskAnswer::Failed { cause, failure } = answer {
            self.trace(&format!("the slice fails: {failure}"));
            let is_injected = *cause == TaskFailedCause::WorkerUnhandledFailure
                && failure.message.starts_with(PANIC);
            let has_run = |history: &Vec<Event>| {
                let mut events = history.iter();
                events.any(|event| event.kind == EventKind::TaskCompleted)
            };
            // Code that never came to rest cannot be asked.
            let is_unasked =
                !task.queries.is_empty() && !task.history.as_ref().is_some_and(has_run);
            if is_injected {
                self.desk.hit("slice.panicked");
            } else if !is_unasked {
                self.desk.violation(format!("a slice failed: {failure}"));
            }
        }
    }

    /// The thread takes too long: another one drives the shard.
    fn thread_is_replaced(&mut self, task: WorkflowTask) {
        self.desk.hit("slice.taken-over");
        if self.rng.chance(80) {
            self.go_slow(&task);
        }
        self.trace("the thread is replaced");
        self.process.shard.taken_over();
        let spare = self.process.slices.spare();
        let slices = std::mem::replace(&mut self.process.slices, spare);
        let mut stuck = Stuck {
            task,
            slices,
            is_given_up: false,
        };
        if self.rng.chance(40) {
            self.give_up(&mut stuck);
        }
        self.process.stuck.push(stuck);
    }

    fn give_up(&mut self, stuck: &mut Stuck) {
        self.trace(&format!("given up: {}", stuck.task.workflow_id));
        self.desk.hit("slice.given-up");
        stuck.is_given_up = true;
        let (now, failure) = (
            self.now,
            Failure::application("sim.Stuck", "no end in sight"),
        );
        self.process.shard.give_up(stuck.task.token, failure, now);
    }

    /// A replaced thread comes back with its answer, or is given up.
    pub fn thread_returns(&mut self) {
        if self.process.stuck.is_empty() {
            return;
        }
        let index = self.rng.index(self.process.stuck.len());
        let mut stuck = self.process.stuck.remove(index);
        if !stuck.is_given_up && self.rng.chance(40) {
            self.give_up(&mut stuck);
            self.process.stuck.push(stuck);
            return;
        }
        self.comes_back(stuck);
    }

    pub fn all_threads_return(&mut self) {
        for stuck in std::mem::take(&mut self.process.stuck) {
            self.comes_back(stuck);
        }
    }

    fn comes_back(&mut self, mut stuck: Stuck) {
        if stuck.is_given_up {
            self.desk.hit("slice.back-after-given-up");
        }
        self.trace(&format!("a thread comes back: {}", stuck.task.workflow_id));
        let done = stuck.slices.run(&stuck.task, &Unwatched);
        self.judge_answer(&stuck.task, &done.answer);
        self.note_asked(&stuck.task, &done.answer);
        let now = self.now;
        self.process
            .shard
            .complete(stuck.task.token, done.answer, Driver::Replaced, now);
    }
}

/// Commits.
impl Simulation {
    pub fn take_batch(&mut self) {
        if self.process.take_batch() {
            self.trace("a batch leaves the shard");
        }
        if self.process.parcels.len() > 1 {
            self.desk.hit("commit.in-flight-two");
        }
    }

    /// The oldest batches reach the disk, unless they do not.
    pub fn commit(&mut self) {
        if self.process.parcels.is_empty() {
            self.process.take_batch();
        }
        if self.process.parcels.is_empty() {
            return;
        }
        let (crashes, store) = (self.faults.crashes, self.faults.store);
        match self.rng.below(40) {
            0 if crashes => self.crash_before_commit(),
            1 if crashes => self.crash_after_commit(),
            2 if store => self.store_is_full(),
            3 if store => self.store_fails(false),
            4 if store => self.store_fails(true),
            _ => self.commit_well(),
        }
    }

    pub fn commit_well(&mut self) {
        let count = if self.rng.chance(40) { usize::MAX } else { 1 };
        let Some((group, batches)) = self.next_group(count) else {
            return;
        };
        self.trace(&format!("commit of {}", group.len()));
        if self.write(&group).is_ok() {
            self.release(&group, batches);
        }
    }

    fn next_group(&mut self, count: usize) -> Option<(Vec<Commit>, Vec<Batch>)> {
        let count = count.min(self.process.parcels.len());
        let mut batches: Vec<Batch> = self.process.parcels.drain(..count).collect();
        if batches.is_empty() {
            return None;
        }
        if count > 1 {
            self.desk.hit("commit.group");
        }
        let mut group = Vec::new();
        for batch in &mut batches {
            group.append(&mut batch.commits);
        }
        Some((group, batches))
    }

    fn write(&mut self, group: &[Commit]) -> Result<(), CommitError> {
        if group.is_empty() {
            return Ok(());
        }
        self.judge_order(group);
        self.judge_taken(group);
        let going = self.disk.going(group);
        let written = self.process.store.commit(group);
        match &written {
            Ok(()) => {
                self.disk.gone(going);
                self.after_write(group);
            }
            Err(error) => self
                .desk
                .violation(format!("a good commit failed: {error}")),
        }
        written
    }

    /// Heads, epochs and events of a run never go back.
    fn judge_order(&self, group: &[Commit]) {
        for commit in group {
            let before = self.disk.store.find_run(commit.row.run_id).ok().flatten();
            let Some(before) = before else { continue };
            let (old, new) = (before.state, commit.row.state);
            if new.head <= old.head || new.epoch < old.epoch || new.events < old.events {
                self.desk
                    .violation(format!("{new:?} goes back behind {old:?}"));
            }
        }
    }

    fn after_write(&mut self, group: &[Commit]) {
        if group.iter().any(|commit| commit.snapshot.is_some()) {
            self.desk.hit("commit.snapshot");
        }
        if group.iter().any(|commit| !commit.replaces.is_empty()) {
            self.desk.hit("commit.replaces");
        }
        self.judge_losses(group);
        if group.iter().any(has_several_tasks) {
            self.desk.hit("commit.gathered");
        }
        for commit in group.iter().filter(|c| c.expect == Expect::New) {
            let rows = self.disk.runs_of(&commit.row.workflow_id);
            let open = rows.iter().filter(|row| row.state.status.is_open());
            if open.count() > 1 {
                let id = &commit.row.workflow_id;
                self.desk.violation(format!("{id} has two open runs"));
            }
        }
    }

    /// No attempt is lost while its process lives, whatever becomes of the store.
    fn judge_losses(&self, group: &[Commit]) {
        for commit in group {
            let lost = self.disk.with_records(commit.row.no, lost_attempts);
            for (seq, attempt, incarnation) in lost {
                if incarnation.0 >> 64 == self.process.incarnation.0 >> 64 {
                    let id = &commit.row.workflow_id;
                    let text = format!("{id}: attempt {attempt} of {seq} was lost, and it runs");
                    self.desk.violation(text);
                }
            }
        }
    }

    fn release(&mut self, group: &[Commit], batches: Vec<Batch>) {
        if let Some(last) = group.last() {
            let durable = self.process.shard.durable();
            durable.fetch_max(last.id.0, Ordering::AcqRel);
        }
        for batch in batches {
            self.process.release(batch);
        }
        self.judge_steps();
    }

    /// A step that begins must find its code, unless it is told to stop at once, or its run has
    /// ended ahead of the disk.
    fn judge_steps(&mut self) {
        let running = self.world.running();
        for begun in self.world.take_fresh() {
            let token = begun.token;
            let has_code = self
                .process
                .slices
                .step_code(begun.run_id, token.seq)
                .is_some();
            let audit = self.process.shard.audit(token.run);
            let is_open = audit.is_some_and(|audit| audit.row.state.status.is_open());
            let now = running.iter().find(|running| running.token == token);
            let is_told = now.is_none_or(|running| running.stop.is_some());
            if token.kind == AttemptKind::Step && !has_code && is_open && !is_told {
                self.desk
                    .violation(format!("{token:?} began without its code"));
            }
        }
    }

    /// There is room for some of what is to be written, or for nothing.
    fn store_is_full(&mut self) {
        self.trace("the store is full");
        self.desk.hit("store.full");
        let Some(batch) = self.process.parcels.pop_front() else {
            return;
        };
        let (pieces, rest) = batch.pieces();
        let fits = if self.rng.chance(50) { 0 } else { 50 };
        let (mut good, mut void) = (Vec::new(), Vec::new());
        for mut piece in pieces {
            if self.rng.chance(fits) {
                let commits = std::mem::take(&mut piece.commits);
                if self.write(&commits).is_ok() {
                    self.desk.hit("store.full-for-some");
                    good.push((commits, piece));
                }
            } else {
                self.has_no_room(&piece);
                void.push(piece);
            }
        }
        self.roll_back(void, rest);
        for (commits, piece) in good {
            self.release(&commits, vec![piece]);
        }
    }

    fn has_no_room(&self, piece: &Batch) {
        let calls = self.process.store.calls();
        self.process.store.fail_at(calls + 1, Fault::Full);
        let error = self.process.store.commit(&piece.commits);
        if error != Err(CommitError::Full) {
            self.desk.violation(format!("a full store said {error:?}"));
        }
    }

    /// As the service does with what was not written.
    fn roll_back(&mut self, void: Vec<Batch>, rest: Batch) {
        self.desk.lock().is_store_full = true;
        let behind = [rest].into_iter().chain(self.process.parcels.drain(..));
        let left = self.process.shard.roll_back(
            void,
            behind.collect(),
            &Refusal::StoreFull,
            &self.process.store,
        );
        self.process.parcels = left.expect("memory can be read").into();
    }

    /// There may be room again.
    pub fn room_again(&mut self, count: usize) {
        if self.process.shard.is_short() {
            self.trace("there may be room");
            self.desk.hit("store.room-again");
            self.process.shard.resume(count);
        }
    }

    fn store_fails(&mut self, is_written: bool) {
        self.trace(&format!("the store fails, written: {is_written}"));
        let Some(batch) = self.process.parcels.pop_front() else {
            return;
        };
        if is_written {
            self.desk.hit("store.failed-but-written");
            drop(self.write(&batch.commits));
        } else {
            self.desk.hit("store.failed-not-written");
        }
        let refusal = Refusal::Indeterminate {
            reason: "sim".into(),
        };
        self.desk.lock().is_store_failing = true;
        let mut void = vec![batch];
        void.extend(self.process.parcels.drain(..));
        self.process.shard.cut_off(void, &refusal);
        while self.rng.chance(30) {
            self.while_away();
        }
        self.start_over();
    }

    /// Nothing is decided while the store cannot be used, and the world goes on.
    fn while_away(&mut self) {
        self.desk.hit("store.away");
        match self.rng.below(8) {
            0 => self.start(),
            1 => self.signal(),
            2 => self.update(),
            3 => self.query(),
            4 => self.wait(),
            5 => self.thread_returns(),
            6 => {
                self.one_turn();
            }
            _ => self.deliver(),
        }
        if self.process.take_batch() {
            self.desk.violation("something was decided without a store");
        }
    }

    /// As the service does when the store is open again.
    fn start_over(&mut self) {
        let boot = self.process.store.reopen().expect("memory reopens");
        let posts = boot.posts.clone();
        self.process.shard.start_over(boot, &self.process.store);
        let generation = self.process.shard.generation();
        self.process.ways.read_back(&posts, generation);
        // A store that failed is trusted again; a later refusal needs a later failure.
        self.desk.lock().is_store_failing = false;
    }
}

/// Attempts that were given up as lost with their process, and whose process that was.
fn lost_attempts(records: &[Record]) -> Vec<(Seq, Attempt, Incarnation)> {
    let mut running: BTreeMap<(AttemptKind, Seq), (Attempt, Incarnation)> = BTreeMap::new();
    let mut lost = Vec::new();
    for record in records.iter().filter_map(fact) {
        let (kind, seq, failure) = match record {
            Fact::AttemptStarted {
                seq,
                attempt,
                incarnation,
                ..
            } => {
                running.insert((AttemptKind::Activity, *seq), (*attempt, *incarnation));
                continue;
            }
            Fact::StepStarted {
                seq,
                attempt,
                incarnation,
            } => {
                running.insert((AttemptKind::Step, *seq), (*attempt, *incarnation));
                continue;
            }
            Fact::AttemptFailed { seq, failure, .. } => (AttemptKind::Activity, *seq, failure),
            Fact::StepFailed { seq, failure, .. } => (AttemptKind::Step, *seq, failure),
            _ => continue,
        };
        let is_lost = failure.type_name() == Some(type_name::WORKER_LOST);
        if let Some((attempt, incarnation)) = running.remove(&(kind, seq)).filter(|_| is_lost) {
            lost.push((seq, attempt, incarnation));
        }
    }
    lost
}

/// Whether outcomes that came in parts went into one commit.
fn has_several_tasks(commit: &Commit) -> bool {
    let records = outlast_model::record::decode(&commit.blob).unwrap_or_default();
    let kinds = records.iter().filter_map(kind_of);
    kinds
        .filter(|kind| **kind == EventKind::TaskCompleted)
        .count()
        > 1
}

/// Ends and beginnings.
impl Simulation {
    pub fn crash_some(&mut self) {
        if !self.faults.crashes {
            return;
        }
        match self.rng.below(10) {
            0 | 1 => return self.stop_cleanly(),
            2 => return self.crash_in_slices(),
            _ => {}
        }
        self.desk.hit("crash.between-commits");
        self.crash();
    }

    /// The process dies in the first slice it runs, and so does the next one.
    fn crash_in_slices(&mut self) {
        for _ in 0..self.rng.range(2, 7) {
            for _ in 0..6 {
                let now = self.now;
                let turn = self.process.shard.next(now, &self.process.store);
                if matches!(turn, Some(Turn::Task(_))) {
                    break;
                }
                self.process.take_batch();
                self.commit_well();
            }
            self.crash();
        }
    }

    fn crash_before_commit(&mut self) {
        self.desk.hit("crash.before-commit");
        let Some((group, _)) = self.next_group(usize::MAX) else {
            return;
        };
        let calls = self.process.store.calls();
        self.process.store.fail_at(calls + 1, Fault::Before);
        drop(self.process.store.commit(&group));
        self.crash();
    }

    /// The commit is durable, and nobody hears of it.
    fn crash_after_commit(&mut self) {
        self.desk.hit("crash.after-commit");
        let Some((group, _)) = self.next_group(1) else {
            return;
        };
        drop(self.write(&group));
        self.crash();
    }

    fn crash(&mut self) {
        self.trace("crash");
        self.desk.hang_up();
        let rng = &mut self.rng;
        // Some attempts of the dead process go on for a while and report to the next one.
        self.world.retain(|_| rng.chance(50));
        self.begin_life();
    }

    /// Everything decided is written, the store is closed in order; what runs is left behind.
    fn stop_cleanly(&mut self) {
        self.trace("clean stop");
        self.desk.hit("stop.clean");
        self.all_threads_return();
        while self.process.take_batch() || !self.process.parcels.is_empty() {
            self.commit_well();
        }
        self.world.retain(|_| false);
        self.end_in_order();
    }

    /// The store is closed, and the next process begins.
    pub fn end_in_order(&mut self) {
        self.process.store.close().expect("memory closes");
        self.desk.hang_up();
        self.begin_life();
    }

    fn begin_life(&mut self) {
        self.lives += 1;
        let mut shape = Shape::random(&mut self.rng);
        if self.faults.types && self.rng.chance(40) {
            shape.has_flow = self.rng.chance(50);
            shape.has_rare = self.rng.chance(50);
            self.desk.hit("type.missing");
        }
        self.boot(shape);
    }

    fn boot(&mut self, shape: Shape) {
        let mut ledger = self.desk.lock();
        ledger.is_store_failing = false;
        ledger.is_store_full = false;
        ledger.is_type_missing = !shape.has_flow;
        drop(ledger);
        self.trace(&format!("life {} {shape:?}", self.lives));
        self.process = Process::boot(self.lives, shape, &self.disk, &self.world);
    }

    /// The last build has everything.
    pub fn register_everything(&mut self) {
        let shape = self.process.shape;
        if shape.has_flow && shape.has_rare {
            return;
        }
        self.desk.hang_up();
        self.lives += 1;
        self.boot(Shape {
            has_flow: true,
            has_rare: true,
            ..shape
        });
    }

    /// A process that was shut out tries to write: with an old epoch, or an old version.
    pub fn zombie_commit(&mut self) {
        if !self.faults.zombies {
            return;
        }
        let rows = self.disk.rows();
        if rows.is_empty() {
            return;
        }
        let mut row = rows[self.rng.index(rows.len())].clone();
        let state = row.state;
        let expect = match state.epoch {
            Epoch(0) => Expect::At(state.version, Epoch(1)),
            Epoch(epoch) => Expect::At(state.version, Epoch(epoch - 1)),
        };
        row.state.version.0 += 1;
        let zombie = Commit {
            id: CommitNo(u64::MAX - u64::from(self.lives)),
            prev: state.head,
            expect,
            row,
            blob: outlast_model::record::encode(&[]),
            snapshot: None,
            posts: Vec::new(),
            taken: Vec::new(),
            is_joined: false,
            replaces: Vec::new(),
        };
        match self.disk.store.commit(&[zombie]) {
            Err(CommitError::Conflict { .. }) => self.desk.hit("commit.zombie-refused"),
            other => self.desk.violation(format!("a zombie's commit: {other:?}")),
        }
    }
}
