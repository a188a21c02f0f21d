//! Promises about owners: what they find, what they leave, and who may write.

use outlast_model::task::RunNo;

use super::{Subject, blob, boot, finish, follow, history, load, start, write};
use crate::store::{Boot, CommitError, CommitNo};

pub(super) fn what_is_acknowledged_survives_a_crash(subject: &mut dyn Subject) {
    boot(subject);
    let mut last = start(1, 1, "a");
    write(subject, std::slice::from_ref(&last));
    for commit in 2..=10 {
        last = follow(&last, commit);
        write(subject, std::slice::from_ref(&last));
        subject.crash();
        assert_eq!(boot(subject).open, [last.row.clone()]);
    }
    assert_eq!(history(subject, 1), (1..=10).map(blob).collect::<Vec<_>>());
}

pub(super) fn a_boot_tells_of_open_runs_and_counters(subject: &mut dyn Subject) {
    assert_eq!(
        boot(subject),
        Boot {
            was_clean: true,
            ..Boot::default()
        }
    );
    let open = start(1, 1, "a");
    let closed = start(5, 2, "b");
    let end = finish(&closed, 9);
    write(subject, &[open.clone(), closed, end]);
    subject.crash();
    let found = boot(subject);
    assert_eq!(found.open, [open.row]);
    assert_eq!((found.last_run, found.last_commit), (RunNo(5), CommitNo(9)));
}

pub(super) fn only_an_orderly_stop_is_clean(subject: &mut dyn Subject) {
    assert!(
        boot(subject).was_clean,
        "a new store has no crash behind it"
    );
    subject.crash();
    assert!(!boot(subject).was_clean, "the owner died");
    assert!(!boot(subject).was_clean, "nobody closed it meanwhile");
    subject.store().close().expect("the store closes");
    assert!(boot(subject).was_clean, "closed in order");
    subject.store().close().expect("the store closes");
    subject.crash();
    assert!(
        boot(subject).was_clean,
        "a death after the end changes nothing"
    );
}

pub(super) fn opening_again_keeps_everything(subject: &mut dyn Subject) {
    boot(subject);
    let one = start(1, 1, "a");
    let two = follow(&one, 2);
    write(subject, &[one, two.clone()]);
    let found = subject.store().reopen().expect("the store opens again");
    assert!(!found.was_clean);
    assert_eq!(found.open, std::slice::from_ref(&two.row));
    subject.store().close().expect("the store closes");
    assert_eq!(boot(subject).open, std::slice::from_ref(&two.row));
    assert_eq!(load(subject, 1).row, two.row);
    write(subject, &[follow(&two, 3)]);
}

pub(super) fn nothing_is_written_without_an_owner(subject: &mut dyn Subject) {
    let group = [start(1, 1, "a")];
    let refused = |outcome| matches!(outcome, Err(CommitError::Failed { .. }));
    assert!(refused(subject.store().commit(&group)), "not booted");
    boot(subject);
    subject.store().close().expect("the store closes");
    assert!(refused(subject.store().commit(&group)), "closed");
    boot(subject);
    write(subject, &group);
}
