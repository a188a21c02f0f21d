//! Jobs of a test run, three at a time: what compiles, what waits for processes to die and what
//! computes on one core fill each other's gaps. Those that only wait have a lane of their own.
//!
//! Each job's output goes to a file below `target/xtask`; what it says of its tests is shown when it
//! ends, all of it if it failed. After a failure nothing new begins.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::step::{Skip, Times, told};

/// How many jobs run at once. One more than cores where there are two: with two lanes a third of the
/// time of both was spent waiting for disks, processes and clocks.
const LANES: usize = 3;
/// Where their output is.
const LOGS: &str = "target/xtask";
/// What is shown of a job that went well.
pub(crate) const RESULT: &str = "test result:";

/// Something to do.
pub(crate) struct Job<'a> {
    pub(crate) name: String,
    pub(crate) work: Work<'a>,
}

/// Is told where its output goes.
pub(crate) type Work<'a> = Box<dyn FnOnce(&Path) -> Result<(), Skip> + Send + 'a>;

#[derive(Default)]
struct Board<'a> {
    waiting: VecDeque<Job<'a>>,
    times: Times,
    failure: Option<String>,
}

/// Runs all jobs; those that stand first begin first. Of `row` and of `waiting` one at a time, and
/// `waiting` beside all others.
pub(crate) fn run<'a>(
    jobs: Vec<Job<'a>>,
    row: Vec<Job<'a>>,
    waiting: Vec<Job<'a>>,
) -> Result<Times, String> {
    fs::create_dir_all(LOGS).map_err(|e| format!("{LOGS}: {e}"))?;
    let board = Mutex::new(Board {
        waiting: jobs.into(),
        ..Board::default()
    });
    thread::scope(|scope| {
        scope.spawn(|| in_row(&board, waiting));
        let others = std::iter::repeat_with(Vec::new);
        for row in [row].into_iter().chain(others).take(LANES) {
            scope.spawn(|| {
                in_row(&board, row);
                while let Some(job) = next(&board) {
                    one(&board, job);
                }
            });
        }
    });
    let board = board.into_inner().unwrap_or_else(PoisonError::into_inner);
    board.failure.map_or(Ok(board.times), Err)
}

fn in_row<'a>(board: &Mutex<Board<'a>>, jobs: Vec<Job<'a>>) {
    for job in jobs {
        if lock(board).failure.is_none() {
            one(board, job);
        }
    }
}

fn next<'a>(board: &Mutex<Board<'a>>) -> Option<Job<'a>> {
    let mut board = lock(board);
    if board.failure.is_some() {
        return None;
    }
    board.waiting.pop_front()
}

fn one(board: &Mutex<Board<'_>>, Job { name, work }: Job<'_>) {
    let log = PathBuf::from(LOGS).join(format!("{}.log", name.replace(['/', ' '], "-")));
    let begin = Instant::now();
    let outcome = work(&log);
    let time = begin.elapsed();
    let mut board = lock(board);
    match end(&name, outcome, time, &log) {
        Ok(()) => board.times.push((name, time)),
        Err(why) => {
            board.failure.get_or_insert(why);
        }
    }
}

fn end(name: &str, outcome: Result<(), Skip>, time: Duration, log: &Path) -> Result<(), String> {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    if matches!(outcome, Err(Skip::Failed(_))) {
        println!("{text}");
    } else {
        let results = text.lines().filter(|line| line.starts_with(RESULT));
        results.for_each(|line| println!("{line}"));
    }
    told(name, outcome, time)
}

fn lock<'b, 'a>(board: &'b Mutex<Board<'a>>) -> MutexGuard<'b, Board<'a>> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}
