//! The table of misuse: what each program does, how its run may stand when its judge is content, and
//! what the reason has to name.

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its code cannot go on: its description and `why` say so.
    Blocked,
    /// It has failed.
    Failed,
    /// It has a result.
    Completed,
    /// It waits: `why` says for what. Somebody has to end it.
    Open,
}

/// What is said to it when it runs.
#[derive(Clone, Copy, Debug)]
pub enum Say {
    Nothing,
    Signal(&'static str),
    Query(&'static str),
    Update(&'static str),
    Cancel,
    /// First the one, then a signal that lets it end.
    QueryAndGo(&'static str),
    UpdateAndGo(&'static str),
    SignalAndGo(&'static str),
    /// Another kind of input than it takes.
    WrongInput,
}

/// One kind of misuse.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub name: &'static str,
    /// The registered workflow.
    pub workflow: &'static str,
    pub say: Say,
    pub ends: &'static [End],
    /// All of it stands in the reason; of one that may also complete, if it did not.
    pub names: &'static [&'static str],
    /// Whether it keeps a thread of an engine: those cost a second each.
    pub strands: bool,
}

use End::{Blocked, Completed, Failed, Open};
use Say::{
    Cancel, Nothing, Query, QueryAndGo, Signal, SignalAndGo, Update, UpdateAndGo, WrongInput,
};

const STUCK: &[&str] = &["stuck.rs:"];
const PANICS: &[&str] = &["panics.rs:"];
const FOREIGN: &[&str] = &["foreign.rs:"];
const MISUSE: &[&str] = &["misuse.rs:"];

/// Code that keeps its thread, or never lets its slice end.
const fn stuck(workflow: &'static str) -> Kind {
    Kind {
        strands: true,
        ..kind(workflow, Nothing, &[Blocked], STUCK)
    }
}

const fn stuck_when(name: &'static str, workflow: &'static str, say: Say) -> Kind {
    Kind {
        name,
        strands: true,
        ..kind(workflow, say, &[Blocked], &["stuck"])
    }
}

const fn kind(
    workflow: &'static str,
    say: Say,
    ends: &'static [End],
    names: &'static [&'static str],
) -> Kind {
    Kind {
        name: workflow,
        workflow,
        say,
        ends,
        names,
        strands: false,
    }
}

const fn named(name: &'static str, of: Kind) -> Kind {
    Kind { name, ..of }
}

/// All kinds.
pub const ALL: &[Kind] = &[
    stuck("spins"),
    stuck("waits_at_a_gate"),
    stuck("parks_its_thread"),
    stuck("blocks_in_a_branch"),
    stuck("yields_for_ever"),
    stuck("wakes_itself"),
    stuck("branches_wake_each_other"),
    stuck("spawns_without_end"),
    stuck("selects_without_progress"),
    stuck("destructor_blocks"),
    stuck("destructor_spins"),
    Kind {
        ends: &[Open],
        ..stuck("destructor_blocks_when_it_is_evicted")
    },
    stuck("blocks_on_a_future"),
    stuck("Doubter"),
    stuck_when("handler_blocks", "Clerk", Signal("blocks")),
    Kind {
        ends: &[Open, Blocked],
        names: &["query `spins`", "has not come back"],
        ..stuck_when("query_spins", "Clerk", Query("spins"))
    },
    stuck_when("validator_blocks", "Clerk", Update("change")),
    kind("panics_in_main", Nothing, &[Blocked], PANICS),
    kind("panics_in_a_branch", Nothing, &[Blocked], PANICS),
    kind("panics_in_a_shield", Nothing, &[Blocked], PANICS),
    kind("panics_in_a_destructor", Nothing, &[Blocked], PANICS),
    kind("panics_when_it_is_evicted", Nothing, &[Open], PANICS),
    kind("panics_in_an_undo", Nothing, &[Open], &["panics_always"]),
    kind(
        "panics_in_an_activity",
        Nothing,
        &[Failed],
        &["broke in an activity"],
    ),
    kind(
        "panics_in_a_blocking_activity",
        Nothing,
        &[Failed],
        &["broke on a thread"],
    ),
    kind("panics_in_a_step", Nothing, &[Failed], &["broke in a step"]),
    kind(
        "panics_in_an_error",
        Nothing,
        &[Blocked, Failed],
        &["broke while it was told"],
    ),
    kind(
        "returns_what_cannot_be_written",
        Nothing,
        &[Blocked, Failed],
        &["cannot be written"],
    ),
    kind("Nervous", Nothing, &[Failed], &["broke in a condition"]),
    named(
        "panics_in_a_handler",
        kind(
            "Fragile",
            Signal("breaks"),
            &[Blocked],
            &["broke in a handler"],
        ),
    ),
    named(
        "panics_in_a_query",
        kind(
            "Fragile",
            QueryAndGo("ask"),
            &[Completed],
            &["broke in a query"],
        ),
    ),
    named(
        "panics_in_a_validator",
        kind(
            "Fragile",
            UpdateAndGo("change"),
            &[Completed],
            &["broke in a validator"],
        ),
    ),
    named(
        "panics_in_an_update",
        kind(
            "Fragile",
            Update("worsen"),
            &[Blocked],
            &["broke in an update"],
        ),
    ),
    kind("sleeps_with_tokio", Nothing, &[Blocked], FOREIGN),
    kind("spawns_with_tokio", Nothing, &[Blocked], FOREIGN),
    kind("listens_with_tokio", Nothing, &[Blocked], FOREIGN),
    kind("blocks_on_with_tokio", Nothing, &[Blocked], FOREIGN),
    kind("waits_for_a_foreign_channel", Nothing, &[Blocked], FOREIGN),
    kind("is_woken_from_outside", Nothing, &[Blocked], FOREIGN),
    kind("leaves_its_waker_behind", Nothing, &[Completed], &[]),
    kind(
        "polls_a_call_of_another_run",
        Nothing,
        &[Completed, Blocked],
        FOREIGN,
    ),
    kind(
        "calls_in_the_order_of_a_map",
        Nothing,
        &[Completed, Blocked],
        FOREIGN,
    ),
    kind(
        "looks_at_the_clock",
        Nothing,
        &[Completed, Blocked],
        FOREIGN,
    ),
    kind("waits_for_nothing", Nothing, &[Blocked], MISUSE),
    kind("deadlocks_itself", Nothing, &[Blocked], MISUSE),
    kind("continues_from_a_branch", Nothing, &[Blocked], MISUSE),
    kind("says_too_much", Nothing, &[Blocked, Failed], MISUSE),
    kind("nests_branches", Nothing, &[Completed], &[]),
    kind("storms_itself", Nothing, &[Completed], &[]),
    kind("is_its_own_child", Nothing, &[Completed], &[]),
    kind("forgets_a_call", Nothing, &[Completed], &[]),
    kind("forgets_a_scope", Nothing, &[Completed], &[]),
    kind("drops_everything", Nothing, &[Completed], &[]),
    kind(
        "calls_nobody",
        Nothing,
        &[Blocked],
        &["nobody_has_this", "misuse.rs:"],
    ),
    kind("says_the_wrong_thing", Nothing, &[Failed], &["add"]),
    kind("ignores_that_it_was_cancelled", Cancel, &[Completed], &[]),
    named(
        "has_the_wrong_input",
        kind(
            "nests_branches",
            WrongInput,
            &[Blocked, Failed],
            &["nests_branches"],
        ),
    ),
    named(
        "leaves_a_handler_behind",
        kind(
            "Sloppy",
            SignalAndGo("never_ends"),
            &[Completed],
            &["never_ends"],
        ),
    ),
    kind(
        "acts_in_a_validator",
        UpdateAndGo("change"),
        &[Completed],
        MISUSE,
    ),
    kind("has_a_deaf_thread", Signal("go"), &[Completed], &[]),
    kind("has_a_deaf_task", Signal("go"), &[Completed], &[]),
    kind("has_an_endless_task", Signal("go"), &[Completed], &[]),
    kind("has_a_deaf_step", Signal("go"), &[Completed], &[]),
    kind(
        "waits_for_a_thread",
        Nothing,
        &[Open],
        &["waits_on_its_thread"],
    ),
    kind(
        "blocks_in_an_async_activity",
        Nothing,
        &[Failed],
        &["activity blocks_on", "without `async`"],
    ),
    kind(
        "leaves_tasks_of_an_activity_behind",
        Nothing,
        &[Completed],
        &[],
    ),
];
