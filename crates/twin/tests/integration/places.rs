// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Texts that say where devices are, and little more: `lspci -t`, `lstopo`, `nvidia-smi topo -m`.
//! They are of the server of `dumps`, but for the matrix.

use std::fs;

use crosslane_lab::Lab;
use crosslane_twin::{export_machine, read, read_text};

use crate::LIBRARY;
use crate::dumps::{SERVER, lab, machine, scratch};

/// A tree of `lspci -tvnn`.
pub const TREE: &str = include_str!("../dumps/tree.txt");
/// A topology of `lstopo-no-graphics`.
pub const LSTOPO: &str = include_str!("../dumps/lstopo.txt");
/// Half of it by `lstopo -v`.
pub const LSTOPO_V: &str = include_str!("../dumps/lstopo-v.txt");
/// A matrix: two GPUs below one switch and an adapter beside it; two with NVLink, and another
/// adapter, at the other NUMA node.
pub const TOPO: &str = include_str!("../dumps/topo-m.txt");

/// Lists `lower below upper, rate, socket` of a lab's links.
fn links(text: &str) -> Vec<String> {
    let lab = Lab::from_text("twin.toml", text).unwrap();
    let links = lab.file().links.iter().map(|link| {
        let (rate, socket) = (link.parameters.rate, link.socket);
        format!("{} below {}, {rate}, {socket}", link.lower, link.upper)
    });
    links.collect()
}

#[track_caller]
fn assert_told(gaps: &[String], words: &[&str]) {
    for words in words {
        assert!(gaps.iter().any(|gap| gap.contains(words)), "{words}: {gaps:#?}");
    }
}

#[test]
fn a_tree_alone_is_a_lab_with_assumed_links() {
    let (text, gaps) = lab(&machine(TREE));
    assert_eq!(
        links(&text),
        [
            "switch-17-00-0 below host, Gen4 x16, 0",
            "card0 below switch-17-00-0, Gen4 x16, 0",
            "card1 below switch-17-00-0, Gen4 x16, 0",
            "card2 below switch-17-00-0, Gen4 x16, 0",
            "card3 below host, Gen3 x4, 0",
        ]
    );
    assert!(text.contains("A machine with 4 endpoints and 1 switch, as"), "{text}");
    assert!(text.contains("upper_port = \"port-18-02-0\""), "{text}");
    assert!(text.contains("# 0000:19:00.0: NVIDIA GPU of the Ampere"), "{text}");
    assert!(text.contains("summary = \"NVIDIA Corporation Example GPU, a device"), "{text}");
    let source = "source = \"assumption: not in the dump; as most such devices have it\"";
    assert!(text.contains(&format!("generation = {{ value = 4, {source}")), "{text}");
    assert_told(
        &gaps,
        &[
            "0000:19:00.0, 0000:1a:00.0, 0000:1b:00.0: no dump shows the link above it; Gen4 x16",
            "0000:1b:00.1: left out: a further function",
            "registers are not shown",
        ],
    );
    // Without names, indented and quoted; another domain; a bridge without anything below it.
    let bare =
        "> -[0001:00]-+-00.0\n>            +-1c.0-[01]--\n>            \\-1d.0-[02]----00.0\n";
    let (text, _) = lab(&machine(bare));
    assert!(text.contains("# 0001:02:00.0\n[[endpoint]]\nname = \"card0\""), "{text}");
    assert!(text.contains("upper_port = \"port-0001-00-1d-0\""), "{text}");
}

#[test]
fn a_topology_in_words_alone_is_a_lab() {
    let (text, gaps) = lab(&machine(LSTOPO));
    assert_eq!(
        links(&text),
        [
            "switch-unseen-0 below host, Gen3 x16, 0",
            "gpu0 below switch-unseen-0, Gen3 x16, 0",
            "gpu1 below switch-unseen-0, Gen3 x16, 0",
            "nic0 below switch-unseen-0, Gen3 x8, 0",
            "nvme0 below host, Gen3 x4, 1",
        ]
    );
    assert!(text.contains("# 0000:31:00.0, NUMA node 1"), "{text}");
    assert_told(&gaps, &["switch-unseen-0", "vendor and device ID are not shown"]);
    // With -v links are shown.
    let (text, gaps) = lab(&machine(LSTOPO_V));
    assert_eq!(
        links(&text),
        [
            "switch-17-00-0 below host, Gen4 x16, 0", "gpu0 below switch-17-00-0, Gen4 x16, 0",
            "nic0 below switch-17-00-0, Gen3 x8, 0",
        ]
    );
    assert!(text.contains("upper_port = \"port-16-01-0\""), "{text}");
    assert_told(&gaps, &["31.51 GB/s may be Gen4 x16 or Gen5 x8"]);
    assert!(!gaps.iter().any(|gap| gap.contains("is assumed, ")), "{gaps:#?}");
    // hwloc 1 has IDs where addresses are now, and NUMA nodes above what is near them.
    let old = "Machine (64GB)\n  NUMANode L#0 (P#0 32GB)\n    HostBridge L#0\n      PCIBridge\n\
               \x20       PCI 8086:1521\n          Net L#0 \"eth0\"\n  NUMANode L#1 (P#1 32GB)\n\
               \x20   HostBridge L#1\n      PCIBridge\n        PCI 10de:20b0\n";
    let (text, gaps) = lab(&machine(old));
    assert_eq!(links(&text).len(), 2, "{text}");
    assert!(text.contains("# No dump shows its address, NUMA node 1: NVIDIA"), "{text}");
    assert_told(&gaps, &["card0, card1: its address is not shown"]);
}

