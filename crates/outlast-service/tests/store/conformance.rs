//! Both stores keep every promise of the port.

use std::path::PathBuf;

use outlast_service::conformance::{Subject, suite};
use outlast_service::memory::MemoryStore;
use outlast_service::sqlite::{OpenOptions, SqliteStore};
use outlast_service::store::Store;
use tempfile::TempDir;

struct InMemory(MemoryStore);

impl Subject for InMemory {
    fn store(&self) -> &dyn Store {
        &self.0
    }

    fn crash(&mut self) {
        self.0 = self.0.clone();
    }
}

struct OnDisk {
    dir: TempDir,
    options: OpenOptions,
    store: Option<SqliteStore>,
}

impl OnDisk {
    fn new(index_batch: usize) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let options = OpenOptions {
            index_batch,
            ..OpenOptions::default()
        };
        let mut subject = Self {
            dir,
            options,
            store: None,
        };
        subject.crash();
        subject
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("runs.db")
    }
}

impl Subject for OnDisk {
    fn store(&self) -> &dyn Store {
        self.store.as_ref().expect("open")
    }

    fn crash(&mut self) {
        drop(self.store.take());
        let store = SqliteStore::open_with(self.path(), &self.options).expect("opens");
        self.store = Some(store);
    }
}

impl Drop for OnDisk {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let store = self.store.as_ref().expect("open");
        store.boot().expect("boots");
        let report = store.check().expect("reads");
        assert!(report.is_sound(), "{report:?}");
    }
}

#[test]
fn memory_keeps_every_promise() {
    suite(&|| Box::new(InMemory(MemoryStore::new())));
}

#[test]
fn sqlite_keeps_every_promise() {
    suite(&|| Box::new(OnDisk::new(OpenOptions::default().index_batch)));
}

/// With batches this small every test freezes, slices and finishes several of them.
#[test]
fn sqlite_keeps_every_promise_with_a_busy_index() {
    suite(&|| Box::new(OnDisk::new(1)));
}
