//! Putting an application together: where runs live, what can run, what it needs.

#[cfg(feature = "temporal")]
mod cluster;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use outlast_engine::request::Window;
use outlast_model::id::DEFAULT_QUEUE;
use outlast_model::{ActivityType, QueueName, RunId, WorkflowType, limits};
use outlast_service::clock::{Clock, SystemClock};
use outlast_service::outlet::{Capabilities, Served, SliceLimit};
use outlast_service::service::{Service, Setup, random};
use outlast_service::store::Store;
use outlast_worker::{
    ActivityCode, Bus, QueueSpec, Queues, Registry, Settings, Severity, Worker, WorkerEvent,
};

use crate::activity::{ActivityCtx, ActivityDef, ActivityFn};
use crate::client::App;
use crate::config::Config;
use crate::ctx::Ctx;
use crate::door::Door;
use crate::embedded::{Embedded, Running};
use crate::erase::AnyProgram;
use crate::error::{Error, Result};
use crate::failure::IntoFailure;
use crate::intercept::{Interceptor, Interceptors};
use crate::queue::{QueueBuilder, QueuePart};
use crate::signals::ShutdownSignal;
use crate::state::{ProvidedBy, States};
use crate::wire::{Data, Outcome};
use crate::workflow::{WorkflowDef, WorkflowFn};

/// Where warnings go, as text.
type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// Where an application begins.
#[derive(Debug)]
pub struct Outlast;

impl Outlast {
    /// Embedded: one process, one file, nothing to install.
    pub fn sqlite(path: impl AsRef<Path>) -> Builder {
        Builder::new(Place::Sqlite(path.as_ref().to_path_buf()))
    }

    /// By URL: `sqlite:orders.db`, or `temporal://host:port/namespace` (feature `temporal`).
    pub fn connect(url: &str) -> Builder {
        if url.starts_with("temporal://") {
            return Builder::new(Place::Cluster(url.to_owned()));
        }
        match url.strip_prefix("sqlite:") {
            Some(path) => Self::sqlite(path.trim_start_matches("//")),
            None => Builder::new(Place::Unknown(url.to_owned())),
        }
    }
}

/// Where runs live.
pub(crate) enum Place {
    Sqlite(PathBuf),
    Given(Arc<dyn Store>),
    Cluster(String),
    Unknown(String),
}

/// An application that is being put together. `L` lists the types of its states.
#[must_use = "a builder does nothing until `.start().await` or `.run().await`"]
pub struct Builder<L = ()> {
    place: Place,
    clock: Arc<dyn Clock>,
    states: States,
    queues: BTreeMap<QueueName, QueuePart>,
    /// What holds on every queue: mocks, and the patience with workflows.
    everywhere: Registry,
    settings: Settings,
    config: Config,
    bus: Bus,
    report: Report,
    shards: Option<usize>,
    interceptors: Interceptors,
    list: PhantomData<fn() -> L>,
}

impl<L> std::fmt::Debug for Builder<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("queues", &self.queues.keys())
            .finish_non_exhaustive()
    }
}

impl Builder {
    pub(crate) fn new(place: Place) -> Self {
        Self {
            place,
            clock: Arc::new(SystemClock),
            states: States::default(),
            queues: BTreeMap::from([(QueueName::new(DEFAULT_QUEUE), QueuePart::default())]),
            everywhere: Registry::default(),
            settings: Settings::default(),
            config: Config::default(),
            bus: Bus::default(),
            report: Arc::new(print_report),
            shards: None,
            interceptors: Interceptors::default(),
            list: PhantomData,
        }
    }
}

