// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench write`, `read`, `p2p`, `latency` and `chain`.

use std::fs;

use serde_json::Value;

use crate::run::{
    assert_refused, changed_lab, folder, json_of, number, run, stdout_as_written, stdout_of,
};

/// Payload bytes per second of a link Gen2 x4 with SKP ordered sets and TLPs of 128 B under 3 DW
/// headers, no DLLPs.
const GEN2_X4: f64 = 2.0e9 * (1.0 - 4.0 / 1538.0) * 128.0 / 148.0;

#[track_caller]
fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

/// The only scenario of a run.
fn scenario_of(arguments: &str) -> Value {
    let mut json = json_of(&format!("{arguments} --json"));
    assert_eq!(list(&json["scenarios"]).len(), 1, "crosslane {arguments}");
    let scenario = json["scenarios"][0].take();
    assert_eq!((&scenario["error_count"], &scenario["errors"]), (&0.into(), &Value::Array(vec![])));
    scenario
}

/// An engine that reads one descriptor at a time is slow with buffers in small pages.
#[test]
fn reads_of_small_pages_one_by_one_wait_for_their_answers() {
    let arguments = "bench read --lab rosta --size 1M --iterations 2 --pages";
    let [small, huge] = ["small", "huge"].map(|pages| scenario_of(&format!("{arguments} {pages}")));
    let rate = |scenario: &Value| number(&scenario["flows"][0]["hardware"]["bytes_per_second"]);
    assert!((rate(&small) / (1002.0 * f64::from(1 << 20)) - 1.0).abs() < 0.01, "{}", rate(&small));
    assert!(rate(&huge) > 1.5 * rate(&small), "{}", rate(&huge));
}

/// Rates of one large transfer beside their ceilings.
#[test]
fn large_transfers_reach_their_ceilings() {
    for (workload, least, carrier) in
        [("write", 0.99, "writes"), ("read", 0.98, "completions"), ("p2p", 0.99, "writes")]
    {
        let arguments = format!("bench {workload} --lab rosta:crosslane --size 4M --iterations 1");
        let scenario = scenario_of(&arguments);
        let flow = &scenario["flows"][0];
        let share = number(&flow["share_of_ceiling"]);
        assert!((least..=1.0005).contains(&share), "{workload}: {share}");
        let ceiling = &flow["ceiling"];
        assert_eq!((&ceiling["carrier"], &ceiling["header_dw"]), (&carrier.into(), &3.into()));
        assert_eq!(number(&ceiling["payload_bytes"]), 128.0);
        let without = number(&ceiling["bytes_per_second"]);
        assert!((without - GEN2_X4).abs() < 1.0, "{without}");
        assert!(number(&ceiling["less_dllps_bytes_per_second"]) <= without);
        assert_eq!((&flow["moved_bytes"], &flow["wrong_words"]), (&(4 << 20).into(), &0.into()));
        assert_eq!(flow["hardware"]["bytes"], flow["moved_bytes"]);
        let first = number(&flow["post_to_first_tlp_ps"]);
        assert!((100e3..=5e6).contains(&first), "{workload}: {first} ps to the first TLP");
        assert_eq!(flow["registration_ps"].is_number(), workload != "p2p");
        assert!(
            number(&flow["application_bytes_per_second"])
                < number(&flow["hardware"]["bytes_per_second"])
        );
    }
}

/// 4 KiB each with the ring kept full.
#[test]
fn small_transfers_reach_nine_tenths_by_default() {
    for workload in ["write", "read", "p2p"] {
        let scenario = scenario_of(&format!("bench {workload} --lab rosta:crosslane --size 4K"));
        let share = number(&scenario["flows"][0]["share_of_ceiling"]);
        assert!((0.9..=1.0005).contains(&share), "{workload}: {share}");
    }
}

