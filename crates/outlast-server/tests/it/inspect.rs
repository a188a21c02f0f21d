//! `outlast ls`, `show`, `why`: what they say, and their exit codes.

use crate::support::Room;

fn finished(name: &str) -> Room {
    let room = Room::new(name);
    room.run("demo --db a.db --runs 20 --fail 50").ok();
    room
}

#[test]
fn ls_filters_by_status_and_type_and_counts() {
    let room = finished("ls");
    let count = |line: &str| {
        let runs = room.run(line).json();
        runs.as_array().map_or(0, Vec::len)
    };
    assert_eq!(count("ls --db a.db -o json"), 20);
    assert_eq!(count("ls --db a.db -o json --limit 7"), 7);
    assert_eq!(count("ls --db a.db -o json --status completed"), 18);
    assert_eq!(
        count("ls --db a.db -o json --status failed --type order"),
        2
    );
    assert_eq!(count("ls --db a.db -o json --type no-such-type"), 0);
    let table = room.run("ls --db a.db --limit 3").ok();
    assert_eq!(table.lines().count(), 4);
    assert!(table.starts_with("WORKFLOW"));
}

#[test]
fn ls_says_that_there_are_more_and_how_to_see_them() {
    let room = finished("more");
    for line in ["ls --db a.db --limit 19", "ls --db a.db --limit 19 -o json"] {
        let words = room.run(line).stderr();
        assert!(words.contains("newest 19 of more: --limit"), "{words}");
    }
    assert_eq!(room.run("ls --db a.db --limit 20").stderr(), "");
    let help = room.run("ls --help").ok();
    assert!(help.contains("continued-as-new"), "{help}");
}

#[test]
fn show_tells_one_run_and_gives_temporals_history() {
    let room = finished("show");
    let page = room.run("show order-1 --db a.db").ok();
    assert!(page.starts_with("order-1  completed"), "{page}");
    assert!(page.contains("result   {\"order\":1"), "{page}");
    let run = room.run("show order-1 --db a.db -o json").json();
    assert_eq!(run["run"]["status"], "completed");
    let first = &run["history"]["events"][0];
    assert_eq!(first["eventType"], "EVENT_TYPE_WORKFLOW_EXECUTION_STARTED");
    let id = run["run"]["run_id"].as_str().expect("a run has an id");
    let by_run = room.run(&format!("show {id} --db a.db")).ok();
    assert_eq!(by_run.lines().next(), page.lines().next());
    let by_prefix = room.run(&format!("show {} --db a.db", &id[..35])).ok();
    assert_eq!(by_prefix.lines().next(), page.lines().next());
}

#[test]
fn show_prints_the_whole_history_when_asked() {
    let room = finished("events");
    let page = room.run("show order-1 --db a.db --events").ok();
    assert!(
        page.contains("    1  +0.000     WorkflowExecutionStarted order"),
        "{page}"
    );
    assert!(page.contains("demo/order.rs:"), "{page}");
}

#[test]
fn why_says_that_an_ended_run_has_ended_and_how() {
    let room = finished("why");
    let failed = room
        .run("ls --db a.db --status failed --limit 1 -o json")
        .json();
    let id = failed[0]["workflow_id"].as_str().expect("an id");
    let text = room.run(&format!("why {id} --db a.db")).ok();
    assert!(text.contains("the card was declined"), "{text}");
    assert!(text.contains("next: "), "{text}");
    let json = room.run(&format!("why {id} --db a.db -o json")).json();
    assert_eq!(json["reasons"][0]["reason"], "ended");
}

#[test]
fn they_look_beside_a_living_owner() {
    let room = Room::new("beside");
    let mut demo = room.spawn("demo --db a.db");
    room.until("ls --db a.db --status running", |ls| {
        ls.stdout().lines().count() > 1
    });
    let open = room.run("ls --db a.db --status running -o json").json();
    let id = open[0]["workflow_id"].as_str().expect("an open run");
    room.run(&format!("show {id} --db a.db")).ok();
    let json = room.run(&format!("why {id} --db a.db -o json")).json();
    assert!(json["reasons"][0]["reason"].is_string());
    let pid = demo.kill();
    // Left behind in the middle: it says what it waits for.
    let open = room.run("ls --db a.db --status running -o json").json();
    let id = open[0]["workflow_id"].as_str().expect("an open run");
    let why = format!("why {id} --db a.db");
    let json = room.run(&format!("{why} -o json")).json();
    assert_ne!(json["reasons"][0]["reason"], "ended");
    // Whatever it waited for has passed by now but somebody to go on with it.
    room.until(&why, |why| {
        why.stdout().contains(&format!("(pid {pid}) is gone"))
    });
}

#[test]
fn exit_codes_tell_what_was_wrong() {
    let room = finished("codes");
    assert_eq!(room.run("ls --db none.db").code(), Some(4));
    assert!(
        room.run("ls --db none.db")
            .stderr()
            .contains("outlast demo")
    );
    let missing = room.run("show order-999 --db a.db");
    assert_eq!(missing.code(), Some(4));
    let words = missing.stderr();
    assert!(words.contains("outlast ls --db a.db"), "{words}");
    assert!(words.contains("[OL-1005]"), "{words}");
    assert_eq!(room.run("why order-999 --db a.db").code(), Some(4));
    assert_eq!(room.run("show order- --db a.db").code(), Some(2));
    assert_eq!(room.run("ls --db a.db --no-such-flag").code(), Some(2));
    assert_eq!(room.run("ls --db a.db --status asleep").code(), Some(2));
    assert_eq!(room.run("demo --kills 3").code(), Some(2));
    assert_eq!(room.run("no-such-command").code(), Some(2));
    std::fs::write(
        room.path().join("text.db"),
        "not a database, but long enough to look at",
    )
    .expect("a file can be written");
    assert_eq!(room.run("ls --db text.db").code(), Some(1));
}
