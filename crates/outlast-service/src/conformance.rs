//! The promises of the store port as code: one function per promise, run on every driver.
//!
//! A driver of somebody else passes when [`suite`] returns. Each promise gets a fresh
//! [`Subject`], which can lose its process: dropping the owner without a word and opening what it
//! left is how most promises are put to the test.

use outlast_model::id::{Epoch, RunId, Version};
use outlast_model::post::PostNo;
use outlast_model::record::{self, Fact, Record};
use outlast_model::task::RunNo;
use outlast_model::{Status, Timestamp};

use crate::store::{Attention, Boot, Commit, CommitNo, Expect, Loaded, RowState, RunRow, Store};

mod commit;
mod life;
mod post;
mod read;
mod replace;

/// A store under test.
pub trait Subject {
    /// The store. Empty and not booted at first.
    fn store(&self) -> &dyn Store;

    /// The owner dies without a word; what it left is opened by a new one, not yet booted.
    fn crash(&mut self);
}

/// One thing a store promises; panics when it does not hold.
pub type Promise = fn(&mut dyn Subject);

/// All of them, with their names.
pub const PROMISES: &[(&str, Promise)] = &[
    (
        "a group is written as a whole",
        commit::a_group_is_written_as_a_whole,
    ),
    (
        "a group may build on itself",
        commit::a_group_may_build_on_itself,
    ),
    (
        "a stale version is a conflict",
        commit::a_stale_version_is_a_conflict,
    ),
    (
        "a stale epoch is a conflict",
        commit::a_stale_epoch_is_a_conflict,
    ),
    ("a run begins once", commit::a_run_begins_once),
    (
        "a run that is not there is a conflict",
        commit::a_run_that_is_not_there_is_a_conflict,
    ),
    (
        "a broken chain is a conflict",
        commit::a_broken_chain_is_a_conflict,
    ),
    (
        "a conflict names its run and heals by itself",
        commit::a_conflict_heals_by_itself,
    ),
    (
        "a commit number is used once",
        commit::a_commit_number_is_used_once,
    ),
    (
        "an empty group is written",
        commit::an_empty_group_is_written,
    ),
    (
        "a joined commit is written with the one before it",
        commit::a_joined_commit_is_written_with_the_one_before_it,
    ),
    (
        "a commit takes the place of the newest ones",
        replace::a_commit_takes_the_place_of_the_newest_ones,
    ),
    (
        "what a group wrote it may replace",
        replace::what_a_group_wrote_it_may_replace,
    ),
    (
        "a refused group replaces nothing",
        replace::a_refused_group_replaces_nothing,
    ),
    (
        "only the end of a chain is replaced",
        replace::only_the_end_of_a_chain_is_replaced,
    ),
    (
        "nothing goes on from what was replaced",
        replace::nothing_goes_on_from_what_was_replaced,
    ),
    (
        "a snapshot stays below what is replaced",
        replace::a_snapshot_stays_below_what_is_replaced,
    ),
    (
        "readers see all of the old or all of the new",
        replace::readers_see_all_of_the_old_or_all_of_the_new,
    ),
    ("blobs come back in order", read::blobs_come_back_in_order),
    (
        "a row comes back as it was given",
        read::a_row_comes_back_as_it_was_given,
    ),
    (
        "a chain keeps its first run",
        read::a_chain_keeps_its_first_run,
    ),
    (
        "a snapshot spares what is before it",
        read::a_snapshot_spares_what_is_before_it,
    ),
    (
        "a snapshot falls with its commit",
        read::a_snapshot_falls_with_its_commit,
    ),
    ("a missing run is missing", read::a_missing_run_is_missing),
    (
        "runs of an id come newest first",
        read::runs_of_an_id_come_newest_first,
    ),
    ("a run is found by its id", read::a_run_is_found_by_its_id),
    (
        "lists are filtered and paged",
        read::lists_are_filtered_and_paged,
    ),
    (
        "what is acknowledged survives a crash",
        life::what_is_acknowledged_survives_a_crash,
    ),
    (
        "a boot tells of open runs and counters",
        life::a_boot_tells_of_open_runs_and_counters,
    ),
    (
        "only an orderly stop is clean",
        life::only_an_orderly_stop_is_clean,
    ),
    (
        "opening again keeps everything",
        life::opening_again_keeps_everything,
    ),
    (
        "nothing is written without an owner",
        life::nothing_is_written_without_an_owner,
    ),
    (
        "posts wait in order until they are taken",
        post::posts_wait_in_order_until_they_are_taken,
    ),
    (
        "a post may be taken by the group that writes it",
        post::a_post_may_be_taken_by_the_group_that_writes_it,
    ),
    (
        "taking what is not there is no conflict",
        post::taking_what_is_not_there_is_no_conflict,
    ),
    (
        "a refused group writes no post and takes none",
        post::a_refused_group_writes_no_post_and_takes_none,
    ),
    (
        "a post number is used once",
        post::a_post_number_is_used_once,
    ),
    (
        "numbers of posts never go back",
        post::numbers_of_posts_never_go_back,
    ),
    (
        "what is forgotten stays forgotten after an orderly stop",
        post::what_is_forgotten_stays_forgotten_after_an_orderly_stop,
    ),
    (
        "a forgotten post that comes back can be forgotten again",
        post::a_forgotten_post_that_comes_back_can_be_forgotten_again,
    ),
];

