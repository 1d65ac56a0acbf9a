// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Axes of a sweep and their points.

use std::fmt;

use crosslane_host::setters;
use crosslane_pcie::link::LinkRate;
use crosslane_results::Parameter;
use crosslane_results::quantity::size_words;
use strum::Display;

use super::SweepError;
use crate::traffic::{COPY, FlowArgument, FlowRequest, Half, kind_word};

/// Most points of a sweep.
pub const MAX_POINTS: usize = 10_000;

/// Source and target of the transfers of a point; their names are the words of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display)]
#[strum(serialize_all = "kebab-case")]
pub enum TransferKind {
    /// The card's stream to host memory.
    Write,
    /// Host memory to the card's stream.
    Read,
    /// Host memory to the card's memory.
    ToCard,
    /// The card's memory to host memory.
    FromCard,
}

/// Location of the engine's descriptors; their names are the words of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display)]
#[strum(serialize_all = "kebab-case")]
pub enum Descriptors {
    /// The engine's table, written by the host.
    Table,
    /// A ring in host memory.
    Ring,
}

/// Values of the parameters of a sweep; every combination of them is a point. A parameter without
/// values stays as the lab has it, or has its default. Only labs have links, payloads, tags,
/// constants and flows.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Axes {
    /// Kinds of transfers [default: those with the card's memory, if it has one, else with its
    /// streams].
    pub kinds: Vec<TransferKind>,
    /// Rates of the card's own link.
    pub links: Vec<LinkRate>,
    /// Max_Payload_Size of all functions, bytes.
    pub payload_bytes: Vec<u32>,
    /// Reads of data that the engine keeps in flight.
    pub tags: Vec<u16>,
    /// Locations of descriptors [default: the ring].
    pub descriptors: Vec<Descriptors>,
    /// Transfers that are kept posted [default: 1].
    pub outstanding: Vec<u32>,
    /// Paths of constants of the lab file, with their values.
    pub constants: Vec<(String, Vec<f64>)>,
    /// Bytes of a transfer, multiples of 4.
    pub sizes: Vec<u64>,
    /// Flows of generic requesters, all at once, in place of transfers; they have the sizes, which
    /// are the same of all.
    pub flows: Vec<FlowArgument>,
}

setters!(Axes {
    with_kinds(kinds: impl Into<Vec<TransferKind>>),
    with_links(links: impl Into<Vec<LinkRate>>),
    with_payload_bytes(payload_bytes: impl Into<Vec<u32>>),
    with_tags(tags: impl Into<Vec<u16>>),
    with_descriptors(descriptors: impl Into<Vec<Descriptors>>),
    with_outstanding(outstanding: impl Into<Vec<u32>>),
    with_constants(constants: impl Into<Vec<(String, Vec<f64>)>>),
    with_sizes(sizes: impl Into<Vec<u64>>),
    with_flows(flows: impl Into<Vec<FlowArgument>>),
});

/// A point of a sweep. Parameters without a value are as the lab has them, or have their defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Kind of its transfers; none if it has flows.
    pub kind: Option<TransferKind>,
    /// Its flows.
    pub flows: Vec<FlowRequest>,
    /// Rate of the card's own link.
    pub link: Option<LinkRate>,
    /// Max_Payload_Size of all functions, bytes.
    pub payload_bytes: Option<u32>,
    /// Reads of data that the engine keeps in flight.
    pub tags: Option<u16>,
    /// Location of descriptors.
    pub descriptors: Option<Descriptors>,
    /// Transfers that are kept posted.
    pub outstanding: Option<u32>,
    /// Constants of the lab file.
    pub constants: Vec<(String, f64)>,
    /// Bytes of a transfer.
    pub size_bytes: u64,
}

