// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lab of a seed as the text of a lab file, which is all that a replay needs.

use crosslane_lab::{Lab, LabError, shipped};
use crosslane_random::Random;

use crate::generated;

/// A lab as the text of a lab file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabText {
    /// Name for errors and replay.
    pub name: String,
    /// The lab file.
    pub text: String,
    /// The variant to choose, if any.
    pub variant: Option<String>,
}

/// Source of constants chosen by a seed.
const SOURCE: &str = "source = \"assumption: chosen by the seed\"";

/// Picks one of some values.
pub(crate) fn pick<T: Copy>(rng: &mut Random, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}

impl LabText {
    /// Loads a shipped lab by name, or a lab file, unchanged; either may be followed by `:VARIANT`.
    ///
    /// # Errors
    /// If it cannot be loaded.
    pub fn load(name: &str) -> Result<Self, LabError> {
        let lab = Lab::load(name)?;
        let variant = lab.variant().map(str::to_owned);
        let text = lab.file().text().to_owned();
        Ok(Self { name: name.to_owned(), text, variant })
    }

    /// Parses the lab.
    ///
    /// # Errors
    /// The first problem of the text.
    pub fn lab(&self) -> Result<Lab, LabError> {
        // Measurements beside the file are not loaded.
        let lab = Lab::from_text(&self.name, &self.text)?;
        match &self.variant {
            Some(variant) => lab.with_variant(variant),
            None => Ok(lab),
        }
    }

    /// Makes the lab of a seed: a shipped one with other constants, or a generated one.
    pub(crate) fn random(rng: &mut Random) -> Self {
        match rng.u8(..8) {
            0 => Self::shipped("minimal", None, "card", rng),
            1 => Self::shipped("rosta", None, "v7", rng),
            2 => Self::shipped("rosta", Some("crosslane"), "v7", rng),
            _ => Self { name: "generated".into(), text: generated::lab(rng), variant: None },
        }
    }

    /// Gives the lab's hosts an IOMMU.
    pub(crate) fn add_iommu(&mut self, rng: &mut Random) {
        let Some(part) = part_of_kind(&self.text, "root-complex") else { return };
        let mut table = format!("[part.{part}.iommu]\n");
        for (key, values) in IOMMU {
            let value = pick(rng, values);
            table.push_str(&format!("{key} = {{ value = {value}, {SOURCE} }}\n"));
        }
        self.text.push('\n');
        self.text.push_str(&table);
    }

    /// Gives the engines of a generated lab a packet mode.
    pub(crate) fn add_packets(&mut self) {
        if self.variant.is_none() && self.name == "generated" {
            let line = format!("packets = {{ value = true, {SOURCE} }}\n");
            self.text = self.text.replace(".engine]\n", &format!(".engine]\n{line}"));
        }
    }

    /// Gives the engines of a generated lab push apertures, and its processors combining buffers.
    pub(crate) fn add_push(&mut self, rng: &mut Random) {
        if self.variant.is_some() || self.name != "generated" {
            return;
        }
        let line = format!("push = {{ value = true, {SOURCE} }}\n");
        self.text = self.text.replace(".engine]\n", &format!(".engine]\n{line}"));
        let mut tables = String::new();
        let mut constant = |tables: &mut String, key: &str, from: &[&str]| {
            let value = pick(rng, from);
            tables.push_str(&format!("{key} = {{ value = {value}, {SOURCE} }}\n"));
        };
        let heads = self.text.lines().filter_map(|line| line.strip_suffix(".engine]"));
        for part in heads {
            tables.push_str(&format!("\n{part}.bar4]\n"));
            let kinds = ["\"memory64-prefetchable\"", "\"memory32-prefetchable\""];
            constant(&mut tables, "decodes", &kinds);
            constant(&mut tables, "size_bytes", &["4096", "65_536"]);
        }
        tables.push_str("\n[part.host.cpu.combining]\n");
        constant(&mut tables, "buffers", &["1", "2", "10"]);
        constant(&mut tables, "store_ns", &["1", "3"]);
        constant(&mut tables, "fence_ns", &["0", "20"]);
        let mut width = String::new();
        constant(&mut width, "widest_store_bytes", &["8", "16", "32", "64"]);
        self.text = self.text.replace("[part.host.cpu]\n", &format!("[part.host.cpu]\n{width}"));
        self.text.push_str(&tables);
    }

