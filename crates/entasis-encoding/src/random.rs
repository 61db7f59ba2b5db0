//! Random numbers for tests and fuzz targets.

/// A small generator of numbers (SplitMix64): equal seeds give equal numbers on every machine.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator whose every output depends on `seed` only.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    #[expect(clippy::should_implement_trait, reason = "it never ends, and isn't walked")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// A number below `limit`, which isn't 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// One of `choices`, of which there is at least one.
    pub fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }
}
