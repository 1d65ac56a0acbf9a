// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Activity of links in a run: their counters, read again and again, so that any span of a run can
//! be cut out afterwards; of a span the use of each direction, the ceiling of a flow, and the
//! account of the busiest direction's time.
//!
//! Read first: [`Samples`], then [`Counted`]; [`least_ceiling`] and [`crosslane_pcie::ceiling`].

use crosslane_fabric::{
    DirectionId, Fabric, IdleReason, IommuCounters, LinkCounters, LinkDirection, LinkId, Node,
    NodeKind,
};
use crosslane_pcie::ceiling::link_ceiling_bytes_per_second;
use crosslane_pcie::link::{Generation, LinkRate};
use crosslane_pcie::units::{HostId, Picoseconds};
use crosslane_results::{
    Account, DirectionLoad, IommuUse, Link, LinkShares, TimeUse, Use, distinct,
};
use strum::Display;

/// Labs with no more directions of links than this are counted as a whole; of larger ones, those
/// that the run's packets cross.
const MAX_DIRECTIONS: usize = 64;
/// Most samples that are kept; of a run that takes longer than thought every second one goes.
const MAX_SAMPLES: usize = 16_000;
/// Fewest samples at which one goes, however many directions each has.
const MIN_SAMPLES: usize = 64;

/// Counters at one time.
#[derive(Debug)]
struct Sample {
    at: Picoseconds,
    counters: Vec<LinkCounters>,
    iommus: Vec<IommuCounters>,
}

/// Counters of some directions at many times.
#[derive(Debug)]
pub(crate) struct Samples {
    /// Directions that are read; the first `used` of them are those that the run's packets cross.
    pub directions: Vec<DirectionId>,
    pub used: usize,
    /// Hosts with an IOMMU.
    iommus: Vec<HostId>,
    taken: Vec<Sample>,
    /// Time and counters of the last report of loads.
    told: Option<(Picoseconds, Vec<LinkCounters>)>,
}

impl Samples {
    /// Begins samples of a run whose packets cross these directions.
    pub fn new(fabric: &mut Fabric, used: impl IntoIterator<Item = DirectionId>) -> Self {
        let mut directions = distinct(used);
        let count = directions.len();
        if 2 * fabric.links().len() <= MAX_DIRECTIONS {
            let links = (0..fabric.links().len()).map(|link| LinkId(link as u32));
            let all = links.flat_map(|link| {
                [LinkDirection::Up, LinkDirection::Down]
                    .map(|heading| DirectionId { link, heading })
            });
            directions = distinct(directions.into_iter().chain(all));
        }
        let roots = fabric.nodes().iter().filter(|node| node.kind == NodeKind::RootComplex);
        let mut iommus: Vec<HostId> = roots.map(|node| node.host).collect();
        iommus.retain(|host| fabric.iommu(*host).is_some());
        Self { directions, used: count, iommus, taken: Vec::new(), told: None }
    }

    /// Reads the counters. True if every second sample has been dropped to make room: samples of a
    /// longer run may be taken half as often from now on.
    pub fn take(&mut self, fabric: &mut Fabric) -> bool {
        let is_full = self.taken.len() >= most_samples(self.directions.len());
        if is_full {
            thin(&mut self.taken);
        }
        let counters = self.directions.iter().map(|id| fabric.counters(*id)).collect();
        let iommus = self.iommus.iter().map(|host| fabric.iommu_counters(*host));
        let iommus = iommus.map(Option::unwrap_or_default).collect();
        self.taken.push(Sample { at: fabric.now(), counters, iommus });
        is_full
    }

    /// Returns the load of each direction since the last call, and before the first one since the
    /// beginning of the run; nothing if no time has passed.
    pub fn live(&mut self, fabric: &mut Fabric) -> Vec<DirectionLoad> {
        let now = fabric.now();
        let counters: Vec<LinkCounters> =
            self.directions.iter().map(|id| fabric.counters(*id)).collect();
        let begun = || self.taken.first().map(|it| (it.at, it.counters.clone()));
        let Some((then, before)) = self.told.take().or_else(begun) else { return Vec::new() };
        let span = now.since(then);
        let counted = counters.iter().zip(&before).map(|(last, first)| last.since(first));
        let counted = self.directions.iter().zip(counted);
        let loads = counted.map(|(id, counters)| direction_load(fabric, *id, &counters, span));
        let loads = if span.0 > 0 { loads.collect() } else { Vec::new() };
        self.told = Some((now, counters));
        loads
    }

