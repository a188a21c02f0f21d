//! One seed: an application, some hostile runs, healthy ones beside them, and a judge for each.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlast::testing::TestEnv;
use outlast::{App, Description, Handle, Settings, Status};
use outlast_service::sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::code::{self, healthy};
use crate::kinds::{ALL, End, Kind, Say};
use crate::rng::Rng;
use crate::world::{self, Key, Place, lock};

/// Whatever takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);
/// Runs of one seed, at the most.
const KEYS: u64 = 64;

/// What a seed says is to be done.
pub struct Plan {
    pub seed: u64,
    pub kinds: Vec<Kind>,
    healthy: u64,
    cached: usize,
    is_on_disk: bool,
    rng: Rng,
}

impl Plan {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let count = rng.range(2, 6);
        let mut strands = 0;
        let mut kinds = Vec::new();
        while (kinds.len() as u64) < count {
            let kind = rng.pick(ALL);
            strands += usize::from(kind.strands);
            // The second one waits for a second.
            if !kind.strands || strands <= 2 {
                kinds.push(kind);
            }
        }
        Self {
            seed,
            kinds,
            healthy: rng.range(1, 4),
            cached: rng.pick(&[0, 1, 1_000, 1_000]),
            is_on_disk: rng.chance(5),
            rng,
        }
    }

    /// One kind alone, beside a healthy run.
    pub fn only(kind: Kind, seed: u64) -> Self {
        Self {
            kinds: vec![kind],
            is_on_disk: false,
            ..Self::new(seed)
        }
    }
}

fn settings(cached: usize) -> Settings {
    let millis = Duration::from_millis;
    Settings {
        cached_runs: cached,
        fast_slice: millis(5),
        deadlock_warning: millis(50),
        deadlock_timeout: millis(100),
        spare_threads: 4,
        abort_after: millis(5),
        zombie_grace: millis(10),
        zombie_retry_max: millis(10),
        zombie_limit: 0,
        ..Settings::default()
    }
}

/// Runs a seed. The error says which run was not as it should be.
pub async fn judge(mut plan: Plan) -> Result<(), String> {
    let directory = plan
        .is_on_disk
        .then(|| tempfile::tempdir().expect("a directory"));
    let env = match &directory {
        Some(directory) => {
            let store = SqliteStore::open(directory.path().join("runs.db"));
            TestEnv::on(Arc::new(store.expect("a file")))
        }
        None => TestEnv::new(),
    };
    let env = env.expect_stuck_code().real_time().report(|_| ());
    let env = env.settings(settings(plan.cached));
    let app = code::register(env).start().await;
    let verdict = tokio::time::timeout(PATIENCE, all(&app, &mut plan)).await;
    for run in 0..KEYS {
        world::forget(plan.seed * KEYS + run);
    }
    let verdict = verdict.unwrap_or_else(|_| Err("it takes too long".to_owned()));
    let clean = tokio::time::timeout(PATIENCE, is_clean(&app)).await;
    let clean = clean.map_err(|_| format!("left: {:#?}", app.worker_state()));
    let left = app.shutdown().await.left_behind;
    verdict?;
    clean?;
    if left.is_empty() {
        Ok(())
    } else {
        Err(format!("left behind: {left:?}"))
    }
}

async fn all(app: &App, plan: &mut Plan) -> Result<(), String> {
    let mut hostile = Vec::new();
    for (number, kind) in plan.kinds.iter().enumerate() {
        let key = plan.seed * KEYS + number as u64;
        let ends_first = plan.rng.chance(50);
        hostile.push(Accused::start(app, *kind, key, ends_first).await?);
    }
    let mut neighbours = Vec::new();
    for number in 0..plan.healthy {
        let key = plan.seed * KEYS + number;
        let run = app
            .start(healthy::healthy, key)
            .await
            .map_err(|e| e.to_string())?;
        run.send(healthy::GO, number)
            .await
            .map_err(|e| e.to_string())?;
        neighbours.push(run);
    }
    let judged = futures::future::join_all(hostile.iter().map(Accused::judged));
    let well = async {
        for (run, number) in neighbours.iter().zip(0..) {
            let result = run.result().await.map_err(|e| format!("healthy: {e}"))?;
            if result != healthy::expected(number) {
                return Err(format!("healthy: {result} for {number}"));
            }
        }
        Ok(())
    };
    let (judged, well) = futures::join!(judged, well);
    judged.into_iter().collect::<Result<Vec<()>, String>>()?;
    well
}

