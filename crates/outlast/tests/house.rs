//! The rules of the house, as tests: what ARCHITECTURE.md says about the crates is true, and
//! what CONTRIBUTING.md asks for is held where no lint can look.
//!
//! Plain text over plain sources: no parser, no dependency. It relies on the sources being
//! formatted, which `cargo xtask test` checks first.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates that hold rules: no clock, no threads, no hash order, no catch-all arms.
const RULES: [&str; 3] = ["outlast-model", "outlast-engine", "outlast-runtime"];

/// The one crate with unsafe code, in one file: it stands below SQLite in tests and is not
/// published. Its lints are those of the workspace but for this word.
const UNSAFE: &str = "outlast-vfs";
const UNSAFE_FILE: &str = "crates/outlast-vfs/src/raw.rs";

/// Lines of a file, its inline tests not counted.
const FILE_LINES: usize = 900;
/// Code lines of a function.
const FUNCTION_LINES: usize = 80;
/// What 95 of 100 functions stay below.
const FUNCTION_LINES_USUAL: usize = 40;

/// Functions over the limit, with their length: they may shrink, never grow. Only an exhaustive
/// `match` belongs here.
const LONG_FUNCTIONS: &[(&str, &str, usize)] = &[];

/// Words that do not belong into sources, and what to do instead.
const BANNED: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "decide, or open an issue"),
    (concat!("FIX", "ME"), "fix it, or open an issue"),
    (concat!("/ro", "ot/"), "no paths of one machine"),
];

#[test]
fn the_crates_depend_on_each_other_as_the_architecture_says() {
    for row in crate_table() {
        let reached = tree(&row.name, &["--depth", "1"]);
        let (ours, others): (BTreeSet<String>, BTreeSet<String>) = reached
            .into_iter()
            .filter(|n| *n != row.name)
            .partition(|n| n.starts_with("outlast"));
        assert_eq!(
            ours, row.ours,
            "{} sees other crates of ours than its row says",
            row.name
        );
        assert_eq!(
            others, row.others,
            "{} brings in other crates than its row says",
            row.name
        );
    }
}

#[test]
fn every_crate_has_its_row() {
    let rows: BTreeSet<String> = crate_table().into_iter().map(|row| row.name).collect();
    let folders: BTreeSet<String> = crates().iter().map(|path| file_name(path)).collect();
    assert_eq!(rows, folders);
}

#[test]
fn the_rules_reach_nothing_unexpected() {
    let text = architecture();
    let line = text
        .lines()
        .find(|line| line.starts_with("The rules reach:"));
    let allowed = quoted(line.expect("ARCHITECTURE.md says what the rules reach"));
    for name in RULES {
        for reached in tree(name, &[]).iter().filter(|n| !n.starts_with("outlast")) {
            assert!(allowed.contains(reached), "{name} reaches {reached}");
        }
    }
}

#[test]
fn every_file_the_architecture_names_exists() {
    let text = architecture();
    let names = quoted(&text)
        .into_iter()
        .chain(text.split_whitespace().map(str::to_owned));
    let files: BTreeSet<String> = names.filter(|n| is_source_path(n)).collect();
    assert!(files.len() > 10, "the path of a request names its files");
    for file in files {
        assert!(
            root().join("crates").join(&file).exists(),
            "ARCHITECTURE.md names {file}"
        );
    }
}

#[test]
fn no_rule_has_a_catch_all_arm() {
    let mut broken = Vec::new();
    for source in RULES.iter().flat_map(|name| sources_of(name)) {
        for (number, line) in source.product_lines() {
            let line = line.trim_start();
            if ["_ =>", "_ if ", "(_, _)"]
                .iter()
                .any(|arm| line.starts_with(arm))
            {
                broken.push(format!("{}: name the variants", source.place(number)));
            }
        }
    }
    none(&broken);
}

#[test]
fn files_stay_short() {
    let mut broken = Vec::new();
    for source in crates()
        .iter()
        .flat_map(|path| sources_of(&file_name(path)))
    {
        let lines = source.product_lines().count();
        if lines > FILE_LINES {
            broken.push(format!(
                "{}: {lines} lines, split it",
                source.path.display()
            ));
        }
    }
    none(&broken);
}

#[test]
fn functions_stay_short() {
    let (mut broken, mut lengths) = (Vec::new(), Vec::new());
    for source in crates()
        .iter()
        .flat_map(|path| sources_of(&file_name(path)))
    {
        for function in source.functions() {
            broken.extend(too_long(&source, &function));
            lengths.push(function.lines);
        }
    }
    lengths.sort_unstable();
    let usual = lengths.get(lengths.len() * 95 / 100).copied().unwrap_or(0);
    if usual > FUNCTION_LINES_USUAL {
        broken.push(format!("5 of 100 functions have {usual} lines or more"));
    }
    none(&broken);
}

