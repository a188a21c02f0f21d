//! `cargo xtask power`: the power-cut suite at a chosen size, its progress as it goes, its verdict as
//! the last line. A complaint of the suite names the arguments that build that one disk again.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use crate::plan;
use crate::step::Knob;
use crate::suites;

/// What the command line says, as the suite is told.
const OPTIONS: [(&str, &str); 5] = [
    ("--images", IMAGES),
    ("--seed", "OUTLAST_POWER_SEED"),
    ("--scenario", "OUTLAST_POWER_SCENARIO"),
    ("--cut", "OUTLAST_POWER_CUT"),
    ("--throw", "OUTLAST_POWER_THROW"),
];
const IMAGES: &str = "OUTLAST_POWER_IMAGES";
/// So many disks if nothing is said.
const USUAL: &str = "20000";

pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let knobs = knobs(words)?;
    let (suites, _) = suites::build(&[plan::POWER, plan::PROFILE].concat(), &[])?;
    let suite = suites.first().ok_or("the suite was not built")?;
    let mut command = suite.command();
    let child = command
        .args(["--exact", "no_power_cut_loses_anything", "--nocapture"])
        .envs(plan::TESTING.iter().map(|knob| (knob.0, knob.1)))
        .envs(knobs.iter().map(|knob| (knob.0, knob.1)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // What it complains of is on the other output as well, without the panics meant to be.
        .stderr(Stdio::null())
        .spawn();
    let child = child.map_err(|e| format!("{}: {e}", suite.name))?;
    let (verdict, is_done) = follow(child)?;
    println!("{verdict}");
    if is_done { Ok(()) } else { Err(String::new()) }
}

/// Says what the suite says, and keeps its verdict for the end.
fn follow(mut child: Child) -> Result<(String, bool), String> {
    let output = child.stdout.take().ok_or("its output is lost")?;
    let mut verdict = "verdict: none, the suite did not come to its end".to_owned();
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|e| e.to_string())?;
        if line.starts_with("verdict:") {
            verdict = line;
        } else if !is_of_the_harness(&line) {
            println!("{line}");
        }
    }
    let status = child.wait().map_err(|e| e.to_string())?;
    Ok((verdict, status.success()))
}

fn is_of_the_harness(line: &str) -> bool {
    let begins = ["running ", "test ", "failures:", "    no_power_cut"];
    line.is_empty() || begins.iter().any(|begin| line.starts_with(begin))
}

fn knobs<'a>(words: &[&'a str]) -> Result<Vec<Knob<'a>>, String> {
    let mut knobs = vec![Knob(IMAGES, USUAL)];
    for pair in words.chunks(2) {
        let &[word, value] = pair else {
            return Err(format!("{} needs a value", pair.join(" ")));
        };
        let known = OPTIONS.iter().find(|(option, _)| *option == word);
        let (_, name) = known.ok_or_else(|| format!("power does not know {word}"))?;
        if word != "--scenario" && value.parse::<u64>().is_err() {
            return Err(format!("{word} {value:?} is not a number"));
        }
        knobs.push(Knob(name, value));
    }
    Ok(knobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_command_line_says_is_told_to_the_suite() {
        let told = |words: &[&str]| {
            let knobs = knobs(words)?;
            let told = knobs.iter().map(|knob| format!("{}={}", knob.0, knob.1));
            Ok::<_, String>(told.collect::<Vec<_>>().join(" "))
        };
        assert_eq!(told(&[]).as_deref(), Ok("OUTLAST_POWER_IMAGES=20000"));
        assert_eq!(
            told(&["--scenario", "a backup", "--cut", "7"]).as_deref(),
            Ok("OUTLAST_POWER_IMAGES=20000 OUTLAST_POWER_SCENARIO=a backup OUTLAST_POWER_CUT=7")
        );
        for wrong in [&["--images"][..], &["--images", "many"], &["--disks", "7"]] {
            assert!(told(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn lines_of_the_harness_are_left_out() {
        for line in ["", "running 1 test", "test result: ok. 1 passed"] {
            assert!(is_of_the_harness(line), "{line}");
        }
        assert!(!is_of_the_harness("power: 1 of 146 scenarios"));
    }
}
