// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Generated labs: a random tree of switches with engines at its ends, and random constants
//! throughout, as the text of a lab file.

use std::fmt::{Display, Write as _};

use crosslane_random::Random;

use crate::lab_text::{ENGINE_SIZES, pick};

/// Most engines of a lab.
const MOST_ENGINES: usize = 6;
/// Most root ports of a host.
const MOST_ROOT_PORTS: usize = 3;
/// Most levels of switches below a root port.
const MOST_LEVELS: usize = 3;
/// Most switches of a lab.
const MOST_SWITCHES: usize = 4;
/// Widths of links.
const WIDTHS: [u32; 5] = [1, 2, 4, 8, 16];

/// The text under construction.
struct Writer<'a> {
    rng: &'a mut Random,
    /// The lab and its parts.
    text: String,
    instances: String,
    links: usize,
}

/// A node with ports for links below it, and the limits of those ports.
struct Above {
    name: String,
    level: usize,
    generation: u32,
    width: u32,
    room: usize,
}

impl Writer<'_> {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        pick(self.rng, from)
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn constant(&mut self, key: &str, value: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.text,
            "{key} = {{ value = {value}, source = \"assumption: chosen by the seed\" }}"
        );
    }

    /// Writes a key with one of some values.
    fn random<T: Copy + Display>(&mut self, key: &str, from: &[T]) {
        let value = self.pick(from);
        self.constant(key, value);
    }

    /// Writes a port with these limits, whose buffers hold at least one payload.
    fn port(&mut self, generation: u32, width: u32, of_switch: bool) -> u32 {
        let payload_bytes = self.pick(&[128, 128, 256, 256, 512, 1024]);
        self.constant("max_generation", generation);
        self.constant("max_width", width);
        self.constant("max_payload_bytes", payload_bytes);
        self.constant("extended_tags", true);
        if of_switch {
            self.constant("acs", true);
        }
        let least = payload_bytes / 16;
        for (headers, data) in
            [("posted_headers", "posted_data"), ("completion_headers", "completion_data")]
        {
            let infinite = headers.starts_with("completion") && !of_switch;
            if infinite {
                self.constant(headers, "\"infinite\"");
                self.constant(data, "\"infinite\"");
                continue;
            }
            self.random(headers, &[1, 2, 4, 16, 64]);
            let times = self.pick(&[1, 1, 2, 4, 16]);
            self.constant(data, least * times);
        }
        self.random("nonposted_headers", &[1, 2, 8, 64]);
        self.random("nonposted_data", &[1, 2, 8, 64]);
        let replay_bytes = self.pick(&[payload_bytes + 24, 2 * payload_bytes + 48, 4096, 16_384]);
        self.constant("replay_buffer_bytes", replay_bytes.max(payload_bytes + 24));
        self.random("ack_tlps", &["1", "2", "8", "\"infinite\""]);
        self.random("update_fc_tlps", &["1", "2", "8", "\"infinite\""]);
        if !of_switch {
            self.random("receive_latency_ns", &[0, 20, 100, 236]);
            self.random("transmit_latency_ns", &[0, 20, 100, 236]);
        }
        payload_bytes
    }

    /// Writes the latencies of a completer's memory.
    fn memory(&mut self, boundary_bytes: u32) {
        self.random("completion_bytes", &[boundary_bytes, 128, 256]);
        self.random("completion_cut", &["\"longest\"", "\"aligned\""]);
        self.random("read_slots", &[1, 2, 16, 64]);
        self.random("read_latency_ns", &[20, 50, 200, 700]);
        self.random("write_latency_ns", &[0, 100, 500]);
        if self.rng.u8(..4) == 0 {
            self.random("read_jitter_ns", &[50, 400]);
        }
        if self.rng.u8(..6) == 0 {
            self.constant("read_tail_probability", "0.01");
            self.constant("read_tail_ns", 5_000);
        }
        if self.rng.u8(..4) == 0 {
            self.random("read_gb_per_s", &["0.5", "2", "10"]);
            self.random("write_gb_per_s", &["0.5", "2", "10"]);
        }
        if self.rng.u8(..4) == 0 {
            self.random("partial_line_ns", &[20, 50]);
            self.constant("line_bytes", 64);
        }
    }

    /// Writes the host, with buffers below 4 GiB or above.
    fn host(&mut self) {
        self.line("[part.host]\nkind = \"root-complex\"\nsummary = \"A host.\"");
        self.constant("identity", "\"1234:0001\"");
        self.constant("memory_bytes", 8_u64 << 30);
        self.line("[part.host.port]");
        self.port(5, 16, false);
        if self.rng.bool() {
            self.constant("acs", true);
        }
        self.line("[part.host.memory]");
        let boundary_bytes = self.pick(&[64, 128]);
        self.constant("read_completion_boundary_bytes", boundary_bytes);
        self.memory(boundary_bytes);
        self.line("[part.host.peer_to_peer]");
        if self.rng.u8(..3) == 0 {
            self.constant("allowed", false);
        } else {
            self.constant("allowed", true);
            self.random("latency_ns", &[100, 500, 2_000]);
            if self.rng.bool() {
                self.random("gb_per_s", &["0.05", "0.3", "1"]);
            }
        }
        self.line("[part.host.cpu]");
        self.random("cores", &[1, 2, 4]);
        self.random("uncached_store_ns", &[5, 50, 144]);
        self.random("store_queue", &[1, 2, 8]);
        self.random("uncached_load_ns", &[10, 50]);
        self.random("interrupt_ns", &[200, 1_000, 3_000]);
        self.random("system_call_ns", &[0, 200]);
        self.random("pin_page_ns", &[0, 100]);
        self.random("copy_gb_per_s", &[1, 10]);
    }

    fn switch_part(&mut self, number: usize, generation: u32, width: u32) {
        self.line(&format!("[part.switch{number}]\nkind = \"switch\"\nsummary = \"A switch.\""));
        self.constant("identity", "\"1234:0003\"");
        self.random("latency_ns", &[0, 100, 150, 400]);
        self.random("forwarding", &["\"cut-through\"", "\"store-and-forward\""]);
        self.line(&format!("[part.switch{number}.port]"));
        self.port(generation, width, true);
    }

    fn engine_part(&mut self, number: usize, generation: u32, width: u32) {
        let part = format!("part.card{number}");
        self.line(&format!("[{part}]\nkind = \"endpoint\"\nsummary = \"A card.\""));
        self.constant("identity", "\"1234:0002\"");
        self.constant("class_code", 0x12_0000);
        self.line(&format!("[{part}.bar0]"));
        self.constant("decodes", "\"memory32\"");
        self.constant("size_bytes", 65_536);
        self.line(&format!("[{part}.bar1]"));
        let kinds = ["\"memory32\"", "\"memory32\"", "\"memory64-prefetchable\""];
        self.random("decodes", &kinds);
        let lanes = self.pick(&[2, 4, 8]);
        let window_bytes = self.pick(&[4096, 65_536]);
        self.constant("size_bytes", lanes * window_bytes);
        self.line(&format!("[{part}.port]"));
        let payload_bytes = self.port(generation, width, false);
        self.line(&format!("[{part}.memory]"));
        self.constant("completion_bytes", 128);
        self.constant("completion_cut", "\"longest\"");
        self.constant("read_slots", 1);
        self.constant("read_latency_ns", 20);
        self.constant("write_latency_ns", 0);
        self.line(&format!("[{part}.requester]"));
        let write_bytes = self.pick(&[128, 256, 512]).min(payload_bytes);
        self.constant("max_write_bytes", write_bytes);
        self.random("max_read_bytes", &[128, 256, 1024, 4096]);
        self.random("clock_ns", &[2, 4, 8]);
        if self.rng.u8(..4) == 0 {
            self.constant("idle_clocks_per_tlp", 1);
            self.constant("operation_gap_ns", 260);
        }
        self.sizes("requester");
        self.line(&format!("[{part}.engine]"));
        self.random("register_latency_ns", &[0, 20, 100]);
        self.constant("lanes", lanes);
        let least = payload_bytes.max(512);
        let times = self.pick(&[1, 2, 8, 32]);
        self.constant("lane_fifo_bytes", least * times);
        // Room for the longest read and the longest write.
        let times = self.pick(&[1, 2, 8, 32]);
        self.constant("staging_bytes", (least * times).max(8192));
        // Both values occur, without another random draw.
        self.constant("header_on_datapath", lanes != 4);
        self.sizes("engine");
    }

    /// Writes an engine's constants of one table, except for the memories, which depend on its
    /// port.
    fn sizes(&mut self, wanted: &str) {
        for (table, key, values) in ENGINE_SIZES {
            if table == wanted && !matches!(key, "lane_fifo_bytes" | "staging_bytes") {
                self.random(key, values);
            }
        }
    }

    fn link_part(&mut self, number: usize, generation: u32, width: u32) {
        self.line(&format!("[part.link{number}]\nkind = \"link\""));
        self.constant("generation", generation);
        self.constant("width", width);
        self.random("flight_ns", &[1, 5, 50]);
        if self.rng.u8(..5) == 0 {
            self.random("bit_error_rate", &["1e-7", "1e-6", "1e-5", "2e-5"]);
            self.random("retrain_ns", &[500, 2_000]);
        }
    }
}

