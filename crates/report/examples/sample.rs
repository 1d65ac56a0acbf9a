// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes a page with every kind of block, from made-up values:
//! `cargo run -p crosslane-report --example sample -- FOLDER`.

#[path = "sample/plots.rs"]
mod plots;
#[path = "sample/tables.rs"]
mod tables;
#[path = "sample/trees.rs"]
mod trees;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use crosslane_report::{Block, Page, Section};

fn section(title: &str, blocks: Vec<Block>) -> Section {
    Section { title: title.into(), blocks }
}

fn page() -> Page {
    let text = |text: &str| Block::Text(text.into());
    Page {
        title: "Eight FPGAs behind three switches".into(),
        summary: "A sample of a report. Its values are made up to show what a page can hold: \
                  plots with published values, tables, bars, and a tree with the load of every \
                  link."
            .into(),
        facts: [
            ("Command", "crosslane reproduce rosta --report rosta"),
            ("Version", "crosslane 0.1.0"),
            ("Lab", "rosta (8 FPGAs, 3 switches, 1 host)"),
            ("Seed", "1"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .to_vec(),
        sections: vec![
            section(
                "Writes between two FPGAs",
                vec![
                    Block::Verdict(
                        "The wire of the first link is the bottleneck: it is busy 97.6 % of the \
                         time, and a sixth of that is headers."
                            .into(),
                    ),
                    text(
                        "An FPGA writes into another one on the other board, past the host. The \
                         ceiling is the wire less SKP ordered sets and less 20 bytes of framing \
                         and header for each 128 bytes.",
                    ),
                    Block::Plot(plots::rates()),
                    Block::Table(tables::rates()),
                ],
            ),
            section("Latency", vec![Block::Plot(plots::latencies()), Block::Plot(plots::cases())]),
            section(
                "Why not faster",
                vec![
                    text("Where the time of the busiest link went, at three sizes of a block."),
                    Block::Bars(tables::bars()),
                    Block::Table(tables::lifted()),
                ],
            ),
            section(
                "Links",
                vec![
                    Block::Topology(trees::loaded()),
                    text("A larger tree, whose loads were not counted, scrolls in its box."),
                    Block::Topology(trees::large()),
                ],
            ),
            section("All figures", vec![Block::Table(tables::figures())]),
            section(
                "Odd values",
                vec![
                    text("What cannot be drawn is left out, and the page says so."),
                    Block::Plot(plots::odd()),
                    Block::Plot(plots::empty()),
                    Block::Plot(plots::dense()),
                ],
            ),
        ],
    }
}

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("usage: sample FOLDER");
        return ExitCode::FAILURE;
    };
    let path = Path::new(&folder).join("index.html");
    let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, page().to_html()));
    match written {
        Ok(()) => {
            println!("{}", path.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: cannot write {}: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}
