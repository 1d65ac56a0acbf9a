// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of a reproduction, and tables that pages of labs have in common.

use crosslane_explain::size_words;
use crosslane_lab::file::LinkInstance;
use crosslane_lab::{Constant, Lab};
use crosslane_report::{
    self as report, Bar, Bars, Block, NodeKind, Page, Section, Topology, TopologyLink, TopologyNode,
};
use crosslane_results::DirectionLoad;

use crate::comparison::Row;
use crate::error::ReproduceError;
use crate::experiment::Experiment;
use crate::explained;
use crate::reproduction::Reproduction;

/// The trees of a lab with the load of every link, as far as it was counted.
#[must_use]
pub fn topology(lab: &Lab, title: &str, loads: &[DirectionLoad]) -> Topology {
    let hosts = lab.file().hosts.iter().map(|host| {
        let memory = size_words(host.part.parameters.memory_bytes);
        let detail = format!("{memory} of memory");
        node(lab, loads, &host.name, NodeKind::Host, detail)
    });
    Topology { title: title.to_owned(), hosts: hosts.collect() }
}

fn node(
    lab: &Lab,
    loads: &[DirectionLoad],
    name: &str,
    kind: NodeKind,
    detail: String,
) -> TopologyNode {
    let file = lab.file();
    // A direction is named after its ports: `rc47a.up -> rha25.down0`.
    let load = |from: &str, to: &str| {
        let ends = |load: &&DirectionLoad| {
            let of = |port: &str| port.split('.').next().unwrap_or("").to_owned();
            let ports = load.direction.split_once(" -> ");
            ports.is_some_and(|(first, last)| of(first) == from && of(last) == to)
        };
        loads.iter().find(ends).map(shown_load)
    };
    let below = |link: &LinkInstance| {
        let is_switch = file.switches.iter().any(|switch| switch.name == link.lower);
        let kind = if is_switch { NodeKind::Switch } else { NodeKind::Endpoint };
        let rate = link.parameters.rate;
        let below = node(lab, loads, &link.lower, kind, String::new());
        TopologyLink {
            raw_bytes_per_second: rate.bytes_per_second(),
            down: load(name, &link.lower),
            up: load(&link.lower, name),
            ..TopologyLink::new(rate.to_string(), below)
        }
    };
    let links = file.links.iter().filter(|link| link.upper == name).map(below).collect();
    TopologyNode { links, ..TopologyNode::new(kind, name, detail) }
}

fn shown_load(load: &DirectionLoad) -> report::DirectionLoad {
    let parts = load.uses.iter().map(|part| (part.what.to_string(), part.share)).collect();
    report::DirectionLoad {
        busy: load.busy_share,
        payload_bytes_per_second: load.payload_bytes_per_second,
        parts,
    }
}

/// Every constant that is in force in some labs, with its provenance; one that stands in several
/// of them in the same line once.
#[must_use]
pub fn constants(labs: &[&Lab]) -> report::Table {
    let mut table = report::Table::headed("constant | value: | unit | kind | source");
    table.is_searchable = true;
    let mut seen = std::collections::BTreeSet::new();
    let all = labs.iter().flat_map(|lab| lab.constants());
    let distinct = all.filter(|one| seen.insert((one.line, one.path())));
    let row = |constant: &Constant| {
        let kind = constant.provenance.to_string();
        let unit = constant.unit.to_owned();
        [constant.path(), constant.shown_value(), unit, kind, constant.source.clone()]
    };
    distinct.map(row).for_each(|cells| table.row(cells));
    table
}

impl Reproduction {
    /// The page: figures beside the paper's, every experiment with its plots and tables and why
    /// it was not faster, and the lab's constants. `command` is what made it.
    ///
    /// # Errors
    /// A lab that cannot be read.
    pub fn page(&self, command: &str) -> Result<Page, ReproduceError> {
        let lab = crosslane_lab::open(self.name)?;
        let mut sections = vec![self.figures()];
        for (number, experiment) in (1..).zip(&self.experiments) {
            sections.push(section(number, experiment));
        }
        sections.push(constant_section(&lab)?);
        let facts = [
            ("command", command.to_owned()),
            ("document", lab.file().source.clone().unwrap_or_default()),
            ("lab", format!("{}: {}", lab.name(), lab.summary())),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("seed", self.seed.to_string()),
        ];
        Ok(Page {
            title: format!("Reproduction {}", self.name),
            summary: format!("{} {}", lab.summary(), self.summary()),
            facts: facts.map(|(name, value)| (name.to_owned(), value)).into(),
            sections,
        })
    }

