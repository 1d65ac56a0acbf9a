// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Accounts of the time of a direction of a link.

use crosslane_results::{TimeUse, Use};

/// Waits of those who feed a direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Feeding {
    /// Shares of the time in which data moved.
    pub losses: Vec<TimeUse>,
}

impl Feeding {
    /// Adds so much of a loss.
    pub fn add(&mut self, what: Use, share: f64) {
        match self.losses.iter_mut().find(|loss| loss.what == what) {
            Some(loss) => loss.share += share,
            None => self.losses.push(TimeUse { what, share }),
        }
    }
}

/// Shortages of a link, for which the next one waits as well.
pub(crate) const OF_LINKS: [Use; 5] =
    [Use::NoCredit, Use::ReceiverBusy, Use::Translation, Use::ReplayBuffer, Use::Retraining];

/// Idle time of which a link itself knows no more than that its sender had nothing for it.
const OF_THE_SENDER: [Use; 3] = [Use::SenderPace, Use::NoTag, Use::NothingToSend];

/// The uses of a direction where idle time of the sender is put down to what those who feed it
/// waited for. If they waited longer than it was idle (what they had sent before was still on its
/// way), each wait counts in proportion; if not so long, what is left is `rest`.
pub(crate) fn refined(uses: &[TimeUse], feeding: &Feeding, rest: Use) -> Vec<TimeUse> {
    let share = |what: Use| -> f64 {
        uses.iter().filter(|entry| entry.what == what).map(|entry| entry.share).sum()
    };
    let idle: f64 = OF_THE_SENDER.into_iter().map(share).sum();
    let lost: f64 = feeding.losses.iter().map(|loss| loss.share).sum();
    let scale = if lost > idle { idle / lost } else { 1.0 };
    let refined = |what: Use| {
        let own = if OF_THE_SENDER.contains(&what) { 0.0 } else { share(what) };
        let losses = feeding.losses.iter().filter(|loss| loss.what == what);
        let left = if what == rest { (idle - lost * scale).max(0.0) } else { 0.0 };
        own + losses.map(|loss| loss.share * scale).sum::<f64>() + left
    };
    let entry = |what: Use| TimeUse { what, share: refined(what) };
    Use::ALL.into_iter().map(entry).filter(|entry| entry.share > 0.0).collect()
}

/// The busiest of some directions, by their uses: the first along the way of those that are idle
/// for as short a time as any, to within a thousandth of the time.
pub(crate) fn busiest(uses: &[Vec<TimeUse>]) -> Option<usize> {
    let idle = |uses: &Vec<TimeUse>| -> f64 {
        uses.iter().filter(|entry| entry.what.is_idle()).map(|entry| entry.share).sum()
    };
    let counted = || uses.iter().enumerate().filter(|(_, uses)| !uses.is_empty());
    let least = counted().map(|(_, uses)| idle(uses)).min_by(f64::total_cmp)?;
    counted().find(|(_, uses)| idle(uses) <= least + SAME_SHARE).map(|(index, _)| index)
}

/// Shares that differ by no more than this are the same.
const SAME_SHARE: f64 = 0.001;

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(entries: &[(Use, f64)]) -> Vec<TimeUse> {
        entries.iter().map(|(what, share)| TimeUse { what: *what, share: *share }).collect()
    }

    fn rounded(entries: &[TimeUse]) -> Vec<(Use, f64)> {
        entries.iter().map(|entry| (entry.what, (entry.share * 1e6).round() / 1e6)).collect()
    }

    const LINK: [(Use, f64); 4] = [
        (Use::Payload, 0.7),
        (Use::SenderPace, 0.1),
        (Use::NoCredit, 0.05),
        (Use::NothingToSend, 0.15),
    ];

    #[test]
    fn what_an_engine_waited_for_takes_the_place_of_nothing_to_send() {
        let feeding = Feeding { losses: uses(&[(Use::Host, 0.15), (Use::Descriptor, 0.04)]) };
        let refined = refined(&uses(&LINK), &feeding, Use::SenderPace);
        assert_eq!(
            rounded(&refined),
            [
                (Use::Payload, 0.7),
                (Use::Descriptor, 0.04),
                (Use::Host, 0.15),
                (Use::SenderPace, 0.06),
                (Use::NoCredit, 0.05),
            ]
        );
    }

    #[test]
    fn waits_beyond_the_idle_time_count_in_proportion() {
        let feeding = Feeding { losses: uses(&[(Use::NoTag, 0.9), (Use::Descriptor, 0.1)]) };
        let refined = refined(&uses(&LINK), &feeding, Use::NothingToSend);
        assert_eq!(
            rounded(&refined),
            [
                (Use::Payload, 0.7),
                (Use::Descriptor, 0.025),
                (Use::NoTag, 0.225),
                (Use::NoCredit, 0.05)
            ]
        );
    }

    #[test]
    fn the_first_of_the_busiest_is_taken() {
        let of = |idle: f64| uses(&[(Use::Payload, 1.0 - idle), (Use::NoCredit, idle)]);
        assert_eq!(busiest(&[of(0.3), of(0.1004), of(0.1), Vec::new()]), Some(1));
        assert_eq!(busiest(&[Vec::new()]), None);
    }
}
