// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench nget`, `bench halo` and `bench link`, as the program shows them.

use crate::run::{folder, json_of, number, numbers, run_well, stdout_as_written as stdout_of};

/// The paper compares two machines: each has its rows.
#[test]
fn gets_of_both_hosts_are_shown() {
    let page = stdout_of("bench nget --size 1K..2K -n 1,4");
    for node in ["fpga1", "fpga2"] {
        assert_eq!(page.lines().filter(|line| line.starts_with(node)).count(), 4, "{page}");
    }
    let page = stdout_of("bench nget --node fpga2 --all-modes -k 16");
    assert_eq!(page.lines().filter(|line| line.starts_with("fpga2")).count(), 27, "{page}");
}

/// JSON is that of the other benchmarks: runs can be compared.
#[test]
fn two_runs_of_gets_can_be_compared() {
    let folder = folder("two_runs_of_gets_can_be_compared");
    let files = [("a", "nget:completions-64"), ("b", "nget:completions-256")].map(|(name, lab)| {
        let arguments = format!("bench nget --lab {lab} --node fpga1 --size 16K -n 16 --json");
        let text = stdout_of(&arguments);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let flow = &document["scenarios"][0]["flows"][0];
        assert_eq!((&flow["bytes"], &flow["in_flight"]), (&16384.into(), &16.into()));
        // 128 KiB are compared.
        assert_eq!((&flow["gets_compared"], &flow["gets_wrong"]), (&8.into(), &0.into()));
        let path = folder.join(format!("{name}.json"));
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    });
    let page = stdout_of(&format!("compare {} {}", files[0], files[1]));
    assert!(page.contains("16 KiB") && page.contains("MB/s"), "{page}");
}

/// The fragmentation of the hub's completions, which the paper found.
#[test]
fn limits_of_gets_and_exchanges_are_named() {
    let page = stdout_of("bench nget --node fpga1 --size 16K -n 64 --why");
    let words = "bottleneck: the 53.400 % of gpu1's completions in single units of 64 B";
    assert!(page.contains(words), "{page}");
    assert!(page.contains("gpu1.port0 -> fpga1 (Gen2 x8): "), "{page}");
    let json = json_of("bench halo --nodes 2 --lattice 4x4x4x4 --site-bytes 8 --why --json");
    let why = &json["scenarios"][0]["why_not_faster"];
    assert!(!why["steps"].as_array().unwrap().is_empty(), "{why}");
}

#[test]
fn halos_of_several_tori_are_compared_whole() {
    let page = stdout_of("bench halo --nodes 2..4 --lattice 2x2x2x2");
    assert!(page.contains("    2  2 "), "{page}");
    assert!(page.contains("2 x 2 "), "{page}");
    let json = json_of("bench halo --nodes 3x2 --lattice 2x2x2x2 --json");
    let flow = &json["scenarios"][0]["flows"][0];
    assert_eq!((&flow["nodes"], &flow["directions"]), (&6.into(), &4.into()));
    assert_eq!((&flow["buffers_compared"], &flow["buffers_wrong"]), (&48.into(), &0.into()));
}

/// The outcome is the same; how the threads spent their time is said beside it.
#[test]
fn threads_change_nothing_of_an_exchange() {
    let one = stdout_of("bench halo --nodes 3x2 --lattice 2x2x2x2 --json");
    let two = run_well("bench halo --nodes 3x2 --lattice 2x2x2x2 --json --threads 2");
    assert_eq!(one, two.stdout);
    let said: Vec<&str> = two.stderr.lines().collect();
    assert!(said[0].starts_with("2 threads for 6 nodes: efficiency "), "{said:?}");
    assert!(said[1].starts_with("part 0, ") && said[2].starts_with("part 1, "), "{said:?}");
    run_well("bench halo --nodes 2 --lattice 1x1x1x1 --threads 0");
}

#[test]
fn iterations_have_one_name_everywhere() {
    for (bench, old) in [("nget --size 1K", "--loops"), ("halo --nodes 2", "--exchanges")] {
        let page = stdout_of(&format!("bench {bench} --iterations 3"));
        assert_eq!(stdout_of(&format!("bench {bench} {old} 3")), page);
        assert_ne!(stdout_of(&format!("bench {bench} {old} 4")), page);
    }
    let traffic = "bench traffic --lab rosta --flow fpga1:host:write:4K";
    let page = stdout_of(&format!("{traffic} --iterations 20"));
    assert_eq!(stdout_of(&format!("{traffic} --operations 20")), page);
}

