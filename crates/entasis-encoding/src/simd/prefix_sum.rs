//! Running sums inside registers (Hillis and Steele's scan, CACM 1986, in each register; a carry from one to the next).

use super::level::Level;
use super::register::{Register, RegisterKernel, run_in_registers};
use crate::PackedLane;

/// Replaces differences by the values that they lead to: `values[0]` becomes `first` (what it held is ignored), and
/// every later value the sum of itself and the one before, wrapping.
pub fn prefix_sum<T: PackedLane>(first: T, values: &mut [T]) {
    prefix_sum_at(Level::detect(), first, values);
}

/// [`prefix_sum`] at a given level.
pub fn prefix_sum_at<T: PackedLane>(level: Level, first: T, values: &mut [T]) {
    let Some(start) = values.first_mut() else { return };
    *start = first;
    // Four 64-bit lanes are too few for a scan to be faster than plain additions.
    if level == Level::Avx2 && T::BITS == 64 {
        return sum_portably(T::default(), values);
    }
    let kernel = PrefixSum { values: values.as_mut_ptr().cast(), size_bytes: size_of_val(values) };
    // SAFETY: the kernel's lane is `T`, of which `values` holds `size_bytes`.
    if !unsafe { run_in_registers::<T>(level, kernel) } {
        sum_portably(T::default(), values);
    }
}

/// Adds to each value all those before it and `carry`.
#[inline(always)]
fn sum_portably<T: PackedLane>(mut carry: T, values: &mut [T]) {
    for value in values {
        carry = carry.add(*value);
        *value = carry;
    }
}

struct PrefixSum {
    values: *mut u8,
    size_bytes: usize,
}

impl RegisterKernel for PrefixSum {
    #[inline(always)]
    unsafe fn run<R: Register>(self) {
        let whole_bytes = self.size_bytes - self.size_bytes % R::BYTES;
        let lane_bytes = size_of::<R::Lane>();
        // SAFETY: every access is to whole registers or lanes below `size_bytes`; the caller vouches for the processor
        // and for `values` being lanes of `R::Lane`, aligned as such.
        unsafe {
            let mut carry = R::splat(R::Lane::default());
            for at in (0..whole_bytes).step_by(R::BYTES) {
                let sums = R::load(self.values.add(at)).prefix_sum();
                carry.add(sums).store(self.values.add(at));
                // Off the carry's own chain, so that it costs one addition per register.
                carry = carry.add(sums.splat_last());
            }
            let carry = match whole_bytes {
                0 => R::Lane::default(),
                _ => self.values.add(whole_bytes - lane_bytes).cast::<R::Lane>().read(),
            };
            let rest = std::slice::from_raw_parts_mut(
                self.values.add(whole_bytes).cast::<R::Lane>(),
                (self.size_bytes - whole_bytes) / lane_bytes,
            );
            sum_portably(carry, rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::test_values::{self, for_each_lane};
    use proptest::prelude::*;

    fn agrees_with_the_definition<T: PackedLane>() {
        for row_count in [0, 1, 2, 3, 7, 8, 15, 16, 31, 33, 63, 64, 65, 127, 129, 1000, 1024] {
            for values in test_values::adversarial::<T>(row_count) {
                let first = T::from_u64(0x8000_0000_0000_00fb);
                let mut expected = values.clone();
                for row in 0..row_count {
                    expected[row] = if row == 0 { first } else { expected[row - 1].add(values[row]) };
                }
                for level in Level::available() {
                    let mut sums = values.clone();
                    prefix_sum_at(level, first, &mut sums);
                    assert_eq!(sums, expected, "{row_count} rows at {level:?}");
                }
            }
        }
    }

    #[test]
    fn sums_are_the_same_on_every_level() {
        for_each_lane!(agrees_with_the_definition);
    }

    proptest! {
        #[test]
        fn differences_lead_back_to_their_values(values in prop::collection::vec(any::<u16>(), 1..300)) {
            let mut sums: Vec<u16> = values.iter().scan(0, |last: &mut u16, &value| {
                Some(value.wrapping_sub(std::mem::replace(last, value)))
            }).collect();
            prefix_sum(values[0], &mut sums);
            prop_assert_eq!(sums, values);
        }
    }
}
