//! What this process has used so far.

/// CPU time of all threads so far, in microseconds.
pub(crate) fn cpu_us() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// Memory of this process now, in megabytes; 0 where the system does not say.
pub(crate) fn rss_mb() -> f64 {
    status("VmRSS:")
}

/// The most memory this process has had, in megabytes; 0 where the system does not say.
pub(crate) fn peak_rss_mb() -> f64 {
    status("VmHWM:")
}

fn status(name: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text
        .lines()
        .find(|line| line.starts_with(name))
        .unwrap_or_default();
    let kilobytes = line
        .split_whitespace()
        .nth(1)
        .and_then(|n| n.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) / 1024.0
}
