//! A polled backend as a [`WorkerPort`]: what it sends is handed to engine threads and to the
//! dispatcher of attempts, and what they answer goes back through the owner.
//!
//! One port for each queue. Its parts: the pollers (`pollers`), what waits for engine threads
//! (`board`, with one machine per run in [`run`]) and attempts under way (`claims`). Completions
//! of one run leave in their order and those of different runs side by side; answers of attempts
//! and heartbeats wait behind none of them.

mod board;
mod claims;
mod order;
mod pollers;
pub mod run;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use outlast_model::task::{
    ActivityTask, AttemptKind, AttemptOutcome, AttemptResult, AttemptToken, Permit, TaskAnswer,
    TaskToken,
};
use outlast_model::{AnswerToken, Failure, Payload, QueueName, RunId};
use tokio::runtime::Handle as Runtime;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use crate::dispatch::Dispatch;
use crate::handle::{CompleteError, PolledActivation, PolledActivity, QueueOptions};
use crate::owner::{Attendance, Owner, Polled, RegisterError, dropped};
use crate::port::{Lane, Next, WorkerPort};
use crate::worker::Worker;
use board::{Board, Found};
use claims::{Arrived, Claim, Claims, token_of};
use order::{Answer, Order};

/// Who runs attempts.
pub trait AttemptHost: Send + Sync {
    /// Takes a slot of a queue, if one is free.
    fn take_slot(&self, queue: &QueueName, kind: AttemptKind) -> Permit;
    /// Gives one back whose attempt did not start.
    fn return_slot(&self, queue: &QueueName, kind: AttemptKind);
    /// Starts and stops attempts.
    fn dispatch(&self, work: Vec<Dispatch>);
}

impl AttemptHost for Worker {
    fn take_slot(&self, queue: &QueueName, kind: AttemptKind) -> Permit {
        Self::take_slot(self, queue, kind.into())
    }

    fn return_slot(&self, queue: &QueueName, kind: AttemptKind) {
        Self::return_slot(self, queue, kind.into());
    }

    fn dispatch(&self, work: Vec<Dispatch>) {
        Self::dispatch(self, work);
    }
}

/// One queue of a polled backend.
pub struct PolledPort {
    inner: Arc<Inner>,
}

struct Inner {
    owner: Owner,
    queue: QueueName,
    runtime: Runtime,
    board: Mutex<Board>,
    /// One for each lane, rung when something is there.
    bells: Vec<Condvar>,
    claims: Mutex<Claims>,
    /// How many more activations may be under way.
    places: Semaphore,
    host: OnceLock<Weak<dyn AttemptHost>>,
    pollers: Mutex<BTreeMap<&'static str, AbortHandle>>,
    attendance: Mutex<Option<Attendance>>,
    is_draining: AtomicBool,
}

impl PolledPort {
    /// Registers a queue, served by this many engine threads. Nothing is asked for before
    /// [`start`](Self::start).
    ///
    /// # Errors
    /// The owner refuses the registration.
    pub async fn register(
        owner: Owner,
        options: QueueOptions,
        lanes: usize,
        runtime: Runtime,
    ) -> Result<Self, RegisterError> {
        let (queue, slices) = (options.queue.clone(), options.slice_slots);
        owner.register(options).await?;
        let board = Board::new(queue.clone(), lanes);
        let bells = (0..board.lanes()).map(|_| Condvar::new()).collect();
        let attendance = Mutex::new(owner.attend(&queue));
        let inner = Arc::new(Inner {
            owner,
            queue,
            runtime,
            board: Mutex::new(board),
            bells,
            claims: Mutex::default(),
            places: Semaphore::new(slices),
            host: OnceLock::new(),
            pollers: Mutex::default(),
            attendance,
            is_draining: AtomicBool::new(false),
        });
        Ok(Self { inner })
    }

