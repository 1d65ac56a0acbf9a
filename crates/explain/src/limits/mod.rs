// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All possible limits of a run, and the same run without each: a [`Lever`] for each.
//!
//! A lever exists only if it can change anything: in a part that the run uses, whose constant is
//! not yet the best possible. Constants are changed in the instance and not in its part, so that
//! other instances stay as they are. Equal limits of several nodes in one role, such as the gap of
//! each of eight identical engines, are one limit.

mod engines;
mod links;
mod memories;
mod network;
mod nodes;
mod payloads;
mod ports;
mod requesters;
mod stores;
mod traffic;
mod ways;

use std::sync::Arc;

use crosslane_experiment::{Scenario, Work};
use crosslane_lab::file::parts::{EndpointPart, RootComplexPart};
use crosslane_lab::{Lab, LabFile};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::{Limit, LimitKind, distinct};

use crate::search::Lever;
use ways::{Requester, Ways};

/// Lifts a limit of a lab.
type Edit = Arc<dyn Fn(&mut LabFile) + Send + Sync>;

/// The best of all times.
const NO_TIME: Picoseconds = Picoseconds::ZERO;

/// A limit of the lab at one node, port or link.
struct Spot {
    kind: LimitKind,
    /// Role of its place in the run: only limits of the same role are grouped.
    role: &'static str,
    place: String,
    /// Its words; `{}` stands for the place, `{s}` for the plural `s`.
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
        ports::find(&mut spots);
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
