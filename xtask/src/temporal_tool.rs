//! Builds the Temporal command line tool, server included, from the Go module proxy, once.
//!
//! What no test asks for is left out, because it is a fifth of the work: the archivers of two clouds
//! and the web pages. Their packages are replaced whole by those in `xtask/temporal`; nothing else of
//! the server or the tool is touched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use crate::temporal::ADDRESS;

/// The newest release of the command line tool that builds from the module proxy as it is.
const TOOL: (&str, &str) = ("github.com/temporalio/cli", "v1.5.1");
/// The server it carries.
const SERVER: (&str, &str) = ("go.temporal.io/server", "v1.29.1");
/// The folder of the cache; named after what was built, and how.
pub(crate) const FOLDER: &str = "temporal-cli-1.5.1-slim";
/// The oldest Go that builds it by downloading what newer toolchain it asks for.
const OLDEST_GO: (u32, u32) = (1, 21);

/// Where the tool's sources say that the server and the web pages are beside them.
const BESIDE: &str = "
replace go.temporal.io/server => ./server

replace github.com/temporalio/ui-server/v2 => ./ui
";

/// Archivers of the server that are emptied: package, scheme and the type of its settings.
const ARCHIVERS: [[&str; 3]; 2] = [
    ["gcloud", "gs", "GstorageArchiver"],
    ["s3store", "s3", "S3Archiver"],
];
/// What is in each of them then.
const ARCHIVER: &str = include_str!("../temporal/archiver.go");

/// Files that are written over or put beside.
const WRITTEN: [(&str, &str); 6] = [
    (
        "server/common/persistence/visibility/store/elasticsearch/client/aws.go",
        include_str!("../temporal/aws.go"),
    ),
    ("ui/go.mod", include_str!("../temporal/ui/go.mod")),
    (
        "ui/server/server.go",
        include_str!("../temporal/ui/server.go"),
    ),
    (
        "ui/server/config/config.go",
        include_str!("../temporal/ui/config.go"),
    ),
    (
        "ui/server/server_options/options.go",
        include_str!("../temporal/ui/server_options.go"),
    ),
    (
        "ui/server/version/version.go",
        include_str!("../temporal/ui/version.go"),
    ),
];

/// Builds it into `folder`, by way of a folder beside, so that a build that was cut short leaves
/// nothing that looks finished.
pub(crate) fn build(folder: &Path) -> Result<(), String> {
    check_go()?;
    let (name, version) = TOOL;
    println!("== Temporal server: building {name} {version}, once; this takes some minutes");
    let begin = Instant::now();
    let beside = folder.with_extension(format!("{}.part", std::process::id()));
    let sources = beside.join("sources");
    lay_out(&sources)?;
    compile(&sources, &beside.join("temporal"))?;
    remove(&sources)?;
    fs::rename(&beside, folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    println!(
        "== Temporal server: built, {:.0} s",
        begin.elapsed().as_secs_f64()
    );
    Ok(())
}

fn lay_out(sources: &Path) -> Result<(), String> {
    copy(&download(TOOL)?, sources)?;
    copy(&download(SERVER)?, &sources.join("server"))?;
    for [name, scheme, config] in ARCHIVERS {
        let package = sources.join("server/common/archiver").join(name);
        remove(&package)?;
        let text = ARCHIVER
            .replace("PACKAGE", name)
            .replace("SCHEME", scheme)
            .replace("CONFIG", config);
        write(&package.join("absent.go"), &text)?;
    }
    for (file, text) in WRITTEN {
        write(&sources.join(file), text)?;
    }
    let module = sources.join("go.mod");
    let text = fs::read_to_string(&module).map_err(|e| format!("{}: {e}", module.display()))?;
    write(&module, &(text + BESIDE))
}

/// Where the sources of a module are.
fn download((name, version): (&str, &str)) -> Result<PathBuf, String> {
    let mut command = Command::new("go");
    command
        .args(["mod", "download", "-json"])
        .arg(format!("{name}@{version}"))
        .current_dir(std::env::temp_dir());
    let told = output_of(&mut command)?;
    let told: Value = serde_json::from_str(&told).map_err(|e| format!("{name}: {e}"))?;
    let folder = told["Dir"].as_str().map(PathBuf::from);
    folder.ok_or_else(|| format!("go mod download says of {name} no folder"))
}

fn compile(sources: &Path, program: &Path) -> Result<(), String> {
    let mut command = Command::new("go");
    command
        .args(["build", "-o"])
        .arg(program)
        .arg("./cmd/temporal")
        .current_dir(sources)
        // What debuggers need is an eighth of the work.
        .env("GOFLAGS", "-ldflags=-s -gcflags=all=-dwarf=false -trimpath")
        // The compiler collects its garbage late: a sixth of the time, for memory that nobody else
        // wants.
        .env("GOGC", "400")
        .env("CGO_ENABLED", "0");
    output_of(&mut command).map(drop)
}

/// What a command prints; what it complains of, if it fails.
fn output_of(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let last: Vec<&str> = said.lines().rev().take(5).collect();
    Err(format!("{command:?}: {}", last.join("\n")))
}

/// Files of the module cache are read-only; these are not.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{} to {}: {e}", from.display(), to.display());
    fs::create_dir_all(to).map_err(failed)?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let to = to.join(entry.file_name());
        if entry.file_type().map_err(failed)?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            let bytes = fs::read(entry.path()).map_err(failed)?;
            fs::write(&to, bytes).map_err(failed)?;
        }
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    let made = file.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(file, text))
        .map_err(|e| format!("{}: {e}", file.display()))
}

fn remove(folder: &Path) -> Result<(), String> {
    fs::remove_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))
}

fn check_go() -> Result<(), String> {
    let need = format!(
        "it needs `temporal` in the PATH, {ADDRESS}=host:port, or Go {}.{} to build it",
        OLDEST_GO.0, OLDEST_GO.1
    );
    let output = Command::new("go").args(["env", "GOVERSION"]).output();
    let output = output.map_err(|_| format!("{need} (no go)"))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match go_version(&version) {
        Some(found) if found >= OLDEST_GO => Ok(()),
        Some(_) | None => Err(format!("{need} (found {version:?})")),
    }
}

/// `go1.26.8` as (1, 26).
fn go_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix("go")?.split(['.', '-', 'r', 'b']);
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next()?.parse().ok()?;
    Some((major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_go_are_read_as_go_prints_them() {
        assert_eq!(go_version("go1.26.8"), Some((1, 26)));
        assert_eq!(go_version("go1.21"), Some((1, 21)));
        assert_eq!(go_version("go1.22rc1"), Some((1, 22)));
        assert_eq!(go_version("devel +4a2b"), None);
    }

    #[test]
    fn a_go_that_is_too_old_is_older() {
        assert!(go_version("go1.20.14").is_some_and(|found| found < OLDEST_GO));
    }
}
