//! Chance from a seed, and a hash: no dependency for twenty lines.

/// Numbers that look random and are the same for the same seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The same numbers for the same seeds, whatever their order of size.
    pub fn new(seeds: &[u64]) -> Self {
        let mut dice = Self(0x9e37_79b9_7f4a_7c15);
        for seed in seeds {
            dice.0 ^= *seed;
            dice.0 = dice.next();
        }
        dice
    }

    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        let end = end.max(1) as u64;
        usize::try_from(self.next() % end).unwrap_or(0)
    }

    /// True in one of `n` cases.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// A hash of bytes, eight at a time.
pub(crate) fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let mut sum = seed ^ (bytes.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let words = bytes.chunks_exact(8);
    let rest = words.remainder();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    for word in words {
        let mut eight = [0; 8];
        eight.copy_from_slice(word);
        sum = mix(sum, u64::from_le_bytes(eight));
    }
    mix(sum, u64::from_le_bytes(last))
}

fn mix(sum: u64, word: u64) -> u64 {
    let z = (sum ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (z ^ (z >> 29))
        .wrapping_mul(0xc4ce_b9fe_1a85_ec53)
        .rotate_left(23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_depends_on_every_byte_and_on_the_length() {
        let bytes: Vec<u8> = (0..100).collect();
        let whole = hash(1, &bytes);
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 0x80;
            assert_ne!(hash(1, &other), whole, "{at}");
        }
        assert_ne!(hash(1, &bytes[..99]), whole);
        assert_ne!(hash(1, &[0; 8]), hash(1, &[0; 16]));
        assert_ne!(hash(2, &bytes), whole);
    }

    #[test]
    fn the_same_seed_throws_the_same_numbers() {
        let throws = |seeds: &[u64]| {
            let mut dice = Dice::new(seeds);
            [(); 5].map(|()| dice.below(1_000_000))
        };
        assert_eq!(throws(&[1, 2]), throws(&[1, 2]));
        assert_ne!(throws(&[1, 2]), throws(&[2, 1]));
    }
}
