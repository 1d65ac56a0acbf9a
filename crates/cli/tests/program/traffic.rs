// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench traffic` from outside: rows, ceilings, use of links, errors, traces.
//!
//! Simulated time is exact, so rates and latencies are asserted as such.

use crate::run::{changed_lab, folder, json_of, number, run, stdout_as_written, stdout_of};

#[test]
fn a_page_of_one_flow() {
    insta::assert_snapshot!(stdout_of("bench traffic --lab minimal --flow card0:host0:write:4K"));
}

#[test]
fn a_page_of_a_sweep() {
    let arguments = "bench traffic --lab minimal --flow card0:host:read:64..1K --operations 200";
    insta::assert_snapshot!(stdout_of(arguments));
}

/// Writes at 256 B payload over Gen2 x4: 2 GB/s x (1 - 4/1538) x 256/276.
#[test]
fn the_ceiling_is_that_of_the_slowest_link() {
    let flow = "--flow fpga1:fpga5:write:256K";
    let json = json_of(&format!("bench traffic --lab rosta {flow} --mps 256 --json"));
    let flow = &json["scenarios"][0]["flows"][0];
    let ceiling = &flow["ceiling"];
    let expected = 2e9 * (1.0 - 4.0 / 1538.0) * 256.0 / 276.0;
    assert!((number(&ceiling["bytes_per_second"]) / expected - 1.0).abs() < 1e-12);
    assert_eq!(number(&ceiling["payload_bytes"]), 256.0);
    assert_eq!(number(&ceiling["header_dw"]), 3.0);
    let share = number(&flow["share_of_ceiling"]);
    assert!((0.95..=1.0).contains(&share), "{share}");
    assert_eq!(flow["moved_bytes"], 32 * (256 << 10));
}

#[test]
fn no_flow_is_faster_than_its_ceiling() {
    for kind in ["write", "read"] {
        let flow = format!("--flow fpga1:host:{kind}:64..256K");
        let json = json_of(&format!("bench traffic --lab rosta {flow} --json"));
        for scenario in json["scenarios"].as_array().unwrap() {
            let flow = &scenario["flows"][0];
            let share = number(&flow["share_of_ceiling"]);
            assert!(share > 0.0 && share <= 1.0, "{kind} of {}: {share}", flow["bytes"]);
            let (with, without) = (
                number(&flow["ceiling"]["less_dllps_bytes_per_second"]),
                number(&flow["ceiling"]["bytes_per_second"]),
            );
            assert!(with <= without);
            let latency = &flow["latency"];
            let times = ["min_ps", "typical_ps", "p99_ps", "max_ps"].map(|k| number(&latency[k]));
            assert!(times.is_sorted() && times[0] > 0.0, "{times:?}");
        }
    }
}

