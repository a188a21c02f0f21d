//! Random numbers of a run: the same on every replay, for ever.
//!
//! The seed is SipHash-1-3 with a zero key over the text of the run id and a closing 0xff, which
//! is what a Temporal cluster computes for the same run. The generator is xoshiro256** with its
//! state filled by splitmix64. Both are part of the replay contract: a change here changes what
//! open runs do, so the tests below hold published numbers.

use std::hash::Hasher;

use outlast_model::RunId;
use siphasher::sip::SipHasher13;

/// The generator of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random([u64; 4]);

impl Random {
    /// The generator of this run.
    pub fn of_run(run_id: RunId) -> Self {
        Self::seeded(seed(&run_id.to_string()))
    }

    /// A generator with this seed.
    pub fn seeded(seed: u64) -> Self {
        let mut state = seed;
        Self(std::array::from_fn(|_| splitmix(&mut state)))
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.0;
        let drawn = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        drawn
    }

    /// A version 4 UUID.
    pub fn uuid(&mut self) -> u128 {
        let high = u128::from(self.draw());
        let low = u128::from(self.draw());
        let bits = (high << 64) | low;
        let version = 0xf_u128 << 76;
        let variant = 0b11_u128 << 62;
        (bits & !(version | variant)) | (0x4_u128 << 76) | (0b10_u128 << 62)
    }
}

/// The seed that belongs to a run id's text.
pub fn seed(run_id: &str) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0, 0);
    hasher.write(run_id.as_bytes());
    hasher.write(&[0xff]);
    hasher.finish()
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::{DefaultHasher, Hash};

    #[test]
    fn the_generator_gives_the_published_numbers() {
        let mut random = Random([1, 2, 3, 4]);
        let drawn: Vec<u64> = (0..6).map(|_| random.draw()).collect();
        let published = [
            11520,
            0,
            1_509_978_240,
            1_215_971_899_390_074_240,
            1_216_172_134_540_287_360,
            607_988_272_756_665_600,
        ];
        assert_eq!(drawn, published);
    }

    #[test]
    fn the_seeding_gives_the_published_numbers() {
        let mut state = 1_477_776_061_723_855_037;
        let drawn: Vec<u64> = (0..3).map(|_| splitmix(&mut state)).collect();
        let published = [
            1_985_237_415_132_408_290,
            2_979_275_885_539_914_483,
            13_511_426_838_097_143_398,
        ];
        assert_eq!(drawn, published);
    }

    #[test]
    fn the_seed_is_the_hash_of_the_text_as_rust_hashes_it() {
        let text = "01234567-89ab-cdef-0123-456789abcdef";
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        assert_eq!(seed(text), hasher.finish());
    }

    #[test]
    fn a_run_keeps_its_numbers_for_ever() {
        let mut random = Random::of_run(RunId(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef));
        let first = random.clone();
        let drawn = [random.draw(), random.draw()];
        assert_eq!(drawn, FIRST_DRAWN);
        let uuid = RunId(first.clone().uuid()).to_string();
        assert_eq!(uuid.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&uuid.as_bytes()[19]));
    }

    const FIRST_DRAWN: [u64; 2] = [17_446_856_221_405_250_294, 18_434_312_063_041_123_002];
}
