// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Benchmarks and checks of cards that a server shows on sockets.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::run::{command, folder, run, run_as_written};

/// How long a server may take to come up.
const PATIENCE: Duration = Duration::from_secs(60);

/// `lab serve` of two cards, and the names of these.
struct Served {
    server: Child,
    cards: [String; 2],
}

impl Served {
    fn start(test: &str) -> Self {
        let folder = folder(test);
        let sockets = ["a", "b"].map(|name| folder.join(name).display().to_string());
        let [first, second] = &sockets;
        let mut server = command(&format!(
            "lab serve rosta:crosslane --device fpga1 --socket {first} --device fpga2 --socket \
             {second}"
        ));
        let server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        while !sockets.iter().all(|socket| std::path::Path::new(socket).exists()) {
            assert!(begun.elapsed() < PATIENCE, "the server makes its sockets");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { server, cards: sockets.map(|socket| format!("vfio-user:{socket}")) }
    }

    /// What a benchmark of both cards prints as JSON.
    fn json(&self, arguments: &str) -> serde_json::Value {
        let [first, second] = &self.cards;
        let all = format!("{arguments} --device {first} --device {second} --json");
        let run = run_as_written(&all);
        assert_eq!(run.code, 0, "{all}: {}", run.stderr);
        serde_json::from_str(&run.stdout).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

#[test]
fn every_benchmark_of_the_driver_runs_on_served_cards() {
    let served = Served::start("served_benchmarks");
    for (arguments, name) in [
        ("bench write --size 4K..16K --iterations 4", "-> host"),
        ("bench read --size 64K --iterations 4 --notify interrupt", "host ->"),
        ("bench p2p --size 64K --iterations 4", "->"),
        ("bench chain --size 64K --iterations 2", "host ->"),
    ] {
        let printed = served.json(arguments);
        let scenarios = printed["scenarios"].as_array().unwrap();
        for flow in scenarios.iter().flat_map(|one| one["flows"].as_array().unwrap()) {
            assert!(flow["name"].as_str().unwrap().contains(name), "{flow}");
            assert_eq!(flow["wrong_words"], 0, "{flow}");
            assert!(flow["application_bytes_per_second"].as_f64().unwrap() > 0.0, "{flow}");
        }
        assert!(!scenarios.is_empty() && printed["served"] == true, "{printed}");
    }
    let latency = served.json("bench latency --iterations 20");
    let one_way = &latency["scenarios"][0]["latency"]["one_way"];
    // By the engine's timer, so in simulated time: as in the lab, less than a microsecond.
    assert!(one_way["typical_ps"].as_u64().unwrap() < 1_000_000, "{latency}");
    let [first, second] = &served.cards;
    let page = run_as_written(&format!("bench write --device {first} --size 64K"));
    assert!(page.stdout.contains("Why not faster: what the engines have counted"), "{page:?}");
    let tested = run(&format!("device test {first} {second} --largest 64K"));
    assert!(tested.code == 0 && tested.stdout.contains("0 failed"), "{tested:?}");
    let overhead = run(&format!("bench overhead --device {first} --rounds 5 --large 64K"));
    assert!(overhead.code == 0 && overhead.stdout.contains("register read"), "{overhead:?}");
}

#[test]
fn what_cards_cannot_be_asked_for_is_said() {
    for (arguments, code, what) in [
        ("bench write --device vfio-user:nowhere", 1, "nowhere"),
        ("bench write --device vfio:ff:1f.7", 1, "0000:ff:1f.7"),
        ("bench write --device vfio:1f.7", 2, "is no address of a PCI function"),
        ("bench write --device vfio-user:a --mps 256", 2, "crosslane device set-mps"),
        ("bench write --device vfio-user:a --engine rtl", 2, "--engine is for labs"),
        ("bench p2p --device vfio-user:a", 2, "two cards are needed"),
        ("bench p2p --device vfio-user:a --device vfio-user:b --to vfio-user:c", 2, "the cards"),
        ("bench write --device vfio-user:a --flows 2", 2, "--flows 2: --device names 1"),
        ("bench write --device vfio-user:a --device lab:rosta", 2, "cards of the same lab"),
        ("device test lab:rosta/fpga1 vfio-user:a", 2, "cannot be used together"),
        ("device test lab:nowhere", 1, "nowhere"),
        ("bench overhead --device kc705", 2, "cards have names like"),
        ("bench write", 2, "--lab"),
    ] {
        let run = run(arguments);
        assert_eq!(run.code, code, "{arguments}: {}", run.stderr);
        assert!(run.stderr.contains(what), "{arguments}: {}", run.stderr);
    }
}
