//! Many activities at once, no more than so many at a time, results in the order asked for.
//!
//! A call is scheduled when it is made and awaited when its result is needed, so every
//! combinator of the `futures` crate works too; `outlast::combine` adds what is often wanted.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outlast::combine;
use outlast::prelude::*;

/// How many downloads run now, and the most there ever were.
#[derive(Clone, Default)]
struct Gauge(Arc<(AtomicUsize, AtomicUsize)>);

#[activity]
async fn fetch(State(gauge): State<Gauge>, page: u32) -> Result<usize> {
    let (running, peak) = &*gauge.0;
    peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    tokio::time::sleep(10.millis()).await;
    running.fetch_sub(1, Ordering::SeqCst);
    Ok(format!("page {page}").len())
}

/// The first failure would stop it: `try_`. `map_concurrent` carries on.
#[workflow]
async fn crawl(ctx: Ctx, pages: u32) -> Result<usize> {
    let sizes = combine::try_map_concurrent(1..=pages, 4, |page| ctx.run(fetch, page)).await?;
    Ok(sizes.into_iter().sum())
}

/// Results as they come: the first three are enough, the rest is cancelled.
#[workflow]
async fn sample(ctx: Ctx, pages: u32) -> Result<usize> {
    let calls = (1..=pages).map(|page| ctx.run(fetch, page));
    let first = combine::first_n(3, calls).await;
    Ok(first.len())
}

#[tokio::main]
async fn main() -> Result<()> {
    let gauge = Gauge::default();
    let builder = Outlast::sqlite("fan_out_with_limit.db").state(gauge.clone());
    let builder = builder.activity(fetch).workflow(crawl).workflow(sample);
    let app = builder.start().await?;

    println!("20 pages have {} letters", app.run(crawl, 20).await?);
    let peak = gauge.0.1.load(Ordering::SeqCst);
    println!("at most 4 at a time: {}", peak <= 4);
    println!("a sample of {} is enough", app.run(sample, 20).await?);
    app.shutdown().await.into_result()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[outlast::test]
    async fn every_page_counts_once(env: TestEnv) -> Result<()> {
        let env = env.workflow(crawl).mock(fetch, |_| Ok(1));
        assert_eq!(env.start().await.run(crawl, 1_000).await?, 1_000);
        Ok(())
    }

    #[outlast::test]
    async fn one_failed_page_fails_the_crawl(env: TestEnv) -> Result<()> {
        let broken = |page| match page {
            7 => Err(Error::msg("no page 7").terminal()),
            _ => Ok(1),
        };
        let app = env.workflow(crawl).mock(fetch, broken).start().await;
        let failed = app.run(crawl, 20).await.expect_err("page 7 is missing");
        assert!(failed.to_string().contains("no page 7"), "{failed}");
        Ok(())
    }
}