    /// Returns the counts between two times: between the first and the last sample within them, or,
    /// if these are not two, between those around them.
    pub fn between<'a>(
        &'a self,
        fabric: &'a mut Fabric,
        from: Picoseconds,
        to: Picoseconds,
    ) -> Option<Counted<'a>> {
        let (first, last) = self.around(from, to)?;
        let span = last.at.since(first.at);
        let iommus = last.iommus.iter().zip(&first.iommus).zip(&self.iommus);
        let iommus = iommus
            .filter_map(|((last, first), host)| iommu_use(fabric, *host, &last.since(first), span));
        Some(Counted {
            iommus: iommus.collect(),
            fabric,
            directions: &self.directions,
            used: self.used,
            counters: last.counters.iter().zip(&first.counters).map(|(l, f)| l.since(f)).collect(),
            span,
        })
    }

    fn around(&self, from: Picoseconds, to: Picoseconds) -> Option<(&Sample, &Sample)> {
        let samples = &self.taken;
        let first = samples.partition_point(|sample| sample.at.0 < from.0);
        let last = samples.partition_point(|sample| sample.at.0 <= to.0).checked_sub(1)?;
        let (first, last) = if first < last {
            (first, last)
        } else {
            (first.saturating_sub(1), (last + 1).min(samples.len() - 1))
        };
        Some((samples.get(first)?, samples.get(last)?))
    }
}

/// Returns the use of an IOMMU in `span`; none if there is no IOMMU, or it was not asked.
fn iommu_use(
    fabric: &mut Fabric,
    host: HostId,
    counters: &IommuCounters,
    span: Picoseconds,
) -> Option<IommuUse> {
    let parameters = fabric.iommu(host)?;
    let root = |node: &&Node| node.kind == NodeKind::RootComplex && node.host == host;
    let name = fabric.nodes().iter().find(root)?.name.clone();
    (counters.requests() > 0).then(|| IommuUse {
        host: name,
        iotlb_entries: parameters.iotlb_entries,
        walk_ps: parameters.walk.0,
        walks: parameters.walks,
        requests: counters.requests(),
        misses: counters.misses,
        joined: counters.joined,
        walking_ps: counters.walking.0,
        queued_ps: counters.queued.0,
        waited_ps: counters.waited.0,
        walks_at_once: counters.walking.0 as f64 / span.0.max(1) as f64,
    })
}

/// Returns the most samples that are kept of so many directions: all samples of a large lab have
/// as many counters as those of a small one.
fn most_samples(directions: usize) -> usize {
    (MAX_SAMPLES * MAX_DIRECTIONS / directions.max(1)).clamp(MIN_SAMPLES, MAX_SAMPLES)
}

/// Drops every second one.
pub(crate) fn thin<T>(samples: &mut Vec<T>) {
    let mut is_kept = false;
    samples.retain(|_| {
        is_kept = !is_kept;
        is_kept
    });
}

/// Counts of directions over a span of a run.
pub(crate) struct Counted<'a> {
    pub fabric: &'a Fabric,
    /// The directions; the first `used` of them are those that the run's packets cross.
    pub directions: &'a [DirectionId],
    pub used: usize,
    pub counters: Vec<LinkCounters>,
    pub span: Picoseconds,
    /// Use of the IOMMUs that were asked for anything.
    pub iommus: Vec<IommuUse>,
}

