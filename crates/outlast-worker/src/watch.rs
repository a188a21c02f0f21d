//! Workflow code that does not come back.
//!
//! Each engine thread has a pulse: what it runs and since when. The watchdog looks at all
//! pulses while slices run, and sleeps while none does. A slice over 50 ms: its run goes over to
//! the slow path, and a spare thread takes the shard if that is held up, at most once a second.
//! Over 1 s: a warning. Over 2 s: the task fails, the run is blocked as stuck, the thread is
//! abandoned; whatever it still produces is thrown away. If its code yields after all, the slice
//! ends there. Whether it is one poll that does not end or polls without end is the same to all of
//! this; which time counts for what is said in `watch/stage.rs`. Destructors of instances that leave
//! memory are watched in the same way: there is no task to fail, but the thread is abandoned.

mod stage;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Thread, ThreadId};
use std::time::{Duration, Instant};

use outlast_model::Failure;
use outlast_model::event::Site;
use outlast_model::failure::type_name;
use outlast_model::task::{TaskToken, WorkflowTask};
use outlast_runtime::SliceWatch;

use crate::bus::Bus;
use crate::clock;
use crate::event::{RunIn, Severity, Stuck, WorkerEvent};
use crate::port::{Lane, WorkerPort};
use crate::settings::Settings;
use crate::state::ThreadState;
use crate::stranded::Seen;

use stage::{Act, Input, Stage};

/// How often the watchdog looks while slices run.
const LOOK: Duration = Duration::from_millis(10);
/// How often it looks at attempts while any run.
const ROUND: Duration = Duration::from_secs(1);

/// How often runs that were refused may ask again.
const RELEASE: Duration = Duration::from_millis(100);
/// A slice of short polls holds its shard up when it takes so many times as long as a fast one.
const SHORT_POLLS: u32 = 4;

/// What an engine thread is doing.
pub(crate) struct Pulse {
    pub(crate) lane: Lane,
    /// The thread itself: the one that made this.
    thread: ThreadId,
    /// Counts begun and ended slices: odd while one runs.
    beats: AtomicU64,
    state: Mutex<Option<Running>>,
    /// Room for the name of a branch, kept from one slice to the next.
    room: Mutex<String>,
    /// Instances that the thread holds.
    cached: AtomicUsize,
    port: Arc<dyn WorkerPort>,
    fast_slice: Duration,
    watchdog: Arc<Bell>,
}

/// Code of the user that has the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A slice.
    Slice(TaskToken),
    /// Questions to the settled state of a run.
    Questions(TaskToken),
    /// Destructors of an instance that leaves memory.
    Drop,
}

impl Work {
    pub(crate) fn of(task: &WorkflowTask) -> Self {
        if task.queries.is_empty() {
            Self::Slice(task.token)
        } else {
            Self::Questions(task.token)
        }
    }

    /// The task that the backend waits for.
    fn token(self) -> Option<TaskToken> {
        match self {
            Self::Slice(token) | Self::Questions(token) => Some(token),
            Self::Drop => None,
        }
    }
}

/// What is under way.
struct Running {
    /// Which of this thread.
    no: u64,
    work: Work,
    run: RunIn,
    since: Instant,
    /// Since when it is in this part of its task.
    part_since: Instant,
    /// When code was last given the thread.
    poll_since: Instant,
    branch: String,
    site: Option<Site>,
    stage: Stage,
}

/// How long it may take.
struct Limits {
    fast_slice: Duration,
    warning: Duration,
    /// Zero: for ever.
    patience: Duration,
}

impl Running {
    /// Whether the clock says so.
    fn is(&self, input: Input, now: Instant, limits: &Limits) -> bool {
        let (slice, poll) = (self.since, self.poll_since);
        let over = |since: Instant, limit| now.duration_since(since) > limit;
        match input {
            Input::Long => over(slice, limits.fast_slice),
            Input::Holds => {
                over(poll, limits.fast_slice) || over(slice, limits.fast_slice * SHORT_POLLS)
            }
            Input::Late => over(self.part_since, limits.warning),
            Input::Over => !limits.patience.is_zero() && over(self.part_since, limits.patience),
            // Not a matter of time.
            Input::Relieved => false,
        }
    }

    fn describe(&self, lane: Lane, now: Instant) -> Stuck {
        Stuck {
            run: self.run.clone(),
            branch: self.branch.clone(),
            site: self.site.clone(),
            thread: format!("outlast-engine-{} (driver {})", lane.shard, lane.driver),
            spent: now.duration_since(self.part_since),
        }
    }
}

/// The failure of a task whose code was given up.
pub(crate) fn failure(stuck: &Stuck) -> Failure {
    Failure::application(type_name::STUCK, stuck.to_string())
}

/// Wakes the watchdog when it sleeps.
#[derive(Default)]
pub(crate) struct Bell {
    is_asleep: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

impl Bell {
    pub(crate) fn ring(&self) {
        if self.is_asleep.load(Ordering::SeqCst)
            && let Some(thread) = &*self.thread.lock().unwrap_or_else(PoisonError::into_inner)
        {
            thread.unpark();
        }
    }

