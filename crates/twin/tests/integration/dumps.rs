// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dumps of one made-up server in all formats, and what becomes of them.

use std::fs;
use std::path::{Path, PathBuf};

use crosslane_lab::Lab;
use crosslane_pcie::config::BarKind;
use crosslane_sysfs::{Kind, LinkCode};
use crosslane_twin::{Exported, Machine, Taken, export_machine, read, read_text, read_texts};

use crate::LIBRARY;

/// A listing by root: a root port with a switch, two accelerators and an adapter of two functions
/// below it, and another root port with a drive whose Max_Payload_Size is smaller.
pub const SERVER: &str = include_str!("../dumps/server.txt");

pub fn machine(text: &str) -> Machine {
    read_text(Path::new("dump"), text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

/// The lab of a machine, which has to be one that can be built.
pub fn lab(machine: &Machine) -> (String, Vec<String>) {
    let exported =
        export_machine(machine, "twin", &LIBRARY).unwrap_or_else(|error| panic!("{error}"));
    let lab = Lab::from_text("twin.toml", &exported.text);
    let lab = lab.unwrap_or_else(|error| panic!("{error}\n{}", exported.text));
    lab.build(1).unwrap_or_else(|error| panic!("{error}\n{}", exported.text));
    (exported.text, exported.gaps)
}

#[test]
fn a_listing_says_what_every_function_is() {
    let machine = machine(SERVER);
    let function = |address: &str| machine.tree.function(address.parse().unwrap()).unwrap();
    let kinds = [
        ("00:00.0", Kind::Conventional),
        ("16:01.0", Kind::RootPort),
        ("17:00.0", Kind::UpstreamPort),
        ("18:02.0", Kind::DownstreamPort),
        ("19:00.0", Kind::Endpoint),
    ];
    for (address, kind) in kinds {
        assert_eq!(function(address).kind, kind, "{address}");
    }
    let port = function("16:01.0");
    assert_eq!(port.configuration.buses(), Some((0x17, 0x1b)));
    assert!(port.configuration.acs().unwrap().redirects_requests());
    assert!(!function("18:00.0").configuration.acs().unwrap().redirects_requests());
    assert_eq!(function("19:00.0").parent, Some("18:00.0".parse().unwrap()));
    let adapter = function("1b:00.0");
    assert_eq!((adapter.vendor, adapter.device, adapter.class), (0x15b3, 0x1017, 0x02_0000));
    assert_eq!(adapter.numa_node, Some(0));
    assert_eq!(adapter.iommu_group.as_ref().unwrap().number, 46);
    assert_eq!(adapter.driver.as_deref(), Some("mlx5_core"));
    let express = adapter.express().unwrap();
    assert_eq!(express.max_payload_supported_bytes, 512);
    assert_eq!((express.max_payload_bytes, express.max_read_request_bytes), (256, 512));
    assert!(express.extended_tags && !express.ten_bit_tags && express.relaxed_ordering);
    assert_eq!(express.link, LinkCode { speed: 3, lanes: 8 });
    assert_eq!(express.link_capability, LinkCode { speed: 3, lanes: 16 });
    let bars = &function("19:00.0").bars;
    let kinds: Vec<_> = bars.iter().map(|bar| (bar.index, bar.size_bytes, bar.kind)).collect();
    let memory64 = BarKind::Memory64 { prefetchable: true };
    assert_eq!(
        kinds,
        [
            (0, 16 << 20, BarKind::Memory32 { prefetchable: false }),
            (1, 64 << 30, memory64),
            (3, 32 << 20, memory64),
        ]
    );
    assert_eq!(machine.names[&"31:00.0".parse().unwrap()], "Example Storage Corporation NVMe");
    assert_eq!(machine.gaps, []);
}

#[test]
fn a_lab_has_all_links_and_settings_of_the_machine() {
    let (text, gaps) = lab(&machine(SERVER));
    assert_eq!(gaps.len(), 4, "{gaps:?}");
    assert!(gaps[3].contains("0000:30:02.0: Max_Payload_Size is 256 B, and 128 B"), "{gaps:?}");
    assert!(gaps[0].contains("0000:1b:00.1: left out: a further function"), "{gaps:?}");
    let lab = Lab::from_text("twin.toml", &text).unwrap();
    let built = lab.build(1).unwrap();
    let host = &built.hosts[0].tree;
    let found = |name: &str| {
        let function = host.find(name).unwrap_or_else(|| panic!("no {name}:\n{text}"));
        let rate = function.link.map(|rate| rate.to_string()).unwrap_or_default();
        (rate, function.max_payload_bytes)
    };
    // Each root port keeps its Max_Payload_Size, whatever is below the other one.
    assert_eq!(found("gpu0"), ("Gen4 x16".to_owned(), 256));
    assert_eq!(found("nic0"), ("Gen3 x8".to_owned(), 256));
    assert_eq!(found("host.port-16-01-0").1, 256);
    assert_eq!(found("nvme0"), ("Gen3 x4".to_owned(), 128));
    assert_eq!(found("host.port-30-02-0").1, 128);
    // Equal accelerators share a part, and the switch is one of ours.
    assert_eq!(text.matches("[part.gpu0]").count(), 1);
    assert!(!text.contains("[part.gpu1]") && text.contains("# 0000:1a:00.0, NUMA node 0"));
    assert!(text.contains("acs = true"));
    // The drive is at another NUMA node, and says so itself.
    assert_eq!(lab.file().hosts[0].part.parameters.socket_count(), 2);
    let socket = |lower: &str| {
        let mut links = lab.file().links.iter();
        links.find(|link| link.lower == lower).map(|link| link.socket)
    };
    assert_eq!((socket("switch-17-00-0"), socket("nvme0")), (Some(0), Some(1)), "{text}");
    assert!(text.contains("# NUMA node 1\nsocket = 1\n"), "{text}");
    assert!(gaps.iter().any(|gap| gap.starts_with("endpoints are at 2 NUMA nodes")), "{gaps:?}");
    // What nobody says is at the first one, and with it all of the machine.
    let unsaid = SERVER.replace("\tNUMA node: 1\n", "");
    let (text, gaps) = self::lab(&machine(&unsaid));
    assert!(!text.contains("socket") && gaps.len() == 3, "{gaps:?}");
}

#[test]
fn devices_are_taken_for_parts_of_the_library() {
    let exported = export_machine(&machine(SERVER), "twin", &LIBRARY).unwrap();
    let taken = |exported: &Exported| -> Vec<(String, bool, Vec<String>)> {
        let devices = |it: &Taken| it.devices.iter().map(ToString::to_string).collect();
        exported.parts.iter().map(|it| (it.part.clone(), it.is_match, devices(it))).collect()
    };
    let row = |part: &str, is_match, devices: &[&str]| {
        let devices = devices.iter().map(|device| format!("0000:{device}.0")).collect();
        (part.to_owned(), is_match, devices)
    };
    let others = [
        row("broadcom-pex88000", true, &["17:00"]),
        row("nvidia-ampere", true, &["19:00", "1a:00"]),
        row("nvidia-connectx-5", true, &["1b:00"]),
        row("samsung-gen3", true, &["31:00"]),
    ];
    let host = row("intel-ice-lake-sp", true, &["16:01", "30:02"]);
    assert_eq!(taken(&exported), [&[host][..], &others].concat());
    let constant = |text: &str, table: &str, key: &str| {
        let (_, rest) = text.split_once(&format!("[part.{table}]\n")).unwrap();
        let mut lines = rest.lines().take_while(|line| !line.starts_with('['));
        lines.find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("{key}")).to_owned()
    };
    // What a register says counts more than the part, which has Gen4 too, but 512 B.
    let payload = constant(&exported.text, "host.port", "max_payload_bytes");
    assert_eq!(
        payload,
        "max_payload_bytes = { value = 256, source = \"sysfs: Device Capabilities\" }"
    );
    let latency = constant(&exported.text, "host.memory", "read_latency_ns");
    assert!(
        latency.contains("low = ") && latency.ends_with(" [intel-skylake-sp]\" }"),
        "{latency}"
    );
    let comment = ": Samsung Gen3 drive (PM951 to PM983, 970, 172X) [samsung-gen3]\n[[endpoint]]\n\
                   name = \"nvme0\"";
    assert!(exported.text.contains(comment), "{}", exported.text);

    // Unknown root ports, one of them with completions that are cut at 128 B.
    let unknown = SERVER.replace("[8086:347a]", "[8086:fffe]").replacen("RCB 64", "RCB 128", 1);
    let exported = export_machine(&machine(&unknown), "twin", &LIBRARY).unwrap();
    let host = row("root-complex", false, &["16:01", "30:02"]);
    assert_eq!(taken(&exported), [&[host][..], &others].concat());
    let latency = constant(&exported.text, "host.memory", "read_latency_ns");
    assert!(latency.contains("low = ") && latency.ends_with(" [root-complex]\" }"), "{latency}");
    let bytes = constant(&exported.text, "host.memory", "completion_bytes");
    assert!(bytes.contains("value = 256, low = 128"), "{bytes}");
    let lab = Lab::from_text("twin.toml", &exported.text).unwrap();
    assert!(lab.extremes().unwrap_or_else(|error| panic!("{error}")).is_some());

    // A lab has one root complex: that of the ports with more lanes.
    let mixed = SERVER.replacen("[8086:347a]", "[8086:a190]", 1);
    let exported = export_machine(&machine(&mixed), "twin", &LIBRARY).unwrap();
    assert!(exported.text.contains("[intel-chipset]"), "x16 counts more than x4");
    let words = "0000:30:02.0: it is of intel-ice-lake-sp, and the lab has one root complex, \
                 intel-chipset";
    assert!(exported.gaps.iter().any(|gap| gap == words), "{:?}", exported.gaps);

    // Without IDs, by class.
    let drive = SERVER.replace("[144d:a808]", "[abcd:0001]");
    let exported = export_machine(&machine(&drive), "twin", &LIBRARY).unwrap();
    assert_eq!(taken(&exported).last().unwrap(), &row("nvme", true, &["31:00"]));
}

/// What is pasted into an issue is quoted, indented, and has other line ends.
#[test]
fn quoted_and_indented_listings_are_the_same() {
    let whole = lab(&machine(SERVER));
    let change = |with: &dyn Fn(&str) -> String| -> String { SERVER.lines().map(with).collect() };
    let quoted = change(&|line| format!("> {line}\n"));
    let indented = change(&|line| format!("        {}\r\n", line.replace('\t', "    ")));
    for text in [quoted, indented] {
        let text = format!("My server, what limits it?\n\n```\n{text}```\n");
        assert_eq!(lab(&machine(&text)), whole);
    }
}

/// Wherever a listing is cut, what is there becomes a lab, or a sentence says why not.
#[test]
fn a_cut_listing_is_what_is_left_of_it() {
    let (mut labs, mut most_gaps) = (0, 0);
    for (index, _) in SERVER.match_indices('\n') {
        let Ok(machine) = read_text(Path::new("dump"), &SERVER.as_bytes()[..index]) else {
            continue;
        };
        match export_machine(&machine, "twin", &LIBRARY) {
            Ok(exported) => {
                let lab = Lab::from_text("twin.toml", &exported.text);
                let lab = lab.unwrap_or_else(|error| panic!("{index}: {error}"));
                lab.build(1).unwrap_or_else(|error| panic!("{index}: {error}"));
                labs += 1;
                most_gaps = most_gaps.max(exported.gaps.len());
            }
            Err(why) => assert!(why.contains("no endpoint"), "{index}: {why}"),
        }
    }
    assert!(labs > 100, "{labs}");
    assert!(most_gaps > 4, "{most_gaps}");
}

#[test]
fn without_rights_lspci_hides_links_and_other_dumps_have_them() {
    // A line of a capability hides all of them.
    let mut hidden = String::new();
    let mut is_hidden = false;
    for line in SERVER.lines() {
        let depth = line.len() - line.trim_start_matches('\t').len();
        let begins = line.starts_with("\tCapabilities:");
        if begins && !is_hidden {
            hidden.push_str("\tCapabilities: <access denied>\n");
        }
        is_hidden = begins || is_hidden && depth == 2;
        if !is_hidden {
            hidden.push_str(line);
            hidden.push('\n');
        }
    }
    let alone = machine(&hidden);
    let why = export_machine(&alone, "twin", &LIBRARY).unwrap_err();
    assert!(why.contains("no dump shows the link above 0000:19:00.0"), "{why}");
    let folder = scratch("without_rights");
    let listing = folder.join("lspci.txt");
    fs::write(&listing, &hidden).unwrap();
    for (name, topology) in [("hwloc.xml", HWLOC), ("nccl.xml", NCCL)] {
        let xml = folder.join(name);
        fs::write(&xml, topology).unwrap();
        for files in [[&listing, &xml], [&xml, &listing]] {
            let files: Vec<PathBuf> = files.into_iter().cloned().collect();
            let both = read(&files).unwrap_or_else(|error| panic!("{error}"));
            let (text, gaps) = lab(&both);
            assert!(text.contains("[part.gpu0.bar1]"), "BARs are lspci's: {text}");
            assert!(text.contains("generation = { value = 4"), "links are {name}'s: {text}");
            // The ports of the switch are those of the listing.
            assert!(text.contains("upper_port = \"port-18-00-0\""), "{name}: {text}");
            assert!(gaps.iter().any(|gap| gap.contains("registers are not shown")), "{gaps:?}");
        }
    }
}

/// A folder of a test.
pub fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The same server as hwloc has it.
const HWLOC: &str = include_str!("../dumps/hwloc.xml");

/// The same server as NCCL has it.
const NCCL: &str = include_str!("../dumps/nccl.xml");

#[test]
fn topologies_alone_are_labs_with_assumptions() {
    for (topology, endpoints) in [(HWLOC, 1), (NCCL, 2)] {
        let machine = machine(topology);
        let (text, gaps) = lab(&machine);
        assert_eq!(text.matches("[[endpoint]]").count(), endpoints, "{text}");
        assert_eq!(text.matches("[[switch]]").count(), 1, "{text}");
        assert!(gaps.iter().any(|gap| gap.contains("no BAR is shown")), "{gaps:?}");
    }
    // No root port is in this one.
    let exported = export_machine(&machine(NCCL), "twin", &LIBRARY).unwrap();
    let host = &exported.parts[0];
    assert_eq!(
        (host.part.as_str(), host.is_match, &host.devices[..]),
        ("root-complex", false, &[][..])
    );
    let (_, gaps) = lab(&machine(HWLOC));
    assert!(gaps.iter().any(|gap| gap.contains("31.51 GB/s may be Gen4 x16 or Gen5 x8")));
}

#[test]
fn every_dump_may_have_links_of_generation_6() {
    for (dump, from, to) in [
        (SERVER, "Speed 16GT/s", "Speed 64GT/s"),
        (HWLOC, "31.507692", "121.000000"),
        (NCCL, "16.0 GT/s PCIe", "64.0 GT/s PCIe"),
    ] {
        assert!(dump.contains(from), "{from}");
        let (text, _) = lab(&machine(&dump.replace(from, to)));
        assert!(text.contains("\ngeneration = { value = 6"), "{text}");
    }
}

#[test]
fn ten_bit_tags_are_those_of_the_port() {
    let (text, _) = lab(&machine(&SERVER.replace("10BitTagReq-", "10BitTagReq+")));
    assert!(text.contains("\ntags = { value = 768"), "{text}");
    assert!(text.contains("\nten_bit_tags = { value = true"), "{text}");
}

#[test]
fn bytes_count_more_than_words() {
    // The words of function 31:00.0 say Gen3 x4; its bytes, Gen1 x1.
    let mut bytes = [0_u8; 256];
    let mut put = |at: usize, word: u32| bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    put(0x00, 0xa808_144d);
    put(0x04, 0x0010_0006);
    put(0x08, 0x0108_0200);
    put(0x34, 0x60);
    put(0x60, 0x0002_0010);
    put(0x64, 0x0000_0001);
    put(0x68, 0x0000_2810);
    put(0x6c, 0x0000_0043);
    put(0x70, 0x1011_0000);
    let rows = bytes.chunks(16).enumerate();
    let rows = rows.map(|(row, bytes)| {
        let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:02x}: {}\n", row * 16, bytes.join(" "))
    });
    let machine = machine(&format!("{SERVER}{}", rows.collect::<String>()));
    let drive = machine.tree.function("31:00.0".parse().unwrap()).unwrap();
    assert_eq!(drive.express().unwrap().link, LinkCode { speed: 1, lanes: 1 });
    assert_eq!(drive.express().unwrap().max_payload_bytes, 128);
    assert_eq!(drive.bars.len(), 1, "sizes of BARs are in no byte");
    lab(&machine);
}

