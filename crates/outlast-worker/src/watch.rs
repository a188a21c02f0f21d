//! Workflow code that does not come back.
//!
//! Each engine thread has a pulse: what it runs and since when. The watchdog looks at all
//! pulses while slices run, and sleeps while none does. A poll over 50 ms: its run goes over to
//! the slow path and a spare thread takes the shard, at most once a second. Over 1 s: a warning.
//! Over 2 s: the task fails, the run is blocked as stuck, the thread is abandoned; whatever it
//! still produces is thrown away.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use outlast_model::Failure;
use outlast_model::event::Site;
use outlast_model::task::TaskToken;
use outlast_runtime::SliceWatch;

use crate::bus::Bus;
use crate::clock;
use crate::event::{RunIn, Severity, Stuck, WorkerEvent};
use crate::port::{Lane, WorkerPort};
use crate::settings::Settings;
use crate::state::ThreadState;

/// How often the watchdog looks while slices run.
const LOOK: Duration = Duration::from_millis(10);
/// How often it looks at attempts while any run.
const ROUND: Duration = Duration::from_secs(1);

/// What an engine thread is doing.
pub(crate) struct Pulse {
    pub(crate) lane: Lane,
    /// Counts begun and ended slices: odd while one runs.
    beats: AtomicU64,
    state: Mutex<Option<Running>>,
    /// Instances that the thread holds.
    cached: AtomicUsize,
    port: Arc<dyn WorkerPort>,
    fast_slice: Duration,
    watchdog: Arc<Bell>,
}

