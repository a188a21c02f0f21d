//! Mail meets sleep.

use std::sync::Arc;

use outlast_model::planted::{Bug, plant};
use shuttle::thread;

use super::{alone, explore, orders_of};
use crate::clock::Sleep;
use crate::inbox::Inbox;
use crate::mail::Mail;
use crate::vigil::Expects;

/// Two put mail in, one takes until all is there.
fn mail_is_taken() {
    let inbox = Arc::new(Inbox::default());
    let senders: Vec<_> = (0..2)
        .map(|_| {
            let inbox = inbox.clone();
            thread::spawn(move || {
                inbox.put(Mail::Look);
                inbox.put(Mail::Look);
            })
        })
        .collect();
    let (mut taken, mut count) = (Vec::new(), 0);
    while count < 4 {
        let heard = inbox.take(&mut taken);
        count += taken.len();
        if taken.is_empty() {
            inbox.sleep(Sleep::UntilMail, heard, Expects::Calls);
        }
    }
    for sender in senders {
        sender.join().expect("sends");
    }
}

#[test]
fn whoever_sleeps_hears_of_mail() {
    explore(mail_is_taken);
}

#[test]
fn whoever_sleeps_hears_the_bell() {
    explore(|| {
        let inbox = Arc::new(Inbox::default());
        let ringing = inbox.clone();
        let flag = Arc::new(shuttle::sync::atomic::AtomicBool::new(false));
        let raised = flag.clone();
        let ringer = thread::spawn(move || {
            raised.store(true, std::sync::atomic::Ordering::SeqCst);
            ringing.ring();
        });
        let mut taken = Vec::new();
        loop {
            let heard = inbox.take(&mut taken);
            if flag.load(std::sync::atomic::Ordering::SeqCst) {
                break;
            }
            inbox.sleep(Sleep::UntilMail, heard, Expects::Calls);
        }
        ringer.join().expect("rings");
    });
}

/// Shows that the search can find: a sender that looks whether somebody sleeps before it has put
/// its mail in loses a wake-up.
#[test]
fn a_lost_wake_up_would_be_found() {
    let alone = alone();
    plant(Some(Bug::WakeBeforePut));
    let found = std::panic::catch_unwind(|| orders_of(mail_is_taken));
    plant(None);
    drop(alone);
    let panic = found.expect_err("the planted bug is found");
    let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(text.contains("deadlock"), "{text}");
}
