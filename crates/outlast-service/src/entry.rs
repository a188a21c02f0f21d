//! An open run as a shard knows it.

use std::collections::{BTreeMap, VecDeque};

use outlast_engine::{Decision, Effect, Input, Run};
use outlast_model::post::PostNo;
use outlast_model::start::{UpdateReply, UpdateStage};
use outlast_model::task::{AttemptToken, Query, StopReason};
use outlast_model::view::{RunOutcome, RunRef};
use outlast_model::{Payload, Record, Refusal, Timestamp, UpdateId};

use crate::layers::Layers;
use crate::mail::{Ack, Reply};
use crate::store::{CommitNo, RunRow};

/// An open run, or one whose end is not durable yet.
pub(crate) struct Entry {
    /// As decided: ahead of the disk by the commits in flight.
    pub(crate) row: RunRow,
    /// Its state, if it is in memory.
    pub(crate) run: Option<Run>,
    /// Stimuli not yet applied.
    pub(crate) mailbox: VecDeque<Letter>,
    /// Decided, not yet sealed into a commit: the slice under way belongs to it.
    pub(crate) decision: Decision,
    /// When it was left open for more, although no slice is under way.
    pub(crate) open_since: Option<Timestamp>,
    /// Payloads of mail in it.
    pub(crate) mail_bytes: usize,
    /// Answers that wait for that commit.
    pub(crate) acks: Vec<Ack>,
    /// Stimuli in it that come only once: applied again if it is not written.
    pub(crate) causes: Vec<Letter>,
    /// What others said to it, applied and not yet sealed into a commit.
    pub(crate) taken: Vec<PostNo>,
    /// Callers who wait for an update to come so far.
    pub(crate) updates: BTreeMap<UpdateId, Vec<UpdateWaiter>>,
    /// Questions about its state, until its code is at rest.
    pub(crate) queries: Vec<Question>,
    /// How many of them have waited for a whole slice: they are asked before more mail is applied,
    /// or a run that is never left alone would never answer.
    pub(crate) patient: usize,
    /// Questions its code is being asked.
    pub(crate) asked: Vec<Question>,
    /// Facts that need no commit of their own; they go with the next one.
    pub(crate) lazy: Vec<Record>,
    /// The slice under way.
    pub(crate) slice: Option<Slice>,
    /// Whether its slice holds a slot.
    pub(crate) holds_slot: bool,
    /// Whether its code waits for a slot.
    pub(crate) is_starved: bool,
    /// Whether the worker has the instance in memory.
    pub(crate) is_cached: bool,
    /// Whether it waits in the ready queue.
    pub(crate) is_queued: bool,
    /// Whether this process has looked after it: lost attempts, blocks, crash counters.
    pub(crate) is_recovered: bool,
    /// Whether its first slice must be announced on disk, after an unclean stop.
    pub(crate) arming: Arming,
    /// The due time in the shard's index.
    pub(crate) armed_wake: Option<Timestamp>,
    /// Callers who wait for its end.
    pub(crate) waiters: Vec<Reply<RunOutcome>>,
    /// How it ended, if it has.
    pub(crate) outcome: Option<RunOutcome>,
    /// How often an unacknowledged message sent its end round again.
    pub(crate) rounds: u32,
    /// Its newest commits, as far as the next one may take their place.
    pub(crate) layers: Layers,
    /// What was written since the last snapshot.
    pub(crate) unsnapped: Unsnapped,
    /// Attempts that wait for a slot: the run stays in memory for them.
    pub(crate) waiting_attempts: usize,
    /// Steps that want a slot while the instance, which has their code, is not in memory.
    pub(crate) needs_instance: bool,
    /// Whether the worker may have code of its steps: it is told when the run has ended.
    pub(crate) has_steps: bool,
    /// Whether its code waits for the newest commit to be durable, to be rebuilt from it.
    pub(crate) awaits_disk: bool,
    /// Stimuli applied since everything decided was on disk.
    pub(crate) uncommitted: usize,
    /// Whether there are so many of them that the rest of its mail waits for the disk.
    pub(crate) is_held: bool,
    /// The commit that the rest of its mail waits for.
    pub(crate) held_until: Option<CommitNo>,
    /// Its code was given up as stuck in this turn; it is let go when the thread comes back.
    pub(crate) stuck_turn: Option<u64>,
    /// Whether it was thrown back to what is on disk.
    pub(crate) past: Past,
    /// It cannot be read; it is left alone and says so.
    pub(crate) damage: Option<String>,
}

/// Whether what a process knows of a run fits its record.
#[derive(Clone, Debug, Default)]
pub(crate) enum Past {
    /// It does.
    #[default]
    Straight,
    /// It was thrown back to what is on disk: compared when it is loaded.
    ThrownBack {
        /// What callers hear whose updates the disk does not know.
        refusal: Refusal,
        /// Its attempts that are out.
        out: Vec<AttemptToken>,
        /// Attempts that were to be told to stop when this commit is on disk.
        stops: Vec<(CommitNo, Effect)>,
    },
    /// It was compared. Attempts may be out that the record will ask for once more.
    Compared,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("row", &self.row)
            .field("slice", &self.slice)
            .finish_non_exhaustive()
    }
}

