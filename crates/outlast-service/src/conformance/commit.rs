//! Promises about writing: all or nothing, and only on top of what was expected.

use outlast_model::id::Epoch;
use outlast_model::task::RunNo;

use super::{Subject, blob, boot, finish, follow, history, load, start, write};
use crate::store::{Commit, CommitError, CommitNo, Expect, ReadError};

pub(super) fn a_group_is_written_as_a_whole(subject: &mut dyn Subject) {
    boot(subject);
    let first = start(1, 1, "a");
    write(subject, std::slice::from_ref(&first));
    let stale = follow(&follow(&first, 2), 5);
    let refused = [follow(&first, 3), start(2, 4, "b"), stale];
    assert_conflict(subject, &refused[2..], 1);
    let mut group = refused;
    group[0] = start(3, 3, "c");
    assert_conflict(subject, &group, 1);
    subject.crash();
    let found = boot(subject);
    assert_eq!(found.open, [first.row]);
    assert_eq!(found.last_commit, CommitNo(1));
    assert_eq!(subject.store().load(RunNo(2)), Err(ReadError::Missing));
    assert_eq!(subject.store().find(&"b".into(), 9), Ok(Vec::new()));
}

pub(super) fn a_group_may_build_on_itself(subject: &mut dyn Subject) {
    boot(subject);
    let one = start(1, 1, "a");
    let two = follow(&one, 2);
    let other = start(2, 3, "b");
    let three = finish(&two, 4);
    write(subject, &[one, two, other.clone(), three.clone()]);
    assert_eq!(load(subject, 1).row, three.row);
    assert_eq!(history(subject, 1), [blob(1), blob(2), blob(4)]);
    assert_eq!(load(subject, 2).row, other.row);
}

pub(super) fn a_stale_version_is_a_conflict(subject: &mut dyn Subject) {
    boot(subject);
    let one = start(1, 1, "a");
    let two = follow(&one, 2);
    write(subject, &[one.clone(), two.clone()]);
    assert_conflict(subject, &[follow(&one, 3)], 1);
    let mut ahead = follow(&follow(&two, 4), 5);
    ahead.prev = two.id;
    assert_conflict(subject, &[ahead], 1);
    assert_eq!(load(subject, 1).row, two.row);
}

pub(super) fn a_stale_epoch_is_a_conflict(subject: &mut dyn Subject) {
    boot(subject);
    let one = start(1, 1, "a");
    let mut raised = follow(&one, 2);
    raised.row.state.epoch = Epoch(1);
    write(subject, &[one, raised.clone()]);
    let mut stale = follow(&raised, 3);
    stale.expect = Expect::At(raised.row.state.version, Epoch(0));
    assert_conflict(subject, &[stale], 1);
    write(subject, &[follow(&raised, 4)]);
}

pub(super) fn a_run_begins_once(subject: &mut dyn Subject) {
    boot(subject);
    let one = start(1, 1, "a");
    write(subject, std::slice::from_ref(&one));
    assert_conflict(subject, &[start(1, 2, "b")], 1);
    assert_conflict(subject, &[start(2, 3, "c"), start(2, 4, "c")], 2);
    assert_eq!(load(subject, 1).row, one.row);
}

pub(super) fn a_run_that_is_not_there_is_a_conflict(subject: &mut dyn Subject) {
    boot(subject);
    assert_conflict(subject, &[follow(&start(7, 1, "a"), 2)], 7);
}

pub(super) fn a_broken_chain_is_a_conflict(subject: &mut dyn Subject) {
    boot(subject);
    let one = start(1, 1, "a");
    write(subject, std::slice::from_ref(&one));
    let mut elsewhere = follow(&one, 3);
    elsewhere.prev = CommitNo(2);
    assert_conflict(subject, &[elsewhere], 1);
    let mut rootless = start(2, 4, "b");
    rootless.prev = CommitNo(1);
    assert_conflict(subject, &[rootless], 2);
}

pub(super) fn a_conflict_heals_by_itself(subject: &mut dyn Subject) {
    boot(subject);
    let one = start(1, 1, "a");
    write(subject, std::slice::from_ref(&one));
    assert_conflict(subject, &[start(2, 2, "b"), start(1, 3, "a")], 1);
    // Numbers of a refused group are free again, and the store takes the next one.
    write(subject, &[start(2, 2, "b"), follow(&one, 3)]);
    assert_eq!(history(subject, 1), [blob(1), blob(3)]);
}

pub(super) fn a_commit_number_is_used_once(subject: &mut dyn Subject) {
    boot(subject);
    let one = start(1, 1, "a");
    write(subject, std::slice::from_ref(&one));
    let used = subject.store().commit(&[start(2, 1, "b")]);
    assert!(matches!(used, Err(CommitError::Failed { .. })), "{used:?}");
    let next = subject.store().commit(&[start(2, 2, "b")]);
    assert!(
        matches!(next, Err(CommitError::Failed { .. })),
        "failed until reopened: {next:?}"
    );
    let found = subject.store().reopen().expect("the store opens again");
    assert_eq!(
        (found.open, found.last_commit),
        (vec![one.row], CommitNo(1))
    );
    write(subject, &[start(2, 2, "b")]);
}

pub(super) fn a_joined_commit_is_written_with_the_one_before_it(subject: &mut dyn Subject) {
    boot(subject);
    let one = start(1, 1, "a");
    write(subject, &[one.clone(), start(2, 2, "b")]);
    let last = finish(&one, 3);
    let mut next = start(2, 4, "a");
    next.is_joined = true;
    // Whichever of the two does not fit, the other is not there either.
    assert_conflict(subject, &[last.clone(), next.clone()], 2);
    next = start(3, 4, "a");
    next.is_joined = true;
    assert_conflict(subject, &[follow(&last, 3), next.clone()], 1);
    subject.crash();
    assert_eq!(boot(subject).open[0], one.row);
    assert_eq!(subject.store().load(RunNo(3)), Err(ReadError::Missing));
    write(subject, &[last.clone(), next.clone()]);
    assert_eq!(load(subject, 1).row, last.row);
    assert_eq!(load(subject, 3).row, next.row);
}

pub(super) fn an_empty_group_is_written(subject: &mut dyn Subject) {
    boot(subject);
    write(subject, &[]);
    assert_eq!(boot(subject).last_commit, CommitNo(0));
}

pub(super) fn assert_conflict(subject: &dyn Subject, group: &[Commit], run: u64) {
    let refused = Err(CommitError::Conflict { run: RunNo(run) });
    assert_eq!(subject.store().commit(group), refused);
}
