//! Testing workflows: virtual time, mocks as closures, nothing on disk.
//!
//! Time stands still while a test does something, and jumps to the next due time while it waits
//! for a result and nothing else can happen: a workflow that sleeps a week takes milliseconds.

#[cfg(feature = "temporal")]
mod exported;
mod patience;

use std::future::{Future, ready};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use outlast_model::{Event, Timestamp};
use outlast_runtime::{Program, ReplayChecks};
use outlast_service::clock::{Clock, SystemClock, VirtualClock};
use outlast_service::memory::MemoryStore;
use outlast_service::store::Store;
use outlast_worker::{Settings, Severity, WorkerEvent};

use crate::activity::{Activity, ActivityFn};
use crate::builder::{Builder, Place};
use crate::client::App;
use crate::erase::{closure_code, closure_program, workflow_program};
use crate::error::{Error, Result as AnyResult};
use crate::intercept::Interceptor;
use crate::queue::QueueBuilder;
use crate::state::{ProvidedBy, States};
use crate::witness::Witness;
use crate::workflow::{Workflow, WorkflowFn};

#[cfg(feature = "temporal")]
pub use exported::replay_json;
use patience::Patience;

/// The beginning of virtual time: 2026-01-01T00:00:00Z.
const BEGINNING: Timestamp = Timestamp(1_767_225_600_000_000);

/// An application under test.
#[must_use = "a test environment does nothing until `.start().await`"]
#[derive(Debug)]
pub struct TestEnv<L = ()> {
    builder: Builder<L>,
    clock: Arc<VirtualClock>,
    witness: Witness,
}

impl TestEnv {
    /// An empty one, in memory, at the beginning of virtual time.
    pub fn new() -> Self {
        Self::on(Arc::new(MemoryStore::default()))
    }

    /// On a given store: for tests of crashes and of drivers.
    pub fn on(store: Arc<dyn Store>) -> Self {
        let clock = Arc::new(VirtualClock::new(BEGINNING));
        let builder = Builder::new(Place::Given(store))
            .clock(clock.clone())
            .shards(1);
        let witness = Witness::default();
        Self {
            builder,
            clock,
            witness,
        }
    }
}

impl Default for TestEnv {
    fn default() -> Self {
        Self::new()
    }
}

impl<L: 'static> TestEnv<L> {
    /// A dependency of real activities.
    pub fn state<T: Clone + Send + Sync + 'static>(self, value: T) -> TestEnv<(T, L)> {
        TestEnv {
            builder: self.builder.state(value),
            clock: self.clock,
            witness: self.witness,
        }
    }

    /// A workflow under test.
    pub fn workflow<W: WorkflowFn<K>, K>(self, workflow: W) -> Self {
        Self {
            builder: self.builder.workflow(workflow),
            ..self
        }
    }

    /// A real activity.
    pub fn activity<A, K, I>(self, activity: A) -> Self
    where
        A: ActivityFn<K>,
        A::Extractors: ProvidedBy<L, I>,
    {
        Self {
            builder: self.builder.activity(activity),
            ..self
        }
    }

    /// A task queue beside `default`.
    pub fn queue(self, name: &str, fill: impl FnOnce(QueueBuilder<L>) -> QueueBuilder<L>) -> Self {
        Self {
            builder: self.builder.queue(name, fill),
            ..self
        }
    }

    /// Replaces an activity by a closure of its type: `|input| -> Result<Output, Error>`.
    pub fn mock<A, K>(
        mut self,
        activity: A,
        code: impl Fn(A::Input) -> Result<A::Output, A::Error> + Send + Sync + 'static,
    ) -> Self
    where
        A: Activity<K>,
    {
        let code = Arc::new(code);
        let erased = closure_code(activity.name(), States::default(), move |_, input| {
            let code = code.clone();
            async move { code(input) }
        });
        self.builder.replace_activity(activity.name(), erased);
        self
    }

    /// Replaces a workflow by a closure of its type: for what starts it as a child.
    pub fn mock_workflow<W, K>(
        mut self,
        workflow: W,
        code: impl Fn(W::Input) -> Result<W::Output, W::Error> + Send + Sync + 'static,
    ) -> Self
    where
        W: Workflow<K>,
    {
        let program = closure_program(workflow.name(), move |_, input| ready(code(input)));
        self.builder.replace_workflow(workflow.name(), program);
        self
    }

    /// Code around every call.
    pub fn interceptor(self, interceptor: impl Interceptor) -> Self {
        Self {
            builder: self.builder.interceptor(interceptor),
            ..self
        }
    }

    /// Settings of the worker.
    pub fn settings(self, settings: Settings) -> Self {
        Self {
            builder: self.builder.settings(settings),
            ..self
        }
    }

    /// Where warnings go.
    pub fn report(self, report: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self {
            builder: self.builder.report(report),
            ..self
        }
    }

    /// Hears what somebody should know, as [`Builder::on_event`] has it.
    pub fn on_event(
        self,
        least: Severity,
        call: impl Fn(&WorkerEvent) + Send + Sync + 'static,
    ) -> Self {
        Self {
            builder: self.builder.on_event(least, call),
            ..self
        }
    }

    /// Code that is stuck, or that ignores that it should stop, is what this test is about: it
    /// does not fail for it.
    pub fn expect_stuck_code(self) -> Self {
        self.witness.look_away();
        self
    }

    /// Time passes as it does outside.
    pub fn real_time(self) -> Self {
        Self {
            builder: self.builder.clock(Arc::new(SystemClock)),
            ..self
        }
    }

    /// The clock of the application.
    pub fn clock(&self) -> TestClock {
        TestClock(self.clock.clone())
    }

    /// So much time has passed before the application starts.
    #[doc(hidden)]
    pub fn later(self, by: Duration) -> Self {
        self.clock.advance(by);
        self
    }

    /// Replays a history with today's code and the interceptors of this environment.
    ///
    /// # Errors
    /// As [`replay`].
    pub fn replay<W: WorkflowFn<K>, K>(&self, _workflow: W, history: &[Event]) -> AnyResult<()> {
        let program = self.builder.around(workflow_program::<W::Meta>());
        replay_with(&*program, history, ReplayChecks { strict: true })
    }

    /// Starts it. A test in which code was stuck, or ignored that it should stop, fails when the
    /// application ends, unless it [said so](Self::expect_stuck_code). Code counts as stuck later
    /// than elsewhere, unless the settings say when: machines that run tests are busy.
    ///
    /// # Panics
    /// When it cannot start: two registrations of one name.
    pub async fn start(self) -> App {
        let seen = self.witness.clone();
        let watched = self.builder.on_event(Severity::Warning, move |event| {
            seen.see(event);
        });
        let is_patient = self.witness.is_looking();
        match watched.for_tests(is_patient).start().await {
            Ok(app) => app.witnessed(self.witness),
            Err(error) => panic!("the application does not start: {error}"),
        }
    }
}

