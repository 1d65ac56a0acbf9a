// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reproductions by name, and their output.

use crosslane_lab::{EngineKind, Progress};
use crosslane_report::{Cell, Table};
use crosslane_results::SCHEMA;
use crosslane_results::quantity::change;

use crate::comparison::{Kind, Row};
use crate::context::{Context, Explain};
use crate::error::{ReproduceError, Result};
use crate::experiment::Experiment;
use crate::study::{Reproducible, reproducible, study};

/// A reproduction, after its run.
#[derive(Clone, Debug, PartialEq)]
pub struct Reproduction {
    /// Name of the reproduction.
    pub name: &'static str,
    /// The experiments, in order.
    pub experiments: Vec<Experiment>,
    /// Random seed.
    pub seed: u64,
    /// Kind of this project's own engines.
    pub own: EngineKind,
}

/// The page's remark if this project's own engines were the gateware.
const OF_GATEWARE: &str = "Our engine is the gateware here, clock by clock. The paper's engine is \
                           there as a model only: the paper's figures are beside that model, as \
                           context. What limits a run was looked for with models.";

/// Runs a reproduction with this project's own engines of some kind. Engines of papers are models,
/// and so are those of the runs that are given to `explain`. If `watch` wants no more scenarios to
/// begin, the result contains the finished experiments.
///
/// # Errors
/// An unknown name, an experiment that fails, and the gateware in a reproduction without engines of
/// this project.
pub fn reproduce(
    name: &str,
    seed: u64,
    own: EngineKind,
    watch: &dyn Progress,
    explain: &Explain<'_>,
) -> Result<Reproduction> {
    let found = find(name)?;
    if own != EngineKind::Model && !found.has_engines {
        let problem = "no engine takes part, so that none can be the gateware";
        return Err(ReproduceError::experiment(format!("reproduction {name}"), problem));
    }
    let mut experiments = Vec::new();
    let study = study(found.name)?;
    let context = Context::of(study, seed, watch)?.with_own(own).with_explain(explain);
    match (found.experiments)(&context, &mut experiments) {
        // Finished experiments are worth showing.
        Ok(()) | Err(ReproduceError::Interrupted) => {}
        Err(error) => return Err(error),
    }
    if own == EngineKind::Rtl {
        experiments.iter_mut().flat_map(|experiment| &mut experiment.rows).for_each(as_context);
    }
    Ok(Reproduction { name: found.name, experiments, seed, own })
}

/// Makes a row context, whatever its kind is.
fn as_context(row: &mut Row) {
    row.kind = Kind::Context;
    row.tolerance = None;
}

/// Finds a reproduction by its name.
///
/// # Errors
/// An unknown name, with the known ones.
pub fn find(name: &str) -> Result<Reproducible> {
    reproducible().find(|known| known.name == name).ok_or_else(|| {
        let known = reproducible().map(|known| known.name).collect::<Vec<_>>().join(", ");
        ReproduceError::Unknown { what: "reproduction", name: name.to_owned(), known }
    })
}

impl Reproduction {
    /// Lists the rows of all experiments, in order.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.experiments.iter().flat_map(|experiment| &experiment.rows)
    }

    /// Lists the rows outside their tolerance.
    pub fn missed(&self) -> impl Iterator<Item = &Row> {
        self.rows().filter(|row| row.is_met() == Some(false))
    }

    /// Returns the figures and explanations as plain data.
    pub fn result(&self) -> crosslane_results::Reproduction {
        let explained = (1..).zip(&self.experiments).flat_map(|(experiment, of)| {
            of.why.iter().map(move |explained| crosslane_results::Explained {
                experiment,
                run: explained.name.clone(),
                explanation: explained.explanation.clone(),
            })
        });
        crosslane_results::Reproduction {
            schema: SCHEMA,
            reproduction: self.name.to_owned(),
            engine: (self.own == EngineKind::Rtl).then(|| "rtl".to_owned()),
            seed: self.seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            rows: self.rows().map(Row::result).collect(),
            why_not_faster: explained.collect(),
            interrupted: None,
        }
    }

    /// Returns a table of the paper's figures beside the lab's, in the order of the experiments.
    pub fn comparison(&self) -> Table {
        comparison(self.rows().filter(|row| row.published.is_some()))
    }

    /// Describes the number of compared published figures, the number of predicted ones, and their
    /// errors; of a figure for several numbers of devices the worst error counts. With the
    /// gateware, it is a remark on the comparison instead.
    pub fn summary(&self) -> String {
        if self.own == EngineKind::Rtl {
            return OF_GATEWARE.to_owned();
        }
        let compared = compared(self.rows());
        let predicted = compared.iter().filter(|row| row.kind == Kind::Predicted);
        let errors = predicted.clone().filter_map(|row| row.error);
        let (worst, median) = crate::comparison::worst_and_median(errors).unwrap_or_default();
        if compared.is_empty() {
            return "No figure has been compared.".to_owned();
        }
        let outside = match self.missed().count() {
            0 => "all within their tolerance".to_owned(),
            count => format!("{count} out of tolerance"),
        };
        let figures = if compared.len() == 1 { "figure" } else { "figures" };
        format!(
            "{} {figures} compared, {outside}; {} predicted, worst error {} %, median {:.1} %.",
            compared.len(),
            predicted.count(),
            change(worst),
            100.0 * median,
        )
    }
}

