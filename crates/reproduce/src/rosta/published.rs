// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The document's figures, and what each is held to.
//!
//! A row is *fit* where a fitted constant of the lab names its figure, as in `fit: 1603 MiB/s is
//! 19 clocks`. Everything else that has to be known of a row stands in [`EXPECTED`].

use std::collections::BTreeSet;

use crosslane_lab::{Lab, Provenance};

use crate::comparison::{Kind, Row, Tolerance, relative_error};
use crate::error::ReproduceError;
use crate::published::PublishedFile;

/// The document's rounding: four digits.
const FORMULA: Tolerance =
    Tolerance { fraction: 0.002, reason: "arithmetic; the document gives four digits" };
/// A rate or time that the document's hardware timers took.
const TIMER: Tolerance =
    Tolerance { fraction: 0.02, reason: "a hardware timer on one path of known links" };
/// Host memory or many devices take part.
const MEMORY: Tolerance = Tolerance {
    fraction: 0.03,
    reason: "host memory takes part, of which the document says little",
};
/// Software or eight engines take part.
const SOFTWARE: Tolerance = Tolerance {
    fraction: 0.05,
    reason: "the host's software, or eight engines in a row, take part",
};

/// How a row came to be what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Basis {
    /// Fit if the lab names its figure, else predicted.
    Figure,
    /// Predicted, though its figure is the same as that of a row that was fitted.
    Apart,
    /// Fit: no number was fitted to it, but a choice was made after it had been seen.
    Chosen,
    /// Something was taken from it.
    Input,
    /// Never a pass mark.
    Context,
}

/// What is said of one row of the published file.
struct Expected {
    quantity: &'static str,
    conditions: &'static str,
    /// Both in a few words.
    label: &'static str,
    tolerance: Option<Tolerance>,
    basis: Basis,
    reason: &'static str,
}

