//! Promises about reading: what was written comes back, in order, and can be found.

use outlast_model::id::Version;
use outlast_model::record;
use outlast_model::task::RunNo;
use outlast_model::view::ListFilter;
use outlast_model::{Status, Timestamp};

use super::{Subject, blob, boot, finish, follow, history, load, run_id, start, write};
use crate::store::{Attention, Commit, CommitError, ReadError};

pub(super) fn blobs_come_back_in_order(subject: &mut dyn Subject) {
    boot(subject);
    let mut one = start(1, 1, "a");
    let mut two = start(2, 2, "b");
    write(subject, &[one.clone(), two.clone()]);
    for round in 1..20 {
        one = follow(&one, round * 2 + 1);
        two = follow(&two, round * 2 + 2);
        write(subject, &[one.clone(), two.clone()]);
    }
    let odd: Vec<_> = (0..20).map(|n| blob(n * 2 + 1)).collect();
    assert_eq!(history(subject, 1), odd);
    let loaded = load(subject, 1);
    assert_eq!(
        (loaded.row, loaded.snapshot, loaded.blobs),
        (one.row, None, odd)
    );
}

pub(super) fn a_row_comes_back_as_it_was_given(subject: &mut dyn Subject) {
    boot(subject);
    let mut commits = Vec::new();
    for (number, status) in (1..).zip(Status::ALL) {
        let mut commit = start(
            number,
            number,
            "an id with blanks, \"quotes\" and \u{fc}mlauts",
        );
        commit.row.state.status = status;
        commit.row.state.attention = Attention(31);
        commit.row.state.wake = Some(if number == 1 {
            Timestamp::MAX
        } else {
            Timestamp(0)
        });
        commit.row.state.closed = Some(Timestamp(number));
        commit.row.state.epoch.0 = u32::MAX;
        commit.row.queue = "".into();
        commits.push(commit);
    }
    write(subject, &commits);
    subject.crash();
    boot(subject);
    for commit in commits {
        assert_eq!(load(subject, commit.row.no.0).row, commit.row);
    }
}

pub(super) fn a_chain_keeps_its_first_run(subject: &mut dyn Subject) {
    boot(subject);
    let first = start(1, 1, "a");
    let mut next = start(2, 2, "a");
    next.row.first_run = Some(run_id(1));
    let ended = finish(&first, 3);
    write(subject, &[first, next.clone(), ended.clone()]);
    let later = follow(&next, 4);
    write(subject, std::slice::from_ref(&later));
    for _ in 0..2 {
        let rows = vec![later.row.clone(), ended.row.clone()];
        assert_eq!(subject.store().find(&"a".into(), 9), Ok(rows.clone()));
        assert_eq!(subject.store().list(&ListFilter::default()), Ok(rows));
        assert_eq!(load(subject, 2).row.first_run, Some(run_id(1)));
        assert_eq!(
            subject.store().find_run(run_id(2)),
            Ok(Some(later.row.clone()))
        );
        subject.crash();
        assert_eq!(boot(subject).open, std::slice::from_ref(&later.row));
    }
}

pub(super) fn a_snapshot_spares_what_is_before_it(subject: &mut dyn Subject) {
    boot(subject);
    let one = start(1, 1, "a");
    let two = with_snapshot(follow(&one, 2), 2);
    let three = follow(&two, 3);
    write(subject, &[one, two]);
    let loaded = load(subject, 1);
    assert_eq!(loaded.snapshot, Some((Version(2), snapshot(2))));
    assert!(loaded.blobs.is_empty());
    write(subject, std::slice::from_ref(&three));
    let loaded = load(subject, 1);
    assert_eq!(loaded.snapshot, Some((Version(2), snapshot(2))));
    assert_eq!(loaded.blobs, [blob(3)]);
    let four = with_snapshot(follow(&three, 4), 4);
    write(subject, &[four]);
    assert_eq!(load(subject, 1).snapshot, Some((Version(4), snapshot(4))));
    assert_eq!(history(subject, 1), [blob(1), blob(2), blob(3), blob(4)]);
}

