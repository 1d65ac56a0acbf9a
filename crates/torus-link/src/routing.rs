// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Positions of nodes in a torus, the neighbours that links lead to, and the next link and channel
//! of a routed datagram.
//!
//! Read first: `docs/torus-link.md`, *Routing*.

mod waits;

pub use waits::{Buffer, Waits};

use crate::frame::Channel;
use thiserror::Error;

/// Most dimensions of a torus.
pub const MAX_DIMENSIONS: usize = 4;
/// Most nodes of a torus: a routing word has 16 bits for a node.
pub const MAX_NODES: u32 = 1 << 16;
/// Channel of routed datagrams.
pub const ROUTED: Channel = Channel::ALL[6];
/// Channel of routed datagrams from the edge of a ring (the dateline) on.
pub const ROUTED_BEHIND_EDGE: Channel = Channel::ALL[7];

/// One dimension of a torus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dimension {
    /// Number of nodes, at least 1.
    pub size: u16,
    /// Whether cables join the ends to a ring; otherwise the dimension is an open row.
    pub wraps: bool,
}

impl Dimension {
    /// An unused dimension: one node and no cable.
    const NONE: Self = Self { size: 1, wraps: false };

    /// Hops of the longest route in this direction.
    const fn longest(self, direction: Direction) -> u16 {
        match (self.wraps, direction) {
            (false, _) => self.size - 1,
            (true, Direction::Up) => self.size / 2,
            // If both directions are equally long, up is taken.
            (true, Direction::Down) => (self.size - 1) / 2,
        }
    }

    /// Hops upwards from `from` to `to`, around the ring if necessary.
    const fn up(self, from: u16, to: u16) -> u32 {
        let hops = if to >= from { to - from } else { self.size - (from - to) };
        hops as u32
    }

    /// Next position in a direction, if a cable leads there.
    const fn next(self, position: u16, direction: Direction) -> Option<u16> {
        let last = self.size - 1;
        match direction {
            _ if last == 0 => None,
            Direction::Up if position < last => Some(position + 1),
            Direction::Down if position > 0 => Some(position - 1),
            _ if !self.wraps => None,
            Direction::Up => Some(0),
            Direction::Down => Some(last),
        }
    }

    /// Direction of the shortest route from one position to another.
    const fn direction(self, from: u16, to: u16) -> Direction {
        let is_up = if self.wraps {
            self.up(from, to) <= self.longest(Direction::Up) as u32
        } else {
            to > from
        };
        if is_up { Direction::Up } else { Direction::Down }
    }
}

/// A direction within a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Towards the next higher position.
    Up,
    /// Towards the next lower position.
    Down,
}

impl Direction {
    /// The opposite direction.
    #[must_use]
    pub const fn back(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

/// Number of the link in direction `way` of a dimension.
pub const fn link(dimension: usize, direction: Direction) -> u8 {
    dimension as u8 * 2 + matches!(direction, Direction::Down) as u8
}

/// Dimension and direction of a link.
pub const fn direction(link: u8) -> (usize, Direction) {
    (link as usize / 2, if link.is_multiple_of(2) { Direction::Up } else { Direction::Down })
}

/// Error of building a torus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TorusError {
    /// The number of dimensions is not 1 to [`MAX_DIMENSIONS`].
    #[error("a torus has 1 to 4 dimensions, this one has {0}")]
    Dimensions(usize),
    /// This dimension has no nodes; see [`Dimension::size`].
    #[error("dimension {0} has no nodes: at least 1")]
    Empty(usize),
    /// The number of nodes is above [`MAX_NODES`].
    #[error("the torus has {0} nodes, 65536 can be told apart")]
    Nodes(u64),
}

/// Error of routing a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Misrouted {
    /// The datagram names a node that does not exist.
    #[error("the torus has no node {0}")]
    NoNode(u16),
    /// The route from source to destination does not lead through this node.
    #[error("node {here} is not on the way from {source_node} to {destination}")]
    OffItsWay {
        /// Node where the datagram is.
        here: u16,
        /// Source that the datagram names.
        source_node: u16,
        /// Destination that the datagram names.
        destination: u16,
    },
}

/// Next step of a routed datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hop {
    /// The datagram has reached its destination.
    Arrived,
    /// The datagram leaves by a link.
    Link {
        /// Number of the link.
        link: u8,
        /// Channel on that link.
        channel: Channel,
    },
}

/// Coordinates of a node; 0 in unused dimensions.
pub type Position = [u16; MAX_DIMENSIONS];

/// A torus, or a mesh, of 1 to 4 dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Torus {
    dimensions: [Dimension; MAX_DIMENSIONS],
    count: usize,
    nodes: u32,
}

