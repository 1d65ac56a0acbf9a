// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of measurements at random: whatever the text, there are fits or an error with its line,
//! never a panic, and what fits say is finite.
//!
//! `cargo test` tries some thousand random inputs; `tools/corpus.py NAME` fuzzes with coverage and
//! writes the inputs that each run replays first.

use bolero::TypeGenerator;
use crosslane_experiment::fit::{Measurements, fits};

/// Random inputs of each target in a plain run of the tests.
const ITERATIONS: usize = 5_000;

/// Pieces that such files are made of.
const PIECES: [&str; 32] = [
    "bytes", "size_bytes", "us", "ns", "ms", "seconds", "mb_per_s", "gb_per_s", "k", "generation",
    "width", "series", ",", ",", ",", ",", "\n", "\n", "\n", "\r\n", "1", "2", "4", "1024", "1e9",
    "1e-9", "0", "-1", "nan", "\"", "\"\"", " ",
];

#[derive(Clone, Debug, TypeGenerator)]
enum Piece {
    Known(u8),
    Number(u32),
    Any(char),
}

fn look(text: &str) {
    match Measurements::parse("fuzz.csv", text) {
        Ok(measurements) => match fits(&measurements) {
            Ok(fits) => {
                assert!(!fits.is_empty());
                for fit in fits {
                    assert!(
                        fit.fixed_ns.is_finite() && fit.link_ns_per_byte.is_finite(),
                        "{fit:?}"
                    );
                    assert!(fit.worst_residual.is_finite() && fit.residuals.len() > 1, "{fit:?}");
                    assert!(fit.bytes_per_second.is_none_or(f64::is_finite), "{fit:?}");
                }
            }
            Err(error) => is_placed(&error.to_string(), text),
        },
        Err(error) => is_placed(&error.to_string(), text),
    }
}

/// An error names a line that there is.
fn is_placed(error: &str, text: &str) {
    let rest = error.strip_prefix("fuzz.csv, line ").expect("it begins with its place");
    let line: usize = rest.split(':').next().unwrap().parse().unwrap();
    assert!((1..=text.lines().count().max(1)).contains(&line), "{error}");
}

#[test]
fn fuzz_any_file_of_measurements() {
    bolero::check!().with_iterations(ITERATIONS).for_each(|bytes: &[u8]| {
        look(&String::from_utf8_lossy(bytes));
    });
}

/// Files that look like some: headings and numbers, mixed up.
#[test]
fn fuzz_pieces_of_files_of_measurements() {
    bolero::check!().with_type::<(bool, Vec<Piece>)>().with_iterations(ITERATIONS).for_each(
        |(with_heading, pieces)| {
            let mut text = String::new();
            if *with_heading {
                text.push_str("bytes,us,k\n");
            }
            for piece in pieces {
                match piece {
                    Piece::Known(at) => text.push_str(PIECES[usize::from(*at) % PIECES.len()]),
                    Piece::Number(number) => text.push_str(&number.to_string()),
                    Piece::Any(character) => text.push(*character),
                }
            }
            look(&text);
        },
    );
}

/// Records that are whole: any sizes, rates and times.
#[test]
fn fuzz_records_of_measurements() {
    let records = bolero::check!().with_type::<Vec<(u64, u8, u32, bool)>>();
    records.with_iterations(ITERATIONS).for_each(|records| {
        let mut text = "bytes,k,ns,way\n".to_owned();
        for (bytes, k, ns, way) in records {
            let (bytes, k, ns) = ((bytes >> 4).max(1), k.max(&1), ns.max(&1));
            text += &format!("{bytes},{k},{ns},{way}\n");
        }
        look(&text);
    });
}
