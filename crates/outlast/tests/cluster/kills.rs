//! Workers are killed with SIGKILL while attempts and workflow tasks are in their hands: every run
//! completes, nothing is recorded twice, and how long it took until others went on is measured.
//!
//! `OUTLAST_CLUSTER_KILLS` asks for more kills, `OUTLAST_CLUSTER_SEED` for the same moments again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use outlast::model::{Event, EventKind};
use outlast::prelude::*;
use outlast::testing::replay_from_cluster;
use outlast::{App, Outlast};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::journey::{LEGS, LETTER, Leg, Said, expected, journey};
use crate::rng::Rng;
use crate::support::{cluster, names};
use crate::worker::{Heard, Worker};

/// Kills in a short run.
const KILLS: usize = 5;
/// Runs under way at a time.
const IN_FLIGHT: usize = 8;
/// Workers that are alive at a time, but for the moments after a kill.
const WORKERS: usize = 2;
/// A worker dies with one of the first so many attempts that anybody begins.
const LATEST: u64 = 12;
/// Activities, steps and letters of a run.
const EACH: usize = 3;
/// Nothing takes so long, unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

#[test]
#[expect(clippy::print_stdout, reason = "measured, and told")]
fn workers_that_are_killed_lose_nothing_and_nothing_is_recorded_twice() {
    let Some(address) = cluster::server() else {
        return;
    };
    let kills =
        number("OUTLAST_CLUSTER_KILLS").map_or(KILLS, |n| usize::try_from(n).unwrap_or(KILLS));
    let seed = number("OUTLAST_CLUSTER_SEED").unwrap_or_else(|| std::process::id().into());
    println!("{kills} kills; the same moments again: OUTLAST_CLUSTER_SEED={seed}");
    let queue = format!("kills-{}", std::process::id());
    let url = format!("temporal://{address}/default?queue={queue}");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
    let (runs, fleet) = runtime.block_on(async {
        let app = Outlast::connect(&url).start().await;
        let app = app.expect("the server is there");
        under_fire(app, Fleet::new(url, seed), kills).await
    });
    let tasks: Vec<Duration> = runs
        .iter()
        .flat_map(|history| lost_tasks(history))
        .collect();
    println!(
        "{} runs, {kills} kills; attempts handed out again: {}; workflow tasks: {}",
        runs.len(),
        spread(&fleet.redelivered),
        spread(&tasks),
    );
    assert!(!fleet.redelivered.is_empty(), "no kill met an attempt");
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs come and go while workers are killed; all of them end. Returns their histories.
async fn under_fire(app: App, mut fleet: Fleet, kills: usize) -> (Vec<Vec<Event>>, Fleet) {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut travellers = JoinSet::new();
    for line in 0..IN_FLIGHT {
        travellers.spawn(travel(app.clone(), line, is_over.clone()));
    }
    for _ in 0..kills {
        fleet.kill_one().await;
    }
    is_over.store(true, Ordering::Relaxed);
    let mut runs = Vec::new();
    loop {
        tokio::select! {
            ended = travellers.join_next() => match ended {
                Some(histories) => runs.extend(histories.expect("every run is as it should be")),
                None => return (runs, fleet),
            },
            heard = fleet.heard.recv() => {
                fleet.note(&heard.expect("somebody speaks"));
            }
        }
    }
}

/// One run after the other, until it is over.
async fn travel(app: App, line: usize, is_over: Arc<AtomicBool>) -> Vec<Vec<Event>> {
    let mut histories = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let id = format!("kills/{}/{line}/{}", std::process::id(), histories.len());
        let one = timeout(PATIENCE, one_run(&app, &id)).await;
        histories.push(one.unwrap_or_else(|_| panic!("{id} does not end")));
    }
    histories
}

pub(crate) async fn one_run(app: &App, id: &str) -> Vec<Event> {
    let start = app.start(journey, id).id(id).task_timeout(1.secs());
    let run = start.await.expect("it starts");
    for letter in 1..=LEGS {
        run.send(LETTER, letter).await.expect("it is durable");
    }
    assert_eq!(run.result().await.expect("it completes"), expected());
    let history = run.history().await.expect("it has a history");
    judge(&history);
    history
}

