// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reproduction `rosta`: every figure of the paper within its tolerance, every byte as sent,
//! our own engine at its ceilings.

use crate::support;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crosslane_lab::{EngineKind, Provenance};
use crosslane_reproduce::comparison::{Kind, Row};
use crosslane_reproduce::reproduction::{Reproduction, reproduce};
use crosslane_reproduce::study::Effort;
use crosslane_reproduce::{Context, rosta};

const SEED: u64 = 1;

/// The reproduction, run once for all tests.
static RUN: LazyLock<Reproduction> = LazyLock::new(|| support::reproduced("rosta"));

fn rows() -> Vec<&'static Row> {
    RUN.rows().collect()
}

/// Returns the simulated value of the row with this quantity and these conditions.
fn value(quantity: &str, conditions: &str) -> f64 {
    let rows = rows();
    let found = rows.iter().find(|row| row.quantity == quantity && row.conditions == conditions);
    let found = found.unwrap_or_else(|| panic!("no row {quantity}, {conditions}"));
    found.simulated.unwrap_or_else(|| panic!("{found:?}"))
}

#[test]
fn every_figure_is_within_its_tolerance() {
    let missed: Vec<String> = RUN.missed().map(|row| format!("{row:?}")).collect();
    assert!(missed.is_empty(), "outside:\n  {}", missed.join("\n  "));
    let compared = rows().iter().filter(|row| row.is_compared()).count();
    assert_eq!(
        compared, 20,
        "2 limits, 3 rates and 2 latencies of peers, 9 writes, 3 reads, chain"
    );
}

#[test]
fn tolerances_match_the_specification() {
    for row in rows().iter().filter(|row| row.is_compared()) {
        let expected = match row.quantity.as_str() {
            "limit" => 0.002,
            "p2p_write_rate" | "p2p_write_rate_8_2" | "p2p_latency" => 0.02,
            "ram_write_rate_application" | "chain_rate" => 0.05,
            quantity if quantity.starts_with("ram_") => 0.03,
            quantity => panic!("{quantity} is compared"),
        };
        assert_eq!(row.tolerance.unwrap(), expected, "{row:?}");
    }
}

#[test]
fn every_byte_is_as_it_was_sent() {
    for experiment in &RUN.experiments {
        for table in &experiment.tables {
            let Some(wrong) = table.place("wrong words") else {
                continue;
            };
            assert!(table.rows.iter().all(|row| row[wrong].text == "0"), "{}", experiment.title);
        }
    }
    let wrong: Vec<f64> = rows()
        .iter()
        .filter(|row| row.quantity == "loopback_wrong_words")
        .filter_map(|row| row.simulated)
        .collect();
    assert_eq!(wrong, [0.0; 4]);
}

#[test]
fn fits_and_predictions() {
    let labels = |kind: Kind| -> Vec<&str> {
        let rows = rows();
        let found = rows.iter().filter(|row| row.kind == kind && row.published.is_some());
        found.map(|row| row.label.as_str()).collect()
    };
    assert_eq!(labels(Kind::Input), ["limit of x4 Gen2", "limit of x8 Gen2"]);
    let fits = [
        "write to RAM, timer", "read from RAM, each", "FPGA to FPGA, MPS 128",
        "FPGA to FPGA, case 8.1", "FPGA to FPGA, case 8.2", "latency, 1 switch",
    ];
    assert_eq!(labels(Kind::Fit), fits);
    let predicted = labels(Kind::Predicted);
    for label in ["write to RAM", "read from RAM", "FPGA to FPGA", "latency", "chain"] {
        assert!(predicted.iter().any(|row| row.starts_with(label)), "no {label} is predicted");
    }
    let lab = crosslane_lab::open("rosta").unwrap();
    let fitted = lab.constants().filter(|one| one.provenance == Provenance::Fit).count();
    // A figure for several numbers of devices counts once.
    let figure = |row: &&Row| (row.quantity.clone(), row.published.map(f64::to_bits));
    let rows = rows();
    let compared: BTreeSet<_> = rows.iter().filter(|row| row.is_compared()).map(figure).collect();
    assert!(fitted < compared.len(), "{fitted} constants, {} figures", compared.len());
}

#[test]
fn our_own_engine_reaches_its_ceilings() {
    let rows: Vec<Row> = RUN.rows().cloned().collect();
    let missed = rosta::missed_goals(&rows);
    assert!(missed.is_empty(), "{}", missed.join("\n  "));
}

/// Our engine is faster wherever the paper's engine and software limit; no rate is lower.
#[test]
fn our_own_engine_beside_the_documents() {
    for payload in [8, 16, 32, 64] {
        let under = format!("1 device; 4 MiB; MPS {payload}");
        for quantity in ["ram_write_rate_hardware", "ram_write_rate_application"] {
            let theirs = value(quantity, &format!("{under}; descriptor table"));
            let ours = value(quantity, &format!("{under}; our engine"));
            assert!(ours >= theirs, "{quantity}, {payload} B: {ours}, {theirs}");
        }
    }
    let latency = |more: &str| value("p2p_latency", &format!("1 switch; one way{more}"));
    // The latency of the ports is fitted to the paper's cards and therefore contains their whole
    // pipeline; that of our gateware (write_latency_clocks and a beat of the receive queue) is
    // added to it.
    let pipeline_ns = 20.0 * 4.0;
    assert!(latency("; our engine") <= latency("") + pipeline_ns);
    let chain = |more: &str| value("chain_rate", &format!("HOST to 8 FPGAs to HOST{more}"));
    assert!(chain("; our engine") > 1.5 * chain(""));
}

