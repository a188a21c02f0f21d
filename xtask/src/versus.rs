//! `cargo xtask versus COMMIT [WORKLOAD ..]`: what the present tree costs beside another commit.
//!
//! The commit is built in a worktree of its own. Two kinds of figures follow. *Counts*: one small
//! program (`xtask/versus/probe.rs`) is built against both trees from the same source and says
//! allocations and commits of a one-activity workflow and of a wake-up; under callgrind, where there
//! is valgrind, instructions as well. They hardly depend on the machine, so they judge a change.
//! *Times*: workloads of `outlast bench`, both programs in turns, medians over the rounds; a shared
//! machine makes them noisy, so they are told and judge nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{Output, cargo, run as run_command};
use crate::temporal::runs;

/// Rounds of each workload of `bench`; in every round both programs run.
const ROUNDS: usize = 5;
/// Seconds of one round.
const SECONDS: &str = "1";
/// Workloads of `bench` unless others are named.
const WORKLOADS: [&str; 3] = ["one_activity", "sequential", "fan_out"];
/// What the probe counts.
const COUNTED: [&str; 2] = ["one_activity", "wake_up"];
/// Units of work in one window of the probe, and windows that only warm up.
const WINDOW: f64 = 100.0;
const WARM_UP: usize = 2;

/// One side of the comparison.
struct Side {
    tree: PathBuf,
    target: PathBuf,
    /// The probe's package.
    package: PathBuf,
}

/// What one unit of work costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cost {
    commits: f64,
    allocations: f64,
    instructions: Option<f64>,
}

/// Builds both sides and compares them.
pub(crate) fn run(commit: &str, workloads: &[&str]) -> Result<(), String> {
    let folder = absolute(&folder())?;
    let sides = [
        Side::of_commit(commit, &folder)?,
        Side::of_present(&folder)?,
    ];
    for side in &sides {
        side.build()?;
    }
    println!("{:<28} {:>12} {:>12} {:>7}", "", commit, "present", "ratio");
    for workload in COUNTED {
        let [then, now] = [sides[0].count(workload)?, sides[1].count(workload)?];
        tell(&format!("{workload}: commits"), then.commits, now.commits);
        let (before, after) = (then.allocations, now.allocations);
        tell(&format!("{workload}: allocations"), before, after);
        match (then.instructions, now.instructions) {
            (Some(before), Some(after)) => {
                tell(&format!("{workload}: instructions"), before, after);
            }
            (None, _) | (_, None) => println!("{workload}: no instructions, since no valgrind"),
        }
    }
    let chosen = if workloads.is_empty() {
        &WORKLOADS
    } else {
        workloads
    };
    for workload in chosen {
        times(&sides, workload)?;
    }
    Ok(())
}

impl Side {
    fn of_commit(commit: &str, folder: &Path) -> Result<Self, String> {
        let tree = folder.join(format!("tree-{commit}"));
        if !tree.join("Cargo.toml").is_file() {
            let mut git = Command::new("git");
            git.args(["worktree", "add", "--force", "--detach"]);
            git.arg(&tree).arg(commit);
            run_command(&mut git, "git worktree add", &[], Output::Shown)?;
        }
        Ok(Self {
            target: folder.join(format!("build-{commit}")),
            package: folder.join(format!("probe-{commit}")),
            tree,
        })
    }

    fn of_present(folder: &Path) -> Result<Self, String> {
        Ok(Self {
            tree: absolute(Path::new("."))?,
            target: folder.join("build-present"),
            package: folder.join("probe-present"),
        })
    }

    /// The program `outlast` and the probe, both optimised. The probe takes the versions of all
    /// dependencies from the tree it is built against.
    fn build(&self) -> Result<(), String> {
        let lost = |e: std::io::Error| format!("{}: {e}", self.package.display());
        std::fs::create_dir_all(&self.package).map_err(lost)?;
        let manifest = manifest(&self.tree.join("crates/outlast"));
        std::fs::write(self.package.join("Cargo.toml"), manifest).map_err(lost)?;
        for (from, to) in [
            (self.tree.join("Cargo.lock"), "Cargo.lock"),
            ("xtask/versus/probe.rs".into(), "main.rs"),
        ] {
            std::fs::copy(from, self.package.join(to)).map_err(lost)?;
        }
        for package in [&self.tree, &self.package] {
            let (manifest, target) = (package.join("Cargo.toml"), text(&self.target));
            let manifest = text(&manifest);
            let build = ["build", "--release", "--quiet", "--manifest-path", manifest];
            cargo(
                &[&build[..], &["--target-dir", target]].concat(),
                &[],
                Output::Shown,
            )?;
        }
        Ok(())
    }

    fn program(&self, name: &str) -> PathBuf {
        self.target.join("release").join(name)
    }

