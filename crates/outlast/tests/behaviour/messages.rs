//! Updates and queries, from the client to the store and back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use outlast::model::EventKind;
use outlast::prelude::*;
use outlast::{Ask, Permit, SlotKind, SlotSupplier};
use outlast_service::memory::MemoryStore;
use serde::{Deserialize, Serialize};

use super::support::{cached, drive, on, sound};

#[derive(Debug, thiserror::Error, Serialize, Deserialize, Failure)]
#[error("{0} is not in the cart")]
struct NotInCart(String);

#[activity]
async fn price(item: String) -> Result<u64> {
    Ok(item.len() as u64)
}

#[derive(Default, Serialize)]
struct Cart {
    items: Vec<String>,
    total: u64,
    is_paid: bool,
}

#[workflow]
impl Cart {
    async fn run(ctx: Ctx<Self>) -> Result<Vec<String>> {
        ctx.wait_until(|cart| cart.is_paid).await?;
        Ok(ctx.read(|cart| cart.items.clone()))
    }

    #[signal]
    fn pay(&mut self) {
        self.is_paid = true;
    }

    #[query]
    fn count(&self) -> usize {
        self.items.len()
    }

    #[query]
    fn total(&self) -> u64 {
        self.total
    }

    #[update]
    fn add(&mut self, item: String) -> usize {
        self.items.push(item);
        self.items.len()
    }

    #[validator(remove)]
    fn can_remove(&self, item: &String) -> Result<(), NotInCart> {
        if self.items.contains(item) {
            return Ok(());
        }
        Err(NotInCart(item.clone()))
    }

    #[update]
    fn remove(&mut self, item: String) -> Result<usize> {
        self.items.retain(|other| *other != item);
        Ok(self.items.len())
    }

    #[update]
    async fn weigh(ctx: Ctx<Self>, item: String) -> Result<u64> {
        let price = ctx.run(price, item).await?;
        ctx.sleep(1.hours()).await?;
        Ok(ctx.with(|cart| {
            cart.total += price;
            cart.total
        }))
    }
}

fn names(history: &[outlast::model::Event]) -> Vec<&'static str> {
    history.iter().map(|event| event.kind.name()).collect()
}

#[test]
fn an_update_is_answered_with_what_its_handler_returns() {
    drive(async {
        let app = TestEnv::new()
            .activity(price)
            .workflow(Cart::run)
            .start()
            .await;
        let cart = app.start(Cart::run, ()).id("c").await.expect("it starts");
        assert_eq!(cart.add("tea").await.expect("it is done"), 1);
        assert_eq!(cart.weigh("tea").await.expect("it is done"), 3);
        assert_eq!(cart.weigh("scone").await.expect("it is done"), 8);
        assert_eq!(cart.total().await.expect("it is known"), 8);
        cart.pay().await.expect("it is durable");
        assert_eq!(cart.result().await.expect("it ends"), ["tea"]);
        sound(&cart, Cart::run).await;
    });
}

#[test]
fn an_update_that_is_turned_away_leaves_no_trace() {
    drive(async {
        let app = TestEnv::new()
            .activity(price)
            .workflow(Cart::run)
            .start()
            .await;
        let cart = app.start(Cart::run, ()).id("c").await.expect("it starts");
        cart.add("tea").await.expect("it is done");
        let before = cart.history().await.expect("it is there");
        let refused = cart.remove("milk").await.expect_err("it is not there");
        assert!(
            refused.to_string().contains("milk is not in the cart"),
            "{refused}"
        );
        let after = cart.history().await.expect("it is there");
        assert_eq!(names(&before), names(&after));
        assert_eq!(cart.remove("tea").await.expect("it is done"), 0);
        cart.pay().await.expect("it is durable");
        cart.result().await.expect("it ends");
        sound(&cart, Cart::run).await;
    });
}