/// Returns the ends of `bench link`, of which nothing may be wrong or lost.
#[track_caller]
fn ends(arguments: &str) -> Vec<serde_json::Value> {
    let json = json_of(&format!("bench link {arguments} --json"));
    let ends = json["scenarios"][0]["flows"].as_array().unwrap().clone();
    for end in &ends {
        assert_eq!(
            (&end["state"], &end["wrong"], &end["lost"]),
            (&"up".into(), &0.into(), &0.into())
        );
        let far =
            ends.iter().find(|it| it["node"] == end["far_node"] && it["link"] == end["far_link"]);
        // All that one end has sent was right at the other.
        assert_eq!(far.unwrap()["sent"], end["right"], "{end}");
    }
    ends
}

/// Full both ways: 74.6 % of the line (`docs/torus-link.md`, *Budget*).
#[test]
fn cables_under_test_are_full_and_clean() {
    let nget = ends("--time 100us");
    assert_eq!(nget.len(), 2);
    let torus = ends("--lab torus --nodes 2x2 --datagrams 1000");
    assert_eq!(torus.len(), 4 * 4);
    for end in nget.iter().chain(&torus) {
        let share = number(&end["share_of_line"]);
        assert!((0.74..0.75).contains(&share), "{end}");
        for count in ["repeated", "damaged", "nacks", "restarts", "timeouts", "losses"] {
            assert_eq!(end[count], 0, "{count}: {end}");
        }
        let of_lanes = end["lane_errors"].as_array().unwrap();
        assert_eq!(of_lanes.len() as f64, number(&end["lanes"]), "{end}");
        assert!(of_lanes.iter().all(|errors| errors == 0), "{end}");
        assert!(number(&end["right"]) >= 1000.0, "{end}");
        // Three in as many bits as went by.
        let excluded = number(&end["bit_error_rate_below"]) * number(&end["line_bits"]);
        assert!((2.9..3.1).contains(&excluded), "{end}");
    }
    let page = stdout_of("bench link --time 20us");
    assert_eq!(page.lines().filter(|line| line.contains(" link 0  ")).count(), 2, "{page}");
    assert!(page.contains(" datagrams came, and were right"), "{page}");
}

#[test]
fn damage_and_losses_are_counted_and_made_good() {
    for end in ends("--bit-error-rate 2e-6 --time 1ms") {
        let rate = number(&end["damage_per_bit"]);
        assert!((1e-6..4e-6).contains(&rate), "{end}");
        // Each damaged frame is asked for once, and what was on its way comes again.
        let count = |name: &str| number(&end[name]);
        assert!(count("damaged") > 20.0 && count("repeated") > count("damaged"), "{end}");
        assert!(count("nacks") > 0.0 && count("restarts") > 0.0, "{end}");
        // Nearly every damaged frame has one wrong symbol, in any lane.
        let of_lanes = numbers(&end["lane_errors"]);
        let all: f64 = of_lanes.iter().sum();
        assert!((0.9..1.2).contains(&(all / count("damaged"))), "{end}");
        assert!(of_lanes.iter().all(|errors| *errors < all / 2.0), "{end}");
        assert_eq!(end.get("bit_error_rate_below"), None, "{end}");
    }
    for end in ends("--retrains 2 --time 400us") {
        assert_eq!((&end["losses"], &end["trainings"]), (&2.into(), &3.into()), "{end}");
        // Each takes the 100 us of `bring_up_ns`.
        assert!((0.3..0.5).contains(&number(&end["share_of_line"])), "{end}");
    }
}

/// Runs are compared as those of other benchmarks are.
#[test]
fn two_tests_of_a_cable_can_be_compared() {
    let folder = folder("two_tests_of_a_cable_can_be_compared");
    let files = [("a", "0"), ("b", "1e-5")].map(|(name, rate)| {
        let arguments = format!("bench link --bit-error-rate {rate} --json");
        let path = folder.join(format!("{name}.json"));
        std::fs::write(&path, stdout_of(&arguments)).unwrap();
        path.display().to_string()
    });
    let page = stdout_of(&format!("compare {} {}", files[0], files[1]));
    assert!(page.contains("fpga1 link 0 <- fpga2 link 1") && page.contains("MB/s"), "{page}");
    let page = stdout_of("bench link --bit-error-rate 1e-5 --time 50us --why");
    let words = "bottleneck: the cables of the torus, x4 at 5.0 Gb/s";
    assert!(page.contains(words) && page.contains("bit errors on the cables"), "{page}");
}
