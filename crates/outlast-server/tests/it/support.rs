//! A directory of its own for each test, and the binary run in it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// How often something is looked for before it counts as missing.
const TRIES: usize = 2_000;

/// A directory that goes with the test, unless the test fails: what it says that it kept is there.
pub(crate) struct Room(PathBuf);

impl Room {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("outlast-it-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory can be made");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outlast"));
        command.args(line.split_whitespace());
        command.current_dir(&self.0).env("TMPDIR", &self.0);
        command
    }

    /// Runs the binary with these words.
    pub(crate) fn run(&self, line: &str) -> Ran {
        Ran(self.command(line).output().expect("the binary runs"))
    }

    /// Runs it again and again until its words are as they should be.
    pub(crate) fn until(&self, line: &str, is_so: impl Fn(&Ran) -> bool) {
        let has_come = (0..TRIES).any(|_| is_so(&self.run(line)));
        assert!(has_come, "{line}: {}", self.run(line).stdout());
    }

    /// Starts it and lets it run.
    pub(crate) fn spawn(&self, line: &str) -> Running {
        let mut command = self.command(line);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Running(command.spawn().expect("the binary runs"))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            std::fs::remove_dir_all(&self.0).ok();
        }
    }
}

/// A process that is killed, not asked, when it is dropped.
pub(crate) struct Running(Child);

impl Running {
    /// Kills it, and leaves it to nobody to ask for its end: its number stays taken.
    pub(crate) fn kill(&mut self) -> u32 {
        self.0.kill().expect("it runs");
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// What came of it.
pub(crate) struct Ran(Output);

impl Ran {
    pub(crate) fn code(&self) -> Option<i32> {
        self.0.status.code()
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }

    /// It succeeded; its words.
    pub(crate) fn ok(&self) -> String {
        assert_eq!(self.code(), Some(0), "{}{}", self.stdout(), self.stderr());
        self.stdout()
    }

    /// It succeeded and printed JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.ok()).expect("the output is JSON")
    }
}
