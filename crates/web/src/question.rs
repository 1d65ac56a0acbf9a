// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The questions of a page.

use crosslane::bench::{Traffic, Transfers};
use crosslane::edit::Edit;
use crosslane::results::DirectionLoad;
use serde::Deserialize;

use crate::lab::LabText;

/// A question. In JSON it is an object whose key `ask` is the name of one of these, such as
/// `check`, beside the keys of that one.
#[derive(Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Question {
    /// The shipped labs, the parts of the library, and the colours of drawings.
    Labs,
    /// The text of a shipped lab.
    Text {
        /// Name of the lab.
        name: String,
    },
    /// Whether a lab and its variants can be built, what is remarkable in them, and their nodes.
    Check {
        /// The lab.
        lab: LabText,
    },
    /// The constants of a lab that are in force, each with its provenance.
    Constants {
        /// The lab.
        lab: LabText,
    },
    /// The tree of a lab, and its drawing.
    Topology {
        /// The lab.
        lab: LabText,
        /// Loads of links, which are drawn as colours and widths.
        #[serde(default)]
        loads: Vec<DirectionLoad>,
        /// Whether the drawing is a file to keep, with its own colours.
        #[serde(default)]
        standing: bool,
    },
    /// A run, with the outcome that `crosslane bench --json` prints.
    Run {
        /// The lab.
        lab: LabText,
        /// Transfers that are made.
        work: Box<Work>,
        /// Random seed.
        #[serde(default = "seed")]
        seed: u64,
        /// Whether the limits of the run are searched for.
        #[serde(default)]
        why: bool,
        /// The part of the trace that is wanted.
        trace: Option<TraceWish>,
    },
    /// The page of a run, as `crosslane bench --report` writes it, but for the lab's constants.
    Report {
        /// The lab.
        lab: LabText,
        /// The outcome: what `crosslane bench --json` prints.
        outcome: String,
        /// Command line that makes the run again.
        command: String,
    },
    /// The lab file with the changes written into it.
    Written {
        /// The lab.
        lab: LabText,
    },
    /// The text of the lab file after an edit of its tree or its keys, without the lab's changes.
    Edit {
        /// The lab.
        lab: LabText,
        /// The edit.
        edit: Edit,
    },
    /// The nodes and parts of a lab file, which need not be one that can be built.
    Outline {
        /// The lab.
        lab: LabText,
    },
    /// A node of such a file with every key that it can have.
    Node {
        /// The lab.
        lab: LabText,
        /// Name of the node.
        node: String,
    },
    /// A plot of values, as reports have it.
    Plot {
        /// Title of the plot.
        title: String,
        /// The axis from left to right.
        x: PlotAxis,
        /// The axis from bottom to top.
        y: PlotAxis,
        /// Lines: name and values.
        lines: Vec<(String, Vec<(f64, f64)>)>,
    },
    /// The lab of a machine, from dumps of it.
    Import {
        /// The dumps: `lspci -vvv` and others.
        dumps: Vec<Dump>,
        /// Name of the lab.
        name: String,
    },
}

const fn seed() -> u64 {
    1
}

/// Work in a lab.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Work {
    /// Flows between generic requesters and memories, as `bench traffic`.
    Traffic(Traffic),
    /// Transfers by the driver, as `bench write`, `read`, `p2p`, `latency` and `chain`.
    Transfers(Transfers),
}

/// The part of a trace that is wanted. Its hash is that of the whole trace.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TraceWish {
    /// Most events, at most [`MAX_EVENTS`](crate::MAX_EVENTS).
    pub most: usize,
    /// Simulated time of the first one, picoseconds.
    pub from_ps: u64,
    /// Whether the values of each event are wanted: credits and sequence numbers.
    pub values: bool,
}

/// An axis of a plot.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlotAxis {
    /// The quantity that it shows.
    pub label: String,
    /// Unit of the axis; empty for a plain number.
    pub unit: String,
    /// Whether values lie on it by their logarithm.
    #[serde(default)]
    pub is_logarithmic: bool,
}

/// A dump of a machine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dump {
    /// Name in errors: that of its file.
    pub name: String,
    /// Its text.
    pub text: String,
}
