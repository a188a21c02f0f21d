//! Planted bugs: the simulator must find each of them, which shows that it can find anything.
//!
//! Without the feature `planted` every question is a constant `false` and costs nothing.

/// A bug that can be switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A client is answered before its commit is durable.
    AnswerBeforeCommit = 1,
    /// A due time is not armed.
    LostTimer = 2,
    /// A commit with an old epoch goes through.
    StaleEpochAccepted = 3,
    /// An outcome of an operation that already has one is recorded again.
    OutcomeTwice = 4,
    /// Messages buffered during the closing slice are forgotten.
    BufferDroppedAtClose = 5,
    /// An attempt starts before the commit that records it.
    EffectBeforeCommit = 6,
    /// A snapshot claims a version that the history does not have yet.
    SnapshotNewerThanHistory = 7,
    /// The request id of a start is not kept.
    RequestIdNotStored = 8,
    /// The outcome of an old attempt counts for the new one.
    AttemptNotFenced = 9,
    /// Dropping an evicted instance still makes commands.
    EvictionEmitsCommands = 10,
    /// A replay tells updates before everything else, wherever they stood.
    UpdateReplayedFirst = 11,
    /// A replay delivers every step a round too late.
    StepReplayedLate = 12,
    /// A replay runs handlers behind the code that was woken with them.
    HandlerReplayedLast = 13,
    /// A sender looks whether somebody sleeps before its mail is there.
    WakeBeforePut = 14,
    /// What a run says to another arrives before the commit that says it.
    PostBeforeCommit = 15,
    /// What is said to a run whose code is busy is taken and has no effect.
    PostWithoutEffect = 16,
    /// Messages that came during the last slice do not go on to the next run.
    SuccessorWithoutMessages = 17,
    /// An update is answered before its commit is durable.
    UpdateBeforeCommit = 18,
    /// An update that has its outcome runs again when it is repeated.
    UpdateRunsAgain = 19,
    /// A parent that is not in memory never hears of its child.
    ChildOutcomeLost = 20,
    /// Outcomes that come while code waits for the disk are not put away when the process goes
    /// down.
    MailLeftAtStop = 21,
    /// What is due a while after an event is due a while after the time it shows, which a clock
    /// that was ahead for a moment has moved.
    DueFromShownTime = 22,
    /// A store that is opened again trusts what the log shows, and writes nothing of its own
    /// before it answers.
    ReopenUnsynced = 23,
    /// A store that is opened again makes the file if it is not there.
    CreatedOnReopen = 24,
    /// A commit of facts that pass takes the place of one that has an event.
    EventReplaced = 25,
    /// Of the failures of an activity the oldest is kept, not the newest.
    OlderFailureKept = 26,
    /// A commit is answered when it is in the log, before the log is synced.
    AnswerUnsynced = 27,
    /// The log is begun anew before the database it was copied into is synced.
    CheckpointUnsynced = 28,
    /// Outcomes in a commit that was not written are forgotten with it.
    OutcomeRolledBack = 31,
    /// Attempts that run while a commit is not written count as lost.
    AttemptRolledBack = 32,
    /// A call that lost a race, or that nobody waits for any more, forgets its undo.
    UndoForgotten = 33,
    /// What is to be undone is undone twice.
    UndoTwice = 34,
}

impl Bug {
    /// Those that the simulator hunts.
    pub const ALL: [Self; 22] = [
        Self::AnswerBeforeCommit,
        Self::LostTimer,
        Self::StaleEpochAccepted,
        Self::OutcomeTwice,
        Self::BufferDroppedAtClose,
        Self::EffectBeforeCommit,
        Self::SnapshotNewerThanHistory,
        Self::RequestIdNotStored,
        Self::AttemptNotFenced,
        Self::EvictionEmitsCommands,
        Self::PostBeforeCommit,
        Self::PostWithoutEffect,
        Self::SuccessorWithoutMessages,
        Self::UpdateBeforeCommit,
        Self::UpdateRunsAgain,
        Self::ChildOutcomeLost,
        Self::MailLeftAtStop,
        Self::DueFromShownTime,
        Self::EventReplaced,
        Self::OlderFailureKept,
        Self::OutcomeRolledBack,
        Self::AttemptRolledBack,
    ];

    /// Those that only a disk shows: images of power cuts must find each of them.
    pub const STORE: [Self; 4] = [
        Self::ReopenUnsynced,
        Self::CreatedOnReopen,
        Self::AnswerUnsynced,
        Self::CheckpointUnsynced,
    ];

    /// Undos that are forgotten or repeated: random programs over a ledger must find each of them.
    pub const UNDO: [Self; 2] = [Self::UndoForgotten, Self::UndoTwice];

    /// Replays that are not what happened: random programs must find each of them.
    pub const REPLAY: [Self; 3] = [
        Self::UpdateReplayedFirst,
        Self::StepReplayedLate,
        Self::HandlerReplayedLast,
    ];
}

#[cfg(feature = "planted")]
static PLANTED: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

/// Switches one bug on, or all off. Process-wide: the simulator runs one bug at a time.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    let number = bug.map_or(0, |b| b as u32);
    PLANTED.store(number, core::sync::atomic::Ordering::SeqCst);
}

/// Whether this bug is on.
#[cfg(feature = "planted")]
pub fn is_planted(bug: Bug) -> bool {
    PLANTED.load(core::sync::atomic::Ordering::Relaxed) == bug as u32
}

/// Whether this bug is on: never, in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is_planted(_: Bug) -> bool {
    false
}
