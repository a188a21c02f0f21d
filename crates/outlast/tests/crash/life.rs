//! The lives of processes: each runs the same client on the same disk until it ends or is cut
//! off. What the next one finds is a copy of the files as the dead one left them, log and all.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use outlast::model::post::PostNo;
use outlast::model::task::RunNo;
use outlast::model::{Event, Record, RunId, WorkflowId, record};
use outlast::{ListFilter, Status};
use outlast_engine::passing;
use outlast_service::faulty::{Fault, FaultyStore, Lie};
use outlast_service::sqlite::{OpenOptions, Reader, SqliteStore};
use outlast_service::store::{Boot, Commit, CommitError, Loaded, ReadError, RunRow, Store};
use tokio::sync::Notify;

use crate::client::{Ack, Client, Disk, Memory};
use crate::script::{self, Scenario};
use crate::world::{Effect, Ledger, World};

/// No scenario kills more processes than this by itself.
const LIVES: usize = 12;
/// A process that takes longer is stuck.
const PATIENCE: Duration = Duration::from_secs(20);

/// Looks at the disk before a process leaves. What nobody will hear leaves the disk with the next
/// commit or the process, so that waiting for it does not help.
const LOOKS: usize = 5;
/// Processes that may hear what runs have said before it counts as lost.
const HEARERS: usize = 20;
const TICK: Duration = Duration::from_millis(4);

/// What happens at a store call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The process dies, or the disk is full this once.
    Crash(Fault),
    /// The store fails, the process lives: the group was not written, or it was.
    Failure(Written),
    /// The process is asked to stop, and does so in order.
    Stop,
    /// It is asked to stop, and dies at the next call.
    DieStopping(Fault),
}

/// Whether a failed commit took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Yes,
    No,
}

impl Cut {
    pub(crate) const ALL: [Self; 6] = [
        Self::Crash(Fault::Before),
        Self::Crash(Fault::After),
        Self::Crash(Fault::Full),
        Self::Failure(Written::No),
        Self::Failure(Written::Yes),
        Self::Stop,
    ];
}

/// The fate of one process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fate {
    pub(crate) call: u64,
    pub(crate) cut: Cut,
}

/// A run as it is on disk.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) row: RunRow,
    pub(crate) history: Vec<Event>,
    /// Why the records cannot be read, if they cannot.
    pub(crate) damage: Option<String>,
}

/// Everything the judge may know.
#[derive(Debug)]
pub(crate) struct Story {
    pub(crate) case: String,
    /// Commits and loads of the last process.
    pub(crate) calls: u64,
    /// Those of them that were to write.
    pub(crate) commits: u64,
    pub(crate) deaths: u32,
    /// Failures of the store that a process survived.
    pub(crate) failures: u32,
    /// Processes that were asked to stop: each may have handed an attempt back, which begins again.
    pub(crate) stops: u32,
    /// The last process did not come to an end.
    pub(crate) is_stuck: bool,
    pub(crate) acks: Vec<Ack>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) runs: Vec<Recorded>,
    /// What was on disk when each process died.
    pub(crate) remains: Vec<Vec<Recorded>>,
    /// What is wrong with the files themselves.
    pub(crate) damage: Vec<String>,
    /// What runs have said to each other and nobody has heard, when everything was at rest.
    pub(crate) posts: u64,
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "acknowledged: {:#?}", self.acks)?;
        writeln!(f, "done: {:#?}", self.effects)?;
        for run in &self.runs {
            let names: Vec<&str> = run.history.iter().map(|e| e.kind.name()).collect();
            let (id, status) = (&run.row.workflow_id, run.row.state.status);
            writeln!(f, "{id} ({status}): {names:#?}")?;
        }
        Ok(())
    }
}

static CASES: AtomicU64 = AtomicU64::new(0);

/// Lets processes live one after the other, each with its fate, until one comes to an end.
pub(crate) fn live(scenario: &Scenario, fates: &[Fate], lie: Lie) -> Story {
    let mut lives = Lives::new(new_case());
    lives.go_on(scenario, fates, lie);
    lives.told()
}

/// A name that no other case has.
pub(crate) fn new_case() -> String {
    format!("case-{}", CASES.fetch_add(1, Ordering::SeqCst))
}

/// Processes on one disk, one after the other.
pub(crate) struct Lives {
    disk: tempfile::TempDir,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) story: Story,
    /// The time since the beginning.
    pub(crate) now: Duration,
    life: usize,
    /// Whether the disk may be full for a while.
    pub(crate) room: Disk,
    /// Asked before each commit, with the time.
    pub(crate) before: Option<Before>,
    /// Told when the client is done, before anybody else looks at the files.
    pub(crate) after: Option<Arc<dyn Fn() + Send + Sync>>,
    /// How its files are opened.
    pub(crate) options: OpenOptions,
}

