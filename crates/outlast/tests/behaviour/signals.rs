//! Messages to running workflows.

use outlast::model::view::Waiting;
use outlast::prelude::*;

use super::support::{code, drive, on, sound, until};
use outlast_service::memory::MemoryStore;

const PAID: Signal<u64> = signal("paid");
const NAME: Signal<String> = signal("name");

#[workflow]
async fn collect(ctx: Ctx, target: u64) -> Result<Vec<u64>> {
    let mut all = Vec::new();
    while all.iter().sum::<u64>() < target {
        all.push(ctx.recv(PAID).await?);
    }
    Ok(all)
}

#[test]
fn signals_arrive_in_the_order_they_were_sent() {
    drive(async {
        let app = TestEnv::new().workflow(collect).start().await;
        let run = app.start(collect, 10).await.expect("it starts");
        for n in [1, 2, 3, 4] {
            run.send(PAID, n).await.expect("it is durable");
        }
        assert_eq!(run.result().await.expect("it ends"), [1, 2, 3, 4]);
        sound(&run, collect).await;
    });
}

#[test]
fn a_signal_with_a_request_id_counts_once() {
    drive(async {
        let app = TestEnv::new().workflow(collect).start().await;
        let run = app.start(collect, 5).await.expect("it starts");
        for _ in 0..3 {
            run.send(PAID, 2)
                .request_id("a")
                .await
                .expect("it is durable");
        }
        run.send(PAID, 3)
            .request_id("b")
            .await
            .expect("it is durable");
        assert_eq!(run.result().await.expect("it ends"), [2, 3]);
        sound(&run, collect).await;
    });
}

#[test]
fn a_signal_waits_on_disk_for_whoever_reads_it() {
    drive(async {
        let store = MemoryStore::new();
        let app = on(&store).workflow(collect).start().await;
        let run = app.start(collect, 3).id("c").await.expect("it starts");
        run.send(PAID, 1).await.expect("it is durable");
        app.shutdown().await;
        drop(app);
        let app = on(&store).workflow(collect).start().await;
        let run = app.get(collect, "c");
        run.send(PAID, 2).await.expect("it is durable");
        assert_eq!(run.result().await.expect("it ends"), [1, 2]);
        sound(&run, collect).await;
    });
}

#[test]
fn a_signal_to_an_ended_or_unknown_run_is_refused() {
    drive(async {
        let app = TestEnv::new().workflow(collect).start().await;
        let run = app.start(collect, 0).id("c").await.expect("it starts");
        run.result().await.expect("it ends");
        assert_eq!(code(run.send(PAID, 1).await), "OL-1006");
        assert_eq!(
            code(app.get(collect, "nobody").send(PAID, 1).await),
            "OL-1005"
        );
    });
}

#[workflow]
async fn two_kinds(ctx: Ctx) -> Result<String> {
    let name = ctx.recv(NAME).await?;
    let paid = ctx.recv(PAID).await?;
    Ok(format!("{name} paid {paid}"))
}

#[test]
fn signals_of_another_name_wait_for_their_turn() {
    drive(async {
        let app = TestEnv::new().workflow(two_kinds).start().await;
        let run = app.start(two_kinds, ()).await.expect("it starts");
        run.send(PAID, 7).await.expect("it is durable");
        run.send(NAME, "Kari").await.expect("it is durable");
        assert_eq!(run.result().await.expect("it ends"), "Kari paid 7");
        sound(&run, two_kinds).await;
    });
}

#[test]
fn a_signal_that_does_not_decode_waits_for_better_code() {
    drive(async {
        let app = TestEnv::new().workflow(collect).start().await;
        let run = app.start(collect, 1).await.expect("it starts");
        let wrong: Signal<String> = signal("paid");
        run.send(wrong, "a lot").await.expect("it is durable");
        let found = until(&run, |d| d.trouble.is_some()).await;
        let text = found.trouble.expect("it is in trouble").failure.to_string();
        assert!(
            text.contains("the content of signal paid is not a `u64`"),
            "{text}"
        );
        run.terminate("enough").await.expect("it ends");
        sound(&run, collect).await;
    });
}

#[activity]
async fn price(item: String) -> Result<u64> {
    Ok(item.len() as u64)
}

#[derive(Default)]
struct Cart {
    items: Vec<String>,
    cents: u64,
}

const CHECK_OUT: Signal<()> = signal("check_out");

#[workflow]
impl Cart {
    async fn run(ctx: Ctx<Self>, owner: String) -> Result<String> {
        ctx.recv(CHECK_OUT).await?;
        Ok(ctx.with(|cart| format!("{owner}: {} for {}", cart.items.join("+"), cart.cents)))
    }

    #[signal]
    fn add(&mut self, item: String) {
        self.items.push(item);
    }

    #[signal]
    async fn add_priced(ctx: Ctx<Self>, item: String) -> Result<()> {
        let cents = ctx.run(price, &item).await?;
        ctx.with(|cart| {
            cart.items.push(item);
            cart.cents += cents;
        });
        Ok(())
    }
}

#[test]
fn handlers_change_the_state_of_a_stateful_workflow() {
    drive(async {
        for cached in [1_000, 0] {
            let env = TestEnv::new().activity(price).workflow(Cart::run);
            let app = env.settings(super::support::cached(cached)).start().await;
            let cart = app
                .start(Cart::run, "Kari")
                .id("cart")
                .await
                .expect("it starts");
            cart.add("tea").await.expect("it is durable");
            cart.add_priced("coffee").await.expect("it is durable");
            let plain = app.get(Cart::run, "cart");
            plain.add("milk").await.expect("it is durable");
            until(&cart, |d| {
                matches!(d.waiting[..], [Waiting::Message { .. }])
            })
            .await;
            cart.send(CHECK_OUT, ()).await.expect("it is durable");
            let text = cart.result().await.expect("it ends");
            assert!(text.starts_with("Kari: "), "{text}");
            assert!(text.ends_with("for 6"), "{text}");
            sound(&cart, Cart::run).await;
        }
    });
}