/// A stimulus in a mailbox.
pub(crate) struct Letter {
    pub(crate) input: Input,
    pub(crate) from: Sender,
    /// When it was applied before, in a commit that was not written.
    pub(crate) before: Option<Timestamp>,
}

/// Who hears what became of a letter.
pub(crate) enum Sender {
    /// Nobody: it comes from this process itself.
    Nobody,
    /// A caller, when it is durable.
    Caller(Reply<()>),
    /// A caller outside who reports for an attempt: hears whether to stop.
    Report(Reply<Option<StopReason>>),
    /// A caller, when the update has come so far.
    Update(UpdateStage, Reply<UpdateReply>),
    /// Another run: the post is taken in the commit that records its effect.
    Post(PostNo),
}

/// A caller who waits for an update.
pub(crate) struct UpdateWaiter {
    pub(crate) stage: UpdateStage,
    pub(crate) reply: Reply<UpdateReply>,
}

/// A caller who asks about a run's state.
pub(crate) struct Question {
    pub(crate) query: Query,
    pub(crate) reply: Reply<Payload>,
}

impl Letter {
    /// From this process itself.
    pub(crate) fn own(input: Input) -> Self {
        Self::new(input, Sender::Nobody)
    }

    /// One that was not applied before.
    pub(crate) fn new(input: Input, from: Sender) -> Self {
        Self {
            input,
            from,
            before: None,
        }
    }
}

impl Sender {
    /// Whether somebody can be told to try again.
    pub(crate) fn is_caller(&self) -> bool {
        match self {
            Self::Nobody | Self::Post(_) => false,
            Self::Caller(_) | Self::Report(_) | Self::Update(..) => true,
        }
    }

    /// It was not carried out. A post stays where it is: it is read again with the store.
    pub(crate) fn refuse(self, refusal: &Refusal) {
        match self {
            Self::Nobody | Self::Post(_) => {}
            Self::Caller(reply) => reply(Err(refusal.clone())),
            Self::Report(reply) => reply(Err(refusal.clone())),
            Self::Update(_, reply) => reply(Err(refusal.clone())),
        }
    }
}

impl std::fmt::Debug for Letter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Letter")
            .field("input", &self.input)
            .finish_non_exhaustive()
    }
}

/// Workflow code that runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    /// Names this hand-out.
    pub(crate) turn: u64,
    /// The workflow's time.
    pub(crate) started: Timestamp,
    pub(crate) path: Path,
}

/// Whether the process may be about to die in this run's slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arming {
    /// No reason to think so.
    Unneeded,
    /// The last process died, maybe here: say so on disk before the first slice.
    Needed,
    /// Said so in this commit; the slice may start when it is durable.
    Said(CommitNo),
}

/// How a slice's outcome reaches the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// With the stimulus that caused it, in one commit.
    Fast,
    /// After the stimulus, which is committed and acknowledged on its own.
    Slow,
    /// Nothing to record: the instance is only brought back.
    Rebuild,
    /// Nothing to record: its settled state is asked about.
    Query,
}

/// What it takes to bring a run back: that decides when a snapshot is due, however short the lives
/// of the processes are that write its commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unsnapped {
    /// Blobs since the last snapshot.
    pub(crate) blobs: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Bytes of that snapshot.
    pub(crate) snapshot: u64,
}

impl Entry {
    pub(crate) fn new(row: RunRow) -> Self {
        Self {
            row,
            run: None,
            mailbox: VecDeque::new(),
            decision: Decision::default(),
            open_since: None,
            mail_bytes: 0,
            acks: Vec::new(),
            causes: Vec::new(),
            taken: Vec::new(),
            updates: BTreeMap::new(),
            queries: Vec::new(),
            patient: 0,
            asked: Vec::new(),
            lazy: Vec::new(),
            slice: None,
            holds_slot: false,
            is_starved: false,
            is_cached: false,
            is_queued: false,
            is_recovered: false,
            arming: Arming::Unneeded,
            armed_wake: None,
            waiters: Vec::new(),
            outcome: None,
            rounds: 0,
            layers: Layers::default(),
            unsnapped: Unsnapped::default(),
            waiting_attempts: 0,
            needs_instance: false,
            has_steps: false,
            awaits_disk: false,
            uncommitted: 0,
            is_held: false,
            held_until: None,
            stuck_turn: None,
            past: Past::Straight,
            damage: None,
        }
    }

    pub(crate) fn is(&self, run: &RunRef) -> bool {
        run.run_id
            .is_none_or(|id| id == self.row.run_id || Some(id) == self.row.first_run)
    }

    /// A stimulus was applied that comes only once.
    pub(crate) fn keep(&mut self, once: Option<Input>, from: Sender, at: Timestamp) {
        if let Some(input) = once {
            let before = Some(at);
            let cause = Letter {
                input,
                from,
                before,
            };
            self.causes.push(cause);
        }
    }

    /// Whether its state may leave memory: everything in it is on disk or on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.slice.is_none()
            && self.mailbox.is_empty()
            && self.decision.records.is_empty()
            && self.lazy.is_empty()
            && self.waiting_attempts == 0
            && self.acks.is_empty()
            && self.causes.is_empty()
            && self.taken.is_empty()
            && self.updates.is_empty()
            && self.queries.is_empty()
            && !self.is_queued
            && !self.is_cached
            && self.outcome.is_none()
    }
}