impl Counted<'_> {
    fn rate(&self, id: DirectionId) -> LinkRate {
        self.fabric.link(id.link).parameters.rate
    }

    fn all(&self) -> impl Iterator<Item = (DirectionId, &LinkCounters)> {
        self.directions.iter().copied().zip(&self.counters)
    }

    pub fn counters(&self, id: DirectionId) -> LinkCounters {
        self.all().find(|(other, _)| *other == id).map_or_else(LinkCounters::default, |it| *it.1)
    }

    /// Returns the uses of a direction's time; none of one that was not counted.
    pub fn uses(&self, id: DirectionId) -> Vec<TimeUse> {
        let found = self.all().find(|(other, _)| *other == id);
        found.map_or_else(Vec::new, |(_, counters)| uses(self.rate(id), counters))
    }

    /// Returns the load of every direction.
    pub fn loads(&self) -> Vec<DirectionLoad> {
        let load = |(id, counters)| direction_load(self.fabric, id, counters, self.span);
        self.all().map(load).collect()
    }

    /// Returns the use of the used directions, each with the indexes of the flows whose data cross
    /// it.
    pub fn links(&self, data_of: impl Fn(DirectionId) -> Vec<usize>) -> Vec<Link> {
        let link =
            |(id, counters)| direction_use(self.fabric, id, counters, self.span, data_of(id));
        self.all().take(self.used).map(link).collect()
    }

    /// Returns the least ceiling along a path, with the DLLPs of the span.
    pub fn ceiling(&self, path: &[DirectionId], tlps: DataTlps) -> Option<Ceiling<DirectionId>> {
        let load = |id: &DirectionId| LinkLoad {
            link: *id,
            rate: self.rate(*id),
            dllp_bytes: self.counters(*id).dllp_bytes,
            span: self.span,
        };
        least_ceiling(path.iter().map(load), tlps)
    }

    /// Returns the longest share of each shortage of the links before `id` on a path.
    pub fn shortages_before(&self, path: &[DirectionId], id: DirectionId) -> Vec<TimeUse> {
        let before = path.iter().take_while(|other| **other != id);
        let before: Vec<Vec<TimeUse>> = before.map(|other| self.uses(*other)).collect();
        let longest = |what| {
            let shares = before.iter().map(|uses| share(uses, what));
            TimeUse { what, share: shares.fold(0.0, f64::max) }
        };
        OF_LINKS.into_iter().map(longest).filter(|loss| loss.share > 0.0).collect()
    }

    /// Returns the account of the busiest of some directions. `feeding` returns the waits of each
    /// of those who feed it, and the use that stands for other idle time of theirs.
    pub fn account(
        &self,
        candidates: &[DirectionId],
        feeding: impl FnOnce(DirectionId) -> (Vec<Vec<TimeUse>>, Use),
    ) -> Option<Account> {
        let all: Vec<Vec<TimeUse>> = candidates.iter().map(|id| self.uses(*id)).collect();
        let busiest = busiest(&all)?;
        let id = candidates[busiest];
        let (feeders, rest) = feeding(id);
        Some(Account {
            direction: direction_name(self.fabric, id),
            link: self.rate(id).to_string(),
            span_ps: self.span.0,
            uses: refined(&all[busiest], &average(&feeders), rest),
            iommus: self.iommus.clone(),
        })
    }
}

/// Returns the share of a use of time.
fn share(uses: &[TimeUse], what: Use) -> f64 {
    uses.iter().filter(|entry| entry.what == what).map(|entry| entry.share).sum()
}

/// Returns the waits of several who feed a direction: those of each count by their number.
fn average(feeders: &[Vec<TimeUse>]) -> Vec<TimeUse> {
    let mut losses: Vec<TimeUse> = Vec::new();
    for loss in feeders.iter().flatten() {
        let share = loss.share / feeders.len() as f64;
        match losses.iter_mut().find(|known| known.what == loss.what) {
            Some(known) => known.share += share,
            None => losses.push(TimeUse { what: loss.what, share }),
        }
    }
    losses
}

/// Shortages of a link, for which the next one waits as well.
const OF_LINKS: [Use; 5] =
    [Use::NoCredit, Use::ReceiverBusy, Use::Translation, Use::ReplayBuffer, Use::Retraining];

