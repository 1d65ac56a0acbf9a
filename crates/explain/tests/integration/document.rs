// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of limits in `docs/why-not-faster.md` is complete and in the order of `LimitKind`.

use crosslane_results::LimitKind;

/// Returns the name in JSON: `LinkWidth` is `link_width`.
fn snake_case(kind: LimitKind) -> String {
    let mut name = String::new();
    for letter in format!("{kind:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

#[test]
fn the_table_of_limits_is_that_of_the_search() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/why-not-faster.md");
    let page = std::fs::read_to_string(path).unwrap();
    let section = page.split("## What can limit a run").nth(1).expect("the section is there");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let names: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    assert_eq!(names, LimitKind::ALL.map(snake_case));
}
