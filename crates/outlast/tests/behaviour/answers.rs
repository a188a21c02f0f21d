//! Activities that somebody outside answers for: once, from any process, also after a restart.

use std::sync::{Arc, Mutex};

use outlast::model::view::Waiting;
use outlast::prelude::*;
use outlast::{AnswerToken, App, CancelMode, Handle, Settings};
use outlast_service::memory::MemoryStore;

use super::support::{code, drive, failure, names, on, sound, until};

/// Where the activity leaves its tokens: a mail, a queue, a row in somebody's database.
#[derive(Clone, Default)]
struct Desk(Arc<Mutex<Vec<AnswerToken>>>);

impl Desk {
    fn put(&self, token: &AnswerToken) {
        let mut tokens = self.0.lock().expect("nobody panics with it");
        tokens.push(token.clone());
    }

    /// The token of the n-th attempt, once its code has returned.
    async fn token<T, E>(&self, run: &Handle<T, E>, n: usize) -> AnswerToken {
        until(run, |d| d.waiting.iter().any(is_outside)).await;
        self.0.lock().expect("nobody panics with it")[n].clone()
    }
}

fn is_outside(waiting: &Waiting) -> bool {
    matches!(waiting, Waiting::ActivityOutside { .. })
}

#[activity(start_to_close = "1h", heartbeat = "10m")]
async fn approve(ctx: ActivityCtx, State(desk): State<Desk>, amount: u64) -> Result<u64> {
    let later = ctx.complete_later();
    desk.put(later.token());
    if amount == 0 {
        return Ok(7);
    }
    Err(later.into())
}

#[activity]
fn approve_blocking(ctx: ActivityCtx, State(desk): State<Desk>, _amount: u64) -> Result<u64> {
    let later = ctx.complete_later();
    desk.put(later.token());
    Err(later)?
}

#[workflow]
async fn order(ctx: Ctx, amount: u64) -> Result<u64> {
    let call = ctx.run(approve, amount).cancel_mode(CancelMode::Wait);
    Ok(call.retry(RetryPolicy::times(2)).await?)
}

#[workflow]
async fn blocking_order(ctx: Ctx, amount: u64) -> Result<u64> {
    Ok(ctx.run(approve_blocking, amount).await?)
}

/// One slot: whatever waits outside must not hold it.
fn narrow() -> Settings {
    Settings {
        activity_slots: 1,
        ..Settings::default()
    }
}

fn env(store: &MemoryStore, desk: &Desk) -> TestEnv<(Desk, ())> {
    let env = on(store).state(desk.clone()).settings(narrow());
    let env = env.activity(approve).activity(approve_blocking);
    env.workflow(order).workflow(blocking_order)
}

async fn begin(store: &MemoryStore, desk: &Desk) -> App {
    env(store, desk).start().await
}

#[test]
fn whoever_has_the_token_answers_and_the_slot_is_free_meanwhile() {
    drive(async {
        let desk = Desk::default();
        let app = begin(&MemoryStore::new(), &desk).await;
        let a = app.start(order, 5).await.expect("it starts");
        let first = desk.token(&a, 0).await;
        let b = app.start(blocking_order, 6).await.expect("it starts");
        let second = desk.token(&b, 1).await;
        app.activity(&second).complete(60).await.expect("it counts");
        app.activity(&first).complete(50).await.expect("it counts");
        assert_eq!(a.result().await.expect("it ends"), 50);
        assert_eq!(b.result().await.expect("it ends"), 60);
        sound(&a, order).await;
        sound(&b, blocking_order).await;
    });
}

#[test]
fn a_second_answer_and_one_to_a_run_that_has_ended_are_refused() {
    drive(async {
        let desk = Desk::default();
        let app = begin(&MemoryStore::new(), &desk).await;
        let run = app.start(order, 5).await.expect("it starts");
        let open = app.activity(desk.token(&run, 0).await);
        // Both at once: the first counts.
        let (one, two) = futures::join!(open.complete(1), open.complete(2));
        assert!(one.is_ok());
        let refused = code(two);
        assert!(["OL-1011", "OL-1006"].contains(&refused), "{refused}");
        assert_eq!(run.result().await.expect("it ends"), 1);
        assert_eq!(code(open.complete(3).await), "OL-1006");
        assert_eq!(code(open.heartbeat(3).await), "OL-1006");
        assert_eq!(code(app.activity("nonsense").complete(3).await), "OL-1001");
        sound(&run, order).await;
    });
}

