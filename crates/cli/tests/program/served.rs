// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Benchmarks and checks of cards that a server shows on sockets.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::run::{assert_refused, command, document, folder, run, run_as_written, run_well};

/// How long a server may take to come up.
const PATIENCE: Duration = Duration::from_secs(60);

/// `lab serve` of cards, and the names of these.
pub struct Served<const N: usize> {
    server: Child,
    /// Names of the cards.
    pub cards: [String; N],
}

impl<const N: usize> Served<N> {
    /// Starts it, and waits until its sockets are there.
    pub fn start(test: &str, lab: &str, endpoints: [&str; N]) -> Self {
        Self::with_errors(test, lab, endpoints, Stdio::null())
    }

    fn with_errors(test: &str, lab: &str, endpoints: [&str; N], errors: Stdio) -> Self {
        let folder = folder(test);
        let sockets = endpoints.map(|name| folder.join(name).display().to_string());
        let pairs = endpoints.iter().zip(&sockets);
        let pairs = pairs.map(|(name, socket)| format!("--device {name} --socket {socket}"));
        let pairs: Vec<String> = pairs.collect();
        let mut server = command(&format!("lab serve {lab} {}", pairs.join(" ")));
        let server = server.stdout(Stdio::null()).stderr(errors).spawn().unwrap();
        let begun = Instant::now();
        while !sockets.iter().all(|socket| std::path::Path::new(socket).exists()) {
            assert!(begun.elapsed() < PATIENCE, "the server makes its sockets");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { server, cards: sockets.map(|socket| format!("vfio-user:{socket}")) }
    }

    /// Returns the output of a benchmark of all cards.
    fn stdout(&self, arguments: &str) -> String {
        let cards: Vec<String> = self.cards.iter().map(|card| format!("--device {card}")).collect();
        let all = format!("{arguments} {}", cards.join(" "));
        let run = run_well(&all);
        run.stdout
    }

    /// Returns its output as JSON.
    fn json(&self, arguments: &str) -> serde_json::Value {
        document(&self.stdout(&format!("{arguments} --json")))
    }

    /// Has a page of it made, and of its JSON a comparison with itself.
    fn see_page(&self, arguments: &str, test: &str, sections: &[&str]) {
        let folder = folder(test);
        let report = folder.join("report");
        let printed = self.stdout(&format!("{arguments} --json --report {}", report.display()));
        let page = std::fs::read_to_string(report.join("index.html")).unwrap();
        let title = format!("on {}</title>", self.cards.join(", "));
        let missing =
            sections.iter().copied().chain([&title[..]]).find(|part| !page.contains(part));
        assert_eq!(missing, None, "{page}");
        let file = folder.join("run.json");
        std::fs::write(&file, printed).unwrap();
        let compared = run(&format!("compare {0} {0}", file.display()));
        assert!(compared.code == 0 && compared.stdout.contains(", 0 worse"), "{compared:?}");
    }
}

impl<const N: usize> Drop for Served<N> {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

#[test]
fn every_benchmark_of_the_driver_runs_on_served_cards() {
    let served = Served::start("served_benchmarks", "rosta:crosslane", ["fpga1", "fpga2"]);
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
    let sections = ["Rate by size", "Time of a transfer by size"];
    served.see_page("bench p2p --size 4K..8K --iterations 4", "served_page", &sections);
    let [first, second] = &served.cards;
    let page = run_as_written(&format!("bench write --device {first} --size 64K"));
    assert!(page.stdout.contains("Why not faster: what the engines have counted"), "{page:?}");
    // One table has one clock: this machine's.
    let heading = page.stdout.lines().find(|line| line.contains("app MB/s")).unwrap();
    assert!(heading.trim_end().ends_with("app MB/s"), "{page:?}");
    assert!(page.stdout.contains("all times and rates are in this machine's time"), "{page:?}");
    let tested = run(&format!("device test {first} {second} --largest 64K"));
    assert!(tested.code == 0 && tested.stdout.contains("0 failed"), "{tested:?}");
    // A card has the axes of transfers.
    let sweep = "--size 4K,64K --outstanding 1,4 --iterations 8 --json";
    let sweep = run(&format!("bench sweep --device {first} {sweep}"));
    assert_eq!(sweep.code, 0, "{sweep:?}");
    let sweep: serde_json::Value = serde_json::from_str(&sweep.stdout).unwrap();
    let rows = sweep["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &sweep["served"]), (2 * 2 * 2, &true.into()), "{sweep}");
    for row in rows {
        let is_good = row["wrong_words"] == 0 && row["bytes_per_second"].as_f64().unwrap() > 0.0;
        assert!(is_good && row.get("width").is_none(), "{row}");
    }
    // Buffers are on the node that is asked for, where a container permits that.
    let placed = run(&format!("bench write --device {first} --size 4K --iterations 4 --numa 0"));
    assert!(placed.code == 0 || placed.stderr.contains("`--cap-add SYS_NICE`"), "{placed:?}");
    let other = format!("bench write --device {first} --size 4K --numa 1023");
    assert_refused(&other, 1, "this machine has no NUMA node 1023: ");
    let overhead = run(&format!("bench overhead --device {first} --rounds 5 --large 64K"));
    assert!(overhead.code == 0 && overhead.stdout.contains("register read"), "{overhead:?}");
}

#[test]
fn stores_into_a_served_memory_card() {
    let served = Served::start("served_mmio", "aws-f1", ["f1"]);
    // Its memory is mapped into the program, so that it can be combined too.
    for (options, name) in [("-c", "custom"), ("-w", "burst-wc"), ("-w -c", "custom-wc")] {
        let printed = served.json(&format!("bench mmio -i 4096 -p 2 {options}"));
        let flow = &printed["scenarios"][0]["flows"][0];
        let found = (&flow["name"], &flow["wrong_words"], &flow["bytes"]);
        assert_eq!(found, (&name.into(), &0.into(), &(4 * 4096).into()), "{printed}");
        assert!(flow["bytes_per_second"].as_f64().unwrap() > 0.0, "{printed}");
        assert_eq!(printed["devices"].as_array().unwrap().len(), 1);
    }
    served.see_page("bench mmio -i 16", "served_mmio_page", &["the card's memory"]);
    let [card] = &served.cards;
    let page = run_as_written(&format!("bench mmio --device {card} -i 16"));
    assert!(page.code == 0 && page.stdout.contains("burst"), "{page:?}");
    // The card has no engine, and no network processor.
    for (bench, what) in [("write", "has no engine"), ("nget", "has no network processor")] {
        let refused = run(&format!("bench {bench} --device {card}"));
        assert!(refused.code == 1 && refused.stderr.contains(what), "{refused:?}");
    }
}

#[test]
fn gets_of_served_network_processors() {
    let served = Served::start("served_nget", "nget:crosslane", ["fpga1", "fpga2"]);
    let printed = served.json("bench nget --size 64..1K -n 4 -k 20");
    let scenarios = printed["scenarios"].as_array().unwrap();
    assert_eq!(scenarios.len(), 2 * 5, "{printed}");
    for scenario in scenarios {
        let flow = &scenario["flows"][0];
        let bytes = flow["bytes"].as_u64().unwrap();
        assert_eq!(flow["iterations"], 4 - 1 + 20, "{flow}");
        // 128 B of payload in each datagram.
        assert_eq!(flow["datagrams"], 23 * bytes.div_ceil(128), "{flow}");
    }
    let sections = ["Nget duration", "Nget bandwidth"];
    served.see_page("bench nget --size 64..256 -k 20", "served_nget_page", &sections);
    // The one cable between them.
    let halo = served.json("bench halo --open --lattice 2x4x4x4 --exchanges 3");
    let flow = &halo["scenarios"][0]["flows"][0];
    let checked = (&flow["buffers_compared"], &flow["buffers_wrong"], &flow["bytes"]);
    assert_eq!(checked, (&(2 * 3).into(), &0.into(), &(64 * 64).into()), "{halo}");
    let arguments = "bench halo --open --lattice 2x4x4x4 --exchanges 1";
    served.see_page(arguments, "served_halo_page", &["buffers compared"]);
    let links = served.json("bench link --open --datagrams 100");
    for end in links["scenarios"][0]["flows"].as_array().unwrap() {
        assert_eq!((&end["wrong"], &end["lost"]), (&0.into(), &0.into()), "{end}");
        assert!(end["right"].as_u64() >= Some(100), "{end}");
    }
    let arguments = "bench link --open --datagrams 100";
    served.see_page(arguments, "served_link_page", &["Torus links under test"]);
    let [first, _] = &served.cards;
    let modes = run_as_written(&format!("bench nget --device {first} --requests uncached"));
    assert!(modes.code == 0 && modes.stdout.contains("user, uncached, poll"), "{modes:?}");
}

#[test]
fn a_lab_is_a_device_everywhere() {
    for (arguments, other) in [
        ("bench mmio --no-why -i 16", "aws-f1"),
        ("bench nget --size 64 -k 20", "nget"),
        ("bench halo --nodes 2 --exchanges 1", "torus"),
        ("bench link --nodes 2 --time 10us", "torus"),
        ("bench sweep --size 1K --iterations 4", "kc705"),
        ("bench traffic --no-why --flow kc705:host:write:4K --operations 20", "kc705"),
        ("bench write --no-why --size 4K --iterations 4", "kc705:crosslane"),
    ] {
        let by_lab = run_as_written(&format!("{arguments} --lab {other} --json"));
        let by_device = run_as_written(&format!("{arguments} --device lab:{other} --json"));
        assert_eq!(by_lab.code, 0, "{by_lab:?}");
        assert_eq!(by_lab.stdout, by_device.stdout, "{arguments}");
    }
    let one = run("bench mmio --device lab:aws-f1/f1");
    assert_eq!(one.code, 0, "{one:?}");
    let one = run("bench sweep --device lab:rosta:crosslane/fpga3 --size 1K --iterations 4 --json");
    assert!(one.code == 0 && one.stdout.contains("fpga3"), "{one:?}");
}

#[test]
fn cards_that_no_machine_has_are_named() {
    assert_refused("bench write --device vfio:ff:1f.7", 1, "0000:ff:1f.7");
}

/// The test of a card asks for what it has not, dozens of times, and a server says so in few lines.
#[test]
fn server_counts_errors_that_repeat() {
    let test = "server_counts_errors_that_repeat";
    let mut served = Served::with_errors(test, "kc705:crosslane", ["kc705"], Stdio::piped());
    let tested = run(&format!("device test {} --largest 4K", served.cards[0]));
    let mut lines = Vec::new();
    for line in BufReader::new(served.server.stderr.take().unwrap()).lines() {
        lines.push(line.unwrap());
        if lines.last().is_some_and(|line| line.contains("the client has gone")) {
            break;
        }
    }
    assert_eq!(tested.code, 0, "{tested:?}");
    let errors = lines.iter().filter(|line| line.starts_with("in the lab: ")).count();
    assert!(lines.iter().any(|line| line.contains(" more of Unsupported Request")), "{lines:?}");
    assert!(errors <= 16, "{errors} lines: {lines:?}");
}

#[test]
fn socket_paths_that_are_too_long_are_measured() {
    let socket = folder("long_socket").join("x".repeat(200));
    let path = socket.display();
    let served = run(&format!("lab serve kc705:crosslane --device kc705 --socket {path}"));
    let bytes = path.to_string().len();
    let words = format!("the socket path is {bytes} bytes long, at most 107 are possible");
    assert!(served.code == 1 && served.stderr.contains(&words), "{served:?}");
}
