// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Work whose scenarios can be repeated, shortened and with one thing changed: its [`Levers`], each
//! of which lifts one possible limit of a run.
//!
//! A lever exists only if it can change anything: in a part that the run uses, whose constant is
//! not yet the best possible. Constants are changed in the instance and not in its part, so that
//! other instances stay as they are. Equal limits of several nodes in one role, such as the gap of
//! each of eight identical engines, are one limit.
//!
//! Read first: [`Explainable`]; [`Spots`], the limits of a lab.

mod bridge;
mod flows;
mod links;
mod memories;
mod network;
mod nodes;
mod requesters;
mod stores;
mod ways;

use std::sync::Arc;

use crosslane_experiment::{Scenario, Work};
use crosslane_fabric::parameters::PortParameters;
use crosslane_lab::file::parts::{EndpointPart, RootComplexPart};
use crosslane_lab::{Lab, LabFile};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::quantity::size_words;
use crosslane_results::{Limit, LimitKind, distinct};

use crate::error::ExplainError;
use crate::search::Lever;
use ways::{Requester, Ways};

/// The limits of a scenario.
pub type Levers<W> = Result<Vec<Lever<W>>, ExplainError>;

/// Work whose scenarios can be explained.
pub trait Explainable: Work + 'static {
    /// Returns scenarios that can be explained in place of one, the preferred one first: a long run
    /// with fewer or shorter transfers, then with more of them, each with a description of how it
    /// was shortened. A run that is short enough to be made many times is itself among them,
    /// without description.
    fn shortened(scenario: &Scenario<Self>) -> Vec<Short<Scenario<Self>>>;

    /// Lists the limits of a scenario. `first` is the scenario before anything was lifted: the
    /// capabilities of its ports tell a link that is trained down from one that was made faster.
    ///
    /// # Errors
    /// A lab that cannot be built.
    fn levers(scenario: &Scenario<Self>, first: &Scenario<Self>) -> Levers<Self>;
}

/// A run that is explained in place of another, and how it was shortened; `None` for the run
/// itself.
pub type Short<C> = (C, Option<String>);

/// Factors by which a shortened run is lengthened, in bytes and transfers, one after the other,
/// until it is as fast as the whole run.
const LENGTHS: [u64; 4] = [1, 2, 4, 8];

/// Returns a shortened run for each of [`LENGTHS`], up to the first that is the whole run.
fn lengthened<C>(short: impl Fn(u64) -> Short<C>) -> Vec<Short<C>> {
    let mut all: Vec<Short<C>> = Vec::new();
    for times in LENGTHS {
        if all.last().is_none_or(|(_, words)| words.is_some()) {
            all.push(short(times));
        }
    }
    all
}

/// Bytes that a shortened run moves, as far as the numbers below allow: enough time for every
/// buffer and credit window on the path to fill and empty many times.
const SHORT_BYTES: u64 = 1 << 20;
/// The same for each of several flows, or for each card of a chain.
const SHORT_SHARED_BYTES: u64 = 512 << 10;
/// Most transfers of a shortened run before it is lengthened.
const SHORT_TRANSFERS: u64 = 1024;
/// Least number of times that the transfers in flight are posted anew: with fewer, the beginning
/// would count for more than in the whole run.
const SHORT_ROUNDS: u64 = 4;
/// Least length of a shortened transfer. The time around a transfer counts for a little more than
/// in the whole run, and for much more if transfers are shorter.
const SHORT_TRANSFER_BYTES: u64 = 128 << 10;

/// Bytes of a small page. A shortened transfer that must exceed some cache is a multiple of them.
const PAGE_BYTES: u64 = 4096;

/// A flow's transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transfers {
    count: u64,
    size_bytes: u64,
    outstanding: u64,
}

impl Transfers {
    const fn bytes(self) -> u64 {
        self.count.saturating_mul(self.size_bytes)
    }

