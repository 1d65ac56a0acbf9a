// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading of a tree.

use std::fs;
use std::path::Path;

use crosslane_host::{Topology, TopologyError};
use crosslane_pcie::config::PortType;
use crosslane_pcie::units::RoutingId;
use crosslane_vfio::sysfs::{
    ConfigurationWrites, Kind, Segment, SysfsError, Tree, huge_pages, rights,
};

use crate::sysfs::machine::{ACS, Card, EXPRESS, Fake, Space, address};

#[test]
fn a_switch_with_two_cards() {
    let fake = Fake::switch_with_two_cards("a_switch_with_two_cards");
    let tree = fake.machine().tree().unwrap();
    let kinds: Vec<Kind> = tree.functions().map(|function| function.kind).collect();
    let (port, down) = (Kind::RootPort, Kind::DownstreamPort);
    assert_eq!(
        kinds,
        [port, Kind::UpstreamPort, down, down, Kind::Endpoint, Kind::Endpoint],
        "in the order of their addresses"
    );
    let card = tree.function(address("03:00.0")).unwrap();
    assert_eq!(card.parent, Some(address("02:00.0")));
    let above: Vec<String> =
        tree.above(card.address).iter().map(|bridge| bridge.address.to_string()).collect();
    assert_eq!(above, ["0000:02:00.0", "0000:01:00.0", "0000:00:01.0"]);
    assert_eq!(tree.below(address("01:00.0")).count(), 2);
    let express = card.express().unwrap();
    assert_eq!((express.max_payload_supported_bytes, express.max_payload_bytes), (512, 128));
    assert_eq!((express.max_read_request_bytes, express.relaxed_ordering), (512, true));
    assert_eq!((express.extended_tags_supported, express.tags()), (true, 32));
    let (now, best) = card.link().unwrap();
    assert_eq!((now.to_string().as_str(), now), ("Gen3 x4", best));
    assert_eq!(card.bars.iter().map(|bar| bar.index).collect::<Vec<_>>(), [0, 1]);
    let group = card.iommu_group.as_ref().unwrap();
    assert_eq!((group.number, group.kind.as_str(), group.members.len()), (1, "DMA-FQ", 6));
    let acs = tree.function(address("02:00.0")).unwrap().configuration.acs().unwrap();
    assert_eq!((acs.supported, acs.enabled_words().as_str()), (0x1f, ""));
}

/// A tree as seen with the right to only 64 bytes of configuration space.
#[test]
fn without_rights_kinds_are_told_from_the_place() {
    let fake = Fake::switch_with_two_cards("without_rights_kinds_are_told_from_the_place");
    let before = fake.machine().tree().unwrap();
    for function in before.functions() {
        let bytes = fs::read(function.folder.join("config")).unwrap();
        fs::write(function.folder.join("config"), &bytes[..64]).unwrap();
        fs::write(function.folder.join("current_link_speed"), "8.0 GT/s PCIe\n").unwrap();
        fs::write(function.folder.join("current_link_width"), "4\n").unwrap();
        fs::write(function.folder.join("max_link_speed"), "16.0 GT/s PCIe\n").unwrap();
        fs::write(function.folder.join("max_link_width"), "16\n").unwrap();
    }
    let tree = fake.machine().tree().unwrap();
    for (seen, read) in tree.functions().zip(before.functions()) {
        assert_eq!((seen.kind, seen.kind_is_read), (read.kind, false), "{}", seen.address);
        let (now, best) = seen.link().unwrap();
        assert_eq!((now.to_string(), best.to_string()), ("Gen3 x4".into(), "Gen4 x16".into()));
    }
    let card = tree.function(address("03:00.0")).unwrap();
    let right = &rights(&fake.machine(), card)[0];
    assert_eq!((right.granted, right.what), (false, "see its capabilities"));
    assert!(right.command.starts_with("sudo "), "{right:?}");
    let segment = Segment::new(&tree, 0, ConfigurationWrites::Allowed);
    let error = segment.config_read(card.address.id, 0x48).unwrap_err().to_string();
    assert!(error.contains("root only"), "{error}");
}

