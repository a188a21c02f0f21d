//! A queue from many branches to one.
//!
//! A sender of a full channel waits for room, first come first served; room is handed to the one
//! who waits, so that nobody overtakes. A value is taken when the receiver is polled: a receiver
//! that loses a race loses no value.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as Wakers, Poll};

use outlast_runtime::{Releaser, Wait};

use super::semaphore::{Permit, Semaphore};
use super::{Place, assert_writable, wait};
use crate::call_error::CallError;
use crate::wait::ended;

/// More room than any channel needs.
const ENDLESS: usize = usize::MAX / 2;

/// A channel that holds so many values; one more waits for room.
///
/// # Panics
/// Without any room.
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a channel needs room for one value at least");
    let shared = Rc::new(Shared {
        values: RefCell::default(),
        room: Semaphore::new(capacity),
        senders: Cell::new(1),
        is_closed: Cell::new(false),
        receiving: RefCell::default(),
    });
    let sender = Sender {
        shared: Rc::clone(&shared),
    };
    (sender, Receiver { shared })
}

/// A channel that never is full.
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    channel(ENDLESS)
}

/// Why a value was not sent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ChannelError {
    /// There is no room: wait with `send`.
    Full,
    /// The receiver is gone.
    Closed,
    /// The wait for room was cancelled.
    Cancelled(CallError),
}

impl fmt::Display for ChannelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the channel is full"),
            Self::Closed => f.write_str("the channel is closed: its receiver was dropped"),
            Self::Cancelled(error) => write!(f, "{error}"),
        }
    }
}

impl StdError for ChannelError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Full | Self::Closed => None,
            Self::Cancelled(error) => error.source(),
        }
    }
}

struct Shared<T> {
    values: RefCell<VecDeque<T>>,
    room: Semaphore,
    senders: Cell<usize>,
    is_closed: Cell<bool>,
    receiving: RefCell<Option<Releaser>>,
}

impl<T> Shared<T> {
    fn push(&self, permit: Permit<'_>, value: T) -> Result<(), ChannelError> {
        if self.is_closed.get() {
            return Err(ChannelError::Closed);
        }
        permit.forget();
        self.values.borrow_mut().push_back(value);
        self.wake_receiver();
        Ok(())
    }

    fn wake_receiver(&self) {
        if let Some(receiving) = self.receiving.take() {
            receiving.release();
        }
    }
}

/// Sends values into a channel.
pub struct Sender<T> {
    shared: Rc<Shared<T>>,
}

impl<T> Sender<T> {
    /// Sends a value, as soon as there is room.
    #[track_caller]
    pub fn send(&self, value: T) -> impl Future<Output = Result<(), ChannelError>> {
        assert_writable("a sent value");
        let acquire = self.shared.room.acquire();
        async move {
            let permit = acquire.await.map_err(ChannelError::Cancelled)?;
            self.shared.push(permit, value)
        }
    }

    /// Sends a value, if there is room now.
    ///
    /// # Errors
    /// There is none, or the receiver is gone.
    #[track_caller]
    pub fn try_send(&self, value: T) -> Result<(), ChannelError> {
        assert_writable("a sent value");
        match self.shared.room.try_acquire() {
            Some(permit) => self.shared.push(permit, value),
            None if self.is_closed() => Err(ChannelError::Closed),
            None => Err(ChannelError::Full),
        }
    }

    /// Whether the receiver is gone.
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed.get()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        let shared = Rc::clone(&self.shared);
        shared.senders.set(shared.senders.get() + 1);
        Self { shared }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let left = self.shared.senders.get() - 1;
        self.shared.senders.set(left);
        if left == 0 {
            self.shared.wake_receiver();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// Receives values from a channel.
pub struct Receiver<T> {
    shared: Rc<Shared<T>>,
}

impl<T> Receiver<T> {
    /// Waits for the next value; nothing when all senders are gone and all values are taken.
    #[track_caller]
    pub fn recv(&mut self) -> impl Future<Output = Result<Option<T>, CallError>> {
        Recv {
            receiver: self,
            place: Location::caller(),
            wait: None,
        }
    }

    /// The next value, if it is here.
    #[track_caller]
    pub fn try_recv(&mut self) -> Option<T> {
        assert_writable("a received value");
        self.take()
    }

    fn take(&self) -> Option<T> {
        let value = self.shared.values.borrow_mut().pop_front()?;
        self.shared.room.give_back(1);
        Some(value)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.is_closed.set(true);
        self.shared.room.give_back(ENDLESS);
        let values = self.shared.values.take();
        drop(values);
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("values", &self.shared.values.borrow().len())
            .finish_non_exhaustive()
    }
}

struct Recv<'a, T> {
    receiver: &'a Receiver<T>,
    place: Place,
    wait: Option<Wait>,
}

impl<T> Future for Recv<'_, T> {
    type Output = Result<Option<T>, CallError>;

    fn poll(mut self: Pin<&mut Self>, wakers: &mut Wakers<'_>) -> Poll<Self::Output> {
        let shared = &self.receiver.shared;
        if let Some(value) = self.receiver.take() {
            return Poll::Ready(Ok(Some(value)));
        }
        if shared.senders.get() == 0 {
            return Poll::Ready(Ok(None));
        }
        // One that was released found nothing: the value went to somebody else.
        let mut current = match self.wait.take() {
            Some(wait) if !wait.is_released() => wait,
            Some(_) | None => wait(self.place),
        };
        shared.receiving.replace(Some(current.releaser()));
        let polled = Pin::new(&mut current).poll(wakers);
        match polled {
            Poll::Ready(waited) => Poll::Ready(ended(waited, &current).map(|()| None)),
            Poll::Pending => {
                self.wait = Some(current);
                Poll::Pending
            }
        }
    }
}
