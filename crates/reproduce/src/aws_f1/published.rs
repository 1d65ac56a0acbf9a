// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The document's table, and what each of its figures is held to.
//!
//! A figure is *fit* where a fitted constant of the lab names it, as in `fit: burst of 4 KiB`.

use crosslane_explain::size_words;
use crosslane_lab::{Lab, Provenance};

use crate::comparison::{Kind, Row, Tolerance, relative_error};
use crate::error::ReproduceError;
use crate::published::PublishedFile;

/// Sizes of the table.
pub(super) const SIZES: u64 = 17;

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode {
    /// The document's name.
    pub name: &'static str,
    /// The name of the column in the file of figures.
    column: &'static str,
    /// The copy routine, not the loop of 32-bit stores.
    pub custom: bool,
    /// Write-combined.
    pub combined: bool,
}

pub(super) const MODES: [Mode; 4] = [
    Mode { name: "burst", column: "burst_gb_per_s", custom: false, combined: false },
    Mode { name: "burst-wc", column: "burst_wc_gb_per_s", custom: false, combined: true },
    Mode { name: "custom", column: "custom_gb_per_s", custom: true, combined: false },
    Mode { name: "custom-wc", column: "custom_wc_gb_per_s", custom: true, combined: true },
];

/// Uncached stores, one like the other.
const STORES: Tolerance =
    Tolerance { fraction: 0.07, reason: "one uncached store is like the other; 100 passes" };
/// A few stores, of which the ends of the block are a large part.
const FEW_STORES: Tolerance =
    Tolerance { fraction: 0.15, reason: "which stores the routine makes is inferred" };
/// Long enough for the buffers not to matter.
const PLATEAU: Tolerance =
    Tolerance { fraction: 0.05, reason: "the plateau; the document's own spread is 3 %" };
/// Buffers on the way take a large part of it.
const BUFFERED: Tolerance =
    Tolerance { fraction: 0.25, reason: "buffers on the way, of which the document says little" };

/// Why two rows contradict the rest.
const CONTRADICTION: &str =
    "less time is printed for 256 B than for 64 or 128 B: the first calls may be in it";
/// Why rates rise again at large sizes.
const LOST: &str = "the elapsed time has lost its whole seconds";

impl Mode {
    /// How far a figure may be off, and why so; none for context, with the reason.
    fn tolerance(self, size_bytes: u64) -> Result<Tolerance, &'static str> {
        match (self.custom, self.combined, size_bytes) {
            (false, false, ..=262_144) => Ok(STORES),
            (true, false, ..=128) => Err("below what the routine's stores were inferred from"),
            (true, false, ..=1024) => Ok(FEW_STORES),
            (true, false, ..=65_536) => Ok(STORES),
            (_, false, _) => Err(LOST),
            (_, true, ..=128) => Err(CONTRADICTION),
            (_, true, ..=2048) => Ok(BUFFERED),
            (_, true, _) => Ok(PLATEAU),
        }
    }

    /// Whether a choice of the routine's stores was read off this figure.
    const fn is_input(self, size_bytes: u64) -> bool {
        self.custom && !self.combined && size_bytes <= 2048
    }
}

/// The table.
pub(super) struct Figures {
    /// Size in bytes, and GB/s by mode.
    rows: Vec<(u64, [f64; 4])>,
    /// Modes and sizes that constants were fitted to.
    fitted: Vec<(String, String)>,
}