    /// Gives the cards of a generated lab a memory, unless their engines have push apertures.
    pub(crate) fn add_card_memory(&mut self, rng: &mut Random) {
        if self.variant.is_some() || self.name != "generated" || self.text.contains("\npush = {") {
            return;
        }
        let mut tables = String::new();
        for part in self.text.lines().filter_map(|line| line.strip_suffix(".engine]")) {
            tables.push_str(&format!("\n{part}.card_memory]\n"));
            for (key, values) in CARD_MEMORY {
                let value = pick(rng, values);
                tables.push_str(&format!("{key} = {{ value = {value}, {SOURCE} }}\n"));
            }
        }
        self.text.push_str(&tables);
    }

    /// Gives the lab's hosts two sockets, with root ports and buffers on either; and perhaps a pair
    /// of root ports a rule of its own.
    pub(crate) fn add_sockets(&mut self, rng: &mut Random) {
        let Some(part) = part_of_kind(&self.text, "root-complex").map(str::to_owned) else {
            return;
        };
        add_constant(&mut self.text, &format!("part.{part}"), "sockets", "2");
        let mut tables = format!("\n[part.{part}.hop]\n");
        let mut constant = |tables: &mut String, key: &str, from: &[&str]| {
            let value = pick(rng, from);
            tables.push_str(&format!("{key} = {{ value = {value}, {SOURCE} }}\n"));
            value == "false"
        };
        constant(&mut tables, "latency_ns", &["0", "70", "400", "2_000"]);
        constant(&mut tables, "gb_per_s", &["0.2", "2", "20", "\"infinite\""]);
        tables.push_str(&format!("[part.{part}.hop.peer_to_peer]\n"));
        let mut peers = |tables: &mut String| {
            if !constant(tables, "allowed", &["true", "true", "false"]) {
                constant(tables, "latency_ns", &["200", "800", "3_000"]);
                constant(tables, "gb_per_s", &["0.1", "1", "\"infinite\""]);
            }
        };
        peers(&mut tables);
        let mut pair = String::new();
        peers(&mut pair);
        let (mut text, mut below) = (String::new(), Vec::new());
        let is_host = |line: &str| self.text.contains(&format!("[[host]]\nname = {line}\n"));
        let mut is_root = false;
        for line in self.text.split_inclusive('\n') {
            text.push_str(line);
            let value = |key: &str| {
                let rest = line.strip_prefix(key)?.strip_prefix(" = ")?;
                rest.split_whitespace().next()
            };
            if let Some(upper) = value("upper") {
                is_root = is_host(upper);
                if is_root {
                    text.push_str(&format!("socket = {}\n", rng.u8(..2)));
                }
            }
            below.extend(value("lower").filter(|_| is_root));
            if line.starts_with("[[host]]") {
                text.push_str(&format!("numa_node = {}\n", rng.u8(..2)));
            }
        }
        if let ([first, .., second], true) = (&below[..], rng.bool()) {
            tables.push_str(&format!("[[peers]]\nfirst = {first}\nsecond = {second}\n{pair}"));
        }
        text.push_str(&tables);
        self.text = text;
    }

    /// Takes a shipped lab with random sizes of its engines, and perhaps bit errors.
    fn shipped(name: &str, variant: Option<&str>, part: &str, rng: &mut Random) -> Self {
        let lab = shipped().iter().find(|lab| lab.name == name).expect("it is shipped");
        let mut text = lab.text.to_owned();
        for link in ["slot", "cable", "board-x4"] {
            if rng.u8(..3) == 0 {
                let rate = pick(rng, &["1e-7", "1e-6", "1e-5"]);
                add_constant(&mut text, &format!("part.{link}"), "retrain_ns", "2_000");
                add_constant(&mut text, &format!("part.{link}"), "bit_error_rate", rate);
            }
        }
        for (table, key, values) in ENGINE_SIZES {
            if rng.bool() {
                let value = pick(rng, values).to_string();
                let table = format!("part.{part}.{table}");
                set_constant(&mut text, &table, key, &value);
                if let Some(variant) = variant {
                    set_constant(&mut text, &format!("variant.{variant}.{table}"), key, &value);
                }
            }
        }
        let (name, variant) = (name.to_owned(), variant.map(str::to_owned));
        Self { name, text, variant }
    }
}

/// Constants of an IOMMU, and their values: IOTLBs that hold one page or most pages, walks that
/// queue, and pages of both sizes.
const IOMMU: [(&str, &[u32]); 7] = [
    ("iotlb_entries", &[1, 2, 4, 16, 64]),
    ("hit_ns", &[0, 5, 40]),
    ("walk_ns", &[50, 253, 800]),
    ("walks", &[1, 2, 5]),
    ("largest_page_bytes", &[4096, 2_097_152]),
    ("map_page_ns", &[0, 50]),
    ("invalidate_ns", &[0, 1_000]),
];

