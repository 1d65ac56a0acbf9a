// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane device`, on machines that lie in folders.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::machine::{ACS, Card, EXPRESS, Fake, Space, bind_and_unbind, remove_and_rescan};
use crate::run::{Run, document, folder, json_of, run, stdout_of};

/// The program on a machine in a folder.
fn on(fake: &Fake, arguments: &str) -> Run {
    run(&format!("device {arguments} --root {}", fake.root.display()))
}

#[track_caller]
fn page(fake: &Fake, arguments: &str) -> String {
    let run = on(fake, arguments);
    let is_doctor = arguments.starts_with("doctor");
    let is_well = run.stdout.ends_with("\nno problems\n") || run.stdout.contains("\"problems\": 0");
    let code = i32::from(is_doctor && !is_well);
    assert_eq!((run.code, run.stderr.as_str()), (code, ""), "device {arguments}: {}", run.stdout);
    run.stdout
}

#[track_caller]
fn json(fake: &Fake, arguments: &str) -> Value {
    document(&page(fake, &format!("{arguments} --json")))
}

/// Commands about a machine, for one that lies in a folder.
pub fn on_machine(arguments: &str, root: &Path) -> String {
    match arguments.split_whitespace().collect::<Vec<_>>()[..] {
        // A card that is tested is named as everywhere.
        ["device", command, ref rest @ ..] if command != "test" => {
            format!("device {command} --root {} {}", root.display(), rest.join(" "))
        }
        _ => arguments.to_owned(),
    }
}

/// A machine whose kernel binds and unbinds, removes and looks again.
pub fn machine_that_binds(test: &str) -> Fake {
    let mut fake = Fake::switch_with_two_cards(test);
    fake.start(|root| {
        bind_and_unbind(root, None, &[]);
        remove_and_rescan(root, || Some(1));
    });
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
    assert!(text.contains("buffers                any node: the machine has one"), "{text}");
    // With two nodes buffers are on the card's.
    let nodes = fake.root.join("sys/devices/system/node");
    fs::create_dir_all(&nodes).unwrap();
    fs::write(nodes.join("has_memory"), "0-1\n").unwrap();
    let placed = "node 0, that of the card";
    assert_eq!(json(&fake, "info 03:00.0")["buffers"], placed);
    let doctor = json(&fake, "doctor 03:00.0");
    assert_eq!(finding(&doctor, "buffers")["found"], placed);
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
    let said = [
        "info 3", "info 09:00.0", "bind 02:00.0", "bind 03:00.0 --driver nothing",
        "set-mps --path 03:00.0 host 100", "set-mps --path host host 128",
        "set-mps --path 03:00.0 128",
    ]
    .map(|arguments| {
        let run = on(&fake, arguments);
        format!("crosslane device {arguments}\nexit code {}\n{}\n", run.code, run.stderr)
    });
    insta::assert_snapshot!(said.concat());
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

#[test]
fn a_card_is_reloaded_by_a_program() {
    let fake = machine_that_binds("a_card_is_reloaded_by_a_program");
    page(&fake, "bind 03:00.0");
    let reload =
        |rest: &str| run(&format!("device reload --root {} 03:00.0 {rest}", fake.root.display()));
    let run = reload("-- true");
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.starts_with("0000:03:00.0 is back after "), "{run:?}");
    assert!(run.stdout.ends_with("with driver vfio-pci\n"), "{run:?}");
    assert_eq!(run.stderr, "0000:03:00.0 is removed; errors of the port above are masked\n");
    let run = reload("-- false");
    assert_eq!(run.code, 1);
    let error = "error: 0000:03:00.0: false failed: exit status: 1; it is back as it was\n";
    assert!(run.stderr.ends_with(error), "{run:?}");
}

fn finding<'a>(doctor: &'a Value, what: &str) -> &'a Value {
    let findings = doctor["findings"].as_array().unwrap();
    findings.iter().find(|it| it["what"] == what).unwrap_or_else(|| panic!("{what}: {doctor:#}"))
}

