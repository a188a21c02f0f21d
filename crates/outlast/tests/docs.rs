//! What the pages in `docs` say about the sources is true: every test that is named exists,
//! every page is tested and can be found, every link leads somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The rows of the papers about the runtime and the worker.
const ROWS: [(&str, std::ops::RangeInclusive<u32>); 4] = [
    ("000", 1..=32),
    ("001", 1..=20),
    ("002", 1..=25),
    ("004", 1..=20),
];

#[test]
fn every_row_of_the_seeds_names_its_tests() {
    let rows = seed_rows();
    let found: Vec<&str> = rows.iter().map(|(row, _)| row.as_str()).collect();
    let once: BTreeSet<&str> = found.iter().copied().collect();
    assert_eq!(once.len(), found.len(), "a row is there twice: {found:?}");
    for (seed, mut rows) in ROWS {
        let is_there = |row: u32| once.contains(format!("{seed}-{row}").as_str());
        assert!(rows.all(is_there), "a row of {seed} is missing");
    }
    for (row, tests) in &rows {
        assert!(!tests.is_empty(), "{row} names no test");
    }
}

#[test]
fn every_test_that_the_seeds_name_is_in_its_file_once() {
    let rows = seed_rows();
    let known = all_tests();
    assert!(known.len() > 100, "tests are found");
    for (row, tests) in &rows {
        let mut before = BTreeSet::new();
        for test in tests {
            let found = known.iter().filter(|known| *known == test).count();
            assert_eq!(found, 1, "{row}: {test} must name one test");
            assert!(before.insert(test), "{row}: {test} is named twice");
        }
    }
}

#[test]
fn every_page_of_the_guide_is_in_its_index_and_in_the_tests() {
    let index = read(&guide().join("README.md"));
    let tested = read(&root().join("crates/outlast/src/guide.rs"));
    for page in pages() {
        if page == "README.md" {
            continue;
        }
        assert!(index.contains(&format!("({page})")), "no link to {page}");
        assert!(tested.contains(&format!("/{page}\"")), "{page} is untested");
    }
}

#[test]
fn every_page_of_the_guide_can_be_read_at_one_sitting() {
    for page in pages() {
        let lines = read(&guide().join(&page)).lines().count();
        assert!(lines <= 150, "{page} has {lines} lines");
    }
}

/// What the guide says of a choice of features, and how cargo is asked for it.
const FEATURES: [(&str, &[&str]); 8] = [
    ("| the default: `macros`, `sqlite` |", &[]),
    (
        "| `macros` alone |",
        &["--no-default-features", "--features", "macros"],
    ),
    (
        "| `sqlite` alone |",
        &["--no-default-features", "--features", "sqlite"],
    ),
    ("| `anyhow` |", &["--features", "anyhow"]),
    ("| `metrics` |", &["--features", "metrics"]),
    ("| `tracing` |", &["--features", "tracing"]),
    ("| `config` |", &["--features", "config"]),
    ("| `temporal` |", &["--features", "temporal"]),
];

#[test]
fn every_choice_of_features_brings_as_many_packages_as_the_guide_says() {
    let page = read(&guide().join("first-program.md"));
    let default = packages(&[]);
    let told = format!("{default} packages in all");
    assert!(read(&root().join("README.md")).contains(&told), "{told}");
    for (row, features) in FEATURES {
        let found = packages(features);
        let line = page.lines().find(|line| line.starts_with(row));
        let told = line.unwrap_or_else(|| panic!("no row {row}"));
        let number = if told.contains(" more |") {
            format!(" {} more |", found - default)
        } else {
            format!(" {found} |")
        };
        assert!(told[row.len()..].starts_with(&number), "{told}: {found}");
    }
}

/// How many packages cargo builds for a program with these features, Outlast's own included.
fn packages(features: &[&str]) -> usize {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root())
        .args(["tree", "--package", "outlast", "--edges", "normal,build"])
        .args(["--prefix", "none", "--format", "{p}"])
        .args(features)
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo tree: {errors}");
    let text = String::from_utf8_lossy(&output.stdout);
    let name_and_version = |line: &str| line.splitn(3, ' ').take(2).collect::<Vec<_>>().join(" ");
    let all: BTreeSet<String> = text.lines().map(name_and_version).collect();
    all.len()
}

