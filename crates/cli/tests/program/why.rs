// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a run was not faster, as the program says it.

use serde_json::Value;

use crate::run::{
    changed_lab, document, folder, number, run, run_as_written, run_well,
    stdout_as_written as page_of,
};

/// Of the only scenario.
#[track_caller]
fn why_of(arguments: &str) -> Value {
    let page = page_of(&format!("{arguments} --json"));
    let mut json: Value = serde_json::from_str(&page).unwrap();
    json["scenarios"][0]["why_not_faster"].take()
}

/// An engine with a gap after each descriptor, which small transfers feel.
#[test]
fn a_page_names_the_bottleneck_and_what_it_costs() {
    let arguments = "bench write --lab rosta --size 1K --iterations 200";
    let page = page_of(arguments);
    let begin = page.find("Why not faster\n\n").unwrap_or_else(|| panic!("{page}"));
    let lines: Vec<&str> = page[begin..].lines().skip(2).take(4).collect();
    assert!(lines[0].starts_with("fpga1 -> rc47a.down0 (Gen2 x4): "), "{page}");
    assert!(lines[0].contains(" % no descriptor"), "{page}");
    let why = why_of(arguments);
    let step = &why["steps"][0];
    assert_eq!(step["limits"][0]["kind"], "descriptor_gap", "{why}");
    let megabytes = |value: &Value| format!("{:.1}", value.as_f64().unwrap() / 1e6);
    let expected = format!(
        "bottleneck: {}; {}: {} MB/s instead of {} (+",
        step["limits"][0]["words"].as_str().unwrap(),
        step["limits"][0]["lifted"].as_str().unwrap(),
        megabytes(&step["value"]),
        megabytes(&why["figure"]["value"])
    );
    assert!(lines[1].starts_with(&expected), "{expected}\n{page}");
    assert!(lines[2].starts_with("then: "), "{page}");
    // The run was short enough to be made again as it is: its rate is that of the row.
    assert_eq!(why["shortened"], Value::Null);
    assert_eq!(lines[3], "(rates are those that the application sees)");
    let row = megabytes(&why["figure"]["value"]);
    let rows = &page[..begin];
    assert!(rows.lines().any(|line| line.contains(&format!(" {row} "))), "{row}\n{page}");
}

#[test]
fn accounts_are_part_of_the_explanation() {
    let why = why_of("bench read --lab rosta --size 64K --iterations 4 --pages small");
    let account = &why["account"];
    assert_eq!(
        (&account["link"], &account["direction"]),
        (&Value::from("Gen2 x4"), &Value::from("rc47a.down0 -> fpga1"),)
    );
    let uses = account["uses"].as_array().unwrap();
    let share = |what: &str| {
        uses.iter().find(|entry| entry["use"] == what).map_or(0.0, |e| e["share"].as_f64().unwrap())
    };
    assert!(share("no_tag") > 0.2 && share("payload") > 0.4, "{why}");
}

/// A host makes one load at a time, also in the shorter run that stands for a long one.
#[test]
fn long_reads_by_a_host_are_explained() {
    let why = why_of("bench traffic --lab minimal --flow host:card0:read:64");
    assert_eq!(why["shortened"], Value::from("1024 transfers instead of 10000"));
    assert!(why["steps"][0]["limits"][0]["kind"].is_string(), "{why}");
}

#[test]
fn each_size_of_a_sweep_has_its_bottleneck() {
    let page = page_of("bench p2p --lab rosta --size 512..1K --iterations 100");
    let rows: Vec<&str> =
        page.lines().filter(|line| line.trim_end().ends_with("descriptor gap")).collect();
    assert_eq!(rows.len(), 2, "{page}");
    assert!(page.contains("of it %  bottleneck"), "{page}");
    assert!(page.contains("In the run of 1 KiB:"), "{page}");
    let page =
        page_of("bench traffic --lab rosta --flow fpga1:host:write:256..512 --operations 50");
    assert!(page.contains("of it %  bottleneck") && page.contains("then: "), "{page}");
}

#[test]
fn latencies_have_a_bottleneck_and_no_account() {
    let arguments = "bench latency --lab rosta --iterations 20";
    let page = page_of(arguments);
    assert!(page.contains("Why not faster\n\nbottleneck: ") && page.contains(" us instead of "));
    let why = why_of(arguments);
    assert_eq!((&why["account"], &why["figure"]["better"]), (&Value::Null, &"lower".into()));
    let (before, after) = (&why["figure"]["value"], &why["steps"][0]["value"]);
    assert!(after.as_f64() < before.as_f64(), "{why}");
}

#[test]
fn it_can_be_left_out() {
    let run = run("bench write --lab rosta --size 1K --iterations 20");
    assert!(run.code == 0 && !run.stdout.contains("Why not faster"), "{}", run.stdout);
    assert_eq!(why_of("bench write --lab rosta --size 1K --iterations 20 --no-why"), Value::Null);
}

#[test]
fn a_run_with_errors_is_not_explained() {
    let run = run_as_written("bench p2p --lab rosta --payload 256 --size 64K --json");
    assert_eq!(run.code, 1);
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    let scenario = &json["scenarios"][0];
    assert_eq!(scenario["why_not_faster"], Value::Null);
    assert_eq!(scenario["not_explained"], "the run had errors");
}