    /// Returns transfers that can be explained in place of these, for [`Explainable::shortened`]:
    /// first about `bytes` of them, then up to the last of [`LENGTHS`] times as many. If the
    /// transfers in flight exceed `held_bytes`, they still do afterwards: a cache of that size must
    /// be as useless to the shortened run.
    fn shortened(self, bytes: u64, held_bytes: u64) -> Vec<Short<Self>> {
        let first = self.cut(bytes, 1, held_bytes);
        let mut found = vec![first];
        for times in LENGTHS {
            found.push(self.cut(bytes, times, held_bytes));
            found.push(self.fewer(bytes, times));
        }
        found.push(self);
        let most = bytes.saturating_mul(LENGTHS[LENGTHS.len() - 1]);
        found.retain(|other| *other == first || other.bytes() <= most);
        found[1..].sort_by_key(|other| other.bytes());
        let mut shortened: Vec<Short<Self>> = Vec::new();
        for transfers in found {
            if !shortened.iter().any(|(known, _)| *known == transfers) {
                shortened.push((transfers, self.words_of(transfers)));
            }
            if transfers == self {
                break;
            }
        }
        shortened
    }

    /// Returns fewer and shorter transfers of about `times` times `bytes`, enough to be posted
    /// several times over.
    fn cut(self, bytes: u64, times: u64, held_bytes: u64) -> Self {
        let bytes = bytes.saturating_mul(times);
        let rounds = self.outstanding.max(1).saturating_mul(SHORT_ROUNDS);
        let count = (bytes / self.size_bytes).min(SHORT_TRANSFERS * times).max(rounds);
        let count = count.min(self.count);
        let most = (bytes / count).max(SHORT_TRANSFER_BYTES);
        let at_once = self.outstanding.clamp(1, self.count.max(1));
        let beyond = match self.size_bytes.saturating_mul(at_once) > held_bytes {
            true => (held_bytes / at_once + 1).next_multiple_of(PAGE_BYTES),
            false => 0,
        };
        // Transfers are whole words.
        let most = most.max(beyond) / 4 * 4;
        Self { count, size_bytes: self.size_bytes.min(most), ..self }
    }

    /// Returns fewer transfers of the same length: with one in flight, the beginning and the end of
    /// each matter.
    fn fewer(self, bytes: u64, times: u64) -> Self {
        let count = (bytes.saturating_mul(times) / self.size_bytes).min(SHORT_TRANSFERS * times);
        Self { count: count.max(self.outstanding).max(1).min(self.count), ..self }
    }

    /// Describes how `short` was shortened from these.
    fn words_of(self, short: Self) -> Option<String> {
        let noun = if short.count == 1 { "transfer" } else { "transfers" };
        Some(match (short.count < self.count, short.size_bytes < self.size_bytes) {
            (false, false) => return None,
            (true, false) => format!("{} {noun} instead of {}", short.count, self.count),
            (false, true) if short.count == 1 => {
                format!(
                    "{} instead of {}",
                    size_words(short.size_bytes),
                    size_words(self.size_bytes)
                )
            }
            (_, true) => format!(
                "{} {noun} of {} instead of {} of {}",
                short.count,
                size_words(short.size_bytes),
                self.count,
                size_words(self.size_bytes)
            ),
        })
    }
}

/// Lifts a limit of a lab.
type Edit = Arc<dyn Fn(&mut LabFile) + Send + Sync>;

/// The best of all times.
const NO_TIME: Picoseconds = Picoseconds::ZERO;

/// Lifts parameters of some: each becomes the best that its declaration allows.
macro_rules! lift {
    ($parameters:expr => $($field:ident),+) => {{
        use crosslane_fabric::parameters::Parameters as _;
        let best = $parameters.fastest();
        $($parameters.$field = best.$field;)+
    }};
}
use lift;

/// Returns the latency of a port there and back: what is fixed, and symbol times of its link.
fn port_latency(port: &PortParameters) -> (Picoseconds, u32) {
    (port.receive_latency + port.transmit_latency, port.receive_symbols + port.transmit_symbols)
}

