//! What was measured of a query.

use serde_json::{Map, Value, json};

use super::answers::Agreement;
use super::contender::Run;

/// A query that is this much slower on Entasis is one too many.
const MOST_RATIO: f64 = 1.05;
/// Of queries that take less than [`GRACE_BELOW_SECONDS`], so much is within what can be measured.
const GRACE_SECONDS: f64 = 0.002;
const GRACE_BELOW_SECONDS: f64 = 0.02;

/// A query's figures: medians of CPU time, Entasis first.
pub struct Figures {
    pub number: usize,
    pub sql: String,
    pub rows: usize,
    pub agreement: Agreement,
    pub rounds: usize,
    pub contenders: Vec<OfContender>,
    /// CPU time on Entasis over that on the better of the others.
    pub ratio: Interval,
    /// The same, without planning.
    pub without_planning: f64,
}

/// Medians of one contender, in seconds.
pub struct OfContender {
    pub name: &'static str,
    pub cpu: f64,
    pub wall: f64,
    pub planning: f64,
    pub bytes_read: u64,
}

/// A median, and the bounds between which it lies in 95 of 100 cases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub low: f64,
    pub median: f64,
    pub high: f64,
}

impl Figures {
    /// The figures of a query from the runs of each contender, which took turns.
    pub fn new(
        number: usize,
        sql: &str,
        rows: usize,
        agreement: Agreement,
        runs: Vec<(&'static str, Vec<Run>)>,
    ) -> Self {
        let contenders: Vec<OfContender> = runs
            .iter()
            .map(|(name, runs)| {
                let of = |value: fn(&Run) -> f64| Interval::of(runs.iter().map(value)).median;
                OfContender {
                    name,
                    cpu: of(|run| run.cpu),
                    wall: of(|run| run.wall),
                    planning: of(|run| run.planning),
                    bytes_read: runs.last().map_or(0, |run| run.bytes_read),
                }
            })
            .collect();
        let better = |value: fn(&OfContender) -> f64| {
            let best = (1..contenders.len())
                .min_by(|&left, &right| value(&contenders[left]).total_cmp(&value(&contenders[right])));
            best.unwrap_or(0)
        };
        let best = &runs[better(|one| one.cpu)].1;
        let ratio = Interval::of(runs[0].1.iter().zip(best).map(|(own, other)| own.cpu / other.cpu));
        let unplanned = better(|one| one.cpu - one.planning);
        let pairs = runs[0].1.iter().zip(&runs[unplanned].1);
        let without_planning =
            Interval::of(pairs.map(|(own, other)| (own.cpu - own.planning) / (other.cpu - other.planning))).median;
        let rounds = runs[0].1.len();
        Self { number, sql: sql.to_owned(), rows, agreement, rounds, contenders, ratio, without_planning }
    }

    /// The better of the ways to read Parquet.
    pub fn best(&self) -> &OfContender {
        let others = self.contenders.iter().skip(1);
        others.min_by(|left, right| left.cpu.total_cmp(&right.cpu)).unwrap_or(&self.contenders[0])
    }

    /// True if the query is slower on Entasis than it may be, and that isn't chance.
    pub fn is_slower(&self) -> bool {
        let more = self.contenders[0].cpu - self.best().cpu;
        let grace = if self.best().cpu < GRACE_BELOW_SECONDS { GRACE_SECONDS } else { 0.0 };
        self.ratio.low > MOST_RATIO && more > grace
    }

    pub fn to_json(&self) -> Value {
        let contenders: Map<String, Value> =
            self.contenders.iter().map(|one| (one.name.replace(' ', "_"), one.to_json())).collect();
        json!({
            "query": self.number,
            "sql": self.sql,
            "rows": self.rows,
            "answer": self.agreement.to_string(),
            "rounds": self.rounds,
            "ratio": self.ratio.median,
            "ratio_low": self.ratio.low,
            "ratio_high": self.ratio.high,
            "ratio_without_planning": self.without_planning,
            "contenders": contenders,
        })
    }
}

impl OfContender {
    fn to_json(&self) -> Value {
        json!({
            "cpu_seconds": self.cpu,
            "wall_seconds": self.wall,
            "planning_cpu_seconds": self.planning,
            "bytes_read": self.bytes_read,
        })
    }
}

impl Interval {
    /// Of at least one value. The bounds are order statistics: that of the sign test, which supposes nothing of how times spread.
    pub fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let count = values.len();
        // The greatest number of values that may be cut off at either end: the chance that the median lies beyond is 2.5 % at most.
        let (mut cut, mut chance, mut ways) = (0, 0.5f64.powi(count as i32), 1.0);
        while cut < count / 2 && chance <= 0.025 {
            cut += 1;
            ways *= (count + 1 - cut) as f64 / cut as f64;
            chance += ways * 0.5f64.powi(count as i32);
        }
        let cut = cut.saturating_sub(1);
        Self { low: values[cut], median: values[count / 2], high: values[count - 1 - cut] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_sign_test() {
        let of = |count: usize| Interval::of((0..count).map(|value| value as f64));
        assert_eq!(of(1), Interval { low: 0.0, median: 0.0, high: 0.0 });
        assert_eq!(of(3), Interval { low: 0.0, median: 1.0, high: 2.0 });
        // Of 15 values, the fourth and the twelfth bound the median in 96.5 % of cases.
        assert_eq!(of(15), Interval { low: 3.0, median: 7.0, high: 11.0 });
    }
}