const EXPECTED: [Expected; 19] = [
    Expected {
        quantity: "limit",
        conditions: "x4 Gen2; MPS 128; the document's formula with SKP",
        label: "limit of x4 Gen2",
        tolerance: Some(FORMULA),
        basis: Basis::Input,
        reason: "that the document's MB/s are MiB/s, and SKP counted, was read from it",
    },
    Expected {
        quantity: "limit",
        conditions: "x8 Gen2; MPS 128; the document's formula with SKP",
        label: "limit of x8 Gen2",
        tolerance: Some(FORMULA),
        basis: Basis::Input,
        reason: "that the document's MB/s are MiB/s, and SKP counted, was read from it",
    },
    Expected {
        quantity: "p2p_write_rate",
        conditions: "1 transfer; same board; MPS 128",
        label: "FPGA to FPGA, MPS 128",
        tolerance: Some(TIMER),
        basis: Basis::Figure,
        reason: "the idle clock after each TLP was fitted to it",
    },
    Expected {
        quantity: "p2p_write_rate",
        conditions: "1 transfer; same board; MPS 256",
        label: "FPGA to FPGA, MPS 256",
        tolerance: Some(TIMER),
        basis: Basis::Figure,
        reason: "the idle clock was fitted at MPS 128",
    },
    Expected {
        quantity: "p2p_write_rate_8_2",
        conditions: "8 transfers, each to the other board; MPS 128",
        label: "FPGA to FPGA, case 8.2",
        tolerance: Some(TIMER),
        basis: Basis::Chosen,
        reason: "no number was fitted; but that the switches send Ack and UpdateFC as late as the \
                 specification's table allows was chosen after it had been seen",
    },
    Expected {
        quantity: "p2p_write_rate_8_1",
        conditions: "ring over both boards; MPS 128",
        label: "FPGA to FPGA, case 8.1",
        tolerance: None,
        basis: Basis::Figure,
        reason: "inferred from the text; how often FPGAs send Ack and UpdateFC was fitted to it",
    },
    Expected {
        quantity: "p2p_latency",
        conditions: "1 switch; one way",
        label: "latency, 1 switch",
        tolerance: Some(TIMER),
        basis: Basis::Figure,
        reason: "the latency of the FPGA's port was fitted to it",
    },
    Expected {
        quantity: "p2p_latency",
        conditions: "3 switches; one way",
        label: "latency, 3 switches",
        tolerance: Some(TIMER),
        basis: Basis::Figure,
        reason: "the FPGA's latency was fitted to one switch; the switch's is declared",
    },
    Expected {
        quantity: "switch_latency",
        conditions: "derived",
        label: "latency of a switch",
        tolerance: None,
        basis: Basis::Context,
        reason: "half the difference of the latencies, wire time of header and packet in it",
    },
    Expected {
        quantity: "fpga_latency",
        conditions: "receive or transmit; derived",
        label: "latency of an FPGA",
        tolerance: None,
        basis: Basis::Context,
        reason: "half of what one switch leaves, wire time in it",
    },
    Expected {
        quantity: "ram_write_rate_hardware",
        conditions: "1 device; 4 MiB; MPS 128",
        label: "write to RAM, timer",
        tolerance: Some(MEMORY),
        basis: Basis::Figure,
        reason: "the gap after each descriptor was fitted to it",
    },
    Expected {
        quantity: "ram_write_rate_application",
        conditions: "1 device; 4 MiB; MPS 128; descriptor table",
        label: "write to RAM, application",
        tolerance: Some(SOFTWARE),
        basis: Basis::Figure,
        reason: "system call, pinning, stores of the table and interrupt, none of them fitted",
    },
    Expected {
        quantity: "ram_write_setup_time",
        conditions: "4 MiB; about 1000 descriptors",
        label: "write to RAM, set-up",
        tolerance: None,
        basis: Basis::Context,
        reason: "rounded in the text; 0.73 ms by its rates",
    },
    Expected {
        quantity: "ram_write_total_time",
        conditions: "4 MiB",
        label: "write to RAM, total time",
        tolerance: None,
        basis: Basis::Context,
        reason: "rounded in the text; 3.49 ms by its rate",
    },
    Expected {
        quantity: "ram_write_rate_per_device",
        conditions: "2 devices; 4 MiB; MPS 128",
        label: "write to RAM, each of 2",
        tolerance: Some(MEMORY),
        basis: Basis::Apart,
        reason: "the gap was fitted to one device alone",
    },
    Expected {
        quantity: "ram_write_channel_rate",
        conditions: "3 to 8 devices; 4 MiB; MPS 128",
        label: "write to RAM, channel",
        tolerance: Some(MEMORY),
        basis: Basis::Apart,
        reason: "nothing of the shared channel was fitted",
    },
    Expected {
        quantity: "ram_read_rate_per_device",
        conditions: "1 to 3 devices; 4 MiB",
        label: "read from RAM, each",
        tolerance: Some(MEMORY),
        basis: Basis::Figure,
        reason: "with one device: the engine's reads in flight were fitted to it",
    },
    Expected {
        quantity: "ram_read_channel_rate",
        conditions: "4 to 8 devices; 4 MiB",
        label: "read from RAM, channel",
        tolerance: None,
        basis: Basis::Context,
        reason: "\"limited by the host link\", no number in the text",
    },
    Expected {
        quantity: "chain_rate",
        conditions: "HOST to 8 FPGAs to HOST",
        label: "chain of 8 FPGAs",
        tolerance: Some(SOFTWARE),
        basis: Basis::Apart,
        reason: "the reads were fitted with one device; seven peer writes are in the way here",
    },
];

/// The document's figures, and which of them the lab's constants were fitted to.
pub(super) struct Figures {
    rows: Vec<Figure>,
    fitted: BTreeSet<String>,
}

/// One row of the file of published figures.
struct Figure {
    quantity: String,
    conditions: String,
    value: f64,
    unit: String,
    /// Value and unit as the file writes them: `1603 MiB/s`.
    text: String,
}

impl Figures {
    /// The figures of the files that the lab names.
    ///
    /// # Errors
    /// A file that cannot be read, or a row of which nothing is said here.
    pub(super) fn read(lab: &Lab) -> Result<Self, ReproduceError> {
        let mut rows = Vec::new();
        for measurements in &lab.file().measurements {
            let file = PublishedFile::open(&measurements.file)?;
            let names: [&[&str]; 4] = [&["quantity"], &["conditions"], &["value"], &["unit"]];
            for (index, fields) in file.columns(names)?.into_iter().enumerate() {
                let [quantity, conditions, value, unit] = fields;
                rows.push(Figure {
                    quantity: quantity.to_owned(),
                    conditions: conditions.to_owned(),
                    value: file.number(index, value)?,
                    unit: unit.to_owned(),
                    text: format!("{value} {unit}"),
                });
            }
        }
        let fits = lab.constants().filter(|constant| constant.provenance == Provenance::Fit);
        let fitted = fits
            .flat_map(|constant| rows.iter().map(move |row| (constant, row)))
            .filter(|(constant, row)| names(&constant.source, &row.text))
            .map(|(_, row)| row.text.clone())
            .collect();
        Ok(Self { rows, fitted })
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.rows.len()
    }