#[test]
fn the_doctor_finds_what_costs_speed() {
    let fake = Fake::switch_with_two_cards("the_doctor_finds_what_costs_speed");
    // Trained to half its lanes, without its tags.
    let mut card = Space::express(0x1234, 1, 0, 3, 4);
    card.half(EXPRESS + 0x12, 0x23);
    fs::write(fake.folder("0000:03:00.0").join("config"), &card.0).unwrap();
    let mut port = Space::express(0x1b36, 0x000c, 6, 3, 8);
    port.half(ACS + 6, 0x1d);
    fs::write(fake.folder("0000:02:00.0").join("config"), &port.0).unwrap();
    let doctor = json(&fake, "doctor 03:00.0 --peer 04:00.0");
    for (what, state, words) in [
        ("link 0000:00:01.0 to 0000:01:00.0", "ok", "Gen3 x8"),
        ("link 0000:02:00.0 to 0000:03:00.0", "problem", "Gen3 x2, and both ends support Gen3 x4"),
        ("Max_Payload_Size", "problem", "128 B in force, 512 B possible on the whole path"),
        ("Extended Tag", "problem", "off, though the card supports it: 32 reads in flight"),
        ("ACS", "note", "0000:02:00.0 redirects peer requests up"),
        ("errors counted", "note", "the kernel counts none here (no AER)"),
        ("IOMMU group", "ok", "1, with 5 other functions, none held by another driver"),
    ] {
        let finding = finding(&doctor, what);
        assert_eq!(
            (finding["state"].as_str(), finding["found"].as_str()),
            (Some(state), Some(words))
        );
    }
    let help = finding(&doctor, "Max_Payload_Size")["help"].as_str().unwrap();
    assert_eq!(help, "sudo crosslane device set-mps --path 0000:03:00.0 host 512");
    let path = finding(&doctor, "path to 0000:04:00.0")["found"].as_str().unwrap().to_owned();
    assert!(path.contains("0000:02:00.0 redirects peer requests to the root complex"), "{path}");
    let text = page(&fake, "doctor 03:00.0 --no-model");
    assert!(text.contains("\nWhat would help\n\n"), "{text}");
    assert!(text.contains("Extended Tag: sudo setpci -s 0000:03:00.0 CAP_EXP+8.w=0100:0100"));
    assert!(text.ends_with(" problems\n") && !text.contains("Predicted"), "{text}");
    // The advice is followed, so the finding is gone.
    page(&fake, "set-mps --path 03:00.0 host 512");
    let doctor = json(&fake, "doctor 03:00.0 --no-model");
    assert_eq!(finding(&doctor, "Max_Payload_Size")["state"], "ok");
}

/// A function that is the system's, outside of every port.
fn system_device(
    address: &'static str,
    vendor: u16,
    class: u32,
    driver: &'static str,
) -> Card<'static> {
    let mut space = Space(vec![0; 256]);
    space.half(0, vendor).half(2, 0x1001);
    Card { address, above: &[], class, driver: Some(driver), group: Some(7), space }
}

#[test]
fn doctor_never_proposes_what_the_system_uses() {
    let fake = Fake::switch_with_two_cards("doctor_never_proposes_what_the_system_uses");
    for (address, vendor, class, driver) in [
        ("0000:00:02.0", 0x1af4, 0x01_0000, "virtio-pci"),
        ("0000:00:03.0", 0x8086, 0x02_0000, "e1000e"),
        ("0000:00:04.0", 0x8086, 0x0c_0330, "xhci_hcd"),
        ("0000:00:05.0", 0x1af4, 0x00_ff00, "virtio-pci"),
    ] {
        fake.add(&system_device(address, vendor, class, driver));
        let text = page(&fake, &format!("doctor {address}"));
        assert!(!text.contains(&format!("device bind {address}")), "{text}");
        let words = format!("that {driver} drives: the system loses it if it is taken away");
        assert!(text.contains(&words), "{text}");
        let refused = on(&fake, &format!("bind {address}"));
        assert!(refused.code == 1 && refused.stderr.contains(&words), "{refused:?}");
    }
    fake.add(&Card { driver: None, ..system_device("0000:00:00.0", 0x8086, 0x06_0000, "") });
    let text = page(&fake, "doctor 00:00.0");
    assert!(!text.contains("device bind") && text.contains("host bridge, not a card"), "{text}");
    // Beside a card in its group such a function is no advice either.
    fake.add(&Card { group: Some(1), ..system_device("0000:00:06.0", 0x8086, 0x01_0802, "nvme") });
    let text = page(&fake, "doctor 03:00.0 --no-model");
    assert!(!text.contains("device bind 0000:00:06.0"), "{text}");
    assert!(text.contains("another slot for the card: the system uses 0000:00:06.0"), "{text}");
    assert!(!text.contains("..."), "commands are whole: {text}");
}

