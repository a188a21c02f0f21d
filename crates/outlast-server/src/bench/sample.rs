//! The unit of all figures: a 4 KiB append with fdatasync, and percentiles.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use outlast::Result;

const CALLS: usize = 100;

/// The p50 of a 4 KiB append with fdatasync, in microseconds.
pub(super) fn fdatasync_p50(dir: &Path) -> Result<f64> {
    let path = dir.join("fdatasync");
    let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
    let page = [7u8; 4096];
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let begun = now();
        file.write_all(&page)?;
        file.sync_data()?;
        times.push(micros(begun));
    }
    drop(file);
    std::fs::remove_file(path)?;
    Ok(percentile(&mut times, 0.50))
}

/// The value below which this share of all values is.
pub(super) fn percentile(values: &mut [f64], share: f64) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    values[((last as f64) * share).round() as usize]
}

pub(super) use crate::clock::now;

pub(super) fn micros(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1e6
}
