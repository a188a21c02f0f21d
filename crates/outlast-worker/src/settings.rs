//! Every setting of a worker with its default, in one place.

use std::time::Duration;

use outlast_model::limits;

/// How a worker behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Attempts of activities at a time.
    pub activity_slots: usize,
    /// Steps at a time.
    pub step_slots: usize,
    /// Instances kept in memory.
    pub cached_runs: usize,
    /// History bytes of the instances kept in memory.
    pub cached_bytes: u64,
    /// A slice longer than this goes over to the slow path.
    pub fast_slice: Duration,
    /// One poll of workflow code longer than this is reported.
    pub deadlock_warning: Duration,
    /// One poll of workflow code longer than this fails its task; zero: never.
    pub deadlock_timeout: Duration,
    /// How long a cancelled attempt may go on before it is dropped.
    pub abort_after: Duration,
    /// Spare engine threads for shards whose thread is stuck.
    pub spare_threads: usize,
    /// Differences in options or input on replay are errors instead of warnings.
    pub strict_replay: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            activity_slots: 200,
            step_slots: 200,
            cached_runs: 1_000,
            cached_bytes: 256 << 20,
            fast_slice: limits::FAST_SLICE,
            deadlock_warning: limits::POLL_WARN,
            deadlock_timeout: limits::POLL_FAIL,
            abort_after: Duration::from_secs(1),
            spare_threads: cores,
            strict_replay: false,
        }
    }
}
