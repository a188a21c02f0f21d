//! `cargo xtask compare`: the same program with Outlast and with the official Rust SDK, on the
//! same server, in turns. Both have the defaults of their makers. Prints medians of ratios, and
//! fails where Outlast falls behind; also prints Outlast on SQLite against Outlast on the server.

use std::process::Command;

use crate::step::{Output, cargo};
use crate::temporal::Server;
use crate::versus::median;

/// Rounds; the median of their ratios counts.
const ROUNDS: usize = 5;
/// What Outlast must reach of the official SDK's rate.
const LEAST: f64 = 0.95;
/// Seconds of one measurement.
const SECONDS: &str = "6";
/// Clients at a time.
const CONCURRENCY: [&str; 2] = ["1", "200"];
/// The other side; not a member of the workspace.
const PEER: &str = "peers/temporal-sdk/Cargo.toml";

/// Runs both sides in turns.
pub(crate) fn run() -> Result<(), String> {
    let server = Server::find()?.ok_or("the comparison needs a Temporal server")?;
    let ours = ["build", "--release", "--quiet", "--features", "temporal"];
    cargo(&ours, &[], Output::Shown)?;
    let folder = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into());
    let theirs = ["build", "--release", "--quiet", "--manifest-path", PEER];
    let theirs = [&theirs[..], &["--target-dir", &folder]].concat();
    cargo(&theirs, &[], Output::Shown)?;
    let url = format!("temporal://{}/default", server.address());
    let ratios = CONCURRENCY.map(|concurrency| compare(&server, &url, concurrency));
    let mut behind = Vec::new();
    for (concurrency, ratio) in CONCURRENCY.into_iter().zip(ratios) {
        let ratio = ratio?;
        if ratio < LEAST {
            behind.push(format!("{ratio:.2} with {concurrency} in flight"));
        }
    }
    if behind.is_empty() {
        return Ok(());
    }
    Err(format!("below {LEAST}: {}", behind.join(", ")))
}

/// The median over the rounds of our rate in relation to theirs.
fn compare(server: &Server, url: &str, concurrency: &str) -> Result<f64, String> {
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        let both = both(server, url, concurrency)?;
        println!(
            "{concurrency} in flight, round {round}: Outlast {:.1}/s, official SDK {:.1}/s",
            both.ours, both.theirs
        );
        ratios.push(both.ours / both.theirs);
        rates.push(both.ours);
    }
    let embedded = measured(&target("outlast"), &bench(&["--concurrency", concurrency]))?;
    let ratio = median(ratios);
    println!(
        "{concurrency} in flight: Outlast / official SDK = {ratio:.2}; embedded / cluster = {:.0}",
        embedded / median(rates)
    );
    Ok(ratio)
}

/// Workflows a second of one round.
struct Both {
    ours: f64,
    theirs: f64,
}

/// One round: ours, theirs, theirs, ours. A machine that becomes slower or faster meanwhile, and a
/// server that becomes slower the more it remembers, do the same to both.
fn both(server: &Server, url: &str, concurrency: &str) -> Result<Both, String> {
    let ours = bench(&["--store", url, "--concurrency", concurrency]);
    let ours = || measured(&target("outlast"), &ours);
    let theirs = [server.address(), concurrency, SECONDS];
    let theirs = || measured(&target("peer-temporal-sdk"), &theirs);
    let (first, second) = (ours()?, theirs()?);
    let (third, fourth) = (theirs()?, ours()?);
    Ok(Both {
        ours: f64::midpoint(first, fourth),
        theirs: f64::midpoint(second, third),
    })
}

fn bench<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let common = ["bench", "--json", "--only", "one_activity", "--rounds", "1"];
    [&common[..], &["--seconds", SECONDS], more].concat()
}

fn target(name: &str) -> String {
    let dir = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into());
    format!("{dir}/release/{name}")
}

/// Workflows per second, from the JSON line that the program prints.
fn measured(program: &str, args: &[&str]) -> Result<f64, String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|e| format!("{program}: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program} {}: {why}", args.join(" ")));
    }
    per_second(&text).ok_or_else(|| format!("{program} did not print per_second: {text}"))
}

fn per_second(text: &str) -> Option<f64> {
    let (_, rest) = text.split_once("\"per_second\":")?;
    rest.split([',', '}']).next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_found_wherever_it_stands() {
        assert_eq!(
            per_second("{\"a\":1,\"per_second\":12.5,\"b\":2}"),
            Some(12.5)
        );
        assert_eq!(per_second("{\"per_second\":3}"), Some(3.0));
        assert_eq!(per_second("{}"), None);
    }

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        assert!((median(vec![9.0, 1.0, 5.0]) - 5.0).abs() < f64::EPSILON);
    }
}
