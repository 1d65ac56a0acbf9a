// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Constants of a lab that are in no register, no dump and no part of the library, each with its
//! reason.

use crosslane_sysfs::LinkCode;

/// A constant that is in no register: key, value as written in the file, source.
pub(crate) type Constant = (&'static str, &'static str, &'static str);

pub(crate) const OURS: &str = "assumption: this project's engine";
pub(crate) const OPENED: &str = "assumption: the card says how many it has when it is opened";

pub(crate) const UNSEEN: &str = "assumption: not in the dump; as most servers have it";

pub(crate) const UNSEEN_LINK: &str = "assumption: not in the dump; as most such devices have it";
pub(crate) const ASSUMED_LINK: &str = "assumption: no less than a link that no dump shows";

/// Returns the link of a device of which nothing but its class is known: that of most such devices
/// in servers from 2014 to 2020.
pub(crate) const fn typical_link(class: u32) -> LinkCode {
    let lanes = match (class >> 16, class >> 8) {
        (_, 0x0108) => 4,
        (0x03 | 0x06 | 0x12, _) => 16,
        _ => 8,
    };
    LinkCode { speed: 3, lanes }
}

/// The way between two sockets, and peers across it.
pub(crate) const HOP: [Constant; 2] = [
    (
        "latency_ns",
        "50, low = 30, high = 150",
        "assumption: half of the 100 ns that reads of the other socket's memory take more \
         (pcie-bench, SIGCOMM 2018, 6.4)",
    ),
    (
        "gb_per_s",
        "38.4, low = 9.6, high = 150",
        "assumption: two links of 9.6 GT/s and 16 bits, each way, as servers of 2014 to 2016 have",
    ),
];

pub(crate) const HOP_PEERS: [Constant; 2] = [
    ("allowed", "true", "assumption: no register says whether sockets pass on to each other"),
    (
        "latency_ns",
        "550, low = 250, high = 1200",
        "assumption: as between root ports of one socket, and the hop",
    ),
];

/// This project's engine, if the card has it.
pub(crate) const ENGINE: [Constant; 15] = [
    ("header_on_datapath", "false", OURS),
    ("reading_descriptors", "64", OURS),
    ("register_latency_ns", "20", "assumption: five clocks"),
    ("request_latency_clocks", "11", "fit: gateware, from a descriptor to its first read"),
    ("write_latency_clocks", "3", "fit: gateware, from a descriptor to its first write, less that"),
    ("fetch_latency_clocks", "7", "fit: gateware, from the doorbell to the fetch"),
    ("stream_latency_clocks", "11", "fit: gateware, from the last data to the status block"),
    ("h2c_channels", "1", OPENED),
    ("c2h_channels", "1", OPENED),
    ("peer_channels", "1", OPENED),
    ("lanes", "8", OPENED),
    ("lane_fifo_bytes", "16_384", OPENED),
    ("staging_bytes", "65_536", "assumption: a longest read for each tag"),
    ("table_descriptors", "1024", OURS),
    ("fetch_batch", "16", OURS),
];
