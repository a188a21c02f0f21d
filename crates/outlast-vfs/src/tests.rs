//! SQLite over the recorded file system: what is recorded, what fails, which disks can be.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::Connection;
use tempfile::TempDir;

use crate::{Beside, Call, Cutter, Dice, Disk, Fault, FileNo, How, Lab, Lasting, Op, Tape, beside};

fn dir() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn open(dir: &Path) -> Connection {
    let conn = Connection::open(dir.join("a.db")).expect("opens");
    conn.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        .expect("sets");
    conn
}

fn rows(dir: &Path) -> i64 {
    let conn = Connection::open(dir.join("a.db")).expect("opens");
    conn.query_row("SELECT count(*) FROM t", (), |row| row.get(0))
        .unwrap_or(-1)
}

fn write(disk: &Disk) -> TempDir {
    let dir = dir();
    disk.write(dir.path()).expect("writes");
    dir
}

/// A table, and three rows with a mark behind each.
fn recorded(dir: &Path) -> Tape {
    let lab = Lab::on(dir).expect("watches");
    let conn = open(dir);
    conn.execute_batch("CREATE TABLE t(x)").expect("makes");
    for row in [1_u8, 2, 3] {
        conn.execute("INSERT INTO t VALUES (?1)", [row])
            .expect("inserts");
        lab.mark(usize::from(row));
    }
    lab.tape()
}

#[test]
fn every_write_and_sync_is_on_the_tape_in_order() {
    let dir = dir();
    let tape = recorded(dir.path());
    assert!(tape.base.is_empty());
    let names: Vec<&str> = tape
        .ops
        .iter()
        .filter_map(|op| match op {
            Op::Create { name, .. } | Op::Delete { name } => Some(name.as_str()),
            Op::Rename { .. }
            | Op::Write { .. }
            | Op::Truncate { .. }
            | Op::Sync { .. }
            | Op::SyncFailed { .. }
            | Op::SyncDirectory
            | Op::Mark(_) => None,
        })
        .collect();
    assert_eq!(names, ["a.db", "a.db-journal", "a.db-journal", "a.db-wal"]);
    let last = tape.ops.last_chunk::<2>().expect("more than two calls");
    assert!(matches!(last, [Op::Sync { .. }, Op::Mark(3)]), "{last:?}");
}

#[test]
fn what_was_written_is_what_the_files_hold() {
    let dir = dir();
    let tape = recorded(dir.path());
    let mut cutter = Cutter::new(&tape);
    cutter.advance(tape.ops.len());
    assert_eq!(rows(write(&cutter.everything()).path()), 3);
}

#[test]
fn whatever_is_lost_what_was_acknowledged_is_there() {
    let dir = dir();
    let tape = recorded(dir.path());
    let (mut cutter, mut hashes) = (Cutter::new(&tape), BTreeSet::new());
    for cut in tape.cuts() {
        cutter.advance(cut);
        for throw in 0..20 {
            let image = cutter.image(&mut Dice::new(&[cut as u64, throw]));
            hashes.insert(image.hash);
            let copy = write(&image.disk);
            let marks = tape.mark_before(cut).unwrap_or(0);
            let found = rows(copy.path());
            assert!(
                found >= i64::try_from(marks).expect("few") || marks == 0,
                "{cut}: {found}"
            );
        }
    }
    assert!(hashes.len() > 40, "{} disks", hashes.len());
}

#[test]
fn without_syncs_the_disks_show_it() {
    let dir = dir();
    let lab = Lab::on(dir.path()).expect("watches");
    lab.arm(Fault {
        lasting: Lasting::UntilLifted,
        ..Fault::once(Call::Sync, 1, How::Skipped)
    });
    let conn = open(dir.path());
    conn.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES (1)")
        .expect("inserts");
    let tape = lab.tape();
    let mut cutter = Cutter::new(&tape);
    cutter.advance(tape.ops.len());
    assert_eq!(rows(write(&cutter.everything()).path()), 1);
    assert_eq!(rows(write(&cutter.synced()).path()), -1);
}

#[test]
fn a_file_that_nobody_watches_passes_untouched() {
    let (watched, other) = (dir(), dir());
    let lab = Lab::on(watched.path()).expect("watches");
    let conn = open(other.path());
    conn.execute_batch("CREATE TABLE t(x)").expect("makes");
    assert!(lab.tape().ops.is_empty());
}

#[test]
fn a_full_disk_is_full_until_it_is_lifted() {
    let dir = dir();
    let lab = Lab::on(dir.path()).expect("watches");
    let conn = open(dir.path());
    conn.execute_batch("CREATE TABLE t(x)").expect("makes");
    lab.arm(Fault {
        lasting: Lasting::UntilLifted,
        ..Fault::once(Call::Write, 1, How::Short)
    });
    for _ in 0..3 {
        let error = conn
            .execute("INSERT INTO t VALUES (1)", ())
            .expect_err("full");
        assert_eq!(
            error.sqlite_error_code(),
            Some(rusqlite::ErrorCode::DiskFull)
        );
    }
    assert_eq!(lab.struck(), 3);
    lab.lift();
    conn.execute("INSERT INTO t VALUES (1)", ())
        .expect("there is room");
    assert_eq!(rows(dir.path()), 1);
}