impl<L: 'static> Builder<L> {
    /// A dependency of activities: they take it as `State<T>`. Comes before them.
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Builder<(T, L)> {
        self.states.insert(value);
        Builder {
            place: self.place,
            clock: self.clock,
            states: self.states,
            queues: self.queues,
            everywhere: self.everywhere,
            settings: self.settings,
            config: self.config,
            bus: self.bus,
            report: self.report,
            shards: self.shards,
            interceptors: self.interceptors,
            list: PhantomData,
        }
    }

    /// An `#[activity]` function that can run here.
    pub fn activity<A, K, I>(self, activity: A) -> Self
    where
        A: ActivityFn<K>,
        A::Extractors: ProvidedBy<L, I>,
    {
        self.queue(DEFAULT_QUEUE, |queue| queue.activity(activity))
    }

    /// The code of a definition.
    pub fn bind<I, O, E, F, W>(self, definition: ActivityDef<I, O, E>, code: F) -> Self
    where
        I: Data,
        O: Data,
        E: IntoFailure,
        F: Fn(ActivityCtx, I) -> W + Send + Sync + 'static,
        W: Future<Output = std::result::Result<O, E>> + Send + 'static,
    {
        self.queue(DEFAULT_QUEUE, |queue| queue.bind(definition, code))
    }

    /// A `#[workflow]` that can run here.
    pub fn workflow<W: WorkflowFn<K>, K>(self, workflow: W) -> Self {
        self.queue(DEFAULT_QUEUE, |queue| queue.workflow(workflow))
    }

    /// The code of a workflow definition.
    pub fn bind_workflow<I, O, E, F, R, W>(self, definition: WorkflowDef<I, O, E>, main: F) -> Self
    where
        I: Data,
        O: Data,
        E: IntoFailure,
        R: Outcome<Ok = O, Err = E> + 'static,
        F: Fn(Ctx, I) -> W + Send + Sync + 'static,
        W: Future<Output = R> + 'static,
    {
        self.queue(DEFAULT_QUEUE, |queue| queue.bind_workflow(definition, main))
    }

    /// A task queue beside `default`, with code, slots and settings of its own:
    /// `.queue("gpu", |q| q.activity(render).slots(4))`. Said twice, both count.
    pub fn queue(
        mut self,
        name: &str,
        fill: impl FnOnce(QueueBuilder<L>) -> QueueBuilder<L>,
    ) -> Self {
        let name = QueueName::new(name);
        let queue = QueueBuilder {
            part: self.queues.remove(&name).unwrap_or_default(),
            states: self.states.clone(),
            list: PhantomData,
        };
        self.queues.insert(name, fill(queue).part);
        self
    }

    /// Code around every call; several are asked in the order in which they were given.
    pub fn interceptor(mut self, interceptor: impl Interceptor) -> Self {
        self.interceptors.push(interceptor);
        self
    }

    /// How the worker behaves: slots, cache, limits for stuck code.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Settings from outside, which beat those of the program: `.config(Config::load()?)`.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Where warnings go, instead of the standard error stream.
    pub fn report(mut self, report: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.report = Arc::new(report);
        self
    }

    /// Hears what somebody should know, of at least this severity, on the thread where it
    /// happens: it must come back at once. What takes longer reads [`App::events`].
    pub fn on_event(
        self,
        least: Severity,
        call: impl Fn(&WorkerEvent) + Send + Sync + 'static,
    ) -> Self {
        self.bus.listen(least, call);
        self
    }

    /// Engine threads, each with its share of the workflow ids; one per two cores by default.
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// How long one poll of this workflow may take before it counts as stuck; zero: for ever.
    /// Others have the setting `deadlock_timeout`.
    pub fn patience<W: WorkflowFn<K>, K>(mut self, workflow: W, limit: Duration) -> Self {
        let name = WorkflowType::new(workflow.name());
        self.everywhere.patience.insert(name, limit);
        self
    }

    /// Its end does not wait for attempts to finish, and slow code is given time, if the test has
    /// not said how much.
    pub(crate) fn for_tests(mut self, is_patient: bool) -> Self {
        self.settings.shutdown_grace = Duration::ZERO;
        if is_patient && self.settings.deadlock_timeout == limits::POLL_FAIL {
            self.settings.deadlock_timeout = limits::POLL_FAIL_IN_TESTS;
        }
        self
    }

    pub(crate) fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// A workflow with the interceptors around it: for replays.
    pub(crate) fn around(&self, program: AnyProgram) -> AnyProgram {
        self.interceptors.around_one(program)
    }

    /// Takes the place of a workflow on every queue: for mocks.
    pub(crate) fn replace_workflow(&mut self, name: &'static str, program: AnyProgram) {
        let workflows = &mut self.everywhere.workflows;
        workflows.insert(WorkflowType::new(name), program);
    }

    /// Takes the place of an activity on every queue: for mocks.
    pub(crate) fn replace_activity(&mut self, name: &'static str, code: ActivityCode) {
        let activities = &mut self.everywhere.activities;
        activities.insert(ActivityType::new(name), code);
    }

    /// Starts the application in the background and hands back its client. It stops in order
    /// when the last clone of the client is dropped, or with [`App::shutdown`].
    ///
    /// # Errors
    /// Two registrations of one name, a store that cannot be opened, or no tokio runtime around; the
    /// error says why and what to do.
    #[track_caller]
    pub fn start(self) -> impl Future<Output = Result<App>> {
        self.start_at(Location::caller())
    }

    async fn start_at(mut self, place: &'static Location<'static>) -> Result<App> {
        for (name, part) in &self.queues {
            part.check_names(name)?;
        }
        let interceptors = std::mem::take(&mut self.interceptors);
        let queues = self.queues.values_mut().map(|part| &mut part.registry);
        interceptors.around(queues.chain([&mut self.everywhere]), &self.states);
        let runtime = runtime_at("Builder::start", place)?;
        #[cfg(feature = "temporal")]
        if let Place::Cluster(url) = &self.place {
            let url = url.clone();
            return Ok(self.join(&url, runtime).await?.behind(&interceptors));
        }
        Ok(self.assembled(runtime).await?.behind(&interceptors))
    }

    /// On a thread of its own: opening a store takes a while, and activities of another application
    /// may hold every thread that the runtime has for such work.
    async fn assembled(self, runtime: tokio::runtime::Handle) -> Result<App> {
        let (sender, started) = tokio::sync::oneshot::channel();
        let thread = std::thread::Builder::new().name("outlast-start".into());
        thread
            .spawn(move || {
                // Whoever asked may no longer listen: it stops again then.
                drop(sender.send(self.assemble(runtime)));
            })
            .map_err(|error| Error::msg(format!("there is no thread to start on: {error}")))?;
        started.await.unwrap_or_else(|_| {
            Err(Error::msg(
                "the thread that starts the application panicked",
            ))
        })
    }

    /// Starts the application and serves until the process is asked to stop, then stops in order.
    /// Asked again, it does not wait for attempts to finish; asked a third time, it returns.
    ///
    /// # Errors
    /// As [`start`](Builder::start), and when something did not end: the error names it.
    #[track_caller]
    pub fn run(self) -> impl Future<Output = Result<()>> {
        self.run_at(Location::caller())
    }

    async fn run_at(self, place: &'static Location<'static>) -> Result<()> {
        runtime_at("Builder::run", place)?;
        let mut signal = ShutdownSignal::listen()?;
        let app = self.start_at(place).await?;
        tokio::select! {
            () = signal.recv() => {}
            () = app.is_unfit() => {}
        }
        app.shutdown_with(&mut signal).await.into_result()
    }

    fn tell_warnings(&self) {
        #[cfg(feature = "tracing")]
        outlast_worker::trace::forward(&self.bus);
        let report = self.report.clone();
        self.bus.listen(Severity::Warning, move |event| {
            report(&format!("{event} [{}]", event.code()));
        });
    }

    fn assemble(self, runtime: tokio::runtime::Handle) -> Result<App> {
        self.tell_warnings();
        let mut settings = self.settings;
        self.config.apply(&mut settings);
        let specs = specs(self.queues, &self.everywhere, &settings, &self.config)?;
        let store = self.place.open(&self.bus)?;
        let shards = self.shards.unwrap_or_else(default_shards);
        let threads = shards * (settings.spare_threads + 1);
        let window = Window {
            count: settings.requests_remembered,
            age: settings.requests_remembered_for,
        };
        let queues = Queues::new(specs, &self.bus);
        let worker = Worker::new(queues, settings, runtime.clone(), self.bus);
        let setup = Setup {
            store,
            clock: self.clock.clone(),
            outlet: Arc::new(Door::new(&worker, runtime)),
            capabilities: capabilities(&worker, threads),
            shards,
            window,
        };
        let service = Service::open(setup)?;
        let embedded = Embedded::new(service.clone());
        worker.start(embedded.clone());
        for queue in worker.queues().iter() {
            let queue = queue.name.clone();
            worker.bus().emit(WorkerEvent::QueueRegistered { queue });
        }
        let clock = self.clock;
        let ids = Arc::new(move || RunId::v7(clock.now().0 / 1_000, random()));
        let running = Arc::new(Running::new(Some(service), worker));
        running.stop_when_unfit();
        Ok(App::new(
            embedded,
            ids,
            QueueName::new(DEFAULT_QUEUE),
            Some(running),
        ))
    }
}

