//! The world that activities change: a ledger of effects, which outlives every process.
//!
//! A process that has died changes nothing any more, although its threads may still run here.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use outlast::ActivityCtx;

/// One effect: who did what, in which attempt, in which process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Effect {
    pub(crate) life: usize,
    /// The same in every attempt: run and number for activities, the name for steps.
    pub(crate) key: String,
    pub(crate) attempt: u32,
}

/// Told of every change, right behind it.
pub(crate) type Watcher = Arc<dyn Fn() + Send + Sync>;

/// What happened in the world.
#[derive(Default)]
pub(crate) struct Ledger {
    effects: Mutex<Vec<Effect>>,
    is_fixed: AtomicBool,
    /// What was handed out last to somebody outside.
    token: Mutex<Option<String>>,
    watcher: OnceLock<Watcher>,
}

impl Ledger {
    /// As it was when there were so many effects.
    pub(crate) fn as_of(&self, effects: usize, token: Option<String>, is_fixed: bool) -> Self {
        Self {
            effects: Mutex::new(self.effects().into_iter().take(effects).collect()),
            is_fixed: AtomicBool::new(is_fixed),
            token: Mutex::new(token),
            watcher: OnceLock::new(),
        }
    }

    pub(crate) fn watch(&self, watcher: Watcher) {
        drop(self.watcher.set(watcher));
    }

    pub(crate) fn token(&self) -> Option<String> {
        lock(&self.token).clone()
    }

    pub(crate) fn is_fixed(&self) -> bool {
        self.is_fixed.load(Ordering::SeqCst)
    }

    fn changed(&self) {
        if let Some(watcher) = self.watcher.get() {
            watcher();
        }
    }

    pub(crate) fn effects(&self) -> Vec<Effect> {
        lock(&self.effects).clone()
    }
}

/// The world as one process sees it.
#[derive(Clone)]
pub(crate) struct World {
    ledger: Arc<Ledger>,
    life: usize,
    is_dead: Arc<AtomicBool>,
    killer: Arc<dyn Fn() + Send + Sync>,
}

/// Steps are closures of workflow code and reach the world by the name of their case.
static WORLDS: Mutex<BTreeMap<String, World>> = Mutex::new(BTreeMap::new());

impl World {
    /// The world of a new process, which steps of this case see from now on.
    pub(crate) fn new(
        case: &str,
        ledger: &Arc<Ledger>,
        life: usize,
        killer: Arc<dyn Fn() + Send + Sync>,
    ) -> Self {
        let world = Self {
            killer,
            ledger: ledger.clone(),
            life,
            is_dead: Arc::default(),
        };
        lock(&WORLDS).insert(case.to_owned(), world.clone());
        world
    }

    pub(crate) fn of(case: &str) -> Self {
        lock(&WORLDS)
            .get(case)
            .cloned()
            .expect("the case has a world")
    }

    /// The process has died: nothing it does counts.
    pub(crate) fn end(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
    }

    /// An activity does what it is there for.
    pub(crate) fn act(&self, ctx: &ActivityCtx) {
        self.note(ctx.idempotency_key(), ctx.attempt());
    }

    /// A step does. Returns how often it has been tried, in all processes.
    pub(crate) fn step(&self, name: &str) -> usize {
        self.note(name.to_owned(), 0);
        let effects = self.ledger.effects();
        effects.iter().filter(|effect| effect.key == name).count()
    }

    /// Kills the process, from the inside.
    pub(crate) fn kill(&self) {
        self.end();
        (self.killer)();
    }

    /// From here on the code of the scenario works.
    pub(crate) fn fix(&self) {
        self.ledger.is_fixed.store(true, Ordering::SeqCst);
        self.ledger.changed();
    }

    pub(crate) fn is_fixed(&self) -> bool {
        self.ledger.is_fixed()
    }

    /// Hands out a token, to settle a promise or to answer an attempt.
    pub(crate) fn hand_out(&self, token: String) {
        let mut last = lock(&self.ledger.token);
        if !self.is_dead.load(Ordering::SeqCst) {
            *last = Some(token);
        }
        drop(last);
        self.ledger.changed();
    }

    pub(crate) fn token(&self) -> Option<String> {
        self.ledger.token()
    }

    fn note(&self, key: String, attempt: u32) {
        let mut effects = lock(&self.ledger.effects);
        if !self.is_dead.load(Ordering::SeqCst) {
            let life = self.life;
            effects.push(Effect { life, key, attempt });
        }
        drop(effects);
        self.ledger.changed();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
