//! Blobs that go away while others look: readers beside the owner, copies, checks.

use std::path::Path;

use outlast_model::task::RunNo;
use outlast_model::view::RunRef;
use outlast_service::conformance::{blob, follow, replace, start};
use outlast_service::inspect::Inspector;
use outlast_service::sqlite::SqliteStore;
use outlast_service::store::Store;
use rusqlite::Connection;

/// How often each of them looks.
const LOOKS: u32 = 6;

fn read(path: &Path) {
    let reader = SqliteStore::open_reader(path).expect("opens beside the owner");
    let blobs = reader.history(RunNo(1)).expect("all of it is there");
    assert_eq!((blobs.len(), &blobs[0]), (2, &blob(1)));
    let report = reader.check().expect("reads");
    assert!(report.is_sound(), "{report:?}");
    let inspector = Inspector::open(path).expect("opens beside the owner");
    let run = RunRef::newest("a".into());
    assert_eq!(inspector.history(&run).expect("it is whole"), []);
}

fn copy(path: &Path, look: u32) {
    let copy = path.with_extension(format!("copy-{look}"));
    let backup = Connection::open(path).expect("opens beside the owner");
    backup
        .execute("VACUUM INTO ?1", [copy.to_string_lossy()])
        .expect("copies");
    let store = SqliteStore::open(&copy).expect("the copy opens");
    let found = store.boot().expect("it boots");
    let head = found.open[0].state.head;
    assert_eq!(store.history(RunNo(1)), Ok(vec![blob(1), blob(head.0)]));
    let report = store.check().expect("reads");
    assert!(report.is_sound(), "{report:?}");
}

#[test]
fn readers_and_copies_beside_the_owner_never_miss_a_blob() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("runs.db");
    let store = SqliteStore::open(&path).expect("opens");
    store.boot().expect("boots");
    let one = start(1, 1, "a");
    let mut last = follow(&one, 2);
    store.commit(&[one, last.clone()]).expect("writes");
    std::thread::scope(|scope| {
        let beside = [
            scope.spawn(|| (0..LOOKS).for_each(|_| read(&path))),
            scope.spawn(|| (0..LOOKS).for_each(|look| copy(&path, look))),
        ];
        while beside.iter().any(|other| !other.is_finished()) {
            let next = replace(&[&last], last.id.0 + 1);
            store.commit(std::slice::from_ref(&next)).expect("writes");
            last = next;
        }
        for other in beside {
            other.join().expect("it found everything whole");
        }
    });
    assert!(last.id.0 > 4, "something was replaced meanwhile");
    assert_eq!(store.history(RunNo(1)), Ok(vec![blob(1), blob(last.id.0)]));
}