#[test]
fn configuration_space_is_read_and_written_in_place() {
    let fake = Fake::switch_with_two_cards("configuration_space_is_read_and_written_in_place");
    let tree = fake.machine().tree().unwrap();
    let segment = Segment::new(&tree, 0, ConfigurationWrites::Allowed);
    let id = address("03:00.0").id;
    assert_eq!(segment.config_read(id, 0).unwrap(), 0x0001_1234);
    let offset = EXPRESS as u16 + 8;
    segment.config_write(id, offset, 0xffff_2830, 0b0011).unwrap();
    assert_eq!(segment.config_read(id, offset).unwrap(), 0x2830, "the upper half is as it was");
    segment.config_write(id, offset, 0x0004_0000, 0b0100).unwrap();
    assert_eq!(segment.config_read(id, offset).unwrap(), 0x0004_2830);
    let again = tree.read_again().unwrap();
    let express = again.function(address("03:00.0")).unwrap().express().unwrap();
    assert_eq!((express.max_payload_bytes, express.detected_errors), (256, 4));
    let nobody = RoutingId::new(9, 0, 0);
    assert_eq!(segment.config_read(nobody, 0), Err(TopologyError::NoSuchFunction(nobody)));
    for offset in [2, 4096, 65_532] {
        assert_eq!(segment.config_read(id, offset), Err(TopologyError::BadOffset { offset }));
    }
    let readers = Segment::new(&tree, 0, ConfigurationWrites::Forbidden);
    let error = readers.config_write(id, 4, 0, 0xf).unwrap_err().to_string();
    assert!(error.contains("for reading only"), "{error}");
    assert_eq!(Segment::new(&tree, 1, ConfigurationWrites::Allowed).functions().unwrap(), []);
}

#[test]
fn ports_and_endpoints_as_the_trait_has_them() {
    let fake = Fake::switch_with_two_cards("ports_and_endpoints_as_the_trait_has_them");
    // A bridge to PCI below the second card's port, and a PCI device below that.
    let below = ["0000:00:01.0", "0000:01:00.0", "0000:02:01.0"];
    let card = |address, above, class, space| Card {
        address,
        above,
        class,
        driver: None,
        group: None,
        space,
    };
    fake.add(&card("0000:05:00.0", &below, 0x06_0400, Space::express(1, 2, 7, 1, 1)));
    let mut plain = Space(vec![0; 256]);
    plain.half(0, 0x1234).half(2, 0x11e8);
    let below = ["0000:00:01.0", "0000:01:00.0", "0000:02:01.0", "0000:05:00.0"];
    fake.add(&card("0000:06:01.0", &below, 0xff_0000, plain.clone()));
    fake.add(&card("0000:00:02.0", &[], 0x00_ff00, plain));
    let tree = fake.machine().tree().unwrap();
    let infos = Segment::new(&tree, 0, ConfigurationWrites::Forbidden).functions().unwrap();
    let shown: Vec<_> = infos
        .iter()
        .map(|info| (info.name.as_str(), info.parent.map(|id| id.to_string()), info.port_type))
        .collect();
    let parent = |id: &str| Some(id.to_owned());
    assert_eq!(
        shown,
        [
            ("0000:00:01.0", None, PortType::RootPort),
            ("0000:00:02.0", None, PortType::Endpoint),
            ("0000:01:00.0", parent("00:01.0"), PortType::UpstreamPort),
            ("0000:02:00.0", parent("01:00.0"), PortType::DownstreamPort),
            ("0000:02:01.0", parent("01:00.0"), PortType::DownstreamPort),
            ("0000:03:00.0", parent("02:00.0"), PortType::Endpoint),
            ("0000:04:00.0", parent("02:01.0"), PortType::Endpoint),
            ("0000:06:01.0", parent("02:01.0"), PortType::Endpoint),
        ]
    );
}

/// Files that no kernel writes: malformed ones are left out, and none ends the program.
#[test]
fn odd_trees_are_read() {
    let fake = Fake::switch_with_two_cards("odd_trees_are_read");
    let devices = fake.sys("bus/pci/devices");
    for name in ["nonsense", "0000:00:20.0", "0000:00:03.0"] {
        fs::write(devices.join(name), "no folder").unwrap();
    }
    std::os::unix::fs::symlink("nowhere", devices.join("0000:00:04.0")).unwrap();
    let odd = fake.folder("0000:03:00.0");
    for (name, bytes) in [
        ("class", &b"\xff\xfe"[..]),
        ("device", b"0x123456789abcdef0123456789"),
        ("resource", b"\n\n0x0 0xffffffffffffffff 0x200\n0xffffffffffffffff 0x0 0x200"),
        ("numa_node", b"-1"),
        ("driver_override", b"\x1b[31m"),
        ("aer_dev_correctable", b"RxErr -1\n\x00\nTOTAL"),
        ("current_link_speed", b"warp"),
    ] {
        fs::write(odd.join(name), bytes).unwrap();
    }
    // Capabilities in a circle, a header of ones, an empty space.
    let mut circle = Space(vec![0; 4096]);
    circle.half(6, 0x10).half(0x34, 0x40).half(0x40, 0x4005).word(0x100, 0x1000_0003);
    fs::write(odd.join("config"), &circle.0).unwrap();
    fs::write(fake.folder("0000:04:00.0").join("config"), [0xff; 4096]).unwrap();
    fs::write(fake.folder("0000:02:00.0").join("config"), []).unwrap();
    let tree = fake.machine().tree().unwrap();
    assert_eq!(tree.functions().count(), 6);
    let function = tree.function(address("03:00.0")).unwrap();
    assert_eq!((function.device, function.class, function.numa_node), (0xffff, 0xff_0000, None));
    assert_eq!((function.kind, function.bars.len()), (Kind::Conventional, 0));
    assert_eq!(function.driver_override.as_deref(), Some("?[31m"));
    assert_eq!(function.configuration.capability(0x10), None);
    assert_eq!(function.configuration.extended_capability(1), None);
    assert!(tree.function(address("04:00.0")).unwrap().express().is_none());
    assert_eq!(huge_pages(&fake.machine()), []);
}

