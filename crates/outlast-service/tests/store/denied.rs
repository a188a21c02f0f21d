//! Files that their owner may no longer read or write. Whoever may do everything, as tests often
//! may, does it as an ordinary user in a process of its own.
#![cfg(unix)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use outlast_service::conformance::{follow, start};
use outlast_service::sqlite::SqliteStore;
use outlast_service::store::{Commit, CommitError, Store};

/// Nobody, on every system that has users.
const NOBODY: u32 = 65534;
/// Says that this process is that of the ordinary user.
const INSIDE: &str = "OUTLAST_DENIED_INSIDE";

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
}

/// Does this as an ordinary user. `name`: of the test that asks for it.
fn as_a_user(name: &str, act: impl FnOnce()) {
    let home = tempfile::tempdir().expect("a directory");
    let is_root = fs::metadata(home.path()).expect("there").uid() == 0;
    if !is_root || std::env::var_os(INSIDE).is_some() {
        return act();
    }
    // The build may lie where nobody else may look.
    let program = home.path().join("test");
    let me = fs::read(std::env::current_exe().expect("runs")).expect("reads");
    fs::write(&program, me).expect("copies");
    let room = home.path().join("room");
    fs::create_dir(&room).expect("makes");
    mode(home.path(), 0o755);
    mode(&program, 0o755);
    chown(&room, Some(NOBODY), Some(NOBODY)).expect("root may");
    let ran = Command::new(&program)
        .args([name, "--exact", "--nocapture"])
        .envs([(INSIDE, Path::new("1")), ("TMPDIR", &room)])
        .current_dir(&room)
        .gid(NOBODY)
        .uid(NOBODY)
        .output()
        .expect("runs");
    let told = String::from_utf8_lossy(&ran.stdout);
    let why = String::from_utf8_lossy(&ran.stderr);
    assert!(
        ran.status.success() && told.contains("1 passed"),
        "{told}{why}"
    );
}

struct Owned {
    dir: tempfile::TempDir,
    store: SqliteStore,
    newest: Commit,
}

impl Owned {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let store = SqliteStore::open(dir.path().join("runs.db")).expect("opens");
        store.boot().expect("boots");
        let newest = start(1, 1, "a");
        store.commit(std::slice::from_ref(&newest)).expect("writes");
        Self { dir, store, newest }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn commit(&mut self) -> Result<(), CommitError> {
        let next = follow(&self.newest, self.newest.id.0 + 1);
        self.store.commit(std::slice::from_ref(&next))?;
        self.newest = next;
        Ok(())
    }

    fn cannot_reopen(&self) {
        for _ in 0..2 {
            let told = self.store.reopen().expect_err("cannot").to_string();
            assert!(told.contains("OL-4104"), "{told}");
        }
    }

    /// All that was acknowledged is there, and more is taken.
    fn goes_on(&mut self) {
        let boot = self.store.reopen().expect("opens again");
        assert_eq!(boot.open, std::slice::from_ref(&self.newest.row));
        self.commit().expect("goes on");
        assert!(self.store.check().expect("reads").is_sound());
    }
}

/// The owner has them open and goes on; what opens them next is refused, and changes nothing.
#[test]
fn files_that_are_made_read_only_or_closed_to_their_owner() {
    let name = "denied::files_that_are_made_read_only_or_closed_to_their_owner";
    as_a_user(name, || {
        for file in ["runs.db", "runs.db-wal", "runs.db-shm"] {
            for rights in [0o444, 0o000] {
                let mut owned = Owned::new();
                mode(&owned.path(file), rights);
                owned.commit().expect("it has them open");
                owned.cannot_reopen();
                mode(&owned.path(file), 0o600);
                owned.goes_on();
            }
        }
    });
}

#[test]
fn a_directory_that_is_closed_to_the_owner_of_files_in_it() {
    let name = "denied::a_directory_that_is_closed_to_the_owner_of_files_in_it";
    as_a_user(name, || {
        let mut owned = Owned::new();
        mode(owned.dir.path(), 0o000);
        let told = owned.commit().expect_err("its files are not to be seen");
        assert!(told.to_string().contains("OL-4104"), "{told}");
        owned.cannot_reopen();
        mode(owned.dir.path(), 0o755);
        owned.goes_on();
    });
}

/// Nothing has to be made in it.
#[test]
fn a_directory_that_is_made_read_only_is_no_reason() {
    let name = "denied::a_directory_that_is_made_read_only_is_no_reason";
    as_a_user(name, || {
        let mut owned = Owned::new();
        mode(owned.dir.path(), 0o555);
        owned.commit().expect("goes on");
        owned.goes_on();
        owned.store.close().expect("closes");
        let again = SqliteStore::open(owned.path("runs.db")).expect("opens");
        again.boot().expect("boots");
        mode(owned.dir.path(), 0o755);
    });
}
