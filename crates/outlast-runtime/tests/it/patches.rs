//! Changes of workflow code under open runs.

use std::rc::Rc;

use outlast_runtime::MainOutcome;

use crate::backend::{Backend, Cache, short};
use crate::flow::{Flow, Log, act, done, sleep};
use outlast_runtime::Context;

/// The code before the change, with it, with the old side gone, and without a trace of it.
async fn old(ctx: Context, log: Log) -> MainOutcome {
    act(ctx, "old").await;
    log.note("old");
    sleep(ctx, 1).await;
    done()
}

async fn patched(ctx: Context, log: Log) -> MainOutcome {
    if ctx.patched("p".into()) {
        act(ctx, "new").await;
        log.note("new");
    } else {
        act(ctx, "old").await;
        log.note("old");
    }
    sleep(ctx, 1).await;
    log.note(format!("still {}", ctx.patched("p".into())));
    done()
}

async fn deprecated(ctx: Context, log: Log) -> MainOutcome {
    ctx.deprecate_patch("p".into());
    act(ctx, "new").await;
    log.note("new");
    sleep(ctx, 1).await;
    done()
}

async fn removed(ctx: Context, log: Log) -> MainOutcome {
    act(ctx, "new").await;
    log.note("new");
    sleep(ctx, 1).await;
    done()
}

/// A run whose first activity is done, then continued by other code.
fn started(flow: Flow) -> Backend {
    let mut backend = Backend::shared(Rc::new(flow), Cache::EvictAlways);
    backend.turn();
    backend.complete(1, "").turn();
    backend
}

fn continued(mut backend: Backend, flow: Flow) -> Backend {
    backend.flow = Rc::new(flow);
    if backend.timers.is_empty() {
        return backend;
    }
    backend.fire(1).turn();
    backend
}

#[test]
fn a_new_run_takes_the_new_side_and_says_so_once() {
    let mut backend = Backend::new(Flow::new(patched));
    assert_eq!(short(&backend.turn()), ["patch p", "activity 1 new"]);
    backend.complete(1, "").turn();
    assert_eq!(short(&backend.fire(1).turn()), ["complete"]);
    assert_eq!(backend.log(), ["new", "still true"]);
    drop(backend.replayed().expect("replays"));
    assert_eq!(backend.log(), ["new", "still true"]);
}

#[test]
fn a_run_of_the_old_code_keeps_the_old_side_for_ever() {
    let backend = continued(started(Flow::new(old)), Flow::new(patched));
    assert!(backend.is_closed, "{}", backend.failure());
    assert_eq!(backend.log(), ["old", "still false"]);
}

#[test]
fn a_change_can_be_deprecated_and_then_removed() {
    for before in [Flow::new(patched), Flow::new(deprecated)] {
        let backend = continued(started(before), Flow::new(deprecated));
        assert!(backend.is_closed, "{}", backend.failure());
        assert_eq!(backend.log(), ["new"]);
    }
    let backend = continued(started(Flow::new(deprecated)), Flow::new(removed));
    assert!(backend.is_closed, "{}", backend.failure());
    // Code that never knew of the change gets a word that does not fit, and that is fine.
    let backend = continued(started(Flow::new(removed)), Flow::new(deprecated));
    assert!(backend.is_closed, "{}", backend.failure());
}

#[test]
fn a_change_in_use_that_the_code_no_longer_knows_is_a_mismatch() {
    let backend = continued(started(Flow::new(patched)), Flow::new(removed));
    let told = backend.failure();
    assert!(
        told.contains("history: event 5 MarkerRecorded, patch `p`, asked at"),
        "{told}"
    );
    assert!(
        told.contains("code:    ScheduleActivity, activity 1 `new`"),
        "{told}"
    );
}
