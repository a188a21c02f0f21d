//! The way to the ledger: say something, go on when it is on disk.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::ledger::Wire;
use super::record::{ChildNo, LedgerSeq, Record};

/// A connection to the ledger. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Pen {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    stream: Mutex<UnixStream>,
    waiting: Arc<Waiting>,
    last_id: AtomicU64,
}

type Waiting = Mutex<BTreeMap<u64, oneshot::Sender<LedgerSeq>>>;

impl Pen {
    /// Connects. A worker introduces itself and waits until it is known.
    pub(crate) fn connect(socket: &Path, child: Option<ChildNo>) -> io::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        let mut answers = BufReader::new(stream.try_clone()?);
        if let Some(no) = child {
            send(&mut stream, &Wire::Hello(no))?;
            answers.read_line(&mut String::new())?;
        }
        let waiting = Arc::new(Waiting::default());
        let heard = waiting.clone();
        std::thread::spawn(move || {
            for line in answers.lines().map_while(Result::ok) {
                hear(&line, &heard);
            }
        });
        let inner = Inner {
            stream: Mutex::new(stream),
            waiting,
            last_id: AtomicU64::new(0),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Says it. The receiver hears the record's number when it is on disk.
    pub(crate) fn say(&self, record: Record) -> io::Result<oneshot::Receiver<LedgerSeq>> {
        let id = self.inner.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, receiver) = oneshot::channel();
        lock(&self.inner.waiting).insert(id, sender);
        send(&mut lock(&self.inner.stream), &Wire::Keep(id, record))?;
        Ok(receiver)
    }

    /// Says it and waits until it is on disk.
    pub(crate) async fn write(&self, record: Record) -> io::Result<LedgerSeq> {
        self.say(record)?.await.map_err(|_| silent())
    }

    /// The same for whoever has no runtime.
    pub(crate) fn write_blocking(&self, record: Record) -> io::Result<LedgerSeq> {
        self.say(record)?.blocking_recv().map_err(|_| silent())
    }
}

fn send(stream: &mut UnixStream, wire: &Wire) -> io::Result<()> {
    let mut line = serde_json::to_vec(wire)?;
    line.push(b'\n');
    stream.write_all(&line)
}

fn hear(line: &str, waiting: &Waiting) {
    let numbers = line.split_once(' ');
    let numbers = numbers.and_then(|(id, seq)| Some((id.parse().ok()?, seq.parse().ok()?)));
    if let Some((id, seq)) = numbers
        && let Some(sender) = lock(waiting).remove(&id)
    {
        // Whoever asked may have been cancelled.
        sender.send(LedgerSeq(seq)).ok();
    }
}

fn silent() -> io::Error {
    io::Error::other("the ledger is gone")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
