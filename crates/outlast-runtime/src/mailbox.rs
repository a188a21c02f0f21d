//! Messages of a run: handlers, waiters, and what nobody has taken yet.
//!
//! A message goes to the handler of its name. A signal without one is buffered in order of
//! arrival, where `recv` finds it; an update without one waits until the slice settles. A `recv`
//! takes its signal when it is polled, not when the signal arrives: a `recv` that loses a
//! `select` and is dropped loses no message. A name has a handler or is received, not both: the
//! `recv` would wait for ever, so the second of the two is refused. A handler of any name gets what
//! has no other taker; a name that code has ever received is taken, or signals between two `recv`
//! would be lost to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use outlast_model::job::{SignalMessage, UpdateJob};
use outlast_model::payload::PayloadError;
use outlast_model::task::PROMISE_SIGNAL;
use outlast_model::{Headers, Resolution, Seq, SignalName, UpdateName};

use crate::program::{AnySignalHandler, HandlerEnd, SignalHandler, UpdateHandler};
use crate::promise::Promises;

/// A message on its way to a handler.
pub(crate) enum Delivery {
    Signal {
        signal: SignalMessage,
        handler: SignalHandler,
        end: HandlerEnd,
    },
    Update {
        job: UpdateJob,
        handler: UpdateHandler,
    },
}

/// Where a signal went.
pub(crate) enum Arrival {
    /// It settles a promise that these wait for.
    Settled(Vec<(Seq, Resolution)>),
    /// It should settle a promise, but nobody can say which.
    Unreadable(PayloadError),
    /// To a handler.
    Handle(Delivery),
    /// To the buffer; these waits for it should look.
    Buffered(Vec<Seq>),
}

/// A signal in the buffer.
struct Kept {
    arrived: u64,
    signal: SignalMessage,
}

#[derive(Default)]
pub(crate) struct Mailbox {
    handlers: BTreeMap<SignalName, (SignalHandler, HandlerEnd)>,
    any: Option<(AnySignalHandler, HandlerEnd)>,
    buffered: BTreeMap<SignalName, VecDeque<Kept>>,
    waiting: BTreeMap<SignalName, BTreeSet<Seq>>,
    /// Names that code receives, or has received: not for the handler of any name.
    received: BTreeSet<SignalName>,

    pub(crate) promises: Promises,

    update_handlers: BTreeMap<UpdateName, UpdateHandler>,
    any_update: Option<UpdateHandler>,
    buffered_updates: BTreeMap<u64, UpdateJob>,

    /// Whether a handler was registered since buffered messages were last looked through.
    has_new_handlers: bool,
    arrived: u64,
}

/// Arriving.
impl Mailbox {
    /// A signal arrives.
    pub(crate) fn arrive(&mut self, signal: SignalMessage) -> Arrival {
        if signal.name.as_str() == PROMISE_SIGNAL {
            self.arrived += 1;
            return match self.promises.settle(self.arrived, &signal.input) {
                Ok(waiting) => Arrival::Settled(waiting),
                Err(error) => Arrival::Unreadable(error),
            };
        }
        if let Some((handler, end)) = self.handler(&signal.name) {
            return Arrival::Handle(Delivery::Signal {
                signal,
                handler,
                end,
            });
        }
        self.arrived += 1;
        let waiting = self.waiting.get(&signal.name);
        let waiting = waiting.into_iter().flatten().copied().collect();
        let queue = self.buffered.entry(signal.name.clone()).or_default();
        let arrived = self.arrived;
        queue.push_back(Kept { arrived, signal });
        Arrival::Buffered(waiting)
    }

    /// An update arrives; without a handler it is kept.
    pub(crate) fn arrive_update(&mut self, job: &UpdateJob) -> Option<Delivery> {
        let job = job.clone();
        if let Some(handler) = self.update_handler(&job.request.name) {
            return Some(Delivery::Update { job, handler });
        }
        self.arrived += 1;
        self.buffered_updates.insert(self.arrived, job);
        None
    }

    fn handler(&self, name: &SignalName) -> Option<(SignalHandler, HandlerEnd)> {
        if let Some((handler, end)) = self.handlers.get(name) {
            return Some((Rc::clone(handler), *end));
        }
        let any = self.any.as_ref().filter(|_| !self.received.contains(name));
        any.map(|(any, end)| {
            let (any, name) = (Rc::clone(any), name.clone());
            let handler: SignalHandler = Rc::new(move |ctx, input| any(ctx, name.clone(), input));
            (handler, *end)
        })
    }

    fn update_handler(&self, name: &UpdateName) -> Option<UpdateHandler> {
        let named = self.update_handlers.get(name);
        named.or(self.any_update.as_ref()).cloned()
    }
}

/// Handling.
impl Mailbox {
    /// From now on signals of this name have a handler.
    pub(crate) fn handle(&mut self, name: SignalName, handler: SignalHandler, end: HandlerEnd) {
        self.has_new_handlers = true;
        self.handlers.insert(name, (handler, end));
    }

