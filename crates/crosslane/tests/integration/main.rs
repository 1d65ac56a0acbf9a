// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the examples at the root of the repository.

mod edit;
mod what_if;

use std::path::PathBuf;
use std::process::Command;

/// Runs an example without arguments and returns what it prints.
fn run(example: &str) -> String {
    // Test programs are in `deps`, beside `examples`.
    let mut folder = std::env::current_exe().unwrap();
    folder.pop();
    folder.pop();
    let program: PathBuf = folder.join("examples").join(example);
    let output = Command::new(&program).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the numbers before a unit, one per line.
fn figures(text: &str, unit: &str) -> Vec<f64> {
    let number = |line: &str| line.split(unit).next()?.trim().rsplit(' ').next()?.parse().ok();
    text.lines().filter(|line| line.contains(unit)).filter_map(number).collect()
}

fn rises(figures: &[f64]) -> bool {
    figures.len() > 1 && figures.windows(2).all(|pair| pair[0] < pair[1])
}

#[test]
fn transfers() {
    assert!(run("first_transfer").starts_with("1048576 B in "));
    assert!(run("blocking").starts_with("65536 B went to the card's memory and came back"));
    let peer = run("peer_write");
    assert!(peer.starts_with("path: fpga1 -> ") && peer.contains("1048576 B in "), "{peer}");
}

#[test]
fn stores_are_combined() {
    let text = run("window");
    assert!(text.contains("the card saw 512 of 8 B\n"), "{text}");
    assert!(text.contains("the card saw 64 of 64 B\n"), "{text}");
}

#[test]
fn measurements() {
    let latency = run("latency");
    assert_eq!(latency.lines().count(), 3, "{latency}");
    for example in ["sweep", "own_lab"] {
        let text = run(example);
        assert!(rises(&figures(&text, " MB/s")), "{text}");
    }
    let why = run("why");
    assert!(why.contains("limited by "), "{why}");
}

#[test]
fn an_own_device_adds_up_and_reports() {
    let expected = "sum: 5050, read in 463.173 ns\n\
                    the same in host memory after 514.188 ns\n";
    assert_eq!(run("own_device"), expected);
}

#[test]
fn a_bridge_moves_memory_there_and_back() {
    let expected = "put: 4194304 B in 706.039 us\nget: 4194304 B in 617.611 us\n";
    assert_eq!(run("bridge"), expected);
}
