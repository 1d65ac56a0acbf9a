// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--report` of benchmarks, and `compare`.

use std::fs;
use std::path::Path;

use crate::run::{assert_refused, document, folder, run, run_well, stdout_of};

/// Runs a benchmark with a report into `folder`, and gives its JSON and its page.
#[track_caller]
fn bench(arguments: &str, folder: &Path) -> (String, String) {
    let run = run_well(&format!("bench {arguments} --json --report {}", folder.display()));
    assert!(run.stderr.contains("index.html"), "{}", run.stderr);
    (run.stdout, fs::read_to_string(folder.join("index.html")).unwrap())
}

#[test]
fn a_benchmark_writes_a_page() {
    let folder = folder("a_benchmark_writes_a_page");
    let (_, page) = bench("p2p --lab rosta --size 4K..8K --iterations 16", &folder.join("p2p"));
    for text in [
        "Why not faster",
        "260 ns after each descriptor of fpga1",
        "fpga1 -&gt; fpga2",
        "Load of every link, in the last run",
        "rc47b",
        "part.v7.requester.operation_gap_ns",
        "fit",
        "crosslane bench p2p --lab rosta --size 4K..8K",
        "crosslane ui rosta<",
    ] {
        assert!(page.contains(text), "{text} is not on the page");
    }
    let (_, page) =
        bench("traffic --lab minimal --flow card0:host:write:4K --no-why", &folder.join("traffic"));
    assert!(page.contains("card0 -&gt; host0, write") && !page.contains("Why not faster"));
    let (_, page) = bench("latency --lab rosta --iterations 20", &folder.join("latency"));
    assert!(page.contains("One way: half of a round trip"));
}

#[test]
fn a_folder_that_cannot_be_is_an_error() {
    let folder = folder("a_folder_that_cannot_be_is_an_error");
    let file = folder.join("file");
    fs::write(&file, "not a folder").unwrap();
    let bench = "bench latency --lab rosta --iterations 2";
    assert_refused(&format!("{bench} --report {}", file.display()), 1, "file");
}

#[test]
fn two_runs_are_laid_side_by_side() {
    let folder = folder("two_runs_are_laid_side_by_side");
    let mut files = Vec::new();
    for (name, lab) in [("document", "rosta"), ("ours", "rosta:crosslane")] {
        let arguments = format!("p2p --lab {lab} --size 4K..8K --iterations 16");
        let (json, _) = bench(&arguments, &folder.join(name));
        let file = folder.join(format!("{name}.json"));
        fs::write(&file, json).unwrap();
        files.push(file.display().to_string());
    }
    let both = stdout_of(&format!("compare {} {}", files[0], files[1]));
    for head in ["document: bench p2p, lab rosta, v", "\nours: bench p2p, lab rosta:crosslane, v"] {
        assert!(both.contains(head), "{both}");
    }
    let limits = both.split("What limits each\n").nth(1).unwrap_or_default();
    assert!(limits.starts_with("4 KiB: the datapath of fpga1"), "{both}");
    assert!(limits.contains("\n8 KiB: Max_Payload_Size of 128 B"), "{both}");
    assert!(both.contains("0 worse by more than 1 %"), "{both}");
    let back = run(&format!("compare {} {}", files[1], files[0])).stdout;
    assert!(back.contains("0 better by more than 1 %"), "{back}");
    let page = folder.join("both");
    let json =
        run(&format!("compare {} {} --json --report {}", files[0], files[1], page.display()));
    let json = document(&json.stdout);
    let figures = json["figures"].as_array().unwrap();
    let rate = figures.iter().find(|figure| figure["quantity"] == "rate by timers").unwrap();
    assert!(rate["change"].as_f64().unwrap() > 0.1, "{rate}");
    assert!(fs::read_to_string(page.join("index.html")).unwrap().contains("Side by side"));
}

/// Benchmarks that print rows instead of scenarios.
#[test]
fn rows_have_pages_and_are_compared_too() {
    let folder = folder("rows_have_pages_and_are_compared_too");
    for (name, arguments, figure) in [
        ("overhead", "bench overhead --device lab:kc705:crosslane --rounds 2", "register read"),
        ("operations", "bench operations --device lab:minimal --rounds 4", "DMA read, ring"),
        ("packets", "bench packets --device lab:minimal --packets 20", "packets"),
        ("sweep", "bench sweep --lab minimal --way write --iterations 2", "generation 3"),
        ("bridge", "bridge bench --lab sbdt:crosslane --size 64K --iterations 1", "pipelined"),
    ] {
        let report = folder.join(name);
        let printed = run_well(&format!("{arguments} --json --report {}", report.display()));
        let page = fs::read_to_string(report.join("index.html")).unwrap();
        let shown = if name == "sweep" { "Gen3 x4" } else { figure };
        for text in [shown, "Constants and their provenance", &format!("crosslane {arguments}")] {
            assert!(page.contains(text), "{name}: {text} is not on the page");
        }
        let file = folder.join(format!("{name}.json"));
        fs::write(&file, printed.stdout).unwrap();
        let compared = stdout_of(&format!("compare {0} {0}", file.display()));
        assert!(compared.contains(figure) && compared.contains(", 0 worse"), "{name}: {compared}");
    }
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let folder = folder("what_cannot_be_compared_is_refused");
    let write = |name: &str, text: &str| {
        fs::write(folder.join(name), text).unwrap();
        folder.join(name).display().to_string()
    };
    let latency = run("bench latency --lab rosta --iterations 2 --json").stdout;
    let traffic =
        run("bench traffic --lab minimal --flow card0:host:write:4K --operations 4 --json").stdout;
    let [latency, traffic] = [write("latency.json", &latency), write("traffic.json", &traffic)];
    let dance = write("dance.json", "{\"bench\": \"dance\", \"lab\": \"minimal\"}");
    let broken = write("broken.json", "{\"bench\": ");
    for (files, complaint) in [
        (format!("{latency} {traffic}"), "no figure in common"),
        (format!("{latency} {broken}"), "broken.json: line 1, column 10: this is not JSON"),
        (format!("{latency} {latency}.not"), "latency.json.not cannot be read: No such file"),
        (format!("{latency} {dance}"), "dance.json: cannot compare `bench dance`"),
    ] {
        assert_refused(&format!("compare {files}"), 1, complaint);
    }
    assert_eq!(run(&format!("compare {latency}")).code, 2);
}
