//! Whether every dependency may be used: its licence expression against the list in `deny.toml`.
//!
//! cargo-deny does this better where it is installed. Building it takes longer than all our
//! tests, so elsewhere this reads `cargo metadata` and evaluates the SPDX expressions itself.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::step::Skip;

/// Checks the licences of everything in the lock file that this machine would build.
pub(crate) fn check() -> Result<(), Skip> {
    if let Some(status) = cargo_deny() {
        return if status {
            Ok(())
        } else {
            Err(Skip::Failed("cargo deny says no".into()))
        };
    }
    built_in().map_err(Skip::Failed)
}

fn cargo_deny() -> Option<bool> {
    let probe = Command::new("cargo-deny")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    probe.ok().filter(std::process::ExitStatus::success)?;
    let status = Command::new("cargo-deny")
        .args(["check", "licenses", "bans", "sources"])
        .status();
    Some(status.is_ok_and(|s| s.success()))
}

fn built_in() -> Result<(), String> {
    let allowed = allowed(&read("deny.toml")?);
    if allowed.is_empty() {
        return Err("deny.toml has no list of allowed licences".into());
    }
    let metadata = metadata()?;
    let packages = metadata["packages"]
        .as_array()
        .ok_or("cargo metadata lists no packages")?;
    let refused: Vec<String> = packages
        .iter()
        .filter_map(|p| refusal(p, &allowed))
        .collect();
    if refused.is_empty() {
        println!("{} packages, all under an allowed licence", packages.len());
        return Ok(());
    }
    Err(refused.join("\n"))
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))
}

/// The strings of the list `allow = [ .. ]`.
fn allowed(deny: &str) -> Vec<String> {
    let lines = deny
        .lines()
        .skip_while(|line| !line.starts_with("allow = ["));
    let list = lines.skip(1).take_while(|line| !line.starts_with(']'));
    list.filter_map(|line| line.split('"').nth(1))
        .map(str::to_owned)
        .collect()
}

/// For this platform only: others' packages need not be downloaded.
fn metadata() -> Result<Value, String> {
    let version = output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or("rustc names no host")?;
    let args = [
        "metadata",
        "--locked",
        "--format-version",
        "1",
        "--all-features",
    ];
    let json = output(
        Command::new("cargo")
            .args(args)
            .args(["--filter-platform", host]),
    )?;
    serde_json::from_str(&json).map_err(|e| format!("cargo metadata: {e}"))
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn refusal(package: &Value, allowed: &[String]) -> Option<String> {
    let name = package["name"].as_str().unwrap_or("?");
    match package["license"].as_str() {
        None if has_mit_text(package) => None,
        None => Some(format!("{name}: names no licence")),
        Some(licence) if is_satisfied(licence, allowed) => None,
        Some(licence) => Some(format!("{name}: {licence} is not allowed by deny.toml")),
    }
}

/// Whether a package that names no licence brings the text of the MIT one.
fn has_mit_text(package: &Value) -> bool {
    let manifest = package["manifest_path"].as_str().map(std::path::Path::new);
    let file = package["license_file"].as_str();
    let (Some(folder), Some(file)) = (manifest.and_then(std::path::Path::parent), file) else {
        return false;
    };
    let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
    text.contains("Permission is hereby granted, free of charge")
        && text.contains("The above copyright notice and this permission notice shall be included")
}

/// Whether an SPDX expression can be met with the allowed licences alone.
fn is_satisfied(expression: &str, allowed: &[String]) -> bool {
    // Old manifests write a slash for OR.
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut reader = Reader {
        words: spaced.split_whitespace().collect(),
        at: 0,
        allowed,
    };
    let answer = reader.any();
    answer && reader.at == reader.words.len()
}

/// Reads `any = all {OR all}`, `all = one {AND one}`, `one = ( any ) | id [WITH exception]`.
struct Reader<'a> {
    words: Vec<&'a str>,
    at: usize,
    allowed: &'a [String],
}

impl<'a> Reader<'a> {
    fn any(&mut self) -> bool {
        let mut answer = self.all();
        while self.takes("OR") {
            answer |= self.all();
        }
        answer
    }

    fn all(&mut self) -> bool {
        let mut answer = self.one();
        while self.takes("AND") {
            answer &= self.one();
        }
        answer
    }

    fn one(&mut self) -> bool {
        if self.takes("(") {
            let answer = self.any();
            return self.takes(")") && answer;
        }
        let mut name = self.next().to_owned();
        if self.takes("WITH") {
            name = format!("{name} WITH {}", self.next());
        }
        self.allowed.contains(&name)
    }

    fn takes(&mut self, word: &str) -> bool {
        let is_next = self.words.get(self.at) == Some(&word);
        self.at += usize::from(is_next);
        is_next
    }

    fn next(&mut self) -> &'a str {
        let word = self.words.get(self.at).copied().unwrap_or_default();
        self.at += 1;
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_use(expression: &str) -> bool {
        let list = [
            "MIT",
            "Apache-2.0",
            "Apache-2.0 WITH LLVM-exception",
            "Unicode-3.0",
        ];
        is_satisfied(expression, &list.map(str::to_owned))
    }

    #[test]
    fn one_allowed_choice_is_enough() {
        assert!(may_use("MIT"));
        assert!(may_use("GPL-3.0 OR MIT"));
        assert!(may_use("MIT/Apache-2.0"));
        assert!(may_use("Apache-2.0 WITH LLVM-exception OR GPL-3.0"));
        assert!(!may_use("GPL-3.0"));
        assert!(!may_use("Apache-2.0 WITH Other-exception"));
    }

    #[test]
    fn every_part_of_a_conjunction_counts() {
        assert!(may_use("(MIT OR GPL-3.0) AND Unicode-3.0"));
        assert!(!may_use("MIT AND GPL-3.0"));
        assert!(!may_use("(MIT OR GPL-3.0) AND GPL-2.0"));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(!may_use(""));
        assert!(!may_use("(MIT"));
        assert!(!may_use("MIT MIT"));
        assert!(!may_use("OR MIT"));
    }

    #[test]
    fn the_list_is_read_from_its_own_table() {
        let deny = "x = [\n  \"no\",\n]\nallow = [\n    \"MIT\",\n    \"Zlib\",\n]\ny = \"no\"\n";
        assert_eq!(allowed(deny), ["MIT", "Zlib"]);
    }
}