#[test]
fn what_is_no_dump_is_named() {
    let folder = scratch("what_is_no_dump");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let refusals = [
        (file("poem.txt", b"roses are red\n"), "neither a listing of `lspci -vvv`"),
        (file("empty", b""), "neither a listing"),
        (file("page.xml", b"<html></html>"), "page.xml:1: <html> is the root of neither"),
        (file("cut.xml", b"<system><cpu>"), "cut.xml:1"),
        (
            file("bad.xml", b"<system><pci busid=\"17\"/></system>"),
            "busid=\"17\" is not the address",
        ),
        (file("dump.bz2", b"BZh91AY&SY"), "unpack it with bunzip2 first"),
        (folder.join("missing"), "No such file"),
        (scratch("what_is_no_dump_empty"), "neither a listing"),
    ];
    for (path, words) in refusals {
        let error = read(&[path]).unwrap_err().to_string();
        assert!(error.contains("cannot read ") && error.contains(words), "{error}");
    }
    let one = file("one.txt", b"01:00.0 Ethernet controller [0200]: A [8086:1521]\n");
    let two = file("two.txt", b"01:00.0 Ethernet controller [0200]: B [15b3:1017]\n");
    let error = read(&[one.clone(), two]).unwrap_err().to_string();
    let words = format!("0000:01:00.0 is 8086:1521 in {}, and 15b3:1017", one.display());
    assert!(error.contains("cannot join ") && error.contains(&words), "{error}");
}

