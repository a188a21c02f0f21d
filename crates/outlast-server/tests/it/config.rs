//! `outlast config show`: what every setting is, and who said so.

use super::support::Room;

const FILE: &str = "\
[worker]
activity_slots = 20

[queue.gpu]
activity_slots = 4
";

#[test]
fn every_setting_is_shown_with_its_value_and_its_origin() {
    let room = Room::new("config-show");
    std::fs::write(room.path().join("outlast.toml"), FILE).expect("it is written");
    let mut command = room.command("config show --origin --set shutdown.grace=3s");
    command.env("OUTLAST_WORKER_STEP_SLOTS", "7");
    let out = command.output().expect("the binary runs");
    assert!(out.status.success(), "{out:?}");
    let text = String::from_utf8(out.stdout).expect("text");
    let line = |key: &str| {
        let line = text
            .lines()
            .find(|line| line.split(' ').next() == Some(key));
        let words = line.unwrap_or_default().split_whitespace();
        words.skip(1).collect::<Vec<&str>>().join(" ")
    };
    assert_eq!(line("worker.activity_slots"), "20 outlast.toml:2");
    assert_eq!(line("queue.gpu.activity_slots"), "4 outlast.toml:5");
    assert_eq!(line("worker.step_slots"), "7 $OUTLAST_WORKER_STEP_SLOTS");
    assert_eq!(line("shutdown.grace"), "3s command line");
    assert_eq!(line("worker.cached_runs"), "1000 default");
}

#[test]
fn programs_read_json_and_one_queue_can_be_asked_for() {
    let room = Room::new("config-json");
    std::fs::write(room.path().join("outlast.toml"), FILE).expect("it is written");
    let out = room.command("config show --queue gpu -o json").output();
    let out = out.expect("the binary runs").stdout;
    let all: serde_json::Value = serde_json::from_slice(&out).expect("it is JSON");
    let all = all.as_array().expect("a list");
    assert!(all.iter().all(|line| line["queue"] == "gpu"));
    let slots = all
        .iter()
        .find(|line| line["key"] == "queue.gpu.activity_slots");
    let slots = slots.expect("it is there");
    assert_eq!(
        (&slots["value"], &slots["default"]),
        (&"4".into(), &"200".into())
    );
    assert_eq!(slots["origin"], "outlast.toml:5");
}

#[test]
fn what_is_wrong_is_named_and_ends_with_the_code_for_usage() {
    let room = Room::new("config-wrong");
    let path = room.path().join("wrong.toml");
    std::fs::write(path, "[worker]\nactivty_slots = 1\nstep_slots = \"x\"\n").expect("written");
    let out = room.command("config show --file wrong.toml").output();
    let out = out.expect("the binary runs");
    let text = String::from_utf8(out.stderr).expect("text");
    assert_eq!(out.status.code(), Some(2), "{text}");
    assert!(
        text.contains("wrong.toml:2: there is no setting worker.activty_slots"),
        "{text}"
    );
    assert!(
        text.contains("did you mean worker.activity_slots?"),
        "{text}"
    );
    assert!(
        text.contains("wrong.toml:3: worker.step_slots: \"x\""),
        "{text}"
    );
    let out = room.command("config show --set shutdown.grace=5m").output();
    let out = out.expect("the binary runs");
    let text = String::from_utf8(out.stderr).expect("text");
    assert_eq!(out.status.code(), Some(2), "{text}");
    assert!(text.contains("shutdown.hard_stop cannot be 1m"), "{text}");
}
