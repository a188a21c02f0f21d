//! Attempts are started here, in chunks, on the async runtime; blocking ones on threads of their
//! own. Every attempt ends with exactly one outcome, whatever its code does.
//!
//! A chunk is one task of the runtime, or, if it is small, one of the opener:
//! each attempt in it is polled once, and gets a task of its own only if it did not end at once. A
//! chunk that takes long gives the rest away, so that one attempt that burns its first poll does
//! not hold up the others.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use outlast_model::failure::type_name;
use outlast_model::task::{
    ActivityOrder, ActivityTask, AttemptOutcome, AttemptResult, AttemptToken, StepTask, StopReason,
};
use outlast_model::{ActivityType, Attempt as AttemptNo, Failure, near};

use outlast_runtime::panic::discard;

use crate::attempt::{Around, AttemptCtx, Link};
use crate::bus::Bus;
use crate::chunk::{Chunk, Start, Work};
use crate::clock;
use crate::event::{PanicIn, WorkerEvent};
use crate::heartbeat::Heartbeats;
use crate::life::Life;
use crate::opener::{FEW, Job, Opener};
use crate::port::WorkerPort;
use crate::queue::Queues;
use crate::registry::Body;
use crate::roll::Roll;
use crate::running::{Attempt, Seat, as_asked, on_thread, panicked, until_stopped};
use crate::settings::Settings;
use crate::steps::Steps;
use crate::trace;
use crate::zombie::{Case, Undead};

/// Attempts polled by one task of the runtime. Not many: their run takes in the first outcomes while
/// the other attempts run, and outcomes that come in parts share a commit.
const CHUNK: usize = 32;
/// A chunk that took longer gives the rest to another task. Quick attempts are through by then: every
/// part that comes back alone costs the run a slice.
const CHUNK_TIME: Duration = Duration::from_micros(400);

/// One failure may pass; the second is told.
const SECOND: AttemptNo = AttemptNo(2);

/// A poll that goes on for so long behind the grace is not going to end by itself.
const HELD_UP: Duration = Duration::from_millis(50);
/// The runtime had so long to drop an attempt that waits, and did not come to it.
const STARVED: Duration = Duration::from_secs(2);

/// What the backend wants done, once it is durable.
#[derive(Debug)]
pub enum Dispatch {
    /// Run an attempt of an activity.
    Activity(Box<ActivityTask>),
    /// The same: its task is made when it begins.
    Ordered(ActivityOrder),
    /// Run an attempt of a step.
    Step(StepTask),
    /// Tell a running attempt to stop.
    Stop(AttemptToken, StopReason),
}

type Outcome = Pin<Box<dyn Future<Output = AttemptOutcome> + Send>>;

/// Starts and stops attempts.
pub(crate) struct Dispatcher {
    pub(crate) queues: Arc<Queues>,
    pub(crate) steps: Arc<Steps>,
    pub(crate) runtime: tokio::runtime::Handle,
    settings: Settings,
    pub(crate) bus: Bus,
    opener: Opener,
    roll: Roll,
    undead: Undead,
    /// The worker goes down: what has not begun is handed back.
    is_draining: AtomicBool,
}

impl Dispatcher {
    pub(crate) fn new(
        queues: Arc<Queues>,
        steps: Arc<Steps>,
        runtime: tokio::runtime::Handle,
        settings: Settings,
        bus: Bus,
    ) -> Self {
        let opener = Opener::start(&runtime);
        Self {
            roll: Roll::new(queues.clone()),
            queues,
            steps,
            runtime,
            settings,
            bus,
            opener,
            undead: Undead::default(),
            is_draining: AtomicBool::new(false),
        }
    }

