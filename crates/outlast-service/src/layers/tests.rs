//! However facts come and go, and whoever reads them back: the same run, and no more room.

use outlast_engine::Run;
use outlast_model::event::{ActivityScheduled, Site, Started};
use outlast_model::id::{Attempt, Epoch, EventId, Incarnation, RunId, Seq, Version};
use outlast_model::task::RunNo;
use outlast_model::{
    ActivityOptions, Event, EventKind, Fact, Failure, Headers, Payload, Shared, Status, Timestamp,
};
use proptest::prelude::*;

use super::*;
use crate::store::{Attention, RowState, RunRow};

const ACTIVITIES: u32 = 4;

/// A chain as a store has it, and all that was ever said.
struct Chain {
    row: RunRow,
    blobs: Vec<(CommitNo, Vec<u8>)>,
    said: Vec<Vec<u8>>,
    live: Run,
    layers: Layers,
    next: u64,
}

impl Chain {
    fn new() -> Self {
        let first = record::encode(&beginning());
        let live = Run::load(None, std::slice::from_ref(&first)).expect("it loads");
        Self {
            row: row(),
            blobs: vec![(CommitNo(1), first.clone())],
            said: vec![first],
            live,
            layers: Layers::default(),
            next: 2,
        }
    }

    fn say(&mut self, facts: Vec<Fact>) {
        let facts = facts.into_iter().map(Record::Fact);
        let fit: Vec<Record> = facts
            .filter(|record| {
                let fits = self.live.clone().evolve(record).is_ok();
                fits && self.live.evolve(record).is_ok()
            })
            .collect();
        if fit.is_empty() {
            return;
        }
        self.said.push(record::encode(&fit));
        let (id, head) = (CommitNo(self.next), self.head());
        self.next += 1;
        let laid = self.layers.put(id, head, &fit);
        for gone in &laid.replaces {
            let (id, _) = self.blobs.pop().expect("there is one");
            assert_eq!(id, *gone, "the newest first");
        }
        assert_eq!(laid.prev, self.head());
        self.blobs.push((id, laid.blob));
    }

    fn head(&self) -> CommitNo {
        self.blobs.last().map_or(CommitNo(0), |(id, _)| *id)
    }

    fn read_again(&mut self) {
        self.layers = Layers::of(&Loaded {
            row: self.row.clone(),
            snapshot: None,
            blobs: self.blobs.iter().map(|(_, blob)| blob.clone()).collect(),
            numbers: self.blobs.iter().map(|(id, _)| *id).collect(),
            before: CommitNo(0),
        });
    }

    fn is_same(&self) -> bool {
        let blobs: Vec<Vec<u8>> = self.blobs.iter().map(|(_, blob)| blob.clone()).collect();
        let short = Run::load(None, &blobs).expect("what is left loads");
        let long = Run::load(None, &self.said).expect("all of it loads");
        short.snapshot() == long.snapshot() && short.wake() == long.wake()
    }

    /// Bytes of all layers, and of what is left of them.
    fn weight(&self) -> (usize, usize) {
        let layers = self.blobs.iter().skip(1);
        let (mut bytes, mut all) = (0, Vec::new());
        for (_, blob) in layers {
            bytes += blob.len();
            all.extend(record::decode(blob).expect("it decodes"));
        }
        let left = Facts::default().and(Facts::new(all));
        (bytes, left.bytes())
    }
}

fn beginning() -> Vec<Record> {
    let started = Started {
        workflow_id: "w".into(),
        run_id: RunId(1),
        workflow_type: "t".into(),
        queue: "default".into(),
        input: Payload::null(),
        request_id: None,
        run_timeout: None,
        parent: None,
        first_run_id: None,
        continued_from: None,
        headers: Headers::new(),
        priority: None,
        edition: None,
    };
    let mut kinds = vec![EventKind::Started(Shared::new(started))];
    kinds.extend((1..=ACTIVITIES).map(|seq| {
        EventKind::ActivityScheduled(Shared::new(ActivityScheduled {
            seq: Seq(seq),
            activity_type: "a".into(),
            queue: "default".into(),
            input: Payload::null(),
            options: ActivityOptions::default().into(),
            site: Site::default(),
            headers: Headers::new(),
        }))
    }));
    let events = (1..).zip(kinds).map(|(id, kind)| Event {
        id: EventId(id),
        time: Timestamp(10),
        kind,
    });
    events.map(Record::Event).collect()
}