    /// Rings also for a watchdog that only pauses.
    pub(crate) fn ring_always(&self) {
        if let Some(thread) = &*self.thread.lock().unwrap_or_else(PoisonError::into_inner) {
            thread.unpark();
        }
    }
}

impl Pulse {
    pub(crate) fn new(
        lane: Lane,
        port: Arc<dyn WorkerPort>,
        settings: &Settings,
        watchdog: Arc<Bell>,
    ) -> Self {
        let (beats, state) = (AtomicU64::new(0), Mutex::new(None));
        Self {
            lane,
            thread: std::thread::current().id(),
            beats,
            state,
            room: Mutex::default(),
            cached: AtomicUsize::new(0),
            port,
            fast_slice: settings.fast_slice,
            watchdog,
        }
    }

    pub(crate) fn begin(&self, work: Work, run: RunIn) {
        let mut state = self.lock();
        let now = clock::now();
        *state = Some(Running {
            no: self.beats.load(Ordering::Relaxed),
            work,
            run,
            since: now,
            part_since: now,
            poll_since: now,
            branch: std::mem::take(&mut *self.room()),
            site: None,
            stage: Stage::Fast,
        });
        drop(state);
        self.beats.fetch_add(1, Ordering::SeqCst);
        self.watchdog.ring();
    }

    /// The slice is over. Says so if it had been given up.
    pub(crate) fn end(&self, cached: usize) -> Option<Stuck> {
        self.cached.store(cached, Ordering::Relaxed);
        let running = self.lock().take();
        self.beats.fetch_add(1, Ordering::SeqCst);
        let mut running = running?;
        let is_late = running.stage.is_given_up();
        let late = is_late.then(|| running.describe(self.lane, clock::now()));
        running.branch.clear();
        *self.room() = running.branch;
        late
    }

    /// The slice under way, as somebody who waits for it would tell it.
    pub(crate) fn stuck(&self) -> Option<Stuck> {
        let state = self.lock();
        Some(state.as_ref()?.describe(self.lane, clock::now()))
    }

    /// What has the thread, for whoever decides about others.
    pub(crate) fn seen(&self) -> Option<Seen> {
        let state = self.lock();
        let running = state.as_ref()?;
        Some(Seen {
            run: running.run.clone(),
            work: running.work,
            since: running.since,
            lost: running.stage.is_lost().then(|| {
                let stuck = running.describe(self.lane, clock::now());
                stuck.to_string()
            }),
        })
    }

    /// Whether its slice was given up: the thread is abandoned and no longer counts.
    pub(crate) fn is_given_up(&self) -> bool {
        let state = self.lock();
        state.as_ref().is_some_and(|r| r.stage.is_given_up())
    }

    /// The thread, if its slice was given up.
    pub(crate) fn given_up_thread(&self) -> Option<ThreadId> {
        self.is_given_up().then_some(self.thread)
    }