/// Takes the latency of a port away.
fn lift_port_latency(port: &mut PortParameters) {
    (port.receive_latency, port.transmit_latency) = (NO_TIME, NO_TIME);
    (port.receive_symbols, port.transmit_symbols) = (0, 0);
}

/// Formats a time with symbol times of a link: `300 ns and 40 symbol times`.
fn with_symbols(fixed: Picoseconds, symbols: u32) -> String {
    match symbols {
        0 => fixed.to_string(),
        _ => format!("{fixed} and {symbols} symbol times"),
    }
}

/// A limit of the lab at one node, port or link.
struct Spot {
    kind: LimitKind,
    /// Role of its place in the run: only limits of the same role are grouped.
    role: &'static str,
    place: String,
    /// Words of the limit; `{}` stands for the place, `{s}` for the plural `s`.
    words: String,
    lifted: String,
    edit: Edit,
}

impl Spot {
    fn is_like(&self, other: &Self) -> bool {
        (self.kind, self.role) == (other.kind, other.role)
            && (&self.words, &self.lifted) == (&other.words, &other.lifted)
    }
}

/// Limits of a lab for a run.
struct Spots<'a> {
    file: &'a LabFile,
    ways: &'a Ways,
    found: Vec<Spot>,
}

impl<'a> Spots<'a> {
    /// Finds the limits of a lab for a run; `first` is the lab before anything was lifted.
    fn of(lab: &'a Lab, first: &Lab, ways: &'a Ways) -> Self {
        let mut spots = Self { file: lab.file(), ways, found: Vec::new() };
        links::find(&mut spots, first.file());
        links::find_ports(&mut spots);
        requesters::find(&mut spots);
        nodes::find_iommus(&mut spots);
        memories::find(&mut spots);
        nodes::find(&mut spots);
        spots
    }

    /// Adds a limit, for which `edit` puts the best possible.
    fn add(
        &mut self,
        kind: LimitKind,
        place: &str,
        words: impl Into<String>,
        lifted: impl Into<String>,
        edit: impl Fn(&mut LabFile) + Send + Sync + 'static,
    ) -> &mut Spot {
        let (words, lifted, edit) = (words.into(), lifted.into(), Arc::new(edit));
        let place = place.to_owned();
        self.found.push(Spot { kind, role: "", place, words, lifted, edit });
        self.found.last_mut().expect("it was just added")
    }

    /// Adds a limit of a host, and of no other with the same part.
    fn host(
        &mut self,
        index: usize,
        kind: LimitKind,
        words: impl Into<String>,
        lifted: &str,
        edit: impl Fn(&mut RootComplexPart) + Send + Sync + 'static,
    ) -> &mut Spot {
        self.add(kind, &self.file.hosts[index].name, words, lifted, move |file| {
            edit(Arc::make_mut(&mut file.hosts[index].part));
        })
    }

    /// Adds a limit of an endpoint, and of no other with the same part.
    fn endpoint(
        &mut self,
        index: usize,
        kind: LimitKind,
        words: impl Into<String>,
        lifted: impl Into<String>,
        edit: impl Fn(&mut EndpointPart) + Send + Sync + 'static,
    ) -> &mut Spot {
        self.add(kind, &self.file.endpoints[index].name, words, lifted, move |file| {
            edit(Arc::make_mut(&mut file.endpoints[index].part));
        })
    }

    /// Returns whether a requester reads data.
    fn reads(&self, requester: Requester) -> bool {
        self.ways.transfers.iter().any(|it| it.requester == requester && it.reads)
    }
}

/// Makes levers of limits of the lab, one for each group of equal ones.
fn levers_of<W: Work>(spots: Spots<'_>) -> Vec<Lever<W>> {
    let mut groups: Vec<Vec<Spot>> = Vec::new();
    for spot in spots.found {
        match groups.iter_mut().find(|group| group[0].is_like(&spot)) {
            Some(group) => group.push(spot),
            None => groups.push(vec![spot]),
        }
    }
    groups.into_iter().map(lever_of).collect()
}