    /// Begins to ask the backend for work; attempts go to this host. Weak: a worker holds its
    /// port.
    pub fn start(&self, host: Weak<dyn AttemptHost>) {
        if self.inner.host.set(host).is_ok() {
            let inner = &self.inner;
            pollers::keep_polling(
                inner,
                "the poller of activations",
                pollers::poll_activations,
            );
            pollers::keep_polling(inner, "the poller of activities", pollers::poll_activities);
        }
    }

    /// Ends the pollers where they stand; others take their places. A repair, and a proof that
    /// nothing is lost by it.
    pub fn restart_pollers(&self) {
        for poller in self.inner.pollers().values() {
            poller.abort();
        }
    }

    /// Runs this port knows, and attempts it has claimed.
    pub fn load(&self) -> (usize, usize) {
        let runs = self.inner.board().len();
        (runs, self.inner.claims().len())
    }
}

impl Inner {
    fn arrive(self: &Arc<Self>, polled: Polled<PolledActivation>) {
        self.with_board(|board, orders| board.arrive(polled, orders));
    }

    fn arrive_attempt(self: &Arc<Self>, polled: Polled<PolledActivity>) {
        let arrived = self.claims().arrive(polled);
        match arrived {
            Arrived::InLine => self.begin_attempts(),
            Arrived::Stop(token, reason) => {
                if let Some(host) = self.host() {
                    host.dispatch(vec![Dispatch::Stop(token, reason)]);
                }
            }
            Arrived::NeverBegan(claim) => self.ended(claim, AttemptResult::Canceled(None)),
            Arrived::Nothing => {}
        }
    }