    /// Medians over the windows of the probe.
    fn count(&self, workload: &str) -> Result<Cost, String> {
        let file = self.scratch("count")?;
        let output = Command::new(self.program("versus-probe"))
            .arg(workload)
            .arg(file.join("probe.db"))
            .output()
            .map_err(|e| format!("the probe does not run: {e}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let (allocations, commits) = windows(&String::from_utf8_lossy(&output.stdout));
        Ok(Cost {
            commits: median(commits),
            allocations: median(allocations),
            instructions: self.instructions(workload)?,
        })
    }

    fn instructions(&self, workload: &str) -> Result<Option<f64>, String> {
        if !runs(Path::new("valgrind"), &["--version"]) {
            return Ok(None);
        }
        let folder = self.scratch("callgrind")?;
        let out = folder.join("out");
        // One core, or threads that watch for requests count as work.
        let mut valgrind = Command::new("taskset");
        valgrind
            .args(["-c", "0", "valgrind", "--tool=callgrind", "--quiet"])
            .arg("--dump-before=*window_edge*")
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(self.program("versus-probe"))
            .arg(workload)
            .arg(folder.join("probe.db"));
        let log = folder.join("log");
        run_command(&mut valgrind, "valgrind", &[], Output::Kept(&log))?;
        let parts = (WARM_UP + 1..).map(|part| out.with_extension(part.to_string()));
        let totals = parts.map_while(|part| std::fs::read_to_string(part).ok());
        let totals: Vec<f64> = totals.filter_map(|text| total(&text)).collect();
        if totals.is_empty() {
            return Err("callgrind wrote no totals".into());
        }
        Ok(Some(median(totals) / WINDOW))
    }

    /// An empty directory.
    fn scratch(&self, name: &str) -> Result<PathBuf, String> {
        let place = self.package.join(name);
        if place.exists() {
            std::fs::remove_dir_all(&place).map_err(|e| e.to_string())?;
        }
        std::fs::create_dir_all(&place).map_err(|e| e.to_string())?;
        Ok(place)
    }

    /// The lines of one round of `bench`: a name, workflows a second, p50 in microseconds.
    fn bench(&self, workload: &str) -> Result<Vec<(String, f64, f64)>, String> {
        let output = Command::new(self.program("outlast"))
            .args(["bench", "--json", "--rounds", "1", "--seconds", SECONDS])
            .args(["--only", workload, "--dir"])
            .arg(&self.package)
            .output()
            .map_err(|e| format!("bench does not run: {e}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().filter_map(bench_line).collect())
    }
}

/// Both sides in turns, and who begins changes: a machine that becomes slower does it to both.
fn times(sides: &[Side; 2], workload: &str) -> Result<(), String> {
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let (first, second) = (round % 2, (round + 1) % 2);
        let mut both = [Vec::new(), Vec::new()];
        both[first] = sides[first].bench(workload)?;
        both[second] = sides[second].bench(workload)?;
        rounds.push(both);
    }
    let Some([lines, _]) = rounds.first() else {
        return Ok(());
    };
    if lines.is_empty() {
        return Err(format!("bench knows no workload {workload}"));
    }
    for (index, (name, ..)) in lines.iter().enumerate() {
        let of = |side: usize, figure: fn(&(String, f64, f64)) -> f64| {
            let values = rounds.iter().filter_map(|both| both[side].get(index));
            median(values.map(figure).collect())
        };
        let (before, after) = (of(0, |line| line.1), of(1, |line| line.1));
        tell(&format!("{name}: per second"), before, after);
        let (before, after) = (of(0, |line| line.2), of(1, |line| line.2));
        tell(&format!("{name}: p50 us"), before, after);
    }
    Ok(())
}

fn tell(what: &str, before: f64, after: f64) {
    println!(
        "{what:<28} {before:>12.1} {after:>12.1} {:>7.3}",
        after / before
    );
}

fn manifest(outlast: &Path) -> String {
    format!(
        "[package]\nname = \"versus-probe\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [[bin]]\nname = \"versus-probe\"\npath = \"main.rs\"\n\n\
         [dependencies]\noutlast = {{ path = {:?} }}\nstats_alloc = \"0.1\"\n\
         tokio = {{ version = \"1\", features = [\"rt\", \"macros\"] }}\n\n\
         [profile.release]\nlto = \"thin\"\ncodegen-units = 4\ndebug = \"line-tables-only\"\n\n\
         [workspace]\n",
        text(outlast)
    )
}

/// Allocations and commits of each window, as the probe prints them.
fn windows(text: &str) -> (Vec<f64>, Vec<f64>) {
    let pair = |line: &str| {
        let (allocations, commits) = line.split_once(' ')?;
        Some((
            allocations.parse::<f64>().ok()?,
            commits.parse::<f64>().ok()?,
        ))
    };
    text.lines().filter_map(pair).unzip()
}

/// What callgrind counted in one part, all threads together.
fn total(text: &str) -> Option<f64> {
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("totals: "))?;
    total.trim().parse().ok()
}

fn bench_line(line: &str) -> Option<(String, f64, f64)> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    let figure = |name: &str| line.get(name)?.as_f64();
    let name = line.get("workload")?.as_str()?;
    let name = format!("{name} x {}", figure("concurrency")?);
    Some((name, figure("per_second")?, figure("p50_us")?))
}

fn folder() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    target.join("versus")
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::fs::create_dir_all(path).map_err(|e| format!("{}: {e}", path.display()))?;
    path.canonicalize()
        .map_err(|e| format!("{}: {e}", path.display()))
}

/// Paths of a checkout that cargo can be told.
fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_the_probe_are_read() {
        let (allocations, commits) = windows("10.5 2\nnoise\n11 2\n");
        assert_eq!(allocations, [10.5, 11.0]);
        assert_eq!(commits, [2.0, 2.0]);
    }

    #[test]
    fn a_part_of_callgrind_has_one_total() {
        assert_eq!(total("events: Ir\ntotals: 1234\n"), Some(1234.0));
        assert_eq!(total("events: Ir\n"), None);
    }

    #[test]
    fn a_line_of_the_benchmark_has_a_name_a_rate_and_a_time() {
        let line = r#"{"workload":"fan_out","concurrency":1,"per_second":5.0,"p50_us":7.5}"#;
        assert_eq!(bench_line(line), Some(("fan_out x 1".into(), 5.0, 7.5)));
        assert_eq!(bench_line("no json"), None);
    }
}