impl Writer<'_> {
    /// Writes the instance of the host.
    fn host_instance(&mut self) {
        let redirects = self.text.contains("acs = {") && self.rng.bool();
        let buffers = self.pick(&["below-4-gib", "above-4-gib"]);
        let read_bytes = self.pick(&[128, 512, 4096]);
        let source = "source = \"assumption: chosen by the seed\"";
        let _ = writeln!(
            self.instances,
            "[[host]]\nname = \"host0\"\npart = \"host\"\n\
             buffers = {{ value = \"{buffers}\", {source} }}\n\
             max_read_request_bytes = {{ value = {read_bytes}, {source} }}"
        );
        if redirects {
            self.instances.push_str("acs = true\n");
        }
    }

    /// Hangs an instance below one of the nodes with room. False if none has any.
    fn hang(&mut self, above: &mut [Above], lower: &mut Above, kind: &str) -> bool {
        let is_switch = kind == "switch";
        let fits = |node: &&mut Above| node.room > 0 && (!is_switch || node.level < MOST_LEVELS);
        let mut fitting: Vec<&mut Above> = above.iter_mut().filter(fits).collect();
        if fitting.is_empty() {
            return false;
        }
        let at = self.rng.usize(..fitting.len());
        let upper = &mut *fitting[at];
        upper.room -= 1;
        lower.level = upper.level + 1;
        let number = self.links;
        self.links += 1;
        let (generation, width) = (lower.generation, lower.width);
        self.link_part(number, generation.min(upper.generation), width.min(upper.width));
        let (upper, name) = (&upper.name, &lower.name);
        let _ = writeln!(
            self.instances,
            "[[link]]\nupper = \"{upper}\"\nlower = \"{name}\"\npart = \"link{number}\"\n\
             [[{kind}]]\nname = \"{name}\"\npart = \"{name}\""
        );
        true
    }
}