fn lever_of<W: Work>(group: Vec<Spot>) -> Lever<W> {
    let places = distinct(group.iter().map(|spot| spot.place.clone()));
    let place = list(&places);
    let Spot { kind, words, lifted, .. } = &group[0];
    let plural = if places.len() > 1 { "s" } else { "" };
    let words = words.replace("{s}", plural).replace("{}", &place);
    let limit = Limit { kind: *kind, words, place, lifted: lifted.clone() };
    let edits: Vec<Edit> = group.into_iter().map(|spot| spot.edit).collect();
    Lever {
        limit,
        lift: Box::new(move |scenario: &Scenario<W>| {
            Ok(scenario.edited(|file| edits.iter().for_each(|edit| edit(file)))?)
        }),
    }
}

/// Makes the lever of what a run chooses, beside its lab.
fn lever<W: Work>(
    kind: LimitKind,
    (place, words, lifted): (&str, String, &str),
    lift: impl Fn(&mut Scenario<W>) + Send + Sync + 'static,
) -> Lever<W> {
    let limit = Limit { kind, place: place.to_owned(), words, lifted: lifted.to_owned() };
    let lift = Box::new(move |scenario: &Scenario<W>| {
        let mut scenario = scenario.clone();
        lift(&mut scenario);
        Ok(scenario)
    });
    Lever { limit, lift }
}

/// The DLLPs in the direction of the data.
fn dllps<W: Work>(ways: &Ways) -> Lever<W> {
    let directions = ways.data_directions().into_iter();
    let names: Vec<String> = directions.map(|(id, _)| ways.direction_name(id)).collect();
    let place = match names.len() {
        0..=2 => list(&names),
        count => format!("the {count} directions that data cross"),
    };
    let words = "Acks and UpdateFCs beside the data".to_owned();
    lever(LimitKind::Dllps, (&place, words, "they take no time"), |run| {
        run.dllps_free = true;
    })
}

/// Most names that are listed one by one.
const LISTED: usize = 3;

/// Joins names: `fpga1`; `fpga1 and fpga5`; `fpga1 to fpga8`; `a, b, c and 5 more`.
fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first, .., last] if names.len() >= LISTED && is_row(names) => format!("{first} to {last}"),
        [rest @ .., last] if names.len() <= LISTED => format!("{} and {last}", rest.join(", ")),
        _ => format!("{} and {} more", names[..LISTED].join(", "), names.len() - LISTED),
    }
}