/// A slice under way.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) token: TaskToken,
    pub(crate) run: RunIn,
    since: Instant,
    poll_since: Option<Instant>,
    branch: String,
    site: Option<Site>,
    pub(crate) is_slow: bool,
    pub(crate) is_rescued: bool,
    pub(crate) is_warned: bool,
    pub(crate) is_given_up: bool,
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
            beats,
            state,
            cached: AtomicUsize::new(0),
            port,
            fast_slice: settings.fast_slice,
            watchdog,
        }
    }

    pub(crate) fn begin(&self, token: TaskToken, run: RunIn) {
        *self.lock() = Some(Running {
            token,
            run,
            since: clock::now(),
            poll_since: None,
            branch: String::new(),
            site: None,
            is_slow: false,
            is_rescued: false,
            is_warned: false,
            is_given_up: false,
        });
        self.beats.fetch_add(1, Ordering::SeqCst);
        self.watchdog.ring();
    }

    /// The slice is over. Says so if it had been given up.
    pub(crate) fn end(&self, cached: usize) -> Option<Stuck> {
        self.cached.store(cached, Ordering::Relaxed);
        let running = self.lock().take();
        self.beats.fetch_add(1, Ordering::SeqCst);
        let late = running.filter(|running| running.is_given_up)?;
        let spent = clock::now().duration_since(late.since);
        Some(describe(self.lane, &late, spent))
    }

    /// The slice under way, as somebody who waits for it would tell it.
    pub(crate) fn stuck(&self) -> Option<Stuck> {
        let running = self.lock().clone()?;
        let spent = clock::now().duration_since(running.since);
        Some(describe(self.lane, &running, spent))
    }

    /// Whether its slice was given up: the thread is abandoned and no longer counts.
    pub(crate) fn is_given_up(&self) -> bool {
        self.lock()
            .as_ref()
            .is_some_and(|running| running.is_given_up)
    }

    /// What the thread is doing.
    pub(crate) fn now(&self) -> ThreadState {
        let state = self.lock();
        let since = state.as_ref().and_then(|running| running.poll_since);
        ThreadState {
            shard: self.lane.shard,
            inside: since.map(|since| clock::now().duration_since(since)),
            is_given_up: state.as_ref().is_some_and(|running| running.is_given_up),
            cached: self.cached.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.beats.load(Ordering::SeqCst) % 2 == 1
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SliceWatch for Pulse {
    fn before_poll(&self, branch: &str, last_call: Option<&Site>) {
        let mut state = self.lock();
        let Some(running) = state.as_mut() else {
            return;
        };
        let now = clock::now();
        running.poll_since = Some(now);
        if running.branch != branch {
            branch.clone_into(&mut running.branch);
        }
        if running.site.as_ref() != last_call {
            running.site = last_call.cloned();
        }
        let goes_slow = !running.is_slow && now.duration_since(running.since) > self.fast_slice;
        if goes_slow {
            running.is_slow = true;
            let token = running.token;
            drop(state);
            self.port.go_slow(self.lane, token);
        }
    }

    fn after_poll(&self) {
        if let Some(running) = self.lock().as_mut() {
            running.poll_since = None;
        }
    }
}

/// What the watchdog wants done about a stuck thread.
pub(crate) trait Rescue: Send + Sync {
    /// A spare thread takes the shard over, if it may now.
    fn take_over(&self, lane: Lane, now: Instant) -> bool;
    /// Where somebody hears of it.
    fn bus(&self) -> &Bus;
    /// Threads to look at.
    fn pulses(&self) -> Vec<Arc<Pulse>>;
    /// How long a poll of this run may take; zero: for ever.
    fn patience(&self, run: &RunIn) -> Duration;
    /// Whether attempts run, or should have ended and have not.
    fn has_attempts(&self) -> bool;
    /// Ends what was told to stop and does not, as far as that is possible.
    fn look_after_attempts(&self);
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
    let mut next_round = clock::now();
    while !rescue.is_stopped() {
        let pulses = rescue.pulses();
        for pulse in &pulses {
            look(pulse, rescue, port, settings);
        }
        if clock::now() >= next_round {
            rescue.look_after_attempts();
            next_round = clock::now() + round;
        }
        if pulses.iter().any(|p| p.is_running()) {
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
    let Some(running) = pulse.lock().clone() else {
        return;
    };
    let Some(since) = running.poll_since else {
        return;
    };
    let now = clock::now();
    let spent = now.duration_since(since);
    if spent > settings.fast_slice && !running.is_slow {
        mark(pulse, running.token, |r| r.is_slow = true);
        rescue.bus().emit_with(Severity::Debug, || {
            WorkerEvent::SlowSlice(describe(pulse.lane, &running, spent))
        });
        port.go_slow(pulse.lane, running.token);
    }
    if spent > settings.fast_slice && !running.is_rescued && rescue.take_over(pulse.lane, now) {
        mark(pulse, running.token, |r| r.is_rescued = true);
    }
    if spent > settings.deadlock_warning && !running.is_warned {
        mark(pulse, running.token, |r| r.is_warned = true);
        let stuck = describe(pulse.lane, &running, spent);
        rescue.bus().emit(WorkerEvent::DeadlockWarning(stuck));
    }
    let limit = rescue.patience(&running.run);
    if !limit.is_zero() && spent > limit && !running.is_given_up {
        mark(pulse, running.token, |r| r.is_given_up = true);
        let stuck = describe(pulse.lane, &running, spent);
        let failure = Failure::application("outlast.Stuck", stuck.to_string());
        rescue.bus().emit(WorkerEvent::StuckGivenUp(stuck));
        port.give_up(pulse.lane, running.token, failure);
    }
}

fn mark(pulse: &Pulse, token: TaskToken, change: impl FnOnce(&mut Running)) {
    if let Some(running) = pulse.lock().as_mut().filter(|r| r.token == token) {
        change(running);
    }
}

fn describe(lane: Lane, running: &Running, spent: Duration) -> Stuck {
    Stuck {
        run: running.run.clone(),
        branch: running.branch.clone(),
        site: running.site.clone(),
        thread: format!("outlast-engine-{} (driver {})", lane.shard, lane.driver),
        spent,
    }
}
