//! Promises about blobs that take the place of others.

use std::sync::atomic::{AtomicBool, Ordering};

use outlast_model::id::Version;
use outlast_model::record;
use outlast_model::task::RunNo;

use super::commit::assert_conflict;
use super::{Subject, blob, boot, finish, follow, history, load, replace, start, write};
use crate::store::{Commit, CommitNo, Store};

pub(super) fn a_commit_takes_the_place_of_the_newest_ones(subject: &mut dyn Subject) {
    boot(subject);
    let one = start(1, 1, "a");
    let two = follow(&one, 2);
    let three = follow(&two, 3);
    let four = follow(&three, 4);
    write(subject, &[one, two, three.clone(), four.clone()]);
    let five = replace(&[&four, &three], 5);
    assert_eq!(five.row.state.version, Version(3));
    write(subject, std::slice::from_ref(&five));
    assert_eq!(history(subject, 1), [blob(1), blob(2), blob(5)]);
    subject.crash();
    let found = boot(subject);
    assert_eq!((found.last_commit, &found.open[0]), (five.id, &five.row));
    let loaded = load(subject, 1);
    assert_eq!(loaded.blobs, [blob(1), blob(2), blob(5)]);
    assert_eq!(loaded.numbers, [1, 2, 5].map(CommitNo));
    // And so on: the last of them stays where the first was.
    let six = replace(&[&five], 6);
    let seven = finish(&six, 7);
    write(subject, &[six, seven.clone()]);
    subject.crash();
    boot(subject);
    assert_eq!(history(subject, 1), [blob(1), blob(2), blob(6), blob(7)]);
    assert_eq!(load(subject, 1).row, seven.row);
}

pub(super) fn what_a_group_wrote_it_may_replace(subject: &mut dyn Subject) {
    boot(subject);
    let one = start(1, 1, "a");
    let two = follow(&one, 2);
    let three = replace(&[&two], 3);
    let four = replace(&[&three], 4);
    write(subject, &[one, two, three, four.clone()]);
    assert_eq!(history(subject, 1), [blob(1), blob(4)]);
    assert_eq!(load(subject, 1).row, four.row);
    write(subject, &[follow(&four, 5)]);
}

pub(super) fn a_refused_group_replaces_nothing(subject: &mut dyn Subject) {
    boot(subject);
    let one = start(1, 1, "a");
    let two = follow(&one, 2);
    write(subject, &[one.clone(), two.clone()]);
    let three = replace(&[&two], 3);
    assert_conflict(subject, &[three.clone(), start(1, 4, "b")], 1);
    assert_eq!(history(subject, 1), [blob(1), blob(2)]);
    subject.crash();
    assert_eq!(boot(subject).open, [two.row]);
    assert_eq!(history(subject, 1), [blob(1), blob(2)]);
    write(subject, &[three]);
    assert_eq!(history(subject, 1), [blob(1), blob(3)]);
}

pub(super) fn only_the_end_of_a_chain_is_replaced(subject: &mut dyn Subject) {
    boot(subject);
    let one = start(1, 1, "a");
    let two = follow(&one, 2);
    let three = follow(&two, 3);
    write(subject, &[one.clone(), two.clone(), three.clone()]);
    write(subject, &[start(2, 4, "b")]);
    let with = |replaces: &[u64], prev: u64| Commit {
        replaces: replaces.iter().copied().map(CommitNo).collect(),
        prev: CommitNo(prev),
        ..replace(&[&three], 5)
    };
    for wrong in [
        with(&[2], 1),
        with(&[3], 1),
        with(&[3], 0),
        with(&[3, 1], 0),
        with(&[3, 2], 4),
        with(&[3, 4], 0),
        with(&[3, 3], 2),
        with(&[3, 2, 9], 1),
    ] {
        assert_conflict(subject, &[wrong], 1);
    }
    assert_eq!(history(subject, 1), [blob(1), blob(2), blob(3)]);
    assert_eq!(history(subject, 2), [blob(4)]);
}

/// A number of blobs that is the same before and after does not hide that they are others.
pub(super) fn nothing_goes_on_from_what_was_replaced(subject: &mut dyn Subject) {
    boot(subject);
    let one = start(1, 1, "a");
    let two = follow(&one, 2);
    let three = replace(&[&two], 3);
    write(subject, &[one, two.clone(), three.clone()]);
    assert_eq!(two.row.state.version, three.row.state.version);
    assert_conflict(subject, &[follow(&two, 4)], 1);
    assert_conflict(subject, &[replace(&[&two], 4)], 1);
    for again in [two, three.clone()] {
        assert_conflict(subject, &[again], 1);
    }
    write(subject, &[follow(&three, 4)]);
    assert_eq!(history(subject, 1), [blob(1), blob(3), blob(4)]);
}

pub(super) fn a_snapshot_stays_below_what_is_replaced(subject: &mut dyn Subject) {
    boot(subject);
    let one = start(1, 1, "a");
    let mut two = follow(&one, 2);
    two.snapshot = Some(record::frame(&2_u64));
    let three = follow(&two, 3);
    let four = follow(&three, 4);
    let five = replace(&[&four, &three], 5);
    write(subject, &[one, two, three, four, five]);
    subject.crash();
    boot(subject);
    let loaded = load(subject, 1);
    assert_eq!(loaded.snapshot, Some((Version(2), record::frame(&2_u64))));
    assert_eq!(
        (loaded.blobs, loaded.numbers),
        (vec![blob(5)], vec![CommitNo(5)])
    );
    assert_eq!(loaded.before, CommitNo(2));
}

pub(super) fn readers_see_all_of_the_old_or_all_of_the_new(subject: &mut dyn Subject) {
    boot(subject);
    let one = start(1, 1, "a");
    let two = follow(&one, 2);
    write(subject, &[one, two.clone()]);
    let (store, is_over) = (subject.store(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut looks = 0_u32;
            while !is_over.load(Ordering::Acquire) || looks == 0 {
                assert_whole(store);
                looks += 1;
            }
        });
        let mut last = two;
        for commit in 3..60 {
            let next = replace(&[&last], commit);
            store.commit(std::slice::from_ref(&next)).expect("it fits");
            last = next;
        }
        is_over.store(true, Ordering::Release);
        reader.join().expect("the reader found everything whole");
    });
    assert_eq!(history(subject, 1), [blob(1), blob(59)]);
}

fn assert_whole(store: &dyn Store) {
    let blobs = store.history(RunNo(1)).expect("all of it is there");
    assert_eq!((blobs.len(), &blobs[0]), (2, &blob(1)));
    let loaded = store.load(RunNo(1)).expect("all of it is there");
    let head = loaded.row.state.head;
    assert_eq!(loaded.blobs, [blob(1), blob(head.0)]);
    assert_eq!(loaded.numbers, [CommitNo(1), head]);
}