#[test]
fn the_same_update_id_is_the_same_update() {
    drive(async {
        let store = MemoryStore::new();
        let app = on(&store).activity(price).workflow(Cart::run).start().await;
        let cart = app.start(Cart::run, ()).id("c").await.expect("it starts");
        for _ in 0..3 {
            assert_eq!(cart.add("tea").id("one").await.expect("it is done"), 1);
        }
        drop(app);
        let app = on(&store).activity(price).workflow(Cart::run).start().await;
        let cart = app.get(Cart::run, "c");
        assert_eq!(cart.add("tea").id("one").await.expect("it is known"), 1);
        assert_eq!(cart.count().await.expect("it is known"), 1);
        cart.pay().await.expect("it is durable");
        assert_eq!(cart.result().await.expect("it ends"), ["tea"]);
        assert_eq!(cart.add("tea").id("one").await.expect("it is known"), 1);
        let late = cart.add("milk").await.expect_err("it has ended");
        assert!(late.to_string().contains("ended"), "{late}");
        sound(&cart, Cart::run).await;
    });
}

#[test]
fn an_update_arrives_while_no_instance_is_in_memory() {
    drive(async {
        let store = MemoryStore::new();
        let app = on(&store).activity(price).workflow(Cart::run).start().await;
        let cart = app.start(Cart::run, ()).id("c").await.expect("it starts");
        cart.add("tea").await.expect("it is done");
        drop(app);
        let app = on(&store).activity(price).workflow(Cart::run).start().await;
        let cart = app.get(Cart::run, "c");
        let refused = cart.remove("milk").await.expect_err("it is not there");
        assert!(refused.to_string().contains("milk"), "{refused}");
        assert_eq!(cart.add("jam").await.expect("it is done"), 2);
        let history = cart.history().await.expect("it is there");
        let is_admitted = |e: &outlast::model::Event| {
            matches!(
                e.kind,
                EventKind::Update(outlast::model::event::UpdateEvent::Admitted(_))
            )
        };
        assert!(
            history.iter().any(is_admitted),
            "the slow path writes what it is asked"
        );
        cart.pay().await.expect("it is durable");
        assert_eq!(cart.result().await.expect("it ends"), ["tea", "jam"]);
        sound(&cart, Cart::run).await;
    });
}

#[test]
fn a_query_sees_all_that_was_acknowledged_and_changes_nothing() {
    drive(async {
        let app = TestEnv::new()
            .activity(price)
            .workflow(Cart::run)
            .start()
            .await;
        let cart = app.start(Cart::run, ()).id("c").await.expect("it starts");
        for n in 1..=5 {
            cart.add("tea").await.expect("it is done");
            assert_eq!(cart.count().await.expect("it is known"), n);
        }
        let before = cart.history().await.expect("it is there");
        for _ in 0..3 {
            assert_eq!(cart.count().await.expect("it is known"), 5);
        }
        assert_eq!(before, cart.history().await.expect("it is there"));
        cart.pay().await.expect("it is durable");
        assert_eq!(cart.result().await.expect("it ends").len(), 5);
        assert_eq!(cart.count().await.expect("it has ended and still knows"), 5);
        sound(&cart, Cart::run).await;
    });
}

#[test]
fn a_query_of_a_run_that_is_not_in_memory_is_answered_by_replay() {
    drive(async {
        let store = MemoryStore::new();
        let app = on(&store).activity(price).workflow(Cart::run).start().await;
        let cart = app.start(Cart::run, ()).id("c").await.expect("it starts");
        cart.add("tea").await.expect("it is done");
        let done = app.start(Cart::run, ()).id("d").await.expect("it starts");
        done.add("jam").await.expect("it is done");
        done.pay().await.expect("it is durable");
        done.result().await.expect("it ends");
        drop(app);
        let app = on(&store).activity(price).workflow(Cart::run).start().await;
        assert_eq!(
            app.get(Cart::run, "c").count().await.expect("it is known"),
            1
        );
        assert_eq!(
            app.get(Cart::run, "d").count().await.expect("it is known"),
            1
        );
        let missing = app.get(Cart::run, "x").count().await;
        assert!(missing.is_err());
    });
}

/// Two numbers that are the same whenever no code can run.
#[derive(Default, Serialize)]
struct Pair {
    ahead: u64,
    behind: u64,
    followed: u64,
}

