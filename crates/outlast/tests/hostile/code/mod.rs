//! The programs, by what they do wrong.

pub mod attempts;
pub mod foreign;
pub mod healthy;
pub mod misuse;
pub mod panics;
pub mod stuck;

use outlast::testing::TestEnv;

/// All of them.
pub fn register(env: TestEnv) -> TestEnv {
    let env = healthy::register(env);
    let env = stuck::register(panics::register(env));
    attempts::register(foreign::register(misuse::register(env)))
}
