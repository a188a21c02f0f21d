//! Collections that most runs never put anything into: a null pointer until something is in them.
//!
//! A run has a dozen collections and most use one or two. An empty tree is small, but a dozen of
//! them are moved with every run, and each costs a call when the run is dropped; together that
//! was a twentieth of the engine's work. Stored like the collection itself.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use core::borrow::Borrow;
use core::ops::Deref;

use minicbor::{Decode, Decoder, Encode, Encoder, decode, encode};

/// A collection that is rarely used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rare<T>(Option<Box<T>>);

/// What can be rare: there is one empty value for all that have none.
pub(crate) trait Empty: Default + 'static {
    /// It.
    fn empty() -> &'static Self;
}

impl<K: 'static, V: 'static> Empty for BTreeMap<K, V> {
    fn empty() -> &'static Self {
        const { &Self::new() }
    }
}

impl<K: 'static> Empty for BTreeSet<K> {
    fn empty() -> &'static Self {
        const { &Self::new() }
    }
}

/// Reading needs no memory; there is no `DerefMut`, since most changes must need none either.
impl<T: Empty> Deref for Rare<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Some(some) => some,
            None => T::empty(),
        }
    }
}

impl<T: Empty> Rare<T> {
    /// Takes everything out.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }

    /// To put something in.
    pub(crate) fn made(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<K: Ord + 'static, V: 'static> Rare<BTreeMap<K, V>> {
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.made().insert(key, value)
    }

    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.0.as_mut()?.remove(key)
    }

    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.0.as_mut()?.get_mut(key)
    }
}

impl<K: Ord + 'static> Rare<BTreeSet<K>> {
    pub(crate) fn insert(&mut self, key: K) -> bool {
        self.made().insert(key)
    }

    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.as_mut().is_some_and(|keys| keys.remove(key))
    }
}

impl<T: Empty + Extend<I>, I> Extend<I> for Rare<T> {
    fn extend<S: IntoIterator<Item = I>>(&mut self, items: S) {
        let mut items = items.into_iter();
        if let Some(first) = items.next() {
            self.made().extend(core::iter::once(first).chain(items));
        }
    }
}

impl<T: Empty + Extend<I>, I> FromIterator<I> for Rare<T> {
    fn from_iter<S: IntoIterator<Item = I>>(items: S) -> Self {
        let mut rare = Self(None);
        rare.extend(items);
        rare
    }
}

impl<T: Empty + PartialEq> PartialEq for Rare<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<C, T: Empty + Encode<C>> Encode<C> for Rare<T> {
    fn encode<W: encode::Write>(
        &self,
        e: &mut Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        (**self).encode(e, ctx)
    }
}

impl<'b, C, T: Empty + Decode<'b, C> + PartialEq> Decode<'b, C> for Rare<T> {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, decode::Error> {
        let found = T::decode(d, ctx)?;
        Ok(Self((found != *T::empty()).then(|| Box::new(found))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    type Map = Rare<BTreeMap<u8, u8>>;

    #[test]
    fn what_is_taken_out_needs_no_memory_and_equals_what_never_was() {
        let mut map = Map::default();
        assert_eq!(map.remove(&1), None);
        assert!(map.get_mut(&1).is_none() && map.0.is_none());
        map.extend(None::<(u8, u8)>);
        assert!(map.0.is_none());
        assert_eq!(map.insert(1, 2), None);
        assert_eq!(map.remove(&1), Some(2));
        assert_eq!(map, Map::default());
        map.clear();
        assert!(map.0.is_none() && map.is_empty());
    }

    #[test]
    fn it_is_stored_like_what_it_holds() {
        for entries in [vec![], vec![(1, 2), (3, 4)]] {
            let plain: BTreeMap<u8, u8> = entries.iter().copied().collect();
            let rare: Map = entries.into_iter().collect();
            let bytes = minicbor::to_vec(&plain).expect("encodes");
            assert_eq!(minicbor::to_vec(&rare).expect("encodes"), bytes);
            assert_eq!(minicbor::decode::<Map>(&bytes).expect("decodes"), rare);
        }
    }
}