impl Torus {
    /// Builds a torus of these sizes (`wrap`), or a mesh.
    ///
    /// # Errors
    /// [`TorusError`] for too many dimensions or nodes, or none.
    pub fn new(sizes: &[u16], wrap: bool) -> Result<Self, TorusError> {
        let mut dimensions = [Dimension::NONE; MAX_DIMENSIONS];
        for (dimension, size) in dimensions.iter_mut().zip(sizes) {
            *dimension = Dimension { size: *size, wraps: wrap };
        }
        if sizes.len() > MAX_DIMENSIONS {
            return Err(TorusError::Dimensions(sizes.len()));
        }
        Self::of(&dimensions[..sizes.len()])
    }

    /// Builds a torus of open dimensions and rings.
    ///
    /// # Errors
    /// [`TorusError`] for too many dimensions or nodes, or none.
    pub fn of(given: &[Dimension]) -> Result<Self, TorusError> {
        if given.is_empty() || given.len() > MAX_DIMENSIONS {
            return Err(TorusError::Dimensions(given.len()));
        }
        if let Some(empty) = given.iter().position(|dimension| dimension.size == 0) {
            return Err(TorusError::Empty(empty));
        }
        let nodes = given.iter().map(|dimension| u64::from(dimension.size)).product();
        if nodes > u64::from(MAX_NODES) {
            return Err(TorusError::Nodes(nodes));
        }
        let mut dimensions = [Dimension::NONE; MAX_DIMENSIONS];
        dimensions[..given.len()].copy_from_slice(given);
        Ok(Self { dimensions, count: given.len(), nodes: nodes as u32 })
    }

    /// Dimensions in order.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions[..self.count]
    }

    /// Number of nodes, 1 to [`MAX_NODES`].
    pub const fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Coordinates of a node.
    ///
    /// # Panics
    /// If the node does not exist.
    pub fn position(&self, node: u16) -> Position {
        assert!(u32::from(node) < self.nodes, "the torus has no node {node}");
        let mut rest = node;
        self.dimensions.map(|dimension| {
            let position = rest % dimension.size;
            rest /= dimension.size;
            position
        })
    }

    /// The node at these coordinates, if it exists.
    pub fn node(&self, position: &Position) -> Option<u16> {
        let mut node = 0;
        for (dimension, at) in self.dimensions.iter().zip(position).rev() {
            if *at >= dimension.size {
                return None;
            }
            node = node * u32::from(dimension.size) + u32::from(*at);
        }
        Some(node as u16)
    }

    /// The node that a link of `node` leads to, and that node's link at the other end of the cable;
    /// `None` without a cable.
    ///
    /// # Panics
    /// If the node does not exist.
    pub fn neighbour(&self, node: u16, from: u8) -> Option<(u16, u8)> {
        let (number, direction) = direction(from);
        let dimension = self.dimensions.get(number)?;
        let mut position = self.position(node);
        position[number] = dimension.next(position[number], direction)?;
        Some((self.node(&position)?, link(number, direction.back())))
    }

    /// All cables, each once: node and link at the lower end, then at the upper end.
    pub fn cables(&self) -> impl Iterator<Item = ((u16, u8), (u16, u8))> + '_ {
        (0..self.nodes).flat_map(move |node| {
            (0..self.count).filter_map(move |number| {
                let here = (node as u16, link(number, Direction::Up));
                self.neighbour(here.0, here.1).map(|there| (here, there))
            })
        })
    }

    /// Finds the link and channel by which a datagram leaves `here`.
    ///
    /// # Errors
    /// [`Misrouted`] if a node does not exist, or `here` is not on the route.
    ///
    /// # Panics
    /// If `here` does not exist.
    pub fn next_hop(&self, source_node: u16, here: u16, to: u16) -> Result<Hop, Misrouted> {
        for node in [source_node, to] {
            if u32::from(node) >= self.nodes {
                return Err(Misrouted::NoNode(node));
            }
        }
        let [began, is, ends] = [source_node, here, to].map(|node| self.position(node));
        let off_its_way = Misrouted::OffItsWay { here, source_node, destination: to };
        // Dimensions below are complete; those above have not begun.
        let Some(number) = (0..self.count).find(|&number| is[number] != ends[number]) else {
            return Ok(Hop::Arrived);
        };
        if is[number + 1..] != began[number + 1..] {
            return Err(off_its_way);
        }
        let dimension = self.dimensions[number];
        let (began, is, ends) = (began[number], is[number], ends[number]);
        let direction = dimension.direction(began, ends);
        let up_to_here = dimension.up(began, is) + dimension.up(is, ends);
        let down_to_here = dimension.up(is, began) + dimension.up(ends, is);
        let is_on_its_way = match direction {
            _ if began == ends => false,
            Direction::Up => up_to_here == dimension.up(began, ends),
            Direction::Down => down_to_here == dimension.up(ends, began),
        };
        let Some(next) = dimension.next(is, direction).filter(|_| is_on_its_way) else {
            return Err(off_its_way);
        };
        // Unless it has crossed the edge, a route up leads only to higher positions.
        let is_behind_edge = match direction {
            Direction::Up => next < began,
            Direction::Down => next > began,
        };
        let channel = if is_behind_edge { ROUTED_BEHIND_EDGE } else { ROUTED };
        Ok(Hop::Link { link: link(number, direction), channel })
    }
}
