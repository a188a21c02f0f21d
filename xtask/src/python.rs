//! A Python with the official Temporal SDK, for the suite of other languages.
//!
//! In this order: the one that `OUTLAST_TEST_PYTHON` names, the one that an earlier run made, and
//! where Python is installed one that is made now, once, in a cache outside the checkout. Without
//! any of these the suite says that it is skipped; on a build machine that is a failure.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::temporal::{cache, is_build_machine};

/// Where the suite looks for it.
pub(crate) const PYTHON: &str = "OUTLAST_TEST_PYTHON";

/// The SDK.
const PACKAGE: &str = "temporalio==1.35.0";
/// The folder of the cache; named after the package's version.
const FOLDER: &str = "python-temporalio-1.35.0";

/// Finds or makes one. `None`: there is none, and that is no failure here.
pub(crate) fn find() -> Result<Option<String>, String> {
    if let Ok(given) = std::env::var(PYTHON) {
        println!("== Python: {given} ({PYTHON})");
        return Ok(Some(given));
    }
    match made() {
        Ok(python) => {
            println!("== Python: {} (ours)", python.display());
            Ok(Some(python.display().to_string()))
        }
        Err(why) if is_build_machine() => Err(format!("== Python: FAILED\n{why}")),
        Err(why) => {
            println!("== Python: none, the suite of other languages is SKIPPED: {why}");
            Ok(None)
        }
    }
}

fn made() -> Result<PathBuf, String> {
    let folder = cache()?.join(FOLDER);
    let python = folder.join("bin/python");
    if !has_sdk(&python) {
        println!("== Python: making {}, once", folder.display());
        // One that was cut short is made anew.
        run(Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&folder))?;
        let install = ["-m", "pip", "install", "--quiet", PACKAGE];
        run(Command::new(&python).args(install))?;
    }
    Ok(python)
}

fn has_sdk(python: &Path) -> bool {
    let probe = Command::new(python)
        .args(["-c", "import temporalio.worker"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    probe.is_ok_and(|status| status.success())
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|e| format!("{}: {e}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = text.lines().rev().take(3).collect();
    Err(format!("{command:?}: {}", last.join("\n")))
}
