//! Many futures at once, in workflow code.

use futures::future::{join_all, select_all, try_join_all};
use futures::stream::{FuturesUnordered, StreamExt};

use super::{
    all_settled, as_completed, first_n, first_ok, in_chunks, map_concurrent, race,
    try_map_concurrent,
};
use crate::ctx::play::Play;
use crate::failure::IntoFailure;
use crate::prelude::*;

#[activity]
async fn square(n: u64) -> Result<u64> {
    Ok(n * n)
}

fn no(text: &str) -> outlast_model::Failure {
    Error::msg(text).into_failure()
}

/// One workflow per combinator: three calls, and what came of them.
#[workflow]
async fn combined(ctx: Ctx, kind: String) -> Result<String> {
    let calls = [1, 2, 3].map(|n| ctx.run(square, n));
    Ok(match kind.as_str() {
        "all settled" => {
            let settled = all_settled(calls).await;
            format!(
                "{:?}",
                settled.into_iter().map(|r| r.ok()).collect::<Vec<_>>()
            )
        }
        "race" => {
            let (place, result) = race(calls).await.expect("there were calls");
            format!("{place} {}", result?)
        }
        "first two" => {
            let two = first_n(2, calls).await;
            format!(
                "{:?}",
                two.into_iter()
                    .map(|(n, r)| (n, r.ok()))
                    .collect::<Vec<_>>()
            )
        }
        "first ok" => match first_ok(calls).await {
            Ok(value) => format!("ok {value}"),
            Err(errors) => format!(
                "{:?}",
                errors.iter().map(|e| e.to_string()).collect::<Vec<_>>()
            ),
        },
        "as completed" => {
            let (mut running, mut seen) = (as_completed(calls), String::new());
            while let Some((place, result)) = running.next().await {
                seen += &format!("{place}:{:?}/{} ", result.ok(), running.len());
            }
            seen
        }
        other => Err(format!("unknown: {other}"))?,
    })
}

#[test]
fn all_settled_waits_for_all_and_keeps_failures() {
    let mut play = Play::start(combined, "all settled");
    assert_eq!(play.asked().len(), 3);
    play.activity(3, 9).activity_fails(1, no("broken"));
    let asked = play.activity(2, 4).asked();
    assert_eq!(asked, ["complete \"[None, Some(4), Some(9)]\""]);
}

#[test]
fn a_race_has_one_winner_and_cancels_the_rest() {
    let mut play = Play::start(combined, "race");
    let asked = play.activity(2, 4).asked();
    assert_eq!(asked, ["complete \"1 4\""], "the end stops the others");
}

#[test]
fn the_first_n_come_in_the_order_of_their_outcomes() {
    let mut play = Play::start(combined, "first two");
    play.activity(3, 9);
    let asked = play.activity_fails(1, no("broken")).asked();
    assert_eq!(asked, ["complete \"[(2, Some(9)), (0, None)]\""]);
}

#[test]
fn the_first_ok_passes_over_failures() {
    let mut play = Play::start(combined, "first ok");
    play.activity_fails(1, no("broken"));
    assert_eq!(play.activity(3, 9).asked(), ["complete \"ok 9\""]);
    let mut play = Play::start(combined, "first ok");
    play.activity_fails(2, no("b")).activity_fails(1, no("a"));
    let asked = play.activity_fails(3, no("c")).asked();
    let errors = "activity square failed: ";
    for (place, name) in ["a", "b", "c"].iter().enumerate() {
        let nth = asked[0].split(errors).nth(place + 1).expect("three errors");
        assert!(nth.starts_with(name), "{asked:?}");
    }
}

#[test]
fn results_come_as_they_complete() {
    let mut play = Play::start(combined, "as completed");
    play.activity(2, 4).activity(3, 9);
    assert_eq!(
        play.activity(1, 1).asked(),
        ["complete \"1:Some(4)/2 2:Some(9)/1 0:Some(1)/0 \""]
    );
}

#[workflow]
async fn nothing(_ctx: Ctx) -> Result<String> {
    type Never = std::future::Ready<Result<u64>>;
    let none = Vec::<Never>::new;
    let ok = first_ok(none())
        .await
        .is_err_and(|errors| errors.is_empty());
    let raced = race(none()).await.is_none();
    let mapped = map_concurrent(0..0_u64, 3, |n| async move { n }).await;
    let two = first_n(2, [std::future::ready(1)]).await;
    Ok(format!(
        "{ok} {raced} {mapped:?} {two:?} {}",
        as_completed(none()).is_empty()
    ))
}

#[test]
fn nothing_given_is_nothing_got() {
    let asked = Play::start(nothing, ()).asked();
    assert_eq!(asked, ["complete \"true true [] [(0, 1)] true\""]);
}

#[workflow]
async fn limited(ctx: Ctx, limit: usize) -> Result<Vec<u64>> {
    let work = |n| async move { ctx.run(square, n).await };
    let squares = try_map_concurrent(1..=5_u64, limit, work).await?;
    Ok(squares)
}

#[test]
fn a_limited_map_keeps_the_limit_and_the_order() {
    let mut play = Play::start(limited, 2);
    assert_eq!(play.asked(), ["run square 1", "run square 2"]);
    assert_eq!(play.activity(2, 4).asked(), ["run square 3"]);
    assert_eq!(play.activity(3, 9).asked(), ["run square 4"]);
    assert_eq!(play.activity(4, 16).asked(), ["run square 5"]);
    assert!(play.activity(1, 1).asked().is_empty());
    assert_eq!(play.activity(5, 25).asked(), ["complete [1,4,9,16,25]"]);
    assert_eq!(Play::start(limited, 0).asked().len(), 1, "0 counts as 1");
}

