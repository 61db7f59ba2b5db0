//! Whether offsets ascend.

use super::level::{Kernel, Level, run_at};

/// Whether no value is below the one before it.
pub fn ascends<T: Copy + PartialOrd>(values: &[T]) -> bool {
    ascends_at(Level::detect(), values)
}

/// [`ascends`] at a given level.
pub fn ascends_at<T: Copy + PartialOrd>(level: Level, values: &[T]) -> bool {
    run_at(level, Ascends { values })
}

struct Ascends<'a, T> {
    values: &'a [T],
}

impl<T: Copy + PartialOrd> Kernel for Ascends<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        // All are looked at, without a branch: what doesn't ascend is rare.
        let later = self.values.get(1..).unwrap_or_default();
        self.values.iter().zip(later).fold(true, |ascend, (value, next)| ascend & (value <= next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_falls_is_found_wherever_it_is_on_every_level() {
        for count in [0, 1, 2, 7, 16, 33, 200] {
            let values: Vec<i32> = (0..count).map(|value| value / 3 - 20).collect();
            for level in Level::available() {
                assert!(ascends_at(level, &values), "{count} values at {level:?}");
                for at in 1..values.len() {
                    let mut falling: Vec<i64> = values.iter().map(|&value| i64::from(value)).collect();
                    falling[at] = falling[at - 1] - 1;
                    assert!(!ascends_at(level, &falling), "{count} values at {level:?}");
                }
            }
        }
    }
}