/// Slow walks, one at once, in small pages: what the user sees of them, with its evidence.
#[test]
fn a_page_names_the_iotlb_with_its_misses() {
    let walk = "walk_ns = { value = 253, source = \"assumption: as pciebench:iommu";
    let walks = "walks = { value = 5, source = \"assumption: as pciebench:iommu";
    let (slow, one) = (walk.replace("253", "20_000"), walks.replace('5', "1"));
    let lab = changed_lab("why-iotlb", "rosta", &[(walk, &slow), (walks, &one)]);
    let arguments = format!("bench write --lab {lab}:iommu --size 1M --iterations 4 --pages small");
    let page = page_of(&arguments);
    let (_, block) = page.split_once("Why not faster\n\n").unwrap_or_else(|| panic!("{page}"));
    insta::assert_snapshot!(block);
    let why = why_of(&arguments);
    assert_eq!(why["steps"][0]["limits"][0]["kind"], "iotlb", "{why}");
    let iommu = &why["account"]["iommus"][0];
    assert!(iommu["misses"].as_u64() >= Some(900), "{why}");
    assert_eq!((&iommu["iotlb_entries"], &iommu["walks"]), (&112.into(), &1.into()), "{why}");
    // The plan knew it: a page of 4 KiB each 20 us.
    assert!(page.contains("204.8 MB/s expected\n"), "{page}");
    // In large pages each is walked for once.
    let huge = why_of(&arguments.replace("small", "huge"));
    let (rate, misses) = (&huge["figure"]["value"], &huge["account"]["iommus"][0]["misses"]);
    assert!(rate.as_f64() > Some(1.5e9) && misses.as_u64() < Some(20), "{huge}");
}

/// A chain's transfers are filled and emptied one by one: short ones are slower, so that a whole
/// one is explained in place of sixteen.
#[test]
fn the_explained_run_is_as_fast_as_the_measured() {
    let why = why_of("bench chain --lab rosta:crosslane");
    assert_eq!(why["shortened"], "1 transfer instead of 16", "{why}");
    let value = |figure: &str| why[figure]["value"].as_f64().unwrap();
    let off = value("figure") / value("measured") - 1.0;
    assert!(off.abs() < 0.03, "{off}: {why}");
}

/// Checks the block of the last run: its bottleneck is what JSON says. Returns the block.
#[track_caller]
fn block_of<'a>(page: &'a str, why: &Value) -> &'a str {
    let (_, block) = page.split_once("\nWhy not faster\n\n").unwrap_or_else(|| panic!("{page}"));
    let step = &why["steps"][0];
    let limits = step["limits"].as_array().unwrap();
    let words = |name: &str| -> Vec<&str> {
        limits.iter().map(|limit| limit[name].as_str().unwrap()).collect()
    };
    let mut lifted = words("lifted");
    lifted.dedup();
    let held = if limits.len() > 1 { " (each is enough to limit the run)" } else { "" };
    let expected = format!(
        "bottleneck: {}{held}; {}: {:.1} MB/s instead of {:.1} (+",
        words("words").join(" and "),
        lifted.join(", "),
        number(&step["value"]) / 1e6,
        number(&why["figure"]["value"]) / 1e6
    );
    assert!(block.contains(&expected), "{expected}\n{page}");
    block
}

/// The run of a point is explained as it is: what is explained is the rate of its row.
#[test]
fn points_of_a_sweep_have_their_bottleneck() {
    let sweep = "bench sweep --lab kc705 --way from-card --size 1K,16K";
    let report = folder("why-sweep");
    let page = run_well(&format!("{sweep} --why --report {}", report.display())).stdout;
    let json = document(&page_of(&format!("{sweep} --why --json")));
    let rows = json["rows"].as_array().unwrap();
    for (row, kind) in rows.iter().zip(["outstanding", "in_turn"]) {
        let why = &row["why_not_faster"];
        assert_eq!(why["steps"][0]["limits"][0]["kind"], kind, "{row}");
        assert_eq!(why["figure"]["value"], row["bytes_per_second"], "{row}");
        assert_eq!((&why["shortened"], &why["measured"]), (&Value::Null, &why["figure"]), "{row}");
        let named = kind.replace('_', " ");
        assert!(page.lines().any(|line| line.trim_end().ends_with(&named)), "{named}\n{page}");
    }
    let block = block_of(&page, &rows[1]["why_not_faster"]);
    assert!(block.starts_with("kc705 -> host0.port0 (Gen2 x4): "), "{page}");
    let html = std::fs::read_to_string(report.join("index.html")).unwrap();
    assert!(html.contains("What limits each size") && html.contains("the copier of kc705"));
    // Without being asked it says nothing of it.
    let plain = page_of(sweep);
    assert!(!plain.contains("bottleneck") && !plain.contains("Why not faster"), "{plain}");
    let json = document(&page_of(&format!("{sweep} --json")));
    assert_eq!(json["rows"][0].get("why_not_faster"), None, "{json}");
}

#[test]
fn bridged_transfers_have_their_bottleneck() {
    let bench =
        "bridge bench --lab sbdt:crosslane --path put --mode both --size 16K --iterations 1";
    let page = page_of(&format!("{bench} --why"));
    let json = document(&page_of(&format!("{bench} --why --json")));
    let transfers = json["transfers"].as_array().unwrap();
    let [naive, pipelined] = &transfers[..] else { panic!("{json}") };
    let limit = &naive["explanation"]["steps"][0]["limits"][0];
    assert_eq!(limit["kind"], "in_turn", "{naive}");
    assert!(page.lines().any(|line| line.trim_end().ends_with("in turn")), "{page}");
    block_of(&page, &pipelined["explanation"]);
    // Each is explained as it was measured, behind those before it.
    for transfer in transfers {
        let why = &transfer["explanation"];
        let off = number(&why["figure"]["value"]) / number(&transfer["bytes_per_second"]) - 1.0;
        assert!(off.abs() < 0.002 && why["shortened"] == Value::Null, "{off}: {why}");
    }
    assert!(pipelined["why_not_faster"].is_string(), "the sentence on stages stays");
    let plain = document(&page_of(&format!("{bench} --json")));
    assert_eq!(plain["transfers"][0].get("explanation"), None, "{plain}");
}
