// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Width of the terminal. Output that goes elsewhere is as wide as it has to be, unless COLUMNS is
//! set.

use std::sync::OnceLock;

use crosslane_report::Table;
use crosslane_report::text::Columns;

/// The least width that is kept to: in less no table can be read.
const LEAST_COLUMNS: usize = 40;
static LIMITS: OnceLock<Columns> = OnceLock::new();

/// Looks how wide standard output may be. Before that, and with `is_wide` for tables, there is no
/// limit.
pub fn measure(is_wide: bool) {
    let columns = std::env::var("COLUMNS").ok();
    let terminal = || terminal_size::terminal_size_of(std::io::stdout());
    let columns = columns_of(columns.as_deref(), || terminal().map(|(width, _)| width.0.into()));
    let tables = columns.filter(|_| !is_wide);
    // The first call decides.
    let _ = LIMITS.set(Columns { sentences: columns, tables });
}

/// The variable goes before the terminal; one that is no number is as if it were not set.
fn columns_of(variable: Option<&str>, terminal: impl Fn() -> Option<usize>) -> Option<usize> {
    let set = variable.and_then(|text| text.parse().ok()).filter(|columns| *columns > 0);
    set.or_else(terminal).map(|columns: usize| columns.max(LEAST_COLUMNS))
}

/// Returns the most columns of sentences, and of tables and drawings.
#[must_use]
pub fn columns() -> Columns {
    LIMITS.get().copied().unwrap_or_default()
}

/// Formats a table that fits the terminal.
#[must_use]
pub fn shown(table: &Table) -> String {
    table.to_text(columns().tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_variable_goes_before_the_terminal() {
        let terminal = || Some(120);
        assert_eq!(columns_of(Some("80"), terminal), Some(80));
        assert_eq!(columns_of(Some("10"), terminal), Some(LEAST_COLUMNS));
        for unset in [None, Some(""), Some("0"), Some("wide")] {
            assert_eq!(columns_of(unset, terminal), Some(120), "{unset:?}");
            assert_eq!(columns_of(unset, || None), None, "{unset:?}");
        }
    }
}
