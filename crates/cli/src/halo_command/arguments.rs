// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line of `crosslane bench halo`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueHint};
use crosslane::experiment::Lattice;

use crate::completions::{self, Known};
use crate::size::parse_size;
use crate::whole_number::whole;

/// Most nodes of a torus.
const MAX_NODES: u32 = 4096;

/// Sizes as `4x4x2x2`.
fn sizes_of<T: FromStr>(text: &str) -> Option<Vec<T>> {
    let sizes: Option<Vec<T>> = text.split('x').map(|size| size.parse().ok()).collect();
    sizes.filter(|sizes| (1..=4).contains(&sizes.len()))
}

/// Nodes of a torus: how many, powers of two in a range, or its sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodesWord {
    /// Sizes of each torus, smallest first.
    pub tori: Vec<Vec<u16>>,
}

/// Up to four sizes with this product, as even as can be: the largest prime factors first, each to
/// the smallest size.
#[must_use]
pub fn even_sizes(nodes: u32) -> Vec<u16> {
    let mut factors = Vec::new();
    let (mut left, mut prime) = (nodes, 2_u32);
    while left > 1 {
        if left.is_multiple_of(prime) {
            factors.push(prime as u16);
            left /= prime;
        } else {
            prime += 1;
        }
    }
    let mut sizes = [1_u16; 4];
    for factor in factors.into_iter().rev() {
        let smallest = (0..4).min_by_key(|&at| sizes[at]).unwrap_or(0);
        sizes[smallest] *= factor;
    }
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes.into_iter().filter(|&size| size > 1).collect()
}

impl FromStr for NodesWord {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text} are not the nodes of a torus; write how many (16), a range whose powers of \
                 two are taken (2..4096), or up to four sizes (4x4x2x2), of {MAX_NODES} nodes at \
                 most"
            )
        };
        let is_good = |nodes: u32| (2..=MAX_NODES).contains(&nodes);
        let count = |text: &str| text.parse().ok().filter(|&nodes| is_good(nodes));
        if text.contains('x') {
            let sizes: Vec<u16> = sizes_of(text).ok_or_else(wrong)?;
            let nodes = sizes.iter().try_fold(1_u32, |all, &size| all.checked_mul(size.into()));
            return match nodes.filter(|&nodes| is_good(nodes)) {
                Some(_) => Ok(Self { tori: vec![sizes] }),
                None => Err(wrong()),
            };
        }
        let Some((first, last)) = text.split_once("..") else {
            return Ok(Self { tori: vec![even_sizes(count(text).ok_or_else(wrong)?)] });
        };
        let (first, last) = (count(first).ok_or_else(wrong)?, count(last).ok_or_else(wrong)?);
        let powers = (1..).map(|power| 1_u32 << power).take_while(|&nodes| nodes <= last);
        let tori: Vec<Vec<u16>> = powers.filter(|&nodes| nodes >= first).map(even_sizes).collect();
        if tori.is_empty() { Err(wrong()) } else { Ok(Self { tori }) }
    }
}

fn parse_lattice(text: &str) -> Result<Lattice, String> {
    let extents = sizes_of::<u32>(text).and_then(|sizes| <[u32; 4]>::try_from(sizes).ok());
    extents.and_then(Lattice::new).ok_or_else(|| {
        format!("{text} is no part of a lattice; write its sites in four dimensions, as 4x4x4x4")
    })
}

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
    pub nodes: Option<NodesWord>,
    /// Of cards of --device: no cable leads from the last node of a row to its first.
    #[arg(long, requires = "device")]
    pub open: bool,
    /// Sites of each node's part.
    #[arg(long, value_name = "LxLxLxL", default_value = "4x4x4x4", value_parser = parse_lattice)]
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
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write an HTML page to FOLDER/index.html.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub report: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_as_even_as_can_be() {
        for (nodes, sizes) in [
            (2, &[2][..]),
            (7, &[7]),
            (16, &[2, 2, 2, 2]),
            (32, &[4, 2, 2, 2]),
            (96, &[4, 3, 4, 2]),
            (4096, &[8, 8, 8, 8]),
        ] {
            let mut expected = sizes.to_vec();
            expected.sort_unstable_by(|a, b| b.cmp(a));
            assert_eq!(even_sizes(nodes), expected, "{nodes}");
        }
    }

    #[test]
    fn nodes_are_a_number_a_range_or_sizes() {
        let tori = |text: &str| text.parse::<NodesWord>().map(|word| word.tori);
        assert_eq!(tori("2..8"), Ok(vec![vec![2], vec![2, 2], vec![2, 2, 2]]));
        assert_eq!(tori("6"), Ok(vec![vec![3, 2]]));
        assert_eq!(tori("3x1x2"), Ok(vec![vec![3, 1, 2]]));
        for text in ["1", "0x4", "8192", "x", "2x2x2x2x2", "5..7", "a..b", ""] {
            let error = tori(text).unwrap_err();
            assert!(error.starts_with(&format!("{text} are not the nodes")), "{error}");
        }
    }

    #[test]
    fn parts_of_a_lattice() {
        assert_eq!(parse_lattice("4x3x2x1").unwrap().sites(), 24);
        assert!(parse_lattice("4x4x4").is_err());
        assert!(parse_lattice("4x4x4x0").is_err());
    }
}
