//! The programs with our tests: built all at once, then run one by one, as cargo would run them.
//!
//! Not by cargo, which would wait for every other cargo that builds meanwhile.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::step::{Knob, Output, cargo_program, merged, run};

/// A program with tests.
#[derive(Debug, PartialEq)]
pub(crate) struct Suite {
    /// Of the package and the target.
    pub(crate) name: String,
    program: PathBuf,
    /// Where it runs.
    package: PathBuf,
}

/// Builds them.
pub(crate) fn build(args: &[&str], knobs: &[Knob<'_>]) -> Result<(Vec<Suite>, Duration), String> {
    println!("== build");
    let begin = Instant::now();
    let built = Command::new(cargo_program())
        .args(args)
        .arg("--message-format=json-render-diagnostics")
        .envs(merged(&[], knobs).iter().map(|knob| (knob.0, knob.1)))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output();
    let built = built.map_err(|e| format!("cargo: {e}"))?;
    if !built.status.success() {
        return Err(format!("== build: FAILED\ncargo {}", args.join(" ")));
    }
    let suites = listed(&String::from_utf8_lossy(&built.stdout));
    let time = begin.elapsed();
    println!(
        "== build: ok, {} suites, {:.1} s",
        suites.len(),
        time.as_secs_f64()
    );
    Ok((suites, time))
}

/// What cargo says it made.
fn listed(messages: &str) -> Vec<Suite> {
    let messages = messages.lines();
    messages
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter_map(|message: Value| {
            let is_test = message["profile"]["test"].as_bool()?;
            let program = message["executable"].as_str().filter(|_| is_test)?;
            let manifest = Path::new(message["manifest_path"].as_str()?);
            let package = manifest.parent()?;
            let target = message["target"]["name"].as_str()?;
            Some(Suite {
                name: format!("{}/{target}", package.file_name()?.display()),
                program: program.into(),
                package: package.into(),
            })
        })
        .collect()
}

impl Suite {
    /// Runs its tests.
    pub(crate) fn run(&self, knobs: &[Knob<'_>], log: &Path) -> Result<(), String> {
        let log = std::path::absolute(log).map_err(|e| e.to_string())?;
        run(&mut self.command(), &self.name, knobs, Output::Kept(&log))
    }

    /// Its program, as cargo would run it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // Compile-fail programs get the features that cargo's records say of a program with this
        // name: of none they get the default, and not the SDK core, checked once more.
        command
            .arg0(self.program.with_file_name("suite"))
            .current_dir(&self.package)
            .env("CARGO", cargo_program())
            .env("CARGO_MANIFEST_DIR", &self.package)
            .env("LD_LIBRARY_PATH", libraries());
        command
    }
}

/// Where the compiler's own libraries are: tests of procedural macros are linked to them.
fn libraries() -> PathBuf {
    let asked = Command::new("rustc")
        .args(["--print", "target-libdir"])
        .output();
    let told = asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    told.unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_with_tests_are_suites() {
        let message = |is_test: bool, program: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/o/crates/model/Cargo.toml",
                "target":{{"name":"it"}},"profile":{{"test":{is_test}}},"executable":{program}}}"#
            )
            .replace('\n', " ")
        };
        let messages = [
            message(true, "\"/o/target/it-1\""),
            message(false, "\"/o/target/outlast\""),
            message(true, "null"),
            r#"{"reason":"build-finished","success":true}"#.into(),
        ];
        let suite = Suite {
            name: "model/it".into(),
            program: "/o/target/it-1".into(),
            package: "/o/crates/model".into(),
        };
        assert_eq!(listed(&messages.join("\n")), [suite]);
    }
}
