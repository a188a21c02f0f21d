//! A shard: the runs of a part of all workflow ids, their mailboxes and their clocks.
//!
//! Plain data without threads or I/O of its own: an engine thread drives it, and so does the
//! simulator. One turn goes: mail arrives (`intake`), a run is visited (`visit`: loaded, its
//! stimuli applied), its code gets a slice (`slice`), the answer is applied, and all of it is
//! sealed (`seal`) into a commit of the current batch. Nothing leaves before the batch is durable.
//!
//! In memory it is ahead of the disk: the next slice of a run may run on state that is still
//! being written. A commit that is not written throws its runs back to what is on disk
//! (`rollback`); a store that failed, all of them (`restart`).

mod attempt;
mod compare;
mod damaged;
mod gather;
mod intake;
mod late;
mod missing;
mod post;
mod query;
mod recover;
mod restart;
mod rollback;
mod seal;
mod slice;
mod slot;
mod successor;
mod update;
mod visit;
mod wait;

pub use rollback::Unread;
pub use slice::Driver;
pub(crate) use update::known as known_update;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use outlast_engine::request::Window;
use outlast_engine::{Effect, Run};
use outlast_model::id::{Incarnation, RunId, Seq, WorkflowId};
use outlast_model::post::{Post, PostNo};
use outlast_model::task::{RunNo, WorkflowTask};
use outlast_model::{Record, Timestamp, planted};

use crate::batch::Batch;
use crate::clock::Lull;
use crate::entry::{Arming, Entry, Letter};
use crate::meter::ShardMeter;
use crate::out::Out;
use crate::outlet::{Capabilities, Outlet};
use crate::store::{Attention, Boot, CommitNo, RunRow, Store};
use crate::sync::AtomicU64;
use crate::waiting::Waiting;

/// Counters that all shards of a store share.
#[derive(Debug, Default)]
pub struct Numbers {
    run: AtomicU64,
    commit: AtomicU64,
    post: AtomicU64,
    /// Runs whose code waits for a slot, in all shards.
    starved: AtomicU64,
}

impl Numbers {
    /// Counting on from the highest numbers in use.
    pub fn after(boot: &Boot) -> Self {
        Self {
            run: AtomicU64::new(boot.last_run.0),
            commit: AtomicU64::new(boot.last_commit.0),
            post: AtomicU64::new(boot.last_post.0),
            starved: AtomicU64::new(0),
        }
    }

    /// Whether somebody, in any shard, waits for the slot of a slice.
    pub(crate) fn is_starving(&self) -> bool {
        self.starved.load(Ordering::SeqCst) > 0
    }

    /// Counting on from the highest numbers in use, if those are higher.
    fn raise(&self, boot: &Boot) {
        self.run.fetch_max(boot.last_run.0, Ordering::Relaxed);
        self.commit.fetch_max(boot.last_commit.0, Ordering::Relaxed);
        self.post.fetch_max(boot.last_post.0, Ordering::Relaxed);
    }

