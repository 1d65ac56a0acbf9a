// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane device`, on machines that lie in folders.

use std::fs;

use serde_json::Value;

use crate::machine::{Card, EXPRESS, Fake, Space, bind_and_unbind};
use crate::run::{Run, run, run_as_written};

/// The program on a machine in a folder.
fn on(fake: &Fake, arguments: &str) -> Run {
    run(&format!("device {arguments} --root {}", fake.root.display()))
}

#[track_caller]
fn page(fake: &Fake, arguments: &str) -> String {
    let run = on(fake, arguments);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "device {arguments}");
    run.stdout
}

#[track_caller]
fn json(fake: &Fake, arguments: &str) -> Value {
    serde_json::from_str(&page(fake, &format!("{arguments} --json"))).unwrap()
}

/// A machine whose kernel binds and unbinds.
pub fn machine_that_binds(test: &str) -> Fake {
    let mut fake = Fake::switch_with_two_cards(test);
    fake.start(|root| bind_and_unbind(root, None, &[]));
    fake
}

#[test]
fn functions_are_listed() {
    let fake = Fake::switch_with_two_cards("functions_are_listed");
    assert_eq!(
        page(&fake, "list"),
        "\
address       IDs        class                   driver  group  link     node
0000:03:00.0  1234:0001  processing accelerator  -           1  Gen3 x4     0
0000:04:00.0  1234:0001  processing accelerator  -           1  Gen3 x4     0
"
    );
    let all = json(&fake, "list --all");
    let functions = all["functions"].as_array().unwrap();
    assert_eq!(functions.len(), 6);
    assert_eq!(
        (&functions[0]["kind"], &functions[0]["driver"]),
        (&"root port".into(), &"pcieport".into())
    );
}

#[test]
fn a_function_and_its_way_from_the_root() {
    let fake = Fake::switch_with_two_cards("a_function_and_its_way_from_the_root");
    let mut slow = Space::express(0x1234, 1, 0, 3, 4);
    slow.half(EXPRESS + 0x12, 0x21);
    fs::write(fake.folder("0000:03:00.0").join("config"), &slow.0).unwrap();
    let text = page(&fake, "info 03:00.0");
    for line in [
        "0000:03:00.0  endpoint, processing accelerator [1234:0001] revision 01",
        "link                   Gen1 x2 (of Gen3 x4)",
        "Max_Payload_Size       128 B of 512 B",
        "BAR1                   1 MiB at 0x4000000000, 64 bit, prefetchable",
        "0000:02:00.0              downstream port of a switch  Gen3 x8               128  512",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let json = json(&fake, "info 0000:03:00.0");
    assert_eq!(json["function"]["link"]["lanes"], 2);
    assert_eq!(json["above"].as_array().unwrap().len(), 3);
    assert_eq!(json["above"][0]["address"], "0000:00:01.0");
}

#[test]
fn a_card_is_bound_and_unbound() {
    let fake = machine_that_binds("a_card_is_bound_and_unbound");
    let text = page(&fake, "bind 03:00.0");
    assert!(text.starts_with("0000:03:00.0 has vfio-pci now; it had no driver\n"), "{text}");
    assert!(text.contains("sudo chown $USER ") && text.contains("dev/vfio/1\n"), "{text}");
    let freed = json(&fake, "unbind 03:00.0");
    assert_eq!((&freed["before"], &freed["driver"]), (&"vfio-pci".into(), &Value::Null));
    let run = on(&fake, "unbind 03:00.0");
    assert_eq!(run.code, 1);
    assert_eq!(run.stderr, "error: 0000:03:00.0: VFIO does not have it; it has no driver\n");
}

#[test]
fn payload_sizes_are_set_on_the_way_or_not_at_all() {
    let fake = Fake::switch_with_two_cards("payload_sizes_are_set_on_the_way_or_not_at_all");
    let text = page(&fake, "set-mps --path 03:00.0 host 256");
    let of = |address: &str| format!("{address}: Max_Payload_Size 256 B (was 128 B)\n");
    let way = ["0000:03:00.0", "0000:02:00.0", "0000:01:00.0", "0000:00:01.0"];
    assert!(text.starts_with(&way.map(of).concat()), "{text}");
    assert!(text.contains("set to less"), "the other card is below the root port too: {text}");
    assert!(text.ends_with("  0000:02:01.0: 128 B\n  0000:04:00.0: 128 B\n"), "{text}");
    let run = on(&fake, "set-mps --path 03:00.0 04:00.0 1024");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("supports payloads up to 512 B"), "{}", run.stderr);
    let peers = json(&fake, "set-mps --path 03:00.0 04:00.0 512");
    let ports = peers["ports"].as_array().unwrap();
    let shown: Vec<_> = ports.iter().map(|port| (&port["before_bytes"], &port["bytes"])).collect();
    let before = [256, 256, 128, 128].map(Value::from);
    let expected: Vec<_> = before.iter().zip(std::iter::repeat(&ports[0]["bytes"])).collect();
    assert_eq!(shown, expected, "by the switch, not by the root port");
    assert_eq!(ports[0]["bytes"], 512);
    assert_eq!(page(&fake, "info 04:00.0").matches(" 512  512 ").count(), 2);
}

#[test]
fn wrong_addresses_and_missing_functions() {
    let fake = Fake::switch_with_two_cards("wrong_addresses_and_missing_functions");
    for (arguments, code, words) in [
        ("info 3", 2, "3 is no address of a PCI function; one is written 0000:01:00.0 or 01:00.0"),
        ("info 09:00.0", 1, "there is no PCI function 0000:09:00.0; there are 0000:00:01.0, "),
        ("bind 02:00.0", 1, "it is a downstream port of a switch; ports stay with their driver"),
        ("bind 03:00.0 --driver nothing", 1, "the kernel has no driver nothing"),
        ("set-mps --path 03:00.0 host 100", 2, "100 is none of 128, 256"),
        ("set-mps --path host host 128", 2, "one end has to be a function"),
        ("set-mps --path 03:00.0 128", 2, "required arguments were not provided"),
    ] {
        let run = on(&fake, arguments);
        assert_eq!(run.code, code, "device {arguments}: {run:?}");
        assert!(run.stderr.contains(words), "device {arguments}: {}", run.stderr);
    }
    let run = run_as_written("device list --root /nowhere");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("no PCI functions are to be seen"), "{}", run.stderr);
}

/// Without the right to write, the sentence says who has it.
#[test]
fn a_missing_right_names_the_remedy() {
    let fake = Fake::new("a_missing_right_names_the_remedy");
    fake.add(&Card {
        address: "0000:03:00.0",
        above: &[],
        class: 0x12_0000,
        driver: None,
        group: Some(1),
        space: Space::express(0x1234, 1, 0, 3, 4),
    });
    let override_ = fake.folder("0000:03:00.0").join("driver_override");
    // Root may write whatever its permissions are: a folder cannot be written by anybody.
    fs::remove_file(&override_).unwrap();
    fs::create_dir(&override_).unwrap();
    let run = on(&fake, "bind 03:00.0");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("naming vfio-pci as the driver failed: "), "{}", run.stderr);
    assert!(run.stderr.contains("driver_override"), "{}", run.stderr);
}