#[test]
fn a_serial_number_is_both_of_its_halves() {
    let fake = Fake::switch_with_two_cards("a_serial_number_is_both_of_its_halves");
    let folder = fake.folder("0000:03:00.0");
    let mut space = Space::express(0x10ee, 0x7028, 0, 2, 8);
    space.word(0x100, 0x0001_0003).word(0x104, 0x89ab_cdef).word(0x108, 0x0123_4567);
    let serial_number = |bytes: &[u8]| {
        fs::write(folder.join("config"), bytes).unwrap();
        let tree = fake.machine().tree().unwrap();
        tree.function(address("03:00.0")).unwrap().configuration.serial_number()
    };
    assert_eq!(serial_number(&space.0), Some(0x0123_4567_89ab_cdef));
    // Only its header can be seen, and none of it without the right.
    assert_eq!(serial_number(&space.0[..0x108]), None);
    assert_eq!(serial_number(&space.0[..64]), None);
}

#[test]
fn errors_say_what_is_there() {
    let fake = Fake::switch_with_two_cards("errors_say_what_is_there");
    let tree = fake.machine().tree().unwrap();
    let error = tree.function(address("07:00.0")).unwrap_err().to_string();
    assert!(error.starts_with("there is no PCI function 0000:07:00.0; there are 0000:00:01.0"));
    let error = Tree::read(Path::new("/nowhere")).unwrap_err();
    assert!(matches!(&error, SysfsError::NoBus { .. }), "{error}");
    // A redirecting port is seen.
    let mut space = Space::express(0x1b36, 0x000c, 6, 3, 8);
    space.half(ACS + 6, 0x1d);
    fs::write(fake.folder("0000:02:00.0").join("config"), &space.0).unwrap();
    let tree = tree.read_again().unwrap();
    let acs = tree.function(address("02:00.0")).unwrap().configuration.acs().unwrap();
    assert!(acs.redirects_requests());
    assert_eq!(
        acs.enabled_words(),
        "source validation, request redirect, completion redirect, upstream forwarding"
    );
}

/// The test's machine has a tree or an error: both are answers.
#[test]
fn this_machine_can_be_read() {
    if let Ok(tree) = crosslane_vfio::sysfs::Machine::this().tree() {
        for function in tree.functions() {
            assert!(tree.function(function.address).is_ok());
            assert!(function.vendor != 0);
        }
    }
}

/// An IOMMU translates the requests of functions bound to VFIO, and of others as the kernel has
/// configured their group.
#[test]
fn translation_is_told_by_group_and_driver() {
    let fake = Fake::switch_with_two_cards("translation_is_told_by_group_and_driver");
    let translated = || {
        let tree = fake.machine().tree().unwrap();
        let segment = Segment::new(&tree, 0, ConfigurationWrites::Forbidden);
        segment.is_translated(address("03:00.0").id).unwrap()
    };
    assert!(translated(), "DMA-FQ");
    let group = fake.sys("kernel/iommu_groups/1");
    fs::write(group.join("type"), "identity\n").unwrap();
    assert!(!translated());
    let folder = fake.folder("0000:03:00.0");
    std::os::unix::fs::symlink(fake.sys("bus/pci/drivers/vfio-pci"), folder.join("driver"))
        .unwrap();
    assert!(translated(), "VFIO maps for itself");
    fs::write(group.join("name"), "vfio-noiommu\n").unwrap();
    assert!(!translated());
    fs::remove_file(folder.join("iommu_group")).unwrap();
    assert!(!translated());
    let tree = fake.machine().tree().unwrap();
    let nobody = RoutingId::new(9, 0, 0);
    let segment = Segment::new(&tree, 0, ConfigurationWrites::Forbidden);
    assert_eq!(segment.is_translated(nobody), Err(TopologyError::NoSuchFunction(nobody)));
}
