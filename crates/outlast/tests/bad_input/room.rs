//! A disk without room, and one that fails: whoever asks is answered at once, whatever runs goes
//! on, and its outcomes count.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use outlast::prelude::*;
use outlast::{App, ListFilter, Outlast, RetryPolicy, Status};
use outlast_vfs::{Call, Fault, How, Lab, Lasting};
use tokio::sync::Semaphore;

use crate::support::{code, drive, sound};

const GO: Signal<u64> = signal("go");

/// An activity that may be tried once, and lasts until it is let go.
struct Shop {
    gate: Semaphore,
    begun: AtomicU64,
}

static FULL: Shop = Shop::new();
static AWAY: Shop = Shop::new();

impl Shop {
    const fn new() -> Self {
        Self {
            gate: Semaphore::const_new(0),
            begun: AtomicU64::new(0),
        }
    }

    async fn work(&self, n: u64) -> Result<u64> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        drop(self.gate.acquire().await?);
        Ok(n)
    }

    /// So many have begun.
    async fn has_begun(&self, count: u64) {
        while self.begun.load(Ordering::SeqCst) < count {
            tokio::task::yield_now().await;
        }
    }
}

#[activity]
async fn while_full(n: u64) -> Result<u64> {
    FULL.work(n).await
}

#[activity]
async fn while_away(n: u64) -> Result<u64> {
    AWAY.work(n).await
}

#[workflow]
async fn once_while_full(ctx: Ctx, n: u64) -> Result<u64> {
    Ok(ctx.run(while_full, n).retry(RetryPolicy::never()).await?)
}

#[workflow]
async fn once_while_away(ctx: Ctx, n: u64) -> Result<u64> {
    Ok(ctx.run(while_away, n).retry(RetryPolicy::never()).await?)
}

#[workflow]
async fn waits(ctx: Ctx) -> Result<u64> {
    Ok(ctx.recv(GO).await?)
}

struct Place {
    _directory: tempfile::TempDir,
    path: PathBuf,
    lab: Lab,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("runs.db");
        let lab = Lab::on(directory.path()).expect("it is watched");
        Self {
            _directory: directory,
            path,
            lab,
        }
    }

    async fn open(&self) -> App {
        let builder = Outlast::sqlite(&self.path).shards(2).report(|_| ());
        let builder = builder.activity(while_full).activity(while_away);
        let builder = builder.workflow(once_while_full).workflow(once_while_away);
        builder.workflow(waits).start().await.expect("it opens")
    }

    /// From now on this call fails, until that is lifted.
    fn fails(&self, call: Call, how: How) {
        self.lab.arm(Fault {
            lasting: Lasting::UntilLifted,
            ending: "-wal",
            ..Fault::once(call, 1, how)
        });
    }

    /// So many calls have failed.
    async fn has_failed(&self, times: u64) {
        while self.lab.struck() < times {
            tokio::task::yield_now().await;
        }
    }
}

#[test]
fn attempts_that_run_while_the_disk_is_full_count() {
    drive(async {
        let place = Place::new();
        let app = place.open().await;
        let mut runs = Vec::new();
        for n in 0..10 {
            runs.push(app.start(once_while_full, n).await.expect("it starts"));
        }
        FULL.has_begun(10).await;
        place.fails(Call::Write, How::Full);
        assert_eq!(code(app.start(waits, ()).id("a").await), "OL-2001");
        let failed = place.lab.struck();
        FULL.gate.add_permits(10);
        // What they came to does not fit either, and is not forgotten.
        place.has_failed(failed + 3).await;
        assert_eq!(code(app.start(waits, ()).id("a").await), "OL-2001");
        place.lab.lift();
        for (n, run) in (0..).zip(&runs) {
            assert_eq!(run.result().await.expect("it counts"), n);
            sound(run, once_while_full).await;
        }
        assert_eq!(FULL.begun.load(Ordering::SeqCst), 10, "nothing ran twice");
        app.shutdown().await;
    });
}

#[test]
fn a_full_disk_refuses_at_once_and_can_be_read() {
    drive(async {
        let place = Place::new();
        let app = place.open().await;
        let run = app.start(waits, ()).id("a").await.expect("it starts");
        place.fails(Call::Write, How::Full);
        // Nothing is lifted meanwhile: each of these is answered while the disk is full.
        for n in 0..5 {
            let id = format!("b{n}");
            assert_eq!(code(app.start(waits, ()).id(&id).await), "OL-2001");
            assert_eq!(code(run.send(GO, n).await), "OL-2001");
            let found = run.describe().await.expect("it can be read");
            assert_eq!(found.summary.status, Status::Running);
            let all = app.list(ListFilter::default()).await.expect("a list");
            assert_eq!(all.len(), 1, "what was refused is not there");
            run.history().await.expect("it can be read");
        }
        assert!(!app.health().ready, "{:?}", app.health());
        place.lab.lift();
        run.send(GO, 7).await.expect("there is room");
        assert_eq!(run.result().await.expect("it ends"), 7);
        sound(&run, waits).await;
        app.start(waits, ()).id("b0").await.expect("it starts");
        app.shutdown().await;
    });
}

#[test]
fn an_application_stops_in_order_although_its_disk_is_full() {
    drive(async {
        let place = Place::new();
        let app = place.open().await;
        app.start(waits, ()).id("a").await.expect("it starts");
        place.fails(Call::Write, How::Full);
        assert_eq!(code(app.start(waits, ()).id("b").await), "OL-2001");
        app.shutdown().await;
        place.lab.lift();
        let app = place.open().await;
        let run = app.get(waits, "a");
        run.send(GO, 3).await.expect("there is room");
        assert_eq!(run.result().await.expect("it goes on"), 3);
        app.shutdown().await;
    });
}

#[test]
fn attempts_that_run_while_the_store_is_away_count() {
    drive(async {
        let place = Place::new();
        let app = place.open().await;
        let mut runs = Vec::new();
        for n in 0..10 {
            runs.push(app.start(once_while_away, n).await.expect("it starts"));
        }
        AWAY.has_begun(10).await;
        place.fails(Call::Sync, How::Broken);
        let refused = code(app.start(waits, ()).id("a").await);
        assert_eq!(refused, "OL-2002", "nobody knows");
        // Nothing is lifted meanwhile: each of these is answered while the store is away.
        AWAY.gate.add_permits(10);
        for n in 0..5 {
            let id = format!("b{n}");
            // Another shard may have tried as well.
            let refused = code(app.start(waits, ()).id(&id).await);
            assert!(matches!(refused, "OL-2002" | "OL-2003"), "{refused}");
        }
        let failed = place.lab.struck();
        place.has_failed(failed + 1).await;
        assert_eq!(code(app.start(waits, ()).id("b").await), "OL-2003");
        place.lab.lift();
        for (n, run) in (0..).zip(&runs) {
            assert_eq!(run.result().await.expect("it counts"), n);
            sound(run, once_while_away).await;
        }
        assert_eq!(AWAY.begun.load(Ordering::SeqCst), 10, "nothing ran twice");
        app.shutdown().await;
    });
}