    /// From here on nothing begins; what waits for a thread is handed back.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::Release);
        for (_, life) in self.roll.all_running() {
            if life.forgo() {
                life.stop.fire(StopReason::Shutdown);
            }
        }
    }

    /// Whether nothing begins any more.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }

    /// What runs, for people; also what should not.
    pub(crate) fn names(&self) -> Vec<String> {
        let all = self.roll.names().into_iter().chain(self.undead.names());
        all.map(|attempt| attempt.to_string()).collect()
    }

    /// Takes what became durable.
    pub(crate) fn dispatch(self: &Arc<Self>, work: Vec<Dispatch>, port: &Arc<dyn WorkerPort>) {
        let mut work = work.into_iter();
        while work.len() > 0 {
            // The first ones begin while the others are sorted.
            let mut starts = Vec::with_capacity(CHUNK.min(work.len()));
            let mut stops = Vec::new();
            for item in work.by_ref().take(CHUNK) {
                match item {
                    Dispatch::Activity(task) => starts.push(Start::new(Work::Activity(task))),
                    Dispatch::Ordered(order) => starts.push(Start::new(Work::Ordered(order))),
                    Dispatch::Step(task) => starts.push(Start::new(Work::Step(task))),
                    Dispatch::Stop(token, reason) => stops.push((token, reason)),
                }
            }
            self.spawn_chunk(starts, stops, port);
        }
    }

    /// Tells every attempt to stop.
    pub(crate) fn stop_all(&self, reason: StopReason) {
        self.roll.stop_all(reason);
    }

    /// How many attempts there are.
    pub(crate) fn count(&self) -> usize {
        self.roll.count()
    }

    /// Whether there is none, and the backend has heard of the end of each.
    pub(crate) fn is_silent(&self) -> bool {
        self.roll.is_silent()
    }

    fn stop(&self, stops: Vec<(AttemptToken, StopReason)>) {
        for (token, reason) in stops {
            self.roll.stop(token, reason);
        }
    }

    /// A few are known at once; many when their turn comes. What came with them may be told to stop:
    /// it hears so before it begins.
    fn spawn_chunk(
        self: &Arc<Self>,
        mut starts: Vec<Start>,
        stops: Vec<(AttemptToken, StopReason)>,
        port: &Arc<dyn WorkerPort>,
    ) {
        if starts.is_empty() {
            return self.stop(stops);
        }
        let around = Around {
            dispatcher: self.clone(),
            port: port.clone(),
        };
        let is_small = starts.len() <= FEW;
        if is_small {
            self.roll.enter(&mut starts);
        }
        let mut job: Job = if starts.len() == 1 {
            Box::new(move |cx| {
                let around = Arc::new(around);
                around.dispatcher.run_one(starts, &around, cx);
            })
        } else {
            let chunk = Arc::new(Chunk::new(starts));
            self.roll.wait(chunk.clone());
            Box::new(move |cx| {
                let around = Arc::new(around);
                around.dispatcher.run_many(&chunk, &around, cx);
            })
        };
        self.stop(stops);
        if self.is_draining() {
            // Asked when they are known: whoever drains has either seen them, or is seen here. They
            // are handed back at once, on this thread: whoever waits for the last commit hears of it.
            return job(&mut Context::from_waker(Waker::noop()));
        }
        if is_small {
            match self.opener.offer(job) {
                Ok(()) => return,
                Err(back) => job = back,
            }
        }
        let mut job = Some(job);
        drop(self.runtime.spawn(poll_fn(move |cx| {
            if let Some(job) = job.take() {
                job(cx);
            }
            Poll::Ready(())
        })));
    }

    fn run_one(self: &Arc<Self>, starts: Vec<Start>, around: &Arc<Around>, cx: &mut Context<'_>) {
        for start in starts {
            if let Some(outcome) = self.begun(start, around, cx) {
                self.finish(vec![outcome], &around.port);
            }
        }
    }

    /// A chunk of several: the watchdog frees those that wait behind one that does not come back.
    fn run_many(self: &Arc<Self>, chunk: &Arc<Chunk>, around: &Arc<Around>, cx: &mut Context<'_>) {
        let begun = clock::now();
        self.roll.begin(chunk, begun);
        let mut ended = None;
        while let Some(start) = chunk.next(ended.take()) {
            ended = self.begun(start, around, cx);
            if clock::now().duration_since(begun) > CHUNK_TIME {
                break;
            }
        }
        self.roll.leave(chunk);
        let (mut done, rest) = chunk.take();
        done.extend(ended);
        if !rest.is_empty() {
            self.spawn_chunk(rest, Vec::new(), &around.port);
        }
        self.finish(done, &around.port);
    }

    /// Begins an attempt and polls it once; it gets a task of its own if it did not end at once.
    fn begun(
        &self,
        start: Start,
        around: &Arc<Around>,
        cx: &mut Context<'_>,
    ) -> Option<AttemptOutcome> {
        let token = start.token();
        let mut outcome = self.begin(start, around);
        match outcome.as_mut().poll(cx) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => {
                let open = Open {
                    token: Some(token),
                    around: around.clone(),
                };
                drop(self.runtime.spawn(open.until(outcome)));
                None
            }
        }
    }

    /// These attempts are over: their slots are free before anybody hears of it. What comes from
    /// one that was taken from its code before is thrown away.
    fn finish(&self, mut outcomes: Vec<AttemptOutcome>, port: &Arc<dyn WorkerPort>) {
        let _until_heard = self.roll.report();
        let mut loose = Vec::new();
        let mut running = self.roll.running();
        outcomes.retain(|outcome| {
            let Some(life) = running.remove(&outcome.token) else {
                self.undead.ended(outcome.token);
                return false;
            };
            life.give_slot(outcome.token);
            self.hear(outcome, &life);
            if life.is_loose() {
                loose.push((outcome.token, life));
            }
            true
        });
        drop(running);
        for (token, life) in loose {
            self.lose(token, life);
        }
        if !outcomes.is_empty() {
            self.bus.meter().attempts(&outcomes);
            port.complete_attempts(outcomes);
        }
    }

    /// Somebody should know of panics, and, once, of what does not go away by itself.
    fn hear(&self, outcome: &AttemptOutcome, life: &Life) {
        let AttemptResult::Failed(failure) = &outcome.result else {
            return;
        };
        if failure.type_name() == Some(type_name::PANIC) {
            self.bus.emit(WorkerEvent::PanicCaught {
                place: PanicIn::Attempt(life.name(outcome.token)),
                message: failure.message.clone(),
            });
        } else if outcome.token.attempt == SECOND {
            self.bus.emit(WorkerEvent::FailsAgain {
                attempt: life.name(outcome.token),
                failure: failure.clone(),
            });
        }
    }

    fn begin(&self, mut start: Start, around: &Arc<Around>) -> Outcome {
        if self.is_draining() {
            return Box::pin(std::future::ready(start.handed_back()));
        }
        let (token, life) = (start.token(), self.roll.life(&mut start));
        if !life.begin() {
            // It was told to before it began.
            let result = as_asked(AttemptResult::Canceled(None), &life.stop);
            return Box::pin(std::future::ready(AttemptOutcome { token, result }));
        }
        match start.work {
            Work::Activity(task) => self.traced(task, life, around),
            Work::Ordered(order) => self.traced(Box::new(order.task()), life, around),
            Work::Step(task) => trace::inside(trace::step(&task), self.step(&task, life)),
        }
    }

    fn traced(&self, task: Box<ActivityTask>, life: Arc<Life>, around: &Arc<Around>) -> Outcome {
        trace::inside(trace::activity(&task), self.activity(task, life, around))
    }

    /// Says that nobody has this code: whoever looks only at this process would not know.
    fn not_registered(&self, task: &ActivityTask) -> String {
        let name = &task.activity_type;
        let registry = self.queues.get(&task.queue).map(|queue| &queue.registry);
        let known = registry.into_iter().flat_map(|r| r.activities.keys());
        let hint = near::hint(name.as_str(), known.map(ActivityType::as_str));
        let text =
            format!("no worker has activity {name}; add .activity({name}) to the builder{hint}");
        self.bus.emit(WorkerEvent::NotRegistered {
            queue: task.queue.clone(),
            text: text.clone(),
        });
        text
    }

    fn activity(&self, task: Box<ActivityTask>, life: Arc<Life>, around: &Arc<Around>) -> Outcome {
        let token = task.token;
        let queue = self.queues.get(&task.queue);
        let code = queue.and_then(|queue| queue.registry.activities.get(&task.activity_type));
        let Some(code) = code else {
            let text = self.not_registered(&task);
            return failed(token, Failure::application(type_name::NOT_REGISTERED, text));
        };
        let settings = queue.map_or(&self.settings, |queue| &queue.settings);
        let link = Link {
            heartbeats: Heartbeats::new(token, task.heartbeat, settings),
            around: around.clone(),
        };
        let input = task.input.clone();
        let ctx = AttemptCtx::new(task, life.clone(), Some(link));
        let made = life.polled(|| catch_unwind(AssertUnwindSafe(|| code(ctx.clone(), input))));
        let attempt = match made {
            Err(panic) => return failed(token, panicked(panic)),
            Ok(body) => self.attempt(body, &life),
        };
        let (grace, around) = (self.settings.abort_after, around.clone());
        Box::pin(async move {
            let result = until_stopped(attempt, &life, grace).await;
            if ctx.has_children() {
                // Boxed: few have any, and every attempt would carry the room for it.
                let orphans = Box::pin(ctx.end_children(grace)).await;
                if !orphans.is_empty() {
                    around.dispatcher.lose_children(token, life, orphans);
                }
            }
            if !matches!(result, AttemptResult::Completed(_)) {
                ctx.flush();
            }
            AttemptOutcome { token, result }
        })
    }

    fn step(&self, task: &StepTask, life: Arc<Life>) -> Outcome {
        let token = task.token;
        let Some(code) = self.steps.get(task.run_id, token.seq) else {
            let text = format!("the code of step {} is not in memory", task.name);
            return failed(token, Failure::application(type_name::WORKER_LOST, text));
        };
        let grace = self.settings.abort_after;
        let made = life.polled(|| {
            let made = catch_unwind(AssertUnwindSafe(|| code()));
            // Nobody else may have it any more.
            discard(code);
            made
        });
        let attempt = match made {
            Ok(future) => Attempt::Async(future),
            Err(panic) => return failed(token, panicked(panic)),
        };
        Box::pin(async move {
            let result = until_stopped(attempt, &life, grace).await;
            AttemptOutcome { token, result }
        })
    }

    fn attempt(&self, body: Body, life: &Arc<Life>) -> Attempt {
        let code = match body {
            Body::Async(future) => return Attempt::Async(future),
            Body::Blocking(code) => code,
        };
        let (seat, mine) = (Seat::new(code), life.clone());
        let waits = Arc::downgrade(&seat);
        life.needs_thread();
        if self.is_draining() && life.forgo() {
            // Whoever drains has either seen it wait, or is seen here.
            life.stop.fire(StopReason::Shutdown);
        }
        let thread = self
            .runtime
            .spawn_blocking(move || on_thread(&waits, &mine));
        Attempt::Blocking {
            thread,
            _seat: seat,
        }
    }
}

