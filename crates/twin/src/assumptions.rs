// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Constants of a lab that are in no register and in no dump, each with its reason.

/// A constant that is in no register: key, value as written in the file, source.
pub(crate) type Constant = (&'static str, &'static str, &'static str);

pub(crate) const NEVER: &str = "assumption: no register says it; never in the way";
pub(crate) const SERVER: &str = "assumption: as the server of the lab pciebench";
pub(crate) const NO_INFLUENCE: &str = "assumption: no influence on what devices send";
pub(crate) const FITTED: &str = "assumption: as pciebench:iommu, where it is fitted";
pub(crate) const OURS: &str = "assumption: this project's engine";
pub(crate) const OPENED: &str = "assumption: the card says how many it has when it is opened";
pub(crate) const TYPICAL: &str = "assumption: typical";
pub(crate) const SECOND: &str = "assumption: every second";

pub(crate) const UNSEEN: &str = "assumption: not in the dump; as most servers have it";

/// A port that no dump shows.
pub(crate) const ANY_PORT: [Constant; 5] = [
    ("max_generation", "5", "assumption: not in the dump; never in the way"),
    ("max_width", "16", "assumption: not in the dump; never in the way"),
    ("max_payload_bytes", "512", "assumption: not in the dump; its links have their own limits"),
    ("extended_tags", "true", UNSEEN),
    ("acs", "true", UNSEEN),
];

/// Credits, buffers and latencies of a port, which are in no register.
pub(crate) const PORT: [Constant; 9] = [
    ("posted_headers", "\"infinite\"", NEVER),
    ("posted_data", "\"infinite\"", NEVER),
    ("nonposted_headers", "\"infinite\"", NEVER),
    ("nonposted_data", "\"infinite\"", NEVER),
    ("completion_headers", "\"infinite\"", NEVER),
    ("completion_data", "\"infinite\"", NEVER),
    ("replay_buffer_bytes", "\"infinite\"", NEVER),
    ("ack_tlps", "2", SECOND),
    ("update_fc_tlps", "2", SECOND),
];

pub(crate) const LATENCY: [Constant; 2] =
    [("receive_latency_ns", "100", TYPICAL), ("transmit_latency_ns", "100", TYPICAL)];

/// Host memory behind the root ports, without the read completion boundary.
pub(crate) const HOST_MEMORY: [Constant; 4] = [
    ("completion_cut", "\"aligned\"", SERVER),
    ("read_slots", "64", SERVER),
    (
        "read_latency_ns",
        "132",
        "assumption: as the server of the lab pciebench, where it is fitted",
    ),
    ("write_latency_ns", "50", SERVER),
];

pub(crate) const PEER_TO_PEER: [Constant; 2] = [
    ("allowed", "true", "assumption: no register says whether root ports pass on to each other"),
    ("latency_ns", "500", SERVER),
];

pub(crate) const CPU: [Constant; 8] = [
    ("cores", "4", NO_INFLUENCE),
    ("uncached_store_ns", "100", NO_INFLUENCE),
    ("store_queue", "8", NO_INFLUENCE),
    ("uncached_load_ns", "50", NO_INFLUENCE),
    ("interrupt_ns", "2000", NO_INFLUENCE),
    ("system_call_ns", "200", NO_INFLUENCE),
    ("pin_page_ns", "100", NO_INFLUENCE),
    ("copy_gb_per_s", "8", NO_INFLUENCE),
];

/// The IOMMU, if the machine has one: the size of its IOTLB is in no register.
pub(crate) const IOMMU: [Constant; 7] = [
    ("iotlb_entries", "112", FITTED),
    ("hit_ns", "0", FITTED),
    ("walk_ns", "253", FITTED),
    ("walks", "5", FITTED),
    (
        "largest_page_bytes",
        "2_097_152",
        "assumption: super pages of 2 MiB, as Linux uses for huge pages",
    ),
    ("map_page_ns", "50", "assumption: an entry of the table, written and flushed"),
    ("invalidate_ns", "1000", "assumption: one queued invalidation, waited for"),
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