/// A folder of sysfs and a tar file of it are the same; members beside the tree are left alone.
#[test]
fn folders_and_tar_files_of_sysfs() {
    let folder = scratch("folders_and_tar_files");
    let devices = folder.join("sys/bus/pci/devices");
    fs::create_dir_all(&devices).unwrap();
    let root = folder.join("sys/devices/pci0000:00/0000:00:01.0");
    let card = root.join("0000:01:00.0");
    fs::create_dir_all(&card).unwrap();
    let attributes = |folder: &Path, all: &[(&str, &str)]| {
        for (name, value) in all {
            fs::write(folder.join(name), value).unwrap();
        }
    };
    let link = [
        ("current_link_speed", "8.0 GT/s PCIe\n"),
        ("current_link_width", "8\n"),
        ("max_link_speed", "16.0 GT/s PCIe\n"),
        ("max_link_width", "16\n"),
    ];
    let identity = [("vendor", "0x8086\n"), ("device", "0x6f02\n"), ("class", "0x060400\n")];
    attributes(&root, &[&identity[..], &link[..]].concat());
    let identity = [
        ("vendor", "0x10ee\n"),
        ("device", "0x9038\n"),
        ("class", "0x120000\n"),
        ("numa_node", "1\n"),
        ("resource", "0x0000000090000000 0x00000000900fffff 0x0000000000040200\n"),
    ];
    attributes(&card, &[&identity[..], &link[..]].concat());
    for (name, target) in [
        ("0000:00:01.0", "../../../devices/pci0000:00/0000:00:01.0"),
        ("0000:01:00.0", "../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0"),
    ] {
        std::os::unix::fs::symlink(target, devices.join(name)).unwrap();
    }
    fs::write(card.join("rom"), [0; 4096]).unwrap();
    let plain = folder.with_extension("tar");
    let mut archive = tar::Builder::new(fs::File::create(&plain).unwrap());
    archive.follow_symlinks(false);
    archive.append_dir_all("machine", &folder).unwrap();
    archive.finish().unwrap();
    let mut cut = fs::read(&plain).unwrap();
    let whole = lab(&read(&[folder.join("sys")]).unwrap());
    assert!(whole.0.contains("[[endpoint]]\nname = \"card0\""), "{}", whole.0);
    assert!(whole.0.contains("# 0000:01:00.0, NUMA node 1"), "{}", whole.0);
    for path in [folder.clone(), devices, plain.clone()] {
        assert_eq!(lab(&read(&[path]).unwrap()), whole);
    }
    cut.truncate(cut.len() / 2);
    fs::write(&plain, cut).unwrap();
    // Half of it is still a machine, or none: never more than an error.
    if let Ok(machine) = read(&[plain]) {
        let _ = export_machine(&machine, "twin", &LIBRARY);
    }
}

