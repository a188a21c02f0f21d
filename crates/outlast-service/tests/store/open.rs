//! Who may open a file, and what everybody else is told.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use outlast_service::conformance::start;
use outlast_service::sqlite::{OpenError, SqliteStore};
use outlast_service::store::Store;
use rusqlite::Connection;
use tempfile::TempDir;

fn dir() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn refusal(path: &Path) -> OpenError {
    SqliteStore::open(path).expect_err("refused")
}

#[test]
fn a_second_owner_is_refused_and_told_who_has_the_file() {
    let dir = dir();
    let path = dir.path().join("runs.db");
    let made = SqliteStore::open(&path).expect("opens");
    let (path, lock) = (made.path().to_owned(), dir.path().join("runs.db.lock"));
    drop(made);
    // As another process has it, even one that has our number in its own container.
    for pid in [4711, std::process::id()] {
        let mut theirs = std::fs::File::create(&lock).expect("the lock file");
        write!(theirs, "{pid}").expect("signed");
        theirs.try_lock().expect("free");
        let refused = refusal(&path);
        let (text, path) = (refused.to_string(), path.clone());
        let pid = Some(pid);
        assert_eq!(refused, OpenError::InUse { path, pid });
        assert!(text.contains("outlast ls --db"), "{text}");
        // What a `main` that gives up prints.
        assert_eq!(format!("{refused:?}"), text);
    }
}

#[test]
fn a_second_owner_in_the_same_process_is_told_so_until_the_first_has_let_it_go() {
    let dir = dir();
    let path = dir.path().join("runs.db");
    let first = SqliteStore::open(&path).expect("opens");
    let refused = refusal(&path);
    let here = first.path().to_owned();
    assert_eq!(refused, OpenError::OpenHere { path: here });
    let text = refused.to_string();
    let pid = format!("process {}", std::process::id());
    assert!(
        !text.contains(&pid) && text.contains("shutdown()"),
        "{text}"
    );
    first.boot().expect("boots");
    first.close().expect("closes");
    let second = SqliteStore::open(&path).expect("the first has let it go");
    let reason = first
        .boot()
        .expect_err("not the owner any more")
        .to_string();
    assert!(reason.contains("open in this process"), "{reason}");
    drop(second);
    assert!(first.boot().expect("free again").was_clean);
}

#[cfg(unix)]
#[test]
fn two_names_of_one_file_have_one_owner() {
    let dir = dir();
    let first = SqliteStore::open(dir.path().join("runs.db")).expect("opens");
    let link = dir.path().join("link.db");
    std::os::unix::fs::symlink(first.path(), &link).expect("links");
    assert!(matches!(refusal(&link), OpenError::OpenHere { .. }));
}

#[test]
fn a_file_of_somebody_else_is_left_as_it_is() {
    let dir = dir();
    let tables = dir.path().join("tables.db");
    let conn = Connection::open(&tables).expect("opens");
    conn.execute_batch("CREATE TABLE t(x); PRAGMA user_version = 1")
        .expect("writes");
    drop(conn);
    let named = dir.path().join("named.db");
    let conn = Connection::open(&named).expect("opens");
    conn.execute_batch("PRAGMA application_id = 7; PRAGMA user_version = 1")
        .expect("writes");
    drop(conn);
    let text = dir.path().join("text.db");
    fs::write(
        &text,
        "not a database, and longer than a header of one hundred bytes ".repeat(9),
    )
    .expect("writes");
    for path in [tables, named, text] {
        let before = fs::read(&path).expect("reads");
        assert_eq!(
            refusal(&path),
            OpenError::Foreign {
                path: path.canonicalize().expect("there")
            }
        );
        assert_eq!(fs::read(&path).expect("reads"), before);
    }
}

#[test]
fn a_newer_format_is_refused_and_an_empty_file_is_made_ours() {
    let dir = dir();
    let path = dir.path().join("runs.db");
    fs::write(&path, "").expect("writes");
    let store = SqliteStore::open(&path).expect("an empty file has format 0");
    store.boot().expect("boots");
    store.commit(&[start(1, 1, "a")]).expect("writes");
    store.close().expect("closes");
    let conn = Connection::open(&path).expect("opens");
    let format: i32 = conn
        .query_row("PRAGMA user_version", (), |r| r.get(0))
        .expect("reads");
    assert_eq!(format, 5);
    conn.pragma_update(None, "user_version", format + 1)
        .expect("writes");
    drop(conn);
    let path = path.canonicalize().expect("there");
    assert_eq!(
        refusal(&path),
        OpenError::Newer {
            path: path.clone(),
            found: 6,
            supported: 5
        }
    );
    let refused = SqliteStore::open_reader(&path).expect_err("for readers too");
    assert_eq!(refused.code(), "OL-4102");
}

#[test]
fn a_bad_path_is_named() {
    let dir = dir();
    let missing = dir.path().join("no/such/runs.db");
    let parent = missing.parent().expect("has one").to_owned();
    assert_eq!(refusal(&missing), OpenError::Missing { path: parent });
    let path = dir.path().to_owned();
    assert_eq!(refusal(&path), OpenError::IsADirectory { path });
    let file = dir.path().join("file");
    fs::write(&file, "").expect("writes");
    assert!(matches!(
        refusal(&file.join("runs.db")),
        OpenError::NotADirectory { .. }
    ));
    let unwritten = dir.path().join("runs.db");
    let refused = SqliteStore::open_reader(&unwritten).expect_err("nothing to read");
    assert_eq!(refused.code(), "OL-4109");
    assert!(!unwritten.exists(), "a reader makes nothing");
}

/// Permissions do not bind every user who runs tests; a kernel directory does.
#[cfg(target_os = "linux")]
#[test]
fn a_place_that_cannot_be_written_is_named() {
    let place = Path::new("/sys/kernel");
    if place.is_dir() {
        assert_eq!(refusal(&place.join("runs.db")).code(), "OL-4104");
    }
}

#[cfg(unix)]
#[test]
fn every_file_is_for_its_user_only() {
    use std::os::unix::fs::PermissionsExt;
    let dir = dir();
    let store = SqliteStore::open(dir.path().join("runs.db")).expect("opens");
    store.boot().expect("boots");
    let mut names = Vec::new();
    for entry in fs::read_dir(dir.path()).expect("lists") {
        let entry = entry.expect("lists");
        let mode = entry.metadata().expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{entry:?}");
        names.push(entry.file_name().into_string().expect("ascii"));
    }
    names.sort();
    assert_eq!(
        names,
        ["runs.db", "runs.db-shm", "runs.db-wal", "runs.db.lock"]
    );
}
