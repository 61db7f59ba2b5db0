//! Inputs that kernels are tested with.

use crate::PackedLane;

/// Calls a function that is generic over a packed lane with each of them.
macro_rules! for_each_lane {
    ($test:ident) => {
        $test::<u8>();
        $test::<u16>();
        $test::<u32>();
        $test::<u64>();
    };
}
pub(crate) use for_each_lane;

/// A reproducible sequence of well-mixed 64-bit numbers (SplitMix64; Steele, Lea and Flood, OOPSLA 2014).
pub(crate) fn random(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}

/// Vectors of `row_count` values: random, all zero, all ones, extremes in turn, and a rising sequence.
pub(crate) fn adversarial<T: PackedLane>(row_count: usize) -> Vec<Vec<T>> {
    let vector = |value: &dyn Fn(usize) -> u64| (0..row_count).map(|row| T::from_u64(value(row))).collect();
    let numbers: Vec<u64> = random(row_count as u64).take(row_count).collect();
    vec![
        vector(&|row| numbers[row]),
        vector(&|_| 0),
        vector(&|_| u64::MAX),
        vector(&|row| if row % 3 == 0 { u64::MAX } else { row as u64 % 2 }),
        vector(&|row| row as u64),
    ]
}
