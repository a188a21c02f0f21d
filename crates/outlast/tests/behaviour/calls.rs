//! Activities: inputs, results, errors, dependencies, attempts.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use outlast::model::EventKind;
use outlast::prelude::*;
use outlast::{ActivityDef, WorkflowDef};
use serde::{Deserialize, Serialize};

use super::support::{drive, failure, sound};

#[activity]
async fn greet(name: String) -> Result<String> {
    Ok(format!("Hello, {name}!"))
}

#[workflow]
async fn hello(ctx: Ctx, name: String) -> Result<String> {
    Ok(ctx.run(greet, name).await?)
}

#[outlast::test]
async fn hello_is_said(env: TestEnv) -> Result<()> {
    let app = env.activity(greet).workflow(hello).start().await;
    assert_eq!(app.run(hello, "Rust").await?, "Hello, Rust!");
    Ok(())
}

#[test]
fn a_one_activity_run_has_eleven_events() {
    drive(async {
        let app = TestEnv::new().activity(greet).workflow(hello).start().await;
        let run = app.start(hello, "you").await.expect("it starts");
        assert_eq!(run.result().await.expect("it ends"), "Hello, you!");
        let history = sound(&run, hello).await;
        assert_eq!(super::support::names(&history), EVENTS);
    });
}

const EVENTS: [&str; 11] = [
    "WorkflowExecutionStarted",
    "WorkflowTaskScheduled",
    "WorkflowTaskStarted",
    "WorkflowTaskCompleted",
    "ActivityTaskScheduled",
    "ActivityTaskStarted",
    "ActivityTaskCompleted",
    "WorkflowTaskScheduled",
    "WorkflowTaskStarted",
    "WorkflowTaskCompleted",
    "WorkflowExecutionCompleted",
];

#[derive(Clone, Default)]
struct Bank {
    log: Arc<Mutex<Vec<String>>>,
}

impl Bank {
    fn note(&self, line: impl Into<String>) {
        self.log
            .lock()
            .expect("nobody panics with it")
            .push(line.into());
    }

    fn lines(&self) -> Vec<String> {
        self.log.lock().expect("nobody panics with it").clone()
    }
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize, Failure)]
enum ChargeError {
    #[error("card declined: {0}")]
    #[failure(terminal)]
    Declined(String),
    #[error("payment gateway is busy")]
    Busy,
}

#[activity]
async fn charge(
    State(bank): State<Bank>,
    ctx: ActivityCtx,
    card: String,
) -> Result<String, ChargeError> {
    bank.note(format!("charge {card} #{}", ctx.attempt()));
    match card.as_str() {
        "stolen" => Err(ChargeError::Declined(card)),
        "busy" if ctx.attempt() < 3 => Err(ChargeError::Busy),
        _ => Ok(format!("ch_{card}")),
    }
}

#[activity]
async fn ship(State(bank): State<Bank>, address: String) -> Result<String> {
    bank.note(format!("ship {address}"));
    if address.is_empty() {
        Err("no address").terminal()?;
    }
    Ok(format!("parcel to {address}"))
}

#[activity]
fn refund(State(bank): State<Bank>, charge: String) -> Result<()> {
    bank.note(format!("refund {charge}"));
    Ok(())
}

#[workflow]
async fn checkout(ctx: Ctx, (card, address): (String, String)) -> Result<String> {
    let charge = ctx
        .run(charge, &card)
        .retry(RetryPolicy::times(5))
        .undo(refund)
        .await?;
    let parcel = ctx.run(ship, &address).await?;
    Ok(format!("{charge}, {parcel}"))
}

async fn shop(bank: &Bank) -> outlast::App {
    let env = TestEnv::new().state(bank.clone());
    let env = env.activity(charge).activity(ship).activity(refund);
    env.workflow(checkout).start().await
}