/// Hears the time before each commit.
pub(crate) type Before = Arc<dyn Fn(Duration) + Send + Sync>;

impl Lives {
    pub(crate) fn new(case: String) -> Self {
        let disk = scratch();
        std::fs::create_dir(disk.path().join("life-0")).expect("a directory");
        Self {
            disk,
            ledger: Arc::new(Ledger::default()),
            memory: Arc::new(Memory::default()),
            story: Story::new(case),
            now: Duration::ZERO,
            life: 0,
            room: Disk::HasRoom,
            before: None,
            after: None,
            options: OpenOptions::default(),
        }
    }

    /// Where the files of the present process are.
    pub(crate) fn place(&self) -> PathBuf {
        self.disk.path().join(format!("life-{}", self.life))
    }

    /// The present process is gone; the next one finds this of its disk.
    pub(crate) fn next(&mut self, copy: impl FnOnce(&Path, &Path)) {
        let before = self.place();
        self.life += 1;
        let place = self.place();
        std::fs::create_dir(&place).expect("a directory");
        copy(&before, &place);
    }

    /// Lets processes live until one comes to an end.
    pub(crate) fn go_on(&mut self, scenario: &Scenario, fates: &[Fate], lie: Lie) {
        for fate in 0..LIVES {
            match self.one(scenario, fates.get(fate), lie) {
                End::Died | End::Stopped => self.next(copy),
                End::Done | End::Stuck => return,
            }
        }
    }

    /// Lets one process live.
    pub(crate) fn one(&mut self, scenario: &Scenario, fate: Option<&Fate>, lie: Lie) -> End {
        let path = self.place().join("runs.db");
        let mut store = Mortal::open((&path, &self.options), fate, lie);
        store.before = self.before.clone();
        if self.room == Disk::MayBeFull {
            store.room = Disk::MayBeFull;
        }
        let store = Arc::new(store);
        let story = &mut self.story;
        let world = World::new(&story.case, &self.ledger, self.life, store.killer());
        let process = Process::begin(scenario, store, (&world, self.now));
        let end = process.run(scenario, &story.case, &self.memory);
        if let Some(after) = &self.after {
            after();
        }
        self.now = process.now();
        story.calls = process.store.calls();
        story.commits = process.store.commits.load(Ordering::SeqCst);
        story.failures += process.store.failures();
        story.failures += u32::from(fate.is_some_and(|f| f.cut == Cut::Crash(Fault::Full)));
        if end == End::Done {
            process.rest(&path);
        }
        process.leave(end);
        world.end();
        let remains = recorded(&path, &mut story.damage);
        process.bury();
        if end == End::Done {
            story.posts = posts_at_rest(scenario, &path, (&world, self.now));
        }
        story.end(end, remains);
        end
    }

    /// What became of it all.
    pub(crate) fn told(mut self) -> Story {
        self.story.acks = self.memory.acks();
        self.story.effects = self.ledger.effects();
        self.story
    }
}

impl Story {
    pub(crate) fn new(case: String) -> Self {
        Self {
            case,
            calls: 0,
            commits: 0,
            deaths: 0,
            failures: 0,
            stops: 0,
            is_stuck: false,
            acks: Vec::new(),
            effects: Vec::new(),
            runs: Vec::new(),
            remains: Vec::new(),
            damage: Vec::new(),
            posts: 0,
        }
    }

    fn end(&mut self, end: End, remains: Vec<Recorded>) {
        match end {
            End::Died => {
                self.deaths += 1;
                self.remains.push(remains);
            }
            End::Stopped => {
                self.failures += 1;
                self.stops += 1;
                self.remains.push(remains);
            }
            End::Done | End::Stuck => {
                self.is_stuck = end == End::Stuck;
                self.runs = remains;
            }
        }
    }
}

/// What nobody has heard although there is nothing else to do. What was under way when the last
/// process left is heard by another one.
fn posts_at_rest(scenario: &Scenario, path: &Path, world: (&World, Duration)) -> u64 {
    for _ in 0..HEARERS {
        if posts(path) == 0 {
            return 0;
        }
        let store = Arc::new(Mortal::open(
            (path, &OpenOptions::default()),
            None,
            Lie::None,
        ));
        let process = Process::begin(scenario, store, world);
        process.rest(path);
        process.leave(End::Done);
        process.bury();
    }
    posts(path)
}

fn posts(path: &Path) -> u64 {
    let disk = SqliteStore::open_reader(path).expect("the file can be read");
    disk.check().expect("the file can be checked").posts
}

/// A directory in memory where there is one: thousands of syncs are not the point here.
pub(crate) fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    made.expect("a directory")
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Died,
    Stopped,
    Stuck,
}

