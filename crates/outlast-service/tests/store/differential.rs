//! Whatever is done to both stores, they answer the same.

use std::collections::{BTreeMap, BTreeSet};

use outlast_model::id::{Epoch, Version};
use outlast_model::post::PostNo;
use outlast_model::record;
use outlast_model::task::RunNo;
use outlast_model::view::ListFilter;
use outlast_model::{Status, Timestamp};
use outlast_service::conformance::{finish, follow, post, replace, run_id, start};
use outlast_service::memory::MemoryStore;
use outlast_service::sqlite::{OpenOptions, SqliteStore};
use outlast_service::store::{Boot, Commit, CommitError, CommitNo, Expect, ReadError, Store};
use proptest::prelude::*;
use tempfile::TempDir;

#[derive(Clone, Debug)]
enum Op {
    Commit(Vec<Write>),
    Forget(Vec<u64>),
    Read(Look),
    Boot,
    Reopen,
    CloseAndBoot,
    Crash,
}

/// One commit, in terms of what is there when its turn comes.
#[derive(Clone, Copy, Debug)]
struct Write {
    run: u64,
    kind: Kind,
    has_snapshot: bool,
    is_heir: bool,
    /// How many.
    posts: u64,
    /// How many numbers back, the next one being 0.
    taken: [Option<u64>; 2],
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Start,
    Follow,
    Finish,
    RaiseEpoch,
    /// As many of the newest blobs as there are, this many at most.
    Replace(usize),
    ReplaceWrong,
    Sleep(Timestamp),
    StaleVersion,
    StaleEpoch,
    WrongPrev,
    UsedNumber,
    UsedPost,
}

#[derive(Clone, Copy, Debug)]
enum Look {
    Load(u64),
    Find(u64, usize),
    FindRun(u64),
    List {
        status: Option<Status>,
        limit: usize,
        before: Option<u64>,
    },
}

const RUNS: std::ops::Range<u64> = 1..12;

