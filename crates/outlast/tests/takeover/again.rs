//! Code that was given up, came back and is given up again.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use outlast::Description;
use outlast::prelude::*;

use crate::blocked::strict;
use crate::gate::Gate;
use crate::support::{drive, until};

static FIRST: Gate = Gate::new();
static SECOND: Gate = Gate::new();
static TRIES: AtomicU32 = AtomicU32::new(0);

#[workflow]
async fn hangs_twice(_ctx: Ctx) -> Result<u64> {
    match TRIES.fetch_add(1, Ordering::SeqCst) {
        0 => FIRST.pass(),
        1 => SECOND.pass(),
        _ => {}
    }
    Ok(7)
}

#[test]
fn code_that_comes_back_and_hangs_again_is_tried_again_after_a_pause() {
    drive(async {
        let env = TestEnv::new().expect_stuck_code().workflow(hangs_twice);
        let env = env.report(|_| ()).settings(strict());
        let clock = env.clock();
        let app = env.start().await;
        let run = app.start(hangs_twice, ()).await.expect("it starts");
        let after = |tries: u32, d: &Description| {
            let trouble = d.trouble.as_ref();
            trouble.is_some_and(|trouble| trouble.attempts == tries)
        };
        until(&run, |d| after(1, d)).await;
        FIRST.open();
        until(&run, |d| after(2, d)).await;
        SECOND.open();
        let found = until(&run, |d| after(2, d) && !d.summary.is_blocked).await;
        let next = found.trouble.and_then(|trouble| trouble.next_try);
        let pause = next.expect("it is tried again").since(clock.now());
        assert!(pause > Duration::ZERO && pause <= 1.secs(), "{pause:?}");
        assert_eq!(run.result().await.expect("it ends"), 7);
        assert_eq!(TRIES.load(Ordering::SeqCst), 3);
    });
}