/// Returns the compared rows, each published figure once.
pub(crate) fn compared<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<&'a Row> {
    let groups = worst_of_each(rows.filter(|row| row.is_compared()));
    groups.into_iter().map(|(_, row)| row).collect()
}

/// Joins rows of one published figure for several numbers of devices: the worst of them.
fn worst_of_each<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<(String, &'a Row)> {
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        let key = |row: &Row| (row.quantity.clone(), row.kind, row.published.map(f64::to_bits));
        match groups.last_mut() {
            Some(group)
                if row.devices.and(group[0].devices).is_some() && key(group[0]) == key(row) =>
            {
                group.push(row);
            }
            _ => groups.push(vec![row]),
        }
    }
    let size = |row: &Row| row.error.map_or(0.0, f64::abs);
    let merge = |group: Vec<&'a Row>| {
        let worst = *group.iter().max_by(|a, b| size(a).total_cmp(&size(b)))?;
        let label = match group[..] {
            [first, .., Row { devices: Some(last), .. }] => format!("{} to {last}", first.label),
            _ => worst.label.clone(),
        };
        Some((label, worst))
    };
    groups.into_iter().filter_map(merge).collect()
}

/// Returns a table of published and simulated figures. Rows that differ only in the number of
/// devices are joined: the worst of them.
pub fn comparison<'a>(rows: impl Iterator<Item = &'a Row>) -> Table {
    let mut table = Table::headed(
        "what | published: | simulated: | unit | error %: | allowed %: | kind | within",
    );
    for (label, row) in worst_of_each(rows) {
        let digits = match row.unit.as_str() {
            "ms" | "Gbit/s" => 2,
            "ratio" | "s" => 3,
            "GB/s" => 6,
            _ => 0,
        };
        let figure = |figure: Option<f64>, more: usize| {
            let digits = digits + more;
            figure.map_or(String::new(), |figure| format!("{figure:.digits$}"))
        };
        let more = usize::from(row.unit == "MiB/s");
        let within = match row.is_met() {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "",
        };
        let cells = [
            label,
            figure(row.published, 0),
            figure(row.simulated, more),
            row.unit.clone(),
            row.error.map_or(String::new(), change),
            row.tolerance.map_or(String::new(), |most| format!("{:.1}", 100.0 * most)),
            row.kind.to_string(),
        ];
        let within = Cell { text: within.to_owned(), is_bad: row.is_met() == Some(false) };
        table.row(cells.map(Cell::from).into_iter().chain([within]));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_the_gateware_no_figure_of_the_document_is_a_pass_mark() {
        let mut row = Row {
            published: Some(2.0),
            error: Some(-0.5),
            kind: Kind::Predicted,
            tolerance: Some(0.1),
            ..Row::simulated("rate", "1 device", "MiB/s", 1.0)
        };
        let of = |row: &Row, own| {
            let experiment = Experiment { rows: vec![row.clone()], ..Experiment::default() };
            Reproduction { name: "rosta", experiments: vec![experiment], seed: 1, own }
        };
        let model = of(&row, EngineKind::Model);
        assert_eq!(model.missed().count(), 1);
        let summary = model.summary();
        assert!(summary.starts_with("1 figure compared, 1 out of tolerance;"), "{summary}");
        assert_eq!(model.result().engine, None);
        as_context(&mut row);
        let gateware = of(&row, EngineKind::Rtl);
        assert_eq!(gateware.missed().count(), 0);
        assert!(gateware.summary().starts_with("Our engine is the gateware"));
        let result = gateware.result();
        assert_eq!(result.engine.as_deref(), Some("rtl"));
        assert_eq!(result.rows[0].kind, "context");
    }
}
