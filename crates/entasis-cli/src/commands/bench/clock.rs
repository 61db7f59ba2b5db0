//! CPU time of repeated work.

use rustix::time::{ClockId, clock_gettime};

use crate::exit::Failure;

/// What is too short for the clock is repeated until it takes this long.
const SHORTEST_SAMPLE_SECONDS: f64 = 0.02;

/// CPU seconds that this process has spent, in all its threads.
pub fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Work that can be repeated.
pub type Work<'a> = Box<dyn FnMut() -> Result<(), Failure> + 'a>;

/// Median CPU seconds of one run of each work, over `rounds` rounds in which they take turns, so that a machine that slows down
/// does so for all. Each is run once before, to warm up and to learn how often it fits a sample.
pub fn interleaved(works: &mut [Work<'_>], rounds: usize) -> Result<Vec<f64>, Failure> {
    let mut repeats = Vec::with_capacity(works.len());
    for work in works.iter_mut() {
        let seconds = timed(work, 1)?;
        repeats.push((SHORTEST_SAMPLE_SECONDS / seconds.max(1e-7)).ceil().max(1.0) as usize);
    }
    let mut samples = vec![Vec::with_capacity(rounds); works.len()];
    for _ in 0..rounds.max(1) {
        for ((work, repeats), samples) in works.iter_mut().zip(&repeats).zip(&mut samples) {
            samples.push(timed(work, *repeats)?);
        }
    }
    Ok(samples.iter_mut().map(|samples| median(samples)).collect())
}

fn timed(work: &mut Work<'_>, repeats: usize) -> Result<f64, Failure> {
    let begin = cpu_seconds();
    for _ in 0..repeats {
        work()?;
    }
    Ok((cpu_seconds() - begin) / repeats as f64)
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
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
        let seconds = interleaved(&mut [busy(10_000), busy(1_000_000)], 3).unwrap();
        assert!(seconds[0] > 0.0 && seconds[1] > 10.0 * seconds[0], "{seconds:?}");
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
    }
}
