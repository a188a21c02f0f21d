//! Every setting of a worker, in one table: name, type, default, scope, meaning, and the row of
//! the seeds it answers to.
//!
//! The struct, its defaults, and what a file or an environment needs to know (how to read, write
//! and describe each value) are all made from the table below, so that none can be forgotten.
//! A setting of scope [`Scope::Queue`] can differ from one task queue to the next; the others
//! hold for the application. What must hold between several settings is in `settings/check.rs`.

mod check;
mod value;

use std::time::Duration;

use outlast_model::limits;

pub use check::{Invalid, check};
pub use value::{SlotPolicy, Unit, Value, WrongValue};

/// For what a setting holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// It can differ from one task queue to the next.
    Queue,
    /// There is one of it.
    Application,
}

/// A row of the table: what one setting is called and means, and how text becomes its value.
#[derive(Debug)]
pub struct Setting {
    /// Section and name, as in a file.
    pub key: &'static str,
    /// The name of the field.
    pub field: &'static str,
    /// What it means.
    pub doc: &'static str,
    /// For what it holds.
    pub scope: Scope,
    /// What its value is.
    pub unit: Unit,
    /// The row of the seeds that asks for it; empty if none does.
    pub seed: &'static str,
    /// Its value as text, in the form that can be read again.
    pub show: fn(&Settings) -> String,
    /// Reads its value from text.
    pub read: fn(&mut Settings, &str) -> Result<(), WrongValue>,
}

impl Setting {
    /// The part of the key before the dot.
    pub fn section(&self) -> &'static str {
        self.key.split_once('.').map_or("", |(section, _)| section)
    }

    /// The part of the key behind the dot.
    pub fn name(&self) -> &'static str {
        self.key.split_once('.').map_or(self.key, |(_, name)| name)
    }

    /// Its default, as text.
    pub fn default_text(&self) -> String {
        (self.show)(&Settings::default())
    }
}

