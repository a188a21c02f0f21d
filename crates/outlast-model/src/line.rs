//! A map for what is numbered in order and mostly leaves in order: a line of waiting things.
//!
//! Operations of a run get ascending numbers, and most end about in the order in which they
//! began. So a new one joins at the back, and one that leaves from between others leaves a gap,
//! until those before it have left too: everything is where its number says, and nothing is
//! searched for or moved. When most of a line is gaps it closes up, and from then on numbers only
//! tell about where to look. Stored like a map.

use alloc::collections::VecDeque;

use minicbor::{Decode, Decoder, Encode, Encoder, decode, encode};

use crate::id::Seq;

/// What names a thing in a [`Line`].
pub trait Numbered: Copy + Ord {
    /// How far it is behind the first of the line, if none in between has left. It may be wrong,
    /// then it is searched for.
    fn behind(self, first: Self) -> usize;
}

impl Numbered for Seq {
    fn behind(self, first: Self) -> usize {
        self.0.wrapping_sub(first.0) as usize
    }
}

/// So many gaps may always stay.
const GAPS: usize = 1_024;

/// A map, sorted by key. The first and the last are never gaps.
#[derive(Clone, Debug)]
pub struct Line<K, V> {
    places: VecDeque<(K, Option<V>)>,
    len: usize,
}

impl<K, V> Default for Line<K, V> {
    fn default() -> Self {
        Self {
            places: VecDeque::new(),
            len: 0,
        }
    }
}

impl<K: Numbered, V> Line<K, V> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first of them.
    pub fn first(&self) -> Option<K> {
        self.places.front().map(|(key, _)| *key)
    }

    /// One of them.
    pub fn get(&self, key: K) -> Option<&V> {
        let at = self.find(key).ok()?;
        self.places.get(at)?.1.as_ref()
    }

    /// One of them, to be changed.
    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let at = self.find(key).ok()?;
        self.places.get_mut(at)?.1.as_mut()
    }

    /// Adds one, or puts it in place of the one with this key.
    pub fn insert(&mut self, key: K, value: V) {
        if self.places.back().is_none_or(|(last, _)| *last < key) {
            self.len += 1;
            return self.places.push_back((key, Some(value)));
        }
        match self.find(key) {
            Ok(at) => {
                let before = self.places[at].1.replace(value);
                self.len += usize::from(before.is_none());
            }
            Err(at) => {
                self.len += 1;
                self.places.insert(at, (key, Some(value)));
            }
        }
    }

    /// Takes one out.
    pub fn remove(&mut self, key: K) -> Option<V> {
        let at = self.find(key).ok()?;
        let value = self.places[at].1.take()?;
        self.len -= 1;
        while self.places.front().is_some_and(|(_, v)| v.is_none()) {
            self.places.pop_front();
        }
        while self.places.back().is_some_and(|(_, v)| v.is_none()) {
            self.places.pop_back();
        }
        if self.places.len() > 2 * self.len + GAPS {
            self.places.retain(|(_, value)| value.is_some());
        }
        Some(value)
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (K, &V)> {
        self.since_place(0)
    }

    /// Those from this key on, in order.
    pub fn since(&self, key: K) -> impl DoubleEndedIterator<Item = (K, &V)> {
        let (Ok(at) | Err(at)) = self.find(key);
        self.since_place(at)
    }

    /// Their keys, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = K> {
        self.iter().map(|(key, _)| key)
    }

    /// The things themselves, in order.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    fn since_place(&self, at: usize) -> impl DoubleEndedIterator<Item = (K, &V)> {
        let places = self.places.range(at..);
        places.filter_map(|(key, value)| Some((*key, value.as_ref()?)))
    }

    /// Where it is, or where it would be. Most are where the first one says: no call for these.
    #[inline]
    fn find(&self, key: K) -> Result<usize, usize> {
        let Some((first, _)) = self.places.front() else {
            return Err(0);
        };
        let guess = key.behind(*first);
        if self.places.get(guess).is_some_and(|(k, _)| *k == key) {
            return Ok(guess);
        }
        self.search(key)
    }

    #[inline(never)]
    fn search(&self, key: K) -> Result<usize, usize> {
        if self.places.back().is_some_and(|(last, _)| *last < key) {
            return Err(self.places.len());
        }
        self.places.binary_search_by_key(&key, |(k, _)| *k)
    }
}