#[test]
fn doctor_of_the_machine_says_whether_it_is_ready() {
    let fake = Fake::switch_with_two_cards("doctor_of_the_machine_says_whether_it_is_ready");
    fake.add(&system_device("0000:00:02.0", 0x1af4, 0x01_0000, "virtio-pci"));
    let text = page(&fake, "doctor");
    for words in [
        "ok    IOMMU                         2 groups",
        "the kernel has vfio-pci",
        "huge pages",
        "right to lock memory for DMA",
        "  processing accelerator  -       crosslane device doctor 0000:03:00.0\n",
        "\n1 function is the system's: `crosslane device list` has all\n",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    assert!(text.ends_with("\nno problems\n"), "{text}");
    let report = json(&fake, "doctor");
    let addresses: Vec<_> =
        report["candidates"].as_array().unwrap().iter().map(|it| &it["address"]).collect();
    assert_eq!(addresses, ["0000:03:00.0", "0000:04:00.0"]);
    assert_eq!(report["kept"], serde_json::json!(["0000:00:02.0"]));
    // Without what it takes there are problems, with what helps where the machine is a virtual one.
    let bare = Fake::new("doctor_of_a_machine_without_an_iommu");
    fs::remove_dir(bare.sys("bus/pci/drivers/vfio-pci")).unwrap();
    for (flags, words) in [
        ("fpu vme", "turn the IOMMU on: in the firmware's setup (VT-d, AMD-Vi)"),
        ("fpu hypervisor", "turn the IOMMU on: this is a virtual machine, whose hypervisor has to"),
    ] {
        fs::write(bare.root.join("proc/cpuinfo"), format!("processor: 0\nflags\t: {flags}\n"))
            .unwrap();
        let text = page(&bare, "doctor");
        assert!(text.contains(words) && text.contains("sudo modprobe vfio-pci"), "{text}");
        assert!(text.contains("There is no function that a program may have"), "{text}");
        assert!(text.ends_with("\n2 problems\n"), "{text}");
    }
    for arguments in ["doctor --peer 03:00.0", "doctor --to-lab x.toml", "doctor --engine"] {
        assert_eq!(on(&fake, arguments).code, 2, "device {arguments}");
    }
}

/// The model predicts what the links, payloads and tags that were read allow.
#[test]
fn rates_are_predicted_for_the_way_that_was_read() {
    let fake = Fake::switch_with_two_cards("rates_are_predicted_for_the_way_that_was_read");
    let file = folder("rates_are_predicted").join("my machine.toml");
    let lab = file.to_str().unwrap().replace("my machine", "my-machine");
    let rates = |arguments: &str| {
        let doctor = json(&fake, &format!("doctor 03:00.0 {arguments}"));
        let predicted = doctor["predicted"].as_array().unwrap().clone();
        let rate = |it: &Value| it["bytes_per_second"].as_f64().unwrap() / 1e6;
        (predicted.iter().map(rate).collect::<Vec<f64>>(), predicted)
    };
    let (before, predicted) = rates(&format!("--peer 04:00.0 --to-lab {lab}"));
    assert_eq!(predicted.len(), 3);
    // Gen3 x4 carries 3928 MB/s less SKP; 128 of 148 B of a TLP are payload, of 152 B where the
    // address is above 4 GiB, as that of the peer's BAR.
    assert!((3380.0..3400.0).contains(&before[0]), "{before:?}");
    assert!((3290.0..3310.0).contains(&before[2]), "{before:?}");
    let words = predicted[0]["bottleneck"].as_str().unwrap();
    assert!(words.contains("128 B"), "the payload holds it: {words}");
    page(&fake, "set-mps --path 03:00.0 host 512");
    let (after, _) = rates("--peer 04:00.0");
    assert!(after[0] > before[0] * 1.08, "{before:?} {after:?}");
    assert!(after[2] < before[2] * 1.01, "the peer's payload is as it was: {after:?}");
    // The lab stands for itself.
    let text = fs::read_to_string(&lab).unwrap();
    assert!(text.contains("source = \"sysfs: Link Status\""), "{text}");
    let tree = stdout_of(&format!("topo {lab}"));
    assert!(tree.contains("card-03-00-0 [1234:0001]  Gen3 x4"), "{tree}");
    let constants = json_of(&format!("lab show {lab} --json"));
    let constants = constants["constants"].as_array().unwrap();
    assert!(constants.iter().any(|it| it["provenance"] == "sysfs"));
    let flow = "card-03-00-0:host:write:1M";
    let text = stdout_of(&format!("bench traffic --lab {lab} --flow {flow} --operations 16"));
    assert!(text.contains("card-03-00-0"), "{text}");
}

#[test]
fn a_lab_with_engines_can_be_driven() {
    let fake = Fake::switch_with_two_cards("a_lab_with_engines_can_be_driven");
    let file = folder("a_lab_with_engines_can_be_driven").join("machine.toml");
    let lab = file.display();
    page(&fake, &format!("doctor 03:00.0 --peer 04:00.0 --engine --no-model --to-lab {lab}"));
    let bench = format!("bench p2p --lab {lab} --from card-03-00-0 --to card-04-00-0 --size 64K");
    let page = stdout_of(&bench);
    assert!(page.contains("65536"), "{page}");
}

/// A card that was handed to a virtual machine has its link, and no port above.
#[test]
fn a_card_of_a_virtual_machine_has_its_link() {
    let fake = Fake::new("a_card_of_a_virtual_machine_has_its_link");
    let space = Space::express(0x10de, 0x2335, 0, 5, 16);
    let (class, driver, group) = (0x03_0200, None, None);
    fake.add(&Card { address: "0000:00:06.0", above: &[], class, driver, group, space });
    let doctor = json(&fake, "doctor 00:06.0");
    assert_eq!(finding(&doctor, "link")["found"], "Gen5 x16; the port above it is not shown");
    assert_eq!(doctor["predicted"].as_array().unwrap().len(), 2);
}

#[test]
fn what_is_no_card_has_no_prediction() {
    let fake = Fake::switch_with_two_cards("what_is_no_card_has_no_prediction");
    let mut plain = Space(vec![0; 256]);
    plain.half(0, 0x1234).half(2, 0x11e8);
    fake.add(&Card {
        address: "0000:00:02.0",
        above: &[],
        class: 0x00_ff00,
        driver: None,
        group: None,
        space: plain,
    });
    let text = page(&fake, "doctor 00:02.0");
    let words = "No rate is predicted: 0000:00:02.0 is a PCI device: there is no link above it";
    assert!(text.contains(words), "{text}");
    assert!(text.contains("none: VFIO needs one"), "{text}");
    let run = on(&fake, "doctor 00:02.0 --to-lab x.toml");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("cannot describe 0000:00:02.0 as a lab"), "{}", run.stderr);
}

/// The units of `packaging` run the program with options that it has.
#[test]
fn units_use_options_that_there_are() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let mut lines = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for line in text.lines().filter_map(|line| line.split_once("/crosslane ")) {
            lines += 1;
            let words: Vec<&str> = line.1.split_whitespace().collect();
            let help = stdout_of(&format!("{} {} --help", words[0], words[1]));
            for option in words.iter().filter(|word| word.starts_with("--")) {
                assert!(help.contains(&format!("{option} ")), "{option} of {}", line.1);
            }
        }
    }
    assert_eq!(lines, 3, "bind, unbind, serve");
}
