// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `what-if` and `tune` on the lab of a listing.

use std::fs;
use std::path::Path;

use crate::run::{folder, json_of, run, run_as_written, run_well, stdout_of};

/// The lab of the listing that examples have.
fn server(name: &str) -> String {
    let lab = folder(name).join("server.toml");
    let listing = concat!(env!("CARGO_MANIFEST_DIR"), "/../twin/tests/dumps/server.txt");
    stdout_of(&format!("lab import {listing} -o {}", lab.display()));
    lab.display().to_string()
}

#[test]
fn flows_stand_before_and_after() {
    let lab = server("flows_stand_before_and_after");
    let arguments = format!(
        "what-if {lab} --set gpu0.mps=128 --link nic0=3x16 --flow gpu0:nic0:write:16K \
         --operations 16"
    );
    let page = stdout_of(&arguments);
    for words in [
        "server with --set gpu0.mps=128 --link nic0=3x16\n",
        "\nflow                        MB/s     then  change %  typical us",
        "\nAs it is\n\nswitch-17-00-0.port-18-02-0 -> nic0 (Gen3 x8): ",
        "bottleneck: width x8 of the link switch-17-00-0.port-18-02-0 -> nic0",
        "\nWith the changes\n\n",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let json = json_of(&format!("{arguments} --no-why --json"));
    assert_eq!(json["changes"][1], "--link nic0=3x16");
    assert!(json["pairs"].is_null() && json["flows"]["before"]["why_not_faster"].is_null());
    let rate = |when: &str| json["flows"][when]["flows"][0]["bytes_per_second"].as_f64().unwrap();
    assert!((1.8..1.9).contains(&(rate("after") / rate("before"))), "{json}");
    // The host takes 256 B.
    let minimal = "what-if minimal --link card0=3x2 --flow card0:host0:write:16K:512 --no-why";
    let failed = run(minimal);
    assert!(failed.code == 1 && failed.stderr.contains("Malformed TLP"), "{failed:?}");
    assert!(failed.stdout.contains("\nWith the changes\n\n"), "{failed:?}");
    let failed = run("tune minimal --flow card0:host0:write:16K:512");
    assert!(failed.stderr.contains("the flows cannot run: host0.port0 at "), "{failed:?}");
}

#[test]
fn commands_are_printed_and_can_be_compared() {
    let lab = server("commands_are_printed_and_can_be_compared");
    let flow = "--flow nvme0:gpu0:write:16K";
    let page = stdout_of(&format!("tune {lab} {flow} --operations 16 --in-place"));
    for words in [
        "\n1. Max_Payload_Size 256 B of all below host.port-30-02-0: ",
        "\n     setpci -s 0000:31:00.0 CAP_EXP+8.w=0020:00e0\n",
        "\n   or, for its way: crosslane device set-mps --path 0000:31:00.0 host 256\n",
        "\nWhat limits afterwards\n\nnvme0 -> host.port-30-02-0 (Gen3 x4): ",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let detail = format!("what-if {lab} {flow} --set nvme0.mps=256");
    assert!(page.contains(&format!("\nIn detail: crosslane {detail}\n")), "{page}");
    stdout_of(&format!("{detail} --no-why"));
}

fn page(folder: &Path) -> String {
    fs::read_to_string(folder.join("index.html")).unwrap()
}

#[track_caller]
fn assert_on(page: &str, words: &[&str]) {
    for words in words {
        assert!(page.contains(words), "{words} is not on the page");
    }
}

/// The lab that is written runs as the changed one did; pages show both.
#[test]
fn changes_are_written_and_shown_on_pages() {
    let lab = server("changes_are_written_and_shown_on_pages");
    let folder = Path::new(&lab).parent().unwrap();
    let at = |name: &str| folder.join(name).display().to_string();
    let (changed, flow) = (at("changed.toml"), "--flow gpu0:nvme0:write:16K --operations 16");
    let changes = "--set nvme0.mps=256 --move nvme0=switch-17-00-0";
    let report = format!("--report {}", at("flows"));
    let compared =
        run_well(&format!("what-if {lab} {changes} {flow} --json --write {changed} {report}"));
    assert!(compared.stderr.contains("lab: ") && compared.stderr.contains("report: "));
    let compared = crate::run::document(&compared.stdout);
    let ran = json_of(&format!("bench traffic --lab {changed} {flow} --json"));
    let rate = |flows: &serde_json::Value| flows[0]["bytes_per_second"].as_f64().unwrap();
    let after = rate(&compared["flows"]["after"]["flows"]);
    assert_eq!(rate(&ran["scenarios"][0]["flows"]), after, "{ran}");
    assert!(after > 1.05 * rate(&compared["flows"]["before"]["flows"]), "{compared}");
    let first = fs::read_to_string(&changed).unwrap();
    assert!(first.starts_with("# Changed by `crosslane what-if "), "{first}");
    let shown = page(&folder.join("flows"));
    assert_on(&shown, &["As it is", "With the changes", "Load of every link", "--set nvme0.mps"]);
    assert_on(&shown, &["Constants and their provenance", "MB/s instead of "]);

    run_well(&format!("what-if minimal --link card0=2x2 --report {}", at("pairs")));
    let shown = page(&folder.join("pairs"));
    assert_on(&shown, &["2 pairs change", "What limits them one way", "card0 to host0"]);
    assert_on(&shown, &["The trees", "--link card0=2x2"]);

    let tune = format!("tune {lab} {flow} --in-place --report {}", at("tuned"));
    run_well(&tune);
    let shown = page(&folder.join("tuned"));
    assert_on(&shown, &["Each lever alone", "setpci -s 0000:31:00.0 CAP_EXP+8.w=0020:00e0"]);
    assert_on(&shown, &["1 step: ", "What limits afterwards", "crosslane what-if "]);

    // A lab that the user has written is not replaced.
    fs::write(folder.join("mine.toml"), "[lab]\n").unwrap();
    let refused = run_as_written(&format!("what-if {lab} --acs off --write {}", at("mine.toml")));
    assert!(refused.code == 1 && refused.stderr.contains("it is not replaced"), "{refused:?}");
}
