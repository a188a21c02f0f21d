//! The service: shards, the writer, and the store they share, behind calls that any thread may
//! make.
//!
//! An engine thread calls [`Service::next`] and [`Service::complete`]; both work on the calling
//! thread. Clients put mail into a shard's inbox and are answered when it is durable.

mod commit;
mod frontend;
mod part;
mod reopen;
mod room;
mod trouble;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use outlast_engine::request::Window;
use outlast_model::event::TaskFailedCause;
use outlast_model::id::{Incarnation, RunId, WorkflowId};
use outlast_model::post::{Post, PostNo};
use outlast_model::task::{AttemptOutcome, AttemptToken, TaskAnswer, TaskToken};
use outlast_model::{Failure, Payload, limits, record};

use crate::clock::{self, Clock};
use crate::courtesy::{self, Courtesy, Goes, Scene};
use crate::inbox::{Heard, Inbox};
use crate::mail::Mail;
use crate::meter::{CommitMeter, Levels, ShardMeter};
use crate::outlet::{Capabilities, Outlet};
use crate::points;
use crate::shard::{Driver, Numbers, Parts, Shard, Turn};
use crate::store::{ReadError, RunRow, Store};
use crate::sync::{AtomicBool, AtomicU64, Condvar, JoinHandle, Mutex, MutexGuard};
use crate::vigil::Expects;
use crate::writer::Queue;
use room::Room;

/// Hand a batch over when it has so many commits, even if there is more to do.
const HAND_OVER: usize = 128;

/// What a service is made with.
#[derive(Clone)]
pub struct Setup {
    /// Where runs live.
    pub store: Arc<dyn Store>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Whoever runs attempts.
    pub outlet: Arc<dyn Outlet>,
    /// What can be run here.
    pub capabilities: Capabilities,
    /// How many shards; one per two cores.
    pub shards: usize,
    /// Requests that a run remembers.
    pub window: Window,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup")
            .field("shards", &self.shards)
            .finish_non_exhaustive()
    }
}

/// What an engine thread does next.
#[derive(Debug)]
pub enum Next {
    /// Run a slice, or forget an instance.
    Turn(Turn),
    /// Another thread drives the shard now.
    Replaced,
    /// The service has shut down.
    Shutdown,
}

/// One shard with its letter box.
struct Cell {
    seat: Mutex<Seat>,
    inbox: Inbox,
    durable: Arc<AtomicU64>,
    meter: Arc<ShardMeter>,
    /// Somebody waits for a commit to become durable: ring when one is.
    wants_notice: AtomicBool,
}

/// A shard and which thread drives it.
struct Seat {
    shard: Shard,
    driver: u64,
    mail: Vec<Mail>,
    courtesy: Courtesy,
    room: Room,
}

/// Shards, writer and store.
pub struct Service {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    outlet: Arc<dyn Outlet>,
    cells: Vec<Cell>,
    numbers: Arc<Numbers>,
    queue: Queue,
    is_stopping: AtomicBool,
    /// Wakes whoever waits for the store to come back.
    stop: (Mutex<()>, Condvar),
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Groups of commits that reached the disk, and commits in them.
    groups: AtomicU64,
    commits: AtomicU64,
    meter: CommitMeter,
    /// Whether the store takes what is decided.
    trouble: trouble::Trouble,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service")
            .field("shards", &self.cells.len())
            .finish_non_exhaustive()
    }
}

impl Service {
    /// Opens the store and starts the writer thread.
    ///
    /// # Errors
    /// When the store cannot be opened.
    pub fn open(setup: Setup) -> Result<Arc<Self>, ReadError> {
        let mut boot = setup.store.boot()?;
        let numbers = Arc::new(Numbers::after(&boot));
        let incarnation = new_incarnation();
        let count = setup.shards.max(1);
        let mut open = partition(std::mem::take(&mut boot.open), count);
        let capabilities = Arc::new(setup.capabilities);
        let cells = (0..count)
            .map(|index| {
                let parts = Parts {
                    index: u32::try_from(index).unwrap_or(u32::MAX),
                    incarnation,
                    capabilities: capabilities.clone(),
                    outlet: setup.outlet.clone(),
                    numbers: numbers.clone(),
                    snapshot_every: limits::SNAPSHOT_EVERY_COMMITS,
                    window: setup.window,
                    gather_from: courtesy::MANY,
                };
                Cell::new(Shard::new(parts, std::mem::take(&mut open[index]), &boot))
            })
            .collect();
        let service = Arc::new(Self {
            store: setup.store,
            clock: setup.clock,
            outlet: setup.outlet,
            cells,
            numbers,
            queue: Queue::default(),
            is_stopping: AtomicBool::new(false),
            stop: Default::default(),
            writer: Mutex::new(None),
            groups: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            meter: CommitMeter::default(),
            trouble: trouble::Trouble::default(),
        });
        service.start_writer();
        service.deliver(std::mem::take(&mut boot.posts), 0);
        Ok(service)
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.cells.len()
    }

