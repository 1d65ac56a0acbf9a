// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits caused by a bottleneck of another name.
//!
//! The account of a link names the waits of its sender, and the search names the bottleneck. Reads
//! may wait for tags because a slow datapath takes their completions slowly: the account then says
//! `no tag`, and the bottleneck is the datapath. Whether one causes the other is not guessed: the
//! wait has to disappear with the limit.

use crosslane_results::{Account, Consequence, LimitKind, Use};

/// Least share of the time for which a wait is mentioned.
const LEAST_SHARE: f64 = 0.1;
/// A wait is a consequence of a limit if at most this part of its share remains without the limit.
const LEFT: f64 = 0.5;

/// Returns the longest wait in an account, unless one of the limits is known by that wait.
pub(crate) fn to_explain(account: &Account, limits: &[LimitKind]) -> Option<Use> {
    let idle = account.uses.iter().filter(|entry| entry.what.is_idle());
    let longest = idle.max_by(|a, b| a.share.total_cmp(&b.share))?;
    let is_named = limits.iter().any(|kind| wait_of(*kind).contains(&longest.what));
    let is_known = longest.what != Use::NothingToSend;
    (longest.share >= LEAST_SHARE && is_known && !is_named).then_some(longest.what)
}

/// Returns the wait that a bottleneck causes, by the accounts of a run and of the same run without
/// it; `None` if they are of different directions, or the wait remains.
pub(crate) fn consequence(what: Use, account: &Account, without: &Account) -> Option<Consequence> {
    let (share, share_without) = (account.share(what), without.share(what));
    let has_gone = account.direction == without.direction && share_without <= LEFT * share;
    has_gone.then_some(Consequence { what, share, share_without })
}

/// Returns the waits that a limit causes directly at a sender.
const fn wait_of(kind: LimitKind) -> &'static [Use] {
    match kind {
        LimitKind::DescriptorGap | LimitKind::DescriptorFetch => &[Use::Descriptor],
        LimitKind::ReadingDescriptors => &[Use::Descriptor, Use::NoTag],
        LimitKind::Outstanding
        | LimitKind::Processor
        | LimitKind::SystemCall
        | LimitKind::Registration
        | LimitKind::Notification => &[Use::Host, Use::Descriptor],
        LimitKind::IdleClocks | LimitKind::Datapath => &[Use::SenderPace],
        LimitKind::Tags => &[Use::NoTag],
        LimitKind::PeerWindow => &[Use::PeerCredit],
        LimitKind::SlowReader => &[Use::PeerCredit, Use::NoCredit, Use::ReceiverBusy],
        LimitKind::MemoryWrite | LimitKind::PeerToPeer | LimitKind::PartialLines => {
            &[Use::NoCredit, Use::ReceiverBusy]
        }
        LimitKind::PostedCredits
        | LimitKind::NonPostedCredits
        | LimitKind::CompletionCredits
        | LimitKind::CreditReturn => &[Use::NoCredit],
        LimitKind::Iotlb => &[Use::Translation],
        LimitKind::ReplayBuffer => &[Use::ReplayBuffer],
        LimitKind::BitErrors => &[Use::Retraining],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosslane_results::TimeUse;

    fn account(direction: &str, uses: &[(Use, f64)]) -> Account {
        let uses = uses.iter().map(|(what, share)| TimeUse { what: *what, share: *share });
        Account {
            direction: direction.to_owned(),
            link: "Gen4 x8".to_owned(),
            span_ps: 1000,
            uses: uses.collect(),
            iommus: Vec::new(),
        }
    }

    #[test]
    fn only_the_longest_wait_of_another_name_is_taken() {
        let uses = [(Use::Payload, 0.5), (Use::NoTag, 0.4), (Use::SenderPace, 0.1)];
        let reads = account("host -> card", &uses);
        assert_eq!(to_explain(&reads, &[LimitKind::Datapath]), Some(Use::NoTag));
        assert_eq!(to_explain(&reads, &[LimitKind::Datapath, LimitKind::Tags]), None);
        let busy = account("host -> card", &[(Use::Payload, 0.95), (Use::NoTag, 0.05)]);
        assert_eq!(to_explain(&busy, &[LimitKind::Datapath]), None);
        let silent = account("host -> card", &[(Use::Payload, 0.1), (Use::NothingToSend, 0.9)]);
        assert_eq!(to_explain(&silent, &[LimitKind::Flight]), None);
    }

    #[test]
    fn a_wait_that_stays_is_no_consequence() {
        let reads = account("host -> card", &[(Use::Payload, 0.5), (Use::NoTag, 0.4)]);
        let of = |direction, left| {
            consequence(Use::NoTag, &reads, &account(direction, &[(Use::NoTag, left)]))
        };
        let gone = Consequence { what: Use::NoTag, share: 0.4, share_without: 0.1 };
        assert_eq!(of("host -> card", 0.1), Some(gone));
        assert_eq!(of("host -> card", 0.3), None);
        assert_eq!(of("card -> host", 0.1), None);
    }
}
