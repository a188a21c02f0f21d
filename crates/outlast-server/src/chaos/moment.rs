//! When the next worker dies: at a named point of the commit path, or at a random moment.

use std::collections::BTreeMap;
use std::time::Duration;

use outlast_service::points;

use crate::lot::Lot;

/// When a worker dies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// At the nth passing of a point.
    Point { name: &'static str, nth: u64 },
    /// So long after it was started, ready or not.
    AfterSpawn(Duration),
    /// So long after it said that it is ready.
    AfterReady(Duration),
    /// Not at all: it is left alone until it has nothing to say for so long.
    Quiet(Duration),
}

/// Chooses moments: half of them points, those that were reached least often first.
#[derive(Debug)]
pub(crate) struct Moments {
    lot: Lot,
    hits: BTreeMap<&'static str, u64>,
    misses: BTreeMap<&'static str, u64>,
}

impl Moments {
    pub(crate) fn new(seed: u64) -> Self {
        let none = || points::ALL.iter().map(|name| (*name, 0)).collect();
        Self {
            lot: Lot::new(seed),
            hits: none(),
            misses: none(),
        }
    }

    pub(crate) fn next(&mut self) -> Moment {
        match self.lot.below(8) {
            0..4 => self.point(),
            4 => Moment::AfterSpawn(Duration::from_micros(self.lot.below(20_000))),
            _ => Moment::AfterReady(Duration::from_micros(self.lot.below(80_000))),
        }
    }

    fn point(&mut self) -> Moment {
        let lot = &mut self.lot;
        let tries = |name: &&&str| self.hits[**name] * 2 + self.misses[**name];
        let fewest = points::ALL
            .iter()
            .map(|name| tries(&name))
            .min()
            .unwrap_or(0);
        let rarest: Vec<&'static str> = points::ALL
            .iter()
            .filter(|name| tries(name) == fewest)
            .copied()
            .collect();
        let pick = usize::try_from(lot.below(rarest.len() as u64)).unwrap_or(0);
        let name = rarest[pick];
        // A point that was missed is asked for at its first passing.
        let nth = if self.misses[name] > 0 {
            1
        } else {
            1 + lot.below(8)
        };
        Moment::Point { name, nth }
    }

    /// A worker reached the point it was to die at.
    pub(crate) fn hit(&mut self, name: &str) {
        if let Some(count) = self.hits.get_mut(name) {
            *count += 1;
        }
    }

    /// A worker did not reach it in time.
    pub(crate) fn missed(&mut self, name: &str) {
        if let Some(count) = self.misses.get_mut(name) {
            *count += 1;
        }
    }

    /// How many different points were reached.
    pub(crate) fn reached(&self) -> usize {
        self.hits.values().filter(|count| **count > 0).count()
    }

    /// Points that were never reached.
    pub(crate) fn unreached(&self) -> Vec<&'static str> {
        self.hits
            .iter()
            .filter(|(_, count)| **count == 0)
            .map(|(name, _)| *name)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_gets_its_turn() {
        let mut moments = Moments::new(3);
        for _ in 0..200 {
            if let Moment::Point { name, .. } = moments.next() {
                moments.hit(name);
            }
        }
        assert_eq!(moments.unreached(), [""; 0]);
        assert_eq!(moments.reached(), points::ALL.len());
    }
}