    fn next_post(&self) -> PostNo {
        PostNo(self.post.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn next_run(&self) -> RunNo {
        RunNo(self.run.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn next_commit(&self) -> CommitNo {
        CommitNo(self.commit.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// What an engine thread does next.
#[derive(Debug)]
pub enum Turn {
    /// Run a slice.
    Task(Box<WorkflowTask>),
    /// Forget an instance.
    Evict(RunId),
}

/// What a shard is made with.
#[derive(Clone)]
pub struct Parts {
    /// Which shard.
    pub index: u32,
    /// This process.
    pub incarnation: Incarnation,
    /// What can be run here.
    pub capabilities: Arc<Capabilities>,
    /// Where effects go.
    pub outlet: Arc<dyn Outlet>,
    /// Shared counters.
    pub numbers: Arc<Numbers>,
    /// Commits of a run from one snapshot to the next.
    pub snapshot_every: u64,
    /// Requests that a run remembers.
    pub window: Window,
    /// Attempts that must be out for what nobody waits for to wait for more of its kind.
    pub gather_from: usize,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts")
            .field("incarnation", &self.incarnation)
            .finish_non_exhaustive()
    }
}

/// A run as a shard has it in memory, for an auditor.
#[derive(Debug)]
pub struct Audit<'a> {
    /// Its row, ahead of the disk by the commits in flight.
    pub row: &'a RunRow,
    /// Its state, if it is loaded.
    pub run: Option<&'a Run>,
    /// Whether everything decided is in a commit, so that row and state say the same.
    pub is_sealed: bool,
    /// Why it was set aside, if it was.
    pub damage: Option<&'a str>,
}

type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// The runs of a part of all workflow ids.
#[derive(Debug)]
pub struct Shard {
    parts: Parts,
    /// The newest commit of this shard that is durable.
    durable: Arc<AtomicU64>,
    runs: Map<RunNo, Box<Entry>>,
    open_ids: Map<WorkflowId, RunNo>,
    by_run_id: Map<RunId, RunNo>,
    ready: VecDeque<RunNo>,
    wakes: BTreeSet<(Timestamp, RunNo)>,
    /// Attempts that wait for a slot.
    waiting: Waiting<(RunNo, Seq)>,
    /// Runs whose code waits for a slot.
    starved: Waiting<RunNo>,
    /// When slots that were refused for a time are asked for again.
    slots_again: Option<Timestamp>,
    /// Whether a slice gave a slot back since somebody looked.
    has_freed: bool,
    batch: Batch,
    /// Runs whose decision is not sealed, since nobody waits for it.
    open_decisions: Vec<RunNo>,
    /// Attempts that got a slot and wait for no commit.
    free_effects: Vec<Effect>,
    /// Room for records, of decisions that were sealed.
    rooms: Vec<Vec<Record>>,
    /// The same for causes.
    cause_rooms: Vec<Vec<Letter>>,
    evictions: VecDeque<RunId>,
    /// Runs that have ended, until that is durable.
    closing: VecDeque<(CommitNo, RunNo)>,
    /// Runs whose state leaves memory when it is durable.
    leaving: VecDeque<(CommitNo, RunNo)>,
    /// Runs that go on when their newest commit is durable.
    deferred: Vec<(CommitNo, RunNo)>,
    /// Posts that wait for a store that can be read, and those that must not overtake them.
    postponed: VecDeque<(Timestamp, PostNo, Box<Post>)>,
    /// Updates that are asked for again, of runs that went on as new ones.
    asked_again: Vec<update::AskedAgain>,
    /// Questions about runs that have ended.
    closed_queries: query::ClosedQueries,
    /// Runs that may have killed the process: one at a time.
    suspects: VecDeque<RunNo>,
    suspect: Option<RunNo>,
    turn: u64,
    /// Attempts that were handed out and have not come back.
    out: Out,
    waiters: usize,
    /// Runs that were thrown back for want of room, and try again when there may be some.
    short: VecDeque<RunNo>,
    /// The store cannot be used: nothing is decided.
    away: Option<Box<restart::Away>>,
    /// Counts how often it started over: batches of an earlier life are void.
    generation: u64,
    meter: Arc<ShardMeter>,
    /// What comes in is kept, nothing goes out: no slice, no attempt.
    is_draining: bool,
}

impl Shard {
    /// A shard with these open runs, of a store that was opened like this.
    pub fn new(parts: Parts, open: Vec<RunRow>, boot: &Boot) -> Self {
        let meter = Arc::new(ShardMeter::new(&parts.capabilities));
        let mut shard = Self {
            parts,
            durable: Arc::new(AtomicU64::new(boot.last_commit.0)),
            runs: Map::default(),
            open_ids: Map::default(),
            by_run_id: Map::default(),
            ready: VecDeque::new(),
            wakes: BTreeSet::new(),
            waiting: Waiting::default(),
            starved: Waiting::default(),
            slots_again: None,
            has_freed: false,
            batch: Batch::default(),
            open_decisions: Vec::new(),
            free_effects: Vec::new(),
            rooms: Vec::new(),
            cause_rooms: Vec::new(),
            evictions: VecDeque::new(),
            closing: VecDeque::new(),
            leaving: VecDeque::new(),
            deferred: Vec::new(),
            postponed: VecDeque::new(),
            asked_again: Vec::new(),
            closed_queries: query::ClosedQueries::default(),
            suspects: VecDeque::new(),
            suspect: None,
            turn: 0,
            out: Out::default(),
            waiters: 0,
            short: VecDeque::new(),
            away: None,
            generation: 0,
            meter,
            is_draining: false,
        };
        let arming = if boot.was_clean {
            Arming::Unneeded
        } else {
            Arming::Needed
        };
        shard.settle_in(open, arming);
        shard
    }

    fn settle_in(&mut self, open: Vec<RunRow>, arming: Arming) {
        for row in open {
            let no = row.no;
            self.open_ids.insert(row.workflow_id.clone(), no);
            self.by_run_id.insert(row.run_id, no);
            let (wake, attention) = (row.state.wake, row.state.attention);
            let mut entry = Box::new(Entry::new(row));
            entry.arming = arming;
            self.arm(&mut entry, wake);
            if !attention.is_none() {
                self.enqueue(&mut entry);
            }
            self.runs.insert(no, entry);
        }
    }

    /// Says how far the disk is: stored by whoever commits.
    pub fn durable(&self) -> Arc<AtomicU64> {
        self.durable.clone()
    }

    /// From here on it keeps what comes in and hands nothing out: the process goes down.
    pub fn drain(&mut self) {
        self.is_draining = true;
        // What was thrown back has this one chance more.
        self.resume(usize::MAX);
    }

    /// The next thing for an engine thread to do, if there is any.
    pub fn next(&mut self, now: Timestamp, store: &dyn Store) -> Option<Turn> {
        if self.away.is_some() {
            return self.evictions.pop_front().map(Turn::Evict);
        }
        self.settle();
        self.say_early(now, store);
        self.slots_again.take_if(|at| *at <= now);
        self.feed_slots(now);
        self.feed_starved(now);
        self.wake_due(now);
        self.retry_posts(now, store);
        loop {
            if let Some(run_id) = self.evictions.pop_front() {
                return Some(Turn::Evict(run_id));
            }
            let is_their_turn = !self.closed_queries.had_turn || self.ready.is_empty();
            if is_their_turn
                && !self.is_draining
                && let Some(task) = self.ask_closed(now, store)
            {
                self.closed_queries.had_turn = true;
                return Some(Turn::Task(Box::new(task)));
            }
            self.answer_earlier(store);
            let no = self.ready.pop_front()?;
            if let Some(task) = self.visit(no, now, store) {
                self.closed_queries.had_turn = false;
                return Some(Turn::Task(Box::new(task)));
            }
        }
    }

    /// Everything decided so far, to be committed.
    pub fn take_batch(&mut self) -> Option<Batch> {
        self.seal_open();
        if self.batch.is_empty() {
            return None;
        }
        let next = Batch::like(&self.batch);
        let mut batch = std::mem::replace(&mut self.batch, next);
        batch.generation = self.generation;
        Some(batch)
    }

    /// Whether what was decided so far is to be written, and nobody waits for it.
    pub fn is_quiet(&self) -> bool {
        let is_quiet = if self.open_decisions.is_empty() {
            self.batch.is_quiet()
        } else {
            !self.batch.is_awaited() && !self.is_awaited()
        };
        is_quiet && !self.is_waiting_for_disk()
    }

    /// How often it started over.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Commits that wait to be handed over.
    pub fn batched(&self) -> usize {
        self.batch.commits.len() + self.open_decisions.len()
    }

    /// Whether somebody waits for a commit to become durable.
    pub fn is_waiting_for_disk(&self) -> bool {
        !self.deferred.is_empty() || self.closed_queries.waits_for_disk()
    }

    /// Attempts that were handed out and have not come back.
    pub fn attempts_out(&self) -> usize {
        self.out.len()
    }

    /// What the clock needs to know when there is nothing to do.
    pub fn lull(&self) -> Lull {
        let wake = self.wakes.first().map(|(time, _)| *time);
        let post = self.postponed.front().map(|(time, ..)| *time);
        let post = post.filter(|time| *time != rollback::HELD);
        let dues = [wake, post, self.slots_again].into_iter().flatten();
        let due = dues.min();
        // Attempts that are not handed out any more need time too: while it drains nobody waits for
        // what comes after them.
        let waiters = if self.is_draining { 0 } else { self.waiters };
        // What waits for room or for the store goes on by itself: time does not pass for that.
        let is_held = self.is_short() || self.away.is_some();
        Lull {
            due,
            attempts_out: self.out.len() + usize::from(is_held),
            waiters,
            is_writing: false,
        }
    }

    /// What it counts.
    pub fn meter(&self) -> Arc<ShardMeter> {
        self.meter.clone()
    }

    /// Attempts that wait for a slot.
    pub fn waiting_attempts(&self) -> usize {
        self.waiting.len()
    }

    /// Open runs it holds.
    pub fn open_runs(&self) -> usize {
        self.open_ids.len()
    }

    /// The store numbers of the runs it holds, for an auditor.
    pub fn numbers(&self) -> Vec<RunNo> {
        let mut all: Vec<RunNo> = self.runs.keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// What it knows of one run, for an auditor.
    pub fn audit(&self, no: RunNo) -> Option<Audit<'_>> {
        self.runs.get(&no).map(|entry| Audit {
            row: &entry.row,
            run: entry.run.as_ref(),
            is_sealed: entry.slice.is_none()
                && entry.decision.records.is_empty()
                && entry.lazy.is_empty(),
            damage: entry.damage.as_deref(),
        })
    }

    /// The instance of this run is no longer in the worker's memory.
    pub fn evicted(&mut self, run_id: RunId) {
        let Some(no) = self.by_run_id.get(&run_id).copied() else {
            return;
        };
        let Some(entry) = self.runs.get_mut(&no) else {
            return;
        };
        entry.is_cached = false;
        self.unload(no);
    }

    /// Another thread drives the shard: no instance but that of a slice under way is left.
    pub fn taken_over(&mut self) {
        let all = self.numbers();
        for no in all {
            if let Some(entry) = self.runs.get_mut(&no) {
                entry.is_cached = false;
            }
            self.unload(no);
        }
    }

    /// The state of a run leaves memory, not before the disk has all of it: until then only
    /// memory can say who started it, or end it.
    fn unload(&mut self, no: RunNo) {
        let durable = self.durable_no();
        let Some(entry) = self.runs.get_mut(&no) else {
            return;
        };
        if !entry.is_idle() {
            return;
        }
        let head = entry.row.state.head;
        if head <= durable {
            entry.run = None;
            entry.layers.clear();
        } else {
            self.leaving.push_back((head, no));
        }
    }

    /// What became durable since the last look: ended runs leave, deferred ones go on.
    fn settle(&mut self) {
        let durable = self.durable_no();
        while let Some((commit, no)) = self.closing.front().copied() {
            if commit > durable {
                break;
            }
            self.closing.pop_front();
            self.forget(no);
        }
        while let Some((commit, no)) = self.leaving.front().copied() {
            if commit > durable {
                break;
            }
            self.leaving.pop_front();
            self.unload(no);
        }
        let mut index = 0;
        while index < self.deferred.len() {
            let (commit, no) = self.deferred[index];
            if commit > durable {
                index += 1;
                continue;
            }
            self.deferred.swap_remove(index);
            self.enqueue_no(no);
        }
    }

    fn forget(&mut self, no: RunNo) {
        let Some(entry) = self.runs.remove(&no) else {
            return;
        };
        if self.by_run_id.get(&entry.row.run_id) == Some(&no) {
            self.by_run_id.remove(&entry.row.run_id);
        }
        self.refuse_mail(*entry);
    }

    fn wake_due(&mut self, now: Timestamp) {
        while let Some((time, no)) = self.wakes.first().copied() {
            if time > now {
                return;
            }
            self.wakes.pop_first();
            if let Some(entry) = self.runs.get_mut(&no) {
                entry.armed_wake = None;
            }
            self.enqueue_no(no);
        }
    }

    fn arm(&mut self, entry: &mut Entry, wake: Option<Timestamp>) {
        if entry.armed_wake == wake {
            return;
        }
        if let Some(old) = entry.armed_wake.take() {
            self.wakes.remove(&(old, entry.row.no));
        }
        if let Some(time) = wake {
            self.wakes.insert((time, entry.row.no));
        }
        entry.armed_wake = wake;
    }

    fn enqueue(&mut self, entry: &mut Entry) {
        if !entry.is_queued {
            entry.is_queued = true;
            self.ready.push_back(entry.row.no);
        }
    }

    fn enqueue_no(&mut self, no: RunNo) {
        if let Some(entry) = self.runs.get_mut(&no)
            && !entry.is_queued
        {
            entry.is_queued = true;
            self.ready.push_back(no);
        }
    }

    fn durable_no(&self) -> CommitNo {
        CommitNo(self.durable.load(Ordering::Acquire))
    }

    fn is_durable(&self, commit: CommitNo) -> bool {
        commit <= self.durable_no()
    }

    fn has_planted(bug: planted::Bug) -> bool {
        planted::is_planted(bug)
    }
}

/// Why a row must be looked at when the store is opened.
fn attention(run: &Run) -> Attention {
    let mut all = Attention::default();
    match run.task().streak() {
        Some(streak) if streak.next_try.is_none() => all = all.with(Attention::BLOCKED),
        Some(_) => all = all.with(Attention::TASK),
        None if run.task().is_pending() => all = all.with(Attention::TASK),
        None => {}
    }
    if run.activities().next().is_some() {
        all = all.with(Attention::ATTEMPTS);
    }
    if run.steps().next().is_some() {
        all = all.with(Attention::STEPS);
    }
    if run.crashes() > 0 {
        all = all.with(Attention::ARMED);
    }
    all
}