#[test]
fn code_that_answers_itself_after_all_was_first() {
    drive(async {
        let desk = Desk::default();
        let app = begin(&MemoryStore::new(), &desk).await;
        assert_eq!(app.run(order, 0).await.expect("it ends"), 7);
        let token = desk.0.lock().expect("nobody panics with it")[0].clone();
        assert_eq!(code(app.activity(token).complete(8).await), "OL-1006");
    });
}

#[test]
fn a_failure_from_outside_is_tried_again_and_the_old_token_is_worth_nothing() {
    drive(async {
        let desk = Desk::default();
        let env = env(&MemoryStore::new(), &desk);
        let clock = env.clock();
        let app = env.start().await;
        let run = app.start(order, 5).await.expect("it starts");
        let first = app.activity(desk.token(&run, 0).await);
        first.heartbeat("halfway").await.expect("it is wanted");
        first.fail("on fire").await.expect("it counts");
        clock.advance(&app, 1.secs());
        let second = app.activity(desk.token(&run, 1).await);
        assert_eq!(code(first.complete(1).await), "OL-1011");
        assert_eq!(code(first.heartbeat(1).await), "OL-1011");
        second.fail("again").await.expect("it counts");
        let text = failure(run.result().await);
        assert!(text.contains("again"), "{text}");
        sound(&run, order).await;
    });
}

#[test]
fn whoever_works_outside_hears_with_the_next_report_that_it_is_unwanted() {
    drive(async {
        let desk = Desk::default();
        let app = begin(&MemoryStore::new(), &desk).await;
        let run = app.start(order, 5).await.expect("it starts");
        let open = app.activity(desk.token(&run, 0).await);
        open.heartbeat(1).await.expect("it is wanted");
        run.cancel().await.expect("it is durable");
        loop {
            match open.heartbeat(2).await {
                Ok(()) => tokio::task::yield_now().await,
                Err(error) => {
                    assert!(error.is_cancelled(), "{error}");
                    break;
                }
            }
        }
        open.cancelled().await.expect("it counts");
        assert!(run.result().await.expect_err("cancelled").is_cancelled());
        let history = sound(&run, order).await;
        assert!(names(&history).contains(&"ActivityTaskCanceled"));
    });
}

#[test]
fn timeouts_go_on_while_somebody_outside_should_answer() {
    drive(async {
        let desk = Desk::default();
        let app = begin(&MemoryStore::new(), &desk).await;
        let run = app.start(order, 5).await.expect("it starts");
        let open = app.activity(desk.token(&run, 0).await);
        // Nobody reports within the ten minutes, twice.
        let error = run.result().await.expect_err("out of time");
        assert!(error.is_timeout(), "{error}");
        assert_eq!(code(open.complete(1).await), "OL-1006");
        sound(&run, order).await;
    });
}

#[test]
fn an_answer_counts_after_a_restart_and_the_attempt_was_not_lost() {
    drive(async {
        let (store, desk) = (MemoryStore::new(), Desk::default());
        let app = begin(&store, &desk).await;
        let run = app.start(order, 5).id("a").await.expect("it starts");
        let token = desk.token(&run, 0).await;
        app.shutdown().await;
        drop((app, run));
        let app = begin(&store, &desk).await;
        let run = app.get(order, "a");
        until(&run, |d| d.waiting.iter().any(is_outside)).await;
        app.activity(&token).complete(5).await.expect("it counts");
        assert_eq!(run.result().await.expect("it ends"), 5);
        assert_eq!(desk.0.lock().expect("nobody panics with it").len(), 1);
        sound(&run, order).await;
    });
}
