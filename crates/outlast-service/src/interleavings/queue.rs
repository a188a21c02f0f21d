//! Batches meet the writer.

use std::collections::VecDeque;
use std::sync::Arc;

use shuttle::sync::Mutex;
use shuttle::thread;

use super::explore;
use crate::batch::Batch;
use crate::writer::{Job, Parcel, Queue};

/// What was written, in order: the shard and the number of each batch.
type Written = Arc<Mutex<Vec<(usize, u64)>>>;

fn write(written: &Written, parcels: VecDeque<Parcel>) {
    for parcel in parcels {
        let number = (parcel.shard, parcel.batch.generation);
        written.lock().expect("not poisoned").push(number);
    }
}

fn parcel(shard: usize, generation: u64) -> Parcel {
    let batch = Batch {
        generation,
        ..Batch::default()
    };
    Parcel::new(shard, batch)
}

/// Two shards hand three batches each over, at once where they may; all are written, those of a
/// shard in their order, and the writer leaves when it is told.
#[test]
fn every_batch_is_written_in_the_order_of_its_shard() {
    explore(|| {
        let (queue, written) = (Arc::new(Queue::default()), Written::default());
        let (mine, out) = (queue.clone(), written.clone());
        let writer = thread::spawn(move || {
            while mine.next() == Job::Write {
                let lock = mine.commit_lock();
                let parcels = mine.take();
                let count = parcels.len();
                write(&out, parcels);
                mine.done(count);
                drop(lock);
            }
        });
        let engines: Vec<_> = (0..2)
            .map(|shard| {
                let (queue, written) = (queue.clone(), written.clone());
                thread::spawn(move || {
                    for number in 0..3 {
                        let lead = queue.lead();
                        if lead.is_some() {
                            write(&written, VecDeque::from([parcel(shard, number)]));
                        } else {
                            queue.put(parcel(shard, number));
                        }
                    }
                })
            })
            .collect();
        for engine in engines {
            engine.join().expect("hands over");
        }
        queue.stop();
        writer.join().expect("writes");
        let written = written.lock().expect("not poisoned");
        for shard in 0..2 {
            let numbers: Vec<u64> = written
                .iter()
                .filter(|(of, _)| *of == shard)
                .map(|(_, number)| *number)
                .collect();
            assert_eq!(numbers, [0, 1, 2], "{written:?}");
        }
    });
}