/// A process: an application with its threads, and a client.
struct Process {
    runtime: tokio::runtime::Runtime,
    app: outlast::App,
    clock: outlast::testing::TestClock,
    begin: outlast::model::Timestamp,
    store: Arc<Mortal>,
}

impl Process {
    fn begin(scenario: &Scenario, store: Arc<Mortal>, (world, now): (&World, Duration)) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime can be built");
        let env = script::env(store.clone(), world.clone()).settings((scenario.settings)());
        let clock = env.clock();
        let begin = clock.now();
        drop(store.clock.set(clock.clone()));
        store.begin.set(begin).ok();
        // Before anything is due: what is decided first is decided at the time of then.
        let app = runtime.block_on(env.later(now).start());
        Self {
            runtime,
            app,
            clock,
            begin,
            store,
        }
    }

    fn run(&self, scenario: &Scenario, case: &str, memory: &Arc<Memory>) -> End {
        let client = Client::new((&self.app, &self.clock), case, memory, self.store.room());
        self.runtime.block_on(async {
            let script = (scenario.script)(&client);
            tokio::select! {
                biased;
                () = script => End::Done,
                end = self.store.end() => end,
                () = tokio::time::sleep(PATIENCE) => End::Stuck,
            }
        })
    }

    /// The time, or that of its death: its threads do not know of it, and time may pass for them.
    fn now(&self) -> Duration {
        let died = self.store.died.get().copied();
        died.unwrap_or_else(|| self.clock.now()).since(self.begin)
    }

    /// Lets runs hear what others have said to them, for a while.
    fn rest(&self, path: &Path) {
        self.runtime.block_on(async {
            for _ in 0..LOOKS {
                if posts(path) == 0 {
                    return;
                }
                tokio::time::sleep(TICK).await;
            }
        });
    }

    /// One that has not died stops in order.
    fn leave(&self, end: End) {
        if let End::Done | End::Stopped = end {
            self.runtime.block_on(self.app.shutdown());
        }
    }

    /// A dead process has threads here that do not know it: they go when they notice.
    fn bury(self) {
        let Self { runtime, app, .. } = self;
        std::thread::spawn(move || {
            drop(app);
            runtime.shutdown_background();
        });
    }
}

/// The store of a process that is to die: tells when it has, and can fail without dying.
struct Mortal {
    store: FaultyStore<SqliteStore>,
    ended: Notify,
    end: Mutex<Option<End>>,
    stop_at: Option<u64>,
    failure: Option<(u64, Written)>,
    commits: AtomicU64,
    has_failed: AtomicBool,
    failures: Mutex<u32>,
    room: Disk,
    before: Option<Before>,
    clock: OnceLock<outlast::testing::TestClock>,
    died: OnceLock<outlast::model::Timestamp>,
    begin: OnceLock<outlast::model::Timestamp>,
}

impl Mortal {
    fn open((path, options): (&Path, &OpenOptions), fate: Option<&Fate>, lie: Lie) -> Self {
        let store = SqliteStore::open_with(path, options).expect("the store opens");
        let store = FaultyStore::new(store);
        store.lie(lie);
        let (mut failure, mut stop_at, mut room) = (None, None, Disk::HasRoom);
        if fate.is_some_and(|fate| fate.cut == Cut::Crash(Fault::Full)) {
            room = Disk::MayBeFull;
        }
        match fate.map(|fate| (fate.call, fate.cut)) {
            Some((call, Cut::Crash(fault))) => store.fail_at(call, fault),
            Some((call, Cut::Failure(written))) => failure = Some((call, written)),
            Some((call, Cut::Stop)) => stop_at = Some(call),
            Some((call, Cut::DieStopping(fault))) => {
                stop_at = Some(call);
                store.fail_at(call + 1, fault);
            }
            None => {}
        }
        Self {
            store,
            ended: Notify::new(),
            end: Mutex::new(None),
            stop_at,
            failure,
            commits: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            failures: Mutex::new(0),
            room,
            before: None,
            clock: OnceLock::new(),
            died: OnceLock::new(),
            begin: OnceLock::new(),
        }
    }

    fn calls(&self) -> u64 {
        self.store.calls()
    }