/// Idle time of which a link itself knows no more than that its sender had nothing for it.
const OF_THE_SENDER: [Use; 3] = [Use::SenderPace, Use::NoTag, Use::NothingToSend];

/// Returns the uses of a direction with its sender's idle time put down to the waits of those who
/// feed it. If they waited longer than it was idle (data that they had sent before were still on
/// their way), each wait counts in proportion; if less, the remainder is `rest`.
fn refined(uses: &[TimeUse], losses: &[TimeUse], rest: Use) -> Vec<TimeUse> {
    let idle: f64 = OF_THE_SENDER.into_iter().map(|what| share(uses, what)).sum();
    let lost: f64 = losses.iter().map(|loss| loss.share).sum();
    let scale = if lost > idle { idle / lost } else { 1.0 };
    let refined = |what: Use| {
        let own = if OF_THE_SENDER.contains(&what) { 0.0 } else { share(uses, what) };
        let losses = losses.iter().filter(|loss| loss.what == what);
        let left = if what == rest { (idle - lost * scale).max(0.0) } else { 0.0 };
        own + losses.map(|loss| loss.share * scale).sum::<f64>() + left
    };
    let entry = |what: Use| TimeUse { what, share: refined(what) };
    Use::ALL.into_iter().map(entry).filter(|entry| entry.share > 0.0).collect()
}

/// Returns the busiest of some directions, by their uses: the first along the path of those that
/// are idle for the shortest time, to within a thousandth of the time.
fn busiest(uses: &[Vec<TimeUse>]) -> Option<usize> {
    let idle = |uses: &Vec<TimeUse>| -> f64 {
        uses.iter().filter(|entry| entry.what.is_idle()).map(|entry| entry.share).sum()
    };
    let counted = || uses.iter().enumerate().filter(|(_, uses)| !uses.is_empty());
    let least = counted().map(|(_, uses)| idle(uses)).min_by(f64::total_cmp)?;
    counted().find(|(_, uses)| idle(uses) <= least + SAME_SHARE).map(|(index, _)| index)
}

/// Shares that differ by no more than this are the same.
const SAME_SHARE: f64 = 0.001;

/// Returns the use of a direction by its counters over `span`, in which data of `flows` crossed it.
pub(crate) fn direction_use(
    fabric: &Fabric,
    id: DirectionId,
    counters: &LinkCounters,
    span: Picoseconds,
    flows: Vec<usize>,
) -> Link {
    let rate = fabric.link(id.link).parameters.rate;
    let seconds = span.as_seconds();
    let a_second = |value: f64| if seconds > 0.0 { value / seconds } else { 0.0 };
    let share = |bytes: u64| a_second(bytes as f64 / rate.bytes_per_second());
    let idle = |reason: IdleReason| {
        let share = counters.idle_ps[reason as usize] as f64 / span.0.max(1) as f64;
        (reason.to_string().replace(' ', "_"), share)
    };
    let tlp_bytes = counters.payload_bytes + counters.header_bytes;
    let ceiling = match tlp_bytes == 0 || seconds <= 0.0 {
        true => 0.0,
        false => {
            let dllps = counters.dllp_bytes as f64 / seconds;
            (link_ceiling_bytes_per_second(rate) - dllps) * counters.payload_bytes as f64
                / tlp_bytes as f64
        }
    };
    Link {
        direction: direction_name(fabric, id),
        generation: rate.generation.number(),
        width: rate.width.lanes(),
        flows,
        bytes_per_second: a_second(counters.payload_bytes as f64),
        ceiling_bytes_per_second: ceiling,
        tlps: counters.tlps,
        replayed_tlps: counters.replayed_tlps,
        acks: counters.acks,
        naks: counters.naks,
        update_fcs: counters.update_fcs,
        payload_bytes: counters.payload_bytes,
        header_bytes: counters.header_bytes,
        replayed_bytes: counters.replayed_bytes,
        dllp_bytes: counters.dllp_bytes,
        skp_bytes: counters.skp_bytes,
        share: LinkShares {
            payload: share(counters.payload_bytes),
            header: share(counters.header_bytes),
            replay: share(counters.replayed_bytes),
            dllp: share(counters.dllp_bytes),
            skp: share(counters.skp_bytes),
            idle: IdleReason::ALL.into_iter().map(idle).collect(),
        },
    }
}

