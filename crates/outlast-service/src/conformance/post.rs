//! Promises about posts: written with one commit, there until another takes them, each number
//! once.

use outlast_model::post::PostNo;
use outlast_model::task::RunNo;

use super::{Subject, boot, follow, post, start, write};
use crate::store::{Boot, Commit, CommitError};

pub(super) fn posts_wait_in_order_until_they_are_taken(subject: &mut dyn Subject) {
    boot(subject);
    let one = start(1, 1, "a");
    let two = start(2, 2, "b");
    // Numbers are given before commits are put in order: a higher one may be written first.
    write(subject, &[saying(&one, &[3, 4])]);
    write(subject, &[saying(&two, &[1, 2])]);
    subject.crash();
    assert_eq!(boot(subject).posts, [post(1), post(2), post(3), post(4)]);
    assert_eq!(boot(subject).posts.len(), 4, "looking takes nothing");
    let taker = taking(&follow(&two, 3), &[3, 1]);
    write(subject, std::slice::from_ref(&taker));
    let found = subject.store().reopen().expect("the store opens again");
    assert_eq!(found.posts, [post(2), post(4)]);
    write(subject, &[taking(&follow(&taker, 4), &[2, 4])]);
    subject.crash();
    assert!(boot(subject).posts.is_empty());
}

pub(super) fn a_post_may_be_taken_by_the_group_that_writes_it(subject: &mut dyn Subject) {
    boot(subject);
    let one = saying(&start(1, 1, "a"), &[1, 2]);
    let two = taking(&saying(&start(2, 2, "b"), &[3]), &[1]);
    // The answer to a post, and the post itself gone, in one commit.
    let three = taking(&saying(&follow(&one, 3), &[4]), &[3]);
    write(subject, &[one, two, three]);
    subject.crash();
    assert_eq!(boot(subject).posts, [post(2), post(4)]);
}

pub(super) fn taking_what_is_not_there_is_no_conflict(subject: &mut dyn Subject) {
    boot(subject);
    let one = taking(&start(1, 1, "a"), &[7]);
    let two = taking(&saying(&follow(&one, 2), &[1]), &[1, 1]);
    write(subject, &[one, two.clone()]);
    write(subject, &[taking(&follow(&two, 3), &[1])]);
    assert!(boot(subject).posts.is_empty());
}

pub(super) fn a_refused_group_writes_no_post_and_takes_none(subject: &mut dyn Subject) {
    boot(subject);
    let one = saying(&start(1, 1, "a"), &[1]);
    write(subject, std::slice::from_ref(&one));
    let good = taking(&saying(&follow(&one, 2), &[2]), &[1]);
    let outcome = subject.store().commit(&[good.clone(), start(1, 3, "a")]);
    assert_eq!(outcome, Err(CommitError::Conflict { run: RunNo(1) }));
    subject.crash();
    assert_eq!(boot(subject).posts, [post(1)]);
    write(subject, &[good]);
    assert_eq!(boot(subject).posts, [post(2)], "its number is free again");
}

pub(super) fn a_post_number_is_used_once(subject: &mut dyn Subject) {
    boot(subject);
    let one = saying(&start(1, 1, "a"), &[1]);
    write(subject, std::slice::from_ref(&one));
    let twice = taking(&saying(&start(3, 4, "c"), &[2, 2]), &[1]);
    for group in [[saying(&start(2, 2, "b"), &[1])], [twice]] {
        let used = subject.store().commit(&group);
        assert!(matches!(used, Err(CommitError::Failed { .. })), "{used:?}");
        let found = subject.store().reopen().expect("the store opens again");
        assert_eq!((found.open.len(), found.posts), (1, vec![post(1)]));
    }
    write(subject, &[saying(&follow(&one, 2), &[2])]);
}

pub(super) fn numbers_of_posts_never_go_back(subject: &mut dyn Subject) {
    assert_eq!(boot(subject).last_post, PostNo(0));
    let mut last = start(1, 1, "a");
    write(subject, std::slice::from_ref(&last));
    let mut floor = PostNo(0);
    let rises = |floor: PostNo, found: &Boot| {
        assert!(found.last_post >= floor, "{floor:?}, {found:?}");
        found.last_post
    };
    for number in [5, 1023, 1024, 1025, 4000] {
        let said = saying(&follow(&last, number * 2), &[number]);
        last = taking(&follow(&said, number * 2 + 1), &[number]);
        write(subject, &[said]);
        floor = rises(floor.max(PostNo(number)), &boot(subject));
        write(subject, std::slice::from_ref(&last));
        subject.crash();
        floor = rises(floor, &boot(subject));
        floor = rises(floor, &subject.store().reopen().expect("opens again"));
        subject.store().close().expect("the store closes");
        floor = rises(floor, &boot(subject));
    }
}

pub(super) fn what_is_forgotten_stays_forgotten_after_an_orderly_stop(subject: &mut dyn Subject) {
    boot(subject);
    write(subject, &[saying(&start(1, 1, "a"), &[1, 2, 3])]);
    forget(subject, &[1, 3, 8]);
    subject.store().close().expect("the store closes");
    let found = boot(subject);
    assert_eq!(found.posts, [post(2)]);
    assert!(found.last_post >= PostNo(3), "{found:?}");
    subject.store().close().expect("the store closes");
    let refused = subject.store().forget(&[PostNo(2)]);
    assert!(
        matches!(refused, Err(CommitError::Failed { .. })),
        "closed: {refused:?}"
    );
    assert_eq!(boot(subject).posts, [post(2)]);
}

pub(super) fn a_forgotten_post_that_comes_back_can_be_forgotten_again(subject: &mut dyn Subject) {
    boot(subject);
    let one = saying(&start(1, 1, "a"), &[1, 2, 3]);
    write(subject, std::slice::from_ref(&one));
    forget(subject, &[1]);
    subject.crash();
    let found = boot(subject).posts;
    let kept = [post(2), post(3)];
    assert!(found == kept || found == [post(1), post(2), post(3)]);
    forget(subject, &[1]);
    // Beside commits that take others, and after one that is refused.
    let refused = subject.store().commit(&[start(1, 2, "a")]);
    assert_eq!(refused, Err(CommitError::Conflict { run: RunNo(1) }));
    write(subject, &[taking(&follow(&one, 2), &[2])]);
    subject.store().close().expect("the store closes");
    assert_eq!(boot(subject).posts, [post(3)]);
}

fn saying(commit: &Commit, posts: &[u64]) -> Commit {
    let mut commit = commit.clone();
    commit.posts = posts.iter().map(|number| post(*number)).collect();
    commit
}

fn taking(commit: &Commit, posts: &[u64]) -> Commit {
    let mut commit = commit.clone();
    commit.taken = posts.iter().map(|number| PostNo(*number)).collect();
    commit
}

fn forget(subject: &dyn Subject, posts: &[u64]) {
    let posts: Vec<_> = posts.iter().map(|number| PostNo(*number)).collect();
    subject.store().forget(&posts).expect("the store is owned");
}