/// The watchdog's part: what was told to stop and cannot be dropped.
impl Dispatcher {
    /// Whether there is anything to look after.
    pub(crate) fn is_idle(&self) -> bool {
        self.roll.count() == 0 && self.undead.len() == 0
    }

    /// How many attempts should have ended and have not.
    pub(crate) fn undead(&self) -> usize {
        self.undead.len()
    }

    /// How many of them count as zombies, now and ever.
    pub(crate) fn zombies(&self) -> (usize, u64) {
        self.undead.zombies()
    }

    /// Looks at every running attempt. `true`, once, when there are too many zombies.
    pub(crate) fn look_after(self: &Arc<Self>, port: &Arc<dyn WorkerPort>) -> bool {
        let now = clock::now();
        self.free_chunks(now, port);
        for (token, life) in self.roll.all_running() {
            if self.is_deaf(&life, now) {
                self.detach(token, life, port);
            }
        }
        self.undead.look(now, &self.settings, &self.bus)
    }

    /// Whether it should be gone by now: its own task would have dropped it, had it come to that.
    fn is_deaf(&self, life: &Life, now: Instant) -> bool {
        let Some((_, told)) = life.stop.told() else {
            return false;
        };
        let spent = now.duration_since(told);
        if life.is_outside() {
            // Nothing of it is there that would need a grace.
            return spent >= HELD_UP;
        }
        let slack = if life.is_polled() { HELD_UP } else { STARVED };
        spent >= self.settings.abort_after + slack
    }