/// Returns whether names differ only in consecutive numbers at their ends.
fn is_row(names: &[String]) -> bool {
    let parts = |name: &str| {
        let head = name.trim_end_matches(|letter: char| letter.is_ascii_digit()).to_owned();
        let number = name[head.len()..].parse::<u64>().ok()?;
        Some((head, number))
    };
    names.windows(2).all(|pair| match (parts(&pair[0]), parts(&pair[1])) {
        (Some((head, number)), Some((other, next))) => head == other && number + 1 == next,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortened(count: u64, size_bytes: u64, outstanding: u64) -> Option<String> {
        let transfers = Transfers { count, size_bytes, outstanding };
        transfers.shortened(SHORT_BYTES, 0).swap_remove(0).1
    }

    #[test]
    fn long_runs_become_about_a_mebibyte() {
        let (kib, mib) = (1 << 10, 1 << 20);
        for (run, words) in [
            ((10_000, 64, 64), "1024 transfers instead of 10000"),
            ((2048, 4 * kib, 64), "256 transfers instead of 2048"),
            ((128, 64 * kib, 4), "16 transfers instead of 128"),
            ((16, mib, 2), "8 transfers of 128 KiB instead of 16 of 1 MiB"),
            ((16, 4 * mib, 1), "4 transfers of 256 KiB instead of 16 of 4 MiB"),
            ((1, 4 * mib, 1), "1 MiB instead of 4 MiB"),
            ((2, 4 * mib, 2), "2 transfers of 512 KiB instead of 2 of 4 MiB"),
            // Transfers are whole words.
            ((3, 4 * mib, 1), "3 transfers of 349524 B instead of 3 of 4 MiB"),
        ] {
            let (count, size, outstanding) = run;
            assert_eq!(shortened(count, size, outstanding).as_deref(), Some(words), "{run:?}");
        }
    }

    #[test]
    fn short_runs_are_made_as_they_are() {
        for (count, size, outstanding) in [(1, 64, 1), (1, 1 << 20, 1), (16, 65536, 4)] {
            assert_eq!(shortened(count, size, outstanding), None);
        }
    }

    #[test]
    fn each_of_several_moves_half_as_much() {
        let transfers = Transfers { count: 16, size_bytes: 1 << 20, outstanding: 1 };
        let (short, _) = transfers.shortened(SHORT_SHARED_BYTES, 0).swap_remove(0);
        assert_eq!((short.count, short.size_bytes), (4, 128 << 10));
    }

    /// A working set beyond an IOTLB stays beyond it when shortened.
    #[test]
    fn what_is_beyond_a_size_stays_beyond_it() {
        let (kib, mib) = (1 << 10, 1 << 20);
        for ((count, size_bytes, outstanding), held, expected) in [
            ((16, mib, 2), 448 * kib, (8, 228 * kib)),
            ((16, mib, 2), 1792 * kib, (8, 900 * kib)),
            ((16, mib, 2), 2 * mib, (8, 128 * kib)),
            ((16, mib, 2), 0, (8, 128 * kib)),
            ((16, mib, 1), 1020 * kib, (4, mib)),
            ((2, 4 * mib, 8), 448 * kib, (2, 512 * kib)),
        ] {
            let transfers = Transfers { count, size_bytes, outstanding };
            let (short, _) = transfers.shortened(SHORT_BYTES, held).swap_remove(0);
            let short = (short.count, short.size_bytes);
            assert_eq!(short, expected, "{count} of {size_bytes}, {outstanding}, {held}");
        }
    }

    #[test]
    fn all_that_is_posted_at_once_is_posted_again() {
        assert_eq!(
            shortened(10_000, 1 << 20, 64).as_deref(),
            Some("256 transfers of 128 KiB instead of 10000 of 1 MiB")
        );
    }

    /// Each run after the first is longer, up to eight times the bytes, and up to the run itself.
    #[test]
    fn shortened_runs_are_lengthened_in_steps() {
        let (kib, mib) = (1 << 10, 1 << 20);
        let steps = |count, size_bytes, outstanding| {
            let transfers = Transfers { count, size_bytes, outstanding };
            let steps = transfers.shortened(SHORT_SHARED_BYTES, 0);
            steps.into_iter().map(|(it, _)| (it.count, it.size_bytes)).collect::<Vec<_>>()
        };
        // One at a time: a whole transfer says more than several shortened ones.
        assert_eq!(
            steps(16, mib, 1),
            [(4, 128 * kib), (1, mib), (4, 256 * kib), (4, 512 * kib), (2, mib), (4, mib)]
        );
        assert_eq!(steps(4, mib, 1).last(), Some(&(4, mib)));
        let transfers = Transfers { count: 4, size_bytes: mib, outstanding: 1 };
        assert_eq!(transfers.shortened(SHORT_SHARED_BYTES, 0).pop().unwrap().1, None);
        // A run that cannot be shortened is the only one.
        assert_eq!(steps(10_000, mib, 64), [(256, 128 * kib)]);
        assert_eq!(steps(16, kib, 4), [(16, kib)]);
    }

    #[test]
    fn places_are_listed_as_one_says_them() {
        for (names, words) in [
            (&["fpga1"][..], "fpga1"),
            (&["fpga1", "fpga2"], "fpga1 and fpga2"),
            (&["fpga1", "fpga2", "fpga3"], "fpga1 to fpga3"),
            (&["fpga1", "fpga2", "fpga4"], "fpga1, fpga2 and fpga4"),
            (&["sw.down9", "sw.down10", "sw.down11"], "sw.down9 to sw.down11"),
            (&["a", "b", "c", "d", "e"], "a, b, c and 2 more"),
        ] {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(list(&names), words);
        }
    }
}