fn too_long(source: &Source, function: &Function) -> Option<String> {
    let allowed = LONG_FUNCTIONS
        .iter()
        .find(|(file, name, _)| source.path.ends_with(file) && *name == function.name)
        .map_or(FUNCTION_LINES, |(_, _, lines)| *lines);
    let (place, name, lines) = (source.place(function.at), &function.name, function.lines);
    let is_long = lines > allowed;
    is_long.then(|| format!("{place}: {name} has {lines} lines of code, {allowed} are allowed"))
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent = all_sources()
        .into_iter()
        .filter(|source| !source.text.starts_with("//! "));
    let broken: Vec<String> = silent
        .map(|source| format!("{} has no //!", source.path.display()))
        .collect();
    none(&broken);
}

#[test]
fn no_source_has_banned_words_or_foreign_letters() {
    let mut broken = Vec::new();
    for source in all_sources() {
        for (number, line) in (1..).zip(source.text.lines()) {
            if !line.is_ascii() {
                broken.push(format!("{}: only ASCII in sources", source.place(number)));
            }
            for (word, instead) in BANNED.iter().filter(|(word, _)| line.contains(word)) {
                broken.push(format!("{}: {word:?}: {instead}", source.place(number)));
            }
        }
    }
    none(&broken);
}

/// Codes are given in the arms of `fn code`: whoever looks one up must find one meaning.
#[test]
fn no_code_means_two_things() {
    let (mut known, mut broken) = (BTreeSet::new(), Vec::new());
    for source in all_sources() {
        for (number, line) in (1..).zip(source.text.lines()) {
            let arm = ["=> \"OL-", "=> (\"OL-"]
                .iter()
                .find_map(|arm| line.split_once(arm));
            let Some((_, code)) = arm else { continue };
            if !known.insert(code[..4].to_owned()) {
                let place = source.place(number);
                broken.push(format!("{place}: OL-{} means something else", &code[..4]));
            }
        }
    }
    assert!(known.len() > 50, "codes are found");
    none(&broken);
}

/// The measure is measured: a blind one would pass everything.
#[test]
fn a_function_counts_its_code_and_nothing_else() {
    let text = "//! Doc.\n\npub(crate) async fn first() {\n    // Why.\n\n    one();\n    two();\n}\n\n\
                trait T {\n    fn bodiless(&self);\n    fn second(\n        &self,\n    ) {\n        x();\n    }\n}\n\
                \n#[cfg(test)]\nmod tests {\n    fn unseen() {}\n}\n";
    let source = Source {
        path: "crates/a/src/b.rs".into(),
        text: text.into(),
    };
    let found: Vec<(String, usize, usize)> = source
        .functions()
        .into_iter()
        .map(|f| (f.name, f.at, f.lines))
        .collect();
    let expected = [("first", 3, 3), ("bodiless", 11, 0), ("second", 12, 4)];
    assert_eq!(
        found,
        expected.map(|(name, at, lines)| (name.to_owned(), at, lines))
    );
}

/// All at once: whoever tidies up wants the whole list.
fn none(broken: &[String]) {
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let xtask = root().join("xtask");
    for path in crates().iter().chain([&xtask]) {
        if file_name(path) == UNSAFE {
            continue;
        }
        let manifest = read(&path.join("Cargo.toml"));
        let has_lints = manifest.contains("[lints]\nworkspace = true");
        assert!(
            has_lints,
            "{} has no `[lints] workspace = true`",
            path.display()
        );
    }
}

#[test]
fn one_file_of_one_crate_may_be_unsafe() {
    let workspace = read(&root().join("Cargo.toml")).replace("[workspace.lints", "[lints");
    let (_, lints) = workspace.split_once("[lints.rust]").expect("lints");
    let (lints, _) = lints.split_once("[profile").expect("profiles behind lints");
    let relaxed = lints.replace("unsafe_code = \"forbid\"", "unsafe_code = \"deny\"");
    assert_ne!(relaxed, lints, "unsafe code is forbidden everywhere else");
    let manifest = read(&root().join("crates").join(UNSAFE).join("Cargo.toml"));
    let (_, own) = manifest.split_once("[lints.rust]").expect("its own lints");
    assert_eq!(own.trim(), relaxed.trim(), "{UNSAFE} has other lints");
    assert!(manifest.contains("publish = false"));
    let word = concat!("uns", "afe");
    for source in sources_of(UNSAFE) {
        let has_it = source.text.lines().filter(|l| is_code(l)).any(|line| {
            let code = line.split("//").next().unwrap_or_default();
            code.contains(&format!("{word} {{")) || code.contains(&format!("{word} fn"))
        });
        let may = source.path == Path::new(UNSAFE_FILE);
        assert_eq!(has_it, may, "{}", source.path.display());
    }
}

/// A crate's clippy.toml replaces the root's: what is shared must be repeated.
#[test]
fn the_shared_keys_of_clippy_agree() {
    let shared = keys(&read(&root().join("clippy.toml")));
    assert!(!shared.is_empty());
    for path in crates()
        .iter()
        .map(|path| path.join("clippy.toml"))
        .filter(|path| path.exists())
    {
        let own = keys(&read(&path));
        assert!(
            shared.is_subset(&own),
            "{} lacks a key of the root's",
            path.display()
        );
    }
    for name in RULES {
        let own = read(&root().join("crates").join(name).join("clippy.toml"));
        let first = read(&root().join("crates").join(RULES[0]).join("clippy.toml"));
        assert_eq!(own, first, "{name}: the walls are the same for all rules");
    }
}