/// `lspci -vvv | grep -E '^[0-9a-f]|LnkSta:'`, which is what most threads have.
#[test]
fn registers_without_their_capability_are_a_link() {
    let text = "3b:00.0 Serial Attached SCSI controller: Example Corporation SAS3008 (rev 02)\n\
                \t\tLnkSta:\tSpeed 8GT/s (ok), Width x8 (ok)\n\
                3c:00.0 PCI bridge: Example Corporation Switch\n\
                \t\tLnkSta:\tSpeed 8GT/s, Width x4\n";
    let (text, gaps) = lab(&machine(text));
    assert_eq!(text.matches("[[endpoint]]").count(), 1, "{text}");
    assert!(text.contains("generation = { value = 3") && text.contains("width = { value = 8"));
    let found = |what: &str| gaps.iter().any(|gap| gap.contains(what));
    assert!(found("3b:00.0: the kind of function is not shown; an endpoint is taken"), "{gaps:?}");
    assert!(found("Max_Payload_Size is not shown; 128 B is taken"), "{gaps:?}");
}

#[test]
fn a_cut_topology_is_what_is_left_of_it() {
    for (topology, last) in [(HWLOC, 0), (NCCL, 1)] {
        let whole = machine(topology).tree.functions().count();
        let ends: Vec<_> = topology.match_indices('>').map(|(end, _)| end).collect();
        let mut most = 0;
        for end in ends.into_iter().rev().skip(1) {
            let Ok(cut) = read_text(Path::new("dump"), &topology.as_bytes()[..=end + last]) else {
                continue;
            };
            most = most.max(cut.tree.functions().count());
            let is_told = |(_, gap): &(_, String)| gap.contains("the XML is cut behind it");
            assert!(cut.gaps.iter().any(is_told), "{end}: {:?}", cut.gaps);
        }
        assert_eq!(most, whole, "{topology}");
    }
    // What is wrong and not cut is refused as before.
    let error = read_text(Path::new("dump"), b"<system><cpu></pci></system>").unwrap_err();
    assert!(error.to_string().contains("dump:1: "), "{error}");
}

