//! The ceiling: a bare group-commit log. One driver thread keeps N records in flight and hands
//! them over in batches; one writer thread appends all that wait, with a checksum each, and calls
//! fdatasync once.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use outlast::Result;

use super::sample::now;

/// Records a second.
pub(super) fn round(dir: &Path, in_flight: usize, bytes: usize, seconds: f64) -> Result<f64> {
    let path = dir.join("ceiling");
    let file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .open(&path)?;
    let (to_writer, from_driver) = channel::<Vec<Vec<u8>>>();
    let (to_driver, from_writer) = channel::<usize>();
    let writer = std::thread::spawn(move || write_all(file, &from_driver, &to_driver));
    let rate = drive(&to_writer, &from_writer, in_flight, bytes.max(16), seconds);
    drop(to_writer);
    // A writer that failed has sent nothing, which shows as a low rate.
    drop(writer.join());
    std::fs::remove_file(path)?;
    Ok(rate)
}

fn drive(
    to_writer: &Sender<Vec<Vec<u8>>>,
    from_writer: &Receiver<usize>,
    in_flight: usize,
    bytes: usize,
    seconds: f64,
) -> f64 {
    let begun = now();
    let limit = Duration::from_secs_f64(seconds);
    let (mut done, mut free, mut number) = (0usize, in_flight, 0u64);
    while begun.elapsed() < limit {
        let batch: Vec<Vec<u8>> = (0..free).map(|_| record(&mut number, bytes)).collect();
        if !batch.is_empty() && to_writer.send(batch).is_err() {
            break;
        }
        let Ok(mut written) = from_writer.recv() else {
            break;
        };
        while let Ok(more) = from_writer.try_recv() {
            written += more;
        }
        done += written;
        free = written;
    }
    done as f64 / begun.elapsed().as_secs_f64()
}

fn record(number: &mut u64, bytes: usize) -> Vec<u8> {
    *number += 1;
    let mut record = vec![0u8; bytes];
    record[..8].copy_from_slice(&number.to_le_bytes());
    let sum = crc32fast::hash(&record[12..]);
    record[8..12].copy_from_slice(&sum.to_le_bytes());
    record
}

fn write_all(mut file: File, from_driver: &Receiver<Vec<Vec<u8>>>, to_driver: &Sender<usize>) {
    let mut buffer = Vec::new();
    while let Ok(first) = from_driver.recv() {
        buffer.clear();
        let mut count = 0;
        let mut add = |batch: Vec<Vec<u8>>| {
            for record in batch {
                buffer.extend_from_slice(&record);
                count += 1;
            }
        };
        add(first);
        while let Ok(more) = from_driver.try_recv() {
            add(more);
        }
        let written = file.write_all(&buffer).and_then(|()| file.sync_data());
        if written.is_err() || to_driver.send(count).is_err() {
            return;
        }
    }
}
