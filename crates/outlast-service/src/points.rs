//! Named points of the commit path at which a chaos test may stop the process.
//!
//! Off, a point costs one relaxed load. Armed, the process says which point it reached and waits
//! there to be killed, so that the kill falls exactly where the name says.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Every point, in the order of a request. The names are part of the chaos report.
pub const ALL: [&str; 26] = [
    "mail.accepted",
    "start.decided",
    "run.loaded",
    "run.recovered",
    "stimulus.applied",
    "slice.handed-out",
    "slice.rebuild",
    "slice.slow",
    "slice.answered",
    "slice.failed",
    "slice.queried",
    "query.asked",
    "post.arrived",
    "successor.decided",
    "attempt.handed-out",
    "attempt.lazy",
    "commit.sealed",
    "commit.closing",
    "batch.taken",
    "leader.before",
    "leader.after",
    "writer.taken",
    "writer.before",
    "writer.after",
    "release.before",
    "release.after",
];

static IS_ARMED: AtomicBool = AtomicBool::new(false);
static COUNTDOWN: AtomicU64 = AtomicU64::new(0);
static TARGET: Mutex<Option<Target>> = Mutex::new(None);

type Reached = Box<dyn Fn(&'static str) + Send>;

struct Target {
    name: String,
    reached: Reached,
}

/// Arms one point: at its nth passing `reached` is called, which does not return.
pub fn arm(name: &str, nth: u64, reached: impl Fn(&'static str) + Send + 'static) {
    let target = Target {
        name: name.to_owned(),
        reached: Box::new(reached),
    };
    *TARGET.lock().unwrap_or_else(PoisonError::into_inner) = Some(target);
    COUNTDOWN.store(nth.max(1), Ordering::SeqCst);
    IS_ARMED.store(true, Ordering::SeqCst);
}

/// The program passes a point.
#[inline]
pub(crate) fn pass(name: &'static str) {
    if IS_ARMED.load(Ordering::Relaxed) {
        passed(name);
    }
}

#[cold]
fn passed(name: &'static str) {
    let target = TARGET.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(target) = target.as_ref().filter(|target| target.name == name) else {
        return;
    };
    if COUNTDOWN.fetch_sub(1, Ordering::SeqCst) == 1 {
        (target.reached)(name);
    }
}
