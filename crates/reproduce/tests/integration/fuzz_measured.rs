// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of measurements at random: whatever the text, there are rows or an error with its line,
//! never a panic, and rows hold what later work relies on.
//!
//! `cargo test` tries some thousand random inputs; `tools/corpus.py NAME` fuzzes with coverage and
//! writes the inputs that each run replays first.

use bolero::TypeGenerator;
use crosslane_reproduce::measured::{Measurements, parse_numbers, rows_words};

/// Random inputs of each target in a plain run of the tests.
const ITERATIONS: usize = 5_000;

/// Pieces that such files are made of.
const PIECES: [&str; 36] = [
    "flow", "size", "value", "unit", "what", "outstanding", "window", "tolerance", "use", "note",
    ",", ",", ",", ",", "\n", "\n", "\n", "\r\n", "a:b:read", "a:b:write", "a:b:p2p", "4K", "64",
    "1.5", "1e9", "nan", "GB/s", "us", "latency", "fit", "0.05", "\"", "\"\"", " ", "\u{feff}",
    "-",
];

#[derive(Clone, Debug, TypeGenerator)]
enum Piece {
    Known(u8),
    Number(u32),
    Any(char),
}

fn look(text: &str) {
    match Measurements::parse("fuzz.csv", text) {
        Ok(measurements) => {
            assert!(!measurements.rows.is_empty());
            for (number, row) in (1..).zip(&measurements.rows) {
                assert_eq!(row.number, number);
                assert!(row.line > number && row.bytes > 0, "{row:?}");
                let of_unit = row.value * row.unit.scale;
                assert!(of_unit.is_finite() && of_unit > 0.0, "{row:?}");
                assert!((0.0..=1.0).contains(&row.tolerance) && row.tolerance > 0.0, "{row:?}");
            }
        }
        Err(error) => {
            let error = error.to_string();
            let rest = error.strip_prefix("fuzz.csv, line ").expect("it begins with its place");
            let line: usize = rest.split([':', ',']).next().unwrap().parse().unwrap();
            assert!((1..=text.lines().count().max(1)).contains(&line), "{error}");
        }
    }
}

#[test]
fn fuzz_any_file_of_measured_rows() {
    bolero::check!().with_iterations(ITERATIONS).for_each(|bytes: &[u8]| {
        look(&String::from_utf8_lossy(bytes));
    });
}

/// Files that look like some: headings and fields, mixed up.
#[test]
fn fuzz_pieces_of_files_of_measured_rows() {
    bolero::check!().with_type::<(bool, Vec<Piece>)>().with_iterations(ITERATIONS).for_each(
        |(with_heading, pieces)| {
            let mut text = String::new();
            if *with_heading {
                text.push_str("flow,size,value\n");
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

/// Numbers of rows are read as they are written.
#[test]
fn fuzz_numbers_of_rows() {
    bolero::check!().with_type::<Vec<u16>>().with_iterations(ITERATIONS).for_each(|numbers| {
        let mut numbers: Vec<usize> = numbers.iter().map(|one| usize::from(*one) + 1).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let words = rows_words(&numbers);
        let list = words.split_once(' ').expect("a word, and the numbers").1;
        let read = parse_numbers(list);
        assert!(read == Ok(numbers.clone()) || numbers.is_empty(), "{words}: {read:?}");
    });
}