/// Generates a lab.
pub(crate) fn lab(rng: &mut Random) -> String {
    let mut w = Writer { rng, text: String::new(), instances: String::new(), links: 0 };
    w.line("# SPDX-License-Identifier: Apache-2.0 OR MIT\n[lab]\nformat = 1\nname = \"generated\"");
    w.line("summary = \"A tree that a seed has made up.\"");
    w.host();
    w.host_instance();
    let room = w.rng.usize(1..=MOST_ROOT_PORTS);
    let mut above = vec![Above { name: "host0".into(), level: 0, generation: 5, width: 16, room }];
    for number in 0..w.rng.usize(0..=MOST_SWITCHES) {
        let (generation, width) = (w.rng.u32(2..=5), w.pick(&WIDTHS[2..]));
        let room = w.rng.usize(1..=4);
        let name = format!("switch{number}");
        let mut switch = Above { name, level: 0, generation, width, room };
        if !w.hang(&mut above, &mut switch, "switch") {
            break;
        }
        w.switch_part(number, generation, width);
        if w.rng.u8(..4) == 0 {
            w.instances.push_str("acs = true\n");
        }
        above.push(switch);
    }
    // The last switch always has room for an engine.
    for number in 1..=w.rng.usize(1..=MOST_ENGINES) {
        let (generation, width) = (w.rng.u32(1..=4), w.pick(&WIDTHS[..4]));
        let name = format!("card{number}");
        let mut card = Above { name, level: 0, generation, width, room: 0 };
        if !w.hang(&mut above, &mut card, "endpoint") {
            break;
        }
        w.engine_part(number, generation, width);
    }
    let Writer { text, instances, .. } = w;
    text + &instances
}