#[test]
fn every_example_is_run_and_can_be_found() {
    let here = root().join("crates/outlast");
    let index = read(&guide().join("README.md"));
    let run = read(&here.join("tests/examples/main.rs"));
    let inside = read(&here.join("tests/examples/inside.rs"));
    let mut examples = Vec::new();
    collect(&here.join("examples"), "rs", &mut examples);
    assert!(examples.len() > 9, "examples are found");
    for example in examples {
        let name = example.file_stem().expect("it has a name");
        let name = name.to_string_lossy().into_owned();
        assert!(
            run.contains(&format!("prints(\"{name}\"")),
            "{name}: not run"
        );
        assert!(index.contains(&format!("/{name}.rs)")), "no link to {name}");
        let has_tests = read(&example).contains("#[cfg(test)]");
        let is_tested = inside.contains(&format!("mod {name};"));
        assert_eq!(has_tests, is_tested, "{name}: its tests do not run");
        assert!(has_tests || name == "hello", "{name} has no tests");
    }
}

#[test]
fn every_link_leads_to_a_file() {
    let mut found = 0;
    for page in markdown(&root()) {
        let folder = page.parent().expect("a page lies in a folder");
        for target in links(&read(&page)) {
            let path = target.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains("://") {
                continue;
            }
            found += 1;
            let is_there = folder.join(path).exists();
            assert!(is_there, "{}: {target} is not there", page.display());
        }
    }
    assert!(found > 10, "links are found");
}

/// Rows look like: | 000-3 | what it became | `crate/src/file.rs::test`, `crate/tests/file.rs::test` |
fn seed_rows() -> Vec<(String, Vec<String>)> {
    let text = read(&root().join("docs/seeds.md"));
    let is_row = |line: &&str| line.starts_with("| 00");
    let cells = text
        .lines()
        .filter(is_row)
        .map(|line| line.split(" | ").collect::<Vec<_>>());
    cells
        .map(|cells| {
            let row = cells[0].trim_start_matches("| ").to_owned();
            let tests = cells.last().copied().unwrap_or_default();
            let names = tests.split('`').skip(1).step_by(2);
            (row, names.map(str::to_owned).collect())
        })
        .collect()
}

/// All tests, `crate/tests/file.rs::name`: functions below an attribute that makes them one.
fn all_tests() -> Vec<String> {
    let (crates, mut sources) = (root().join("crates"), Vec::new());
    collect(&crates, "rs", &mut sources);
    let mut found = Vec::new();
    for source in sources {
        let path = source.strip_prefix(&crates).expect("below the crates");
        let names = tests_of(&read(&source)).into_iter();
        found.extend(names.map(|name| format!("{}::{name}", path.display())));
    }
    found
}

fn tests_of(text: &str) -> Vec<String> {
    let (mut is_test, mut found) = (false, Vec::new());
    for line in text.lines().map(str::trim_start) {
        let name = line.trim_start_matches("async ").strip_prefix("fn ");
        match name {
            Some(name) if is_test => {
                let end = name.find('(').unwrap_or(name.len());
                found.push(name[..end].to_owned());
                is_test = false;
            }
            Some(_) => {}
            None => {
                is_test |= ["#[test]", "#[outlast::test]"].contains(&line);
                is_test |= line.starts_with("#[tokio::test");
            }
        }
    }
    found
}

/// The targets of `[text](target)`.
fn links(text: &str) -> Vec<String> {
    let starts = text.match_indices("](");
    let targets = starts.filter_map(|(at, _)| text[at + 2..].split(')').next());
    targets.map(str::to_owned).collect()
}

fn pages() -> Vec<String> {
    let mut found = Vec::new();
    collect(&guide(), "md", &mut found);
    let name = |path: &PathBuf| path.file_name().map(|n| n.to_string_lossy().into_owned());
    found.iter().filter_map(name).collect()
}

/// The pages of the repository: those at its root, and all below `docs`.
fn markdown(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(&root.join("docs"), "md", &mut found);
    let entries = fs::read_dir(root).expect("the repository has a root");
    let paths = entries.map(|entry| entry.expect("an entry of a folder").path());
    found.extend(paths.filter(|path| path.extension().is_some_and(|e| e == "md")));
    found
}

fn collect(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("an entry of a folder").path();
        if path.is_dir() {
            collect(&path, ending, found);
        } else if path.extension().is_some_and(|e| e == ending) {
            found.push(path);
        }
    }
}

fn guide() -> PathBuf {
    root().join("docs/guide")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let above = here.ancestors().nth(2);
    above.expect("crates lie two below the root").to_path_buf()
}