/// Returns the load of a direction by its counters over `span`.
pub(crate) fn direction_load(
    fabric: &Fabric,
    id: DirectionId,
    counters: &LinkCounters,
    span: Picoseconds,
) -> DirectionLoad {
    let rate = fabric.link(id.link).parameters.rate;
    let uses = uses(rate, counters);
    let busy = |entry: &&TimeUse| !entry.what.is_idle() && entry.what != Use::Skp;
    let seconds = span.as_seconds();
    let payload = counters.payload_bytes as f64;
    DirectionLoad {
        direction: direction_name(fabric, id),
        link: rate.to_string(),
        payload_bytes_per_second: if seconds > 0.0 { payload / seconds } else { 0.0 },
        busy_share: uses.iter().filter(busy).map(|entry| entry.share).sum(),
        uses,
    }
}

/// Returns the uses of a direction's time by its counters; none if no time has passed. Shares
/// are those of the time that was counted: a TLP counts as a whole when it is begun, so that this
/// differs from the time between two readings by the rest of one TLP.
pub(crate) fn uses(rate: LinkRate, counters: &LinkCounters) -> Vec<TimeUse> {
    let wire_ps = |bytes: u64| bytes as f64 / rate.bytes_per_second() * 1e12;
    let idle = |reason: IdleReason| counters.idle_ps[reason as usize] as f64;
    let ps = |what: Use| match what {
        Use::Payload => wire_ps(counters.payload_bytes),
        Use::Header => wire_ps(counters.header_bytes),
        Use::Replay => wire_ps(counters.replayed_bytes),
        Use::Dllp => wire_ps(counters.dllp_bytes),
        Use::Skp => wire_ps(counters.skp_bytes),
        Use::SenderPace => idle(IdleReason::RequesterGap),
        Use::NoTag => idle(IdleReason::NoTag),
        Use::NoCredit => idle(IdleReason::NoCredit),
        Use::ReceiverBusy => idle(IdleReason::ReceiverBusy),
        Use::Translation => idle(IdleReason::Translation),
        Use::ReplayBuffer => idle(IdleReason::ReplayBuffer),
        Use::Retraining => idle(IdleReason::Retraining),
        Use::NothingToSend => idle(IdleReason::NothingToSend),
        Use::Descriptor | Use::Host | Use::Stream | Use::PeerCredit => 0.0,
    };
    let whole: f64 = Use::ALL.into_iter().map(ps).sum();
    let used = |what: Use| TimeUse { what, share: ps(what) / whole };
    Use::ALL.into_iter().filter(|what| ps(*what) > 0.0).map(used).collect()
}

/// Returns the name of a direction: `fpga1 -> sw1.p1`.
pub fn direction_name(fabric: &Fabric, id: DirectionId) -> String {
    let (from, to) = fabric.direction_ends(id);
    format!("{} -> {}", fabric.port(from).name, fabric.port(to).name)
}

/// The TLPs that carry a flow's data, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DataTlps {
    /// Number of TLPs.
    pub tlps: u64,
    /// Data in all of them, bytes.
    pub data_bytes: u64,
    /// Payload as the wire has it, in whole double words.
    pub wire_payload_bytes: u64,
    /// Length of their header in double words.
    pub header_dw: u32,
}

impl DataTlps {
    /// Average data of a TLP in bytes.
    pub fn payload_bytes(&self) -> f64 {
        self.data_bytes as f64 / self.tlps.max(1) as f64
    }

    /// Share of the packet bytes of a link of a generation that is data, 0 to 1.
    pub fn efficiency(&self, generation: Generation) -> f64 {
        let overhead = self.tlps * u64::from(generation.tlp_framing_bytes() + 4 * self.header_dw);
        let wire = self.wire_payload_bytes + overhead;
        if wire == 0 { 0.0 } else { self.data_bytes as f64 / wire as f64 }
    }
}

