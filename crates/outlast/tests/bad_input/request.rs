//! Requests that cannot be: ids, sizes, types.

use outlast::prelude::*;
use outlast::{App, ListFilter};

use crate::support::{code, drive, failure};

#[workflow]
async fn waits(ctx: Ctx, _input: String) -> Result<u64> {
    Ok(ctx.recv(GO).await?)
}

const GO: Signal<u64> = signal("go");

async fn app() -> App {
    TestEnv::new().workflow(waits).start().await
}

async fn is_untouched(app: &App) {
    let all = app.list(ListFilter::default()).await.expect("a list");
    assert!(all.is_empty(), "{all:?}");
    assert_eq!(app.written(), (0, 0), "something was written");
}

fn bad_ids() -> [(String, &'static str); 4] {
    [
        (String::new(), "empty"),
        ("x".repeat(1_001), "1,000 bytes"),
        ("a\nb".into(), "control"),
        ("a\u{0}b".into(), "control"),
    ]
}

#[test]
fn an_id_that_cannot_be_is_refused() {
    drive(async {
        let app = app().await;
        for (id, why) in bad_ids() {
            let refused = app.start(waits, "x").id(&id).await;
            let text = failure(refused);
            assert!(text.contains(why) && text.contains("workflow id"), "{text}");
            assert_eq!(code(app.start(waits, "x").id(&id).await), "OL-1001");
            assert_eq!(code(app.run(waits, "x").id(&id).await), "OL-1001");
            let request = app.start(waits, "x").id("a").request_id(&id);
            assert_eq!(code(request.await), "OL-1001");
            let queue = app.start(waits, "x").id("a").queue(&id);
            assert_eq!(code(queue.await), "OL-1001");
        }
        is_untouched(&app).await;
        let longest = "x".repeat(1_000);
        app.start(waits, "x")
            .id(longest)
            .await
            .expect("it may be this long");
    });
}

#[test]
fn a_signal_with_a_bad_name_or_request_is_refused() {
    drive(async {
        let app = app().await;
        let run = app.start(waits, "x").id("a").await.expect("it starts");
        let before = app.written();
        for name in ["", "a\tb"] {
            let odd: Signal<u64> = signal(name);
            assert_eq!(code(run.send(odd, 1).await), "OL-1001");
        }
        for (id, _) in bad_ids() {
            assert_eq!(code(run.send(GO, 1).request_id(id).await), "OL-1001");
        }
        assert_eq!(app.written(), before);
        run.send(GO, 7).await.expect("it is durable");
        assert_eq!(run.result().await.expect("it ends"), 7);
    });
}

#[test]
fn too_large_a_start_or_signal_is_refused_with_its_size() {
    drive(async {
        let app = app().await;
        let large = "x".repeat(2 << 20);
        let text = failure(app.start(waits, &large).id("a").await);
        assert!(
            text.contains("2097154 bytes") && text.contains("a has"),
            "{text}"
        );
        assert_eq!(code(app.start(waits, &large).id("a").await), "OL-1002");
        is_untouched(&app).await;
        let run = app.start(waits, "x").id("a").await.expect("it starts");
        let before = app.written();
        let big: Signal<String> = signal("go");
        assert_eq!(code(run.send(big, &large).await), "OL-1002");
        assert_eq!(app.written(), before);
        let fits = "x".repeat((2 << 20) - 2);
        app.start(waits, &fits).await.expect("it may be this large");
    });
}

#[test]
fn a_run_that_has_ended_refuses_everything() {
    drive(async {
        let app = app().await;
        let run = app.start(waits, "x").id("a").await.expect("it starts");
        run.send(GO, 1).await.expect("it is durable");
        run.result().await.expect("it ends");
        let before = app.written();
        assert_eq!(code(run.send(GO, 1).await), "OL-1006");
        assert_eq!(code(run.cancel().await), "OL-1006");
        assert_eq!(code(run.terminate("x").await), "OL-1006");
        assert_eq!(code(run.retry().await), "OL-1006");
        assert_eq!(app.written(), before);
    });
}
