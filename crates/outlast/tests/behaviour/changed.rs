//! Code that is not what it was when its run was recorded, and replay on a thread of tokio.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use outlast::Status;
use outlast::prelude::*;
use outlast::why::Reason;

use super::support::{cached, drive, sound, until};

/// In which order, or with what, the code makes its calls just now.
struct Order(AtomicUsize);

impl Order {
    const fn first() -> Self {
        Self(AtomicUsize::new(0))
    }

    fn now(&self) -> [u64; 3] {
        match self.0.load(Ordering::SeqCst) {
            0 => [1, 2, 3],
            1 => [3, 1, 2],
            _ => [1, 2, 9],
        }
    }

    fn change(&self, to: usize) {
        self.0.store(to, Ordering::SeqCst);
    }
}

static SHUFFLED: Order = Order::first();
static TUNED: Order = Order::first();

const GO: Signal<()> = signal("go");

#[activity]
async fn price(of: u64) -> Result<u64> {
    Ok(of * 100)
}

async fn prices(ctx: Ctx, order: &Order) -> Result<Vec<(u64, u64)>> {
    let calls = order
        .now()
        .map(|n| async move { Ok::<_, Error>((n, ctx.run(price, n).await?)) });
    let found = join_all(calls).await;
    for _ in 0..2 {
        ctx.recv(GO).await?;
    }
    found.into_iter().collect()
}

#[workflow]
async fn shuffled(ctx: Ctx) -> Result<Vec<(u64, u64)>> {
    prices(ctx, &SHUFFLED).await
}

#[workflow]
async fn tuned(ctx: Ctx) -> Result<Vec<(u64, u64)>> {
    prices(ctx, &TUNED).await
}

#[test]
fn results_are_never_handed_to_calls_that_changed_places() {
    drive(async {
        let env = TestEnv::new().activity(price).workflow(shuffled);
        let app = env.settings(cached(0)).report(|_| ()).start().await;
        let run = app.start(shuffled, ()).await.expect("it starts");
        until(&run, |found| found.summary.events >= 14).await;
        SHUFFLED.change(1);
        run.send(GO, ()).await.expect("it is kept");
        let found = until(&run, |found| found.trouble.is_some()).await;
        assert_eq!(found.summary.status, Status::Running);
        let why = run.why().await.expect("it is known");
        assert_eq!(why[0].reason, Reason::Mismatch, "{why:?}");
        assert!(why[0].text.contains("with the input of event"), "{why:?}");
        SHUFFLED.change(0);
        run.send(GO, ()).await.expect("it is kept");
        run.retry().await.expect("it is tried again");
        let result = run.result().await.expect("it ends");
        assert_eq!(result, [(1, 100), (2, 200), (3, 300)]);
    });
}

#[test]
fn an_input_that_was_changed_is_a_note_on_the_run_once() {
    drive(async {
        let env = TestEnv::new().activity(price).workflow(tuned);
        let app = env.settings(cached(0)).report(|_| ()).start().await;
        let run = app.start(tuned, ()).await.expect("it starts");
        until(&run, |found| found.summary.events >= 14).await;
        TUNED.change(2);
        run.send(GO, ()).await.expect("it is kept");
        let found = until(&run, |found| !found.notes.is_empty()).await;
        assert!(found.trouble.is_none(), "{found:?}");
        let why = run.why().await.expect("it is known");
        let noted = why.iter().find(|answer| answer.reason == Reason::Noted);
        let text = &noted.expect("it is a reason to look").text;
        for part in [
            "a call is not the recorded one",
            "activity 3 `price`",
            "other input",
        ] {
            assert!(text.contains(part), "`{part}` is not in: {text}");
        }
        run.send(GO, ()).await.expect("it is kept");
        run.result().await.expect("it ends");
        let found = run.describe().await.expect("it is there");
        assert_eq!(
            found.notes.len(),
            1,
            "replayed again, noted once: {found:?}"
        );
    });
}

#[workflow]
async fn takes_turns(ctx: Ctx) -> Result<u64> {
    let turns = std::rc::Rc::new(tokio::sync::Semaphore::new(1));
    let mut taken = 0;
    for _ in 0..1_000 {
        let _permit = turns.acquire().await.map_err(Error::msg)?;
        taken += 1;
    }
    Ok(ctx.run(price, taken).await?)
}

#[test]
fn a_replay_inside_a_task_of_tokio_is_not_held_up_by_its_budget() {
    drive(async {
        let app = TestEnv::new().activity(price).workflow(takes_turns);
        let app = app.start().await;
        let run = app.start(takes_turns, ()).await.expect("it starts");
        assert_eq!(run.result().await.expect("it ends"), 100_000);
        let replayed = tokio::spawn(async move { sound(&run, takes_turns).await });
        replayed.await.expect("it returns");
    });
}