/// Constants of a card's memory, and their values: fast and slow ones, with and without refreshes,
/// and copiers that read and write in turn.
const CARD_MEMORY: [(&str, &[&str]); 16] = [
    ("memory_bytes", &["1_048_576"]),
    ("axi_bytes", &["8", "32", "64"]),
    ("axi_clock_ns", &["4", "10"]),
    ("burst_beats", &["16", "64"]),
    ("read_latency_ns", &["20", "200", "3_000"]),
    ("write_latency_ns", &["0", "100", "3_000"]),
    ("copying", &["\"overlapped\"", "\"overlapped\"", "\"in-turn\""]),
    ("turnaround_clocks", &["0", "8"]),
    ("dram_channels", &["1", "2"]),
    ("dram_bus_bytes", &["2", "8"]),
    ("dram_clock_ns", &["1.25"]),
    ("dram_burst_transfers", &["8"]),
    ("dram_row_bytes", &["1024", "8192"]),
    ("dram_row_change_ns", &["0", "27.5"]),
    ("dram_refresh_interval_ns", &["7_800"]),
    ("dram_refresh_ns", &["0", "110", "350"]),
];

/// Table, key and values of the engines' sizes.
pub(crate) const ENGINE_SIZES: [(&str, &str, &[u32]); 11] = [
    ("engine", "h2c_channels", &[1, 2]),
    ("engine", "c2h_channels", &[1, 2]),
    ("engine", "peer_channels", &[1, 2]),
    ("engine", "lane_fifo_bytes", &[512, 1024, 4096, 16_384]),
    ("engine", "staging_bytes", &[8192, 16_384, 32_768, 65_536]),
    ("engine", "fetch_batch", &[1, 4, 8, 16, 64]),
    ("engine", "table_descriptors", &[32, 64, 1024]),
    ("engine", "reading_descriptors", &[1, 2, 64]),
    ("requester", "tags", &[1, 2, 5, 16]),
    ("requester", "completion_timeout_ns", &[60_000, 400_000, 50_000_000]),
    ("requester", "datapath_bytes", &[8, 16, 32]),
];

/// Finds the first part of a kind.
fn part_of_kind<'a>(text: &'a str, kind: &str) -> Option<&'a str> {
    let before = &text[..text.find(&format!("\nkind = \"{kind}\"\n"))?];
    let head = &before[before.rfind("[part.")? + "[part.".len()..];
    head.find(']').map(|end| &head[..end])
}

/// Returns the range of a table's lines in a lab file.
fn table_range(text: &str, table: &str) -> Option<std::ops::Range<usize>> {
    let head = format!("[{table}]\n");
    let start = text.find(&head)? + head.len();
    let end = text[start..].find("\n[").map_or(text.len(), |length| start + length + 1);
    Some(start..end)
}

/// Replaces a constant of a table in the text; false if the table has no such key.
fn set_constant(text: &mut String, table: &str, key: &str, value: &str) -> bool {
    let Some(range) = table_range(text, table) else { return false };
    let head = format!("{key} = {{");
    let mut at = range.start;
    for line in text[range].split_inclusive('\n') {
        if line.starts_with(&head) {
            let line = at..at + line.len();
            text.replace_range(line, &format!("{key} = {{ value = {value}, {SOURCE} }}\n"));
            return true;
        }
        at += line.len();
    }
    false
}

