//! Many things at once.

use std::rc::Rc;

use futures::future::join_all;
use outlast::combine::{
    all_settled, as_completed, first_n, first_ok, in_chunks, race, try_map_concurrent,
};
use outlast::prelude::*;
use outlast::sync::{Mutex, Semaphore, WriteOnce, unbounded};
use outlast::{Builder, Scope};

use super::bench::{Bench, outcome};

pub(crate) fn register(builder: Builder) -> Builder {
    builder
        .activity(double)
        .activity(endless)
        .workflow(sum)
        .workflow(stops_early)
        .workflow(settles)
        .workflow(races)
        .workflow(ordered)
        .workflow(first_good)
        .workflow(first_three)
        .workflow(bounded)
        .workflow(limited)
        .workflow(chunked)
        .workflow(branching)
        .workflow(together)
}

#[activity]
async fn double(n: u64) -> Result<u64> {
    if n == 13 {
        return Err(Error::msg("unlucky").terminal());
    }
    Ok(n * 2)
}

#[activity]
async fn endless(ctx: ActivityCtx) -> Result<u64> {
    Err(ctx.cancelled().await.into())
}

#[workflow]
async fn sum(ctx: Ctx) -> Result<u64> {
    let doubles = join_all((20..45).map(|n| ctx.run(double, n))).await;
    let mut sum = 0;
    for double in doubles {
        sum += double?;
    }
    let mut rest = as_completed((45..70).map(|n| ctx.run(double, n)));
    while let Some((_, double)) = rest.next().await {
        sum += double?;
    }
    Ok(sum / 2)
}

pub(crate) async fn all_of_many(bench: Bench) -> Vec<String> {
    let sum = outcome!(bench, sum, ()).expect("it ends");
    vec![format!("sum {sum}")]
}

#[workflow]
async fn stops_early(ctx: Ctx) -> Result<String> {
    let both = futures::future::try_join(ctx.run(endless, ()), ctx.run(double, 13)).await;
    let error = both.err().ok_or("it worked")?.to_string();
    assert!(error.contains("unlucky"), "{error}");
    Ok("unlucky".into())
}

pub(crate) async fn the_first_failure_ends_a_try_join(bench: Bench) -> Vec<String> {
    vec![outcome!(bench, stops_early, ()).expect("it ends")]
}

#[workflow]
async fn settles(ctx: Ctx) -> Result<String> {
    let calls = [0, 1, 13, 3].map(|n| ctx.run(double, n));
    let settled = all_settled(calls).await.into_iter();
    let texts = settled.map(|end| end.map_or_else(|_| "x".into(), |n| n.to_string()));
    Ok(texts.collect::<Vec<String>>().join(" "))
}

pub(crate) async fn whatever_fails_is_settled(bench: Bench) -> Vec<String> {
    vec![outcome!(bench, settles, ()).expect("it ends")]
}

#[workflow]
async fn races(ctx: Ctx) -> Result<String> {
    let delays = [60_000, 30, 60_000].map(|ms: u64| ctx.sleep(ms.millis()));
    let (place, first) = race(delays).await.ok_or("nothing to race")?;
    first?;
    Ok(format!("branch {place}"))
}

pub(crate) async fn the_first_of_several(bench: Bench) -> Vec<String> {
    vec![outcome!(bench, races, ()).expect("it ends")]
}

#[workflow]
async fn ordered(ctx: Ctx) -> Result<String> {
    let first = ctx.sleep(10.millis());
    let second = ctx.sleep(10.millis());
    ctx.sleep(100.millis()).await?;
    Ok(outlast::select! {
        slept = first => { slept?; "first".to_owned() },
        slept = second => { slept?; "second".to_owned() },
    })
}

pub(crate) async fn declaration_order_decides(bench: Bench) -> Vec<String> {
    vec![outcome!(bench, ordered, ()).expect("it ends")]
}

#[workflow]
async fn first_good(ctx: Ctx) -> Result<u64> {
    let calls = vec![
        ctx.run(double, 13),
        ctx.run(double, 2),
        ctx.run(endless, ()),
    ];
    let found = first_ok(calls).await;
    Ok(found.map_err(|errors| format!("{} failed", errors.len()))?)
}

pub(crate) async fn the_first_that_works(bench: Bench) -> Vec<String> {
    let found = outcome!(bench, first_good, ()).expect("it ends");
    vec![found.to_string()]
}

