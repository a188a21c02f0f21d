//! Every limit by name: whoever changes one changes this line too, and thinks about stored runs.

use std::time::Duration;

use outlast_model::limits;

const MIB: usize = 1024 * 1024;

#[test]
fn a_payload_has_at_most_2_mib() {
    assert_eq!(limits::PAYLOAD_BYTES, 2 * MIB);
}

#[test]
fn headers_have_at_most_64_kib() {
    assert_eq!(limits::HEADERS_BYTES, 64 * 1024);
}

#[test]
fn a_commit_has_at_most_64_mib() {
    assert_eq!(limits::COMMIT_BYTES, 64 * MIB);
}

#[test]
fn a_run_has_at_most_20_000_pending_operations() {
    assert_eq!(limits::PENDING_OPERATIONS, 20_000);
}

#[test]
fn a_task_has_at_most_20_000_commands() {
    assert_eq!(limits::COMMANDS_PER_TASK, 20_000);
}

#[test]
fn continue_as_new_is_suggested_at_10_240_events() {
    assert_eq!(limits::HISTORY_SUGGEST_EVENTS, 10_240);
}

#[test]
fn a_history_has_at_most_a_million_events() {
    assert_eq!(limits::HISTORY_EVENTS, 1_000_000);
}

#[test]
fn a_history_has_at_most_1_gib() {
    assert_eq!(limits::HISTORY_BYTES, 1024 * 1024 * 1024);
}

#[test]
fn of_what_a_run_waits_for_without_an_event_8_are_kept() {
    assert_eq!(limits::RESTS, 8);
}

#[test]
fn a_run_has_at_most_50_000_branches_at_a_time() {
    assert_eq!(limits::BRANCHES, 50_000);
}

#[test]
fn a_workflow_type_is_blocked_when_8_threads_are_lost_in_its_code() {
    assert_eq!(limits::STRANDED_THREADS, 8);
}

#[test]
fn an_id_has_at_most_1_000_bytes() {
    assert_eq!(limits::ID_BYTES, 1_000);
}

#[test]
fn an_id_is_neither_empty_nor_long_nor_has_control_characters() {
    let longest = "x".repeat(limits::ID_BYTES);
    for good in ["a", "order/7 of today", "\u{fc}", &longest] {
        assert_eq!(limits::check_id(good), Ok(()), "{good:?}");
    }
    // Bytes count, not characters.
    let wide = "\u{fc}".repeat(501);
    for bad in ["", "a\nb", "\u{7f}", &format!("{longest}x"), &wide] {
        assert!(limits::check_id(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_sender_waits_at_10_000_uncommitted_stimuli() {
    assert_eq!(limits::UNCOMMITTED_STIMULI, 10_000);
}

#[test]
fn a_run_knows_2_000_updates_of_the_runs_before_it() {
    assert_eq!(limits::UPDATES_INHERITED, 2_000);
}

#[test]
fn a_run_remembers_2_000_requests_for_a_week() {
    assert_eq!(limits::REQUESTS_REMEMBERED, 2_000);
    assert_eq!(limits::REQUESTS_REMEMBERED_FOR, Duration::from_hours(168));
}

#[test]
fn unacknowledged_messages_send_a_closing_run_round_twice() {
    assert_eq!(limits::UNHANDLED_ROUNDS, 2);
}

#[test]
fn five_crashes_in_a_slice_quarantine_a_run() {
    assert_eq!(limits::SLICE_CRASHES, 5);
}

#[test]
fn a_failure_message_has_at_most_4_kib() {
    assert_eq!(limits::FAILURE_MESSAGE_BYTES, 4 * 1024);
}

#[test]
fn a_failure_trace_has_at_most_16_kib() {
    assert_eq!(limits::FAILURE_TRACE_BYTES, 16 * 1024);
}

#[test]
fn a_failure_has_at_most_10_links() {
    assert_eq!(limits::FAILURE_CAUSES, 10);
}

#[test]
fn a_reason_to_cancel_or_terminate_has_at_most_4_kib() {
    assert_eq!(limits::REASON_BYTES, 4 * 1024);
    let long = limits::reason("\u{fc}".repeat(4_096));
    assert!(long.len() <= 4 * 1024 && long.ends_with(" [cut]"), "{long}");
    assert_eq!(limits::reason(long.clone()), long);
}

#[test]
fn the_longest_delay_is_ten_years() {
    assert_eq!(limits::DELAY, Duration::from_secs(316_224_000));
}

#[test]
fn a_failing_task_first_pauses_a_second() {
    assert_eq!(limits::TASK_BACKOFF_FIRST, Duration::from_secs(1));
}

#[test]
fn a_failing_task_pauses_at_most_ten_minutes() {
    assert_eq!(limits::TASK_BACKOFF_MAX, Duration::from_mins(10));
}

#[test]
fn a_fast_slice_has_50_ms() {
    assert_eq!(limits::FAST_SLICE, Duration::from_millis(50));
}

#[test]
fn a_poll_is_reported_after_a_second() {
    assert_eq!(limits::POLL_WARN, Duration::from_secs(1));
}

#[test]
fn a_poll_fails_its_task_after_two_seconds() {
    assert_eq!(limits::POLL_FAIL, Duration::from_secs(2));
    assert_eq!(limits::POLL_FAIL_IN_TESTS, Duration::from_secs(30));
}

#[test]
fn an_activity_without_timeouts_has_ten_minutes() {
    assert_eq!(limits::START_TO_CLOSE_DEFAULT, Duration::from_mins(10));
}

#[test]
fn a_snapshot_is_due_after_256_commits() {
    assert_eq!(limits::SNAPSHOT_EVERY_COMMITS, 256);
}

#[test]
fn an_open_timer_is_looked_at_every_minute() {
    assert_eq!(limits::REARM, Duration::from_mins(1));
}

#[test]
fn a_run_has_at_most_1000_updates_in_flight() {
    assert_eq!(limits::UPDATES_IN_FLIGHT, 1_000);
}

#[test]
fn the_newest_20_notes_of_a_run_are_kept() {
    assert_eq!(limits::NOTES, 20);
}

/// A limit without an assertion above would be a limit nobody decided.
#[test]
fn no_limit_is_forgotten() {
    let source = include_str!("../../src/limits.rs");
    let here = include_str!("limits.rs");
    for line in source.lines() {
        let Some(rest) = line.strip_prefix("pub const ") else {
            continue;
        };
        let name = rest.split(':').next().expect("a constant has a name");
        assert!(
            here.contains(&format!("limits::{name},")),
            "limits::{name} has no test"
        );
    }
}
