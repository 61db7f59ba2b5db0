//! CPU time of repeated work.

use rustix::time::{ClockId, clock_gettime};

use crate::exit::Failure;

/// CPU seconds of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// The shortest.
    pub least: f64,
    /// The one in the middle.
    pub median: f64,
    /// The longest.
    pub most: f64,
}

/// How work is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Samples of each work, at least one.
    pub rounds: usize,
    /// What is too short for the clock is repeated until a sample takes this long.
    pub sample_seconds: f64,
}

/// CPU seconds that this process has spent, in all its threads.
pub fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Work that can be repeated.
pub type Work<'a> = Box<dyn FnMut() -> Result<(), Failure> + 'a>;

/// CPU seconds of one run of each work. They take turns, so that a machine that slows down does so for all. Each is run once before,
/// to warm up and to learn how often it fits a sample.
pub fn interleaved(works: &mut [Work<'_>], plan: Plan) -> Result<Vec<Times>, Failure> {
    let mut repeats = Vec::with_capacity(works.len());
    for work in works.iter_mut() {
        let seconds = timed(work, 1)?;
        repeats.push((plan.sample_seconds / seconds.max(1e-7)).ceil().max(1.0) as usize);
    }
    let mut samples = vec![Vec::with_capacity(plan.rounds); works.len()];
    for _ in 0..plan.rounds.max(1) {
        for ((work, repeats), samples) in works.iter_mut().zip(&repeats).zip(&mut samples) {
            samples.push(timed(work, *repeats)?);
        }
    }
    Ok(samples.iter_mut().map(|samples| times(samples)).collect())
}

fn timed(work: &mut Work<'_>, repeats: usize) -> Result<f64, Failure> {
    let begin = cpu_seconds();
    for _ in 0..repeats {
        work()?;
    }
    Ok((cpu_seconds() - begin) / repeats as f64)
}

/// Of at least one sample.
fn times(samples: &mut [f64]) -> Times {
    samples.sort_by(f64::total_cmp);
    Times { least: samples[0], median: samples[samples.len() / 2], most: samples[samples.len() - 1] }
}

/// The geometric mean; 1 of nothing.
pub fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let logarithms: Vec<f64> = values.map(|value| value.max(1e-9).ln()).collect();
    (logarithms.iter().sum::<f64>() / logarithms.len().max(1) as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn longer_work_takes_longer() {
        let busy = |count: u64| -> Work<'static> {
            Box::new(move || {
                black_box((0..count).fold(0u64, |sum, number| black_box(sum ^ number)));
                Ok(())
            })
        };
        let plan = Plan { rounds: 3, sample_seconds: 0.02 };
        let seconds = interleaved(&mut [busy(10_000), busy(1_000_000)], plan).unwrap();
        assert!(seconds[0].least > 0.0 && seconds[1].median > 10.0 * seconds[0].median, "{seconds:?}");
        assert_eq!(times(&mut [3.0, 1.0, 2.0]), Times { least: 1.0, median: 2.0, most: 3.0 });
    }

    #[test]
    fn of_nothing_and_of_a_half_and_its_double_the_mean_is_one() {
        assert!((geometric_mean([0.5, 2.0].into_iter()) - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(std::iter::empty()), 1.0);
    }
}