/// Holds a driver to every promise.
///
/// # Panics
/// When one does not hold.
pub fn suite(make: &dyn Fn() -> Box<dyn Subject>) {
    for (_, promise) in PROMISES {
        promise(make().as_mut());
    }
}

/// The first commit of a run.
pub fn start(run: u64, commit: u64, workflow_id: &str) -> Commit {
    let blob = blob(commit);
    let state = RowState {
        status: Status::Running,
        version: Version(1),
        epoch: Epoch(0),
        head: CommitNo(commit),
        events: 3,
        bytes: size(&blob),
        closed: None,
        wake: None,
        attention: Attention::TASK,
    };
    let row = RunRow {
        no: RunNo(run),
        workflow_id: workflow_id.into(),
        run_id: run_id(run),
        workflow_type: "checkout".into(),
        queue: "default".into(),
        started: Timestamp(1_000_000 + run),
        first_run: None,
        state,
    };
    Commit {
        id: CommitNo(commit),
        prev: CommitNo(0),
        expect: Expect::New,
        row,
        blob,
        snapshot: None,
        posts: Vec::new(),
        taken: Vec::new(),
        is_joined: false,
        replaces: Vec::new(),
    }
}

/// The commit of the same run after this one.
#[must_use]
pub fn follow(last: &Commit, commit: u64) -> Commit {
    let blob = blob(commit);
    let mut next = last.clone();
    next.id = CommitNo(commit);
    next.prev = last.id;
    next.expect = Expect::At(last.row.state.version, last.row.state.epoch);
    next.row.state.version.0 += 1;
    next.row.state.head = next.id;
    next.row.state.events += 2;
    next.row.state.bytes += size(&blob);
    next.row.state.attention = Attention::ATTEMPTS;
    next.blob = blob;
    next.snapshot = None;
    next.posts = Vec::new();
    next.taken = Vec::new();
    next.is_joined = false;
    next.replaces = Vec::new();
    next
}

/// A commit that takes the place of the newest ones of a run, which come newest first.
///
/// # Panics
/// When there are none.
#[must_use]
pub fn replace(replaced: &[&Commit], commit: u64) -> Commit {
    let (newest, oldest) = (replaced[0], replaced[replaced.len() - 1]);
    let mut next = follow(newest, commit);
    next.prev = oldest.prev;
    next.replaces = replaced.iter().map(|commit| commit.id).collect();
    let state = &mut next.row.state;
    state.version.0 -= replaced.len() as u64;
    (state.events, state.bytes) = (newest.row.state.events, newest.row.state.bytes);
    next
}

/// The same, ending the run.
#[must_use]
pub fn finish(last: &Commit, commit: u64) -> Commit {
    let mut next = follow(last, commit);
    next.row.state.status = Status::Completed;
    next.row.state.closed = Some(Timestamp(9_000_000 + commit));
    next.row.state.attention = Attention::default();
    next
}

/// A blob like no other: framed and whole.
pub fn blob(commit: u64) -> Vec<u8> {
    let epoch = Epoch(u32::try_from(commit).unwrap_or(u32::MAX));
    record::encode(&[Record::Fact(Fact::EpochRaised { epoch })])
}

/// A post like no other: framed and whole.
pub fn post(number: u64) -> (PostNo, Vec<u8>) {
    (PostNo(number), record::frame(&number))
}

/// The id that [`start`] gives to the run of this number.
pub fn run_id(run: u64) -> RunId {
    RunId::v7(
        run,
        u128::from(run).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835),
    )
}

fn size(blob: &[u8]) -> u64 {
    u64::try_from(blob.len()).unwrap_or(u64::MAX)
}

fn boot(subject: &dyn Subject) -> Boot {
    subject.store().boot().expect("the store boots")
}

fn write(subject: &dyn Subject, group: &[Commit]) {
    subject.store().commit(group).expect("the group fits");
}

fn load(subject: &dyn Subject, run: u64) -> Loaded {
    subject.store().load(RunNo(run)).expect("the run is there")
}

fn history(subject: &dyn Subject, run: u64) -> Vec<Vec<u8>> {
    subject
        .store()
        .history(RunNo(run))
        .expect("the run is there")
}