/// A port above a drive was left at 256 B; the drive supports 128 B (`docs/twins.md`, thread 4).
#[test]
fn payload_sizes_that_differ_on_a_way_are_told() {
    let function = |first: &str, kind: &str, supported: u32, set: u32| {
        format!(
            "{first}\n\tCapabilities: [70] Express (v2) {kind}, MSI 00\n\
             \t\tDevCap: MaxPayload {supported} bytes, PhantFunc 0\n\t\t\tExtTag- RBE+\n\
             \t\tDevCtl: CorrErr-\n\t\t\tRlxdOrd+ ExtTag- PhantFunc-\n\
             \t\t\tMaxPayload {set} bytes, MaxReadReq 512 bytes\n\
             \t\tLnkSta: Speed 2.5GT/s, Width x1\n"
        )
    };
    let bridge = "00:00.0 PCI bridge [0604]: A [11ab:0100]\n\
                  \tBus: primary=00, secondary=01, subordinate=01, sec-latency=0";
    let drive = "01:00.0 Non-Volatile memory controller [0108]: B [126f:2263]";
    let told = |port: u32| {
        let text =
            function(bridge, "Root Port", 256, port) + &function(drive, "Endpoint", 128, 128);
        let (text, gaps) = lab(&machine(&text));
        assert!(text.contains("max_payload_limit_bytes = { value = 128"), "{text}");
        gaps.iter()
            .any(|gap| gap.contains("00:00.0: Max_Payload_Size is 256 B, and 128 B elsewhere"))
    };
    assert!(told(256));
    assert!(!told(128));
}

