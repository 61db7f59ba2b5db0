//! How many buckets a filter needs, to answer wrongly no oftener than was asked.

use std::ops::RangeInclusive;

/// The share of wrong answers that is asked for where nobody says otherwise.
pub const BLOOM_RATE: f64 = 0.01;

/// Shares of wrong answers that can be asked for.
pub const BLOOM_RATES: RangeInclusive<f64> = 1e-6..=0.5;

/// Buckets for so many distinct values. The answer is the same on every machine: it takes nothing but sums, products and quotients, which IEEE
/// 754 fixes to the last bit.
pub fn buckets_for(distinct: usize, rate: f64) -> u32 {
    let buckets = distinct as f64 / load_for(rate);
    // Of 65,536 values at most: it fits.
    (buckets as u32 + u32::from(buckets.fract() > 0.0)).max(1)
}

/// The mean number of values in a bucket at which that share of answers is wrong.
fn load_for(rate: f64) -> f64 {
    let (mut low, mut high) = (0.0, MOST_LOAD);
    for _ in 0..STEPS {
        let middle = (low + high) / 2.0;
        if rate_of(middle) <= rate { low = middle } else { high = middle }
    }
    low
}

/// Beyond every load that a rate asks for.
const MOST_LOAD: f64 = 128.0;

/// Halvings that make a load exact to a billionth.
const STEPS: usize = 40;

/// Values in a bucket, of which more are out of the question.
const MOST_VALUES: usize = 512;

/// The share of wrong answers where buckets hold `load` values on average, their numbers being distributed as Poisson says.
fn rate_of(load: f64) -> f64 {
    // Weights are relative to that of no value, so that no exponential is needed.
    let (mut weight, mut weights, mut wrong) = (1.0, 0.0, 0.0);
    let mut unset = 1.0;
    for count in 0..MOST_VALUES {
        let set: f64 = 1.0 - unset;
        let square = set * set;
        wrong += weight * (square * square) * (square * square);
        weights += weight;
        weight *= load / (count + 1) as f64;
        unset *= 31.0 / 32.0;
    }
    wrong / weights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_come_out_as_they_were_asked() {
        for rate in [1e-6, 1e-4, 0.001, 0.01, 0.05, 0.1, 0.5] {
            let found = rate_of(load_for(rate));
            assert!(found <= rate && found > rate * 0.999_999, "{rate}: {found}");
        }
    }

    #[test]
    fn a_value_takes_as_many_bits_as_the_specification_says() {
        let bits = |rate| f64::from(buckets_for(65_536, rate)) * 256.0 / 65_536.0;
        assert!((10.5..10.8).contains(&bits(0.01)), "{}", bits(0.01));
        assert!(bits(0.1) < bits(0.01) && bits(0.01) < bits(0.001));
        assert_eq!((buckets_for(0, 0.01), buckets_for(1, 0.01)), (1, 1));
    }
}
