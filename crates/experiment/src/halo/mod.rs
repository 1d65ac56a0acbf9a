// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nearest-neighbour exchange of a lattice between the nodes of a torus: each node sends each of
//! its faces to the neighbour on that side, and gets theirs.
//!
//! Read first: [`Lattice`], then [`HaloOptions`], the work of a [`Scenario`](crate::Scenario) with
//! all nodes of a lab's torus; or [`HaloNode`], one of them on any bus.

pub mod lattice;
mod run;
mod tori;

use crosslane_driver::Buffer;
use crosslane_host::{Bus, setters};
use crosslane_pcie::units::Picoseconds;
use crosslane_torus::{Begun, Direction, Message, Node, Peer};
use futures_util::future::try_join_all;

use crate::error::{ExperimentError, Result};
use crate::pattern::{WORD_BYTES, pattern_bytes};
use lattice::{DIMENSIONS, Lattice};
pub use run::{HaloOutcome, halo_on};
pub(crate) use run::{place_among, place_in};
pub use tori::Tori;

/// Channel that faces are sent on.
const CHANNEL: u8 = 0;
/// Tags of a channel; exchanges take one after the other.
const TAGS: u32 = 64;
/// Largest face, bytes: more than any lattice has.
const MAX_FACE_BYTES: u64 = 1 << 30;

/// Size and number of the exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HaloOptions {
    /// Each node's part of the lattice.
    pub lattice: Lattice,
    /// Bytes of a site that its neighbours need, a multiple of 4.
    pub site_bytes: u64,
    /// Exchanges, one behind the other.
    pub exchanges: u32,
    /// Seed of the data.
    pub seed: u64,
    /// An exchange that takes longer than this has failed.
    pub timeout: Picoseconds,
    /// Threads that simulate a lab, at most one for each host. The outcome is the same for any
    /// number.
    pub threads: u32,
    /// Whether the trace of a lab is hashed.
    pub trace_hash: bool,
}

setters!(HaloOptions {
    with_exchanges(exchanges: u32),
    with_seed(seed: u64),
    with_timeout(timeout: impl Into<Picoseconds>),
    with_threads(threads: u32),
    with_trace_hash(trace_hash: bool),
});

impl HaloOptions {
    /// Returns options of one exchange, at most 1 s long.
    pub const fn new(lattice: Lattice, site_bytes: u64) -> Self {
        let timeout = Picoseconds::from_ms(1000);
        let (exchanges, seed, threads, trace_hash) = (1, 1, 1, false);
        Self { lattice, site_bytes, exchanges, seed, timeout, threads, trace_hash }
    }

    /// Bytes of a face of that dimension.
    pub fn face_bytes(&self, dimension: usize) -> u64 {
        self.lattice.face_sites(dimension) as u64 * self.site_bytes
    }

    /// Returns the first problem of the options, if there is one.
    fn problem(&self) -> Option<String> {
        if self.site_bytes == 0 || !self.site_bytes.is_multiple_of(WORD_BYTES) {
            return Some(format!("{} B of a site; a multiple of 4 is needed", self.site_bytes));
        }
        let longest = (0..DIMENSIONS).map(|it| self.face_bytes(it)).max();
        longest
            .filter(|&bytes| bytes > MAX_FACE_BYTES)
            .map(|bytes| format!("a face of {bytes} B; {MAX_FACE_BYTES} B are possible"))
    }
}

/// Measurements of one node as plain numbers, in the order of the fields.
type Numbers = (u64, Vec<u64>, u64, u64, u64);

/// Measurements of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HaloMeasured {
    /// Start of the node's first exchange.
    pub begun: Picoseconds,
    /// End of each exchange: all its faces sent, all its neighbours' there.
    pub ended: Vec<Picoseconds>,
    /// Number of bytes that the node has sent, and as many that have come.
    pub bytes: u64,
    /// Number of faces that have come and were compared by their checksum.
    pub checked: u64,
    /// Number of faces with another checksum than the neighbour sent.
    pub wrong: u64,
}

impl From<HaloMeasured> for Numbers {
    fn from(HaloMeasured { begun, ended, bytes, checked, wrong }: HaloMeasured) -> Self {
        (begun.0, ended.into_iter().map(|time| time.0).collect(), bytes, checked, wrong)
    }
}

impl From<Numbers> for HaloMeasured {
    fn from((begun, ended, bytes, checked, wrong): Numbers) -> Self {
        let ended = ended.into_iter().map(Picoseconds).collect();
        Self { begun: Picoseconds(begun), ended, bytes, checked, wrong }
    }
}

/// A face of a node.
struct Face {
    direction: Direction,
    /// The node on that side.
    neighbour: u16,
    /// Offset in both buffers, bytes.
    offset: u64,
    bytes: u64,
}

/// A node of the torus, ready for exchanges: its links are up.
pub struct HaloNode {
    node: Node,
    options: HaloOptions,
    faces: Vec<Face>,
    sent: Buffer,
    received: Buffer,
}

/// Returns the seed of a face's data: another one for each node, link and exchange.
fn seed_of(seed: u64, node: u16, direction: Direction, exchange: u32) -> u32 {
    let whence = u32::from(node) << 8 | u32::from(direction.link());
    let words = [seed as u32, (seed >> 32) as u32, whence, exchange];
    words.into_iter().fold(0x9e37_79b9, |mixed: u32, word| {
        (mixed ^ word).wrapping_mul(0x85eb_ca6b).rotate_left(13)
    })
}

