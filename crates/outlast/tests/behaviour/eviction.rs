//! Instances leave memory at any time, and nobody can tell.

use std::sync::atomic::{AtomicU32, Ordering};

use outlast::Settings;
use outlast::prelude::*;

use super::support::{cached, drive, sound};

#[activity]
async fn add(n: u64) -> Result<u64> {
    Ok(n + 1)
}

const MORE: Signal<u64> = signal("more");

/// Some of everything, in an order that depends on what came before.
#[workflow]
async fn everything(ctx: Ctx, seed: u64) -> Result<String> {
    let id = ctx.uuid();
    let mut n = ctx.run(add, seed).await?;
    n += ctx.step("twice", move || async move { Ok(n * 2) }).await?;
    let both = futures::future::join(ctx.run(add, n), ctx.sleep(1.hours())).await;
    n = both.0? + ctx.random() % 10;
    let branch = ctx.spawn(async move {
        ctx.sleep(2.hours()).await?;
        Ok::<_, Error>(ctx.run(add, 100).await?)
    });
    let got = outlast::select! {
        more = ctx.recv(MORE) => more?,
        late = ctx.sleep(3.hours()) => { late?; 1_000 }
    };
    n += got + branch.await?;
    Ok(format!("{n} {}", id.len()))
}

async fn result(settings: Settings, seed: u64) -> u64 {
    let env = TestEnv::new().activity(add).workflow(everything);
    let app = env.settings(settings).start().await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(app.start(everything, seed).await.expect("it starts"));
    }
    let mut all = 0;
    for run in &runs {
        let text = run.result().await.expect("it ends");
        let history = sound(run, everything).await;
        assert!(history.len() > 20);
        let first: u64 = text
            .split(' ')
            .next()
            .and_then(|n| n.parse().ok())
            .expect("a number");
        all += first / 1_000;
    }
    all
}

#[test]
fn a_cache_of_none_or_one_gives_the_same_results() {
    drive(async {
        let expected = result(cached(1_000), 5).await;
        assert_eq!(expected, 3);
        for runs in [0, 1] {
            assert_eq!(
                result(cached(runs), 5).await,
                expected,
                "{runs} in the cache"
            );
        }
        let small = Settings {
            cached_bytes: 1,
            ..Settings::default()
        };
        assert_eq!(result(small, 5).await, expected);
    });
}

/// How often the code of a run began, with a cache and without.
static BEGUN: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];

const CALLS: u32 = 20;

#[workflow]
async fn counted(ctx: Ctx, place: usize) -> Result<u64> {
    BEGUN[place].fetch_add(1, Ordering::SeqCst);
    let mut n = 0;
    for _ in 0..CALLS {
        n = ctx.run(add, n).await?;
    }
    Ok(n)
}

#[test]
fn code_begins_once_while_it_is_in_memory_and_again_whenever_it_is_not() {
    drive(async {
        for (place, runs) in [1_000, 0].into_iter().enumerate() {
            let env = TestEnv::new().activity(add).workflow(counted);
            let app = env.settings(cached(runs)).start().await;
            let run = app.start(counted, place).await.expect("it starts");
            assert_eq!(run.result().await.expect("it ends"), u64::from(CALLS));
            let begun = BEGUN[place].load(Ordering::SeqCst);
            let expected = if runs == 0 { CALLS + 1 } else { 1 };
            assert_eq!(begun, expected, "with {runs} in the cache");
            sound(&run, counted).await;
        }
    });
}
