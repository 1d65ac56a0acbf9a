// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The study's other servers, of which nothing but the read latency was fitted, and windows of
//! growing size over warm and cold caches, with the IOMMU on and off.
//!
//! The rows are those of the study's public data (`pcie-bench/data` on GitHub, commit b2abf2f).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Write as _;
use std::sync::Arc;

use crosslane_experiment::parallel;
use crosslane_lab::{Lab, open};
use crosslane_report::{Field, Table};
use crosslane_results::quantity::change;

use super::iommu::simulate;
use super::{
    COMMAND, Cache, Compared, Labs, Load, PAGE, PUBLISHED, Row, SIMULATED, TEST, Test, TestName,
    chill, compared_rows, measure, rows_of, simulated,
};
use crate::comparison::{Kind, worst_and_median};
use crate::document::with_blocks;
use crate::error::Result;
use crate::study::{Effort, Study};

const SYSTEMS: &str = "published/pciebench-systems.csv";
const WINDOWS: &str = "published/pciebench-windows.csv";
/// Operations of a row of windows; ten times as many change a tenth of a percent.
const WINDOW_OPERATIONS: u64 = 6000;
/// Bytes that the card writes before it is measured writing and reading back, if the window has as
/// many: more than the ways of the largest cache that devices may use, which are full of changed
/// lines then. The study makes millions of operations.
const FILLED_BYTES: u64 = 4 << 20;

macro_rules! system {
    ($name:literal) => {
        Study {
            labs: &[concat!("pciebench:", $name), "pciebench:command"],
            figures: &[SYSTEMS],
            reproducible: None,
            compared: |context, effort| {
                let labs = Labs::of(context)?;
                compared_rows(rows_of_system($name)?, |row| labs.simulate(row, effort))
            },
        }
    };
}

/// A study of each server.
pub(crate) static STUDIES: [Study; 4] =
    [system!("t430"), system!("t620"), system!("t620-v2"), system!("t630")];

fn rows_of_system(name: &str) -> Result<Vec<Row>> {
    let mut rows = rows_of([SYSTEMS])?;
    rows.retain(|row| row.test.system == name);
    Ok(rows)
}

/// Opens a server's lab; without a name, that of the lab itself.
fn server(name: &str) -> Result<Lab> {
    Ok(if name.is_empty() { open("pciebench")? } else { open(&format!("pciebench:{name}"))? })
}

/// Simulates every row of the other servers.
///
/// # Errors
/// A lab or a file that cannot be read, a lab that cannot be built, or a wrong byte.
pub fn results() -> Result<Vec<Compared>> {
    let command = open("pciebench:command")?;
    let all: Vec<Vec<Compared>> = parallel::try_map(&STUDIES, |study| {
        let name = study.labs[0].rsplit(':').next().unwrap_or_default();
        let labs = Labs::new(server(name)?, command.clone())?;
        simulated(rows_of_system(name)?, |row| labs.simulate(row, Effort::Full))
    })?;
    Ok(all.into_iter().flatten().collect())
}

/// Simulates every row of windows.
///
/// # Errors
/// As [`results`].
pub fn windows() -> Result<Vec<Compared>> {
    let translated = open("pciebench:iommu")?;
    let iommu = translated.file().hosts[0].part.parameters.iommu;
    let rows = rows_of([WINDOWS])?;
    let card = Arc::clone(&open("pciebench:command")?.file().endpoints[0].part);
    let host = |row: &Row| {
        let Test { system, iommu, cache, name, .. } = &row.test;
        (system.clone(), *iommu, *cache, name.is_of_commands())
    };
    let mut labs = HashMap::new();
    for row in &rows {
        if let Entry::Vacant(place) = labs.entry(host(row)) {
            place.insert(server(&row.test.system)?.edited(|file| {
                if row.test.iommu {
                    Arc::make_mut(&mut file.hosts[0].part).parameters.iommu = iommu;
                }
                if row.test.cache == Cache::Cold {
                    chill(file);
                }
                if row.test.name.is_of_commands() {
                    file.endpoints[0].part = Arc::clone(&card);
                }
            })?);
        }
    }
    simulated(rows, |row| {
        let (lab, operations) = (&labs[&host(row)], WINDOW_OPERATIONS);
        if row.test.name != TestName::LatCmdWrrd {
            return simulate(lab, row, operations);
        }
        let window_bytes = row.test.window_bytes;
        let filled_bytes = window_bytes.min(FILLED_BYTES);
        let (outstanding, scattered) = (1, true);
        let load = Load { window_bytes, operations, filled_bytes, outstanding, scattered };
        measure(lab, &row.test, &load)
    })
}

