//! What `cargo xtask test` does: [`FIRST`], cheap and telling; then [`BUILD`], all programs with
//! tests; then these programs, beside them [`CHECKS`] and [`INTERLEAVINGS`], three things at a time.
//!
//! To add a suite, write a test. One whose length can be chosen reads an environment variable; its
//! values go to [`USUAL`] (bound by the time of a whole test run) and to [`FULL`] (bound by
//! patience).

use crate::licence;
use crate::step::{Action, Knob, Output, Skip, Step, cargo};

/// Every feature but `temporal`, which brings the whole SDK core.
const EMBEDDED: &str = "outlast/anyhow,outlast/metrics,outlast/tracing,outlast/config,\
    outlast/planted,outlast-model/simd,outlast-service/conformance";

/// A snapshot that differs fails; nothing is written beside it. Tests panic by the hundred on
/// purpose, and a backtrace of a debug build takes a second: for one, run its test alone.
pub(crate) const TESTING: &[Knob<'static>] =
    &[Knob("INSTA_UPDATE", "no"), Knob("RUST_BACKTRACE", "0")];

/// On a build machine everything is built once, and nothing is kept to build it again.
pub(crate) const ONCE: &[Knob<'static>] = &[Knob("CARGO_INCREMENTAL", "0")];

/// What needs no build.
pub(crate) const FIRST: &[Step<'static>] = &[
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
];

/// The programs with tests, and examples. What is ours is linted as it is built ([`crate::lint`]).
pub(crate) const BUILD: &[&str] = &["test", "--workspace", "--all-features", "--no-run"];

/// How [`BUILD`] and what uses its crates differ from a plain build. Lines in backtraces, which
/// [`TESTING`] turns off, are left out; the rules and the service, which simulations run a million
/// times, are optimised, and what writes and reads their records: that costs half of what it saves
/// here, but who changes one line of them would only wait.
pub(crate) const PROFILE: &[&str] = &[
    "--config",
    "profile.dev.debug=false",
    "--config",
    "profile.dev.package.outlast-model.opt-level=1",
    "--config",
    "profile.dev.package.outlast-engine.opt-level=1",
    "--config",
    "profile.dev.package.outlast-runtime.opt-level=1",
    "--config",
    "profile.dev.package.outlast-service.opt-level=1",
    "--config",
    "profile.dev.package.crc32fast.opt-level=1",
    "--config",
    "profile.dev.package.minicbor.opt-level=1",
    "--config",
    "profile.dev.package.serde_core.opt-level=1",
    "--config",
    "profile.dev.package.serde_json.opt-level=1",
    "--config",
    "profile.dev.package.siphasher.opt-level=1",
];

/// Those that take longest: they begin first, so that nothing waits for them in the end.
pub(crate) const LONGEST: &[&str] = &[
    "outlast/ui",
    "outlast/crash",
    "outlast/power",
    "outlast/hostile",
    "outlast-server/it",
    "outlast-worker/it",
    "outlast/shutdown",
    "outlast/backends",
    "outlast/simulation",
    "outlast/programs",
    "outlast/cluster",
    "outlast-engine/any_input",
];

/// Suites that mostly wait: they begin at once, beside the others, and take no place of theirs.
pub(crate) const WAITING: &[&str] = &["outlast/counts"];

/// One after the other: cargo builds one thing at a time. Linted as well.
pub(crate) const CHECKS: &[Step<'static>] = &[
    Step {
        name: "rules without std",
        action: Action::Check(build_without_std),
        env: &[],
    },
    Step {
        name: "no default features",
        // The facade alone, and the service without a store's driver.
        action: Action::Cargo(&[
            "check",
            "--quiet",
            "-p",
            "outlast-service",
            "-p",
            "outlast",
            "--no-default-features",
        ]),
        env: &[],
    },
    Step {
        // Examples, and with them the pages of our libraries: see [`crate::docs`].
        name: "docs",
        action: Action::CargoWith(&["test", "--workspace", "--all-features", "--doc"], PROFILE),
        env: TESTING,
    },
];

/// The pages of everything, programs too: all dependencies are checked for it, which a usual run
/// has no time for.
pub(crate) const PAGES: Step<'static> = Step {
    name: "pages",
    action: Action::Cargo(&[
        "doc",
        "--workspace",
        "--all-features",
        "--no-deps",
        "--quiet",
    ]),
    env: &[Knob("RUSTDOCFLAGS", "-D warnings")],
};

/// The code that runs, with locks that try every order: see [`crate::shuttle`].
pub(crate) const INTERLEAVINGS: Step<'static> = Step {
    name: "interleavings",
    // The same dependencies as [`BUILD`]; but our own code is not worth optimising for it.
    action: Action::CargoWith(
        PROFILE,
        &[
            "--config",
            "profile.dev.package.outlast-model.opt-level=0",
            "--config",
            "profile.dev.package.outlast-engine.opt-level=0",
            "--config",
            "profile.dev.package.outlast-runtime.opt-level=0",
            "--config",
            "profile.dev.package.outlast-service.opt-level=0",
            "test",
            "--quiet",
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
        ],
    ),
    env: &[],
};

/// The suite of power cuts, built.
pub(crate) const POWER: &[&str] = &[
    "test",
    "-p",
    "outlast",
    "--features",
    EMBEDDED,
    "--test",
    "power",
    "--no-run",
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
    Knob("OUTLAST_POLL_SEEDS", "2000"),
    Knob("OUTLAST_PROGRAMS", "20000"),
    Knob("OUTLAST_UNDO_PROGRAMS", "2000"),
    Knob("OUTLAST_ORDERS", "1500"),
    Knob("OUTLAST_ATTEMPTS", "100000"),
    Knob("OUTLAST_KILLS", "1000"),
    Knob("OUTLAST_STOPS", "1000"),
    Knob("OUTLAST_CLUSTER_KILLS", "20"),
    Knob("OUTLAST_POWER_IMAGES", "20000"),
    Knob("OUTLAST_FAULTS", "100"),
    Knob("OUTLAST_HOSTILE", "1000"),
];

/// How long they run when time does not matter.
pub(crate) const FULL: &[Knob<'static>] = &[
    Knob("OUTLAST_SIM_SEEDS", "100000"),
    Knob("OUTLAST_POLL_SEEDS", "50000"),
    Knob("OUTLAST_PROGRAMS", "500000"),
    Knob("OUTLAST_UNDO_PROGRAMS", "50000"),
    Knob("OUTLAST_ORDERS", "50000"),
    Knob("OUTLAST_ATTEMPTS", "1000000"),
    Knob("OUTLAST_KILLS", "10000"),
    Knob("OUTLAST_STOPS", "10000"),
    Knob("OUTLAST_CLUSTER_KILLS", "200"),
    Knob("OUTLAST_POWER_IMAGES", "200000"),
    Knob("OUTLAST_FAULTS", "2000"),
    Knob("OUTLAST_HOSTILE", "20000"),
    Knob("OUTLAST_INSTRUCTIONS", "1"),
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
    cargo(&args, &[], Output::Shown).map_err(Skip::Failed)
}