    fn begin_attempts(self: &Arc<Self>) {
        let Some(host) = self.host() else {
            return;
        };
        let take_slot = |kind| host.take_slot(&self.queue, kind);
        let (begun, again) = self.claims().begin(&self.queue, take_slot);
        if let Some(pause) = again {
            self.begin_attempts_in(pause);
        }
        if begun.is_empty() {
            return;
        }
        let tokens: Vec<AttemptToken> = begun.iter().filter_map(token_of).collect();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| host.dispatch(begun))) {
            let failure = self.panicked("the start of attempts", panic);
            for token in tokens {
                host.return_slot(&self.queue, token.kind);
                self.complete_attempt(token, AttemptResult::Failed(failure.clone()));
            }
        }
    }

    /// Slots may be free later, though no attempt ends.
    fn begin_attempts_in(self: &Arc<Self>, pause: Duration) {
        let me = self.clone();
        drop(self.runtime.spawn(async move {
            tokio::time::sleep(pause).await;
            me.claims().asks_again();
            me.begin_attempts();
        }));
    }

    fn complete_attempt(&self, token: AttemptToken, result: AttemptResult) {
        let claim = self.claims().end(token);
        if let Some(claim) = claim {
            self.ended(claim, result);
        }
    }

    fn ended(&self, claim: Claim, result: AttemptResult) {
        let Claim { generation, token } = claim;
        self.owner
            .complete_activity(&self.queue, generation, token, result, Box::new(drop));
    }

    /// Changes the board, then sends what follows.
    fn with_board<T>(self: &Arc<Self>, change: impl FnOnce(&mut Board, &mut Vec<Order>) -> T) -> T {
        let mut orders = Vec::new();
        let changed = change(&mut self.board(), &mut orders);
        self.send(orders);
        changed
    }

    fn send(self: &Arc<Self>, orders: Vec<Order>) {
        for order in orders {
            match order {
                Order::Answer(answer) => self.answer(answer),
                Order::Ring(shard) => self.ring(shard),
                Order::Evict { generation, run_id } => {
                    self.owner.request_eviction(&self.queue, generation, run_id);
                }
                Order::Refused => {
                    let error = CompleteError::Refused("it was answered before".into());
                    let event = dropped(self.queue.clone(), "an activation", &error);
                    self.owner.bus().emit(event);
                }
            }
        }
    }

    fn answer(self: &Arc<Self>, answer: Answer) {
        let Answer {
            generation,
            run_id,
            completion,
            is_awaited,
        } = answer;
        let me = self.clone();
        self.owner.complete_activation(
            &self.queue,
            generation,
            run_id,
            completion,
            Box::new(move |_taken| {
                me.places.add_permits(1);
                if is_awaited {
                    me.with_board(|board, orders| board.answered(run_id, orders));
                }
            }),
        );
    }

    fn ring(&self, shard: usize) {
        if let Some(bell) = self.bells.get(shard) {
            bell.notify_all();
        }
    }

    fn host(&self) -> Option<Arc<dyn AttemptHost>> {
        self.host.get().and_then(Weak::upgrade)
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WorkerPort for PolledPort {
    fn shards(&self) -> usize {
        self.inner.board().lanes()
    }

    fn drive(&self, shard: usize) -> Lane {
        let lane = self
            .inner
            .with_board(|board, orders| board.drive(shard, orders));
        // Whoever drove it learns that it is replaced.
        self.inner.ring(shard);
        lane
    }

    fn next_task(&self, lane: Lane) -> Next {
        loop {
            let mut orders = Vec::new();
            let mut board = self.inner.board();
            let found = board.find(lane, &mut orders);
            if let (Found::Nothing, true, Some(bell)) =
                (&found, orders.is_empty(), self.inner.bells.get(lane.shard))
            {
                let board = bell.wait(board).unwrap_or_else(PoisonError::into_inner);
                drop(board);
                continue;
            }
            drop(board);
            self.inner.send(orders);
            if let Found::Next(next) = found {
                return next;
            }
        }
    }

    fn complete_task(&self, _lane: Lane, token: TaskToken, answer: TaskAnswer) {
        self.inner
            .with_board(|board, orders| board.complete(token, answer, orders));
    }

    /// The backend has acknowledged what it sent: nobody waits for this slice.
    fn go_slow(&self, _lane: Lane, _token: TaskToken) {}

    fn give_up(&self, _lane: Lane, token: TaskToken, failure: Failure) {
        self.inner
            .with_board(|board, orders| board.give_up(token, failure, orders));
    }

    fn evicted(&self, _lane: Lane, run_id: RunId) {
        self.inner
            .with_board(|board, orders| board.evicted(run_id, orders));
    }

    /// The instance remembers who woke it: its next activation fails.
    fn foreign_wake(&self, _run_id: RunId) {}

    fn complete_attempts(&self, outcomes: Vec<AttemptOutcome>) {
        for AttemptOutcome { token, result } in outcomes {
            self.inner.complete_attempt(token, result);
        }
        self.inner.begin_attempts();
    }

    fn heartbeat(&self, token: AttemptToken, details: Payload) {
        let inner = &self.inner;
        let claim = inner.claims().get(token).cloned();
        if let Some(claim) = claim {
            let Claim { generation, token } = claim;
            inner
                .owner
                .heartbeat(&inner.queue, generation, &token, details);
        }
    }

    fn answer_token(&self, task: &ActivityTask) -> AnswerToken {
        let claims = self.inner.claims();
        // One that has ended is answered by nobody.
        let claim = claims.get(task.token);
        claim.map_or_else(|| AnswerToken::new(""), |claim| claim.token.answer())
    }

    /// The backend is told at once; engine threads go on answering and leave when it has stopped.
    fn drain(&self) {
        if self.inner.is_draining.swap(true, Ordering::AcqRel) {
            return;
        }
        let inner = self.inner.clone();
        drop(self.inner.runtime.spawn(async move {
            inner.owner.unregister(&inner.queue).await;
            inner.board().close();
            for bell in &inner.bells {
                bell.notify_all();
            }
        }));
    }

    fn shutdown(&self) {
        self.drain();
    }
}

impl Drop for PolledPort {
    /// Nobody is left to take what arrives.
    fn drop(&mut self) {
        let attendance = self.inner.attendance.lock();
        let left = attendance.unwrap_or_else(PoisonError::into_inner).take();
        drop(left);
    }
}

impl fmt::Debug for PolledPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolledPort")
            .field("queue", &self.inner.queue)
            .finish_non_exhaustive()
    }
}
