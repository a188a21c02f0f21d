//! The guide and the README, as tests: every Rust block in them compiles and runs.
//!
//! Compiled by `cargo test --doc` only; a page that is missing here fails a test of the house.

macro_rules! pages {
    ($($page:ident: $file:literal)*) => {
        $(
            #[doc = include_str!($file)]
            #[derive(Debug)]
            pub struct $page;
        )*
    };
}

pages! {
    Readme: "../../../README.md"
    ChildrenAndOtherRuns: "../../../docs/guide/children-and-other-runs.md"
    Combinators: "../../../docs/guide/combinators.md"
    ContinueAsNew: "../../../docs/guide/continue-as-new.md"
    FirstProgram: "../../../docs/guide/first-program.md"
    HandlerEnds: "../../../docs/guide/handler-ends.md"
    Interceptors: "../../../docs/guide/interceptors.md"
    OnATemporalCluster: "../../../docs/guide/on-a-temporal-cluster.md"
    Observing: "../../../docs/guide/observing.md"
    PatchesAndReplay: "../../../docs/guide/patches-and-replay.md"
    Promises: "../../../docs/guide/promises.md"
    Queries: "../../../docs/guide/queries.md"
    RetriesAndTimeLimits: "../../../docs/guide/retries-and-time-limits.md"
    Settings: "../../../docs/guide/settings.md"
    Signals: "../../../docs/guide/signals.md"
    StartingRuns: "../../../docs/guide/starting-runs.md"
    StatefulWorkflows: "../../../docs/guide/stateful-workflows.md"
    Stopping: "../../../docs/guide/stopping.md"
    StructuredConcurrency: "../../../docs/guide/structured-concurrency.md"
    Testing: "../../../docs/guide/testing.md"
    TheFile: "../../../docs/guide/the-file.md"
    Undoing: "../../../docs/guide/undoing.md"
    Updates: "../../../docs/guide/updates.md"
    WaitingOnState: "../../../docs/guide/waiting-on-state.md"
    WorkflowsAndSteps: "../../../docs/guide/workflows-and-steps.md"
}
