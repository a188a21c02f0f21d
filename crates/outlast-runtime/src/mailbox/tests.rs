//! What goes to whom.

use outlast_model::Payload;

use super::*;

fn signal(name: &str, input: Payload) -> SignalMessage {
    SignalMessage {
        name: name.into(),
        input,
        headers: Headers::new(),
    }
}

fn handler() -> SignalHandler {
    Rc::new(|_, _| Box::pin(async { Ok(()) }))
}

fn any() -> AnySignalHandler {
    Rc::new(|_, _, _| Box::pin(async { Ok(()) }))
}

fn inputs(deliveries: Vec<Delivery>) -> Vec<Payload> {
    let input = |delivery| match delivery {
        Delivery::Signal { signal, .. } => signal.input,
        Delivery::Update { job, .. } => job.request.input,
    };
    deliveries.into_iter().map(input).collect()
}

#[test]
fn buffered_signals_are_delivered_in_order_of_arrival_whatever_their_name() {
    let mut mailbox = Mailbox::default();
    for (name, text) in [("b", "1"), ("c", "2"), ("a", "3"), ("b", "4")] {
        mailbox.arrive(signal(name, Payload::bytes(text)));
    }
    mailbox.handle("a".into(), handler(), HandlerEnd::default());
    mailbox.handle("b".into(), handler(), HandlerEnd::default());
    let order = inputs(mailbox.deliverable());
    assert_eq!(order, ["1", "3", "4"].map(Payload::bytes));
    assert!(mailbox.deliverable().is_empty());
    assert_eq!(mailbox.unread().collect::<Vec<_>>(), [(&"c".into(), 1)]);
}

#[test]
fn a_wait_looks_again_only_for_its_own_name() {
    let mut mailbox = Mailbox::default();
    mailbox.wait("a".into(), Seq(1));
    let Arrival::Buffered(other) = mailbox.arrive(signal("b", Payload::null())) else {
        panic!("nobody handles it");
    };
    assert!(other.is_empty());
    let Arrival::Buffered(own) = mailbox.arrive(signal("a", Payload::null())) else {
        panic!("nobody handles it");
    };
    assert_eq!(own, [Seq(1)]);
    mailbox.leave(&"a".into(), Seq(1));
    let taken = mailbox.take(&"a".into());
    assert_eq!(taken, Some(signal("a", Payload::null())));
    assert_eq!(mailbox.take(&"a".into()), None);
}

#[test]
fn a_handler_of_any_name_gets_what_nobody_else_takes() {
    let mut mailbox = Mailbox::default();
    mailbox.wait("received".into(), Seq(1));
    mailbox.leave(&"received".into(), Seq(1));
    mailbox.handle("named".into(), handler(), HandlerEnd::default());
    for (name, text) in [("x", "1"), ("received", "2"), ("y", "3")] {
        mailbox.arrive(signal(name, Payload::bytes(text)));
    }
    mailbox.handle_any(any(), HandlerEnd::default());
    assert_eq!(
        inputs(mailbox.deliverable()),
        ["1", "3"].map(Payload::bytes)
    );
    assert_eq!(
        mailbox.unread().collect::<Vec<_>>(),
        [(&"received".into(), 1)]
    );
}