    /// From now on signals that nobody else takes have a handler.
    pub(crate) fn handle_any(&mut self, handler: AnySignalHandler, end: HandlerEnd) {
        self.has_new_handlers = true;
        self.any = Some((handler, end));
    }

    /// From now on updates of this name have a handler.
    pub(crate) fn handle_update(&mut self, name: UpdateName, handler: UpdateHandler) {
        self.has_new_handlers = true;
        self.update_handlers.insert(name, handler);
    }

    /// From now on updates that nobody else takes have a handler.
    pub(crate) fn handle_any_update(&mut self, handler: UpdateHandler) {
        self.has_new_handlers = true;
        self.any_update = Some(handler);
    }

    /// Buffered messages that have a handler by now, in order of arrival.
    pub(crate) fn deliverable(&mut self) -> Vec<Delivery> {
        if !std::mem::take(&mut self.has_new_handlers) {
            return Vec::new();
        }
        let mut found = BTreeMap::new();
        let names: Vec<SignalName> = self.buffered.keys().cloned().collect();
        for name in names {
            let Some((handler, end)) = self.handler(&name) else {
                continue;
            };
            for kept in self.buffered.remove(&name).into_iter().flatten() {
                let (signal, handler) = (kept.signal, Rc::clone(&handler));
                found.insert(
                    kept.arrived,
                    Delivery::Signal {
                        signal,
                        handler,
                        end,
                    },
                );
            }
        }
        for (arrived, job) in std::mem::take(&mut self.buffered_updates) {
            match self.update_handler(&job.request.name) {
                Some(handler) => {
                    found.insert(arrived, Delivery::Update { job, handler });
                }
                None => {
                    self.buffered_updates.insert(arrived, job);
                }
            }
        }
        found.into_values().collect()
    }

    /// Updates that found no handler in their slice.
    pub(crate) fn unhandled_updates(&mut self) -> Vec<UpdateJob> {
        std::mem::take(&mut self.buffered_updates)
            .into_values()
            .collect()
    }
}

/// Receiving.
impl Mailbox {
    /// Takes the oldest buffered signal of this name.
    pub(crate) fn take(&mut self, name: &SignalName) -> Option<SignalMessage> {
        let queue = self.buffered.get_mut(name)?;
        let Kept { signal, .. } = queue.pop_front()?;
        if queue.is_empty() {
            self.buffered.remove(name);
        }
        Some(signal)
    }

    /// A `recv` begins to wait.
    pub(crate) fn wait(&mut self, name: SignalName, seq: Seq) {
        self.received.insert(name.clone());
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
}

/// Looking.
impl Mailbox {
    /// Whether signals of this name have a handler of their own.
    pub(crate) fn handles(&self, name: &SignalName) -> bool {
        self.handlers.contains_key(name)
    }

    /// The `recv`s that wait for this name.
    pub(crate) fn waiting(&self, name: &SignalName) -> impl Iterator<Item = Seq> {
        self.waiting.get(name).into_iter().flatten().copied()
    }

    pub(crate) fn has_handlers(&self) -> bool {
        !self.handlers.is_empty()
            || self.any.is_some()
            || !self.update_handlers.is_empty()
            || self.any_update.is_some()
    }

    /// Names of signals that have a handler, `*` for any other.
    pub(crate) fn signal_handlers(&self) -> impl Iterator<Item = &str> {
        let any = self.any.as_ref().map(|_| "*");
        self.handlers.keys().map(SignalName::as_str).chain(any)
    }

    /// Names of updates that have a handler, `*` for any other.
    pub(crate) fn update_handlers(&self) -> impl Iterator<Item = &str> {
        let any = self.any_update.as_ref().map(|_| "*");
        self.update_handlers
            .keys()
            .map(UpdateName::as_str)
            .chain(any)
    }

    /// Takes all signals that nobody took, in order of arrival.
    pub(crate) fn take_unread(&mut self) -> Vec<SignalMessage> {
        let settled = self.promises.take_unread();
        let settled = settled.map(|(arrived, input)| Kept {
            arrived,
            signal: SignalMessage {
                name: PROMISE_SIGNAL.into(),
                input,
                headers: Headers::new(),
            },
        });
        let buffered = std::mem::take(&mut self.buffered).into_values().flatten();
        let mut unread: Vec<Kept> = settled.chain(buffered).collect();
        unread.sort_by_key(|kept| kept.arrived);
        unread.into_iter().map(|kept| kept.signal).collect()
    }

    /// Signals nobody took, by name.
    pub(crate) fn unread(&self) -> impl Iterator<Item = (&SignalName, usize)> {
        self.buffered
            .iter()
            .map(|(name, queue)| (name, queue.len()))
    }
}

#[cfg(test)]
mod tests;
