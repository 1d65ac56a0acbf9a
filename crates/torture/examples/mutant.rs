// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs seeds and reports the checker of each red one: `mutant [--tori] [--twice] [--first]
//! A..B|SEED...`. `tools/mutations.py` builds it in a tree with a bug put in on purpose.
//!
//! Prints `red SEED CHECKER: WHAT` for each seed that fails, and `end` once all are done. With
//! `--first` it stops after the first red ones.

use std::process::ExitCode;

use crosslane_torture::{Setup, campaign, parse_seeds, torus_campaign};

/// Seeds between two checks for a red one.
const AT_A_TIME: u64 = 32;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| words.iter().any(|word| word == flag);
    let (tori, twice, first) = (has("--tori"), has("--twice"), has("--first"));
    let ranges = words.iter().filter(|word| !word.starts_with("--"));
    let Some(ranges) = ranges.map(|word| parse_seeds(word).ok()).collect::<Option<Vec<_>>>() else {
        eprintln!("usage: mutant [--tori] [--twice] [--first] A..B|SEED...");
        return ExitCode::FAILURE;
    };
    let run = |seeds| {
        let setup = Setup::default();
        match tori {
            true => torus_campaign(seeds, &setup, twice, &(), &()).failures,
            false => campaign(seeds, &setup, twice, &(), &()).failures,
        }
    };
    for range in ranges {
        for from in range.clone().step_by(AT_A_TIME as usize) {
            let to = range.end.min(from + AT_A_TIME);
            let failures = run(from..to);
            for failure in &failures {
                let (check, what) = (failure.violation.check, &failure.violation.what);
                println!("red {} {check}: {}", failure.seed, what.replace('\n', " "));
            }
            if first && !failures.is_empty() {
                println!("end");
                return ExitCode::SUCCESS;
            }
        }
    }
    println!("end");
    ExitCode::SUCCESS
}