/// Writes and reads of each size stand one below the other, with their names.
#[test]
fn peers_by_writes_and_reads_are_compared() {
    let arguments = "bench p2p --lab rosta:memory --to fpga2 --by both --size 4K..8K \
                     --iterations 64";
    let page = stdout_of(arguments);
    let rows = ["fpga1 -> fpga2", "fpga2 reads fpga1", "fpga1 -> fpga2", "fpga2 reads fpga1"];
    let mut lines = page.lines().filter(|line| line.contains("  64  "));
    for row in rows {
        let line = lines.next().unwrap_or_default();
        assert!(line.starts_with(row), "{row}: {page}");
    }
    let page = stdout_of(&format!("{arguments} --both-ways"));
    for row in ["fpga2 -> fpga1", "fpga1 reads fpga2"] {
        assert_eq!(page.lines().filter(|line| line.starts_with(row)).count(), 2, "{row}: {page}");
    }
    let json = json_of(&format!("{arguments} --json"));
    let wrong = list(&json["scenarios"]).iter().map(|one| &one["flows"][0]["wrong_words"]);
    assert!(wrong.eq([0; 4].map(Value::from).iter()), "{json}");
}

/// All that is sent into a memory is there and right, by a table's descriptors too, and the limit
/// is named.
#[test]
fn peers_write_into_memories() {
    let arguments = "bench p2p --lab rosta:memory --to fpga2 --by write-memory --size 64K \
                     --iterations 16";
    let scenario = scenario_of(&format!("{arguments} --both-ways"));
    let flows = list(&scenario["flows"]);
    assert_eq!(flows.len(), 2, "{scenario}");
    for flow in flows {
        assert_eq!(flow["wrong_words"], 0, "{flow}");
    }
    let scenario = scenario_of(&format!("{arguments} --descriptors table"));
    assert_eq!(scenario["flows"][0]["wrong_words"], 0, "{scenario}");
    let page = stdout_as_written(arguments);
    assert!(page.contains("fpga1 writes fpga2, descriptors in a ring, polled"), "{page}");
    assert!(page.contains("bottleneck: the links fpga1 -> rc47a.down0"), "{page}");
}

