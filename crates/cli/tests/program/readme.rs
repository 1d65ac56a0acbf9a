// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sample output in README.md, docs/tour.md and docs/small-operations.md is what the program
//! prints, and the picture what it draws. `make readme` writes them anew.
//!
//! A block of sample output stands below a line such as
//! `<!-- output of: crosslane topo rosta, first 9 lines -->`. Behind the comma: which part of it
//! (`first N lines`, `lines with WORD`, `block HEADING` with its heading, `errors` for standard
//! error); without it, all.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::run::{folder, run_as_written, stdout_of};

const MARK: &str = "<!-- output of: crosslane ";
const FENCE: &str = "```";

/// The block below one mark.
fn sample(mark: &str) -> String {
    let mark = mark.trim_start_matches(MARK).trim_end_matches("-->").trim();
    let (arguments, part) = mark.split_once(", ").unwrap_or((mark, ""));
    let run = run_as_written(arguments);
    let wants_errors = part == "errors";
    assert_eq!(run.code, i32::from(wants_errors), "crosslane {arguments}: {}", run.stderr);
    let text = if wants_errors { run.stderr } else { run.stdout };
    let words: Vec<&str> = part.split_whitespace().collect();
    let lines: Vec<&str> = match words[..] {
        ["first", count, "lines"] => text.lines().take(count.parse().unwrap()).collect(),
        ["lines", "with", word] => text.lines().filter(|line| line.contains(word)).collect(),
        ["block", ..] => {
            let heading = part.trim_start_matches("block ");
            let from = text.lines().skip_while(|line| *line != heading);
            let block = from.take_while(|line| !line.starts_with("Links ")).collect::<Vec<_>>();
            block[..block.len() - 1].to_vec()
        }
        _ => text.lines().collect(),
    };
    let mut block = String::new();
    let _ = writeln!(block, "$ crosslane {}", arguments.replace(" --flow", " \\\n    --flow"));
    for line in lines {
        let _ = writeln!(block, "{}", line.trim_end());
    }
    block
}

/// The document with every block of sample output as the program prints it now.
fn with_samples(document: &str) -> String {
    let mut fresh = String::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        let _ = writeln!(fresh, "{line}");
        if !line.starts_with(MARK) {
            continue;
        }
        let fence = lines.next().filter(|line| line.starts_with(FENCE));
        let _ = writeln!(fresh, "{}", fence.expect("a block below the mark"));
        let old = lines.by_ref().take_while(|line| *line != FENCE).count();
        assert!(old < 200, "a block ends");
        fresh.push_str(&sample(line));
        let _ = writeln!(fresh, "{FENCE}");
    }
    fresh
}

/// Whether pages are written instead of compared.
pub fn is_writing() -> bool {
    std::env::var_os("CROSSLANE_UPDATE_README").is_some()
}

/// The root of the tree.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn check_samples(page: &str) {
    let path = root().join(page);
    let document = std::fs::read_to_string(&path).unwrap();
    assert!(document.contains(MARK), "{page} has no samples");
    let fresh = with_samples(&document);
    if is_writing() {
        std::fs::write(&path, fresh).unwrap();
        return;
    }
    for (written, printed) in document.lines().zip(fresh.lines()) {
        assert_eq!(written, printed, "{page} is out of date: `make readme` writes it anew");
    }
    assert_eq!(document.lines().count(), fresh.lines().count(), "{page}: run `make readme`");
}

#[test]
fn samples_of_the_readme_are_what_the_program_prints() {
    check_samples("README.md");
}

#[test]
fn samples_of_the_tour_are_what_the_program_prints() {
    check_samples("docs/tour.md");
}

#[test]
fn samples_of_small_operations_are_what_is_printed() {
    check_samples("docs/small-operations.md");
}

#[test]
fn the_picture_is_what_the_program_draws() {
    let path = root().join("docs/rosta.svg");
    let drawn = folder("the_picture").join("rosta.svg");
    stdout_of(&format!("topo rosta --svg {}", drawn.display()));
    let fresh = std::fs::read_to_string(&drawn).unwrap();
    if is_writing() {
        std::fs::write(&path, fresh).unwrap();
        return;
    }
    let picture = std::fs::read_to_string(&path).unwrap();
    assert!(picture == fresh, "docs/rosta.svg is out of date: `make readme` draws it anew");
}