    /// Takes an attempt from its code: it is over, whatever the code still does.
    fn detach(&self, token: AttemptToken, life: Arc<Life>, port: &Arc<dyn WorkerPort>) {
        let _until_heard = self.roll.report();
        if self.roll.running().remove(&token).is_none() {
            // It ended in this very moment.
            return;
        }
        life.give_slot(token);
        let result = as_asked(AttemptResult::Canceled(None), &life.stop);
        if !life.forgo() {
            self.lose(token, life);
        }
        let outcomes = vec![AttemptOutcome { token, result }];
        self.bus.meter().attempts(&outcomes);
        port.complete_attempts(outcomes);
    }

    fn lose(&self, token: AttemptToken, life: Arc<Life>) {
        let now = clock::now();
        let told = life.stop.told().map_or(now, |(_, told)| told);
        let case = Case::new(token, life, told);
        self.undead.add(case, now, &self.bus);
    }

    fn lose_children(
        &self,
        token: AttemptToken,
        life: Arc<Life>,
        children: Vec<tokio::task::JoinHandle<()>>,
    ) {
        let now = clock::now();
        let case = Case::new(token, life, now).of_children(children);
        self.undead.add(case, now, &self.bus);
    }

    /// What waits behind an attempt whose first poll does not come back goes on elsewhere.
    fn free_chunks(self: &Arc<Self>, now: Instant, port: &Arc<dyn WorkerPort>) {
        for chunk in self.roll.held(now) {
            let (done, rest) = chunk.take();
            self.finish(done, port);
            if !rest.is_empty() {
                self.spawn_chunk(rest, Vec::new(), port);
            }
        }
    }
}

/// An attempt that goes on as a task of the runtime; if that ends and drops it, it is handed back.
struct Open {
    token: Option<AttemptToken>,
    around: Arc<Around>,
}

impl Open {
    async fn until(mut self, outcome: Outcome) {
        let outcome = outcome.await;
        self.token = None;
        self.end(outcome);
    }

    fn end(&self, outcome: AttemptOutcome) {
        let Around { dispatcher, port } = &*self.around;
        dispatcher.finish(vec![outcome], port);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            let result = AttemptResult::HandedBack;
            self.end(AttemptOutcome { token, result });
        }
    }
}

fn failed(token: AttemptToken, failure: Failure) -> Outcome {
    Box::pin(std::future::ready(AttemptOutcome {
        token,
        result: AttemptResult::Failed(failure),
    }))
}

#[cfg(test)]
mod tests;
