//! Whatever is done to both stores, they answer the same.

use std::collections::BTreeMap;

use outlast_model::id::{Epoch, Version};
use outlast_model::record;
use outlast_model::task::RunNo;
use outlast_model::view::ListFilter;
use outlast_model::{Status, Timestamp};
use outlast_service::conformance::{finish, follow, run_id, start};
use outlast_service::memory::MemoryStore;
use outlast_service::sqlite::{OpenOptions, SqliteStore};
use outlast_service::store::{Commit, CommitError, CommitNo, Expect, Store};
use proptest::prelude::*;
use tempfile::TempDir;

#[derive(Clone, Debug)]
enum Op {
    Commit(Vec<Write>),
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
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Start,
    Follow,
    Finish,
    RaiseEpoch,
    Sleep(Timestamp),
    StaleVersion,
    StaleEpoch,
    WrongPrev,
    UsedNumber,
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
        1 => prop_oneof![Just(Timestamp::MAX), Just(Timestamp(0)), (0..1_u64 << 62).prop_map(Timestamp)]
            .prop_map(Kind::Sleep),
        1 => Just(Kind::StaleVersion),
        1 => Just(Kind::StaleEpoch),
        1 => Just(Kind::WrongPrev),
        1 => Just(Kind::UsedNumber),
    ];
    (RUNS, kind, prop::bool::weighted(0.2)).prop_map(|(run, kind, has_snapshot)| Write {
        run,
        kind,
        has_snapshot,
    })
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
        8 => look().prop_map(Op::Read),
        1 => Just(Op::Boot),
        1 => Just(Op::Reopen),
        1 => Just(Op::CloseAndBoot),
        1 => Just(Op::Crash),
    ]
}

/// What a service would know: the last commit of each run, and the next number.
#[derive(Clone, Default)]
struct Known {
    last: BTreeMap<u64, Commit>,
    commits: u64,
}

impl Known {
    fn commit(&mut self, write: Write) -> Commit {
        self.commits += 1;
        let id = self.commits;
        let new = || start(write.run, id, &workflow_id(write.run % 3));
        let mut commit = match (self.last.get(&write.run), write.kind) {
            (None, _) | (Some(_), Kind::Start) => new(),
            (Some(last), Kind::Finish) => finish(last, id),
            (Some(last), _) => follow(last, id),
        };
        spoil(&mut commit, write.kind);
        commit.snapshot = write.has_snapshot.then(|| record::frame(&id));
        self.last.insert(write.run, commit.clone());
        commit
    }
}

fn spoil(commit: &mut Commit, kind: Kind) {
    let state = &mut commit.row.state;
    match (kind, &mut commit.expect) {
        (Kind::Start | Kind::Follow | Kind::Finish, _) => {}
        (Kind::RaiseEpoch, _) => state.epoch.0 += 1,
        (Kind::Sleep(until), _) => state.wake = Some(until),
        (Kind::StaleVersion, Expect::At(version, _)) => *version = Version(version.0 - 1),
        (Kind::StaleEpoch, Expect::At(_, epoch)) => *epoch = Epoch(epoch.0 + 1),
        (Kind::WrongPrev, _) => commit.prev.0 += 1,
        (Kind::UsedNumber, _) => {
            commit.id = CommitNo(1);
            state.head = commit.id;
        }
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
        assert_eq!(self.memory.boot(), self.sqlite().boot());
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Commit(writes) => self.commit(writes),
            Op::Read(look) => self.read(*look),
            Op::Boot => self.boot(),
            Op::Reopen => assert_eq!(self.memory.reopen(), self.sqlite().reopen()),
            Op::CloseAndBoot => {
                assert_eq!(self.memory.close().is_ok(), self.sqlite().close().is_ok());
                self.boot();
            }
            Op::Crash => self.crash(),
        }
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
            let commits = self.known.commits;
            self.known = Known { commits, ..before };
        }
        if let Err(CommitError::Failed { .. }) = outcome {
            assert!(self.memory.commit(&[]).is_err() && self.sqlite().commit(&[]).is_err());
            assert_eq!(self.memory.reopen(), self.sqlite().reopen());
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
