//! How busy the machine is. On Linux from `/proc`, and from the control group if that has a
//! limit of its own; elsewhere nothing is known, and nothing counts as busy.

use std::sync::{Mutex, PoisonError};

/// Shares in use, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Of memory.
    pub memory: f64,
    /// Of processor time, since the last measurement.
    pub processor: f64,
}

/// Whoever measures.
pub trait Probe: Send + Sync {
    /// How busy the machine is now.
    fn measure(&self) -> Load;
}

/// Measures the machine this runs on.
#[derive(Debug, Default)]
pub struct Machine {
    /// Processor time so far: busy, and in all.
    last: Mutex<Option<(u64, u64)>>,
}

impl Probe for Machine {
    fn measure(&self) -> Load {
        let memory = limited_memory().or_else(|| memory(&read("/proc/meminfo")?));
        let times = read("/proc/stat").and_then(|text| processor(&text));
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let processor = match (*last, times) {
            (Some((busy, all)), Some((busy_now, all_now))) => {
                share(busy_now.saturating_sub(busy), all_now.saturating_sub(all))
            }
            (_, None) | (None, Some(_)) => None,
        };
        *last = times.or(*last);
        Load {
            memory: memory.unwrap_or(0.0),
            processor: processor.unwrap_or(0.0),
        }
    }
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// What the control group uses of its limit, if it has one.
fn limited_memory() -> Option<f64> {
    let limit = read("/sys/fs/cgroup/memory.max")?.trim().parse().ok()?;
    let used = read("/sys/fs/cgroup/memory.current")?.trim().parse().ok()?;
    share(used, limit)
}

/// From `/proc/meminfo`.
fn memory(text: &str) -> Option<f64> {
    let of = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let (all, free) = (of("MemTotal:")?, of("MemAvailable:")?);
    share(all.saturating_sub(free), all)
}

/// From `/proc/stat`: busy, and in all.
fn processor(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let times: Vec<u64> = line
        .split_whitespace()
        .map_while(|time| time.parse().ok())
        .collect();
    let all = times.iter().sum();
    // Idle, and waiting for a disk.
    let idle = times.get(3)? + times.get(4)?;
    Some((u64::saturating_sub(all, idle), all))
}

#[expect(clippy::cast_precision_loss, reason = "a share needs no more digits")]
fn share(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_is_not_available() {
        let text = "MemTotal:       1000 kB\nMemFree:  100 kB\nMemAvailable:    250 kB\n";
        assert_eq!(memory(text), Some(0.75));
        assert_eq!(memory("nothing of the kind"), None);
    }

    #[test]
    fn processor_time_is_what_is_not_idle() {
        let text = "cpu  10 0 20 60 10 0 0 0 0 0\ncpu0 1 2 3 4 5\n";
        assert_eq!(processor(text), Some((30, 100)));
        assert_eq!(processor("cpu0 1 2 3"), None);
    }

    #[test]
    fn this_machine_can_be_measured() {
        let machine = Machine::default();
        let first = machine.measure();
        assert_eq!(first.processor.total_cmp(&0.0), std::cmp::Ordering::Equal);
        for load in [first, machine.measure()] {
            assert!((0.0..=1.0).contains(&load.memory), "{load:?}");
            assert!((0.0..=1.0).contains(&load.processor), "{load:?}");
        }
    }
}
