//! Every stage is passed, and those of a chain in the order in which they were given.

use outlast::prelude::*;

use crate::diary::Diary;
use crate::support::{cached, drive};

const GO: Signal<()> = signal("go");

#[activity]
async fn add(ctx: ActivityCtx, n: u64) -> Result<u64> {
    ctx.heartbeat(n)?;
    Ok(n + 1)
}

/// Blocking code, on a thread of its own.
#[activity]
fn double(n: u64) -> Result<u64> {
    Ok(n * 2)
}

#[derive(Default)]
struct Tea {
    cups: u64,
}

#[workflow]
impl Tea {
    async fn run(ctx: Ctx<Self>, n: u64) -> Result<u64> {
        if n == 0 {
            return ctx.continue_as_new(1_u64);
        }
        ctx.recv(GO).await?;
        let cups = ctx.read(|tea| tea.cups);
        Ok(n + cups)
    }

    #[signal]
    fn pour(&mut self) {
        self.cups += 1;
    }

    #[query]
    fn cups(&self) -> u64 {
        self.cups
    }

    #[validator(drink)]
    fn has_some(&self, n: &u64) -> Result<()> {
        if self.cups < *n {
            return Err(Error::msg("not enough"));
        }
        Ok(())
    }

    #[update]
    fn drink(&mut self, n: u64) -> Result<u64> {
        self.cups -= n;
        Ok(self.cups)
    }
}

#[workflow]
async fn child(ctx: Ctx, n: u64) -> Result<u64> {
    Ok(ctx.run(double, n).await?)
}

#[workflow]
async fn busy(ctx: Ctx, n: u64) -> Result<u64> {
    let n = ctx.run(add, n).await?;
    let n = ctx.step("square", move || async move { Ok(n * n) }).await?;
    ctx.sleep(5.secs()).await?;
    let n = ctx.child(child, n).id("child").await?;
    ctx.external("tea").send(GO, ()).await?;
    ctx.external("victim").cancel().await?;
    Ok(n)
}

#[workflow]
async fn victim(ctx: Ctx) -> Result<()> {
    ctx.sleep(9_000.days()).await?;
    Ok(())
}

/// Lines of one of the two, without its name.
fn of(lines: &[String], name: &str) -> Vec<String> {
    let own = lines.iter().filter_map(|line| line.strip_prefix(name));
    own.map(|line| line.trim().to_owned()).collect()
}

async fn scene(settings: outlast::Settings) -> Vec<String> {
    let diary = Diary::default();
    let env = TestEnv::new().activity(add).activity(double);
    let env = env.workflow(busy).workflow(child).workflow(victim);
    let env = env
        .workflow(Tea::run)
        .interceptor(diary.named("first"))
        .interceptor(diary.named("second"))
        .settings(settings);
    let app = env.start().await;
    let tea = app.start(Tea::run, 0).id("tea").await.expect("it starts");
    app.start(victim, ()).id("victim").await.expect("it starts");
    tea.pour().await.expect("it is sent");
    assert_eq!(tea.cups().await.expect("it is answered"), 1);
    assert_eq!(tea.drink(1).await.expect("it is accepted"), 0);
    tea.drink(9).await.expect_err("it is turned away");
    let n = app.run(busy, 2).id("busy").await.expect("it ends");
    assert_eq!(n, 18);
    assert_eq!(tea.result().await.expect("it ends"), 1);
    diary.take()
}

#[test]
fn every_stage_is_passed_in_the_order_of_registration() {
    drive(async {
        let lines = scene(cached(1_000)).await;
        let is_way_out = |line: &str| ["done", "ends", "has the"].iter().any(|w| line.contains(w));
        let ways_in = lines.iter().filter(|line| !is_way_out(line));
        let (first, second) = (of(&lines, "first"), of(&lines, "second"));
        let expected = [
            "start",
            "signal",
            "query",
            "update",
            "result",
            "has the result",
            "begins Tea passed by first second",
            "goes on",
            "received go",
            "signal pour passed by first second",
            "query cups passed by first second",
            "validate drink",
            "update drink passed by first second",
            "ends Tea",
            "begins busy passed by first second",
            "asks for add",
            "Activity add passed by first second",
            "heartbeat of attempt 1",
            "add is done",
            "asks for step square",
            "Step square passed by first second",
            "square is done",
            "waits 5s",
            "asks for child child",
            "begins child passed by first second",
            "asks for double",
            "Activity double passed by first second",
            "double is done",
            "sends go",
            "cancels victim",
            "ends busy",
        ];
        for line in expected {
            assert!(first.iter().any(|l| l == line), "{line}: {first:#?}");
            assert!(second.iter().any(|l| l == line), "{line}: {second:#?}");
        }
        // On the way in the first comes first, on the way out the second.
        let mut seen = Vec::new();
        for line in ways_in {
            let (name, what) = line.split_once(' ').expect("a name and what it passed");
            match name {
                "first" => seen.push(what.to_owned()),
                _ => assert!(seen.contains(&what.to_owned()), "{line}: {lines:#?}"),
            }
        }
        let place = |line: &str| lines.iter().position(|other| other == line);
        assert!(place("second add is done") < place("first add is done"));
        assert!(place("second ends busy") < place("first ends busy"));
        assert!(place("second has the result") < place("first has the result"));
    });
}

#[test]
fn what_clients_do_to_runs_passes_too() {
    drive(async {
        let diary = Diary::default();
        let env = TestEnv::new().workflow(Tea::run).workflow(victim);
        let app = env.interceptor(diary.named("one")).start().await;
        let tea = app.start(Tea::run, 1).id("a").with_signal(|tea| tea.pour());
        let tea = tea.await.expect("it starts");
        let start = app.start(Tea::run, 1).id("b");
        let refused = start.with_update(|tea| tea.drink(1)).await;
        refused.expect_err("there is no tea");
        tea.describe().await.expect("it is there");
        tea.cancel().await.expect("it is open");
        tea.result().await.expect_err("it was cancelled");
        let run = app.start(victim, ()).await.expect("it starts");
        run.terminate("no use").await.expect("it is open");
        let error = run.result().await.expect_err("it was terminated");
        assert!(error.to_string().contains("no use, says one"), "{error}");
        for line in [
            "one signal with start",
            "one update with start",
            "one describe",
            "one cancel",
            "one terminate",
        ] {
            assert!(diary.has(line), "{line}: {:#?}", diary.take());
        }
    });
}

#[test]
fn without_instances_in_memory_outgoing_calls_happen_once() {
    drive(async {
        let lines = scene(cached(0)).await;
        let count = |line: &str| lines.iter().filter(|other| *other == line).count();
        // Workflow code is run again, and interceptors are part of it.
        assert!(count("first begins busy passed by first second") > 3);
        assert!(count("first asks for add") > 3);
        // What they asked for is not.
        for line in [
            "first Activity add passed by first second",
            "first Step square passed by first second",
            "first Activity double passed by first second",
        ] {
            assert_eq!(count(line), 1, "{line}: {lines:#?}");
        }
    });
}
