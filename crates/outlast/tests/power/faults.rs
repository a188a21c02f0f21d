//! Faults: EIO, a full disk and short writes at every call that a scenario makes, one at a time.
//!
//! Nothing may be lost, doubled or without an answer. The store alone meets a fault at each of its
//! calls in every scenario in which nothing fails by itself; an application with its engine meets
//! them after its first acknowledgement: `OUTLAST_FAULTS` of them, thrown with dice, or each once if
//! there are no more.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use outlast_service::sqlite::witness;
use outlast_vfs::{Call, Dice, Fault, How, Lasting};

use crate::bare::{self, Bare};
use crate::exam::examine;
use crate::life::{Story, scratch};
use crate::tape::Plan;
use crate::{beside_others, hear, knob, script};

/// Applications that meet a fault, without a knob.
const FEW: usize = 60;
/// Scenarios of applications that meet them.
const SCENARIOS: usize = 20;

/// Writes that find no room before there is some again. An application that waits for room instead
/// of refusing would wait longer than its client does, who counts as stuck then.
const FULL_WRITES: u64 = 6;

/// What a call can meet, and for how long: room comes back when that was asked for.
fn hows(call: Call) -> &'static [(How, Lasting)] {
    match call {
        Call::Write => &[
            (How::Broken, Lasting::Once),
            (How::Full, Lasting::UntilLifted),
            (How::Short, Lasting::UntilLifted),
        ],
        Call::Open | Call::Map => &[(How::Broken, Lasting::Once), (How::Full, Lasting::Once)],
        Call::Read | Call::Truncate | Call::Sync | Call::SyncDirectory | Call::Delete => {
            &[(How::Broken, Lasting::Once)]
        }
    }
}

/// Every fault there can be among so many calls of each kind.
fn faults(count: impl Fn(Call) -> u64) -> Vec<Fault> {
    let mut faults = Vec::new();
    for call in Call::ALL {
        for at in 1..=count(call) {
            faults.extend(hows(call).iter().map(|(how, lasting)| Fault {
                lasting: *lasting,
                ..Fault::once(call, at, *how)
            }));
        }
    }
    faults
}

/// Judges every case, two at a time, and gives what is wrong.
fn all<T: Sync>(cases: &[T], judge: impl Fn(&T) -> Vec<String> + Sync) -> Vec<String> {
    witness(Some(hear));
    let (next, found) = (Mutex::new(cases.iter()), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let Some(case) = next.lock().expect("not poisoned").next() else {
                return;
            };
            let complaints = beside_others(|| judge(case));
            found.lock().expect("not poisoned").extend(complaints);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    found.into_inner().expect("not poisoned")
}

/// Plays a scenario with this fault, and says what is wrong with what it leaves.
fn play(bare: &Bare, fault: &Fault) -> Vec<String> {
    let dir = scratch();
    let mut player = bare.player(dir.path());
    player.lab.arm(fault.clone());
    (bare.play)(&mut player);
    player.stop();
    player.lab.lift();
    let mut wrong: Vec<String> = player.gave_up.iter().cloned().collect();
    if player.lab.struck() == 0 {
        wrong.push("the fault did not strike".to_owned());
    }
    let most = player.most();
    // Nothing is left that was not answered.
    if wrong.is_empty() && *player.acknowledged() != most {
        wrong.push("lost: not everything was answered".to_owned());
    }
    match examine(dir.path()) {
        Ok(seen) => wrong.extend(bare::judge(&seen, Some(player.acknowledged()), &most)),
        Err(why) => wrong.push(why),
    }
    let said = |what: String| format!("{}, {fault:?}: {what}", bare.name);
    wrong.into_iter().map(said).collect()
}

#[test]
fn a_store_survives_a_fault_at_every_call() {
    witness(Some(hear));
    let cases: Vec<(Bare, Fault)> = Bare::WELL
        .into_iter()
        .flat_map(|bare| {
            let dir = scratch();
            let mut player = bare.player(dir.path());
            (bare.play)(&mut player);
            player.stop();
            let faults = faults(|call| player.lab.calls(call));
            faults.into_iter().map(move |fault| (bare, fault))
        })
        .collect();
    println!("{} faults in {} scenarios", cases.len(), Bare::WELL.len());
    assert!(Bare::WELL.len() >= 20);
    let wrong = all(&cases, |(bare, fault)| play(bare, fault));
    assert!(
        wrong.is_empty(),
        "{} cases:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// One process of an application, and what it meets.
struct Case {
    plan: Plan,
    clean: Arc<Story>,
}

/// Cases spread over the scenarios: by dice, or all there are.
fn thrown(count: usize, seed: u64) -> Vec<Case> {
    let mut dice = Dice::new(&[seed]);
    let scenarios: Vec<_> = script::all().take(SCENARIOS).collect();
    let mut cases = Vec::new();
    for scenario in &scenarios {
        let plan = Plan::new(scenario, scenario.name).copying();
        let (calls, clean) = plan.usual().expect("a directory to watch");
        let (mut faults, clean) = (faults(|call| calls[&call]), Arc::new(clean));
        let share = count.div_ceil(scenarios.len());
        if share < faults.len() {
            let thrown = (0..share).map(|_| faults[dice.below(faults.len())].clone());
            faults = thrown.collect();
        }
        for mut fault in faults {
            if fault.lasting == Lasting::UntilLifted {
                fault.lasting = Lasting::For(FULL_WRITES);
            }
            let (plan, clean) = (plan.clone(), clean.clone());
            let fault = Some(fault);
            cases.push(Case {
                plan: Plan { fault, ..plan },
                clean,
            });
        }
    }
    cases
}

#[test]
fn an_application_survives_a_fault_at_any_call() {
    witness(Some(hear));
    let cases = thrown(knob("OUTLAST_FAULTS").unwrap_or(FEW), 1);
    let struck = AtomicUsize::new(0);
    let wrong = all(&cases, |Case { plan, clean }| {
        let found = plan.endure(clean).expect("a directory to watch");
        struck.fetch_add(usize::from(found.is_some()), Ordering::Relaxed);
        let said = |what| format!("{}, {:?}: {what}", plan.name, plan.fault);
        found.into_iter().flatten().map(said).collect()
    });
    let struck = struck.into_inner();
    println!("{struck} of {} faults struck", cases.len());
    assert!(
        wrong.is_empty(),
        "{} cases:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(struck * 3 >= cases.len(), "{struck} of {}", cases.len());
}
