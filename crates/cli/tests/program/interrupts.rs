// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ctrl-C: what long commands have is shown.

use std::io::Read;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::run::{Run, command, folder};

fn start(arguments: &str) -> Child {
    let mut command = command(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

/// Interrupts a command as soon as it has something to show.
fn interrupted(arguments: &str) -> Run {
    let mut patience = Duration::from_millis(400);
    loop {
        let child = start(arguments);
        std::thread::sleep(patience);
        interrupt(&child);
        let run = Run::from(child.wait_with_output().unwrap());
        assert_eq!(run.code, 130, "{arguments}: {run:?}");
        if !run.stdout.is_empty() {
            return run;
        }
        patience *= 2;
        assert!(patience < Duration::from_secs(60), "{arguments} shows something: {run:?}");
    }
}

/// How many of how many were done, from the last line of standard error.
fn counts(run: &Run, what: &str) -> (u64, u64) {
    let line = run.stderr.lines().last().unwrap_or_default();
    let counts = line.strip_prefix("interrupted after ").and_then(|line| {
        let (done, rest) = line.split_once(" of ")?;
        let (total, rest) = rest.split_once(' ')?;
        assert!(rest.starts_with(what), "{line}");
        Some((done.parse().ok()?, total.parse().ok()?))
    });
    counts.unwrap_or_else(|| panic!("it says how far it came: {run:?}"))
}

#[test]
fn interrupted_torture_counts_its_seeds() {
    let run = interrupted("torture --seeds 0..1000000");
    let (done, total) = counts(&run, "seeds; 0 failed");
    assert!(done > 0 && total == 1_000_000, "{}", run.stderr);
    let first = format!("seeds 0..1000000: {done} run, 0 failed; ");
    assert!(run.stdout.starts_with(&first), "{}", run.stdout);
    assert!(run.stdout.contains("TLPs on wires"), "{}", run.stdout);
    let run = interrupted("torture --tori --seeds 0..1000000 --json");
    let (done, _) = counts(&run, "seeds; 0 failed");
    let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&report["seeds"], &report["interrupted"]["done"]), (&done.into(), &done.into()));
    assert_eq!(report["interrupted"]["of"], 1_000_000);
}

#[test]
fn an_interrupted_bridge_bench_shows_its_transfers() {
    let run = interrupted("bridge bench --lab sbdt:crosslane --size 4K..1G --path put --json");
    let (done, total) = counts(&run, "kinds of transfers");
    let document: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(document["interrupted"], serde_json::json!({ "done": done, "of": total }));
    assert_eq!(document["transfers"].as_array().map(Vec::len), Some(done as usize));
    assert!(done < total, "{}", run.stderr);
}

#[test]
fn interrupted_sweeps_show_their_rows() {
    let folder = folder("interrupted_sweeps_show_their_rows");
    let (rows, page) = (folder.join("rows.csv"), folder.join("page"));
    let files = format!("--csv {} --report {}", rows.display(), page.display());
    let values: Vec<String> = (1..=2000).map(|value| value.to_string()).collect();
    let sweep = format!(
        "bench sweep --lab rosta:crosslane --way write --size 256K --set \
         variant.crosslane.part.v7.requester.operation_gap_ns={}",
        values.join(",")
    );
    let run = interrupted(&format!("{sweep} {files}"));
    let (done, total) = counts(&run, "points; ");
    assert_eq!((run.stdout.lines().count() as u64 - 1, total), (done, 2000), "{}", run.stdout);
    for file in [&rows, &page.join("index.html")] {
        let words = format!("; {} was not written", file.display());
        assert!(run.stderr.contains(&words) && !file.exists(), "{}", run.stderr);
    }
    assert!(!page.exists(), "its folder is gone too");
    // Ranges of sizes of the benchmarks: small ones are soon done, large ones never.
    for bench in [
        "bench write --lab rosta:crosslane --size 64..1G --iterations 64",
        "bench traffic --lab minimal --flow card0:host:write:64..1G --operations 64",
    ] {
        let run = interrupted(&format!("{bench} --no-why --json"));
        let (done, total) = counts(&run, "sizes");
        let document: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(document["interrupted"], serde_json::json!({ "done": done, "of": total }));
        assert!(done < total && total == 25, "{bench}: {}", run.stderr);
    }
}

/// The second signal does not wait for what is running.
#[test]
fn second_interruption_ends_at_once() {
    let arguments = "bench write --lab rosta:crosslane --size 64..1G --iterations 64 --no-why";
    let mut child = start(arguments);
    std::thread::sleep(Duration::from_secs(2));
    interrupt(&child);
    std::thread::sleep(Duration::from_millis(20));
    if child.try_wait().unwrap().is_none() {
        interrupt(&child);
    }
    let begun = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(5), "it waits");
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(!said.contains("panic"), "{said}");
}
