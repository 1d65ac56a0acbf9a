// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Latencies of many operations as five numbers.

use serde::{Deserialize, Serialize};

/// Latencies in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Shortest.
    pub min_ps: u64,
    /// Median: half of the operations took no longer.
    pub typical_ps: u64,
    /// Mean.
    pub average_ps: u64,
    /// 99 of 100 operations took no longer.
    pub p99_ps: u64,
    /// Longest.
    pub max_ps: u64,
}

impl Latencies {
    /// Computes the five numbers of latencies in any order; all are 0 without latencies.
    pub fn of(mut latencies_ps: Vec<u64>) -> Self {
        if latencies_ps.is_empty() {
            return Self::default();
        }
        latencies_ps.sort_unstable();
        let sum: u128 = latencies_ps.iter().map(|&ps| u128::from(ps)).sum();
        let average = (sum + latencies_ps.len() as u128 / 2) / latencies_ps.len() as u128;
        Self {
            min_ps: latencies_ps[0],
            typical_ps: percentile(&latencies_ps, 50),
            average_ps: average as u64,
            p99_ps: percentile(&latencies_ps, 99),
            max_ps: latencies_ps[latencies_ps.len() - 1],
        }
    }
}

/// Returns the least value that `percent` percent of the sorted values do not exceed (nearest
/// rank).
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted[rank - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_nothing_and_of_one() {
        assert_eq!(Latencies::of(Vec::new()), Latencies::default());
        let one = Latencies::of(vec![7]);
        let all = [one.min_ps, one.typical_ps, one.average_ps, one.p99_ps, one.max_ps];
        assert_eq!(all, [7; 5]);
    }

    #[test]
    fn of_a_hundred_in_any_order() {
        let latencies = Latencies::of((1..=100).rev().collect());
        let expected =
            Latencies { min_ps: 1, typical_ps: 50, average_ps: 51, p99_ps: 99, max_ps: 100 };
        assert_eq!(latencies, expected);
    }

    #[test]
    fn huge_values_do_not_overflow() {
        assert_eq!(Latencies::of(vec![u64::MAX; 4]).average_ps, u64::MAX);
    }
}