    fn failures(&self) -> u32 {
        *self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn room(&self) -> Disk {
        self.room
    }

    /// Returns when the process has died, or should stop.
    async fn end(&self) -> End {
        loop {
            // Registered before the look, or an end in between would be missed.
            let ended = self.ended.notified();
            if let Some(end) = *self.lock_end() {
                return end;
            }
            ended.await;
        }
    }

    /// Lets workflow code kill its process.
    fn killer(self: &Arc<Self>) -> Arc<dyn Fn() + Send + Sync> {
        let store = Arc::downgrade(self);
        Arc::new(move || {
            if let Some(store) = store.upgrade() {
                store.store.kill();
                store.over(());
            }
        })
    }

    /// The call is over: if it was the last, whoever waits for that is told.
    fn over<T>(&self, outcome: T) -> T {
        if self.store.is_dead() {
            if let Some(clock) = self.clock.get() {
                self.died.get_or_init(|| clock.now());
            }
            self.lock_end().get_or_insert(End::Died);
        } else if self.stop_at.is_some_and(|call| self.calls() >= call) {
            self.lock_end().get_or_insert(End::Stopped);
        }
        self.ended.notify_waiters();
        outcome
    }

    fn lock_end(&self) -> std::sync::MutexGuard<'_, Option<End>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failing(&self) -> Option<Written> {
        let commit = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        let (_, written) = self.failure.filter(|(at, _)| *at == commit)?;
        self.has_failed.store(true, Ordering::SeqCst);
        *self.failures.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Some(written)
    }
}

impl Store for Mortal {
    fn boot(&self) -> Result<Boot, ReadError> {
        self.over(self.store.boot())
    }

    fn commit(&self, group: &[Commit]) -> Result<(), CommitError> {
        let failed = Err(CommitError::Failed {
            reason: "the disk does not answer".into(),
        });
        if self.has_failed.load(Ordering::SeqCst) {
            return failed;
        }
        if let (Some(before), Some(clock), Some(begin)) =
            (&self.before, self.clock.get(), self.begin.get())
        {
            before(clock.now().since(*begin));
        }
        match self.failing() {
            None => self.over(self.store.commit(group)),
            Some(Written::No) => failed,
            Some(Written::Yes) => self.over(self.store.commit(group)).and(failed),
        }
    }

    fn forget(&self, posts: &[PostNo]) -> Result<(), CommitError> {
        self.over(self.store.forget(posts))
    }

    fn load(&self, run: RunNo) -> Result<Loaded, ReadError> {
        self.over(self.store.load(run))
    }

    fn history(&self, run: RunNo) -> Result<Vec<Vec<u8>>, ReadError> {
        self.store.history(run)
    }

    fn find(&self, workflow_id: &WorkflowId, limit: usize) -> Result<Vec<RunRow>, ReadError> {
        self.store.find(workflow_id, limit)
    }

    fn find_run(&self, run_id: RunId) -> Result<Option<RunRow>, ReadError> {
        self.store.find_run(run_id)
    }

    fn list(&self, filter: &ListFilter) -> Result<Vec<RunRow>, ReadError> {
        self.store.list(filter)
    }

    fn reopen(&self) -> Result<Boot, ReadError> {
        let boot = self.store.reopen()?;
        self.has_failed.store(false, Ordering::SeqCst);
        Ok(boot)
    }

    fn close(&self) -> Result<(), ReadError> {
        self.store.close()
    }
}

/// All runs of the file, with their histories, and what is wrong with the file.
pub(crate) fn recorded(path: &Path, damage: &mut Vec<String>) -> Vec<Recorded> {
    let disk = SqliteStore::open_reader(path).expect("the file can be read");
    damage.extend(disk.check().expect("the file can be checked").damage);
    let everything = ListFilter {
        limit: 10_000,
        ..ListFilter::default()
    };
    let rows = disk.list(&everything).expect("the file can be read");
    rows.into_iter().map(|row| read(&disk, row)).collect()
}

fn read(disk: &Reader, row: RunRow) -> Recorded {
    let blobs = disk.history(row.no).expect("the file can be read");
    let (mut history, mut damage, mut was_passing) = (Vec::new(), None, false);
    for blob in blobs {
        match record::decode(&blob) {
            Ok(records) => {
                let is_passing = blob.len() < 2_000 && records.iter().all(passing::is_passing);
                if is_passing && was_passing {
                    damage = Some("two commits of facts that pass, where one will do".into());
                }
                was_passing = is_passing;
                history.extend(records.into_iter().filter_map(|record| match record {
                    Record::Event(event) => Some(event),
                    Record::Fact(_) => None,
                }));
            }
            Err(error) => damage = Some(error.to_string()),
        }
    }
    Recorded {
        row,
        history,
        damage,
    }
}

/// The files as they are, locks and all forgotten.
pub(crate) fn copy(from: &Path, to: &Path) {
    for ending in ["", "-wal"] {
        let name = format!("runs.db{ending}");
        let file = from.join(&name);
        if file.exists() {
            std::fs::copy(file, to.join(&name)).expect("a file can be copied");
        }
    }
}

impl Recorded {
    pub(crate) fn is_open(&self) -> bool {
        self.row.state.status == Status::Running
    }
}