/// Virtual time, from a test's side.
#[derive(Clone, Debug)]
pub struct TestClock(Arc<VirtualClock>);

impl TestClock {
    /// The time.
    pub fn now(&self) -> Timestamp {
        self.0.now()
    }

    /// Lets time pass.
    pub fn advance(&self, app: &App, by: Duration) {
        self.0.advance(by);
        app.look();
    }

    /// Sets it, back as well: clocks of machines do that.
    pub fn set(&self, app: &App, to: Timestamp) {
        self.0.set(to);
        app.look();
    }
}

/// Replays a history with today's code. Where interceptors ask for things of their own, see
/// [`TestEnv::replay`].
///
/// # Errors
/// The first difference between the code and the history, named on both sides.
pub fn replay<W: WorkflowFn<K>, K>(_workflow: W, history: &[Event]) -> AnyResult<()> {
    let program = workflow_program::<W::Meta>();
    replay_with(&*program, history, ReplayChecks { strict: true })
}

/// Replays a history that a Temporal server has recorded. It keeps no cancel modes and words some
/// reasons in its own way, so options are not compared: only what was asked for, in which order.
///
/// # Errors
/// As [`replay`].
pub fn replay_from_cluster<W: WorkflowFn<K>, K>(_workflow: W, history: &[Event]) -> AnyResult<()> {
    let program = workflow_program::<W::Meta>();
    replay_with(&*program, history, ReplayChecks { strict: false })
}

fn replay_with(program: &dyn Program, history: &[Event], checks: ReplayChecks) -> AnyResult<()> {
    let nobody: outlast_runtime::ForeignWake = Arc::new(|_| ());
    let replayed = outside_the_budget(|| {
        let patience = Patience::default();
        outlast_runtime::replay(history, program, &nobody, &patience, checks).map(drop)
    });
    replayed.map_err(|failure| Error::msg(failure.failure))
}

/// Runs workflow code without the budget that tokio gives its tasks. What a task of tokio polls
/// more often than that waits until the task has yielded, and a replay does not: on an engine
/// thread there is no budget either.
fn outside_the_budget<T>(work: impl FnOnce() -> T) -> T {
    let work = std::pin::pin!(tokio::task::unconstrained(async { work() }));
    match work.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("code that awaits nothing is done at once"),
    }
}

/// Runs a test to its end on a runtime of its own.
///
/// # Panics
/// When the runtime cannot be built.
pub fn block_on<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime
        .expect("a runtime for one thread can be built")
        .block_on(test)
}
