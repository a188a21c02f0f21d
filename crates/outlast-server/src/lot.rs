//! Moments drawn by lot, the same for the same seed.

/// A source of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Lot {
    state: u64,
}

impl Lot {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: mix(seed) }
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(1);
        mix(self.state)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.draw() % end.max(1)
    }
}

/// Numbers that look drawn by lot: splitmix64.
pub(crate) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