/// Everything is there once, in order, and the code repeats it.
fn judge(history: &[Event]) {
    let kinds = names(history).join("\n");
    if let Err(difference) = replay_from_cluster(journey, history) {
        panic!("{difference}\n{kinds}");
    }
    let count = |is_it: fn(&EventKind) -> bool| history.iter().filter(|e| is_it(&e.kind)).count();
    let letters = history.iter().filter_map(|event| {
        let EventKind::Signaled { input, .. } = &event.kind else {
            return None;
        };
        Some(input.decode().expect("it is a letter"))
    });
    assert_eq!(letters.collect::<Vec<u64>>(), [1, 2, 3], "{kinds}");
    let ended = history.iter().filter_map(|event| {
        let EventKind::ActivityCompleted { seq, .. } = event.kind else {
            return None;
        };
        Some(seq)
    });
    let ended: Vec<_> = ended.collect();
    let once: BTreeSet<_> = ended.iter().copied().collect();
    assert_eq!((ended.len(), once.len()), (EACH, EACH), "{kinds}");
    let asked = count(|kind| matches!(kind, EventKind::ActivityScheduled(_)));
    let steps = count(|kind| matches!(kind, EventKind::StepRecorded(_)));
    let ends = count(|kind| matches!(kind, EventKind::Completed { .. }));
    assert_eq!((asked, steps, ends), (EACH, EACH, 1), "{kinds}");
}

/// How long it took from each workflow task that nobody answered to the next one that was.
fn lost_tasks(history: &[Event]) -> Vec<Duration> {
    let mut lost = Vec::new();
    let mut since = None;
    for event in history {
        if let EventKind::TaskScheduled { .. } = event.kind {
            since.get_or_insert((event.time, false));
        } else if let EventKind::TaskFailed { .. } = event.kind {
            since = since.map(|(time, _)| (time, true));
        } else if let EventKind::TaskCompleted = event.kind
            && let Some((time, true)) = since.take()
        {
            lost.push(Duration::from_micros(event.time.0.saturating_sub(time.0)));
        }
    }
    lost
}

pub(crate) fn spread(times: &[Duration]) -> String {
    let mut times = times.to_vec();
    times.sort();
    let at = |share: usize| times.get(times.len() * share / 100).or(times.last());
    match (at(50), times.last()) {
        (Some(half), Some(most)) => {
            format!(
                "{}, half within {half:.1?}, all within {most:.1?}",
                times.len()
            )
        }
        _ => "none".to_owned(),
    }
}

/// The workers, and what is known of what they do.
struct Fleet {
    url: String,
    rng: Rng,
    workers: Vec<Worker>,
    spawned: usize,
    speaks: UnboundedSender<Heard>,
    heard: UnboundedReceiver<Heard>,
    /// Who had an attempt in his hands last.
    holders: BTreeMap<Leg, usize>,
    /// Attempts whose worker was killed, and when.
    orphans: BTreeMap<Leg, Instant>,
    /// How long it took until another worker had them.
    redelivered: Vec<Duration>,
}

impl Fleet {
    fn new(url: String, seed: u64) -> Self {
        let (speaks, heard) = unbounded_channel();
        Self {
            url,
            rng: Rng::new(seed),
            workers: Vec::new(),
            spawned: 0,
            speaks,
            heard,
            holders: BTreeMap::new(),
            orphans: BTreeMap::new(),
            redelivered: Vec::new(),
        }
    }

    /// Fills up the crew, waits until it serves, and kills whoever begins the nth attempt after
    /// that.
    async fn kill_one(&mut self) {
        while self.workers.len() < WORKERS {
            let worker = Worker::spawn(self.spawned, &self.url, &self.speaks);
            self.workers.push(worker);
            self.spawned += 1;
            self.until(|heard| heard.said == Said::Ready).await;
        }
        let nth = self.rng.range(1, LATEST);
        let mut begun = 0;
        let culprit = self.until(|heard| {
            begun += u64::from(matches!(heard.said, Said::Began(..)));
            begun == nth
        });
        let culprit = culprit.await;
        let place = self.workers.iter().position(|worker| worker.no == culprit);
        // One that was killed may still be heard: then it is its neighbour's turn.
        let worker = self.workers.swap_remove(place.unwrap_or(0));
        let no = worker.kill();
        let now = tokio::time::Instant::now().into_std();
        let held = self.holders.iter().filter(|(_, holder)| **holder == no);
        self.orphans.extend(held.map(|(leg, _)| (leg.clone(), now)));
    }

    /// Listens until something is heard. Returns who said it.
    async fn until(&mut self, mut is_it: impl FnMut(&Heard) -> bool) -> usize {
        loop {
            let heard = timeout(PATIENCE, self.heard.recv()).await;
            let heard = heard
                .expect("somebody speaks in time")
                .expect("somebody speaks");
            self.note(&heard);
            if is_it(&heard) {
                return heard.from;
            }
        }
    }

    fn note(&mut self, heard: &Heard) {
        if let Said::Began(leg, _) = &heard.said {
            self.holders.insert(leg.clone(), heard.from);
            if let Some(since) = self.orphans.remove(leg) {
                self.redelivered
                    .push(heard.when.saturating_duration_since(since));
            }
        }
    }
}
