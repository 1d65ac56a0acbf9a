// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reproductions by name, and what each prints.

use crosslane_lab::EngineKind;
use serde_json::{Value, json};

use crate::comparison::Row;
use crate::error::ReproduceError;
use crate::explained::Explained;
use crate::rosta::{self, Experiment, Watch};
use crate::table::{Align, Table};

/// A document whose experiments can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reproducible {
    /// Its name.
    pub name: &'static str,
    /// What is done, one sentence.
    pub summary: &'static str,
}

const REPRODUCIBLE: [Reproducible; 1] = [Reproducible {
    name: "rosta",
    summary: "Direct data transfer between Virtex-7 FPGAs: 8 FPGAs, 3 switches, all experiments.",
}];

/// Every reproduction, by name.
#[must_use]
pub const fn reproducible() -> &'static [Reproducible] {
    &REPRODUCIBLE
}

/// A reproduction that was run.
#[derive(Clone, Debug, PartialEq)]
pub struct Reproduction {
    /// Its name.
    pub name: &'static str,
    /// The experiments, in order.
    pub experiments: Vec<Experiment>,
    /// What all that is random came from.
    pub seed: u64,
}

/// Runs a reproduction.
///
/// # Errors
/// A name that there is not, or an experiment that does not run as it should.
pub fn reproduce(name: &str, seed: u64, watch: &dyn Watch) -> Result<Reproduction, ReproduceError> {
    reproduce_with(name, seed, EngineKind::Model, watch)
}

/// The same, where this project's own engines are of some kind. Those of documents are models, and
/// so are those that are looked at for what limits a run.
///
/// # Errors
/// As [`reproduce`], and where there is no such engine.
pub fn reproduce_with(
    name: &str,
    seed: u64,
    own: EngineKind,
    watch: &dyn Watch,
) -> Result<Reproduction, ReproduceError> {
    let Some(found) = REPRODUCIBLE.iter().find(|known| known.name == name) else {
        let known = REPRODUCIBLE.map(|known| known.name).join(", ");
        let what = "reproduction";
        return Err(ReproduceError::Unknown { what, name: name.to_owned(), known });
    };
    let experiments = rosta::experiments(&rosta::Context::new(seed, watch)?.with_own(own))?;
    Ok(Reproduction { name: found.name, experiments, seed })
}

impl Reproduction {
    /// The rows of all experiments, in order.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.experiments.iter().flat_map(|experiment| &experiment.rows)
    }

    /// Rows that are outside their tolerance.
    pub fn missed(&self) -> impl Iterator<Item = &Row> {
        self.rows().filter(|row| row.is_met() == Some(false))
    }

    /// The one object of `--json`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let explained = (1..).zip(&self.experiments).flat_map(|(number, experiment)| {
            let run = move |explained: &Explained| {
                json!({
                    "experiment": number,
                    "run": explained.name,
                    "explanation": explained.explanation,
                })
            };
            experiment.why.iter().map(run)
        });
        json!({
            "why_not_faster": explained.collect::<Vec<Value>>(),
            "reproduction": self.name,
            "rows": self.rows().collect::<Vec<_>>(),
            "seed": self.seed,
            "version": env!("CARGO_PKG_VERSION"),
        })
    }

    /// The document's figures beside the lab's, in the order of the experiments.
    #[must_use]
    pub fn comparison(&self) -> Table {
        comparison(self.rows().filter(|row| row.published.is_some()))
    }

    /// How many published figures are compared, how many of them predicted, and how good they
    /// are; of one that was measured with several numbers of devices the worst counts.
    #[must_use]
    pub fn summary(&self) -> String {
        let compared = compared(self.rows());
        let predicted =
            compared.iter().filter(|row| row.kind == crate::comparison::Kind::Predicted);
        let errors = predicted.clone().filter_map(|row| row.error);
        let (worst, median) = crate::comparison::worst_and_median(errors).unwrap_or_default();
        let outside = match self.missed().count() {
            0 => "all within their tolerance".to_owned(),
            1 => "1 OUTSIDE its tolerance".to_owned(),
            count => format!("{count} OUTSIDE their tolerance"),
        };
        format!(
            "{} figures compared, {outside}; {} predicted, worst error {:+.1} %, median {:.1} %.",
            compared.len(),
            predicted.count(),
            100.0 * worst,
            100.0 * median,
        )
    }
}

/// The rows that are compared, each published figure once.
pub(crate) fn compared<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<&'a Row> {
    let groups = worst_of_each(rows.filter(|row| row.is_compared()));
    groups.into_iter().map(|(_, row)| row).collect()
}

/// Rows of one published figure, measured with several numbers of devices, as one: the worst of
/// them.
fn worst_of_each<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<(String, &'a Row)> {
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        let key = |row: &Row| (row.quantity.clone(), row.kind, row.published.map(f64::to_bits));
        match groups.last_mut() {
            Some(group) if key(group[0]) == key(row) && row.label.contains(" of ") => {
                group.push(row)
            }
            _ => groups.push(vec![row]),
        }
    }
    let size = |row: &Row| row.error.map_or(0.0, f64::abs);
    let merge = |group: Vec<&'a Row>| {
        let worst = *group.iter().max_by(|a, b| size(a).total_cmp(&size(b)))?;
        let count = |row: &Row| row.label.rsplit(' ').next().unwrap_or_default().to_owned();
        let label = match group[..] {
            [first, .., last] => format!("{} to {}", first.label, count(last)),
            _ => worst.label.clone(),
        };
        Some((label, worst))
    };
    groups.into_iter().filter_map(merge).collect()
}

/// Published and simulated figures. Rows that differ only in the number of devices are one, the
/// worst of them.
#[must_use]
pub fn comparison<'a>(rows: impl Iterator<Item = &'a Row>) -> Table {
    let mut table = Table::new(&[
        ("what", Align::Left),
        ("published", Align::Right),
        ("simulated", Align::Right),
        ("unit", Align::Left),
        ("error %", Align::Right),
        ("allowed %", Align::Right),
        ("kind", Align::Left),
        ("within", Align::Left),
    ]);
    let percent = |fraction: f64, digits: usize| format!("{:.digits$}", 100.0 * fraction);
    for (label, row) in worst_of_each(rows) {
        let digits = if row.unit == "ms" || row.unit == "Gbit/s" { 2 } else { 0 };
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
        table.row([
            label,
            figure(row.published, 0),
            figure(row.simulated, more),
            row.unit.clone(),
            row.error.map_or(String::new(), |error| format!("{:+.1}", 100.0 * error)),
            row.tolerance.map_or(String::new(), |most| percent(most.fraction, 1)),
            row.kind.to_string(),
            within.to_owned(),
        ]);
    }
    table
}