fn write() -> impl Strategy<Value = Write> {
    let kind = prop_oneof![
        4 => Just(Kind::Start),
        8 => Just(Kind::Follow),
        2 => Just(Kind::Finish),
        1 => Just(Kind::RaiseEpoch),
        3 => (1..4_usize).prop_map(Kind::Replace),
        1 => Just(Kind::ReplaceWrong),
        1 => prop_oneof![Just(Timestamp::MAX), Just(Timestamp(0)), (0..1_u64 << 62).prop_map(Timestamp)]
            .prop_map(Kind::Sleep),
        1 => Just(Kind::StaleVersion),
        1 => Just(Kind::StaleEpoch),
        1 => Just(Kind::WrongPrev),
        1 => Just(Kind::UsedNumber),
        1 => Just(Kind::UsedPost),
    ];
    let flags = (prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    let posts = prop_oneof![3 => Just(0), 1 => 1..4_u64];
    let taken = prop::array::uniform2(prop::option::weighted(0.3, 0..8_u64));
    (RUNS, kind, flags, posts, taken).prop_map(
        |(run, kind, (has_snapshot, is_heir), posts, taken)| Write {
            run,
            kind,
            has_snapshot,
            is_heir,
            posts,
            taken,
        },
    )
}

fn look() -> impl Strategy<Value = Look> {
    prop_oneof![
        RUNS.prop_map(Look::Load),
        (0..3_u64, 0..6_usize).prop_map(|(id, limit)| Look::Find(id, limit)),
        RUNS.prop_map(Look::FindRun),
        (
            prop::option::of(prop::sample::select(&Status::ALL[..3])),
            0..6_usize,
            prop::option::of(RUNS)
        )
            .prop_map(|(status, limit, before)| Look::List {
                status,
                limit,
                before
            }),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => prop::collection::vec(write(), 1..4).prop_map(Op::Commit),
        1 => prop::collection::vec(0..8_u64, 0..3).prop_map(Op::Forget),
        8 => look().prop_map(Op::Read),
        1 => Just(Op::Boot),
        1 => Just(Op::Reopen),
        1 => Just(Op::CloseAndBoot),
        1 => Just(Op::Crash),
    ]
}

/// What a service would know: the last commit of each run, and the last numbers.
#[derive(Clone, Default)]
struct Known {
    last: BTreeMap<u64, Commit>,
    /// Commits of each run that later ones may replace, newest last.
    layers: BTreeMap<u64, Vec<Commit>>,
    commits: u64,
    posts: u64,
}

impl Known {
    fn commit(&mut self, write: Write) -> Commit {
        self.commits += 1;
        let id = self.commits;
        let new = || start(write.run, id, &workflow_id(write.run % 3));
        let mut commit = match (self.last.get(&write.run), write.kind) {
            (None, _) | (Some(_), Kind::Start) => new(),
            (Some(last), Kind::Finish) => finish(last, id),
            (Some(last), Kind::Replace(most)) => self.replacing(write.run, most, last, id),
            (Some(last), _) => follow(last, id),
        };
        self.exchange(&mut commit, write);
        spoil(&mut commit, write.kind);
        commit.snapshot = write.has_snapshot.then(|| record::frame(&id));
        commit.row.first_run = write.is_heir.then(|| run_id(id));
        self.last.insert(write.run, commit.clone());
        self.lay(write.run, &commit);
        commit
    }

    fn replacing(&self, run: u64, most: usize, last: &Commit, id: u64) -> Commit {
        let layers = self.layers.get(&run).into_iter().flatten();
        let newest: Vec<&Commit> = layers.rev().take(most).collect();
        match newest.first() {
            Some(top) if top.id == last.id => replace(&newest, id),
            Some(_) | None => follow(last, id),
        }
    }

    /// What stands below a snapshot, and the snapshot's own commit, stay.
    fn lay(&mut self, run: u64, commit: &Commit) {
        let layers = self.layers.entry(run).or_default();
        if commit.expect == Expect::New || commit.snapshot.is_some() {
            layers.clear();
        }
        layers.retain(|layer| !commit.replaces.contains(&layer.id));
        if commit.snapshot.is_none() {
            layers.push(commit.clone());
        }
    }

    fn exchange(&mut self, commit: &mut Commit, write: Write) {
        for _ in 0..write.posts {
            self.posts += 1;
            commit.posts.push(post(self.posts));
        }
        let taken = write.taken.iter().flatten();
        commit.taken = taken.map(|back| self.post(*back)).collect();
    }

    /// A number that was given, or the next one, or 0, which never is.
    fn post(&self, back: u64) -> PostNo {
        PostNo((self.posts + 1).saturating_sub(back))
    }
}

fn spoil(commit: &mut Commit, kind: Kind) {
    let state = &mut commit.row.state;
    match (kind, &mut commit.expect) {
        (Kind::Start | Kind::Follow | Kind::Finish | Kind::Replace(_), _) => {}
        (Kind::ReplaceWrong, _) => commit.replaces = vec![commit.prev, CommitNo(1)],
        (Kind::RaiseEpoch, _) => state.epoch.0 += 1,
        (Kind::Sleep(until), _) => state.wake = Some(until),
        (Kind::StaleVersion, Expect::At(version, _)) => *version = Version(version.0 - 1),
        (Kind::StaleEpoch, Expect::At(_, epoch)) => *epoch = Epoch(epoch.0 + 1),
        (Kind::WrongPrev, _) => commit.prev.0 += 1,
        (Kind::UsedNumber, _) => {
            commit.id = CommitNo(1);
            state.head = commit.id;
        }
        (Kind::UsedPost, _) => commit.posts.push(post(1)),
        (Kind::StaleVersion | Kind::StaleEpoch, Expect::New) => {}
    }
}

fn workflow_id(number: u64) -> String {
    format!("w-{number}")
}

struct Pair {
    dir: TempDir,
    options: OpenOptions,
    memory: MemoryStore,
    sqlite: Option<SqliteStore>,
    known: Known,
    forgotten: BTreeSet<PostNo>,
}

impl Pair {
    fn new(index_batch: usize) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let options = OpenOptions {
            index_batch,
            ..OpenOptions::default()
        };
        let memory = MemoryStore::new();
        let mut pair = Self {
            dir,
            options,
            memory,
            sqlite: None,
            known: Known::default(),
            forgotten: BTreeSet::new(),
        };
        pair.crash();
        pair
    }

    fn sqlite(&self) -> &SqliteStore {
        self.sqlite.as_ref().expect("open")
    }

    fn crash(&mut self) {
        drop(self.sqlite.take());
        let path = self.dir.path().join("runs.db");
        self.sqlite = Some(SqliteStore::open_with(path, &self.options).expect("opens"));
        self.boot();
    }

    fn boot(&self) {
        self.assert_same(self.memory.boot(), self.sqlite().boot());
    }

    /// A store may skip numbers of posts, and what was forgotten may come back.
    fn assert_same(&self, memory: Result<Boot, ReadError>, sqlite: Result<Boot, ReadError>) {
        let memory = memory.expect("memory boots");
        let mut sqlite = sqlite.expect("the file boots");
        assert!(sqlite.last_post >= memory.last_post);
        sqlite.last_post = memory.last_post;
        sqlite.posts.retain(|(no, _)| !self.forgotten.contains(no));
        assert_eq!(memory, sqlite);
    }

    fn forget(&mut self, posts: &[u64]) {
        let posts: Vec<_> = posts.iter().map(|back| self.known.post(*back)).collect();
        // The next number has not been given, and odd ones are given twice: not to be forgotten.
        let posts: Vec<_> = posts
            .into_iter()
            .filter(|no| no.0 <= self.known.posts && no.0 % 2 == 0)
            .collect();
        assert_eq!(self.memory.forget(&posts), self.sqlite().forget(&posts));
        self.forgotten.extend(posts);
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Commit(writes) => self.commit(writes),
            Op::Forget(posts) => self.forget(posts),
            Op::Read(look) => self.read(*look),
            Op::Boot => self.boot(),
            Op::Reopen => self.reopen(),
            Op::CloseAndBoot => {
                assert_eq!(self.memory.close().is_ok(), self.sqlite().close().is_ok());
                self.boot();
            }
            Op::Crash => self.crash(),
        }
    }

    fn reopen(&self) {
        self.assert_same(self.memory.reopen(), self.sqlite().reopen());
    }

    fn commit(&mut self, writes: &[Write]) {
        let before = self.known.clone();
        let group: Vec<_> = writes
            .iter()
            .map(|write| self.known.commit(*write))
            .collect();
        let outcome = self.memory.commit(&group);
        assert_eq!(outcome, self.sqlite().commit(&group), "{group:?}");
        if outcome.is_err() {
            (self.known.last, self.known.layers) = (before.last, before.layers);
        }
        if let Err(CommitError::Failed { .. }) = outcome {
            assert!(self.memory.commit(&[]).is_err() && self.sqlite().commit(&[]).is_err());
            self.reopen();
        }
    }

    fn read(&self, look: Look) {
        let (memory, sqlite) = (&self.memory, self.sqlite());
        match look {
            Look::Load(run) => {
                assert_eq!(memory.load(RunNo(run)), sqlite.load(RunNo(run)));
                assert_eq!(memory.history(RunNo(run)), sqlite.history(RunNo(run)));
            }
            Look::Find(id, limit) => {
                let id = workflow_id(id).as_str().into();
                assert_eq!(memory.find(&id, limit), sqlite.find(&id, limit));
            }
            Look::FindRun(run) => {
                assert_eq!(memory.find_run(run_id(run)), sqlite.find_run(run_id(run)));
            }
            Look::List {
                status,
                limit,
                before,
            } => {
                let before = before.map(run_id);
                let filter = ListFilter {
                    status,
                    limit,
                    before,
                    ..ListFilter::default()
                };
                assert_eq!(memory.list(&filter), sqlite.list(&filter));
            }
        }
    }

    fn compare_all(&self) {
        for run in RUNS {
            self.read(Look::Load(run));
            self.read(Look::FindRun(run));
        }
        (0..3).for_each(|id| self.read(Look::Find(id, 100)));
        self.read(Look::List {
            status: None,
            limit: 0,
            before: None,
        });
        let report = self.sqlite().check().expect("reads");
        assert!(report.is_sound(), "{report:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn memory_and_sqlite_answer_the_same(
        ops in prop::collection::vec(op(), 1..80),
        index_batch in prop::sample::select(vec![1, 2, 3, 1000]),
    ) {
        let mut pair = Pair::new(index_batch);
        for op in &ops {
            pair.apply(op);
        }
        pair.compare_all();
        pair.crash();
        pair.compare_all();
    }
}
