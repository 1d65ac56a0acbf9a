// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long the parts of a run computed, and which waited for which.

use std::fmt;
use std::time::Duration;

use crosslane_pcie::units::Picoseconds;
use serde::{Deserialize, Serialize};

/// Times of one part of a run, by the observer's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartTimes {
    /// Nodes of the torus that it simulated.
    pub nodes: usize,
    /// Time from its beginning, with the building of its part of the lab, to its end.
    pub ran: Duration,
    /// Time that it waited for each part: for the one that came last to an exchange.
    pub waited_for: Vec<Duration>,
    /// Number of exchanges with the other parts.
    pub exchanges: u64,
    /// Number of signals on cables that it sent to other parts.
    pub signals: u64,
}

impl PartTimes {
    pub(crate) fn new(nodes: usize, parts: usize) -> Self {
        Self { nodes, waited_for: vec![Duration::ZERO; parts], ..Self::default() }
    }

    pub(crate) fn waited(&mut self, last: usize, time: Duration, signals: u64) {
        self.waited_for[last] += time;
        self.exchanges += 1;
        self.signals += signals;
    }

    /// Time that it waited for others.
    pub fn waiting(&self) -> Duration {
        self.waited_for.iter().sum()
    }

    /// Time that it computed.
    pub fn busy(&self) -> Duration {
        self.ran.saturating_sub(self.waiting())
    }

    /// The part for which it waited longest, if it did.
    pub fn longest(&self) -> Option<(usize, Duration)> {
        let all = self.waited_for.iter().copied().enumerate();
        all.filter(|(_, time)| !time.is_zero())
            .max_by_key(|(part, time)| (*time, usize::MAX - part))
    }
}

/// Carriers of the parts of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carriers {
    /// Threads of this process.
    Threads,
    /// Processes, with the name of each.
    Processes(Vec<String>),
}

/// How a run in parts went. Its times are the machine's: no two runs have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartsReport {
    /// Carriers of the parts.
    pub by: Carriers,
    /// The parts.
    pub parts: Vec<PartTimes>,
    /// Time of all together.
    pub wall: Duration,
    /// The shortest cable that was cut: how far a part may run ahead of the others.
    pub lookahead: Picoseconds,
}

impl PartsReport {
    /// Share of the time of all threads or processes in which they computed, 0 to 1.
    pub fn efficiency(&self) -> f64 {
        let busy: Duration = self.parts.iter().map(PartTimes::busy).sum();
        let all = self.wall.as_secs_f64() * self.parts.len() as f64;
        if all > 0.0 { (busy.as_secs_f64() / all).min(1.0) } else { 0.0 }
    }
}

/// Formats one line about all parts, and one about each.
impl fmt::Display for PartsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |time: Duration| time.as_secs_f64();
        let signals: u64 = self.parts.iter().map(|part| part.signals).sum();
        let nodes: usize = self.parts.iter().map(|part| part.nodes).sum();
        let exchanges = self.parts.iter().map(|part| part.exchanges).max().unwrap_or(0);
        let (count, percent, wall) = (self.parts.len(), 100.0 * self.efficiency(), self.wall);
        let what = match self.by {
            Carriers::Threads if count == 1 => "thread",
            Carriers::Threads => "threads",
            Carriers::Processes(_) if count == 1 => "process",
            Carriers::Processes(_) => "processes",
        };
        write!(f, "{count} {what} for {nodes} nodes: efficiency {percent:.1} % of ")?;
        write!(f, "{:.2} s each; {exchanges} exchanges, ", seconds(wall))?;
        write!(f, "{signals} signals between parts, lookahead {}", self.lookahead)?;
        for (number, part) in self.parts.iter().enumerate() {
            let (busy, waiting) = (seconds(part.busy()), seconds(part.waiting()));
            let nodes = part.nodes;
            let place = match &self.by {
                Carriers::Threads => String::new(),
                Carriers::Processes(names) => format!(" ({})", names[number]),
            };
            write!(f, "\npart {number}{place}, {nodes} nodes: ")?;
            write!(f, "busy {busy:.2} s, waiting {waiting:.2} s")?;
            if let Some((other, time)) = part.longest() {
                write!(f, ", longest for part {other} ({:.2} s)", seconds(time))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn efficiency_and_waits_are_told() {
        let second = Duration::from_secs;
        let mut parts = vec![PartTimes::new(3, 2), PartTimes::new(2, 2)];
        parts[0].ran = second(10);
        parts[1].ran = second(10);
        parts[1].waited(0, second(4), 7);
        parts[1].waited(1, second(0), 0);
        let (wall, lookahead) = (second(10), Picoseconds::from_ns(136));
        let report = PartsReport { by: Carriers::Threads, parts, wall, lookahead };
        assert_eq!(report.efficiency(), 0.8);
        let text = report.to_string();
        let lines: Vec<&str> = text.lines().collect();
        let whole = "2 threads for 5 nodes: efficiency 80.0 % of 10.00 s each; 2 exchanges, \
                     7 signals between parts, lookahead 136 ns";
        assert_eq!(lines[0], whole);
        assert_eq!(lines[1], "part 0, 3 nodes: busy 10.00 s, waiting 0.00 s");
        let waits = "part 1, 2 nodes: busy 6.00 s, waiting 4.00 s, longest for part 0 (4.00 s)";
        assert_eq!(lines[2], waits);
        let names = ["rank 0 on a", "rank 1 on b"].map(str::to_owned).to_vec();
        let text = PartsReport { by: Carriers::Processes(names), ..report }.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], whole.replace("threads", "processes"));
        assert_eq!(lines[2], waits.replace("part 1,", "part 1 (rank 1 on b),"));
    }
}