pub(super) fn a_snapshot_falls_with_its_commit(subject: &mut dyn Subject) {
    boot(subject);
    let one = start(1, 1, "a");
    write(subject, std::slice::from_ref(&one));
    let refused = [with_snapshot(follow(&one, 2), 2), start(1, 3, "a")];
    let outcome = subject.store().commit(&refused);
    assert_eq!(outcome, Err(CommitError::Conflict { run: RunNo(1) }));
    assert_eq!(load(subject, 1).snapshot, None);
    subject.crash();
    boot(subject);
    assert_eq!(load(subject, 1).snapshot, None);
}

pub(super) fn a_missing_run_is_missing(subject: &mut dyn Subject) {
    boot(subject);
    assert_eq!(subject.store().load(RunNo(1)), Err(ReadError::Missing));
    assert_eq!(subject.store().history(RunNo(1)), Err(ReadError::Missing));
    assert_eq!(subject.store().find(&"a".into(), 3), Ok(Vec::new()));
    assert_eq!(subject.store().find_run(run_id(1)), Ok(None));
    assert_eq!(subject.store().list(&ListFilter::default()), Ok(Vec::new()));
}

pub(super) fn runs_of_an_id_come_newest_first(subject: &mut dyn Subject) {
    boot(subject);
    let group: Vec<_> = (1..=9)
        .map(|n| start(n, n, if n % 3 == 0 { "third" } else { "other" }))
        .collect();
    write(subject, &group);
    for _ in 0..2 {
        assert_eq!(found(subject, "third", 9), [9, 6, 3]);
        assert_eq!(found(subject, "third", 2), [9, 6]);
        assert!(found(subject, "third", 0).is_empty());
        assert!(found(subject, "thir", 9).is_empty());
        subject.crash();
        boot(subject);
    }
}

pub(super) fn a_run_is_found_by_its_id(subject: &mut dyn Subject) {
    boot(subject);
    let one = start(1, 1, "a");
    let two = start(2, 2, "a");
    write(subject, &[one, two.clone()]);
    assert_eq!(
        subject.store().find_run(run_id(2)),
        Ok(Some(two.row.clone()))
    );
    assert_eq!(subject.store().find_run(run_id(3)), Ok(None));
    subject.crash();
    boot(subject);
    assert_eq!(subject.store().find_run(run_id(2)), Ok(Some(two.row)));
}

pub(super) fn lists_are_filtered_and_paged(subject: &mut dyn Subject) {
    boot(subject);
    let mut group: Vec<_> = (1..=120).map(|n| start(n, n, "a")).collect();
    for commit in group.iter_mut().filter(|c| c.row.no.0 % 2 == 0) {
        commit.row.workflow_type = "refund".into();
    }
    let ends: Vec<_> = (1..=4)
        .map(|n| finish(&group[n - 1], 200 + n as u64))
        .collect();
    write(subject, &group);
    write(subject, &ends);
    let list = |filter: ListFilter| {
        let rows = subject.store().list(&filter).expect("the store lists");
        rows.into_iter().map(|row| row.no.0).collect::<Vec<_>>()
    };
    let base = ListFilter::default;
    let hundred: Vec<u64> = (21..=120).rev().collect();
    assert_eq!(list(base()), hundred);
    let page = |before| ListFilter {
        limit: 2,
        before: Some(run_id(before)),
        ..base()
    };
    assert_eq!(list(page(119)), [118, 117]);
    assert!(list(page(1)).is_empty());
    assert!(list(page(999)).is_empty());
    let done = ListFilter {
        status: Some(Status::Completed),
        ..base()
    };
    assert_eq!(list(done.clone()), [4, 3, 2, 1]);
    let refunds = ListFilter {
        workflow_type: Some("refund".into()),
        ..done
    };
    assert_eq!(list(refunds.clone()), [4, 2]);
    let open = ListFilter {
        status: Some(Status::Running),
        limit: 2,
        ..refunds
    };
    assert_eq!(list(open), [120, 118]);
}

fn found(subject: &dyn Subject, id: &str, limit: usize) -> Vec<u64> {
    let rows = subject
        .store()
        .find(&id.into(), limit)
        .expect("the store finds");
    rows.into_iter().map(|row| row.no.0).collect()
}

fn with_snapshot(mut commit: Commit, value: u64) -> Commit {
    commit.snapshot = Some(snapshot(value));
    commit
}

fn snapshot(value: u64) -> Vec<u8> {
    record::frame(&value)
}
