//! A real Temporal server for tests: the one that the environment names, or one of their own.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// `host:port` of the server. Without one the test says that it is skipped; on a build machine
/// that is a failure.
#[expect(clippy::print_stdout, reason = "a test that does not run says so")]
pub(crate) fn server() -> Option<String> {
    let address = std::env::var("OUTLAST_TEST_TEMPORAL").ok();
    if address.is_none() {
        println!("skipped: OUTLAST_TEST_TEMPORAL names no server");
        assert!(!is_build_machine(), "a build machine must have one");
    }
    address
}

/// The program that starts servers, for a test that needs one of its own.
#[expect(clippy::print_stdout, reason = "a test that does not run says so")]
pub(crate) fn tool() -> Option<PathBuf> {
    let named = std::env::var_os("OUTLAST_TEST_TEMPORAL_TOOL").map(PathBuf::from);
    let tool = named.or_else(|| runs("temporal").then(|| "temporal".into()));
    if tool.is_none() {
        println!(
            "skipped: OUTLAST_TEST_TEMPORAL_TOOL names no program, and there is no `temporal`"
        );
        assert!(!is_build_machine(), "a build machine must have one");
    }
    tool
}

fn runs(program: &str) -> bool {
    let silent = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    silent.is_ok_and(|status| status.success())
}

fn is_build_machine() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

/// A port that nobody listens on now.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("it has an address").port()
}

/// A server of a test's own, with its runs in a file. It is killed when it is dropped.
pub(crate) struct Server(Child);

impl Server {
    /// Starts it; whoever connects waits until it answers.
    pub(crate) fn start(tool: &Path, port: u16, file: &Path) -> Self {
        let mut command = Command::new(tool);
        command
            .args(["server", "start-dev", "--headless", "--ip", "127.0.0.1"])
            .args(["--port", &port.to_string(), "--log-level", "never"])
            .arg("--db-filename")
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self(command.spawn().expect("the server can be started"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