    /// Takes a shard over. Returns the number of this driver; whoever drove it before is told at
    /// its next call.
    pub fn drive(&self, shard: usize) -> u64 {
        let cell = &self.cells[shard];
        let mut seat = cell.seat();
        seat.driver += 1;
        seat.shard.taken_over();
        let driver = seat.driver;
        drop(seat);
        cell.inbox.ring();
        driver
    }

    /// Waits for something to do for this driver of this shard.
    pub fn next(&self, shard: usize, driver: u64) -> Next {
        let cell = &self.cells[shard];
        loop {
            let mut seat = cell.seat();
            if seat.driver != driver {
                return Next::Replaced;
            }
            let was_settled = self.is_stopping.load(Ordering::Acquire) && self.queue.is_settled();
            let now = self.clock.now();
            let heard = seat.take_mail(&cell.inbox, now, &*self.store);
            seat.try_again(&cell.durable);
            // After the mail: a bell that was heard with it rings for what was said before it.
            let is_stopping = self.is_stopping.load(Ordering::Acquire);
            if seat.shard.batched() >= HAND_OVER
                && let Some(batch) = seat.shard.take_batch()
            {
                self.hand_over(shard, batch, seat);
                continue;
            }
            if let Some(turn) = seat.shard.next(now, &*self.store) {
                return Next::Turn(turn);
            }
            if !is_stopping {
                match seat.goes_next(&cell.inbox, heard) {
                    Goes::Mail => continue,
                    Goes::MailSoon => {
                        drop(seat);
                        cell.inbox.linger(heard, courtesy::MOMENT);
                        continue;
                    }
                    Goes::Batch => {}
                }
            }
            if let Some(batch) = seat.shard.take_batch() {
                self.hand_over(shard, batch, seat);
                continue;
            }
            if is_stopping {
                drop(seat);
                if was_settled || self.queue.is_stopped() {
                    return Next::Shutdown;
                }
                // What is released now may come back as mail: look once more.
                self.queue.settle();
                continue;
            }
            let has_freed = seat.shard.has_freed_slots();
            let mut lull = seat.shard.lull();
            lull.is_writing = !self.queue.is_settled();
            let is_waiting = seat.shard.is_waiting_for_disk();
            let is_idle = !is_waiting && !seat.shard.is_short();
            let again = seat.room.again(clock::instant);
            drop(seat);
            self.offer_slots(has_freed);
            if is_idle {
                self.shard_is_idle();
            }
            if is_waiting && !cell.wants_notice.swap(true, Ordering::AcqRel) {
                // Look once more: what we wait for may have happened before we said so.
                continue;
            }
            let expects = match lull.attempts_out {
                0 => Expects::Calls,
                _ => Expects::Outcomes,
            };
            let sleep = self.clock.lull(lull);
            let sleep = self.in_trouble(sleep, again);
            cell.inbox.sleep(sleep, heard, expects);
        }
    }

    /// The answer to a task.
    pub fn complete(&self, shard: usize, driver: u64, token: TaskToken, answer: TaskAnswer) {
        points::pass(match &answer {
            TaskAnswer::Completed { .. } => "slice.answered",
            TaskAnswer::Queried(_) => "slice.queried",
            TaskAnswer::Failed { .. } => "slice.failed",
        });
        let cell = &self.cells[shard];
        if let TaskAnswer::Failed { cause, .. } = &answer {
            cell.meter.task_failed(*cause);
        }
        let mut seat = cell.seat();
        let is_current = seat.driver == driver;
        let driver = if is_current {
            Driver::Current
        } else {
            Driver::Replaced
        };
        let now = self.clock.now();
        seat.shard.complete(token, answer, driver, now);
        let has_freed = seat.shard.has_freed_slots();
        drop(seat);
        if !is_current {
            cell.inbox.ring();
        }
        self.offer_slots(has_freed);
    }

