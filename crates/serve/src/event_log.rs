// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of a server as lines of a log.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::error::ServeEvent;

/// Errors of one kind at one port have one line in this time; the others are counted.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// A log of a server's events without repetitions: a driver that looks for a card causes dozens of
/// equal ones.
#[derive(Debug, Default)]
pub struct EventLog {
    /// Time of the last line, and errors since, by port and kind.
    errors: BTreeMap<(String, String), (Instant, u64)>,
}

impl EventLog {
    /// Returns the lines for an event.
    pub fn lines(&mut self, event: &ServeEvent, now: Instant) -> Vec<String> {
        let ServeEvent::Fabric { port, kind, .. } = event else {
            // Events that a client has caused are told before its end.
            let errors = std::mem::take(&mut self.errors);
            let more = errors.into_iter().filter_map(|(key, (_, more))| more_line(&key, more));
            return more.chain([event.to_string()]).collect();
        };
        let key = (port.clone(), kind.clone());
        match self.errors.get_mut(&key) {
            Some((told, more)) if now.saturating_duration_since(*told) < TOLD_EVERY => {
                *more += 1;
                Vec::new()
            }
            before => {
                let more = before.and_then(|(_, more)| more_line(&key, *more));
                self.errors.insert(key, (now, 0));
                more.into_iter().chain([event.to_string()]).collect()
            }
        }
    }
}

fn more_line((port, kind): &(String, String), more: u64) -> Option<String> {
    (more > 0).then(|| format!("in the lab: {port}: {more} more of {kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_errors_are_counted() {
        let error = |number: u32| ServeEvent::Fabric {
            port: "up".to_owned(),
            kind: "Unsupported Request".to_owned(),
            error: format!("up at {number} ns: Unsupported Request: it routes nowhere"),
        };
        let ended = ServeEvent::Ended { device: "card".to_owned(), why: "closed".to_owned() };
        let (mut told, begun) = (EventLog::default(), Instant::now());
        let mut lines =
            |event: &ServeEvent, ms| told.lines(event, begun + Duration::from_millis(ms));
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
}