/// Adds a constant to a table in the text, if the table exists.
fn add_constant(text: &mut String, table: &str, key: &str, value: &str) {
    if let Some(range) = table_range(text, table) {
        text.insert_str(range.start, &format!("{key} = {{ value = {value}, {SOURCE} }}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_of_a_text_are_set_where_they_stand() {
        let mut text = "[a]\nx = { value = 1, source = \"s\" }\n[b]\nx = { value = 2, source = \
                        \"s\" }\n"
            .to_owned();
        assert!(set_constant(&mut text, "b", "x", "7"));
        assert!(!set_constant(&mut text, "a", "y", "7"));
        assert!(!set_constant(&mut text, "c", "x", "7"));
        add_constant(&mut text, "a", "z", "9");
        let values: Vec<&str> = text.lines().map(|line| line.split(',').next().unwrap()).collect();
        assert_eq!(values, ["[a]", "z = { value = 9", "x = { value = 1", "[b]", "x = { value = 7"]);
    }

    #[test]
    fn every_size_is_set_in_the_shipped_labs() {
        for (lab, part) in [("minimal", "card"), ("rosta", "v7")] {
            let lab = shipped().iter().find(|shipped| shipped.name == lab).unwrap();
            let mut text = lab.text.to_owned();
            for (table, key, values) in ENGINE_SIZES {
                let table = format!("part.{part}.{table}");
                assert!(set_constant(&mut text, &table, key, &values[0].to_string()), "{key}");
            }
            Lab::from_text(lab.name, &text).unwrap();
        }
    }

    #[test]
    fn an_iommu_is_added_to_whatever_lab() {
        for seed in 0..100 {
            let plain = LabText::random(&mut Random::with_seed(seed));
            let mut text = plain.clone();
            text.add_iommu(&mut Random::with_seed(seed));
            assert!(text.text.starts_with(&plain.text));
            let lab = text.lab().unwrap_or_else(|error| panic!("{seed}: {error}\n{}", text.text));
            assert!(lab.file().hosts.iter().all(|host| host.part.parameters.iommu.is_some()));
        }
        assert_eq!(part_of_kind("[part.a]\nkind = \"b\"\n", "c"), None);
    }

    #[test]
    fn push_apertures_are_added_to_generated_labs() {
        let mut engines = 0;
        for seed in 0..100 {
            let plain = LabText::random(&mut Random::with_seed(seed));
            let mut text = plain.clone();
            text.add_push(&mut Random::with_seed(seed));
            let lab = text.lab().unwrap_or_else(|error| panic!("{seed}: {error}\n{}", text.text));
            lab.build_engines(seed).unwrap_or_else(|error| panic!("{seed}: {error}"));
            let parts = lab.file().endpoints.iter().filter_map(|endpoint| endpoint.part.engine);
            let pushing = parts.filter(|engine| engine.push).count();
            assert_eq!(pushing > 0, plain.name == "generated", "{seed}");
            engines += pushing;
        }
        assert!(engines > 100, "{engines}");
    }

    #[test]
    fn generated_labs_get_card_memory_or_push_apertures() {
        for seed in 0..100 {
            let plain = LabText::random(&mut Random::with_seed(seed));
            let mut text = plain.clone();
            if seed % 2 == 0 {
                text.add_push(&mut Random::with_seed(seed));
            }
            text.add_card_memory(&mut Random::with_seed(seed));
            let lab = text.lab().unwrap_or_else(|error| panic!("{seed}: {error}\n{}", text.text));
            lab.build_engines(seed).unwrap_or_else(|error| panic!("{seed}: {error}"));
            let mut engines = lab.file().endpoints.iter().filter_map(|it| it.part.engine);
            let is_generated = plain.name == "generated";
            assert!(engines.all(|engine| {
                let has_memory = engine.card_memory.is_some();
                has_memory == (is_generated && seed % 2 == 1) && !(has_memory && engine.push)
            }));
        }
    }

    #[test]
    fn sockets_are_added_to_whatever_lab() {
        let (mut nodes, mut sockets, mut peers) = ([0; 2], [0; 2], 0);
        for seed in 0..150 {
            let mut text = LabText::random(&mut Random::with_seed(seed));
            text.add_sockets(&mut Random::with_seed(seed));
            let lab = text.lab().unwrap_or_else(|error| panic!("{seed}: {error}\n{}", text.text));
            lab.build(seed).unwrap_or_else(|error| panic!("{seed}: {error}"));
            let host = &lab.file().hosts[0];
            assert_eq!(host.part.parameters.socket_count(), 2);
            nodes[usize::from(host.numa_node)] += 1;
            for link in lab.file().links.iter().filter(|link| link.upper == host.name) {
                sockets[usize::from(link.socket)] += 1;
            }
            peers += lab.file().peers.len();
        }
        assert!(nodes.iter().chain(&sockets).all(|count| *count > 40), "{nodes:?}, {sockets:?}");
        assert!(peers > 15, "{peers}");
    }

    #[test]
    fn the_lab_of_a_seed_can_be_built_and_is_the_same_again() {
        for seed in 0..300 {
            let text = LabText::random(&mut Random::with_seed(seed));
            assert_eq!(text, LabText::random(&mut Random::with_seed(seed)));
            let lab = text.lab().unwrap_or_else(|error| panic!("{seed}: {error}\n{}", text.text));
            lab.build_engines(seed).unwrap_or_else(|error| panic!("{seed}: {error}"));
        }
    }
}
