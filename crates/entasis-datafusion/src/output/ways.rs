//! Which of two ways to evaluate a function was cheaper lately.

use std::time::Duration;

/// After so many batches the other way is tried again.
const TRIED_AGAIN: u32 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// For every row.
    ByRow,
    /// Once per distinct value.
    ByValue,
}

/// What both ways took when they were last gone, in nanoseconds per row.
#[derive(Debug, Default)]
pub(super) struct Ways {
    by_row: Option<f64>,
    by_value: Option<f64>,
    /// How often it was gone by value.
    by_value_count: u32,
    batches: u32,
}

/// A way that is being gone.
pub(super) struct Began {
    pub way: Way,
    rows: usize,
    at: Duration,
}

impl Began {
    /// The same, gone the other way in the end.
    pub fn by(self, way: Way) -> Self {
        Self { way, ..self }
    }
}

impl Ways {
    /// The way to go for the next batch.
    pub fn begin(&mut self, rows: usize) -> Began {
        self.batches += 1;
        let cheaper = match (self.by_value, self.by_row) {
            (None, _) => Way::ByValue,
            (_, None) => Way::ByRow,
            (Some(by_value), Some(by_row)) if by_value < by_row => Way::ByValue,
            // The first time may have been spent on what is there from then on.
            (Some(by_value), Some(_)) if by_value.is_finite() && self.by_value_count == 1 => Way::ByValue,
            _ => Way::ByRow,
        };
        let way = match (self.batches.is_multiple_of(TRIED_AGAIN), cheaper) {
            (false, cheaper) => cheaper,
            (true, Way::ByRow) => Way::ByValue,
            (true, Way::ByValue) => Way::ByRow,
        };
        Began { way, rows, at: worked() }
    }

    /// Remembers what it took.
    pub fn end(&mut self, began: Began) {
        if began.rows == 0 {
            return;
        }
        let taken = worked().saturating_sub(began.at).as_nanos() as f64;
        self.learn(began.way, taken / began.rows as f64);
    }

    fn learn(&mut self, way: Way, taken: f64) {
        match way {
            Way::ByRow => self.by_row = Some(taken),
            Way::ByValue => {
                let is_second = self.by_value_count == 1;
                self.by_value = Some(self.by_value.filter(|_| is_second).map_or(taken, |first| first.min(taken)));
                self.by_value_count += 1;
            }
        }
    }

    /// Remembers that there were too many values.
    pub fn cannot(&mut self) {
        self.by_value = Some(f64::INFINITY);
    }
}

/// What this thread has worked so far: what others took of its core in between counts for neither way.
fn worked() -> Duration {
    #[cfg(unix)]
    {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::try_from(now).unwrap_or_default()
    }
    #[cfg(not(unix))]
    {
        static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
        START.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go(ways: &mut Ways, dear: Option<Way>) -> Way {
        let way = ways.begin(1).way;
        ways.learn(way, if dear == Some(way) { 1_000.0 } else { 1.0 });
        way
    }

    #[test]
    fn the_cheaper_way_is_gone_and_the_other_tried_again() {
        for (dear, cheap) in [(Way::ByRow, Way::ByValue), (Way::ByValue, Way::ByRow)] {
            let mut ways = Ways::default();
            let gone: Vec<Way> = (0..2 * TRIED_AGAIN).map(|_| go(&mut ways, Some(dear))).collect();
            assert_eq!(gone[..2], [Way::ByValue, Way::ByRow]);
            // By value it is gone twice before that is held to be dear.
            let looked = if dear == Way::ByValue { 3 } else { 2 };
            assert_eq!(gone[2..].iter().filter(|&&way| way == dear).count(), looked, "{gone:?}");
            assert_eq!(gone[TRIED_AGAIN as usize - 1], dear);
            assert_eq!(gone[TRIED_AGAIN as usize], cheap);
        }
    }

    #[test]
    fn one_disturbance_decides_nothing() {
        let mut ways = Ways::default();
        assert_eq!(go(&mut ways, Some(Way::ByValue)), Way::ByValue);
        ways.begin(1);
        ways.learn(Way::ByRow, 100.0);
        assert!((0..10).all(|_| go(&mut ways, None) == Way::ByValue));
    }

    #[test]
    fn waiting_is_no_work() {
        let mut ways = Ways::default();
        let began = ways.begin(1);
        std::thread::sleep(Duration::from_millis(200));
        ways.end(began);
        assert!(cfg!(not(unix)) || ways.by_value.unwrap() < 100e6, "{ways:?}");
        let began = ways.begin(1);
        let (start, mut count) = (worked(), 0_u64);
        while worked() - start < Duration::from_millis(20) {
            count += 1;
        }
        ways.end(began);
        assert!(ways.by_row.unwrap() >= 20e6, "{ways:?}, {count}");
    }

    #[test]
    fn too_many_values_are_looked_for_again_later() {
        let mut ways = Ways::default();
        ways.cannot();
        for _ in 1..TRIED_AGAIN {
            assert_eq!(go(&mut ways, None), Way::ByRow);
        }
        assert_eq!(go(&mut ways, None), Way::ByValue);
    }
}