/// Sets a parameter of all points to each of the values, if there are any.
fn crossed<T: Copy>(
    points: Vec<Point>,
    values: &[T],
    set: impl Fn(&mut Point, T),
) -> Result<Vec<Point>, SweepError> {
    if values.is_empty() {
        return Ok(points);
    }
    if points.len().saturating_mul(values.len()) > MAX_POINTS {
        return Err(SweepError::TooManyPoints);
    }
    let with = |point: &Point, value: &T| {
        let mut point = point.clone();
        set(&mut point, *value);
        point
    };
    let points = points.iter();
    Ok(points.flat_map(|point| values.iter().map(|value| with(point, value))).collect())
}

impl Axes {
    /// Returns the axes with the default kinds of a card, if they have none.
    ///
    /// # Errors
    /// Transfers with the memory of a card that has none.
    pub fn for_card(mut self, card: &str, has_memory: bool) -> Result<Self, SweepError> {
        if self.kinds.is_empty() {
            self.kinds = match has_memory {
                true => vec![TransferKind::ToCard, TransferKind::FromCard],
                false => vec![TransferKind::Write, TransferKind::Read],
            };
        }
        let needs_memory =
            |kind: &&TransferKind| matches!(kind, TransferKind::ToCard | TransferKind::FromCard);
        match self.kinds.iter().find(needs_memory) {
            Some(kind) if !has_memory => {
                let problem = format!("{card} has no table `card_memory`");
                Err(SweepError::value("way", kind, problem))
            }
            _ => Ok(self),
        }
    }

    /// Rejects axes that only labs have.
    ///
    /// # Errors
    /// The first of them.
    pub fn check_no_lab(&self) -> Result<(), SweepError> {
        let link = self
            .links
            .first()
            .map(|link| format!("{}x{}", link.generation.number(), link.width.lanes()));
        let first = [
            ("link", link),
            ("mps", self.payload_bytes.first().map(u32::to_string)),
            ("tags", self.tags.first().map(u16::to_string)),
            ("set", self.constants.first().map(|(path, _)| path.clone())),
        ];
        match first.into_iter().find_map(|(axis, value)| Some((axis, value?))) {
            Some((axis, value)) => {
                let problem = "this axis needs a lab, lab:NAME: a card stays as it is";
                Err(SweepError::value(axis, value, problem))
            }
            None => Ok(()),
        }
    }

    /// Returns every combination, in the order of the axes.
    ///
    /// # Errors
    /// More than [`MAX_POINTS`] of them, and flows whose sizes differ.
    pub fn points(&self) -> Result<Vec<Point>, SweepError> {
        let point = |kind: Option<TransferKind>| Point {
            kind,
            flows: Vec::new(),
            link: None,
            payload_bytes: None,
            tags: None,
            descriptors: None,
            outstanding: None,
            constants: Vec::new(),
            size_bytes: 0,
        };
        let points = match self.flows.is_empty() {
            true => self.kinds.iter().map(|kind| point(Some(*kind))).collect(),
            false => vec![point(None)],
        };
        let points = crossed(points, &self.links, |point, link| point.link = Some(link))?;
        let points = crossed(points, &self.payload_bytes, |point, bytes| {
            point.payload_bytes = Some(bytes);
        })?;
        let points = crossed(points, &self.tags, |point, tags| point.tags = Some(tags))?;
        let points = crossed(points, &self.descriptors, |point, descriptors| {
            point.descriptors = Some(descriptors);
        })?;
        let mut points = crossed(points, &self.outstanding, |point, outstanding| {
            point.outstanding = Some(outstanding);
        })?;
        for (path, values) in &self.constants {
            points = crossed(points, values, |point, value| {
                point.constants.push((path.clone(), value));
            })?;
        }
        let Some(first) = self.flows.first() else {
            return crossed(points, &self.sizes, |point, size| point.size_bytes = size);
        };
        if let Some(other) = self.flows.iter().find(|flow| flow.sizes != first.sizes) {
            let problem = format!("the flows of a sweep have the same sizes, as {}", first.sizes);
            return Err(SweepError::value("flow", other, problem));
        }
        let sizes: Vec<u64> = first.sizes.sizes().collect();
        crossed(points, &sizes, |point, size| {
            point.size_bytes = size;
            point.flows = self.flows.iter().flat_map(|flow| flow.requests(size)).collect();
        })
    }
}

