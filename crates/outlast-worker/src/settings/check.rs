//! What must hold for settings to make sense, each rule once. Checked when an application starts,
//! wherever the values came from.

use super::{Settings, SlotPolicy};

/// A setting whose value cannot work, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} cannot be {value}: {why}; {fix}")]
pub struct Invalid {
    /// Section and name.
    pub key: &'static str,
    /// What it is.
    pub value: String,
    /// What would go wrong.
    pub why: &'static str,
    /// What to do.
    pub fix: &'static str,
}

/// Every rule that these settings break, in the order of the table.
pub fn check(settings: &Settings) -> Vec<Invalid> {
    let rules = about_slots(settings)
        .into_iter()
        .chain(about_time(settings));
    let broken = rules.filter(|(is_broken, ..)| *is_broken);
    broken
        .map(|(_, key, why, fix)| Invalid {
            key,
            value: shown(settings, key),
            why,
            fix,
        })
        .collect()
}

/// Whether it is broken, the key, what would go wrong, what to do.
type Rule = (bool, &'static str, &'static str, &'static str);

fn about_slots(s: &Settings) -> [Rule; 6] {
    [
        (
            s.workflow_slots == 0,
            "worker.workflow_slots",
            "no workflow would ever run",
            "give it at least 1, or register no workflows here",
        ),
        (
            s.activity_slots == 0,
            "worker.activity_slots",
            "no activity would ever run",
            "give it at least 1, or register no activities here",
        ),
        (
            s.step_slots == 0,
            "worker.step_slots",
            "no step would ever run",
            "give it at least 1",
        ),
        (
            s.slots == SlotPolicy::Resource && s.slots_least == 0,
            "worker.slots_least",
            "nothing would run on a machine that others keep busy",
            "give it at least 1",
        ),
        (
            s.workflow_pollers == 0,
            "worker.workflow_pollers",
            "nobody would ask a polled backend for workflow tasks",
            "give it at least 1",
        ),
        (
            s.activity_pollers == 0,
            "worker.activity_pollers",
            "nobody would ask a polled backend for activities",
            "give it at least 1",
        ),
    ]
}

fn about_time(s: &Settings) -> [Rule; 9] {
    let shutdown = s.shutdown_grace + s.shutdown_cancel + s.shutdown_evictions;
    [
        (
            s.fast_slice.is_zero(),
            "worker.fast_slice",
            "every slice would count as stuck at once",
            "give it some time, as 50ms",
        ),
        (
            !s.deadlock_timeout.is_zero() && s.deadlock_timeout < s.fast_slice,
            "worker.deadlock_timeout",
            "a slice would fail before it is slow",
            "make it longer than worker.fast_slice, or 0 to turn it off",
        ),
        (
            s.sticky_timeout.is_zero(),
            "worker.sticky_timeout",
            "no worker would ever get a task of a run that it has in memory",
            "give it some time, as 5s; worker.cached_runs = 0 keeps no runs",
        ),
        (
            s.heartbeat_share.is_nan() || s.heartbeat_share <= 0.0,
            "worker.heartbeat_share",
            "every heartbeat would go out",
            "give it a share above 0, as 0.8",
        ),
        (
            s.heartbeat_interval > s.heartbeat_interval_max,
            "worker.heartbeat_interval",
            "it is longer than worker.heartbeat_interval_max",
            "make it shorter, or the other longer",
        ),
        (
            s.requests_remembered == 0 || s.requests_remembered_for.is_zero(),
            "requests.remembered",
            "a request that is repeated would have its effect twice",
            "give it a number above 0, as 2000, and requests.remembered_for a time, as 7d",
        ),
        (
            s.abort_after > s.zombie_grace,
            "zombies.abort_after",
            "an attempt would count as a zombie before it is dropped",
            "make it shorter than zombies.grace",
        ),
        (
            s.zombie_grace > s.zombie_give_up_after,
            "zombies.grace",
            "an attempt would be given up before it counts",
            "make it shorter than zombies.give_up_after",
        ),
        (
            shutdown > s.shutdown_hard_stop,
            "shutdown.hard_stop",
            "shutdown.grace, shutdown.cancel and shutdown.evictions together are longer",
            "make it longer, or those shorter",
        ),
    ]
}

fn shown(settings: &Settings, key: &str) -> String {
    super::find(key).map_or_else(String::new, |setting| (setting.show)(settings))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn broken(change: impl FnOnce(&mut Settings)) -> Vec<&'static str> {
        let mut settings = Settings::default();
        change(&mut settings);
        check(&settings)
            .into_iter()
            .map(|found| found.key)
            .collect()
    }

    #[test]
    fn the_defaults_work() {
        assert_eq!(broken(|_| {}), Vec::<&str>::new());
    }

    #[test]
    fn each_impossible_value_is_named() {
        let second = Duration::from_secs(1);
        assert_eq!(broken(|s| s.workflow_slots = 0), ["worker.workflow_slots"]);
        assert_eq!(broken(|s| s.activity_slots = 0), ["worker.activity_slots"]);
        assert_eq!(broken(|s| s.step_slots = 0), ["worker.step_slots"]);
        assert_eq!(
            broken(|s| s.fast_slice = Duration::ZERO),
            ["worker.fast_slice"]
        );
        let tiny = Duration::from_millis(1);
        assert_eq!(
            broken(|s| s.deadlock_timeout = tiny),
            ["worker.deadlock_timeout"]
        );
        assert_eq!(
            broken(|s| s.deadlock_timeout = Duration::ZERO),
            Vec::<&str>::new()
        );
        assert_eq!(
            broken(|s| s.sticky_timeout = Duration::ZERO),
            ["worker.sticky_timeout"]
        );
        for forgets in [
            broken(|s| s.requests_remembered = 0),
            broken(|s| s.requests_remembered_for = Duration::ZERO),
        ] {
            assert_eq!(forgets, ["requests.remembered"]);
        }
        for share in [0.0, f64::NAN] {
            assert_eq!(
                broken(|s| s.heartbeat_share = share),
                ["worker.heartbeat_share"]
            );
        }
        assert_eq!(
            broken(|s| s.heartbeat_interval_max = second),
            ["worker.heartbeat_interval"]
        );
        assert_eq!(
            broken(|s| s.zombie_grace = Duration::ZERO),
            ["zombies.abort_after"]
        );
        assert_eq!(
            broken(|s| s.zombie_give_up_after = second),
            ["zombies.grace"]
        );
        assert_eq!(
            broken(|s| s.shutdown_grace = second * 60),
            ["shutdown.hard_stop"]
        );
    }

    #[test]
    fn a_rule_says_what_to_do() {
        let settings = Settings {
            activity_slots: 0,
            ..Settings::default()
        };
        let text = check(&settings).first().map(ToString::to_string);
        assert_eq!(
            text.as_deref(),
            Some(
                "worker.activity_slots cannot be 0: no activity would ever run; give it at least \
                 1, or register no activities here"
            )
        );
    }
}