/// Causes that a lab does not have: a link that sleeps, and an idle processor's link.
#[test]
fn power_states_of_links_are_told() {
    let told = |control: &str, status: &str, what: &str| {
        let text = format!(
            "06:00.0 VGA compatible controller: A\n\t\tLnkCtl: ASPM {control}; RCB 64 bytes\n\
             \t\tLnkSta: Speed 5GT/s{status}, Width x4 (downgraded)\n"
        );
        lab(&machine(&text)).1.iter().any(|gap| gap.contains(what))
    };
    for (control, is_on) in [("L1 Enabled", true), ("L0s L1 Enabled", true), ("Disabled", false)] {
        assert_eq!(told(control, "", "ASPM L1 is on"), is_on, "{control}");
    }
    assert!(told("Disabled", " (downgraded)", "as those of idle graphics processors"));
    assert!(!told("Disabled", " (ok)", "as those of idle graphics processors"));
    // Older versions of lspci leave the comparison to the reader.
    let capable = "Disabled\n\t\tLnkCap: Port #0, Speed 8GT/s, Width x16, ASPM";
    assert!(told(capable, "", "as those of idle graphics processors"));
}

/// Cards that were handed to a virtual machine: two on its root bus, with the links that they have,
/// an emulated one, and one that says it is an endpoint and has no link.
const GUEST: &str = "\
00:00.0 Host bridge [0600]: Intel Corporation Device [8086:0d57]
00:01.0 Ethernet controller [0200]: Red Hat, Inc. Virtio network device [1af4:1041]
00:02.0 Audio device [0403]: Intel Corporation Device [8086:293e]
\tCapabilities: [60] Express (v1) Endpoint, MSI 00
\t\tLnkSta:\tSpeed unknown, Width x0
00:05.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330]
\tRegion 2: Memory at 38000000000 (64-bit, prefetchable) [size=128G]
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
\t\tDevCap:\tMaxPayload 256 bytes, PhantFunc 0
\t\tDevCtl:\tCorrErr+ NonFatalErr+ FatalErr+ UnsupReq-
\t\t\tRlxdOrd+ ExtTag+ PhantFunc- AuxPwr- NoSnoop+
\t\t\tMaxPayload 256 bytes, MaxReadReq 512 bytes
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 32GT/s, Width x16
00:06.0 Non-Volatile memory controller [0108]: Samsung Device [144d:a824]
\tRegion 0: Memory at 3a000000000 (64-bit, non-prefetchable) [size=32K]
\tCapabilities: [70] Express (v2) Endpoint, MSI 00
\t\tLnkSta:\tSpeed 16GT/s, Width x4
";