/// The runtime that activities are to run on.
fn runtime_at(call: &str, place: &Location<'_>) -> Result<tokio::runtime::Handle> {
    tokio::runtime::Handle::try_current().map_err(|_| {
        Error::msg(format!(
            "OL-4121: {call} at {place} was awaited outside of a tokio runtime, which runs activities: \
             await it in `#[tokio::main]` or in `runtime.block_on(..)`, and keep that runtime for as \
             long as the application"
        ))
    })
}

/// Every task queue as it is to be served.
fn specs(
    queues: BTreeMap<QueueName, QueuePart>,
    everywhere: &Registry,
    settings: &Settings,
    config: &Config,
) -> Result<BTreeMap<QueueName, QueueSpec>> {
    let specs = queues.into_iter().map(|(name, mut part)| {
        let everywhere = everywhere.clone();
        part.registry.workflows.extend(everywhere.workflows);
        part.registry.activities.extend(everywhere.activities);
        part.registry.patience.extend(everywhere.patience);
        let spec = part.finish(&name, settings, config)?;
        Ok((name, spec))
    });
    specs.collect()
}

/// What a worker can do, for the service it serves.
fn capabilities(worker: &Worker, threads: usize) -> Capabilities {
    let queues = worker.queues().iter().map(|queue| {
        let served = Served {
            workflows: queue.registry.workflows.keys().cloned().collect(),
            activities: queue.registry.activities.keys().cloned().collect(),
            slices: if queue.limits_slices(threads) {
                SliceLimit::Slots
            } else {
                SliceLimit::Threads
            },
        };
        (queue.name.clone(), served)
    });
    Capabilities {
        queues: queues.collect(),
    }
}

