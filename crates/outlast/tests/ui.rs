//! Mistakes and what the compiler says about them: the messages are part of the API.
//!
//! The texts are those of one toolchain; with another one this test says nothing.

#[test]
fn mistakes_are_explained() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