impl Point {
    /// Returns the transfers that are kept posted.
    pub fn posted(&self) -> u32 {
        self.outstanding.unwrap_or(1)
    }

    /// Returns what it moves, in words: the kind of its transfers, or its flows.
    pub fn way(&self) -> String {
        let flow = |it: &FlowRequest| match it.half {
            None => Some(format!("{}:{}:{}", it.from, it.to, kind_word(it.kind))),
            Some(Half::In) => Some(format!("{}:{}:{COPY}", it.from, it.to)),
            Some(Half::Out) => None,
        };
        match self.kind {
            Some(kind) => kind.to_string(),
            None => self.flows.iter().filter_map(flow).collect::<Vec<_>>().join(" + "),
        }
    }

    /// Returns the names and values of its parameters, except for the size: the kind or the flows,
    /// the link if it is known, and all that the sweep gives values to.
    pub fn parameters(&self, link: Option<LinkRate>) -> Vec<(String, Parameter)> {
        let number = |value: f64| Parameter::Number(value);
        let word = |word: &dyn fmt::Display| Parameter::Word(word.to_string());
        let generation = link.map(|link| number(link.generation.number().into()));
        let width = link.map(|link| number(link.width.lanes().into()));
        let own = [
            (if self.kind.is_some() { "way" } else { "flow" }, Some(word(&self.way()))),
            ("generation", generation),
            ("width", width),
            ("mps", self.payload_bytes.map(|bytes| number(bytes.into()))),
            ("tags", self.tags.map(|tags| number(tags.into()))),
            ("descriptors", self.descriptors.as_ref().map(|it| word(it))),
            ("outstanding", self.outstanding.map(|outstanding| number(outstanding.into()))),
        ];
        let own = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let constants = self.constants.iter();
        let constants = constants.map(|(path, value)| (path.clone(), Parameter::Number(*value)));
        own.chain(constants).collect()
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.way(), size_words(self.size_bytes))?;
        if let Some(link) = self.link {
            write!(f, ", {} {}", link.generation, link.width)?;
        }
        self.constants.iter().try_for_each(|(path, value)| write!(f, ", {path} = {value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_axis_changes_first() {
        let axes = Axes {
            kinds: vec![TransferKind::Read],
            tags: vec![4, 8],
            constants: vec![("a".to_owned(), vec![1.0, 2.5])],
            sizes: vec![64, 128],
            ..Axes::default()
        };
        let points = axes.points().unwrap();
        let points =
            points.iter().map(|point| (point.tags, point.constants[0].1, point.size_bytes));
        let points: Vec<_> = points.collect();
        assert_eq!(points.len(), 8);
        assert_eq!(points[..3], [(Some(4), 1.0, 64), (Some(4), 1.0, 128), (Some(4), 2.5, 64)]);
        let parameters = axes.points().unwrap()[2].parameters(None);
        let words: Vec<String> =
            parameters.iter().map(|(name, value)| format!("{name} {value}")).collect();
        assert_eq!(words, ["way read", "tags 4", "a 2.5"]);
    }

    #[test]
    fn axes_of_labs_are_not_for_cards() {
        let axes = Axes { tags: vec![8], sizes: vec![64], ..Axes::default() };
        let error = axes.check_no_lab().unwrap_err().to_string();
        assert_eq!(error, "tags 8: this axis needs a lab, lab:NAME: a card stays as it is");
        let axes = Axes { outstanding: vec![8], sizes: vec![64], ..Axes::default() };
        axes.check_no_lab().unwrap();
        assert_eq!(axes.for_card("card", true).unwrap().points().unwrap().len(), 2);
    }

    #[test]
    fn there_are_not_too_many_points() {
        let kinds = vec![TransferKind::Read];
        let axes = Axes { kinds, sizes: (1..=101).map(|at| 4 * at).collect(), ..Axes::default() };
        let axes = Axes { outstanding: (1..=100).collect(), ..axes };
        assert!(matches!(axes.points(), Err(SweepError::TooManyPoints)));
    }
}