fn row() -> RunRow {
    let state = RowState {
        status: Status::Running,
        version: Version(1),
        epoch: Epoch(0),
        head: CommitNo(1),
        events: 1,
        bytes: 0,
        closed: None,
        wake: None,
        attention: Attention::default(),
    };
    RunRow {
        no: RunNo(1),
        workflow_id: "w".into(),
        run_id: RunId(1),
        workflow_type: "t".into(),
        queue: "default".into(),
        started: Timestamp(10),
        first_run: None,
        state,
    }
}

fn fact() -> impl Strategy<Value = Fact> {
    let size = prop_oneof![Just(10_usize), Just(1_000), Just(30_000)];
    let parts = (0..9_u8, 1..=ACTIVITIES, 1..1_000_u32, size);
    parts.prop_map(|(kind, seq, n, size)| {
        let (seq, at) = (Seq(seq), Timestamp(100 + u64::from(n)));
        let text = format!("{n}{}", "x".repeat(size));
        match kind {
            0..3 => Fact::AttemptStarted {
                seq,
                attempt: Attempt(n),
                incarnation: Incarnation(u128::from(n)),
                at,
            },
            3..6 => Fact::AttemptFailed {
                seq,
                failure: Failure::application("Broken", "no").at(text),
                due: at,
            },
            6 => Fact::Heartbeat {
                seq,
                details: Payload::bytes(text.into_bytes()),
                at,
            },
            7 => Fact::AttemptHandedBack { seq, at },
            _ => Fact::AttemptLeft { seq },
        }
    })
}

/// One commit, and whether another process makes the next.
fn commit() -> impl Strategy<Value = (Vec<Fact>, bool)> {
    let facts = prop::collection::vec(fact(), 1..4);
    (facts, prop::bool::weighted(0.1))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn layers_fold_to_the_same_run_in_bounded_room(
        commits in prop::collection::vec(commit(), 1..80)
    ) {
        let mut chain = Chain::new();
        for (facts, is_read_again) in commits {
            chain.say(facts);
            if is_read_again {
                chain.read_again();
            }
            let (bytes, left) = chain.weight();
            prop_assert!(bytes <= 3 * left + 2 * LITTLE, "{} of {}", bytes, left);
            prop_assert!(chain.blobs.len() < 16, "{}", chain.blobs.len());
        }
        prop_assert!(chain.is_same());
    }
}

/// Older builds left a blob for each attempt.
#[test]
fn what_older_builds_left_goes_away_little_by_little() {
    let mut chain = Chain::new();
    let attempt = |n: u32| {
        let (attempt, at, seq) = (Attempt(n), Timestamp(u64::from(n)), Seq(1));
        let (incarnation, failure) = (Incarnation(1), Failure::panic("x".repeat(3_000)));
        let due = at;
        vec![
            Fact::AttemptStarted {
                seq,
                attempt,
                incarnation,
                at,
            },
            Fact::AttemptFailed { seq, failure, due },
        ]
    };
    for n in 1..=1_000 {
        chain.layers.clear();
        chain.say(attempt(n));
    }
    assert_eq!(chain.blobs.len(), 1_001);
    for n in 1_001..=1_020 {
        let before = chain.blobs.len();
        chain.read_again();
        chain.say(attempt(n));
        assert!(
            before - chain.blobs.len() < MOST,
            "a bounded number at once"
        );
    }
    assert_eq!(chain.blobs.len(), 2);
    assert!(chain.is_same());
}