/// Returns when nothing is held any more: no slot, attempt, zombie, stuck run or spare thread.
async fn is_clean(app: &App) {
    loop {
        let state = app.worker_state().expect("there is a worker");
        let is_over = state.attempts == 0
            && state.slots.iter().all(|slots| slots.used == 0)
            && state.standing.stuck.is_empty()
            && state.standing.zombies().len() == 0
            && !state.threads.iter().any(|thread| thread.is_given_up);
        if is_over {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// A hostile run and what is known of it.
struct Accused {
    kind: Kind,
    run: Handle<Value>,
    place: Arc<Place>,
    heard: Arc<Mutex<String>>,
    saying: tokio::task::JoinHandle<()>,
    ends_first: bool,
}

impl Accused {
    async fn start(app: &App, kind: Kind, key: Key, ends_first: bool) -> Result<Self, String> {
        let place = world::make(key);
        let input = match kind.say {
            Say::WrongInput => json!({ "no": "number" }),
            _ => json!(key),
        };
        let run = app
            .start_raw(kind.workflow, &input)
            .id(format!("{}-{key}", kind.name));
        let run = run.await.map_err(|e| format!("{}: {e}", kind.name))?;
        let heard = Arc::<Mutex<String>>::default();
        let saying = tokio::spawn(say(run.clone(), kind.say, heard.clone()));
        Ok(Self {
            kind,
            run,
            place,
            heard,
            saying,
            ends_first,
        })
    }

    /// Waits until it stands as it should, then ends it and lets its threads go.
    async fn judged(&self) -> Result<(), String> {
        let mut last = String::new();
        let waited = tokio::time::timeout(PATIENCE / 2, self.stands(&mut last)).await;
        if self.ends_first {
            self.end().await?;
        }
        self.place.open();
        lock(&self.place.senders).clear();
        self.end().await?;
        for waker in std::mem::take(&mut *lock(&self.place.wakers)) {
            std::thread::spawn(move || waker.wake())
                .join()
                .map_err(|_| "a waker panicked")?;
        }
        self.saying.abort();
        match waited {
            Ok(verdict) => verdict,
            Err(_) => Err(format!("{}: stands wrong: {last}", self.kind.name)),
        }
    }

    async fn stands(&self, last: &mut String) -> Result<(), String> {
        loop {
            let found = self.run.describe().await.map_err(|e| e.to_string())?;
            let (end, mut reason) = read(&found);
            if end == End::Open || end == End::Blocked {
                for answer in self.run.why().await.map_err(|e| e.to_string())? {
                    reason.push_str(&format!("\n{} {}", answer.text, answer.next));
                }
            }
            reason.push_str(&lock(&self.heard));
            *last = format!("{end:?} {reason}");
            let needs_none = end == End::Completed && self.kind.ends.len() > 1;
            let is_named = needs_none || self.kind.names.iter().all(|name| reason.contains(name));
            if self.kind.ends.contains(&end) && is_named {
                return Ok(());
            }
            let is_closed = found.summary.status != Status::Running;
            if is_closed && !self.kind.ends.contains(&end) {
                return Err(format!("{}: ended wrong: {last}", self.kind.name));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Ends it, if it is not over.
    async fn end(&self) -> Result<(), String> {
        let ended = self.run.terminate("judged").await;
        let found = self.run.describe().await.map_err(|e| e.to_string())?;
        if found.summary.status == Status::Running {
            return Err(format!("{}: cannot be ended: {ended:?}", self.kind.name));
        }
        Ok(())
    }
}

async fn say(run: Handle<Value>, say: Say, heard: Arc<Mutex<String>>) {
    let hear = |text: String| lock(&heard).push_str(&format!("\n{text}"));
    let one = json!(1);
    match say {
        Say::Nothing | Say::WrongInput => {}
        Say::Signal(name) | Say::SignalAndGo(name) => drop(run.send_raw(name, &one).await),
        Say::Query(name) => hear(format!("{:?}", run.query_raw(name, &one).await)),
        Say::QueryAndGo(name) => hear(answered(&run, name).await),
        Say::Update(name) | Say::UpdateAndGo(name) => {
            hear(format!("{:?}", run.update_raw(name, &one).await));
        }
        Say::Cancel => drop(run.cancel().await),
    }
    if let Say::SignalAndGo(_) | Say::QueryAndGo(_) | Say::UpdateAndGo(_) = say {
        drop(run.send_raw("go", &one).await);
    }
}

/// What it says to a question: on a busy machine code may count as stuck that is not.
async fn answered(run: &Handle<Value>, query: &str) -> String {
    loop {
        let answer = format!("{:?}", run.query_raw(query, &json!(1)).await);
        let busy = ["has not come back", "before it came to rest"];
        if !busy.iter().any(|text| answer.contains(text)) {
            return answer;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// How a run stands, and what is said of it.
fn read(found: &Description) -> (End, String) {
    let notes = found.notes.join("\n");
    let outcome = format!("{:?}\n{notes}", found.outcome);
    match (&found.trouble, found.summary.status) {
        (Some(trouble), Status::Running) => (End::Blocked, format!("{}\n{notes}", trouble.failure)),
        (None, Status::Running) => (End::Open, notes),
        (_, Status::Completed) => (End::Completed, outcome),
        (_, _) => (End::Failed, outcome),
    }
}
