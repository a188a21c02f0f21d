//! One suite, several backends: the same programs, each with the lines it must print, on SQLite
//! with all instances in memory, on SQLite with none, and on a real Temporal server.
//!
//! A scenario gets an application and says what happened, line by line; it cannot tell where it
//! runs. Times are real and short. `OUTLAST_TEST_TEMPORAL=host:port` names the server; without
//! it those tests say that they are skipped, and `cargo xtask test` sees to it that there is one.

mod bench;
mod calls;
mod cancel;
mod chains;
mod combine;
mod family;
mod messages;
mod patches;
mod states;
mod steps;
#[path = "../support/mod.rs"]
mod support;
#[cfg(feature = "temporal")]
mod temporal_server;

use bench::scenarios;

scenarios! {
    calls: activity_and_result = ["Hello, Rust!"],
    calls: errors_with_their_type = ["declined: 4000", "terminal, 1 attempt"],
    calls: retries_until_it_works = ["third time"],
    calls: retries_run_out = ["busy after 3"],
    calls: an_attempt_out_of_time = ["timeout"],
    calls: a_silent_attempt_is_tried_again = ["found 7"],
    calls: blocking_code = ["42"],
    calls: panics_are_failures = ["caught"],
    calls: undone_in_reverse = ["refunded b", "refunded a", "failed: no stock"],
    calls: time_and_chance_are_kept = ["same"],
    calls: large_values = ["200000"],
    combine: all_of_many = ["sum 2225"],
    combine: the_first_failure_ends_a_try_join = ["unlucky"],
    combine: whatever_fails_is_settled = ["0 2 x 6"],
    combine: the_first_of_several = ["branch 1"],
    combine: declaration_order_decides = ["first"],
    combine: the_first_that_works = ["4"],
    combine: the_first_three = ["3"],
    combine: a_limit_on_anything = ["call late", "block late"],
    combine: so_many_at_a_time = ["0 2 4 6 8 10 12 14"],
    combine: chunk_by_chunk = ["3 chunks of 10"],
    combine: branches_and_their_scope = ["30", "unlucky, 2 cancelled"],
    combine: locks_and_channels = ["10 from 4"],
    messages: pulled_in_order = ["one,two,three"],
    messages: sent_before_anybody_waits = ["early"],
    messages: a_start_with_a_signal = ["hello", "hello again"],
    messages: the_same_request_counts_once = ["1"],
    messages: a_query_of_an_open_and_an_ended_run = ["1", "2", "2"],
    messages: a_query_that_nobody_answers = ["refused"],
    messages: an_update_is_answered = ["1", "2"],
    messages: an_update_is_rejected = ["rejected: empty", "0 kept"],
    messages: an_update_that_takes_its_time = ["accepted", "done: tea"],
    messages: an_update_that_fails = ["no room", "ended"],
    messages: an_update_with_a_start = ["1", "2", "same run"],
    messages: the_same_update_is_done_once = ["1", "1"],
    messages: built_in_questions = ["stack", "state 1", "handlers"],
    messages: whatever_comes = ["a:1 b:2"],
    states: conditions_wait_for_handlers = ["paid for 2"],
    states: a_condition_with_a_limit = ["left"],
    states: handlers_finish_or_are_left = ["a glass of cider", "left behind"],
    cancel: at_a_timer = ["cancelled"],
    cancel: at_an_activity = ["cancelled"],
    cancel: at_an_activity_that_cleans_up = ["cancelled"],
    cancel: at_an_abandoned_activity = ["cancelled"],
    cancel: at_a_signal = ["cancelled"],
    cancel: at_a_step = ["cancelled"],
    cancel: at_a_branch = ["cancelled"],
    cancel: cleaning_up_in_a_shield = ["tidied", "cancelled"],
    cancel: ignoring_it = ["done anyway"],
    cancel: one_call_only = ["cancelled true", "went on"],
    cancel: terminated = ["terminated"],
    family: children_and_their_errors = ["4", "3 is odd", "2"],
    family: an_id_that_is_taken = ["taken"],
    family: what_becomes_of_them = ["terminated", "cancelled", "running"],
    family: how_a_child_is_cancelled = ["wait: true", "try: true", "abandon: true"],
    family: signals_to_another = ["one,two,three", "nobody there"],
    family: signals_to_a_child = ["from its parent"],
    family: asks_another_to_stop = ["told", "cancelled"],
    family: settled_from_outside = ["approved by Kari", "rejected: no source"],
    family: settled_twice = ["refused"] on a cluster ["ignored"],
    family: settled_by_token = ["true"],
    family: by_name_and_json = ["{\"half\":4}"],
    chains: a_chain_has_one_result = ["15", "Completed"],
    chains: unread_signals_go_on = ["321"],
    chains: as_another_workflow = ["99"],
    chains: a_childs_chain = ["6"],
    chains: an_id_again = ["refused", "same", "anew"],
    chains: attached_by_id = ["told", "told"],
    steps: a_step_is_recorded = ["42"],
    steps: a_step_is_tried_again = ["4"],
    steps: a_step_gives_up = ["invalid digit"],
    steps: many_steps = ["191"],
    steps: a_step_out_of_time = ["late"],
    patches: a_new_run_takes_the_new_side = ["new"],
    patches: a_patch_in_a_loop = ["new new new"],
    patches: a_patch_no_longer_asked_for = ["new"],
}
