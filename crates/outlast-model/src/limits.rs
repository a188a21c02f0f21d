//! Every limit of the embedded engine, in one place. A test names each line.

use alloc::string::String;
use core::time::Duration;

/// One payload: input, result, signal, details.
pub const PAYLOAD_BYTES: usize = 2 << 20;
/// What travels with one call: all headers together, names included.
pub const HEADERS_BYTES: usize = 64 << 10;
/// One commit.
pub const COMMIT_BYTES: usize = 64 << 20;
/// Operations of a run that wait for their outcome.
pub const PENDING_OPERATIONS: usize = 20_000;
/// Branches of a run that live at a time. Code that spawns without end must not take all memory.
pub const BRANCHES: usize = 50_000;
/// Commands of one workflow task.
pub const COMMANDS_PER_TASK: usize = 20_000;
/// From here on a run is advised to continue as new.
pub const HISTORY_SUGGEST_EVENTS: u64 = 10_240;
/// Events of one run; past it only the end of the run is recorded.
pub const HISTORY_EVENTS: u64 = 1_000_000;
/// Bytes of one history: its events. Attempts, reports and other facts do not count.
pub const HISTORY_BYTES: u64 = 1 << 30;
/// Updates of one run that have not come to their end.
pub const UPDATES_IN_FLIGHT: usize = 1_000;
/// Updates of earlier runs of its chain that a run knows to have been accepted, the newest.
pub const UPDATES_INHERITED: usize = 2_000;
/// Requests that a run remembers to have had their effect, the newest (setting
/// `requests.remembered`). They travel with continue-as-new.
pub const REQUESTS_REMEMBERED: usize = 2_000;
/// How long they are remembered at most (setting `requests.remembered_for`).
pub const REQUESTS_REMEMBERED_FOR: Duration = Duration::from_secs(7 * 86_400);
/// Notes of one run that are kept, the newest.
pub const NOTES: usize = 20;
/// Waits without an event, and names of signals not taken, that are kept to be shown.
pub const RESTS: usize = 8;
/// Ids and names: of workflows, types, queues, requests, signals, updates, queries, promises,
/// patches, headers. See [`check_id`].
pub const ID_BYTES: usize = 1_000;
/// Stimuli of one run not yet committed; past it a sender waits.
pub const UNCOMMITTED_STIMULI: usize = 10_000;
/// How often an unacknowledged message may send a closing run round again.
pub const UNHANDLED_ROUNDS: u32 = 2;
/// Crashes of the process in one run's slice, after which the run is quarantined.
pub const SLICE_CRASHES: u32 = 5;
/// Message of a stored failure.
pub const FAILURE_MESSAGE_BYTES: usize = 4 << 10;
/// Trace of a stored failure.
pub const FAILURE_TRACE_BYTES: usize = 16 << 10;
/// Links of a stored failure's chain.
pub const FAILURE_CAUSES: usize = 10;
/// Why a run is cancelled or terminated. A longer text is cut: nobody's run goes on for a long reason.
pub const REASON_BYTES: usize = 4 << 10;
/// The longest delay: a timer, a timeout, a back-off.
pub const DELAY: Duration = Duration::from_secs(10 * 366 * 86_400);
/// Pause before the first retry of a failing workflow task.
pub const TASK_BACKOFF_FIRST: Duration = Duration::from_secs(1);
/// Longest pause between retries of a failing workflow task.
pub const TASK_BACKOFF_MAX: Duration = Duration::from_secs(600);
/// A slice longer than this goes over to the slow path.
pub const FAST_SLICE: Duration = Duration::from_millis(50);
/// One slice of workflow code longer than this is reported.
pub const POLL_WARN: Duration = Duration::from_secs(1);
/// One slice of workflow code longer than this fails its task (setting `deadlock_timeout`).
pub const POLL_FAIL: Duration = Duration::from_secs(2);
/// The same in a test environment, unless the test sets it: machines that run tests are busy.
pub const POLL_FAIL_IN_TESTS: Duration = Duration::from_secs(30);
/// Threads that may be lost in the code of one workflow type; then the type is blocked.
pub const STRANDED_THREADS: usize = 8;
/// The start-to-close timeout of an activity that names none.
pub const START_TO_CLOSE_DEFAULT: Duration = Duration::from_secs(600);
/// Commits since the last snapshot after which a new one is written.
pub const SNAPSHOT_EVERY_COMMITS: u64 = 256;
/// A timer is looked at again at least this often while it is open: the clock may jump.
pub const REARM: Duration = Duration::from_secs(60);

/// A text that is kept for people, with a mark at its end if it was longer.
pub fn cut(mut text: String, limit: usize) -> String {
    const MARK: &str = " [cut]";
    if text.len() <= limit {
        return text;
    }
    let mut end = limit.saturating_sub(MARK.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text + MARK
}

/// A reason as it is recorded.
pub fn reason(text: String) -> String {
    cut(text, REASON_BYTES)
}

/// Whether a text can be an id or a name.
///
/// # Errors
/// The rule it breaks, for a person.
pub fn check_id(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        Err("it is empty")
    } else if text.len() > ID_BYTES {
        Err("it has more than 1,000 bytes")
    } else if text.chars().any(char::is_control) {
        Err("it has control characters")
    } else {
        Ok(())
    }
}