/// Four flows of 1.7 GB/s each share a cable of 3.4 GB/s: it is full, and shared alike.
#[test]
fn flows_that_share_a_link_share_it_alike() {
    let flows: Vec<String> =
        (1..=4).map(|n| format!("--flow fpga{n}:fpga{}:write:64K", n + 4)).collect();
    let arguments = format!("bench traffic --lab rosta {}", flows.join(" "));
    let json = json_of(&format!("{arguments} --json"));
    let rates: Vec<f64> = json["scenarios"][0]["flows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|flow| number(&flow["bytes_per_second"]))
        .collect();
    for rate in &rates {
        assert!((rate / rates[0] - 1.0).abs() < 0.01, "{rates:?}");
    }
    let cable = json["scenarios"][0]["links"]
        .as_array()
        .unwrap()
        .iter()
        .find(|link| link["flows"].as_array().unwrap().len() == 4)
        .expect("one direction has the data of all four");
    let share = rates.iter().sum::<f64>() / number(&cable["ceiling_bytes_per_second"]);
    assert!((0.99..=1.0).contains(&share), "{share}");
    assert!(stdout_of(&arguments).contains("4 flows share "));
}

/// Rates of flows that end at different times add up to more than the cable carries; the
/// sentence says what it carried.
#[test]
fn flows_that_share_a_link_never_exceed_it() {
    let flows = "--flow fpga1:fpga5:write:64K --flow fpga2:fpga6:write:64K \
                 --flow fpga3:fpga7:write:256";
    let arguments = format!("bench traffic --lab rosta {flows}");
    let json = json_of(&format!("{arguments} --json"));
    let scenario = &json["scenarios"][0];
    let rates = scenario["flows"].as_array().unwrap().iter();
    let sum: f64 = rates.map(|flow| number(&flow["bytes_per_second"])).sum();
    let links = scenario["links"].as_array().unwrap();
    let cable = links.iter().find(|link| link["flows"].as_array().unwrap().len() == 3).unwrap();
    let ceiling = number(&cable["ceiling_bytes_per_second"]);
    assert!(sum > ceiling, "{sum} would be no more than {ceiling}");
    let seconds = number(&scenario["simulated_ps"]) / 1e12;
    let carried = number(&cable["payload_bytes"]) / seconds;
    assert!(carried <= ceiling, "{carried} of {ceiling}");
    let sentence = format!("{:.1} MB/s ({:.1} MiB/s) together", carried / 1e6, carried / 1048576.0);
    let page = stdout_of(&arguments);
    assert!(page.contains(&format!("3 flows share {}", cable["direction"].as_str().unwrap())));
    assert!(page.contains(&sentence), "{sentence}: {page}");
}

/// Writes and read requests leave an FPGA, completions come back: the writes' way is the slower.
#[test]
fn the_ceiling_of_writes_and_reads_says_which_it_is_for() {
    let arguments = "bench traffic --lab rosta --flow fpga1:host:writeread:4K --operations 100";
    let ceiling = &json_of(&format!("{arguments} --json"))["scenarios"][0]["flows"][0]["ceiling"];
    let carrier = ceiling["carrier"].as_str().unwrap();
    let direction = ceiling["direction"].as_str().unwrap();
    assert_eq!((carrier, direction), ("writes", "fpga1 -> rc47a.down0"));
    let heading = format!("ceiling: {direction} (Gen2 x4), writes with 3 DW headers");
    assert!(stdout_of(arguments).contains(&heading));
}

/// `--shuffle` cuts completions at random: those of a flow alone are counted, those that share
/// every link with another's are estimated, and the page says so.
#[test]
fn the_ceiling_of_random_cuts_is_counted_or_marked() {
    let alone = "bench traffic --lab rosta --flow fpga1:host:read:4K --operations 100 --shuffle";
    let json = json_of(&format!("{alone} --json"));
    let flow = &json["scenarios"][0]["flows"][0];
    assert_eq!(flow["ceiling"]["is_estimate"], false);
    let payload = number(&flow["ceiling"]["payload_bytes"]);
    let links = json["scenarios"][0]["links"].as_array().unwrap();
    let completions = links.iter().find(|link| number(&link["payload_bytes"]) > 0.0).unwrap();
    assert_eq!(payload, 100.0 * 4096.0 / number(&completions["tlps"]));
    assert!(number(&flow["share_of_ceiling"]) <= 1.0);
    assert!(!stdout_of(alone).contains('~'));
    let both = format!("{alone} --flow fpga1:host:read:4K");
    assert!(stdout_of(&both).contains("~ for regular completions"));
}

/// Time of sending and idle time by reason make up the whole time of a direction.
#[test]
fn a_direction_does_one_thing_at_a_time() {
    for flows in [
        "--lab rosta --flow fpga1:host:read:16K --flow fpga2:host:write:4K",
        "--lab rosta --flow host:fpga1:write:64",
        "--lab pciebench --flow nfp:host:read:64 --outstanding 1",
        "--lab pciebench --flow nfp:host:writeread:64..4K",
    ] {
        let json = json_of(&format!("bench traffic {flows} --json"));
        for scenario in json["scenarios"].as_array().unwrap() {
            for link in scenario["links"].as_array().unwrap() {
                let share = &link["share"];
                let sent =
                    ["payload", "header", "replay", "dllp", "skp"].map(|k| number(&share[k]));
                let idle = share["idle"].as_object().unwrap().values().map(number);
                let whole: f64 = sent.into_iter().chain(idle).sum();
                assert!((whole - 1.0).abs() < 1e-6, "{flows}: {}: {whole}", link["direction"]);
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_page_in_every_process() {
    for arguments in [
        "bench traffic --lab rosta --flow fpga1:host:read:4K --flow fpga2:fpga1:write:1K --json",
        "bench traffic --lab pciebench --flow nfp:host:writeread:64 --seed 7 --json",
        "bench traffic --lab rosta --flow fpga1:host:read:4K --shuffle --seed 3 --json",
    ] {
        assert_eq!(stdout_of(arguments), stdout_of(arguments), "crosslane {arguments}");
    }
}

#[test]
fn deadlock_is_printed_behind_errors_that_cause_it() {
    let run = run("bench traffic --lab rosta --flow fpga1:fpga2:write:1K:256 --operations 2000");
    assert_eq!(run.code, 1);
    let mut lines = run.stderr.lines();
    let first = lines.next().unwrap();
    assert!(first.starts_with("error: rc47a.down0 at "), "{}", run.stderr);
    assert!(first.contains(" more like it)") && run.stderr.lines().count() < 10, "{}", run.stderr);
    let is_stuck = |line: &str| line.starts_with("error: the simulation stopped at ");
    assert!(lines.any(is_stuck), "{}", run.stderr);
}

/// The plan knows it: nothing is run, and no table of dashes is printed.
#[test]
fn a_forbidden_peer_path_is_said_first() {
    let cards = [
        ("name = \"card0\"", "name = \"card{0..1}\""),
        ("lower = \"card0\"", "lower = \"card{0..1}\""),
    ];
    let lab = changed_lab("a_forbidden_peer_path", "minimal", &cards);
    let run = run(&format!("bench traffic --lab {lab} --flow card0:card1:write:4K"));
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{}", run.stderr);
    let stderr = run.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = "error: --flow card0:card1:write:4K: the way from card0 to card1 BAR1 is by \
                    host0, which forbids peer-to-peer between its root ports: \
                    part.host.peer_to_peer.allowed is false";
    assert!(stderr.starts_with(sentence), "{stderr}");
    assert_eq!(run.stderr.matches("error").count(), 1, "{stderr}");
}

#[test]
fn a_processor_stores_and_loads() {
    for kind in ["write", "read"] {
        let flow = format!("--flow host:fpga1:{kind}:64 --operations 50 --outstanding 1");
        let json = json_of(&format!("bench traffic --lab rosta {flow} --json"));
        let flow = &json["scenarios"][0]["flows"][0];
        assert_eq!(
            (flow["is_core"].as_bool(), flow["iterations"].as_u64()),
            (Some(true), Some(50))
        );
    }
}

/// A host with four uncached loads in flight and lines of ten streaming ones does what
/// `--outstanding` says, up to that.
#[test]
fn a_host_reads_with_several_loads_in_flight() {
    let cpu = "[part.host.cpu]\nloads_in_flight = { value = 4, source = \"assumption: any\" }\n";
    let combining = "[part.host.cpu.combining]\n\
                     buffers = { value = 10, source = \"assumption: any\" }\n\
                     store_ns = { value = 2, source = \"assumption: any\" }\n\
                     fence_ns = { value = 50, source = \"assumption: any\" }\n\
                     streaming_loads = { value = 10, source = \"assumption: any\" }\n\n\
                     [part.card]\n";
    let changes = [("[part.host.cpu]\n", cpu), ("[part.card]\n", combining)];
    let lab = changed_lab("a_host_reads_with_several_loads", "minimal", &changes);
    let flow = |size: &str, more: &str| {
        let run = format!("bench traffic --lab {lab} --flow host:card0:read:{size} {more} --json");
        let flow = json_of(&run)["scenarios"][0]["flows"][0].clone();
        (flow["in_flight"].as_u64().unwrap(), flow["bytes_per_second"].as_f64().unwrap())
    };
    let (one, alone) = flow("8", "--operations 400 --outstanding 1");
    for (more, in_flight) in [("--outstanding 3", 3), ("", 4)] {
        let (found, rate) = flow("8", &format!("--operations 400 {more}"));
        assert_eq!((one, found), (1, in_flight));
        let times = rate / alone / in_flight as f64;
        assert!((0.97..=1.0).contains(&times), "{in_flight}: {times}");
    }
    // A line takes 28 ns more than eight bytes on each of its ways, of about 900.
    let (lines, rate) = flow("64", "--operations 400 --write-combined");
    assert_eq!(lines, 10);
    let times = rate / alone / 80.0;
    assert!((0.9..=1.0).contains(&times), "{times}");
    for (arguments, words) in [
        (
            "host:card0:read:8 --outstanding 5",
            "5 operations in flight: a core of host0 has 4 loads in flight, of at most 4 \
             operations of 8 B",
        ),
        (
            "host:card0:read:128 --outstanding 7 --write-combined",
            "has 10 loads in flight, of at most 6 operations of 128 B",
        ),
        (
            "host:card0:write:64 --write-combined",
            "only reads of a host's cores go through a write-combined mapping",
        ),
        (
            "card0:host:read:64 --write-combined",
            "only reads of a host's cores go through a write-combined mapping",
        ),
        ("host:card0:read:64:8 --write-combined", "a streaming load reads a line of 64 B"),
    ] {
        let run = run(&format!("bench traffic --lab {lab} --flow {arguments}"));
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments}: {}", run.stderr);
        let stderr = run.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(stderr.contains(words), "{stderr}");
    }
}

#[test]
fn a_trace_is_the_same_each_time_and_changes_nothing() {
    let folder = folder("a_trace");
    for (bench, names) in [
        ("write --lab rosta:crosslane --size 64K --iterations 2", &["lab rosta"][..]),
        (
            "traffic --lab rosta --flow fpga1:host:read:4K --operations 20",
            &["lab rosta", "fpga1 -> rc47a.down0", "MRd 4096 B", "CplD 128 B", "UpdateFC-NP"],
        ),
    ] {
        let plain = stdout_of(&format!("bench {bench}"));
        let [first, second] = ["first", "second"].map(|name| {
            let path = folder.join(name);
            assert_eq!(stdout_of(&format!("bench {bench} --trace {}", path.display())), plain);
            std::fs::read(path).unwrap()
        });
        assert!(first.len() > 10_000 && first == second, "two traces of one run are equal");
        let words = String::from_utf8_lossy(&first);
        assert_eq!(names.iter().find(|name| !words.contains(**name)), None, "{bench}");
    }
}

/// With ACS redirect at every switch, a write to the neighbour goes up to the root complex and
/// down again; without it, it turns at the switch of its board.
#[test]
fn redirected_peers_go_through_the_root_complex() {
    let redirects = ("\n[[switch]]\n", "\n[[switch]]\nacs = true\n");
    let redirecting = changed_lab("redirected_peers", "rosta", &[redirects]);
    let ways = |lab: &str| -> Vec<String> {
        let flow = "--flow fpga1:fpga2:write:4K --operations 20 --json";
        let json = json_of(&format!("bench traffic --lab {lab} {flow}"));
        let links = json["scenarios"][0]["links"].as_array().unwrap().clone();
        links
            .iter()
            .map(|link| {
                assert_eq!(link["payload_bytes"], 20 * 4096, "{link}");
                link["direction"].as_str().unwrap().to_owned()
            })
            .collect()
    };
    assert_eq!(ways("rosta"), ["fpga1 -> rc47a.down0", "rc47a.down1 -> fpga2"]);
    let expected = [
        "fpga1 -> rc47a.down0", "rc47a.up -> rha25.down0", "rha25.up -> host0.port0",
        "host0.port0 -> rha25.up", "rha25.down0 -> rc47a.up", "rc47a.down1 -> fpga2",
    ];
    assert_eq!(ways(&redirecting), expected);
}

/// Each pair alone has its link; all at once share that of the target.
#[test]
fn a_star_is_all_endpoints_at_once_or_in_turn() {
    let rates = |more: &str| -> Vec<f64> {
        let flow = "--flow *:fpga1:write:64K --operations 20";
        let json = json_of(&format!("bench traffic --lab rosta {flow} {more} --json"));
        let runs = json["scenarios"].as_array().unwrap().iter();
        let flows = runs.flat_map(|run| run["flows"].as_array().unwrap());
        flows.map(|flow| number(&flow["bytes_per_second"])).collect()
    };
    let (together, alone) = (rates(""), rates("--in-turn"));
    assert_eq!((together.len(), alone.len()), (7, 7));
    assert!(alone.iter().all(|rate| *rate > 1.5e9), "{alone:?}");
    assert!(together.iter().all(|rate| *rate < 0.5e9), "{together:?}");
    let page = stdout_of("bench traffic --lab rosta --flow *:fpga8:write:4K --in-turn");
    let rows = page.lines().filter(|line| line.contains(" -> fpga8 BAR1, write  "));
    assert_eq!(rows.count(), 7, "{page}");
}

#[test]
fn the_heading_names_what_the_table_does_not() {
    let options = "--random --window 64K --offset 3 --set part.nfp.requester.tags=8";
    let flow = "--flow nfp:host:write:64,96 --operations 100";
    let page = stdout_of(&format!("bench traffic --lab pciebench {flow} {options}"));
    let words = "random addresses, windows of 64 KiB, 3 B behind the start, \
                 part.nfp.requester.tags = 8";
    assert!(page.split_whitespace().collect::<Vec<_>>().join(" ").contains(words), "{page}");
}

#[test]
fn a_sweep_of_flows_says_which_ports_it_raised() {
    let sweep = "bench sweep --lab minimal --flow card0:host:write:4K --link 3x4,5x16";
    let page = stdout_as_written(&format!("{sweep} --iterations 50"));
    assert!(page.trim_start().starts_with("flow  generation  width"), "{page}");
    assert!(page.contains("\nRaised to the rates of the links: card0, root ports of host0\n"));
    let json = stdout_as_written(&format!("{sweep} --iterations 50 --json"));
    assert!(json.contains("\"raised_ports\""), "{json}");
}