#[test]
fn a_virtual_machine_shows_cards_without_ports() {
    let (text, gaps) = lab(&machine(GUEST));
    for link in ["lower = \"gpu0\"\npart = \"gen5x16\"", "lower = \"nvme0\"\npart = \"gen4x4\""] {
        assert!(text.contains(link), "{text}");
    }
    assert_eq!(text.matches("[[endpoint]]").count(), 2, "{text}");
    let told = gaps.iter().any(|gap| {
        gap.starts_with("0000:00:05.0, 0000:00:06.0: no port is above it, as in a virtual machine")
    });
    assert!(told, "{gaps:?}");
}

#[test]
fn several_texts_are_of_one_machine() {
    let half = SERVER.len() / 2;
    let half = half + SERVER[half..].find("\n\n").or(SERVER[half..].find("\n0")).unwrap() + 1;
    let dump = |name: &str, text: &str| (PathBuf::from(name), text.to_owned());
    let both = read_texts(&[dump("a", &SERVER[..half]), dump("b", &SERVER[half..])]).unwrap();
    assert_eq!(lab(&both), lab(&machine(SERVER)));
    let other = SERVER.replacen("[8086:", "[8087:", 1);
    let error = read_texts(&[dump("a", SERVER), dump("b", &other)]).unwrap_err().to_string();
    assert!(error.starts_with("cannot join b with the rest: "), "{error}");
}