/// Rows of a kind, and the errors among them.
struct Group {
    what: &'static str,
    errors: Vec<f64>,
    within: usize,
}

/// A group's title, and whether a row is in it.
type Member = (&'static str, fn(&Compared) -> bool);

const GROUPS: [Member; 7] = [
    ("bandwidth of reads", |it| it.row.test.name.as_ref() == "BW_DMA_RD" && !is_window(it)),
    ("bandwidth of writes", |it| it.row.test.name.as_ref() == "BW_DMA_WR"),
    ("bandwidth of both at once", |it| it.row.test.name.as_ref() == "BW_DMA_RW"),
    ("latency", |it| it.row.is_latency() && !is_window(it)),
    ("windows of reads, IOMMU off", |it| is_window(it) && !it.row.test.iommu && !is_written(it)),
    ("windows of writes and reads, IOMMU off", is_written),
    ("windows of reads, IOMMU on", |it| is_window(it) && it.row.test.iommu),
];

fn is_window(it: &Compared) -> bool {
    it.row.figure.conditions.ends_with("window")
}

/// Whether a row is of a window that the card writes and reads back.
fn is_written(it: &Compared) -> bool {
    is_window(it) && it.row.test.name == TestName::LatCmdWrrd
}

fn groups(results: &[Compared]) -> Vec<Group> {
    let group = |(what, is_member): Member| {
        let predicted = |it: &&Compared| it.row.figure.kind == Kind::Predicted && is_member(it);
        let members: Vec<&Compared> = results.iter().filter(predicted).collect();
        Group {
            what,
            errors: members.iter().map(|it| it.error()).collect(),
            within: members.iter().filter(|it| it.is_within()).count(),
        }
    };
    let groups = GROUPS.into_iter().map(group);
    groups.filter(|group| !group.errors.is_empty()).collect()
}

/// Describes the errors of the predicted rows.
pub fn summary(results: &[Compared]) -> String {
    let mut text = String::new();
    for group in groups(results) {
        let (worst, median) = worst_and_median(group.errors.iter().copied()).unwrap_or_default();
        let (rows, within) = (group.errors.len(), group.within);
        let share = 100.0 * within as f64 / rows as f64;
        let _ = writeln!(
            text,
            "* {}: {rows} rows predicted, median error {:.1} %, worst {} %, {share:.0} % of them \
             within the bound",
            group.what,
            100.0 * median,
            change(worst),
        );
    }
    text
}

/// Returns the rows beyond their bounds, as Markdown.
pub fn beyond(results: &[Compared]) -> String {
    let server: Field<Compared> = ("Server", |it| match it.row.test.system.as_str() {
        "" => "supermicro".to_owned(),
        name => name.to_owned(),
    });
    let conditions: Field<Compared> = ("Conditions", |it| {
        let iommu = if it.row.test.iommu { ", IOMMU" } else { "" };
        let cache = if it.row.test.cache == Cache::Cold { ", cold" } else { "" };
        format!("{}{iommu}{cache}", it.row.figure.conditions)
    });
    let error: Field<Compared> = ("Error:", |it| format!("{} %", change(it.error())));
    let mut rows: Vec<Compared> = results.iter().filter(|it| !it.is_within()).cloned().collect();
    rows.sort_by(|a, b| b.error().abs().total_cmp(&a.error().abs()));
    Table::of(&[server, TEST, conditions, PUBLISHED, SIMULATED, error], &rows).to_markdown()
}

/// Returns the page of the lab, `docs/pciebench.md`, with the current tables of this part.
///
/// # Errors
/// A page without the marks around its tables.
pub fn document(old: &str, results: &[Compared]) -> Result<String> {
    let blocks = [("systems-summary", summary(results)), ("systems-rows", beyond(results))];
    with_blocks(old, PAGE, COMMAND, blocks)
}
