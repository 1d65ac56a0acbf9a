// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `what-if` and `tune` on the lab of a listing.

use crate::run::{folder, json_of, run, stdout_of};

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