/// Kind of TLP that carries the data of a ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
#[strum(serialize_all = "lowercase")]
pub enum Carrier {
    /// Memory writes.
    Writes,
    /// Completions of reads.
    Completions,
}

/// One direction of a link on the path of the data, and the DLLPs that a run sent in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkLoad<Id> {
    /// The direction of the link.
    pub link: Id,
    /// Rate of the link.
    pub rate: LinkRate,
    /// DLLPs in `span`, bytes on the wire.
    pub dllp_bytes: u64,
    /// Time over which the DLLPs were counted.
    pub span: Picoseconds,
}

/// A flow's ceiling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceiling<Id> {
    /// Rate of the data without taking off DLLPs, bytes per second.
    pub bytes_per_second: f64,
    /// Ceiling less the DLLPs that the run sent in that direction, bytes per second.
    pub less_dllps_bytes_per_second: f64,
    /// The direction that sets the latter.
    pub link: Id,
}

impl<Id> Ceiling<Id> {
    /// Returns the ceiling as plain data. `direction` is the name of its link, if it is said.
    pub fn result(
        &self,
        carrier: Carrier,
        tlps: DataTlps,
        direction: impl Into<Option<String>>,
    ) -> crosslane_results::Ceiling {
        crosslane_results::Ceiling {
            bytes_per_second: self.bytes_per_second,
            less_dllps_bytes_per_second: self.less_dllps_bytes_per_second,
            payload_bytes: tlps.payload_bytes(),
            carrier: carrier.to_string(),
            header_dw: tlps.header_dw,
            is_estimate: false,
            direction: direction.into(),
        }
    }
}

/// Returns the least ceiling along `links`, or `None` where there is no link.
pub fn least_ceiling<Id>(
    links: impl IntoIterator<Item = LinkLoad<Id>>,
    tlps: DataTlps,
) -> Option<Ceiling<Id>> {
    links
        .into_iter()
        .map(|load| {
            let efficiency = tlps.efficiency(load.rate.generation);
            let packets = link_ceiling_bytes_per_second(load.rate);
            let seconds = load.span.as_seconds();
            let dllps = if seconds > 0.0 { load.dllp_bytes as f64 / seconds } else { 0.0 };
            Ceiling {
                bytes_per_second: packets * efficiency,
                less_dllps_bytes_per_second: (packets - dllps).max(0.0) * efficiency,
                link: load.link,
            }
        })
        .min_by(|a, b| a.less_dllps_bytes_per_second.total_cmp(&b.less_dllps_bytes_per_second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_large_lab_have_no_more_counters() {
        assert_eq!([64, 128, 1000, 1 << 20].map(most_samples), [16_000, 8000, 1024, 64]);
    }

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
        let losses = uses(&[(Use::Host, 0.15), (Use::Descriptor, 0.04)]);
        let refined = refined(&uses(&LINK), &losses, Use::SenderPace);
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
        let losses = uses(&[(Use::NoTag, 0.9), (Use::Descriptor, 0.1)]);
        let refined = refined(&uses(&LINK), &losses, Use::NothingToSend);
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

    #[test]
    fn idle_reasons_are_those_of_the_fabric() {
        let reasons = IdleReason::ALL.map(|reason| reason.to_string());
        assert_eq!(reasons, crosslane_results::IDLE_REASONS);
    }

    #[test]
    fn efficiency_counts_whole_double_words_and_every_header() {
        let tlps = DataTlps { tlps: 2, data_bytes: 256, wire_payload_bytes: 256, header_dw: 3 };
        assert_eq!(tlps.efficiency(Generation::Gen3), 128.0 / 148.0);
        assert_eq!(tlps.efficiency(Generation::Gen6), 128.0 / 140.0);
        assert_eq!(tlps.payload_bytes(), 128.0);
        // Six bytes take eight on the wire.
        let odd = DataTlps { tlps: 1, data_bytes: 6, wire_payload_bytes: 8, header_dw: 4 };
        assert_eq!(odd.efficiency(Generation::Gen3), 6.0 / 32.0);
    }
}