fn keys(text: &str) -> BTreeSet<String> {
    let is_key = |line: &&str| line.contains(" = ") && !line.starts_with([' ', '#']);
    text.lines()
        .filter(is_key)
        .filter(|l| !l.ends_with('['))
        .map(str::to_owned)
        .collect()
}

/// One row of the table of crates.
struct Row {
    name: String,
    ours: BTreeSet<String>,
    others: BTreeSet<String>,
}

/// Rows look like: | `name` | sentence | `ours` | `others` |
fn crate_table() -> Vec<Row> {
    let text = architecture();
    let rows = text.lines().filter(|line| line.starts_with("| `outlast"));
    let cells = rows.map(|line| line.split('|').collect::<Vec<_>>());
    let row = |cells: Vec<&str>| Row {
        name: quoted(cells[1])
            .into_iter()
            .next()
            .expect("a row names its crate"),
        ours: quoted(cells[3]).into_iter().collect(),
        others: quoted(cells[4]).into_iter().collect(),
    };
    cells.map(row).collect()
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

fn is_source_path(word: &str) -> bool {
    word.starts_with("outlast") && word.contains("/src/") && word.ends_with(".rs")
}

/// The packages that a crate links, by cargo's own account; what only runs at build time is out.
fn tree(name: &str, more: &[&str]) -> BTreeSet<String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root())
        .args(["tree", "--all-features", "--edges", "normal,no-proc-macro"])
        .args(["--prefix", "none", "--format", "{p}", "--package", name])
        .args(more)
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo tree: {errors}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect()
}

/// One source file.
struct Source {
    path: PathBuf,
    text: String,
}

struct Function {
    name: String,
    at: usize,
    lines: usize,
}

impl Source {
    /// Lines with their numbers, up to the inline tests; none of a file that is all tests.
    fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let parts = self.path.components().map(|part| part.as_os_str());
        let is_tests = parts
            .into_iter()
            .any(|part| part == "tests" || part == "tests.rs");
        let end = self
            .text
            .find("\n#[cfg(test)]\nmod ")
            .unwrap_or(self.text.len());
        let product = if is_tests { "" } else { &self.text[..end] };
        (1..).zip(product.lines())
    }

    /// Functions by indentation: a body ends where a brace stands below its `fn`.
    fn functions(&self) -> Vec<Function> {
        let lines: Vec<(usize, &str)> = self.product_lines().collect();
        let mut found = Vec::new();
        for (index, (at, line)) in lines.iter().enumerate() {
            let Some((indent, name)) = function_head(line) else {
                continue;
            };
            let end = format!("{}}}", " ".repeat(indent));
            let body = lines[index..].iter().map(|(_, line)| *line);
            let body: Vec<&str> = body
                .take_while(|l| *l != end && !is_bodiless(l, indent))
                .collect();
            let lines = body.iter().filter(|line| is_code(line)).count();
            found.push(Function {
                name,
                at: *at,
                lines,
            });
        }
        found
    }

    fn place(&self, line: usize) -> String {
        format!("{}:{line}", self.path.display())
    }
}

fn function_head(line: &str) -> Option<(usize, String)> {
    let text = line.trim_start();
    let indent = line.len() - text.len();
    let words = ["pub ", "pub(crate) ", "pub(super) ", "const ", "async "];
    let mut rest = text;
    while let Some(shorter) = words.iter().find_map(|word| rest.strip_prefix(word)) {
        rest = shorter;
    }
    let name = rest.strip_prefix("fn ")?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    Some((indent, name[..end].to_owned()))
}

/// A declaration in a trait ends in a semicolon at the indentation of its `fn`.
fn is_bodiless(line: &str, indent: usize) -> bool {
    let own = line.len() - line.trim_start().len();
    own == indent && line.ends_with(';')
}

fn is_code(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with("//")
}

/// Every source of ours but the programs that must not compile.
fn all_sources() -> Vec<Source> {
    let mut found = Vec::new();
    for folder in ["crates", "xtask"] {
        collect(&root().join(folder), &mut found);
    }
    found
}

fn sources_of(name: &str) -> Vec<Source> {
    let mut found = Vec::new();
    collect(&root().join("crates").join(name).join("src"), &mut found);
    found
}

fn collect(folder: &Path, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("an entry of a folder").path();
        if path.is_dir() {
            if !["ui", "target"].contains(&file_name(&path).as_str()) {
                collect(&path, found);
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = read(&path);
            let path = path
                .strip_prefix(root())
                .expect("below the root")
                .to_path_buf();
            found.push(Source { path, text });
        }
    }
}

fn crates() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("crates")).expect("there are crates");
    let paths = entries.map(|entry| entry.expect("an entry of a folder").path());
    paths
        .filter(|path| path.join("Cargo.toml").exists())
        .collect()
}

fn architecture() -> String {
    read(&root().join("ARCHITECTURE.md"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned()
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("crates lie two below the root")
        .to_path_buf()
}