impl<K: Numbered, V: PartialEq> PartialEq for Line<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<K: Numbered, V> FromIterator<(K, V)> for Line<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(items: I) -> Self {
        let mut line = Self::default();
        items
            .into_iter()
            .for_each(|(key, value)| line.insert(key, value));
        line
    }
}

impl<C, K: Numbered + Encode<C>, V: Encode<C>> Encode<C> for Line<K, V> {
    fn encode<W: encode::Write>(
        &self,
        e: &mut Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        e.map(self.len as u64)?;
        for (key, value) in self.iter() {
            key.encode(e, ctx)?;
            value.encode(e, ctx)?;
        }
        Ok(())
    }
}

impl<'b, C, K: Numbered + Decode<'b, C>, V: Decode<'b, C>> Decode<'b, C> for Line<K, V> {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, decode::Error> {
        d.map_iter_with(ctx)?.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    #[test]
    fn in_any_order_the_line_says_what_a_map_says() {
        let mut state = 7u64;
        let mut random = |below: u32| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            u32::try_from((state >> 33) % u64::from(below)).unwrap_or(0)
        };
        for keys in [1, 8, 300] {
            let (mut line, mut map) = (Line::default(), BTreeMap::new());
            for turn in 0..4_000u32 {
                let key = Seq(random(keys));
                match random(3) {
                    0 => assert_eq!(line.remove(key), map.remove(&key)),
                    1 => {
                        line.insert(key, turn);
                        map.insert(key, turn);
                    }
                    2.. => {
                        assert_eq!(line.get(key), map.get(&key));
                        assert_eq!(line.get_mut(key), map.get_mut(&key));
                    }
                }
                assert_eq!(line.len(), map.len());
                assert!(line.keys().eq(map.keys().copied()));
            }
            let all: Vec<_> = line.iter().map(|(key, value)| (key, *value)).collect();
            assert!(all.iter().copied().eq(map));
            let again: Line<Seq, u32> = all.iter().rev().copied().collect();
            assert_eq!(line, again);
        }
    }

    #[test]
    fn a_line_that_is_mostly_gaps_closes_up_and_finds_all_the_same() {
        let mut line: Line<Seq, u32> = (0..5_000).map(|n| (Seq(n), n)).collect();
        for n in (1..4_999).filter(|n| n % 1_000 != 0) {
            assert_eq!(line.remove(Seq(n)), Some(n));
        }
        assert!(line.places.len() <= 2 * line.len() + GAPS);
        line.insert(Seq(2_500), 7);
        let all = [
            (0, 0),
            (1_000, 1_000),
            (2_000, 2_000),
            (2_500, 7),
            (3_000, 3_000),
        ];
        let rest = [(4_000, 4_000), (4_999, 4_999)];
        let expected = all.into_iter().chain(rest);
        assert!(line.iter().map(|(key, n)| (key.0, *n)).eq(expected));
        assert_eq!(
            (line.get(Seq(3_000)), line.get(Seq(2_999))),
            (Some(&3_000), None)
        );
    }

    #[test]
    fn it_is_stored_like_a_map() {
        let map = BTreeMap::from([(Seq(3), 30u32), (Seq(4), 40), (Seq(9), 90)]);
        let stored = minicbor::to_vec(&map).expect("a map is encoded");
        let line: Line<Seq, u32> = minicbor::decode(&stored).expect("a line is decoded");
        assert!(line.iter().map(|(key, value)| (key, *value)).eq(map));
        assert_eq!(minicbor::to_vec(&line).expect("a line is encoded"), stored);
    }
}
