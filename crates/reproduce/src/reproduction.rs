// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reproductions by name, and what each prints.

use crosslane_lab::EngineKind;
use crosslane_results::SCHEMA;

use crate::comparison::{Kind, Row};
use crate::error::ReproduceError;
use crate::experiment::Experiment;
use crate::table::{Align, Table};
use crate::watch::Watch;
use crate::{aws_f1, kc705, nget, rosta, sbdt};

/// A document whose experiments can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reproducible {
    /// Its name.
    pub name: &'static str,
    /// What is done, one sentence.
    pub summary: &'static str,
    /// Scenarios that are run for it.
    pub scenarios: u64,
    /// Whether engines of this project take part, which may be the gateware.
    pub has_engines: bool,
}

const REPRODUCIBLE: [Reproducible; 5] = [
    Reproducible {
        name: "aws-f1",
        summary: "Write combining: host stores into an F1 card's memory, 17 sizes in four modes.",
        scenarios: aws_f1::SCENARIOS,
        has_engines: false,
    },
    Reproducible {
        name: "kc705",
        summary: "Memory-mapped DMA to a KC705 board's DDR3: four links, 1 KiB to 4 MiB, one \
                  more grade of link.",
        scenarios: kc705::SCENARIOS,
        has_engines: false,
    },
    Reproducible {
        name: "nget",
        summary: "Network processors of two Nehalem hosts: gets from host memory, fragmentation, \
                  driver modes, a torus link.",
        scenarios: nget::SCENARIOS,
        has_engines: false,
    },
    Reproducible {
        name: "rosta",
        summary: "Direct data transfer between Virtex-7 FPGAs: 8 FPGAs, 3 switches, all \
                  experiments.",
        scenarios: rosta::SCENARIOS,
        has_engines: true,
    },
    Reproducible {
        name: "sbdt",
        summary: "Software-bridged transfer: DMA through rings of host buffers to an Arria 10 \
                  card, through it, and back.",
        scenarios: sbdt::SCENARIOS,
        has_engines: false,
    },
];

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
    /// What this project's own engines were.
    pub own: EngineKind,
}

/// What the page says where this project's own engines were the gateware.
const OF_GATEWARE: &str = "Our engine is the gateware here, clock by clock. The document's engine, \
                           with its idle clock and gap, is there as a model only: the document's \
                           figures are beside that model, as context. What limits a run was \
                           looked for with models.";

/// Runs a reproduction.
///
/// # Errors
/// A name that there is not, or an experiment that does not run as it should.
pub fn reproduce(name: &str, seed: u64, watch: &dyn Watch) -> Result<Reproduction, ReproduceError> {
    reproduce_with(name, seed, EngineKind::Model, watch)
}

/// The same, where this project's own engines are of some kind. Those of documents are models, and
/// so are those that are looked at for what limits a run. Where `watch` wants no more to begin, it
/// has the experiments that were run to their end.
///
/// # Errors
/// As [`reproduce`], and where there is no such engine.
pub fn reproduce_with(
    name: &str,
    seed: u64,
    own: EngineKind,
    watch: &dyn Watch,
) -> Result<Reproduction, ReproduceError> {
    let found = find(name)?;
    if own != EngineKind::Model && !found.has_engines {
        let problem = "no engine takes part, so that none can be the gateware";
        return Err(ReproduceError::experiment(format!("reproduction {name}"), problem));
    }
    let mut experiments = Vec::new();
    let done = &mut experiments;
    let result = match found.name {
        "aws-f1" => aws_f1::experiments(&aws_f1::Context::new(seed, watch)?, done),
        "kc705" => kc705::experiments(&kc705::Context::new(seed, watch)?, done),
        "nget" => nget::experiments(&nget::Context::new(seed, watch)?, done),
        "sbdt" => sbdt::experiments(&sbdt::Context::new(seed, watch)?, done),
        _ => rosta::experiments(&rosta::Context::new(seed, watch)?.with_own(own), done),
    };
    match result {
        // Experiments that were run to their end are worth seeing.
        Ok(()) | Err(ReproduceError::Interrupted) => {}
        Err(error) => return Err(error),
    }
    if own == EngineKind::Rtl {
        experiments.iter_mut().flat_map(|experiment| &mut experiment.rows).for_each(as_context);
    }
    Ok(Reproduction { name: found.name, experiments, seed, own })
}

/// A row that is no pass mark, whatever it is else.
fn as_context(row: &mut Row) {
    row.kind = Kind::Context;
    row.tolerance = None;
}

/// A reproduction by its name.
///
/// # Errors
/// A name that there is not, answered with those that there are.
pub fn find(name: &str) -> Result<&'static Reproducible, ReproduceError> {
    REPRODUCIBLE.iter().find(|known| known.name == name).ok_or_else(|| {
        let known = REPRODUCIBLE.map(|known| known.name).join(", ");
        ReproduceError::Unknown { what: "reproduction", name: name.to_owned(), known }
    })
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

    /// Returns the figures and explanations as plain data.
    #[must_use]
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

    /// The document's figures beside the lab's, in the order of the experiments.
    #[must_use]
    pub fn comparison(&self) -> Table {
        comparison(self.rows().filter(|row| row.published.is_some()))
    }

    /// How many published figures are compared, how many of them predicted, and how good they
    /// are; of one that was measured with several numbers of devices the worst counts. With the
    /// gateware, what that is worth.
    #[must_use]
    pub fn summary(&self) -> String {
        if self.own == EngineKind::Rtl {
            return OF_GATEWARE.to_owned();
        }
        let compared = compared(self.rows());
        let predicted = compared.iter().filter(|row| row.kind == Kind::Predicted);
        let errors = predicted.clone().filter_map(|row| row.error);
        let (worst, median) = crate::comparison::worst_and_median(errors).unwrap_or_default();
        let outside = match self.missed().count() {
            0 => "all within their tolerance".to_owned(),
            1 => "1 OUTSIDE its tolerance".to_owned(),
            count => format!("{count} OUTSIDE their tolerance"),
        };
        let figures = if compared.len() == 1 { "figure" } else { "figures" };
        format!(
            "{} {figures} compared, {outside}; {} predicted, worst error {:+.1} %, median {:.1} %.",
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
            Some(group)
                if key(group[0]) == key(row)
                    && group[0].label.contains(" of ")
                    && row.label.contains(" of ") =>
            {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::Tolerance;

    #[test]
    fn with_the_gateware_no_figure_of_the_document_is_a_pass_mark() {
        let mut row = Row {
            quantity: "rate".to_owned(),
            conditions: "1 device".to_owned(),
            unit: "MiB/s".to_owned(),
            published: Some(2.0),
            simulated: Some(1.0),
            error: Some(-0.5),
            kind: Kind::Predicted,
            tolerance: Some(Tolerance { fraction: 0.1, reason: "a test" }),
            reason: String::new(),
            label: "rate".to_owned(),
        };
        let of = |row: &Row, own| {
            let experiment = Experiment {
                title: "",
                text: Vec::new(),
                tables: Vec::new(),
                plots: Vec::new(),
                why: Vec::new(),
                rows: vec![row.clone()],
            };
            Reproduction { name: "rosta", experiments: vec![experiment], seed: 1, own }
        };
        let model = of(&row, EngineKind::Model);
        assert_eq!(model.missed().count(), 1);
        assert!(model.summary().starts_with("1 figure compared, 1 OUTSIDE"), "{}", model.summary());
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
