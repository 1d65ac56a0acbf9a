// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The gateware in the place of engines.

use serde_json::Value;

use crate::run::{json_of, number, run, run_well};

/// Longest difference of a latency one way, ps: 3 clocks.
const MOST_PS: f64 = 12_000.0;
/// Largest difference of a rate.
const MOST_OF_RATE: f64 = 0.01;

/// The only scenario of a run, in which nothing went wrong; standard error says how many clocks of
/// the gateware were simulated.
#[track_caller]
fn scenario_on_gateware(arguments: &str) -> Value {
    let run = run(&format!("{arguments} --engine rtl --json"));
    assert_eq!(run.code, 0, "crosslane {arguments}: {}", run.stderr);
    let said: Vec<&str> = run.stderr.split_whitespace().collect();
    let clocks = said.get(1).and_then(|count| count.parse::<u64>().ok());
    assert!(clocks.is_some_and(|clocks| clocks > 1_000), "{}", run.stderr);
    let mut json: Value = serde_json::from_str(&run.stdout).expect("--json prints JSON");
    assert_eq!(json["scenarios"][0]["error_count"], 0, "crosslane {arguments}");
    json["scenarios"][0].take()
}

#[test]
fn every_benchmark_gives_the_figures_of_the_model() {
    let some = "--size 64K --iterations 12";
    for arguments in [
        &format!("bench write --lab rosta:crosslane {some}"),
        &format!("bench read --lab rosta:crosslane {some} --notify interrupt"),
        &format!("bench write --lab rosta:crosslane {some} --descriptors table"),
        &format!("bench p2p --lab rosta:crosslane {some}"),
        &format!("bench p2p --lab rosta:crosslane {some} --no-credits --mps 256"),
        "bench read --lab rosta:crosslane --flows 4 --size 64K --iterations 4",
        "bench chain --lab rosta:crosslane --from fpga1 --to fpga3 --size 64K --iterations 4",
        &format!("bench write --lab minimal {some}"),
        &format!("bench read --lab minimal {some}"),
        "bench chain --lab minimal --size 256K --iterations 4",
    ] {
        let mut model = json_of(&format!("{arguments} --json"));
        let model = model["scenarios"][0].take();
        let gateware = scenario_on_gateware(arguments);
        // Flows that share a link begin in an order that is a matter of clocks: all of them count.
        let rate = |scenario: &Value| {
            let flows = scenario["flows"].as_array().unwrap();
            flows.iter().map(|flow| number(&flow["hardware"]["bytes_per_second"])).sum::<f64>()
        };
        let (ours, theirs) = (rate(&model), rate(&gateware));
        let off = (theirs / ours - 1.0).abs();
        assert!(off < MOST_OF_RATE, "crosslane {arguments}: {theirs} B/s, not {ours}");
    }
}

/// The account is by the gateware's registers, the search by runs of the model.
#[test]
fn gateware_runs_are_explained() {
    let arguments = "bench p2p --lab rosta:crosslane --size 16K --iterations 24 --outstanding 1";
    let run = run_well(&format!("{arguments} --engine rtl --json"));
    let mut json: Value = serde_json::from_str(&run.stdout).expect("--json prints JSON");
    let why = json["scenarios"][0]["why_not_faster"].take();
    assert_eq!((&why["on_model"], why["steps"].is_array()), (&Value::Bool(true), true), "{why}");
    assert_eq!(why["account"]["direction"], "fpga1 -> rc47a.down0");
    let uses = why["account"]["uses"].as_array().expect("an account has its uses");
    let share = |word: &str| {
        let found = uses.iter().find(|entry| entry["use"] == word);
        found.map_or(0.0, |entry| number(&entry["share"]))
    };
    let all: f64 = uses.iter().map(|entry| number(&entry["share"])).sum();
    assert!((all - 1.0).abs() < 0.01 && share("payload") > 0.5, "{uses:?}");
    // Idle time has the engine's reasons, of which the link knows nothing.
    assert!(share("descriptor") > 0.05 && share("nothing_to_send") < 0.01, "{uses:?}");
}

#[test]
fn latency_is_that_of_the_model_but_for_three_clocks() {
    for (size, to) in [(4, "fpga2"), (128, "fpga5"), (1024, "fpga2")] {
        let arguments = format!(
            "bench latency --lab rosta:crosslane --from fpga1 --to {to} --size {size} \
             --iterations 10"
        );
        let mut model = json_of(&format!("{arguments} --json"));
        let model = model["scenarios"][0].take();
        let gateware = scenario_on_gateware(&arguments);
        let latency = |scenario: &Value| number(&scenario["latency"]["one_way"]["typical_ps"]);
        let (ours, theirs) = (latency(&model), latency(&gateware));
        assert!((theirs - ours).abs() <= MOST_PS, "{size} B to {to}: {theirs} ps, not {ours}");
    }
}

/// Runs seeds of the torture, none of which may fail; its report.
#[track_caller]
fn torture(seeds: &str) -> Value {
    let run = run(&format!("torture --engine rtl --seeds {seeds} --json"));
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    serde_json::from_str(&run.stdout).expect("--json prints JSON")
}

#[test]
fn a_storm_finds_nothing_in_the_gateware() {
    let report = torture("0..24");
    assert_eq!((report["seeds"].as_u64(), report["failed"].as_u64()), (Some(24), Some(0)));
    assert!(report["words"].as_u64() > Some(10_000), "{report}");
}

/// The source of a write channel is restarted in the middle of one of its TLPs: in 378 a lane under
/// C2H, in 729 H2C under a peer channel, in 845 H2C under C2H.
#[test]
fn a_restart_of_a_source_tears_no_write() {
    for seed in ["378", "729", "845"] {
        torture(seed);
    }
}

/// The link of the host goes for good when a channel has just given its buffer back.
#[test]
fn a_channel_whose_engine_is_gone_comes_to_an_end() {
    torture("6000286");
}

/// The checker begins a new stream while words of the old one wait in the staging memory.
#[test]
fn words_of_an_old_stream_are_not_held_against_a_new_one() {
    for seed in ["20782003391", "20782004644"] {
        torture(seed);
    }
}