#[test]
fn the_first_error_of_a_limited_map_stops_it() {
    let mut play = Play::start(limited, 3);
    play.activity(1, 1);
    let asked = play.activity_fails(2, no("broken")).asked();
    assert_eq!(asked, ["fail: activity square failed: broken"]);
}

#[workflow]
async fn chunked(ctx: Ctx) -> Result<Vec<u64>> {
    let results = in_chunks(1..=5_u64, 2, |n| ctx.run(square, n)).await;
    Ok(results.into_iter().collect::<Result<_, _>>()?)
}

#[test]
fn a_chunk_begins_when_the_one_before_is_done() {
    let mut play = Play::start(chunked, ());
    assert_eq!(play.asked(), ["run square 1", "run square 2"]);
    assert!(play.activity(2, 4).asked().is_empty());
    assert_eq!(
        play.activity(1, 1).asked(),
        ["run square 3", "run square 4"]
    );
    play.activity(3, 9);
    assert_eq!(play.activity(4, 16).asked(), ["run square 5"]);
    assert_eq!(play.activity(5, 25).asked(), ["complete [1,4,9,16,25]"]);
}

#[workflow]
async fn losers(ctx: Ctx) -> Result<u64> {
    let calls = [1, 2, 3].map(|n| ctx.run(square, n));
    let (_, winner) = race(calls).await.expect("there were calls");
    ctx.sleep(1.days()).await?;
    Ok(winner?)
}

#[test]
fn losers_are_cancelled_in_order() {
    let mut play = Play::start(losers, ());
    assert_eq!(
        play.activity(2, 4).asked(),
        ["timer 86400s", "cancel activity 1", "cancel activity 3"]
    );
}

#[workflow]
async fn later_losers(ctx: Ctx, kind: String) -> Result<usize> {
    let calls = [1, 2, 3, 4].map(|n| ctx.run(square, n));
    let got = match kind.as_str() {
        "first n" => first_n(2, calls).await.len(),
        "first ok" => first_ok(calls).await.is_ok().into(),
        other => Err(format!("unknown: {other}"))?,
    };
    ctx.sleep(1.days()).await?;
    Ok(got)
}

#[test]
fn those_behind_the_first_n_and_the_first_ok_are_cancelled_in_order() {
    let losers = ["timer 86400s", "cancel activity 2", "cancel activity 4"];
    let mut play = Play::start(later_losers, "first n");
    assert!(play.activity(3, 9).asked().is_empty(), "one more is wanted");
    assert_eq!(play.activity_fails(1, no("broken")).asked(), losers);
    let mut play = Play::start(later_losers, "first ok");
    assert!(play.activity_fails(1, no("broken")).asked().is_empty());
    assert_eq!(play.activity(3, 9).asked(), losers);
}

const MANY: u64 = 10_000;

/// The combinators of `futures`, unchanged, over thousands of calls.
#[workflow]
async fn thousands(ctx: Ctx, kind: String) -> Result<u64> {
    let calls = (1..=MANY).map(|n| ctx.run(square, n));
    let total = match kind.as_str() {
        "join_all" => join_all(calls).await.into_iter().sum::<Result<u64, _>>()?,
        "try_join_all" => try_join_all(calls).await?.into_iter().sum(),
        "FuturesUnordered" => {
            let (mut running, mut total) = (calls.collect::<FuturesUnordered<_>>(), 0);
            while let Some(result) = running.next().await {
                total += result?;
            }
            total
        }
        "all settled" => all_settled(calls)
            .await
            .into_iter()
            .sum::<Result<u64, _>>()?,
        "as completed" => {
            let (mut running, mut total) = (as_completed(calls), 0);
            while let Some((_, result)) = running.next().await {
                total += result?;
            }
            total
        }
        "limited map" => {
            let work = |n| ctx.run(square, n);
            let results = map_concurrent(1..=MANY, MANY as usize / 2, work).await;
            drop(calls);
            results.into_iter().sum::<Result<u64, _>>()?
        }
        "branches" => {
            let calls: Vec<_> = calls.collect();
            let tasks = calls.into_iter().map(|call| ctx.spawn(call));
            let mut total = 0;
            for task in tasks.collect::<Vec<_>>() {
                total += task.await?;
            }
            total
        }
        "select_all" => select_all(calls).await.0?,
        other => Err(format!("unknown: {other}"))?,
    };
    Ok(total)
}

#[test]
fn ten_thousand_calls_join_in_any_way() {
    let kinds = [
        "join_all",
        "try_join_all",
        "FuturesUnordered",
        "all settled",
        "as completed",
        "limited map",
        "branches",
    ];
    for kind in kinds {
        let mut play = Play::start(thousands, kind);
        let mut open: Vec<u32> = (1..=play.commands.len()).map(|n| n as u32).collect();
        let mut next = open.len() as u32;
        while !open.is_empty() {
            play.activities(open.drain(..).rev().map(|seq| (seq, 1)));
            let asked = play.commands.len() as u32;
            if play.asked() == [format!("complete {MANY}")] {
                break;
            }
            open.extend(next + 1..=next + asked);
            next += asked;
        }
        assert_eq!(play.asked(), [format!("complete {MANY}")], "{kind}");
    }
}

#[test]
fn of_ten_thousand_that_are_ready_at_once_the_choice_is_the_same_each_time() {
    for _ in 0..3 {
        let mut play = Play::start(thousands, "select_all");
        play.activities((1..=MANY as u32).rev().map(|seq| (seq, seq)));
        assert_eq!(play.asked(), ["complete 1"], "in the order given");
        let mut play = Play::start(combined, "race");
        play.activities([(3, 9), (1, 1)].into_iter());
        assert_eq!(
            play.asked(),
            ["complete \"2 9\""],
            "in the order of outcomes"
        );
    }
}
