//! Pages are made where examples are run: cargo calls rustdoc for the examples of each library and
//! names everything that was built for it; we stand in for rustdoc, and the real one runs the
//! examples and then makes the pages, warnings denied. `cargo doc` would first check every
//! dependency once more, the SDK core too, which takes longer than building all of our own.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use crate::step::{Knob, exit_code, succeeds, this_program, toolchain_program};

/// Cargo's word for a program that stands in for rustdoc.
const STAND_IN: &str = "RUSTDOC";
/// Tells us that we are called as rustdoc, and where the real one is.
const REAL: &str = "OUTLAST_XTASK_RUSTDOC";
/// Where the pages are.
const PAGES: &str = "target/xtask/doc";
/// What is said of examples: each a word and, where `true`, one more.
const OF_EXAMPLES: [(&str, bool); 3] = [
    ("--test", false),
    ("--test-run-directory", true),
    ("--test-args", true),
];

/// The real rustdoc and who stands in for it.
pub(crate) struct Scribe {
    real: String,
    stand_in: String,
}

impl Scribe {
    pub(crate) fn find() -> Result<Self, String> {
        let real = toolchain_program("rustdoc").ok_or("rustdoc is not installed")?;
        let stand_in = this_program()?;
        Ok(Self { real, stand_in })
    }

    /// What cargo is told, with what it is told anyway.
    pub(crate) fn with<'a>(&'a self, knobs: &[Knob<'a>]) -> Vec<Knob<'a>> {
        let mine = [Knob(STAND_IN, &self.stand_in), Knob(REAL, &self.real)];
        mine.into_iter().chain(knobs.iter().copied()).collect()
    }
}

/// Does what rustdoc is asked for, if we are called as rustdoc.
pub(crate) fn stand_in() -> Option<ExitCode> {
    let real = std::env::var_os(REAL)?;
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let has_examples = args.iter().any(|arg| arg == "--test");
    let is_done = succeeds(Command::new(&real).args(&args))
        && (!has_examples || succeeds(Command::new(&real).args(for_pages(args))));
    Some(exit_code(is_done))
}

/// The same call for pages instead of examples.
fn for_pages(args: Vec<OsString>) -> Vec<OsString> {
    let mut pages = Vec::new();
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        match OF_EXAMPLES.iter().find(|(word, _)| arg == *word) {
            Some((_, true)) => drop(args.next()),
            Some((_, false)) => {}
            None => pages.push(arg),
        }
    }
    pages.extend(["--deny", "warnings", "--out-dir", PAGES].map(OsString::from));
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_made_with_all_that_examples_are_not_about() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let asked = "--crate-name outlast --test src/lib.rs --test-run-directory here --test-args a \
             --extern serde=libserde.rlib";
        let wanted = format!(
            "--crate-name outlast src/lib.rs --extern serde=libserde.rlib \
             --deny warnings --out-dir {PAGES}"
        );
        assert_eq!(for_pages(words(asked)), words(&wanted));
    }
}
