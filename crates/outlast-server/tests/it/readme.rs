//! The program in the README is the example that is compiled.

fn read(path: &str) -> String {
    let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("the file is there")
}

/// Without layout: a page and a formatter break lines differently.
fn letters(code: &str) -> String {
    code.chars().filter(|c| !c.is_whitespace()).collect()
}

#[test]
fn the_program_of_the_readme_is_the_hello_example_in_15_lines() {
    let readme = read("README.md");
    let program = readme
        .split("```rust")
        .nth(1)
        .and_then(|rest| rest.split_once('\n'))
        .and_then(|(_, rest)| rest.split("```").next());
    let program = program.expect("the README has a program");
    let example = read("crates/outlast/examples/hello.rs");
    let code: Vec<&str> = example
        .lines()
        .filter(|line| !line.starts_with("//!") && !line.starts_with("#!["))
        .collect();
    assert_eq!(letters(program), letters(&code.join("\n")));
    assert_eq!(program.lines().filter(|line| !line.is_empty()).count(), 15);
}