impl Place {
    #[cfg_attr(
        not(feature = "sqlite"),
        expect(unused_variables, reason = "only a file has news of its own")
    )]
    fn open(self, bus: &Bus) -> Result<Arc<dyn Store>> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) => {
                let store = outlast_service::sqlite::SqliteStore::open(path)?;
                let bus = bus.clone();
                store.when_log_is_held(move |held| {
                    let path = held.path.display().to_string();
                    let bytes = held.bytes;
                    bus.emit(WorkerEvent::LogHeld { path, bytes });
                });
                Ok(Arc::new(store))
            }
            #[cfg(not(feature = "sqlite"))]
            Self::Sqlite(path) => Err(Error::msg(format!(
                "{} cannot be opened: this build has no SQLite; turn on the feature \"sqlite\"",
                path.display()
            ))),
            Self::Given(store) => Ok(store),
            Self::Cluster(url) => Err(Error::msg(format!(
                "{url:?} cannot be reached: this build has no Temporal; turn on the feature \
                 \"temporal\""
            ))),
            Self::Unknown(url) => Err(Error::msg(format!(
                "unknown backend {url:?}: expected sqlite:FILE or temporal://HOST:PORT/NAMESPACE"
            ))),
        }
    }
}

/// One engine thread per two cores: measured, more are slower.
fn default_shards() -> usize {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    (cores / 2).max(1)
}

#[expect(
    clippy::print_stderr,
    reason = "where a program without a logger looks"
)]
fn print_report(text: &str) {
    eprintln!("outlast: {text}");
}