#[workflow]
async fn first_three(ctx: Ctx) -> Result<usize> {
    let calls = (0..5).map(|n| {
        if n < 3 {
            ctx.run(double, n)
        } else {
            ctx.run(endless, ())
        }
    });
    let first = first_n(3, calls).await;
    Ok(first.iter().filter(|(_, end)| end.is_ok()).count())
}

pub(crate) async fn the_first_three(bench: Bench) -> Vec<String> {
    let first = outcome!(bench, first_three, ()).expect("it ends");
    vec![first.to_string()]
}

#[workflow]
async fn bounded(ctx: Ctx) -> Result<(bool, bool)> {
    let call = ctx.run(endless, ()).timeout(50.millis()).await;
    let block = async {
        ctx.sleep(60.secs()).await?;
        ctx.sleep(60.secs()).await
    };
    let block = block.timeout(50.millis()).await;
    let is_late = call.is_err_and(|error| error.is_timeout());
    Ok((is_late, block.is_err_and(|error| error.is_timeout())))
}

pub(crate) async fn a_limit_on_anything(bench: Bench) -> Vec<String> {
    let (call, block) = outcome!(bench, bounded, ()).expect("it ends");
    assert!(call && block);
    vec!["call late".into(), "block late".into()]
}

#[workflow]
async fn limited(ctx: Ctx) -> Result<Vec<u64>> {
    Ok(try_map_concurrent(0..8, 3, |n| ctx.run(double, n)).await?)
}

pub(crate) async fn so_many_at_a_time(bench: Bench) -> Vec<String> {
    let all = outcome!(bench, limited, ()).expect("it ends");
    let texts: Vec<String> = all.iter().map(u64::to_string).collect();
    vec![texts.join(" ")]
}

#[workflow]
async fn chunked(ctx: Ctx) -> Result<String> {
    let all = in_chunks(0..10, 4, |n| ctx.run(double, n)).await;
    let good = all.iter().filter(|end| end.is_ok()).count();
    Ok(format!("{} chunks of {good}", good.div_ceil(4)))
}

pub(crate) async fn chunk_by_chunk(bench: Bench) -> Vec<String> {
    vec![outcome!(bench, chunked, ()).expect("it ends")]
}

#[workflow]
async fn branching(ctx: Ctx, unlucky: bool) -> Result<u64> {
    let total = ctx.scope(async move |scope: Scope| {
        let waits = (0..2).map(|_| {
            scope.spawn(async move {
                if unlucky {
                    ctx.sleep(60.secs()).await?;
                }
                outlast::Ok(ctx.run(double, 5).await?)
            })
        });
        let waits: Vec<_> = waits.collect();
        let n = if unlucky { 13 } else { 5 };
        let mut total = ctx.run(double, n).await?;
        for wait in waits {
            total += wait.await?;
        }
        outlast::Ok(total)
    });
    Ok(total.await?)
}

pub(crate) async fn branches_and_their_scope(bench: Bench) -> Vec<String> {
    let total = outcome!(bench, branching, false).expect("it ends");
    let error = outcome!(bench, branching, true).expect_err("it fails");
    assert!(error.to_string().contains("unlucky"), "{error}");
    vec![total.to_string(), "unlucky, 2 cancelled".into()]
}

#[workflow]
async fn together(ctx: Ctx) -> Result<(u64, u64)> {
    let total = Rc::new(Mutex::new(0));
    let doors = Rc::new(Semaphore::new(2));
    let (sender, mut receiver) = unbounded();
    let opened = WriteOnce::new();
    for n in 1..=4 {
        let (total, doors, sender) = (Rc::clone(&total), Rc::clone(&doors), sender.clone());
        let opened = opened.clone();
        let branch = async move {
            opened.wait().await?;
            let _permit = doors.acquire().await?;
            ctx.sleep(10.millis()).await?;
            *total.lock().await? += n;
            sender.send(n).await?;
            outlast::Ok(())
        };
        ctx.spawn(branch).detach();
    }
    drop(sender);
    opened.put("now");
    let mut seen = 0;
    while receiver.recv().await?.is_some() {
        seen += 1;
    }
    let total = *total.lock().await?;
    Ok((total, seen))
}

pub(crate) async fn locks_and_channels(bench: Bench) -> Vec<String> {
    let (total, seen) = outcome!(bench, together, ()).expect("it ends");
    vec![format!("{total} from {seen}")]
}
