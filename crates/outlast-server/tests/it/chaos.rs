//! `outlast demo --chaos`: clean when nothing is planted, and never when something is.

use std::path::Path;

use crate::support::{Ran, Room};

/// Kills in the long test; `OUTLAST_KILLS` asks for more.
const KILLS: u64 = 30;
/// From so many kills on, nearly every named point must have been hit.
const MANY: u64 = 200;

/// The numbers of the verdict line.
fn verdict(ran: &Ran) -> impl Fn(&str) -> u64 {
    let told = ran.stdout();
    let line = told.lines().last().unwrap_or_default().to_owned();
    assert!(
        line.starts_with("verdict: kills="),
        "{told}{}",
        ran.stderr()
    );
    move |name| {
        let prefix = format!("{name}=");
        let word = line.split(' ').find_map(|word| word.strip_prefix(&prefix));
        word.and_then(|n| n.parse().ok())
            .expect("the verdict has it")
    }
}

#[test]
fn without_kills_and_errors_nothing_is_done_twice() {
    let room = Room::new("calm");
    let ran = room.run("demo --chaos --kills 0 --runs 30 --fail 0 --seed 1");
    let count = verdict(&ran);
    ran.ok();
    assert_eq!(
        [count("retries"), count("bound"), count("kills")],
        [0, 0, 0]
    );
    assert!(count("acked") >= 30 * 3);
}

#[test]
fn nothing_is_lost_whenever_the_process_dies() {
    let kills = std::env::var("OUTLAST_KILLS").ok();
    let kills = kills.and_then(|n| n.parse().ok()).unwrap_or(KILLS);
    let room = Room::new("kills");
    let ran = room.run(&format!("demo --chaos --kills {kills}"));
    let count = verdict(&ran);
    let told = ran.ok();
    assert!(told.starts_with("chaos: seed "), "{told}");
    assert_eq!(count("kills"), kills);
    let wrongs = ["lost", "phantom", "duplicated", "stuck"].map(&count);
    assert_eq!(wrongs, [0; 4]);
    assert!(count("retries") <= count("bound"));
    let points = told.split("named points hit: ").nth(1).unwrap_or_default();
    let points: u64 = points
        .split(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    assert!(kills < MANY || points >= 20, "{told}");
}

#[test]
fn a_worker_that_acknowledges_too_early_is_found_out() {
    let room = Room::new("early");
    let ran = room.run("demo --chaos --kills 25 --runs 50 --seed 1 --planted early-ack");
    assert_eq!(ran.code(), Some(1));
    assert!(verdict(&ran)("lost") > 0);
}

#[test]
fn a_worker_that_does_things_twice_is_found_out() {
    let room = Room::new("double");
    let ran = room.run("demo --chaos --kills 3 --runs 6 --seed 1 --planted double-effect");
    assert_eq!(ran.code(), Some(1));
    assert!(verdict(&ran)("duplicated") > 0);
}

/// Whoever wants to know why it is red finds nothing else.
#[test]
fn files_that_a_red_run_says_it_kept_are_there_when_the_test_is_over() {
    let red = std::thread::spawn(|| {
        let room = Room::new("red");
        let ran = room.run("demo --chaos --kills 3 --runs 6 --seed 1 --planted double-effect");
        // As a red test does: the room is dropped on the way out.
        std::panic::resume_unwind(Box::new(ran.stderr()));
    });
    let told = red.join().expect_err("it is red");
    let told = told.downcast::<String>().expect("what the run said");
    let (_, kept) = told.split_once("files kept in ").expect("it says where");
    let kept = Path::new(kept.split(';').next().expect("a path"));
    for name in ["chaos.db", "chaos.ledger"] {
        assert!(kept.join(name).is_file(), "{told}");
    }
    let room = kept.parent().expect("a directory of the test");
    std::fs::remove_dir_all(room).expect("ours to remove");
}

#[test]
fn a_chaos_run_refuses_a_file_that_is_there() {
    let room = Room::new("mine");
    room.run("demo --runs 1 --db mine.db").ok();
    let ran = room.run("demo --chaos --kills 1 --db mine.db");
    assert_eq!(ran.code(), Some(6));
}
