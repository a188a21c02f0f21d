//! The ledger: a process of its own with a file of its own, never killed. What it answered is on
//! disk (append and fdatasync), so that it can testify against everybody else.
//!
//! Records that wait together share a sync. `Exit` of a worker is written only when the
//! connection of that worker has ended: nothing it ever said can come later.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::record::{ChildNo, LedgerSeq, Line, Record};
use crate::clock;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the records go
    #[arg(long)]
    file: PathBuf,
    /// Where to listen
    #[arg(long)]
    socket: PathBuf,
}

/// What a client sends.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Wire {
    /// A worker process introduces itself.
    Hello(ChildNo),
    /// To be kept; the number comes back with the answer.
    Keep(u64, Record),
}

/// Serves until the process that started it is gone.
pub(crate) fn run(args: &Args) -> Result<(), Stop> {
    let file = File::options()
        .create_new(true)
        .append(true)
        .open(&args.file)?;
    let listener = UnixListener::bind(&args.socket)?;
    let (sender, kept) = channel();
    let begin = clock::now();
    std::thread::spawn(move || write(file, &kept, begin));
    let children = Arc::new(Children::default());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (sender, children) = (sender.clone(), children.clone());
            std::thread::spawn(move || listen(&stream, &sender, &children));
        }
    });
    // Whoever started it closes this pipe, by intent or by its death.
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

/// A record and who wants to hear its number.
struct Kept {
    id: u64,
    record: Record,
    reply: Arc<UnixStream>,
}

/// Writes everything that waits, syncs once, answers everybody.
fn write(mut file: File, kept: &Receiver<Kept>, begin: Instant) {
    let mut seq = 0;
    while let Ok(first) = kept.recv() {
        let group: Vec<Kept> = std::iter::once(first).chain(kept.try_iter()).collect();
        let us = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
        let (mut lines, mut answers) = (Vec::new(), Vec::new());
        for Kept { id, record, reply } in group {
            seq += 1;
            let line = Line {
                seq: LedgerSeq(seq),
                us,
                record,
            };
            if serde_json::to_writer(&mut lines, &line).is_err() {
                return;
            }
            lines.push(b'\n');
            answers.push((reply, format!("{id} {seq}\n")));
        }
        // A ledger that cannot write falls silent: everybody waits, and the verdict is "stuck".
        if file
            .write_all(&lines)
            .and_then(|()| file.sync_data())
            .is_err()
        {
            return;
        }
        for (reply, answer) in answers {
            // A worker that was killed meanwhile does not read it.
            (&*reply).write_all(answer.as_bytes()).ok();
        }
    }
}

/// One connection, to its end.
fn listen(stream: &UnixStream, sender: &Sender<Kept>, children: &Children) {
    let Ok(reply) = stream.try_clone().map(Arc::new) else {
        return;
    };
    let mut child = None;
    for line in BufReader::new(stream).lines() {
        // A process killed in the middle of a line has not said it.
        let Some(wire) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else {
            break;
        };
        match wire {
            Wire::Hello(no) => {
                if !children.came(no) {
                    break;
                }
                child = Some(no);
                (&*reply).write_all(b"0 0\n").ok();
            }
            Wire::Keep(id, record) => {
                if let Record::Exit(no) = &record {
                    children.wait_for_end(*no);
                }
                let reply = reply.clone();
                if sender.send(Kept { id, record, reply }).is_err() {
                    break;
                }
            }
        }
    }
    if let Some(no) = child {
        children.went(no);
    }
}

/// Which workers are connected.
#[derive(Debug, Default)]
struct Children {
    states: Mutex<BTreeMap<ChildNo, Presence>>,
    bell: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Connected,
    Gone,
}

impl Children {
    /// `false`: its end is on record already, whatever it wanted to say does not count.
    fn came(&self, no: ChildNo) -> bool {
        self.lock().insert(no, Presence::Connected) != Some(Presence::Gone)
    }

    fn went(&self, no: ChildNo) {
        self.lock().insert(no, Presence::Gone);
        self.bell.notify_all();
    }

    fn wait_for_end(&self, no: ChildNo) {
        let mut states = self.lock();
        while states.get(&no) == Some(&Presence::Connected) {
            states = self
                .bell
                .wait(states)
                .unwrap_or_else(PoisonError::into_inner);
        }
        states.insert(no, Presence::Gone);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ChildNo, Presence>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