#[test]
fn shares_are_fair() {
    for quantity in [
        "write_spread_of_flows", "write_spread_of_ports", "read_spread_of_flows",
        "read_spread_of_ports",
    ] {
        for under in ["8 devices; 4 MiB; MPS 128", "8 devices; 4 MiB; MPS 128; our engine"] {
            let under = if quantity.starts_with("read") {
                under.replace("; MPS 128", "")
            } else {
                under.to_owned()
            };
            let spread = value(&format!("ram_{quantity}"), &under);
            assert!((0.0..=0.02).contains(&spread), "{quantity}, {under}: {spread}");
        }
    }
}

/// Explains case 8.1: without the DLLPs of the opposing traffic it is as fast as one transfer.
#[test]
fn dllps_of_opposing_traffic_explain_case_8_1() {
    let context = Context::open("rosta", SEED, &()).unwrap();
    let with = rosta::ring_rate(&context, false).unwrap();
    let without = rosta::ring_rate(&context, true).unwrap();
    let alone = value("p2p_write_rate", "1 transfer; same board; MPS 128");
    assert!(with < 0.97 * alone, "{with} is no less than {alone}");
    assert!((without / alone - 1.0).abs() < 0.005, "{without} is not {alone}");
}

#[test]
fn the_same_seed_gives_the_same_rows() {
    let again = support::compared("rosta", Effort::Full);
    assert!(again.len() > 10);
    for row in again {
        assert_eq!(row.simulated, Some(value(&row.quantity, &row.conditions)), "{row:?}");
    }
}

#[test]
fn json_is_one_object() {
    let json = serde_json::to_value(RUN.result()).unwrap();
    let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["reproduction", "rows", "schema", "seed", "version", "why_not_faster"]);
    assert_eq!(json["reproduction"], "rosta");
    assert_eq!(json["rows"].as_array().unwrap().len(), rows().len());
}

/// Returns the kinds of the limits of the runs of that name, the bottleneck's first.
fn limits(run: &str) -> Vec<Vec<String>> {
    let json = serde_json::to_value(RUN.result()).unwrap();
    let mut explained = json["why_not_faster"].as_array().unwrap().iter();
    let found = explained.find(|explained| explained["run"] == run);
    let found = found.unwrap_or_else(|| panic!("{run} is not explained"));
    let steps = found["explanation"]["steps"].as_array().unwrap();
    let kinds = |step: &serde_json::Value| {
        let limits = step["limits"].as_array().unwrap().iter();
        limits.map(|limit| limit["kind"].as_str().unwrap().to_owned()).collect()
    };
    steps.iter().map(kinds).collect()
}

#[test]
fn what_the_document_says_of_its_limits_is_found() {
    // One page is read for at a time, to which its 1000 MiB/s was fitted.
    assert_eq!(limits("1 FPGA reads, paper")[0], ["reading_descriptors"]);
    // Its time is spent on writing about a thousand descriptors with the processor.
    assert_eq!(limits("payloads of 128 B, paper")[0], ["processor"]);
    assert_eq!(limits("payloads of 8 B, paper")[0], ["max_payload"]);
    // "100 % of the common channel", once nothing in the host limits it.
    assert_eq!(limits("8 FPGAs write, our engine")[0], ["shared_link"]);
    assert_eq!(limits("8 FPGAs read, our engine")[0], ["shared_link"]);
    // The paper measured this gain with packets of 256 B.
    assert_eq!(limits("case 1, MPS 128, paper")[0], ["max_payload"]);
    assert_eq!(limits("1 switch, paper")[0], ["endpoint_latency"]);
    assert_eq!(limits("3 switches, paper")[1], ["switch_latency"]);
}

#[test]
fn every_experiment_that_runs_is_explained_and_drawn() {
    for (number, experiment) in (1..).zip(&RUN.experiments) {
        // The first experiment is a check of the data, the second is arithmetic.
        assert_eq!(experiment.why.is_empty(), number <= 2, "{}", experiment.title);
        assert_eq!(experiment.plots.is_empty(), number == 1, "{}", experiment.title);
        for explained in &experiment.why {
            let shares: f64 = explained
                .explanation
                .account
                .iter()
                .flat_map(|account| &account.uses)
                .map(|part| part.share)
                .sum();
            let has_account = explained.explanation.account.is_some();
            assert!(!has_account || (shares - 1.0).abs() < 1e-6, "{}: {shares}", explained.name);
        }
    }
}

#[test]
fn the_page_has_every_figure_of_the_document() {
    let page = RUN.page("crosslane reproduce rosta --report here").unwrap().to_html();
    for row in rows().iter().filter(|row| !row.label.is_empty()) {
        let label = row.label.rsplit_once(" of ").map_or(row.label.as_str(), |(label, _)| label);
        assert!(page.contains(label), "{}", row.label);
    }
    assert!(page.contains("crosslane reproduce rosta --report here"));
    assert!(page.contains("part.v7.requester.idle_clocks_per_tlp"));
}

#[test]
fn the_document_shows_the_tables_as_they_are() {
    support::assert_page_is_fresh(&RUN);
}

#[test]
fn an_unknown_reproduction_is_answered_with_those_that_are_there() {
    let found = reproduce("nowhere", SEED, EngineKind::Model, &(), &|_| unreachable!());
    let error = found.unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no reproduction nowhere; there are aws-f1, kc705, nget, rosta, sbdt"
    );
}