    /// The document's value of that quantity under those conditions, in its unit.
    pub(super) fn value(&self, quantity: &str, conditions: &str) -> f64 {
        let is_it = |row: &&Figure| row.quantity == quantity && row.conditions == conditions;
        let figure = self.rows.iter().find(is_it);
        figure.unwrap_or_else(|| panic!("{quantity}, {conditions}: no row")).value
    }

    /// The document's row of that quantity and those conditions, beside what the lab gives.
    pub(super) fn compare(&self, quantity: &str, conditions: &str, simulated: f64) -> Row {
        self.compare_part((quantity, conditions), conditions, "", simulated)
    }

    /// The same where the document sums up several measurements in one row: `conditions` are
    /// those of this one. A constant can be fitted only to the first of them, which has no `part`.
    pub(super) fn compare_part(
        &self,
        (quantity, all_conditions): (&str, &str),
        conditions: &str,
        part: &str,
        simulated: f64,
    ) -> Row {
        let is_wanted = |of: &str, under: &str| of == quantity && under == all_conditions;
        let figure = self.rows.iter().find(|row| is_wanted(&row.quantity, &row.conditions));
        let figure = figure.unwrap_or_else(|| panic!("{quantity}, {all_conditions}: no row"));
        let expected = EXPECTED.iter().find(|row| is_wanted(row.quantity, row.conditions));
        let expected = expected.expect("each row of the document is expected");
        let is_fitted = part.is_empty() && self.fitted.contains(&figure.text);
        let kind = match expected.basis {
            Basis::Input => Kind::Input,
            Basis::Context => Kind::Context,
            Basis::Chosen => Kind::Fit,
            Basis::Figure if is_fitted => Kind::Fit,
            Basis::Figure if expected.tolerance.is_none() => Kind::Context,
            Basis::Figure | Basis::Apart => Kind::Predicted,
        };
        Row {
            quantity: quantity.to_owned(),
            conditions: conditions.to_owned(),
            unit: figure.unit.clone(),
            published: Some(figure.value),
            simulated: Some(simulated),
            error: relative_error(Some(figure.value), Some(simulated)),
            kind,
            tolerance: expected.tolerance,
            reason: expected.reason.to_owned(),
            label: format!("{}{part}", expected.label),
        }
    }
}

/// A row that the document has no figure for.
pub(super) fn shown(quantity: &str, conditions: &str, unit: &str, simulated: f64) -> Row {
    Row {
        quantity: quantity.to_owned(),
        conditions: conditions.to_owned(),
        unit: unit.to_owned(),
        published: None,
        simulated: Some(simulated),
        error: None,
        kind: Kind::Context,
        tolerance: None,
        reason: String::new(),
        label: String::new(),
    }
}

/// Whether a source names a figure: the text, and no digit, dot or unit that goes on.
fn names(source: &str, figure: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '.';
    source.match_indices(figure).any(|(at, _)| {
        let before = source[..at].chars().next_back();
        let after = source[at + figure.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_of_the_document_is_expected_and_no_other() {
        let figures = Figures::read(&crosslane_lab::open("rosta").unwrap()).unwrap();
        let key = |quantity: &str, conditions: &str| format!("{quantity}, {conditions}");
        let there: BTreeSet<String> =
            figures.rows.iter().map(|row| key(&row.quantity, &row.conditions)).collect();
        let expected: BTreeSet<String> =
            EXPECTED.iter().map(|row| key(row.quantity, row.conditions)).collect();
        assert_eq!(there, expected);
        assert_eq!(there.len(), figures.rows.len());
    }

    #[test]
    fn a_fit_names_a_figure_with_its_unit() {
        assert!(names("1603 MiB/s is 19 clocks", "1603 MiB/s"));
        assert!(names("at 706 ns, halved", "706 ns"));
        assert!(!names("11603 MiB/s", "1603 MiB/s"));
        assert!(!names("1740 of 256 B follows", "1740 MiB/s"));
        assert!(!names("3.706 ns", "706 ns"));
        assert!(!names("706 nsec", "706 ns"));
    }
}