#[test]
fn a_matrix_alone_is_a_lab_with_these_ways() {
    let (text, gaps) = lab(&machine(TOPO));
    assert_eq!(
        links(&text),
        [
            "switch-unseen-0 below host, Gen3 x16, 0",
            "switch-unseen-1 below switch-unseen-0, Gen3 x16, 0",
            "gpu0 below switch-unseen-1, Gen3 x16, 0",
            "gpu1 below switch-unseen-1, Gen3 x16, 0",
            "gpu2 below host, Gen3 x16, 1",
            "gpu3 below host, Gen3 x16, 1",
            "switch-unseen-2 below switch-unseen-0, Gen3 x8, 0",
            "nic0 below switch-unseen-2, Gen3 x8, 0",
            "nic1 below host, Gen3 x8, 1",
        ]
    );
    assert!(text.contains("summary = \"NIC0 (mlx5_0), a network controller.\""), "{text}");
    assert_told(&gaps, &["GPU2 and GPU3 are joined by NVLink, which a lab does not have"]);
    // Older versions name adapters in the heading and have no NUMA nodes.
    let old = "        GPU0  GPU1  mlx5_0  CPU Affinity\nGPU0     X    SOC   PHB     0-7\n\
               GPU1    SOC    X    SOC     8-15\nmlx5_0  PHB   SOC    X\n";
    let (text, gaps) = lab(&machine(old));
    let expected = ["gpu0 below host, Gen3 x16, 0", "gpu1 below host, Gen3 x16, 1"];
    assert_eq!(links(&text)[..2], expected, "{text}");
    assert!(links(&text)[2].ends_with(", 0"), "{text}");
    assert_told(&gaps, &["devices with SYS between them have nodes of their own"]);
}

/// Two GPUs and an adapter of two functions, as the server has them.
const SERVER_TOPO: &str = "\
        GPU0  GPU1  NIC0  NIC1  CPU Affinity  NUMA Affinity
GPU0     X    PIX   PIX   PIX   0-15          3
GPU1    PIX    X    PIX   PIX   0-15          3
NIC0    PIX   PIX    X    PIX
NIC1    PIX   PIX   PIX    X
";

/// The more exact dump counts; these texts fill in what only they have.
#[test]
fn places_fill_the_gaps_of_other_dumps() {
    let whole = lab(&machine(SERVER));
    let folder = scratch("places_fill_the_gaps");
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let listing = file("lspci.txt", SERVER);
    for (name, text) in [("tree.txt", TREE), ("lstopo.txt", LSTOPO), ("v.txt", LSTOPO_V)] {
        let other = file(name, text);
        for files in [[listing.clone(), other.clone()], [other, listing.clone()]] {
            let joined = lab(&read(&files).unwrap_or_else(|error| panic!("{error}")));
            assert_eq!(links(&joined.0), links(&whole.0), "{name}");
            assert_eq!(joined.1, whole.1, "{name}");
        }
    }
    // All of a mail in one file.
    let (text, _) = lab(&machine(&format!("{TREE}\n{LSTOPO}\n{LSTOPO_V}\n{SERVER}")));
    assert_eq!(links(&text), links(&whole.0));
    // Without NUMA nodes and bridges these come from a matrix: the devices are as many.
    let functions = SERVER.split("\n\n").filter(|it| !it.contains(" PCI bridge "));
    let bare = functions.map(|it| it.replace("\tNUMA node: 0\n", "")).collect::<Vec<_>>();
    let (text, gaps) = lab(&machine(&format!("{}\n{SERVER_TOPO}", bare.join("\n\n"))));
    assert_eq!(
        links(&text),
        [
            "switch-unseen-0 below host, Gen4 x16, 1",
            "gpu0 below switch-unseen-0, Gen4 x16, 0",
            "gpu1 below switch-unseen-0, Gen4 x16, 0",
            "nic0 below switch-unseen-0, Gen3 x8, 0",
            "nvme0 below host, Gen3 x4, 0",
        ]
    );
    assert!(text.contains("# 0000:19:00.0, NUMA node 3: NVIDIA"), "{text}");
    assert_told(&gaps, &["switch-unseen-0: no dump shows the link above it"]);
    // A matrix of another number of GPUs says nothing about these.
    let (text, gaps) = lab(&machine(&format!("{SERVER}\n{TOPO}")));
    assert_eq!(links(&text), links(&whole.0));
    assert_told(
        &gaps,
        &["dump has 4 GPUs, another number than the other dumps show: they are left out"],
    );
}

/// The rest of such a text, cut anywhere, becomes a lab, or a sentence says why not.
#[test]
fn cut_places_are_what_is_left_of_them() {
    for text in [TREE, LSTOPO, LSTOPO_V, TOPO] {
        let (mut labs, mut most) = (0, 0);
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)).step_by(3) {
            let Ok(cut) = read_text("dump".as_ref(), &text.as_bytes()[..end]) else { continue };
            let Ok(exported) = export_machine(&cut, "twin", &LIBRARY) else { continue };
            let lab = Lab::from_text("twin.toml", &exported.text);
            lab.unwrap_or_else(|error| panic!("{end}: {error}\n{}", exported.text));
            labs += 1;
            most = most.max(exported.endpoints().count());
        }
        assert!(labs > 20 && most > 1, "{labs} {most}: {text}");
    }
    let cut = TREE.split_once("[1a]").unwrap().0;
    for text in [cut, &format!("{cut}[1"), &format!("{cut}[1a]----")] {
        let (_, gaps) = lab(&machine(text));
        assert_eq!(gaps.iter().filter(|it| it.contains("is cut behind it")).count(), 0, "{gaps:?}");
    }
    // A bridge that leads nowhere is in no lab, but the machine knows that more was below it.
    let gaps = machine(cut).gaps;
    let told = |it: &(_, String)| it.1.contains("the tree is cut behind it");
    assert!(gaps.iter().any(told), "{gaps:?}");
}