const BUMPS: u64 = 20;

#[workflow]
impl Pair {
    async fn run(ctx: Ctx<Self>) -> Result<u64> {
        let follower = ctx.spawn(async move {
            while ctx.read(|pair| pair.followed) < BUMPS {
                ctx.wait_until(|pair| pair.followed < pair.behind).await?;
                ctx.with(|pair| pair.followed += 1);
            }
            Ok::<(), Error>(())
        });
        follower.await?;
        Ok(ctx.read(|pair| pair.followed))
    }

    #[signal]
    async fn bump(ctx: Ctx<Self>) -> Result<()> {
        ctx.with(|pair| pair.ahead += 1);
        for _ in 0..3 {
            ctx.yield_now().await;
        }
        ctx.with(|pair| pair.behind += 1);
        Ok(())
    }

    #[query]
    fn all(&self) -> (u64, u64, u64) {
        (self.ahead, self.behind, self.followed)
    }
}

#[test]
fn a_query_sees_whole_slices_and_all_signals_that_were_acknowledged() {
    drive(async {
        for runs in [1_000, 0] {
            let env = TestEnv::new().workflow(Pair::run);
            let app = env.settings(cached(runs)).start().await;
            let pair = app.start(Pair::run, ()).await.expect("it starts");
            for sent in 1..=BUMPS {
                // Nobody says which of the two comes first.
                let (all, bumped) =
                    futures::join!(pair.all().into_future(), pair.bump().into_future());
                bumped.expect("it is durable");
                let (ahead, behind, followed) = all.expect("it is known");
                assert!(ahead == behind && behind == followed, "{runs} cached");
                assert!(sent - 1 <= ahead && ahead <= sent, "{runs} cached");
                let (ahead, behind, followed) = pair.all().await.expect("it is known");
                assert_eq!([ahead, behind, followed], [sent; 3], "{runs} cached");
            }
            assert_eq!(pair.result().await.expect("it ends"), BUMPS);
            sound(&pair, Pair::run).await;
        }
    });
}

/// Slots of slices: none, while it is shut.
#[derive(Clone, Default)]
struct Slots {
    is_shut: Arc<AtomicBool>,
    refused: Arc<AtomicU32>,
}

impl Slots {
    async fn until_asked_again(&self) {
        let before = self.refused.load(Ordering::SeqCst);
        while self.refused.load(Ordering::SeqCst) < before + 3 {
            tokio::task::yield_now().await;
        }
    }
}

impl SlotSupplier for Slots {
    fn take(&self, _: &Ask<'_>) -> Permit {
        if !self.is_shut.load(Ordering::SeqCst) {
            return Permit::Taken;
        }
        self.refused.fetch_add(1, Ordering::SeqCst);
        Permit::Later(Duration::from_millis(1))
    }

    fn give(&self, _: &Ask<'_>) {}
}

#[test]
fn a_query_waits_for_the_code_that_has_not_yet_seen_an_acknowledged_signal() {
    drive(async {
        for runs in [1_000, 0] {
            let slots = Slots::default();
            let env = TestEnv::new().workflow(Pair::run).settings(cached(runs));
            let supplier = slots.clone();
            let env = env.queue("default", |q| q.slot_supplier(SlotKind::Workflow, supplier));
            let app = env.real_time().start().await;
            let pair = app.start(Pair::run, ()).await.expect("it starts");
            assert_eq!(pair.all().await.expect("it is known"), (0, 0, 0));
            for sent in 1..=3 {
                slots.is_shut.store(true, Ordering::SeqCst);
                pair.bump().await.expect("it is durable, and not handled");
                let mut asked = std::pin::pin!(pair.all().into_future());
                assert!(futures::poll!(&mut asked).is_pending());
                slots.until_asked_again().await;
                assert!(futures::poll!(&mut asked).is_pending());
                slots.is_shut.store(false, Ordering::SeqCst);
                assert_eq!(asked.await.expect("it is known"), (sent, sent, sent));
            }
            sound(&pair, Pair::run).await;
        }
    });
}
