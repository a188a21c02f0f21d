//! A part of a record that the state of a run, its tasks and its attempts refer to as well: one
//! copy in memory, however many hold it. Stored as the value itself.

use alloc::sync::Arc;
use core::fmt;
use core::ops::{Deref, DerefMut};

use minicbor::{Decode, Decoder, Encode, Encoder, decode, encode};

/// A value with many holders. Cheap to clone.
#[derive(Clone)]
pub struct Shared<T>(Arc<T>);

/// Who holds the same value holds an equal one.
impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl<T> Shared<T> {
    /// Shares a value.
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: Default> Default for Shared<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Changes this holder's view only: the value is copied first if others hold it.
impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<C, T: Encode<C>> Encode<C> for Shared<T> {
    fn encode<W: encode::Write>(
        &self,
        e: &mut Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        self.0.encode(e, ctx)
    }
}

impl<'b, C, T: Decode<'b, C>> Decode<'b, C> for Shared<T> {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, decode::Error> {
        T::decode(d, ctx).map(Self::new)
    }
}
