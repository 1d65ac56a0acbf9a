// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line of `crosslane bench halo`.

use clap::{Args, ValueHint};
use crosslane::experiment::{Lattice, Tori, parse_size};

use crate::arguments::ShownArguments;
use crate::completions::{self, Known};
use crate::values::whole;

/// Arguments of `bench halo`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  crosslane bench halo                                      the 16 nodes of lab torus
  crosslane bench halo --lab torus --nodes 2..64
  crosslane bench halo --nodes 3x2 --lattice 8x8x8x8 --site-bytes 96
  crosslane bench halo --nodes 16 --iterations 4 --json
  crosslane bench halo --nodes 2..32 --report halo

Each node has a part of a lattice of four dimensions. In an exchange it sends each of its faces to
the neighbour on that side and gets theirs: credits first, then gets, all directions at once, and
the next exchange begins when the last face is there. The time is that of the slowest node. Every
buffer's checksum is compared with what its neighbour has sent. Percentages are of the torus link's
payload rate (after 8b/10b, header, CRC and skip sets, one way), and of what the host's link can
carry with all directions loaded. With --nodes the lab's torus is made in other sizes, each node as
its first one. A dimension of one node has no links.

Cards of --device are the nodes in order, the first dimension counting fastest; their cables make
the torus of --nodes, its rings closed unless --open says otherwise. Times are this machine's.")]
pub struct HaloArguments {
    /// A shipped lab's name, or a lab file; `:VARIANT` behind it chooses a variant
    /// [default: torus].
    #[arg(long, value_hint = ValueHint::AnyPath, value_parser = Known(completions::labs),
        hide_possible_values = true)]
    pub lab: Option<String>,
    /// A node, in place of a lab: vfio:ADDRESS of this machine or vfio-user:SOCKET of a server, in
    /// the order of the torus; or lab:LAB.
    #[arg(long, value_name = "NAME", conflicts_with = "lab",
        value_parser = Known(completions::devices), hide_possible_values = true)]
    pub device: Vec<String>,
    /// Nodes of the torus: a number, a range of powers of two, or sizes as 4x4x2x2 [default: as the
    /// lab has it].
    #[arg(long, value_name = "NODES")]
    pub nodes: Option<Tori>,
    /// Of cards of --device: no cable leads from the last node of a row to its first.
    #[arg(long, requires = "device")]
    pub open: bool,
    /// Sites of each node's part.
    #[arg(long, value_name = "LxLxLxL", default_value = "4x4x4x4")]
    pub lattice: Lattice,
    /// Bytes of a site that its neighbours need; a multiple of 4.
    #[arg(long, value_name = "SIZE", default_value = "64", value_parser = parse_size)]
    pub site_bytes: u64,
    /// Exchanges, one after the other.
    #[arg(long = "iterations", alias = "exchanges", value_name = "N", default_value_t = 2,
        value_parser = whole::<u32>(1..=10_000))]
    pub exchanges: u32,
    /// Random seed; it also makes the data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Look for what limits each run, in a lab: that takes many more runs.
    #[arg(long, conflicts_with = "device")]
    pub why: bool,
    #[command(flatten)]
    pub shown: ShownArguments,
}