    /// What the thread is doing.
    pub(crate) fn now(&self) -> ThreadState {
        let state = self.lock();
        let since = state.as_ref().map(|running| running.part_since);
        ThreadState {
            shard: self.lane.shard,
            inside: since.map(|since| clock::now().duration_since(since)),
            is_given_up: state.as_ref().is_some_and(|r| r.stage.is_given_up()),
            cached: self.cached.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.beats.load(Ordering::SeqCst) % 2 == 1
    }

    /// Applies what the clock says of the slice under way, if it does. Returns what is to be done,
    /// and about what.
    fn judge(&self, input: Input, now: Instant, limits: &Limits) -> Option<(Act, Case)> {
        let mut state = self.lock();
        let running = state.as_mut().filter(|r| r.is(input, now, limits))?;
        let (stage, act) = running.stage.apply(input);
        running.stage = stage;
        if act == Act::Nothing {
            return None;
        }
        let case = Case {
            no: running.no,
            token: running.work.token(),
            stuck: running.describe(self.lane, now),
        };
        Some((act, case))
    }

    /// A spare thread drives the shard of this slice.
    fn relieved(&self, no: u64) {
        if let Some(running) = self.lock().as_mut().filter(|r| r.no == no) {
            running.stage = running.stage.apply(Input::Relieved).0;
        }
    }

    fn run(&self) -> Option<RunIn> {
        Some(self.lock().as_ref()?.run.clone())
    }

    fn room(&self) -> MutexGuard<'_, String> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SliceWatch for Pulse {
    fn before_poll(&self, branch: &str, last_call: Option<&Site>) -> ControlFlow<()> {
        let mut state = self.lock();
        let Some(running) = state.as_mut() else {
            return ControlFlow::Continue(());
        };
        if running.stage.is_given_up() {
            return ControlFlow::Break(());
        }
        let now = clock::now();
        running.poll_since = now;
        if running.branch != branch {
            branch.clone_into(&mut running.branch);
        }
        if running.site.as_ref() != last_call {
            running.site = last_call.cloned();
        }
        if running.stage == Stage::Fast && now.duration_since(running.since) > self.fast_slice {
            let (stage, _) = running.stage.apply(Input::Long);
            running.stage = stage;
            let token = running.work.token();
            drop(state);
            if let Some(token) = token {
                self.port.go_slow(self.lane, token);
            }
        }
        ControlFlow::Continue(())
    }

    fn before_drop(&self, what: &str, last_call: Option<&Site>) {
        if let Some(running) = self.lock().as_mut() {
            running.poll_since = clock::now();
            what.clone_into(&mut running.branch);
            if last_call.is_some() {
                running.site = last_call.cloned();
            }
        }
    }

    fn part_done(&self) {
        if let Some(running) = self.lock().as_mut() {
            running.part_since = clock::now();
        }
    }
}

/// Code about which something is to be done.
struct Case {
    no: u64,
    /// None: nobody waits for an answer.
    token: Option<TaskToken>,
    stuck: Stuck,
}

/// What the watchdog wants done about a stuck thread.
pub(crate) trait Rescue: Send + Sync {
    /// A spare thread takes the shard over, if it may now.
    fn take_over(&self, lane: Lane, now: Instant) -> bool;
    /// Where somebody hears of it.
    fn bus(&self) -> &Bus;
    /// Threads to look at.
    fn pulses(&self) -> Vec<Arc<Pulse>>;
    /// How long a part of a task of this run may take; zero: for ever.
    fn patience(&self, run: &RunIn) -> Duration;
    /// Whether attempts run, or should have ended and have not.
    fn has_attempts(&self) -> bool;
    /// Ends what was told to stop and does not, as far as that is possible.
    fn look_after_attempts(&self);
    /// Whether runs wait for code of others to come back.
    fn has_refused(&self) -> bool;
    /// Lets those go on that may.
    fn release(&self);
    /// Joins threads that have ended.
    fn join_ended(&self);
    /// Whether the worker has stopped.
    fn is_stopped(&self) -> bool;
}

/// The watchdog's life.
pub(crate) fn keep_watch(
    rescue: &dyn Rescue,
    port: &dyn WorkerPort,
    settings: &Settings,
    bell: &Bell,
) {
    *bell.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::current());
    // Attempts are many and usually well: they are looked at less often.
    let round = settings.abort_after.clamp(LOOK, ROUND);
    let (mut next_round, mut next_release) = (clock::now(), clock::now());
    while !rescue.is_stopped() {
        let pulses = rescue.pulses();
        for pulse in &pulses {
            look(pulse, rescue, port, settings);
        }
        rescue.join_ended();
        if rescue.has_refused() && clock::now() >= next_release {
            rescue.release();
            next_release = clock::now() + RELEASE;
        }
        if clock::now() >= next_round {
            rescue.look_after_attempts();
            next_round = clock::now() + round;
        }
        if pulses.iter().any(|p| p.is_running()) || rescue.has_refused() {
            std::thread::park_timeout(LOOK);
            continue;
        }
        // Say that we sleep, then look once more: a slice may have begun in between.
        bell.is_asleep.store(true, Ordering::SeqCst);
        if !rescue.pulses().iter().any(|p| p.is_running()) && !rescue.is_stopped() {
            if rescue.has_attempts() {
                std::thread::park_timeout(round);
            } else {
                std::thread::park();
            }
        }
        bell.is_asleep.store(false, Ordering::SeqCst);
        // Slices usually end at once: look again only after a while.
        std::thread::park_timeout(LOOK);
    }
}

fn look(pulse: &Pulse, rescue: &dyn Rescue, port: &dyn WorkerPort, settings: &Settings) {
    let Some(run) = pulse.run() else {
        return;
    };
    let limits = Limits {
        fast_slice: settings.fast_slice,
        warning: settings.deadlock_warning,
        patience: rescue.patience(&run),
    };
    let now = clock::now();
    for input in [Input::Long, Input::Holds, Input::Late, Input::Over] {
        if let Some((act, case)) = pulse.judge(input, now, &limits) {
            carry_out(act, case, pulse, rescue, port);
        }
    }
}

fn carry_out(act: Act, case: Case, pulse: &Pulse, rescue: &dyn Rescue, port: &dyn WorkerPort) {
    let (lane, bus) = (pulse.lane, rescue.bus());
    let Case { no, token, stuck } = case;
    match act {
        Act::Nothing => {}
        Act::GoSlow => {
            bus.emit_with(Severity::Debug, || WorkerEvent::SlowSlice(stuck));
            if let Some(token) = token {
                port.go_slow(lane, token);
            }
        }
        Act::TakeOver => {
            if rescue.take_over(lane, clock::now()) {
                pulse.relieved(no);
            }
        }
        Act::Warn => bus.emit(WorkerEvent::DeadlockWarning(stuck)),
        Act::GiveUp => {
            let failure = failure(&stuck);
            bus.emit(WorkerEvent::StuckGivenUp(stuck));
            if let Some(token) = token {
                port.give_up(lane, token, failure);
            }
        }
    }
}

#[cfg(test)]
mod tests;
