//! A worker in a process of its own, and what is heard from it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use outlast::{Outlast, Settings};
use tokio::sync::mpsc::UnboundedSender;

use crate::journey::{MARK, Said, register, say};

/// Where the process finds its queue.
const URL: &str = "OUTLAST_CLUSTER_WORKER";

/// Serves the queue until its input is closed. Started by the other tests, alone it has nothing to
/// serve.
#[test]
#[ignore = "the process that other tests start and kill"]
fn process() {
    let url = std::env::var(URL).expect("other tests start this one, and name a queue");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
    runtime.block_on(async {
        // Runs of a worker that is dead go on elsewhere after a second.
        let settings = Settings {
            sticky_timeout: Duration::from_secs(1),
            ..Settings::default()
        };
        let app = register(Outlast::connect(&url)).settings(settings);
        let app = app.start().await;
        let app = app.expect("the server is there");
        say(&Said::Ready);
        let closed = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
        closed.await.expect("it ends").expect("it can be read");
        app.shutdown_now().await;
    });
}

/// What was heard, from which worker, and when.
pub(crate) struct Heard {
    pub(crate) from: usize,
    pub(crate) said: Said,
    pub(crate) when: Instant,
}

/// A worker process. It is killed when it is dropped.
pub(crate) struct Worker {
    pub(crate) no: usize,
    process: Child,
}

impl Worker {
    /// Starts one; what it says goes to `heard`.
    pub(crate) fn spawn(no: usize, url: &str, heard: &UnboundedSender<Heard>) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut process = Command::new(program)
            .args(["worker::process", "--exact", "--ignored", "--nocapture"])
            .env(URL, url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let output = process.stdout.take().expect("it has an output");
        let heard = heard.clone();
        std::thread::spawn(move || listen(no, output, &heard));
        Self { no, process }
    }

    /// SIGKILL. It is dead when this returns.
    pub(crate) fn kill(mut self) -> usize {
        self.end();
        self.no
    }

    fn end(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}

fn listen(from: usize, output: impl Read, heard: &UnboundedSender<Heard>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let Some((_, text)) = line.split_once(MARK) else {
            continue;
        };
        // A line cut off by the kill was not said.
        let Ok(said) = serde_json::from_str(text) else {
            continue;
        };
        let when = tokio::time::Instant::now().into_std();
        if heard.send(Heard { from, said, when }).is_err() {
            return;
        }
    }
}
