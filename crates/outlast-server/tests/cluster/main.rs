//! The binary on a Temporal cluster.
#![cfg(feature = "temporal")]

#[path = "../it/support.rs"]
#[allow(dead_code, reason = "others use the rest")]
mod support;

use std::net::TcpListener;

use support::Room;

#[test]
fn a_demo_without_a_cluster_tells_of_every_try_and_why_it_gives_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = listener.local_addr().expect("it has an address");
    drop(listener);
    let room = Room::new("no-cluster");
    let mut demo = room.command(&format!(
        "demo --runs 1 --store temporal://{address}/default"
    ));
    demo.env("OUTLAST_BACKEND_CONNECT_TIMEOUT", "1s");
    let ended = demo.output().expect("the binary runs");
    let told = String::from_utf8_lossy(&ended.stdout);
    let tries = told.matches("does not answer").count();
    assert!(tries >= 2, "{told}");
    let why = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && why.contains("OL-2003"), "{why}");
}

#[test]
#[expect(clippy::print_stdout, reason = "a test that does not run says so")]
fn a_demo_on_a_cluster_ends_by_itself_and_sums_up() {
    let Ok(server) = std::env::var("OUTLAST_TEST_TEMPORAL") else {
        println!("skipped: OUTLAST_TEST_TEMPORAL names no server");
        return;
    };
    let room = Room::new("on-a-cluster");
    let queue = std::process::id();
    let store = format!("temporal://{server}/default?queue=demo-{queue}");
    let told = room.run(&format!("demo --runs 20 --store {store}")).ok();
    assert!(told.contains("completed"), "{told}");
    assert!(told.contains("temporal workflow list"), "{told}");
}