    /// The slice of this task takes long: what it was given is committed now.
    pub fn go_slow(&self, shard: usize, token: TaskToken) {
        points::pass("slice.slow");
        let cell = &self.cells[shard];
        let now = self.clock.now();
        let mut seat = cell.seat();
        seat.shard.go_slow(token, now);
        if let Some(batch) = seat.shard.take_batch() {
            // By the writer: the caller may be the thread that must not wait.
            self.enqueue(shard, batch);
        }
        drop(seat);
        cell.inbox.ring();
    }

    /// The slice of this task does not come back.
    pub fn give_up(&self, shard: usize, token: TaskToken, failure: Failure) {
        let cell = &self.cells[shard];
        let now = self.clock.now();
        let mut seat = cell.seat();
        if seat.shard.give_up(token, failure, now) {
            cell.meter.task_failed(TaskFailedCause::Stuck);
        }
        let has_freed = seat.shard.has_freed_slots();
        drop(seat);
        cell.inbox.ring();
        self.offer_slots(has_freed);
    }

    /// Slots of slices are shared: one that became free here may be waited for elsewhere.
    fn offer_slots(&self, has_freed: bool) {
        if has_freed && self.numbers.is_starving() {
            self.cells.iter().for_each(|cell| cell.inbox.ring());
        }
    }

    /// The instance is no longer in memory.
    pub fn evicted(&self, shard: usize, run_id: RunId) {
        self.cells[shard].seat().shard.evicted(run_id);
    }

    /// Something that is not durable woke this run's code.
    pub fn foreign_wake(&self, run_id: RunId) {
        for cell in &self.cells {
            cell.inbox.put(Mail::ForeignWake(run_id));
        }
    }

    /// What kept this run from its code has come back.
    pub fn may_go_on(&self, run_id: RunId) {
        for cell in &self.cells {
            cell.inbox.put(Mail::MayGoOn(run_id));
        }
    }

    /// Attempts that ended.
    pub fn complete_attempts(&self, outcomes: Vec<AttemptOutcome>) {
        if let [cell] = self.cells.as_slice() {
            return cell.inbox.put(Mail::Outcomes(outcomes));
        }
        for outcome in outcomes {
            if let Some(cell) = self.cells.get(outcome.token.shard as usize) {
                cell.inbox.put(Mail::Outcomes(vec![outcome]));
            }
        }
        // Slots are shared: one that became free here may be waited for elsewhere.
        self.cells.iter().for_each(|cell| cell.inbox.ring());
    }

    /// A running attempt reports.
    pub fn heartbeat(&self, token: AttemptToken, details: Payload) {
        self.meter.heartbeats.one();
        if let Some(cell) = self.cells.get(token.shard as usize) {
            cell.inbox.put(Mail::Heartbeat(token, details));
        }
    }

    /// Groups of commits that reached the disk, and commits in them.
    pub fn written(&self) -> (u64, u64) {
        (
            self.groups.load(Ordering::Relaxed),
            self.commits.load(Ordering::Relaxed),
        )
    }

    /// What its shards count.
    pub fn shard_meters(&self) -> impl Iterator<Item = &ShardMeter> {
        self.cells.iter().map(|cell| &*cell.meter)
    }

    /// What is counted while it commits.
    pub fn commit_meter(&self) -> &CommitMeter {
        &self.meter
    }

    /// How much waits at this moment. Looks into every shard: not for a hot path.
    pub fn levels(&self) -> Levels {
        let mut levels = Levels::default();
        for cell in &self.cells {
            levels.mail += cell.inbox.len();
            let seat = cell.seat();
            levels.open_runs += seat.shard.open_runs();
            levels.waiting_attempts += seat.shard.waiting_attempts();
        }
        levels
    }

    /// The time, as its runs see it.
    pub fn now(&self) -> outlast_model::Timestamp {
        self.clock.now()
    }

    /// Makes every engine thread look: a virtual clock was moved.
    pub fn look(&self) {
        for cell in &self.cells {
            cell.inbox.put(Mail::Look);
        }
    }

    /// No slice and no attempt is handed out any more. What comes in (answers, outcomes, what
    /// is handed back, messages) is still applied and made durable: the next process goes on.
    pub fn drain(&self) {
        for cell in &self.cells {
            cell.seat().shard.drain();
            cell.inbox.ring();
        }
    }