macro_rules! settings {
    ($(
        $(#[doc = $doc:literal])+
        $field:ident: $type:ty = $default:expr, $key:literal, $scope:ident, $seed:literal;
    )+) => {
        /// How a worker behaves.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings {
            $( $(#[doc = $doc])+ pub $field: $type, )+
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { $( $field: $default, )+ }
            }
        }

        /// All settings, in the order of a file.
        pub const TABLE: &[Setting] = &[ $(
            Setting {
                key: $key,
                field: stringify!($field),
                doc: concat!($($doc),+),
                scope: Scope::$scope,
                unit: <$type as Value>::UNIT,
                seed: $seed,
                show: |settings| Value::show(&settings.$field),
                read: |settings, text| {
                    settings.$field = <$type as Value>::read(text)?;
                    Ok(())
                },
            },
        )+ ];
    };
}

settings! {
    /// Slices of workflows at a time.
    workflow_slots: usize = 200, "worker.workflow_slots", Queue, "000-23";
    /// Attempts of activities at a time.
    activity_slots: usize = 200, "worker.activity_slots", Queue, "000-24";
    /// Steps at a time.
    step_slots: usize = 200, "worker.step_slots", Queue, "004-18";
    /// How slots are supplied: a fixed number, or as many as the machine can take.
    slots: SlotPolicy = SlotPolicy::Fixed, "worker.slots", Queue, "";
    /// By resource: slots that are granted whatever the machine does.
    slots_least: usize = 5, "worker.slots_least", Queue, "";
    /// By resource: no more slots above this share of memory in use.
    slots_memory: f64 = 0.8, "worker.slots_memory", Queue, "";
    /// By resource: no more slots above this share of processor time in use.
    slots_processor: f64 = 0.9, "worker.slots_processor", Queue, "";
    /// By resource: the pause between two more slots.
    slots_ramp: Duration = Duration::from_millis(50), "worker.slots_ramp", Queue, "";
    /// Requests for workflow tasks that wait at a polled backend at a time; at a Temporal cluster at
    /// least 12.
    workflow_pollers: usize = 5, "worker.workflow_pollers", Queue, "000-1";
    /// Requests for activities that wait at a polled backend at a time; at a Temporal cluster at
    /// least 8.
    activity_pollers: usize = 5, "worker.activity_pollers", Queue, "000-1";
    /// How long a workflow task waits at a cluster for the worker that has its run in memory, before
    /// any worker gets it.
    sticky_timeout: Duration = Duration::from_secs(5), "worker.sticky_timeout", Queue, "";
    /// Completions leave one after the other for the whole queue, not only for each run.
    one_completion_at_a_time: bool = false, "worker.one_completion_at_a_time", Queue, "004-10";
    /// Instances kept in memory.
    cached_runs: usize = 1_000, "worker.cached_runs", Queue, "004-18";
    /// History bytes of the instances kept in memory.
    cached_bytes: u64 = 256 << 20, "worker.cached_bytes", Queue, "";
    /// A slice longer than this goes over to the slow path.
    fast_slice: Duration = limits::FAST_SLICE, "worker.fast_slice", Application, "";
    /// A slice of workflow code longer than this is reported.
    deadlock_warning: Duration = limits::POLL_WARN, "worker.deadlock_warning", Application, "";
    /// A slice of workflow code longer than this fails its task; zero: never.
    deadlock_timeout: Duration = limits::POLL_FAIL, "worker.deadlock_timeout", Application, "000-25";
    /// Spare engine threads for shards whose thread is stuck.
    spare_threads: usize = cores(), "worker.spare_threads", Application, "";
    /// Differences in options or input on replay are errors instead of warnings.
    strict_replay: bool = false, "worker.strict_replay", Queue, "";
    /// Heartbeats of an activity with a heartbeat timeout go out once in this share of it.
    heartbeat_share: f64 = 0.8, "worker.heartbeat_share", Queue, "";
    /// Heartbeats of an activity without a heartbeat timeout go out this often.
    heartbeat_interval: Duration = Duration::from_secs(30), "worker.heartbeat_interval", Queue, "000-27";
    /// The longest time between two heartbeats that go out.
    heartbeat_interval_max: Duration = Duration::from_secs(60), "worker.heartbeat_interval_max", Queue, "000-26";
    /// How long a cancelled attempt may go on before it is dropped.
    abort_after: Duration = Duration::from_secs(1), "zombies.abort_after", Application, "000-31";
    /// The longest pause between two tries to end an attempt that does not.
    zombie_retry_max: Duration = Duration::from_secs(60), "zombies.retry_max", Application, "000-31";
    /// How long a cancelled attempt may go on before it counts as a zombie.
    zombie_grace: Duration = Duration::from_secs(10), "zombies.grace", Application, "000-31";
    /// When a zombie is no longer looked after.
    zombie_give_up_after: Duration = Duration::from_secs(3_600), "zombies.give_up_after", Application, "000-31";
    /// Past so many zombies the worker shuts down; zero: never.
    zombie_limit: usize = 10, "zombies.limit", Application, "000-31";
    /// How long a shutdown waits for attempts to finish.
    shutdown_grace: Duration = Duration::from_secs(10), "shutdown.grace", Application, "000-28";
    /// How long it then waits for attempts that were told to stop.
    shutdown_cancel: Duration = Duration::from_secs(5), "shutdown.cancel", Application, "000-29";
    /// How long it then waits for instances and zombies to go.
    shutdown_evictions: Duration = Duration::from_secs(30), "shutdown.evictions", Application, "000-31";
    /// The longest a shutdown takes, from its beginning.
    shutdown_hard_stop: Duration = Duration::from_secs(60), "shutdown.hard_stop", Application, "000-30";
    /// Requests that a run, and those that continue it, remember to have had their effect: the newest.
    /// One that is repeated later has it again. Embedded only.
    requests_remembered: usize = limits::REQUESTS_REMEMBERED, "requests.remembered", Application, "";
    /// How long a request is remembered at most.
    requests_remembered_for: Duration = limits::REQUESTS_REMEMBERED_FOR, "requests.remembered_for", Application, "";
    /// How long a cluster that is down at start is tried again before that is an error.
    connect_timeout: Duration = Duration::from_secs(60), "backend.connect_timeout", Application, "";
}

/// The setting with this key.
pub fn find(key: &str) -> Option<&'static Setting> {
    TABLE.iter().find(|setting| setting.key == key)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_read_as_it_is_shown() {
        for setting in TABLE {
            let mut settings = Settings::default();
            let text = (setting.show)(&settings);
            (setting.read)(&mut settings, &text).expect("a default can be read");
            assert_eq!(settings, Settings::default(), "{}", setting.key);
        }
    }

    #[test]
    fn a_key_names_one_setting() {
        for setting in TABLE {
            assert_eq!(
                find(setting.key).map(|found| found.field),
                Some(setting.field)
            );
            assert!(!setting.section().is_empty() && !setting.name().is_empty());
        }
        assert!(find("worker.slots_of_all_kinds").is_none());
    }

    #[test]
    fn the_defaults_are_those_of_the_papers() {
        let text = |key: &str| find(key).map(Setting::default_text);
        let all = [
            ("worker.workflow_slots", "200"),
            ("worker.activity_slots", "200"),
            ("worker.step_slots", "200"),
            ("worker.cached_runs", "1000"),
            ("worker.cached_bytes", "256MiB"),
            ("worker.deadlock_timeout", "2s"),
            ("worker.heartbeat_interval", "30s"),
            ("worker.heartbeat_interval_max", "1m"),
            ("zombies.abort_after", "1s"),
            ("zombies.retry_max", "1m"),
            ("zombies.grace", "10s"),
            ("zombies.give_up_after", "1h"),
            ("zombies.limit", "10"),
            ("shutdown.grace", "10s"),
            ("shutdown.cancel", "5s"),
            ("shutdown.evictions", "30s"),
            ("shutdown.hard_stop", "1m"),
        ];
        for (key, value) in all {
            assert_eq!(text(key).as_deref(), Some(value), "{key}");
        }
    }
}