/// The way, what to expect of it, and what the links did.
#[test]
fn the_page_says_what_was_planned() {
    let page = stdout_of("bench p2p --lab rosta --descriptors command --no-credits --size 1M");
    for line in [
        "fpga1 -> fpga2, by the command port, polled, every byte compared",
        "ceiling: fpga1 -> rc47a.down0 (Gen2 x4), writes with 3 DW headers",
        "plan: fpga1 -> rc47a.down0 -> rc47a.down1 -> fpga2; payloads of 128 B, 1725.2 MB/s \
         expected",
        "not faster: payloads are 128 B where 256 B are possible: fpga1, rc47a.down0, \
         rc47a.down1, fpga2 are set to less",
        "Links while data moved",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
}

/// A sweep's runs are made side by side on all cores: each is as it is alone, in any process.
#[test]
fn a_sweep_is_its_single_runs() {
    for (bench, sizes) in [
        ("p2p --lab rosta:crosslane --size ", "4K..16K"),
        ("traffic --lab pciebench --flow nfp:host:read:", "64..512"),
    ] {
        let sweep = json_of(&format!("bench {bench}{sizes} --json"));
        let scenarios = list(&sweep["scenarios"]);
        assert!(scenarios.len() > 2, "{sweep}");
        for scenario in scenarios {
            let size = &scenario["flows"][0]["bytes"];
            assert_eq!(*scenario, scenario_of(&format!("bench {bench}{size}")), "{bench}{size}");
        }
    }
}

/// Eight at once: who they are, what each gets, and what all get together.
#[test]
fn flows_are_those_of_the_lab_file_going_round() {
    let names = |scenario: &Value| -> Vec<String> {
        let flows = list(&scenario["flows"]).iter();
        flows.map(|flow| flow["name"].as_str().unwrap().to_owned()).collect()
    };
    let arguments = "bench write --lab rosta:crosslane --from fpga7 --flows 8 --size 1M \
                     --iterations 1";
    let scenario = scenario_of(arguments);
    let expected = [7, 8, 1, 2, 3, 4, 5, 6].map(|card| format!("fpga{card} -> host"));
    assert_eq!(names(&scenario), expected);
    let rates: Vec<f64> = list(&scenario["flows"])
        .iter()
        .map(|flow| number(&flow["hardware"]["bytes_per_second"]))
        .collect();
    let common = number(&scenario["while_all_active"]["bytes_per_second"]);
    let share = common / (2.0 * GEN2_X4);
    assert!((0.99..=1.001).contains(&share), "{share}");
    assert!(rates.iter().sum::<f64>() > common, "the sum of the rates is more than the channel's");
    for rate in &rates {
        assert!((rate / rates[0] - 1.0).abs() < 0.02, "{rates:?}");
    }
    let page = stdout_of(arguments);
    assert!(page.contains("8 flows share rha25.up -> host0.port0 (Gen2 x8): "), "{page}");
    assert!(page.contains("while all were active, "), "{page}");
    let scenario = scenario_of(
        "bench p2p --lab rosta:crosslane --to fpga5 --flows 8 --size 64K --iterations 1",
    );
    let expected = [5, 6, 7, 8, 1, 2, 3, 4].map(|card| format!("-> fpga{card}"));
    for (name, end) in names(&scenario).iter().zip(expected) {
        assert!(name.ends_with(&end), "{name} {end}");
    }
}

/// `--mps` sets the ports on the way and no other, and the payloads grow with it.
#[test]
fn a_payload_size_is_set_on_the_way_only() {
    let scenario = scenario_of("bench p2p --lab rosta --mps 256 --size 64K");
    let flow = &scenario["flows"][0];
    assert_eq!(number(&flow["ceiling"]["payload_bytes"]), 256.0);
    assert_eq!(flow["plan"]["not_faster"], Value::Array(vec![]));
    let set: Vec<&str> =
        list(&scenario["ports_set"]).iter().map(|port| port.as_str().unwrap()).collect();
    assert_eq!(set, ["fpga1", "rc47a.down0", "rc47a.down1", "fpga2"]);
}

/// A packet that a port on the way is not set to is an error with the port's name.
#[test]
fn a_payload_that_is_too_large_is_found_at_the_port() {
    let one = "--payload 256 --size 4K --iterations 1";
    let said = [
        "p2p --lab rosta --payload 256".to_owned(),
        format!("p2p --lab rosta {one} --no-credits"),
        format!("p2p --lab rosta {one} --no-credits --descriptors command"),
        format!("write --lab rosta {one}"),
        "traffic --lab rosta --flow fpga1:fpga2:write:1K:256 --operations 2".to_owned(),
    ]
    .map(|arguments| {
        let run = run(&format!("bench {arguments}"));
        assert_eq!(run.code, 1, "crosslane bench {arguments}: {run:?}");
        format!("crosslane bench {arguments}\n{}\n", run.stderr)
    });
    insta::assert_snapshot!(said.concat());
}

#[test]
fn one_way_latency_grows_with_the_switches() {
    let typical = |to: &str| {
        let scenario = scenario_of(&format!("bench latency --lab rosta --to {to}"));
        let latency = &scenario["latency"];
        assert_eq!((&latency["round_trips"], &latency["wrong_words"]), (&1000.into(), &0.into()));
        number(&latency["one_way"]["typical_ps"])
    };
    let (near, far) = (typical("fpga2"), typical("fpga5"));
    // The paper's 706 and 1038 ns; messages are 64 B here.
    assert!((600e3..760e3).contains(&near), "{near}");
    assert!((300e3..360e3).contains(&(far - near)), "{near} {far}");
    let page = stdout_of("bench latency --lab rosta --size 4..128");
    assert!(page.starts_with("fpga1 -> fpga2, one way: half of a round trip\n"), "{page}");
    assert_eq!(page.lines().filter(|line| line.trim_start().contains("  1000  ")).count(), 6);
}

#[test]
fn a_chain_goes_through_all_cards_unless_told_otherwise() {
    let scenario = scenario_of("bench chain --lab rosta:crosslane --size 256K --iterations 2");
    let flow = &scenario["flows"][0];
    assert_eq!((list(&flow["channels"]).len(), list(&flow["lanes"]).len()), (9, 7));
    assert_eq!((&flow["moved_bytes"], &flow["wrong_words"]), (&(512 << 10).into(), &0.into()));
    let page = stdout_of("bench chain --lab rosta --from fpga2 --to fpga4 --size 64K");
    assert!(page.starts_with("host -> fpga2 -> fpga3 -> fpga4 -> host, "), "{page}");
}

#[test]
fn labs_with_one_card_have_defaults_too() {
    for (lab, name) in [("minimal", "card0 -> host"), ("pciebench", "nfp -> host")] {
        let scenario = scenario_of(&format!("bench write --lab {lab} --size 64K"));
        assert_eq!(scenario["flows"][0]["name"], name);
    }
}

/// Generic endpoints have no engine: the sentence says what they are for.
#[test]
fn a_card_without_an_engine_is_told_from_one_that_is_not_there() {
    let folder = folder("workload-generic");
    let lab = stdout_of("lab show minimal --file");
    let begin = lab.find("[part.card.engine]").expect("the lab's card has an engine");
    let end = begin + 1 + lab[begin + 1..].find("\n[").expect("another table follows");
    let path = folder.join("generic.toml");
    fs::write(&path, format!("{}{}", &lab[..begin], &lab[end..])).unwrap();
    let sentence = "no endpoint has a DMA engine: its part needs an `engine` table; `bench \
                    traffic` works with generic endpoints";
    assert_refused(&format!("bench write --lab {}", path.display()), 2, sentence);
}

/// Two hosts with a card each: names find their tree, and no flow goes from one to the other.
#[test]
fn every_card_moves_data_with_its_own_host() {
    let changes = [
        ("name = \"host0\"", "name = \"host{0..1}\""),
        ("name = \"card0\"", "name = \"card{0..1}\""),
        ("upper = \"host0\"", "upper = \"host{0..1}\""),
        ("lower = \"card0\"", "lower = \"card{0..1}\""),
        ("value = \"below-4-gib\"", "value = \"above-4-gib\""),
    ];
    let lab = changed_lab("workload-hosts", "minimal", &changes);
    let arguments = format!("bench write --lab {lab} --from card1 --to host1 --size 64K");
    let flow = &scenario_of(&arguments)["flows"][0];
    assert_eq!(flow["name"], "card1 -> host");
    // Buffers above 4 GiB take headers of 4 DW.
    assert_eq!((&flow["ceiling"]["header_dw"], &flow["wrong_words"]), (&4.into(), &0.into()));
    let share = number(&flow["share_of_ceiling"]);
    assert!((0.99..=1.0005).contains(&share), "{share}");
    // The plan is for these addresses too: no credits and Acks are in it.
    let expected = number(&flow["plan"]["expected_bytes_per_second"]);
    let ceiling = number(&flow["ceiling"]["bytes_per_second"]);
    assert!((expected / ceiling - 1.0).abs() < 1e-9, "{expected} {ceiling}");
    let both = scenario_of(&format!("bench read --lab {lab} --flows 2 --size 64K"));
    assert_eq!(list(&both["flows"]).len(), 2);
    for (arguments, sentence) in [
        ("write --to host0 --from card1", "--to host0: card1 is in the tree of host1"),
        ("write --to host", "--to host: host is not in the lab; its hosts are host0, host1"),
        ("p2p", "--to card1: it is in the tree of host1, card0 in that of host0"),
    ] {
        assert_refused(&format!("bench {arguments} --lab {lab}"), 2, sentence);
    }
}

/// A ring is as large as what is to be posted.
#[test]
fn a_ring_holds_all_that_is_outstanding() {
    let arguments = "bench write --lab rosta:crosslane --size 4K --iterations 5000";
    let scenario = scenario_of(&format!("{arguments} --outstanding 4096"));
    let latency = &scenario["flows"][0]["latency"];
    // The last of the first batch has all others before it: 4096 x 4 KiB at 1.7 GB/s.
    assert!(number(&latency["max_ps"]) > 9e9, "{latency}");
    let run = run("bench write --lab rosta --outstanding 10000 --size 4M --iterations 10000");
    assert_eq!(run.code, 1);
    let sentence = "fpga1 -> host: 10000 transfers of 4 MiB at once need more than 4 GiB";
    assert!(run.stderr.contains(sentence), "{}", run.stderr);
}

/// Times of many in flight include waits: every row says how many there were.
#[test]
fn each_row_says_how_many_are_in_flight() {
    let arguments = "bench write --lab rosta:crosslane --size 4K..64K --iterations 100";
    let page = stdout_of(arguments);
    let heading = page.lines().find(|line| line.contains("in flight")).unwrap_or(&page);
    assert!(heading.contains("iterations  in flight  min us"), "{page}");
    let json = json_of(&format!("{arguments} --json"));
    let depths: Vec<u64> = list(&json["scenarios"])
        .iter()
        .map(|scenario| scenario["flows"][0]["in_flight"].as_u64().unwrap())
        .collect();
    assert_eq!(depths, [64, 32, 16, 8, 4]);
    for (size, depth) in [("4096", "64"), ("65536", "4")] {
        let row = page.lines().find(|line| line.split_whitespace().next() == Some(size)).unwrap();
        assert_eq!(row.split_whitespace().nth(2), Some(depth), "{page}");
    }
}
