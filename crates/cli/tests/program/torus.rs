// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench nget` and `bench halo`, as the program shows them.

use crate::run::{folder, json_of, run_well, stdout_as_written as stdout_of};

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
