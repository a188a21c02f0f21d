//! Signals of a run: handlers, waiters, and what nobody has taken yet.
//!
//! A signal goes to the handler of its name; without one it is buffered in order of arrival,
//! where `recv` finds it. A `recv` takes its signal when it is polled, not when the signal
//! arrives: a `recv` that loses a `select` and is dropped loses no message.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use outlast_model::{Payload, Seq, SignalName};

use crate::program::SignalHandler;

/// A signal on its way to a handler.
pub(crate) struct Delivery {
    pub(crate) name: SignalName,
    pub(crate) input: Payload,
    pub(crate) handler: SignalHandler,
}

/// Where a signal went.
pub(crate) enum Arrival {
    /// To a handler.
    Handle(Delivery),
    /// To the buffer; these waits for it should look.
    Buffered(Vec<Seq>),
}

#[derive(Default)]
pub(crate) struct Mailbox {
    handlers: BTreeMap<SignalName, SignalHandler>,
    buffered: BTreeMap<SignalName, VecDeque<(u64, Payload)>>,
    waiting: BTreeMap<SignalName, BTreeSet<Seq>>,
    /// Names that got a handler since buffered signals were last looked through.
    newly_handled: Vec<SignalName>,
    arrived: u64,
}

impl Mailbox {
    /// A signal arrives.
    pub(crate) fn arrive(&mut self, name: &SignalName, input: &Payload) -> Arrival {
        let input = input.clone();
        if let Some(handler) = self.handlers.get(name) {
            let handler = SignalHandler::clone(handler);
            return Arrival::Handle(Delivery {
                name: name.clone(),
                input,
                handler,
            });
        }
        self.arrived += 1;
        self.buffered
            .entry(name.clone())
            .or_default()
            .push_back((self.arrived, input));
        let waiting = self.waiting.get(name);
        Arrival::Buffered(waiting.into_iter().flatten().copied().collect())
    }

    /// From now on signals of this name have a handler.
    pub(crate) fn handle(&mut self, name: SignalName, handler: SignalHandler) {
        self.newly_handled.push(name.clone());
        self.handlers.insert(name, handler);
    }

    /// Buffered signals that have a handler by now, in order of arrival.
    pub(crate) fn deliverable(&mut self) -> Vec<Delivery> {
        let mut found = BTreeMap::new();
        for name in std::mem::take(&mut self.newly_handled) {
            let Some(handler) = self.handlers.get(&name) else {
                continue;
            };
            for (arrived, input) in self.buffered.remove(&name).into_iter().flatten() {
                let handler = SignalHandler::clone(handler);
                found.insert(
                    arrived,
                    Delivery {
                        name: name.clone(),
                        input,
                        handler,
                    },
                );
            }
        }
        found.into_values().collect()
    }

    /// Takes the oldest buffered signal of this name.
    pub(crate) fn take(&mut self, name: &SignalName) -> Option<Payload> {
        let queue = self.buffered.get_mut(name)?;
        let (_, input) = queue.pop_front()?;
        if queue.is_empty() {
            self.buffered.remove(name);
        }
        Some(input)
    }

    /// A `recv` begins to wait.
    pub(crate) fn wait(&mut self, name: SignalName, seq: Seq) {
        self.waiting.entry(name).or_default().insert(seq);
    }

    /// A `recv` no longer waits.
    pub(crate) fn leave(&mut self, name: &SignalName, seq: Seq) {
        if let Some(waiting) = self.waiting.get_mut(name) {
            waiting.remove(&seq);
            if waiting.is_empty() {
                self.waiting.remove(name);
            }
        }
    }

    pub(crate) fn has_handlers(&self) -> bool {
        !self.handlers.is_empty()
    }

    /// Signals nobody took, by name.
    pub(crate) fn unread(&self) -> impl Iterator<Item = (&SignalName, usize)> {
        self.buffered
            .iter()
            .map(|(name, queue)| (name, queue.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    fn handler() -> SignalHandler {
        Rc::new(|_, _| Box::pin(async { Ok(()) }))
    }

    #[test]
    fn buffered_signals_are_delivered_in_order_of_arrival_whatever_their_name() {
        let mut mailbox = Mailbox::default();
        for (name, text) in [("b", "1"), ("c", "2"), ("a", "3"), ("b", "4")] {
            mailbox.arrive(&name.into(), &Payload::bytes(text));
        }
        mailbox.handle("a".into(), handler());
        mailbox.handle("b".into(), handler());
        let order: Vec<Payload> = mailbox.deliverable().into_iter().map(|d| d.input).collect();
        assert_eq!(order, ["1", "3", "4"].map(Payload::bytes));
        assert!(mailbox.deliverable().is_empty());
        assert_eq!(mailbox.unread().collect::<Vec<_>>(), [(&"c".into(), 1)]);
    }

    #[test]
    fn a_wait_looks_again_only_for_its_own_name() {
        let mut mailbox = Mailbox::default();
        mailbox.wait("a".into(), Seq(1));
        let Arrival::Buffered(other) = mailbox.arrive(&"b".into(), &Payload::null()) else {
            panic!("nobody handles it");
        };
        assert!(other.is_empty());
        let Arrival::Buffered(own) = mailbox.arrive(&"a".into(), &Payload::null()) else {
            panic!("nobody handles it");
        };
        assert_eq!(own, [Seq(1)]);
        mailbox.leave(&"a".into(), Seq(1));
        assert_eq!(mailbox.take(&"a".into()), Some(Payload::null()));
        assert_eq!(mailbox.take(&"a".into()), None);
    }
}