#[test]
fn a_checkout_tries_again_while_the_gateway_is_busy() {
    drive(async {
        let bank = Bank::default();
        let app = shop(&bank).await;
        let done = app.run(checkout, ("busy".into(), "Oslo".into())).await;
        assert_eq!(done.expect("it succeeds"), "ch_busy, parcel to Oslo");
        let lines = [
            "charge busy #1",
            "charge busy #2",
            "charge busy #3",
            "ship Oslo",
        ];
        assert_eq!(bank.lines(), lines);
    });
}

#[test]
fn a_terminal_error_is_not_tried_again_and_keeps_its_type() {
    drive(async {
        let bank = Bank::default();
        let app = shop(&bank).await;
        let run = app.start(checkout, ("stolen".into(), "Oslo".into())).await;
        let run = run.expect("it starts");
        let error = run.result().await.expect_err("it fails");
        let found: Option<ChargeError> = error.find();
        assert!(
            matches!(found, Some(ChargeError::Declined(card)) if card == "stolen"),
            "{error}"
        );
        assert_eq!(bank.lines(), ["charge stolen #1"]);
        sound(&run, checkout).await;
    });
}

#[test]
fn a_later_failure_undoes_what_was_done() {
    drive(async {
        let bank = Bank::default();
        let app = shop(&bank).await;
        let run = app.start(checkout, ("good".into(), String::new())).await;
        let run = run.expect("it starts");
        let text = failure(run.result().await);
        assert!(text.contains("no address"), "{text}");
        assert_eq!(bank.lines(), ["charge good #1", "ship ", "refund ch_good"]);
        sound(&run, checkout).await;
    });
}

#[workflow]
async fn lenient(ctx: Ctx, card: String) -> Result<String> {
    match ctx.run(charge, &card).await {
        Ok(id) => Ok(id),
        Err(CallError::Failed(ChargeError::Declined(why), _)) => Ok(format!("no: {why}")),
        Err(error) => Err(error.into()),
    }
}

#[test]
fn a_typed_error_is_matched_by_the_workflow() {
    drive(async {
        let env = TestEnv::new().state(Bank::default());
        let app = env.activity(charge).workflow(lenient).start().await;
        assert_eq!(
            app.run(lenient, "stolen").await.expect("it ends"),
            "no: stolen"
        );
    });
}

#[activity]
fn square(n: u64) -> Result<u64> {
    Ok(n * n)
}

#[activity]
async fn double(n: u64) -> Result<u64> {
    tokio::task::yield_now().await;
    Ok(n * 2)
}

#[workflow]
async fn mixed(ctx: Ctx, n: u64) -> Result<u64> {
    let (a, b) = futures::try_join!(ctx.run(square, n), ctx.run(double, n))?;
    Ok(a + b)
}

#[test]
fn async_and_blocking_activities_run_side_by_side() {
    drive(async {
        let env = TestEnv::new().activity(square).activity(double);
        let app = env.workflow(mixed).start().await;
        assert_eq!(app.run(mixed, 5).await.expect("it ends"), 35);
    });
}

static MET: (std::sync::Mutex<bool>, std::sync::Condvar) =
    (std::sync::Mutex::new(false), std::sync::Condvar::new());

/// Blocks its thread until the async one has run.
#[activity]
fn waits_for_its_neighbour() -> Result<bool> {
    let met = MET.0.lock().expect("nobody panics");
    let limit = std::time::Duration::from_secs(20);
    let waited = MET.1.wait_timeout_while(met, limit, |met| !*met);
    Ok(*waited.expect("nobody panics").0)
}

#[activity]
async fn frees_its_neighbour() -> Result<()> {
    tokio::task::yield_now().await;
    *MET.0.lock().expect("nobody panics") = true;
    MET.1.notify_all();
    Ok(())
}

#[workflow]
async fn neighbours(ctx: Ctx) -> Result<bool> {
    let (met, freed) = futures::join!(
        ctx.run(waits_for_its_neighbour, ()),
        ctx.run(frees_its_neighbour, ())
    );
    freed?;
    Ok(met?)
}

