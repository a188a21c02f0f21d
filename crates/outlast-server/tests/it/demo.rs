//! `outlast demo`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

use crate::support::Room;

#[test]
fn the_demo_ends_by_itself_and_sums_up() {
    let room = Room::new("demo");
    let told = room.run("demo --runs 20").ok();
    assert!(told.contains("completed 18, failed 2"), "{told}");
    assert!(told.contains("outlast ls --db outlast-demo.db"), "{told}");
    assert!(room.path().join("outlast-demo.db").exists());
}

#[test]
fn a_second_demo_takes_new_orders_on_the_same_file() {
    let room = Room::new("demo-again");
    room.run("demo --runs 3 --db a.db").ok();
    room.run("demo --runs 3 --db a.db").ok();
    let runs = room.run("ls --db a.db -o json").json();
    assert_eq!(runs.as_array().map(Vec::len), Some(6));
}

#[test]
fn what_is_stuck_is_found_and_isolated_while_the_rest_goes_on() {
    let room = Room::new("demo-stuck");
    let told = room.run("demo --stuck").ok();
    let at = |text: &str| {
        told.find(text)
            .unwrap_or_else(|| panic!("no {text:?}: {told}"))
    };
    assert!(at("OL-5104") < at("200 orders beside them have ended"));
    assert!(at("OL-5202") < at("run blocked waits, isolated"));
    assert!(told.contains("culprit.rs:"), "{told}");
    at("run blocked has tried again and completed");
    for id in ["yields", "wakes", "spawns", "clings"] {
        at(&format!("workflow {id} ("));
    }
    at("the destructors of main");
    at("and so have those that never came to rest");
}

#[test]
fn a_killed_demo_carries_on_where_it_was() {
    let room = Room::new("demo-killed");
    let demo = room.spawn("demo --db a.db --runs 1000000");
    // Its runs are seen from outside while it lives.
    room.until("ls --db a.db --status running", |ls| {
        ls.stdout().lines().count() > 1
    });
    drop(demo);
    let open = room.run("ls --db a.db --status running -o json").json();
    let open = open.as_array().map_or(0, Vec::len);
    assert!(open > 0);
    let told = room.run("demo --db a.db --runs 1").ok();
    assert!(told.contains("open orders of an earlier process"), "{told}");
    let left = room.run("ls --db a.db --status running -o json").json();
    assert_eq!(left.as_array().map(Vec::len), Some(0));
}

#[test]
fn a_file_has_one_owner_and_the_second_hears_who() {
    let room = Room::new("demo-owner");
    let demo = room.spawn("demo --db a.db");
    room.until("ls --db a.db", |ls| ls.code() == Some(0));
    let second = room.run("demo --db a.db --runs 1");
    assert_eq!(second.code(), Some(6));
    assert!(second.stderr().contains("is in use by process"));
    drop(demo);
}

#[test]
fn the_demo_says_how_it_is_to_whoever_asks() {
    let room = Room::new("demo-metrics");
    let mut demo = room.command("demo --db a.db --metrics 127.0.0.1:0");
    let mut demo = demo.stdout(Stdio::piped()).spawn().expect("it runs");
    let lines = BufReader::new(demo.stdout.take().expect("a pipe")).lines();
    let address = lines
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once("http://")?.1.split_once('/')?.0.to_owned()))
        .expect("it says where");
    let ready = get(&address, "/health/ready");
    let live = get(&address, "/health/live");
    let metrics = get(&address, "/metrics");
    let missing = get(&address, "/");
    demo.kill().expect("it is killed");
    demo.wait().expect("it ends");
    assert!(
        ready.starts_with("HTTP/1.1 200") && ready.ends_with("ok\n"),
        "{ready}"
    );
    assert!(live.starts_with("HTTP/1.1 200"), "{live}");
    assert!(
        metrics.contains("outlast_workflows_started_total{type=\"order\"}"),
        "{metrics}"
    );
    assert!(missing.starts_with("HTTP/1.1 404"), "{missing}");
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: here\r\n\r\n").expect("it reads");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("it answers");
    reply
}
