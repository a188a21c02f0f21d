//! A queue of the cluster in memory, served by a real worker on real engine threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use outlast_model::event::Started;
use outlast_model::options::{ActivityOptions, StepOptions};
use outlast_model::task::AttemptResult;
use outlast_model::{Failure, Payload};
use outlast_runtime::{Context, MainFuture, MainOutcome, Program};
use outlast_worker::owner::Owner;
use outlast_worker::polled::{AttemptHost, PolledPort};
use outlast_worker::{ActivityCode, Body, Bus, Queues, Registry, Settings, Worker};

use crate::crew::{Told, owner, queue};
use crate::fake::{Fake, World, options};

/// A program made of a function.
struct Flow(fn(Context) -> MainFuture);

impl Program for Flow {
    fn start(&self, ctx: Context, _: &Started) -> Result<MainFuture, Failure> {
        Ok((self.0)(ctx))
    }
}

/// An activity, a timer, a step, and another activity.
pub(crate) fn four_calls(ctx: Context) -> MainFuture {
    Box::pin(async move {
        ctx.activity("work".into(), Payload::null(), ActivityOptions::default())
            .await;
        ctx.timer(Duration::from_secs(3_600)).await;
        let code: outlast_runtime::StepCode =
            Arc::new(|| Box::pin(async { AttemptResult::Completed(Payload::null()) }));
        ctx.step("note".into(), StepOptions::default(), code).await;
        ctx.activity("work".into(), Payload::null(), ActivityOptions::default())
            .await;
        MainOutcome::Completed(Payload::bytes("all four"))
    })
}

pub(crate) fn registry(flow: fn(Context) -> MainFuture, work: ActivityCode) -> Registry {
    Registry {
        workflows: BTreeMap::from([("flow".into(), Arc::new(Flow(flow)) as _)]),
        activities: BTreeMap::from([("work".into(), work)]),
        patience: BTreeMap::new(),
    }
}

/// An activity that ends at once.
pub(crate) fn at_once() -> ActivityCode {
    Arc::new(|_, _| {
        Body::Async(Box::pin(async {
            AttemptResult::Completed(Payload::null())
        }))
    })
}

/// One queue with its worker.
pub(crate) struct Served {
    pub(crate) fake: Fake,
    pub(crate) owner: Owner,
    pub(crate) told: Told,
    pub(crate) port: Arc<PolledPort>,
    pub(crate) worker: Arc<Worker>,
}

impl Served {
    pub(crate) async fn new(registry: Registry, settings: Settings) -> Self {
        let served = Self::without_host(registry, settings).await;
        let host: Arc<dyn AttemptHost> = served.worker.clone();
        served.port.start(Arc::downgrade(&host));
        served
    }

    pub(crate) async fn without_host(registry: Registry, settings: Settings) -> Self {
        let fake = Fake::new();
        // Nothing is handed out again unless a test says so.
        fake.world().timeout = Duration::from_secs(86_400);
        let (owner, told) = owner(&fake);
        let runtime = tokio::runtime::Handle::current();
        let port = PolledPort::register(owner.clone(), options("q"), 2, runtime.clone());
        let port = Arc::new(port.await.expect("it opens"));
        let queues = Queues::single("q".into(), registry, settings.clone());
        let worker = Worker::new(queues, settings, runtime, Bus::default());
        worker.start(port.clone());
        Self {
            fake,
            owner,
            told,
            port,
            worker,
        }
    }

    pub(crate) async fn all_ended(&self) {
        let limit = Duration::from_secs(60);
        let ended = tokio::time::timeout(limit, self.fake.all_ended()).await;
        assert!(ended.is_ok(), "lost: {:#?}", self.told.events());
    }

    pub(crate) async fn until(&self, holds: impl Fn(&World) -> bool) {
        let limit = Duration::from_secs(60);
        let until = tokio::time::timeout(limit, self.fake.until(holds)).await;
        assert!(until.is_ok(), "never: {:#?}", self.told.events());
    }

    pub(crate) async fn stop(self) {
        let worker = self.worker;
        let left = tokio::task::spawn_blocking(move || worker.stop());
        assert_eq!(left.await.expect("no panic"), Vec::<String>::new());
        self.owner.unregister(&queue("q")).await;
        let handles_are_final = self.fake.world().handles.values().all(|it| it.is_final);
        assert!(handles_are_final, "all handles have ended");
        self.fake.is_content();
    }
}