    /// Takes nothing more: engine threads keep what is there and leave.
    pub fn shutdown(&self) {
        self.drain();
        self.is_stopping.store(true, Ordering::Release);
        self.stop.1.notify_all();
        for cell in &self.cells {
            cell.inbox.shut();
        }
    }

    /// After the engine threads left: what is decided is made durable, the store is closed.
    ///
    /// # Errors
    /// When the mark of a clean stop could not be written; nothing is lost by that.
    pub fn close(&self) -> Result<(), ReadError> {
        self.queue.stop();
        let writer = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(writer) = writer {
            // A writer that panicked has nothing left to say.
            drop(writer.join());
        }
        for cell in &self.cells {
            cell.inbox.close();
            cell.seat().shard.leave();
        }
        self.store.close()
    }

    /// Brings posts that the store keeps to the runs they are for.
    fn deliver(&self, posts: Vec<(PostNo, Vec<u8>)>, generation: u64) {
        for (no, bytes) in posts {
            // One that cannot be read stays where it is, for whoever looks at the file.
            if let Ok(post) = record::unframe::<Post>(&bytes) {
                self.bring(no, Box::new(post), generation);
            }
        }
    }

    fn bring(&self, no: PostNo, post: Box<Post>, generation: u64) {
        let cell = self.cell_of(&post.to.workflow_id);
        cell.inbox.put(Mail::Post {
            no,
            post,
            generation,
        });
    }

    fn cell_of(&self, workflow_id: &WorkflowId) -> &Cell {
        &self.cells[shard_of(workflow_id, self.cells.len())]
    }
}

impl Cell {
    fn new(shard: Shard) -> Self {
        let (durable, meter) = (shard.durable(), shard.meter());
        Self {
            seat: Mutex::new(Seat {
                shard,
                driver: 0,
                mail: Vec::new(),
                courtesy: Courtesy::default(),
                room: Room::default(),
            }),
            inbox: Inbox::default(),
            durable,
            meter,
            wants_notice: AtomicBool::new(false),
        }
    }

    fn seat(&self) -> MutexGuard<'_, Seat> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    fn take_mail(
        &mut self,
        inbox: &Inbox,
        now: outlast_model::Timestamp,
        store: &dyn Store,
    ) -> Heard {
        let mut mail = std::mem::take(&mut self.mail);
        let heard = inbox.take(&mut mail);
        for item in mail.drain(..) {
            points::pass("mail.accepted");
            self.shard.accept(item, now, store);
        }
        self.mail = mail;
        heard
    }

    /// Runs that were thrown back for want of room try again when there may be some.
    fn try_again(&mut self, durable: &AtomicU64) {
        if self.room.is_ample() {
            return;
        }
        let durable = durable.load(Ordering::Acquire);
        let is_short = self.shard.is_short();
        if let Some(count) = self.room.look(clock::instant(), durable, is_short) {
            self.shard.resume(count);
        }
    }

    /// Whether mail goes before what was decided.
    fn goes_next(&mut self, inbox: &Inbox, heard: Heard) -> Goes {
        self.courtesy.next(Scene {
            is_quiet: self.shard.is_quiet(),
            has_mail: inbox.has_rung_since(heard),
            attempts_out: self.shard.attempts_out(),
            heard,
        })
    }
}

/// Where a workflow id lives: the same for all runs of a chain. FNV-1a, since it must not depend
/// on the process.
fn shard_of(workflow_id: &WorkflowId, shards: usize) -> usize {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in workflow_id.as_str().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    usize::try_from(hash % shards.max(1) as u64).unwrap_or(0)
}

fn partition(open: Vec<RunRow>, shards: usize) -> Vec<Vec<RunRow>> {
    let mut parts: Vec<Vec<RunRow>> = (0..shards).map(|_| Vec::new()).collect();
    for row in open {
        let shard = shard_of(&row.workflow_id, shards);
        parts[shard].push(row);
    }
    parts
}

/// A random name for one start of the process, or of the store.
pub fn new_incarnation() -> Incarnation {
    Incarnation(random())
}

/// 128 random bits of the operating system.
pub fn random() -> u128 {
    let mut bytes = [0u8; 16];
    // Without randomness ids would repeat, and fences with them.
    getrandom::fill(&mut bytes).expect("the operating system has randomness");
    u128::from_le_bytes(bytes)
}
