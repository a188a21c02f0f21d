//! A real Temporal server for the suites that need one.
//!
//! In this order: the server that `OUTLAST_TEST_TEMPORAL=host:port` names, a `temporal` in the
//! PATH, the one that an earlier run built, and where Go is installed one that is built now, once,
//! into a cache outside the checkout ([`crate::temporal_tool`]). Without any of these the suites say
//! that they are skipped; on a build machine (`CI=true`) that is a failure.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::step::Knob;
use crate::temporal_tool;

/// Where the suites look for a server.
pub(crate) const ADDRESS: &str = "OUTLAST_TEST_TEMPORAL";

/// Where suites that start servers of their own look for the program.
pub(crate) const TOOL: &str = "OUTLAST_TEST_TEMPORAL_TOOL";

/// A development server reads each of its queues 20 times a second unless told otherwise: every
/// step of a test would wait 50 ms.
const POLL_LIMITS: [&str; 3] = [
    "history.transferProcessorMaxPollRPS=5000",
    "history.timerProcessorMaxPollRPS=5000",
    "history.visibilityProcessorMaxPollRPS=5000",
];

/// How long a server may take until it answers.
const READY: Duration = Duration::from_secs(60);

/// A server for one test run.
pub(crate) enum Server {
    /// Somebody else's: it is left alone.
    Given(String),
    /// Ours: it ends with the run.
    Started {
        child: Child,
        address: String,
        /// The program, as text.
        tool: String,
    },
}

impl Server {
    /// Finds or starts one. `None`: there is none, and that is no failure here.
    pub(crate) fn find() -> Result<Option<Self>, String> {
        if let Ok(address) = std::env::var(ADDRESS) {
            println!("== Temporal server: {address} ({ADDRESS})");
            return Ok(Some(Self::Given(address)));
        }
        match tool() {
            Ok(tool) => start(&tool).map(Some),
            Err(why) if is_build_machine() => Err(format!("== Temporal server: FAILED\n{why}")),
            Err(why) => {
                println!("== Temporal server: none, its suites are SKIPPED: {why}");
                Ok(None)
            }
        }
    }

    /// `host:port`.
    pub(crate) fn address(&self) -> &str {
        match self {
            Self::Given(address) | Self::Started { address, .. } => address,
        }
    }

    /// What the suites are told.
    pub(crate) fn knobs(&self) -> impl Iterator<Item = Knob<'_>> {
        let tool = match self {
            Self::Given(_) => None,
            Self::Started { tool, .. } => Some(Knob(TOOL, tool)),
        };
        [Knob(ADDRESS, self.address())].into_iter().chain(tool)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Self::Started { child, .. } = self {
            // A server that has died by itself is what was wanted.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Whether what is missing is a failure.
pub(crate) fn is_build_machine() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

/// The program that can start a server.
fn tool() -> Result<PathBuf, String> {
    if runs("temporal", &["--version"]) {
        return Ok("temporal".into());
    }
    let folder = cache()?.join(temporal_tool::FOLDER);
    let built = folder.join("temporal");
    if built.exists() {
        return Ok(built);
    }
    temporal_tool::build(&folder)?;
    Ok(built)
}

/// Where things that are made once stay.
pub(crate) fn cache() -> Result<PathBuf, String> {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
    named("OUTLAST_CACHE")
        .or_else(|| named("XDG_CACHE_HOME").map(|dir| dir.join("outlast")))
        .or_else(|| named("HOME").map(|dir| dir.join(".cache/outlast")))
        .ok_or_else(|| "no place for a cache: set OUTLAST_CACHE or HOME".into())
}

fn start(tool: &Path) -> Result<Server, String> {
    let port = free_port()?.to_string();
    let log = std::env::temp_dir().join(format!("outlast-temporal-{port}.log"));
    let file = File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
    let mut command = Command::new(tool);
    command
        .args(["server", "start-dev", "--headless", "--ip", "127.0.0.1"])
        .args(["--port", &port, "--log-level", "error"]);
    for limit in POLL_LIMITS {
        command.args(["--dynamic-config-value", limit]);
    }
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file)
        .spawn()
        .map_err(|e| format!("{}: {e}", tool.display()))?;
    let address = format!("127.0.0.1:{port}");
    let tool_name = tool.display().to_string();
    let server = Server::Started {
        child,
        address,
        tool: tool_name,
    };
    let begin = Instant::now();
    let describe = ["operator", "namespace", "describe", "-n", "default"];
    let asked = [&describe[..], &["--address", server.address()]].concat();
    while !runs(tool, &asked) {
        if begin.elapsed() > READY {
            let text = fs::read_to_string(&log).unwrap_or_default();
            return Err(format!("the Temporal server does not answer\n{text}"));
        }
        sleep(Duration::from_millis(100));
    }
    println!("== Temporal server: {} (ours)", server.address());
    Ok(server)
}

/// A port that nobody listens on now.
fn free_port() -> Result<u16, String> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|e| format!("no free port: {e}"))
}

/// Whether this command succeeds.
pub(crate) fn runs(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> bool {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
