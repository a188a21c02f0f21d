//! Calls of every kind in one collection, with the engine's part played by the test.

use std::pin::Pin;

use futures_util::future::join_all;

use super::*;
use crate::call_error::CallError;
use crate::ctx::play::Play;
use crate::prelude::*;

const NUDGE: Signal<u64> = signal("nudge");

#[activity]
async fn square(n: u64) -> Result<u64> {
    Ok(n * n)
}

#[workflow]
async fn nested(_ctx: Ctx) -> Result<u64> {
    Ok(1)
}

#[derive(Default)]
struct Mixed {
    total: Option<u64>,
}

#[workflow]
impl Mixed {
    async fn run(ctx: Ctx<Self>, is_patient: bool) -> Result<Vec<bool>> {
        let activity = ctx.run(square, 3);
        let timer = ctx.sleep(1.hours());
        let step = ctx.step_fn("count", || 1_u64);
        let child = ctx.child(nested, ());
        let promise = ctx.promise::<u64>();
        let signal = ctx.recv(NUDGE);
        let branch = ctx.spawn(async move { ctx.sleep(2.hours()).await });
        let holds = ctx.wait_until(|mixed| mixed.total.is_some());
        let value = ctx.wait_for(|mixed| mixed.total);
        ctx.yield_now().await;
        let all: [&dyn Cancellable; 9] = [
            &activity, &timer, &step, &child, &promise, &signal, &branch, &holds, &value,
        ];
        assert!(all.iter().all(|call| !call.is_cancelled()));
        if is_patient {
            ctx.sleep(3.hours()).await?;
        }
        all.iter().for_each(|call| call.cancel());
        Ok(all.iter().map(|call| call.is_cancelled()).collect())
    }

    #[signal]
    fn set(&mut self, total: u64) {
        self.total = Some(total);
    }
}

#[test]
fn calls_of_every_kind_are_cancelled_and_asked_through_one_trait() {
    let mut play = Play::start(Mixed::run, true);
    assert_eq!(play.asked().len(), 6, "{:?}", play.asked());
    let asked = play.fire(3).asked();
    let told = [
        "cancel activity 1",
        "cancel timer 1",
        "cancel step 1",
        "cancel child 1",
    ];
    for told in told {
        assert!(asked.iter().any(|asked| asked == told), "{told}: {asked:?}");
    }
    let nine = format!("complete [{}]", ["true"; 9].join(","));
    assert_eq!(asked.last(), Some(&nine), "{asked:?}");
}

type Either = Pin<Box<dyn CancellableFuture<Output = Result<u64, CallError>>>>;

#[workflow]
async fn shared_output(ctx: Ctx) -> Result<Vec<String>> {
    let calls: Vec<Either> = vec![
        Box::pin(ctx.run(square, 3)),
        Box::pin(ctx.step_fn("count", || 7_u64)),
        Box::pin(ctx.promise::<u64>()),
        Box::pin(ctx.recv(NUDGE)),
        Box::pin(ctx.spawn(async move { ctx.run(square, 4).await })),
    ];
    calls[2].cancel();
    calls[3].cancel();
    let asked: Vec<bool> = calls.iter().map(|call| call.is_cancelled()).collect();
    assert_eq!(asked, [false, false, true, true, false]);
    let ended = join_all(calls).await.into_iter().map(|ended| match ended {
        Ok(value) => value.to_string(),
        Err(error) if error.is_cancelled() => "cancelled".into(),
        Err(error) => error.to_string(),
    });
    Ok(ended.collect())
}

#[test]
fn calls_with_one_result_are_collected_cancelled_and_awaited() {
    let mut play = Play::start(shared_output, ());
    assert_eq!(play.asked(), ["run square 3", "step count", "run square 4"]);
    play.activity(1, 9);
    play.activity(2, 16);
    let done = outlast_model::Resolution::Completed(crate::ctx::play::payload(7));
    let seq = outlast_model::Seq(1);
    let jobs = vec![outlast_model::Job::ResolveStep {
        seq,
        resolution: done,
    }];
    let expected = r#"complete ["9","7","cancelled","cancelled","16"]"#;
    assert_eq!(play.tell(jobs).asked(), [expected]);
}
