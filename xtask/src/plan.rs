//! What `cargo xtask test` does, in order: cheap and telling first.
//!
//! To add a suite, add a line to [`TEST`]. A suite whose length can be chosen reads an
//! environment variable; its values go to [`USUAL`] (bound by the time of a whole test run) and
//! to [`FULL`] (bound by patience).

use crate::licence;
use crate::step::{Action, Knob, Skip, Step, cargo};

/// Every feature but `temporal`: whatever has that one links the whole SDK core.
const EMBEDDED: &str = "outlast/anyhow,outlast/metrics,outlast/tracing,outlast/config,\
    outlast/planted,outlast-model/simd,outlast-service/conformance";

/// A snapshot that differs fails; nothing is written beside it. Tests panic by the hundred on
/// purpose, and a backtrace of a debug build takes a second: for one, run its test alone.
const TESTING: &[Knob<'static>] = &[Knob("INSTA_UPDATE", "no"), Knob("RUST_BACKTRACE", "0")];

/// Every change must pass these.
pub(crate) const TEST: &[Step<'static>] = &[
    Step {
        name: "format",
        action: Action::Cargo(&["fmt", "--all", "--check"]),
        env: &[],
    },
    Step {
        name: "licences",
        action: Action::Check(licence::check),
        env: &[],
    },
    Step {
        name: "lints",
        action: Action::Cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ]),
        env: &[],
    },
    Step {
        name: "rules without std",
        action: Action::Check(build_without_std),
        env: &[],
    },
    Step {
        name: "no store driver",
        action: Action::Cargo(&[
            "check",
            "--quiet",
            "-p",
            "outlast-service",
            "--no-default-features",
        ]),
        env: &[],
    },
    Step {
        name: "bare facade",
        action: Action::Cargo(&["check", "--quiet", "-p", "outlast", "--no-default-features"]),
        env: &[],
    },
    Step {
        name: "interleavings",
        // A target folder of its own: the flag makes everything anew.
        action: Action::Cargo(&[
            "test",
            "--quiet",
            "--target-dir",
            "target/shuttle",
            "-p",
            "outlast-service",
            "-p",
            "outlast-runtime",
            "--no-default-features",
            "--features",
            "outlast-service/planted",
            "--lib",
            "--",
            "interleavings",
        ]),
        env: &[Knob("RUSTFLAGS", "--cfg shuttle")],
    },
    Step {
        name: "docs",
        action: Action::Cargo(&[
            "doc",
            "--workspace",
            "--all-features",
            "--no-deps",
            "--quiet",
        ]),
        env: &[Knob("RUSTDOCFLAGS", "-D warnings")],
    },
    Step {
        name: "tests",
        action: Action::Cargo(&[
            "test",
            "--workspace",
            "--exclude",
            "outlast-temporal",
            "--features",
            EMBEDDED,
        ]),
        env: TESTING,
    },
    Step {
        name: "temporal",
        // One command, so that all of it is built with the same features of the SDK core.
        action: Action::Cargo(&[
            "test",
            "-p",
            "outlast-temporal",
            "-p",
            "outlast",
            "-p",
            "outlast-server",
            "--all-features",
            "--lib",
            "--test",
            "backends",
            "--test",
            "cluster",
            "--test",
            "languages",
        ]),
        env: TESTING,
    },
];

/// The suites that kill processes and break stores, alone.
pub(crate) const TORTURE: &[Step<'static>] = &[Step {
    name: "torture",
    action: Action::Cargo(&[
        "test",
        "-p",
        "outlast",
        "-p",
        "outlast-server",
        "--features",
        EMBEDDED,
    ]),
    env: &[],
}];

/// How long the suites with a knob run in a usual test run.
pub(crate) const USUAL: &[Knob<'static>] = &[
    Knob("OUTLAST_SIM_SEEDS", "10000"),
    Knob("OUTLAST_PROGRAMS", "20000"),
    Knob("OUTLAST_ORDERS", "1500"),
    Knob("OUTLAST_KILLS", "1000"),
    Knob("OUTLAST_STOPS", "1000"),
    Knob("OUTLAST_CLUSTER_KILLS", "20"),
];

/// How long they run when time does not matter.
pub(crate) const FULL: &[Knob<'static>] = &[
    Knob("OUTLAST_SIM_SEEDS", "100000"),
    Knob("OUTLAST_PROGRAMS", "500000"),
    Knob("OUTLAST_ORDERS", "50000"),
    Knob("OUTLAST_KILLS", "10000"),
    Knob("OUTLAST_STOPS", "10000"),
    Knob("OUTLAST_CLUSTER_KILLS", "200"),
];

/// One simulated run under a given seed, told in full.
pub(crate) fn sim() -> Step<'static> {
    Step {
        name: "simulation",
        action: Action::Cargo(&[
            "test",
            "-p",
            "outlast",
            "--features",
            EMBEDDED,
            "--test",
            "simulation",
            "--",
            "--nocapture",
        ]),
        env: &[],
    }
}

/// One random program, printed and run in every way.
pub(crate) fn program() -> Step<'static> {
    Step {
        name: "program",
        action: Action::Cargo(&[
            "test",
            "-p",
            "outlast",
            "--features",
            EMBEDDED,
            "--test",
            "programs",
            "live_is",
            "--",
            "--nocapture",
        ]),
        env: &[],
    }
}

/// Rewrites everything that is compared with a stored text. Golden records are only ever added.
pub(crate) fn bless<'a>(rest: &'a [&'a str]) -> Step<'a> {
    Step {
        name: "bless",
        action: Action::CargoWith(
            &["test", "--workspace", "--all-features", "--no-fail-fast"],
            rest,
        ),
        env: &[
            Knob("INSTA_UPDATE", "always"),
            Knob("TRYBUILD", "overwrite"),
            Knob("OUTLAST_BLESS", "1"),
        ],
    }
}

/// Targets on which a dependency that brings std in does not compile.
const WITHOUT_STD: [&str; 3] = [
    "x86_64-unknown-none",
    "aarch64-unknown-none",
    "thumbv7em-none-eabi",
];

/// Toolchains cannot be downloaded everywhere, so this takes a target only if it is there.
fn build_without_std() -> Result<(), Skip> {
    let installed = std::process::Command::new("rustup")
        .args(["target", "list", "--installed"])
        .output();
    let installed = installed.map_err(|_| Skip::NotHere("no rustup"))?;
    let installed = String::from_utf8_lossy(&installed.stdout).into_owned();
    let found = WITHOUT_STD
        .into_iter()
        .find(|t| installed.lines().any(|line| line == *t));
    let Some(target) = found else {
        return Err(Skip::NotHere("no target without std is installed"));
    };
    let args = [
        "check",
        "--quiet",
        "-p",
        "outlast-model",
        "-p",
        "outlast-engine",
        "--target",
        target,
    ];
    cargo(&args, &[]).map_err(Skip::Failed)
}
