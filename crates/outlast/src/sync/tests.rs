//! Locks, channels and cells, used by branches of one run.

use std::rc::Rc;

use futures::FutureExt;

use super::{ChannelError, Mutex, Semaphore, WriteOnce, channel, unbounded};
use crate::ctx::play::Play;
use crate::prelude::*;

/// What branches did, in order.
#[derive(Clone, Default)]
struct Log(Rc<std::cell::RefCell<Vec<String>>>);

impl Log {
    fn note(&self, text: impl Into<String>) {
        self.0.borrow_mut().push(text.into());
    }

    fn text(&self) -> String {
        self.0.borrow().join(" ")
    }
}

#[workflow]
async fn locking(ctx: Ctx) -> Result<String> {
    let (log, value) = (Log::default(), Rc::new(Mutex::new(0_u64)));
    let tasks: Vec<_> = (1..=3_u64)
        .map(|n| {
            let (log, value) = (log.clone(), Rc::clone(&value));
            ctx.spawn(async move {
                let mut value = value.lock().await?;
                log.note(format!("{n} has {}", *value));
                ctx.sleep(1.secs()).await?;
                *value += n;
                crate::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await?;
    }
    let total = value.try_lock().map(|value| *value);
    Ok(format!("{}, {total:?}", log.text()))
}

#[test]
fn a_lock_is_held_across_awaits_and_handed_on_in_order() {
    let mut play = Play::start(locking, ());
    assert_eq!(play.asked(), ["timer 1s"]);
    assert_eq!(play.fire(1).asked(), ["timer 1s"]);
    assert_eq!(play.fire(2).asked(), ["timer 1s"]);
    assert_eq!(
        play.fire(3).asked(),
        ["complete \"1 has 0 2 has 1 3 has 3, Some(6)\""]
    );
}

#[workflow]
async fn limiting(ctx: Ctx, permits: usize) -> Result<String> {
    let (log, semaphore) = (Log::default(), Rc::new(Semaphore::new(permits)));
    let tasks: Vec<_> = ["a", "b", "c", "d"]
        .into_iter()
        .map(|name| {
            let (log, semaphore) = (log.clone(), Rc::clone(&semaphore));
            ctx.spawn(async move {
                let _permit = semaphore.acquire().await?;
                log.note(name);
                ctx.sleep(1.secs()).await?;
                crate::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await?;
    }
    Ok(format!("{}, {} free", log.text(), semaphore.available()))
}

#[test]
fn no_more_run_than_there_are_permits() {
    let mut play = Play::start(limiting, 2);
    assert_eq!(play.asked().len(), 2);
    assert_eq!(play.fire(2).asked().len(), 1);
    assert_eq!(play.fire(1).asked().len(), 1);
    play.fire(3);
    assert_eq!(play.fire(4).asked(), ["complete \"a b c d, 2 free\""]);
}

#[workflow]
async fn in_line(ctx: Ctx) -> Result<String> {
    let (log, semaphore) = (Log::default(), Rc::new(Semaphore::new(0)));
    let wait_for = |name: &'static str, permits: usize| {
        let (log, semaphore) = (log.clone(), Rc::clone(&semaphore));
        ctx.spawn(async move {
            let got = semaphore.acquire_many(permits).await;
            log.note(format!("{name}:{}", got.is_ok()));
            got.map(crate::sync::Permit::forget)
        })
        .supervised()
    };
    let (big, small) = (wait_for("big", 3), wait_for("small", 1));
    ctx.sleep(1.secs()).await?;
    semaphore.add(1);
    assert!(semaphore.try_acquire().is_none(), "others wait for it");
    assert!(!small.is_finished(), "the big one is first");
    ctx.sleep(1.secs()).await?;
    big.cancel();
    assert!(big.await.is_err_and(|error| error.is_cancelled()));
    small.await?;
    Ok(log.text())
}

#[test]
fn whoever_leaves_the_line_lets_those_behind_pass() {
    let mut play = Play::start(in_line, ());
    play.fire(1);
    assert_eq!(play.fire(2).asked(), ["complete \"big:false small:true\""]);
}

#[workflow]
async fn given_and_dropped(ctx: Ctx) -> Result<String> {
    let semaphore = Semaphore::new(0);
    let (mut first, mut second) = (semaphore.acquire(), semaphore.acquire());
    assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
    semaphore.add(1);
    drop(first);
    ctx.yield_now().await;
    Ok(format!("{}", second.now_or_never().is_some()))
}

#[test]
fn a_permit_that_nobody_saw_goes_to_the_next() {
    assert_eq!(
        Play::start(given_and_dropped, ()).asked(),
        ["complete \"true\""]
    );
}

#[workflow]
async fn talking(ctx: Ctx) -> Result<String> {
    let (log, (sender, mut receiver)) = (Log::default(), channel(1));
    for name in ["x", "y"] {
        let (log, sender) = (log.clone(), sender.clone());
        ctx.spawn(async move {
            for n in 0..2 {
                sender.send(format!("{name}{n}")).await?;
                log.note(format!("+{name}{n}"));
            }
            crate::Ok(())
        })
        .detach();
    }
    drop(sender);
    ctx.sleep(1.secs()).await?;
    while let Some(word) = receiver.recv().await? {
        log.note(word);
    }
    Ok(log.text())
}

#[test]
fn a_full_channel_makes_senders_wait_in_order() {
    let mut play = Play::start(talking, ());
    let asked = play.fire(1).asked();
    assert_eq!(
        asked,
        ["complete \"+x0 x0 +x1 x1 +y0 y0 +y1 y1\""],
        "room goes to the one who waited first"
    );
}

#[workflow]
async fn losing_a_race(ctx: Ctx) -> Result<String> {
    let (sender, mut receiver) = unbounded();
    for _ in 0..3 {
        crate::select! {
            _ = ctx.sleep(1.secs()) => {}
            _ = receiver.recv() => return Ok("too early".into()),
        }
    }
    sender.try_send(7).map_err(|error| error.to_string())?;
    let word = receiver.recv().await?;
    drop(sender);
    let end = receiver.recv().await?;
    Ok(format!("{word:?} {end:?} {:?}", receiver.try_recv()))
}

#[test]
fn a_receiver_that_loses_a_race_loses_nothing_and_the_end_is_told() {
    let mut play = Play::start(losing_a_race, ());
    play.fire(1).fire(2);
    assert_eq!(play.fire(3).asked(), ["complete \"Some(7) None None\""]);
}

#[workflow]
async fn closing(ctx: Ctx) -> Result<String> {
    let (sender, receiver) = channel(1);
    assert!(sender.try_send(1).is_ok());
    assert!(matches!(sender.try_send(2), Err(ChannelError::Full)));
    let waiting = ctx.spawn({
        let sender = sender.clone();
        async move {
            let sent = sender.send(3).await;
            crate::Ok(matches!(sent, Err(ChannelError::Closed)))
        }
    });
    ctx.yield_now().await;
    drop(receiver);
    assert!(sender.is_closed());
    let told = waiting.await?;
    Ok(format!("{told} {:?}", sender.try_send(4)))
}

#[test]
fn senders_are_told_when_the_receiver_is_gone() {
    let asked = Play::start(closing, ()).asked();
    assert_eq!(asked, ["complete \"true Err(Closed)\""]);
}

#[workflow]
async fn written_once(ctx: Ctx) -> Result<String> {
    let (log, cell) = (Log::default(), WriteOnce::new());
    assert_eq!(cell.try_read(), None);
    for name in ["a", "b", "c"] {
        let (log, cell) = (log.clone(), cell.clone());
        ctx.spawn(async move {
            let value: u64 = cell.wait().await?;
            log.note(format!("{name}{value}"));
            crate::Ok(())
        })
        .detach();
    }
    ctx.sleep(1.secs()).await?;
    assert!(!cell.is_written());
    let counted = (cell.put(1), cell.put(2));
    assert_eq!(cell.try_read(), Some(1));
    log.note("put");
    ctx.yield_now().await;
    let late = cell.wait().now_or_never();
    Ok(format!("{} {counted:?} {}", log.text(), late.is_some()))
}

#[test]
fn a_second_put_is_ignored_and_all_waiters_are_released_in_order() {
    let mut play = Play::start(written_once, ());
    let asked = play.fire(1).asked();
    assert_eq!(asked, ["complete \"put a1 b1 c1 (true, false) true\""]);
}

#[workflow]
async fn cancelled_waits(ctx: Ctx) -> Result<String> {
    let (log, lock) = (Log::default(), Rc::new(Mutex::new(())));
    let (_sender, mut receiver) = unbounded::<u64>();
    let (full, _kept) = channel(1);
    full.try_send(0).map_err(|error| error.to_string())?;
    let (cell, held) = (WriteOnce::<u64>::new(), Rc::clone(&lock));
    let _held = held.lock().await?;
    let waits = async {
        let locked = lock.lock().await.is_err_and(|error| error.is_cancelled());
        let received = receiver.recv().await;
        let received = received.is_err_and(|error| error.is_cancelled());
        let sent = full.send(1).await;
        let sent = sent.is_err_and(|error| Error::from(error).is_cancelled());
        let written = cell.wait().await;
        let written = written.is_err_and(|error| error.is_cancelled());
        log.note(format!("{locked} {received} {sent} {written}"));
    };
    let (_, slept) = futures::join!(waits, ctx.sleep(9.days()));
    assert!(slept.is_err());
    drop(_held);
    // What is at hand is given to cancelled code, too.
    log.note(format!("{}", lock.lock().await.is_ok()));
    Ok(log.text())
}

#[test]
fn a_cancel_reaches_every_wait_and_what_is_free_is_given() {
    let mut play = Play::start(cancelled_waits, ());
    let asked = play.cancel().asked();
    let end = asked.last().expect("an end");
    assert_eq!(end, "complete \"true true true true true\"");
}

#[derive(Default)]
struct Looking;

#[workflow]
impl Looking {
    async fn run(ctx: Ctx<Self>, kind: u8) -> Result<()> {
        let (cell, permits) = (WriteOnce::new(), Semaphore::new(1));
        let (sender, receiver) = channel(1);
        let receiver = std::cell::RefCell::new(receiver);
        ctx.wait_until(move |_| {
            match kind {
                0 => drop(cell.put(1)),
                1 => drop(permits.try_acquire()),
                2 => permits.add(1),
                3 => drop(sender.try_send(1)),
                _ => drop(receiver.borrow_mut().try_recv()),
            }
            true
        })
        .await?;
        Ok(())
    }
}

#[test]
fn a_condition_may_not_touch_what_others_wait_for() {
    for kind in 0..5 {
        let asked = Play::start(Looking::run, kind).asked();
        assert!(
            asked[0].contains("in a condition, which may only read"),
            "{asked:?}"
        );
        assert!(asked[0].contains("sync/tests.rs:"), "{asked:?}");
    }
}

#[workflow]
async fn many(ctx: Ctx) -> Result<usize> {
    let semaphore = Rc::new(Semaphore::new(100));
    let (sender, mut receiver) = channel(10);
    for n in 0..10_000_usize {
        let (semaphore, sender) = (Rc::clone(&semaphore), sender.clone());
        ctx.spawn(async move {
            let _permit = semaphore.acquire().await?;
            ctx.yield_now().await;
            sender.send(n).await?;
            crate::Ok(())
        })
        .detach();
    }
    drop(sender);
    let mut in_order = 0;
    while let Some(n) = receiver.recv().await? {
        in_order += usize::from(n == in_order);
    }
    Ok(in_order)
}

#[test]
fn ten_thousand_branches_pass_a_semaphore_and_a_channel_in_order() {
    assert_eq!(Play::start(many, ()).asked(), ["complete 10000"]);
}

/// Has a second way to be `check`ed if it is `Send`, and then none that is clear.
trait StaysHere<A> {
    fn check() {}
}

struct Leaves;

impl<T> StaysHere<()> for T {}
impl<T: Send> StaysHere<Leaves> for T {}

#[test]
fn none_of_them_leaves_its_thread() {
    // Does not compile if one of them is `Send`.
    <Mutex<u64> as StaysHere<_>>::check();
    <Semaphore as StaysHere<_>>::check();
    <WriteOnce<u64> as StaysHere<_>>::check();
    <super::Watched<u64> as StaysHere<_>>::check();
    <super::Sender<u64> as StaysHere<_>>::check();
    <super::Receiver<u64> as StaysHere<_>>::check();
    <super::Acquire<'static> as StaysHere<_>>::check();
}