impl Figures {
    /// The table of the file that the lab names.
    ///
    /// # Errors
    /// A file that cannot be read, other sizes, or a constant that is fitted to no row.
    pub fn read(lab: &Lab) -> Result<Self, ReproduceError> {
        let mut rows = Vec::new();
        for measurements in &lab.file().measurements {
            let file = PublishedFile::open(&measurements.file)?;
            let [a, b, c, d] = MODES.map(|mode| [mode.column]);
            let names: [&[&str]; 5] = [&["size_bytes"], &a, &b, &c, &d];
            for (index, [size, rates @ ..]) in file.columns(names)?.into_iter().enumerate() {
                let mut numbers = [0.0; 4];
                for (number, text) in numbers.iter_mut().zip(rates) {
                    *number = file.number(index, text)?;
                }
                rows.push((file.number::<u64>(index, size)?, numbers));
            }
        }
        if rows.len() as u64 != SIZES {
            let problem = format!("{} sizes are published, not {SIZES}", rows.len());
            return Err(ReproduceError::experiment(format!("lab {}", lab.name()), problem));
        }
        let mut fitted = Vec::new();
        let fits = lab.constants().filter(|constant| constant.provenance == Provenance::Fit);
        for constant in fits {
            let named = named(&constant.source).filter(|(mode, size)| {
                MODES.iter().any(|known| known.name == mode)
                    && rows.iter().any(|row| size_words(row.0) == *size)
            });
            fitted.push(named.ok_or_else(|| {
                let problem = format!("`{}` names no figure", constant.source);
                ReproduceError::experiment(constant.path(), problem)
            })?);
        }
        Ok(Self { rows, fitted })
    }

    /// How many figures there are.
    pub fn count(&self) -> usize {
        self.rows.len() * MODES.len()
    }

    /// The sizes, bytes.
    pub fn sizes(&self) -> impl Iterator<Item = u64> {
        self.rows.iter().map(|row| row.0)
    }

    /// The document's rate of a mode, bytes per second.
    pub fn rate(&self, mode: Mode, size_bytes: u64) -> f64 {
        let column = MODES.iter().position(|known| *known == mode).expect("it is a mode");
        let row = self.rows.iter().find(|row| row.0 == size_bytes).expect("it is a size");
        row.1[column] * 1e9
    }

    /// Whether a figure is compared.
    pub fn is_compared(&self, mode: Mode, size_bytes: u64) -> bool {
        mode.tolerance(size_bytes).is_ok()
    }

    /// The document's figure beside the lab's rate.
    pub fn compare(&self, mode: Mode, size_bytes: u64, bytes_per_second: f64) -> Row {
        let published = Some(self.rate(mode, size_bytes) / 1e9);
        let simulated = Some(bytes_per_second / 1e9);
        let size = size_words(size_bytes);
        let is_fitted = self.fitted.iter().any(|(name, of)| name == mode.name && *of == size);
        let (kind, reason) = match mode.tolerance(size_bytes) {
            Err(reason) => (Kind::Context, reason),
            Ok(_) if is_fitted => (Kind::Fit, "a constant was fitted to it"),
            Ok(_) if mode.is_input(size_bytes) => {
                (Kind::Input, "which stores the routine makes was read off it")
            }
            Ok(_) => (Kind::Predicted, "no constant comes from it"),
        };
        Row {
            quantity: mode.name.to_owned(),
            label: format!("{}, {size}", mode.name),
            conditions: size,
            unit: "GB/s".to_owned(),
            published,
            simulated,
            error: relative_error(published, simulated),
            kind,
            tolerance: mode.tolerance(size_bytes).ok(),
            reason: reason.to_owned(),
        }
    }
}

/// The mode and the size that a source names behind `fit: `, as in `burst of 4 KiB, …`.
fn named(source: &str) -> Option<(String, String)> {
    let (mode, rest) = source.split_once(" of ")?;
    Some((mode.to_owned(), rest.split(',').next()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fits_name_figures() {
        assert_eq!(
            named("burst-wc of 256 B, what is left"),
            Some(("burst-wc".into(), "256 B".into()))
        );
        assert_eq!(named("burst"), None);
        let figures = Figures::read(&crosslane_lab::open("aws-f1").unwrap()).unwrap();
        assert_eq!(figures.count(), 68);
        let of = |kind: Kind| {
            let kinds = MODES.iter().flat_map(|mode| {
                figures.sizes().map(|size| figures.compare(*mode, size, 1.0).kind)
            });
            kinds.filter(|found| *found == kind).count()
        };
        assert_eq!(figures.fitted.len(), of(Kind::Fit), "{:?}", figures.fitted);
        assert!(of(Kind::Predicted) > 5 * figures.fitted.len());
    }
}
