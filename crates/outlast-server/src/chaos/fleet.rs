//! Processes: the ledger, and one worker after the other. A worker counts as dead only when the
//! system says so.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::moment::Moment;
use super::pen::Pen;
use super::record::{ChildNo, Record, Request, Said};
use super::{Plan, Room};
use crate::clock;

/// How long the ledger may take to come up.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a worker may take to stop in order.
const SHUTDOWN: Duration = Duration::from_secs(30);

/// The ledger's process. It ends when its input is closed.
#[derive(Debug)]
pub(crate) struct Ledger {
    process: Child,
    pub(crate) pen: Pen,
}

impl Ledger {
    pub(crate) fn start(room: &Room) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("chaos-ledger").arg("--file").arg(room.ledger());
        command
            .arg("--socket")
            .arg(room.socket())
            .stdin(Stdio::piped());
        let process = command.spawn()?;
        let end = clock::now() + PATIENCE;
        let pen = connect(&room.socket(), end)?;
        Ok(Self { process, pen })
    }

    /// Lets it end.
    pub(crate) fn stop(mut self) -> io::Result<()> {
        drop(self.process.stdin.take());
        self.process.wait().map(drop)
    }
}

fn connect(socket: &Path, end: Instant) -> io::Result<Pen> {
    loop {
        match Pen::connect(socket, None) {
            Ok(pen) => return Ok(pen),
            Err(error) if clock::now() > end => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// What is heard from a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Said(Said),
    /// It will not say anything any more.
    Gone,
    /// Nothing, so far.
    Nothing,
}

/// A worker process.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) no: ChildNo,
    process: Child,
    input: Option<ChildStdin>,
    said: Receiver<Said>,
    pub(crate) spawned: Instant,
    pub(crate) is_ready: bool,
}

impl Worker {
    /// Starts one, and has it on record first.
    pub(crate) fn spawn(
        no: ChildNo,
        (plan, room, seed): (&Plan, &Room, u64),
        moment: &Moment,
        pen: &Pen,
    ) -> io::Result<Self> {
        pen.write_blocking(Record::Start(no))?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("chaos-worker")
            .arg("--db")
            .arg(room.db())
            .arg("--socket")
            .arg(room.socket());
        command.args(["--child", &no.0.to_string(), "--seed", &seed.to_string()]);
        command.args(["--fail", &plan.fail.to_string()]);
        if let Moment::Point { name, nth } = moment {
            command.args(["--point", name, "--nth", &nth.to_string()]);
        }
        if let Some(value) = plan
            .planted
            .as_ref()
            .and_then(clap::ValueEnum::to_possible_value)
        {
            command.args(["--planted", value.get_name()]);
        }
        let spawned = clock::now();
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let (sender, said) = channel();
        if let Some(output) = output {
            std::thread::spawn(move || listen(output, &sender));
        }
        Ok(Self {
            no,
            process,
            input,
            said,
            spawned,
            is_ready: false,
        })
    }

    /// Hands over a request. A worker that is dead already does not read it.
    pub(crate) fn send(&mut self, request: &Request) {
        if let (Some(input), Ok(mut line)) = (&mut self.input, serde_json::to_vec(request)) {
            line.push(b'\n');
            input.write_all(&line).ok();
        }
    }

    /// The next thing it says, until `end`.
    pub(crate) fn hear(&self, end: Instant) -> Heard {
        match self
            .said
            .recv_timeout(end.saturating_duration_since(clock::now()))
        {
            Ok(said) => Heard::Said(said),
            Err(RecvTimeoutError::Disconnected) => Heard::Gone,
            Err(RecvTimeoutError::Timeout) => Heard::Nothing,
        }
    }

    /// What it said before it died, if anything is left.
    pub(crate) fn last_words(&self) -> Vec<Said> {
        self.said.iter().collect()
    }

    /// SIGKILL, on record before and after.
    pub(crate) fn kill(&mut self, whence: &str, pen: &Pen) -> io::Result<()> {
        pen.write_blocking(Record::Kill(self.no, whence.into()))?;
        self.process.kill()?;
        self.process.wait()?;
        pen.write_blocking(Record::Exit(self.no)).map(drop)
    }

    /// Lets it end in order. `false`: it did not.
    pub(crate) fn stop(&mut self, pen: &Pen) -> io::Result<bool> {
        drop(self.input.take());
        let end = clock::now() + SHUTDOWN;
        let mut status = self.process.try_wait()?;
        while status.is_none() && clock::now() < end {
            std::thread::sleep(Duration::from_millis(2));
            status = self.process.try_wait()?;
        }
        if status.is_none() {
            self.process.kill()?;
            self.process.wait()?;
        }
        pen.write_blocking(Record::Exit(self.no))?;
        Ok(status.is_some_and(|status| status.success()))
    }
}

/// Whatever happens to the driver, no worker is left behind.
impl Drop for Worker {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn listen(output: impl io::Read, sender: &Sender<Said>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        // A line cut off by the kill was not said.
        if serde_json::from_str(&line).is_ok_and(|said| sender.send(said).is_err()) {
            return;
        }
    }
}