/// Returns a sum of data that depends on the position of each word.
fn checksum(data: &[u8]) -> u64 {
    let words = data.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
    words.fold(0xcbf2_9ce4_8422_2325, |sum: u64, word| {
        (sum ^ u64::from(word)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl HaloNode {
    /// Makes a node ready: waits until its links are up, and gets memory.
    ///
    /// # Errors
    /// Options that cannot be, a node without neighbours, a link that does not come up, no memory.
    pub async fn prepare(node: Node, options: HaloOptions) -> Result<Self> {
        let name = format!("node {}", node.number());
        ExperimentError::check(&name, options.problem())?;
        let (mut faces, mut offset) = (Vec::new(), 0);
        for direction in node.coordinates().directions() {
            let Some(neighbour) = node.coordinates().neighbour(direction) else { continue };
            let bytes = options.face_bytes(direction.dimension().into());
            faces.push(Face { direction, neighbour, offset, bytes });
            offset += bytes;
        }
        if faces.is_empty() {
            return Err(ExperimentError::refused(name, "no link leads to a neighbour"));
        }
        node.links_up(node.processor().bus().now() + options.timeout).await?;
        let (sent, received) = (node.buffer(offset).await?, node.buffer(offset).await?);
        Ok(Self { node, options, faces, sent, received })
    }

    /// Bytes that it sends in an exchange, and as many come.
    pub fn bytes(&self) -> u64 {
        self.faces.iter().map(|face| face.bytes).sum()
    }

    /// Makes all exchanges, each as soon as the one before has ended.
    ///
    /// # Errors
    /// A message that fails.
    pub async fn exchange(&self) -> Result<HaloMeasured> {
        let bus = self.node.processor().bus();
        let exchanges = self.options.exchanges;
        let bytes = self.bytes() * u64::from(exchanges);
        let begun = bus.now();
        let mut measured = HaloMeasured { begun, ended: Vec::new(), bytes, checked: 0, wrong: 0 };
        for number in 0..exchanges {
            self.fill(number)?;
            self.exchange_once(number).await?;
            measured.ended.push(bus.now());
            self.check(number, &mut measured)?;
        }
        Ok(measured)
    }

    /// Gives the node back.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn close(self) -> Result<()> {
        Ok(self.node.close().await?)
    }

    fn message(&self, face: &Face, buffer: &Buffer, exchange: u32) -> Message {
        Message {
            peer: Peer::Neighbour { direction: face.direction, channel: CHANNEL },
            tag: (exchange % TAGS) as u8,
            buffer: buffer.clone(),
            part: face.offset..face.offset + face.bytes,
            deadline: self.node.processor().bus().now() + self.options.timeout,
        }
    }

    /// Makes one exchange: RX_i in all directions, TX_i in all directions, and then RX_f and TX_f.
    async fn exchange_once(&self, number: u32) -> Result<()> {
        let mut receiving: Vec<Begun> = Vec::new();
        for face in &self.faces {
            receiving.push(self.node.rx_i(self.message(face, &self.received, number)).await?);
        }
        let mut sending: Vec<Begun> = Vec::new();
        for face in &self.faces {
            sending.push(self.node.tx_i(self.message(face, &self.sent, number)).await?);
        }
        try_join_all(receiving.iter().map(|message| self.node.finish(message))).await?;
        try_join_all(sending.iter().map(|message| self.node.finish(message))).await?;
        Ok(())
    }

    /// Writes what is sent. Programs would have computed it there.
    fn fill(&self, number: u32) -> Result<()> {
        for face in &self.faces {
            let seed = seed_of(self.options.seed, self.node.number(), face.direction, number);
            self.sent.write(face.offset, &pattern_bytes(seed, face.bytes))?;
        }
        Ok(())
    }

    /// Compares what has come with what the neighbours have sent.
    fn check(&self, number: u32, measured: &mut HaloMeasured) -> Result<()> {
        for face in &self.faces {
            let mut found = vec![0; face.bytes as usize];
            self.received.read(face.offset, &mut found)?;
            // Data from above were sent down.
            let there = face.direction.opposite();
            let seed = seed_of(self.options.seed, face.neighbour, there, number);
            let expected = checksum(&pattern_bytes(seed, face.bytes));
            measured.checked += 1;
            measured.wrong += u64::from(checksum(&found) != expected);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_tell_data_apart_by_their_place() {
        let up = Direction::Up(1);
        let data = pattern_bytes(seed_of(1, 2, up, 4), 4096);
        let mut swapped = data.clone();
        swapped.swap(0, 4);
        assert_ne!(checksum(&data), checksum(&swapped));
        let down = Direction::Down(1);
        for other in [(2, 2, up, 4), (1, 3, up, 4), (1, 2, down, 4), (1, 2, up, 5)] {
            let (seed, node, direction, exchange) = other;
            let other = pattern_bytes(seed_of(seed, node, direction, exchange), 4096);
            assert_ne!(checksum(&data), checksum(&other));
        }
    }

    #[test]
    fn options_that_cannot_be() {
        let lattice = |extents| Lattice::new(extents).unwrap();
        let options = |extents, site_bytes| HaloOptions::new(lattice(extents), site_bytes);
        assert_eq!(options([4; 4], 64).problem(), None);
        assert_eq!(options([4; 4], 64).face_bytes(2), 4096);
        assert!(options([4; 4], 62).problem().unwrap().contains("62 B of a site"));
        assert!(options([128; 4], 1024).problem().unwrap().contains("are possible"));
    }
}