    fn figures(&self) -> Section {
        let words = "A row is an input (a constant was taken from it), a fit (constants were \
                     fitted to it), predicted, or context (never a pass mark). Only predicted \
                     rows are evidence.";
        let published: Vec<&Row> = self.rows().filter(|row| row.published.is_some()).collect();
        let table = crate::reproduction::comparison(published.into_iter());
        Section {
            title: "The document's figures beside the lab's".to_owned(),
            blocks: vec![
                Block::Verdict(self.summary()),
                Block::Table(table),
                Block::Text(words.to_owned()),
            ],
        }
    }
}

fn section(number: usize, experiment: &Experiment) -> Section {
    let mut blocks: Vec<Block> = experiment.plots.iter().cloned().map(Block::Plot).collect();
    blocks.extend(experiment.tables.iter().cloned().map(Block::Table));
    blocks.extend(experiment.text.iter().cloned().map(Block::Text));
    blocks.extend(why_blocks(experiment));
    Section { title: format!("{number}. {}", experiment.title), blocks }
}

/// Why the runs of an experiment were not faster: a row and a bar of each, and the tree with the
/// load of every link of the one that loads them most.
fn why_blocks(experiment: &Experiment) -> Vec<Block> {
    if experiment.why.is_empty() {
        return Vec::new();
    }
    let title = "Why not faster".to_owned();
    let table = report::Table { title, ..explained::table(&experiment.why) };
    let bars = experiment.why.iter().filter_map(|explained| {
        let account = explained.explanation.account.as_ref()?;
        let parts = account.uses.iter().map(|part| (part.what.to_string(), part.share)).collect();
        Some(Bar { name: format!("{}: {}", explained.name, account.direction), parts })
    });
    let bars: Vec<Bar> = bars.collect();
    let mut blocks = vec![Block::Table(table)];
    if !bars.is_empty() {
        let title = "Time of the busiest direction of a link".to_owned();
        blocks.push(Block::Bars(Bars { title, bars }));
    }
    let most_loaded = experiment
        .why
        .iter()
        .max_by(|one, other| load_sum(&one.topology).total_cmp(&load_sum(&other.topology)));
    let most_loaded = most_loaded.filter(|explained| load_sum(&explained.topology) > 0.0);
    blocks.extend(most_loaded.map(|explained| Block::Topology(explained.topology.clone())));
    blocks
}

/// Sum over all directions of the shares of time in which they were busy.
fn load_sum(topology: &Topology) -> f64 {
    fn below(node: &TopologyNode) -> f64 {
        let busy = |load: &Option<report::DirectionLoad>| load.as_ref().map_or(0.0, |one| one.busy);
        node.links.iter().map(|link| busy(&link.up) + busy(&link.down) + below(&link.below)).sum()
    }
    topology.hosts.iter().map(below).sum()
}

fn constant_section(lab: &Lab) -> Result<Section, ReproduceError> {
    let variants = lab.file().variants.iter().map(|variant| lab.with_variant(&variant.name));
    let variants = variants.collect::<Result<Vec<Lab>, _>>()?;
    let labs: Vec<&Lab> = std::iter::once(lab).chain(&variants).collect();
    let fitted = lab.constants().filter(|one| one.provenance == crosslane_lab::Provenance::Fit);
    let words = format!(
        "Nothing is tuned in code: every constant of the model stands in the lab file with its \
         source. {} of them were fitted.",
        fitted.count()
    );
    Ok(Section {
        title: "Constants and their provenance".to_owned(),
        blocks: vec![Block::Text(words), Block::Table(constants(&labs))],
    })
}
