// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of a reproduction, and tables that pages of labs have in common.

use std::fmt::Write as _;

use crosslane_lab::{Constant, Lab, LabError, Provenance};
use crosslane_report::text::Columns;
use crosslane_report::{self as report, Bar, Bars, Block, Page, Section, TopologyFigure};
use crosslane_results::DirectionLoad;

use crate::comparison::Row;
use crate::error::Result;
use crate::experiment::Experiment;
use crate::explained;
use crate::reproduction::Reproduction;

/// Returns the topology of a lab with the loads of its links.
///
/// # Errors
/// A lab that cannot be built.
pub fn topology(
    lab: &Lab,
    title: &str,
    loads: &[DirectionLoad],
) -> Result<TopologyFigure, LabError> {
    let topology = crosslane_experiment::topology(lab, &lab.build(1)?);
    Ok(TopologyFigure { title: title.to_owned(), topology, loads: loads.to_vec() })
}

/// Lists every constant in force in some labs, with its provenance; equal lines of several labs
/// appear once.
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

/// Formats the constants of a lab, with their sources, and counts each provenance.
pub fn constants_text(lab: &Lab, columns: Columns) -> String {
    let mut page = format!("{}: {}\n", lab.name(), lab.summary());
    if let Some(source) = &lab.file().source {
        let _ = writeln!(page, "Reproduces {source}.");
    }
    for variant in &lab.file().variants {
        let _ = writeln!(page, "Variant {}:{}: {}", lab.name(), variant.name, variant.summary);
    }
    page.push('\n');
    let mut table = constants(&[lab]).least_first(&["unit", "provenance"]);
    table.columns[3].heading = "provenance".to_owned();
    page.push_str(&table.to_text(columns.tables));
    page.push('\n');
    let counts = Provenance::ALL.iter().filter_map(|&kind| {
        let count = lab.constants().filter(|constant| constant.provenance == kind).count();
        (count > 0).then(|| format!("{count} {kind}"))
    });
    let counts: Vec<String> = counts.collect();
    let all = lab.constants().count();
    let _ = writeln!(page, "{all} constants by provenance: {}", counts.join(", "));
    page
}

impl Reproduction {
    /// Returns the page: figures beside the paper's, every experiment with its plots, tables and
    /// explanations, and the lab's constants. `command` is the command line that makes it.
    ///
    /// # Errors
    /// A lab that cannot be read.
    pub fn page(&self, command: &str) -> Result<Page> {
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
            title: "The paper's figures beside the lab's".to_owned(),
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

/// Returns the explanations of an experiment's runs: a row and a bar for each, and the tree with
/// the load of every link of the run with the highest load.
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

/// Returns the sum over all directions of the share of time in which they were busy.
fn load_sum(figure: &TopologyFigure) -> f64 {
    figure.loads.iter().map(|load| load.busy_share).sum()
}

fn constant_section(lab: &Lab) -> Result<Section> {
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