#[test]
fn blocking_code_has_a_thread_of_its_own_on_a_runtime_with_one() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let env = TestEnv::new().activity(waits_for_its_neighbour);
        let env = env.activity(frees_its_neighbour).workflow(neighbours);
        let app = env.real_time().start().await;
        assert!(app.run(neighbours, ()).await.expect("it ends"), "they meet");
        let state = app.worker_state().expect("there is a worker");
        assert_eq!(state.attempts, 0, "nothing is left of them");
        assert!(state.slots.iter().all(|slots| slots.used == 0), "{state:?}");
    });
}

#[workflow]
async fn fan(ctx: Ctx, width: u64) -> Result<u64> {
    let all = futures::future::join_all((0..width).map(|n| ctx.run(double, n))).await;
    all.into_iter().try_fold(0, |sum, one| Ok(sum + one?))
}

#[test]
fn a_fan_out_of_five_hundred_gathers_all_results() {
    drive(async {
        let app = TestEnv::new().activity(double).workflow(fan).start().await;
        let run = app.start(fan, 500).await.expect("it starts");
        assert_eq!(run.result().await.expect("it ends"), 499 * 500);
        sound(&run, fan).await;
    });
}

/// As many calls as the calls before gave.
#[workflow]
async fn widths(ctx: Ctx, mut width: u64) -> Result<Vec<u64>> {
    let mut all = Vec::new();
    for _ in 0..3 {
        let outcomes = futures::future::join_all((0..width).map(|n| ctx.run(double, n))).await;
        let results: Vec<u64> = outcomes.into_iter().collect::<Result<_, _>>()?;
        width = results.into_iter().sum();
        all.push(width);
    }
    Ok(all)
}

#[test]
fn how_many_calls_there_are_may_be_the_result_of_calls() {
    drive(async {
        let env = TestEnv::new().activity(double).workflow(widths);
        let app = env.start().await;
        for (width, sums) in [(0, [0, 0, 0]), (1, [0, 0, 0]), (3, [6, 30, 870])] {
            let run = app.start(widths, width).await.expect("it starts");
            assert_eq!(run.result().await.expect("it ends"), sums);
            let history = sound(&run, widths).await;
            let asked = history
                .iter()
                .filter(|event| matches!(event.kind, EventKind::ActivityScheduled(_)));
            assert_eq!(asked.count() as u64, width + sums[0] + sums[1]);
        }
    });
}

#[activity]
async fn copy_file(ctx: ActivityCtx, size: u64) -> Result<String> {
    let from = ctx.last_heartbeat::<u64>().unwrap_or(0);
    ctx.heartbeat(from + size)?;
    if ctx.attempt() < 3 {
        Err("the line broke")?;
    }
    Ok(format!("from {from} to {}", from + size))
}

#[workflow]
async fn backup(ctx: Ctx) -> Result<String> {
    Ok(ctx.run(copy_file, 10).heartbeat(1.mins()).await?)
}

#[test]
fn heartbeat_details_reach_the_next_attempt() {
    drive(async {
        let app = TestEnv::new()
            .activity(copy_file)
            .workflow(backup)
            .start()
            .await;
        let run = app.start(backup, ()).await.expect("it starts");
        assert_eq!(run.result().await.expect("it ends"), "from 20 to 30");
        sound(&run, backup).await;
    });
}

#[activity]
async fn silent(ctx: ActivityCtx) -> Result<u32> {
    if ctx.attempt() == 1 {
        ctx.cancelled().await;
    }
    Ok(ctx.attempt())
}

#[workflow]
async fn supervised(ctx: Ctx) -> Result<u32> {
    Ok(ctx.run(silent, ()).heartbeat(10.secs()).await?)
}

