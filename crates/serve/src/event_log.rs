// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of a server as lines of a log.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::error::ServeEvent;

/// Time in which events of one kind at one place have one line; the others are counted.
const PERIOD: Duration = Duration::from_secs(1);
/// Lines that events of one kind at one place may have at once, if they had none before: errors of
/// the lab come by the dozen, and one of them says it all.
const BURST: u32 = 10;
const BURST_OF_ERRORS: u32 = 1;

/// A log of a server's events without floods: a driver that looks for a card causes dozens of equal
/// errors, and a client that comes and goes thousands of lines.
#[derive(Debug, Default)]
pub struct EventLog {
    /// By place (device or port) and kind: as many as the lab has of them, whatever clients do.
    kinds: BTreeMap<(String, String), Told>,
}

#[derive(Debug)]
struct Told {
    /// Time at which the lines that were told would have been told one in each period.
    until: Instant,
    /// Events since the last line.
    more: u64,
    is_error: bool,
}

impl EventLog {
    /// Returns the lines for an event.
    pub fn lines(&mut self, event: &ServeEvent, now: Instant) -> Vec<String> {
        let (key, is_error) = match event {
            ServeEvent::Fabric { port, kind, .. } => ((port.clone(), kind.clone()), true),
            event => ((event.device().to_owned(), event.kind().to_owned()), false),
        };
        let burst = if is_error { BURST_OF_ERRORS } else { BURST };
        let fresh = || Told { until: now, more: 0, is_error };
        let told = self.kinds.entry(key.clone()).or_insert_with(fresh);
        let until = told.until.max(now);
        if until.saturating_duration_since(now) > PERIOD * (burst - 1) {
            told.more += 1;
            return Vec::new();
        }
        told.until = until + PERIOD;
        let own = more_line(&key, told);
        let mut lines: Vec<String> = own.into_iter().collect();
        if !is_error {
            // Events that a client has caused are told before its end.
            lines.extend(self.kinds.iter_mut().filter_map(|(key, told)| more_line(key, told)));
        }
        lines.push(event.to_string());
        lines
    }
}

/// Returns the line for events that had none, and counts from zero again.
fn more_line((place, kind): &(String, String), told: &mut Told) -> Option<String> {
    let more = std::mem::take(&mut told.more);
    let place = if told.is_error { format!("in the lab: {place}") } else { place.clone() };
    (more > 0).then(|| format!("{place}: {more} more of {kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(log: &mut EventLog, begun: Instant) -> impl FnMut(&ServeEvent, u64) -> Vec<String> {
        move |event, ms| log.lines(event, begun + Duration::from_millis(ms))
    }

    #[test]
    fn repeated_errors_are_counted() {
        let error = |number: u32| ServeEvent::Fabric {
            port: "up".to_owned(),
            kind: "Unsupported Request".to_owned(),
            error: format!("up at {number} ns: Unsupported Request: it routes nowhere"),
        };
        let ended = ServeEvent::Ended { device: "card".to_owned(), why: "closed".to_owned() };
        let (mut log, begun) = (EventLog::default(), Instant::now());
        let mut lines = lines(&mut log, begun);
        assert_eq!(lines(&error(1), 0).len(), 1, "the first is told");
        for number in 2..64 {
            assert!(lines(&error(number), number.into()).is_empty(), "{number}");
        }
        let more = "in the lab: up: 62 more of Unsupported Request";
        let after = lines(&error(64), 1001);
        assert_eq!((after.len(), after[0].as_str()), (2, more));
        assert!(lines(&error(65), 1002).is_empty());
        let last = lines(&ended, 1003);
        assert_eq!(last[0], "in the lab: up: 1 more of Unsupported Request");
        assert!(last[1].starts_with("card: the client has gone"), "{last:?}");
        assert_eq!(lines(&ended, 1004).len(), 1);
    }

    /// 10,000 clients in ten seconds that come, are refused and go, at two devices.
    #[test]
    fn a_flood_of_clients_has_few_lines() {
        let (mut log, begun) = (EventLog::default(), Instant::now());
        let mut lines = lines(&mut log, begun);
        let mut told = Vec::new();
        for number in 0..10_000 {
            let device = || format!("card{}", number % 2);
            for event in [
                ServeEvent::Connected { device: device() },
                ServeEvent::Refused { device: device(), why: format!("{number}") },
                ServeEvent::Ended { device: device(), why: format!("{number}") },
            ] {
                told.extend(lines(&event, number));
            }
        }
        // A burst of each kind and device, then each second a line and at most six counts.
        assert!(told.len() < 6 * 10 + 10 * 6 * 7, "{}", told.len());
        let counted = |line: &String| -> u64 {
            match line.split_once(" more of ") {
                Some((before, _)) => before.rsplit(' ').next().unwrap().parse().unwrap(),
                None => 1,
            }
        };
        // The rest is told with the next event.
        let next = lines(&ServeEvent::Connected { device: "card0".to_owned() }, 60_000);
        let sum: u64 = told.iter().chain(&next).map(counted).sum();
        assert_eq!(sum, 30_001);
    }
}