/// One file, three sectors long, of which the middle one is in the writing.
#[test]
fn what_was_in_doubt_when_a_sync_failed_is_in_doubt_for_ever() {
    let file = FileNo(0);
    let block = |at: u64, byte: u8| Op::Write {
        file,
        at,
        bytes: vec![byte; 512],
    };
    let tape = Tape {
        base: [("a".to_owned(), vec![0; 1024])].into(),
        ops: vec![
            block(0, 1),
            Op::SyncFailed { file },
            block(512, 2),
            Op::Sync { file },
        ],
    };
    let mut cutter = Cutter::new(&tape);
    cutter.advance(4);
    let sure = [vec![0; 512], vec![2; 512]].concat();
    assert_eq!(cutter.synced().files["a"], sure);
    let all = [vec![1; 512], vec![2; 512]].concat();
    assert_eq!(cutter.everything().files["a"], all);
    assert!(cutter.has_choice());
}

#[test]
fn names_are_in_doubt_until_the_directory_is_synced() {
    let file = FileNo(1);
    let tape = Tape {
        base: [("a".to_owned(), vec![7])].into(),
        ops: vec![
            Op::Create {
                name: "b".into(),
                file,
            },
            Op::Sync { file },
            Op::Delete { name: "a".into() },
            Op::SyncDirectory,
        ],
    };
    let mut cutter = Cutter::new(&tape);
    cutter.advance(3);
    let names = |disk: Disk| disk.files.into_keys().collect::<Vec<_>>();
    assert_eq!(names(cutter.synced()), ["a"]);
    assert_eq!(names(cutter.everything()), ["b"]);
    let mut seen = BTreeSet::new();
    for throw in 0..200 {
        seen.insert(names(cutter.image(&mut Dice::new(&[throw])).disk));
    }
    assert_eq!(seen.len(), 4, "both, either, none: {seen:?}");
    cutter.advance(4);
    assert!(!cutter.has_choice());
}

#[test]
fn a_torn_write_leaves_whole_sectors() {
    let tape = Tape {
        base: [("a".to_owned(), vec![0; 2048])].into(),
        ops: vec![Op::Write {
            file: FileNo(0),
            at: 100,
            bytes: vec![1; 1500],
        }],
    };
    let mut cutter = Cutter::new(&tape);
    cutter.advance(1);
    let mut torn = 0;
    for throw in 0..100 {
        let image = cutter.image(&mut Dice::new(&[throw]));
        torn += usize::from(image.is_partial);
        for sector in image.disk.files["a"].chunks(512) {
            let written: BTreeSet<u8> = sector[100..].iter().take(300).copied().collect();
            assert_eq!(written.len(), 1, "a sector is there or it is not");
        }
    }
    assert!(torn > 10, "{torn}");
}

#[test]
fn every_kind_of_call_can_fail() {
    for call in Call::ALL {
        let dir = dir();
        let lab = Lab::on(dir.path()).expect("watches");
        drop(open(dir.path()));
        lab.arm(Fault::once(call, 1, How::Broken));
        let outcome = Connection::open(dir.path().join("a.db")).and_then(|conn| {
            conn.execute_batch("CREATE TABLE t(x); PRAGMA wal_checkpoint(TRUNCATE)")?;
            drop(conn);
            Ok(())
        });
        // SQLite says nothing of directories: the program does.
        let path = dir.path().join("a.db");
        let told = beside(&path, Beside::SyncDirectory);
        assert_eq!(told.is_err(), call == Call::SyncDirectory, "{call:?}");
        assert_eq!(lab.struck(), 1, "{call:?}: {outcome:?}");
        // What a file system says of a name it cannot remove is heard by nobody.
        let is_unheard = matches!(call, Call::Delete | Call::SyncDirectory);
        assert_eq!(outcome.is_err(), !is_unheard, "{call:?}");
    }
}

#[test]
fn what_a_program_does_beside_sqlite_is_on_the_tape() {
    let dir = dir();
    let lab = Lab::on(dir.path()).expect("watches");
    let path = dir.path().join("log");
    std::fs::write(&path, b"1234").expect("writes");
    beside(&path, Beside::SyncDirectory).expect("nothing fails");
    let write = Beside::Write {
        at: 0,
        bytes: b"1234",
    };
    beside(&path, write).expect("nothing fails");
    beside(&path, Beside::Sync).expect("nothing fails");
    for (call, what) in [(Call::Write, write), (Call::Sync, Beside::Sync)] {
        lab.arm(Fault::once(call, 1, How::Full));
        let refused = beside(&path, what).expect_err("there is no room");
        assert_eq!(refused.raw_os_error(), Some(28));
    }
    let file = FileNo(0);
    let (name, bytes) = ("log".to_owned(), b"1234".to_vec());
    let expected = [
        Op::Create { name, file },
        Op::SyncDirectory,
        Op::Write { file, at: 0, bytes },
        Op::Sync { file },
        Op::SyncFailed { file },
    ];
    assert_eq!(lab.tape().ops, expected);
}

#[test]
fn a_process_that_was_killed_changes_nothing() {
    let dir = dir();
    let lab = Lab::on(dir.path()).expect("watches");
    let conn = open(dir.path());
    conn.execute_batch("CREATE TABLE t(x)").expect("makes");
    let before = lab.tape().ops;
    lab.kill();
    let refused = conn.execute("INSERT INTO t VALUES (1)", ());
    drop(conn);
    assert!(refused.is_err());
    assert_eq!(lab.tape().ops, before);
    lab.lift();
    assert_eq!(rows(dir.path()), 0, "the next process finds what was there");
}