#[test]
fn an_attempt_that_does_not_report_is_tried_again() {
    drive(async {
        let env = TestEnv::new().activity(silent).workflow(supervised);
        let clock = env.clock();
        let app = env.start().await;
        let run = app.start(supervised, ()).await.expect("it starts");
        // Time stands while an attempt runs: only the test can let it pass.
        clock.advance(&app, 11.secs());
        assert_eq!(run.result().await.expect("it ends"), 2);
        sound(&run, supervised).await;
    });
}

#[derive(Clone, Default)]
struct Tries(Arc<AtomicU32>);

#[activity]
async fn shaky(State(tries): State<Tries>, good: u32) -> Result<u32> {
    let this = tries.0.fetch_add(1, Ordering::SeqCst) + 1;
    assert!(this >= good, "try {this} of {good}");
    Ok(this)
}

#[workflow]
async fn stubborn(ctx: Ctx, (good, most): (u32, u32)) -> Result<u32> {
    Ok(ctx.run(shaky, good).retry(RetryPolicy::times(most)).await?)
}

#[test]
fn a_panicking_activity_is_tried_again_and_then_panicked() {
    drive(async {
        let start = async |tries: &Tries| {
            let env = TestEnv::new().state(tries.clone());
            env.activity(shaky).workflow(stubborn).start().await
        };
        let tries = Tries::default();
        let app = start(&tries).await;
        assert_eq!(app.run(stubborn, (3, 5)).await.expect("it ends"), 3);
        let tries = Tries::default();
        let app = start(&tries).await;
        let run = app.start(stubborn, (9, 2)).await.expect("it starts");
        let error = run.result().await.expect_err("it fails");
        assert!(matches!(error, CallError::Panicked(_)), "{error:?}");
        assert_eq!(tries.0.load(Ordering::SeqCst), 2);
        sound(&run, stubborn).await;
    });
}

const SHOUT: ActivityDef<String, String> = ActivityDef::new("shout");
const LOUD: WorkflowDef<String, String> = WorkflowDef::new("loud");

#[test]
fn everything_works_without_macros() {
    drive(async {
        let place = tempfile::tempdir().expect("a directory");
        let builder = outlast::Outlast::sqlite(place.path().join("loud.db"));
        let builder = builder
            .bind(SHOUT, |_ctx, text: String| async move {
                Ok::<_, Error>(text.to_uppercase())
            })
            .bind_workflow(LOUD, |ctx: Ctx, text: String| async move {
                Ok::<_, Error>(ctx.run(SHOUT, text).await?)
            });
        let app = builder.start().await.expect("it starts");
        assert_eq!(app.run(LOUD, "hey").await.expect("it ends"), "HEY");
        app.shutdown().await;
    });
}

#[workflow]
async fn by_name(ctx: Ctx) -> Result<u64> {
    let answer = ctx.run_raw("double", &serde_json::json!(21)).await?;
    Ok(answer.as_u64().unwrap_or_default())
}

#[test]
fn an_activity_can_be_called_by_its_name() {
    drive(async {
        let app = TestEnv::new()
            .activity(double)
            .workflow(by_name)
            .start()
            .await;
        assert_eq!(app.run(by_name, ()).await.expect("it ends"), 42);
    });
}

#[workflow]
async fn patient(ctx: Ctx) -> Result<u64> {
    let before = ctx.now();
    ctx.sleep(365.days()).await?;
    let year = ctx.now().duration_since(before)?;
    Ok(year.as_secs() / 86_400)
}

#[test]
fn a_year_passes_in_no_time() {
    drive(async {
        let app = TestEnv::new().workflow(patient).start().await;
        assert_eq!(app.run(patient, ()).await.expect("it ends"), 365);
    });
}

#[test]
fn a_mock_stands_in_for_an_activity() {
    drive(async {
        let env = TestEnv::new().workflow(hello);
        let app = env
            .mock(greet, |name| Ok(format!("mock {name}")))
            .start()
            .await;
        assert_eq!(app.run(hello, "x").await.expect("it ends"), "mock x");
    });
}
