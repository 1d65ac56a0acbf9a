// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a node is in its torus, and whom it can reach.

use std::fmt;

use crosslane_driver::network_processor::{Key, TorusDimension};

/// The way to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// To the position one more in this dimension; from the last to the first.
    Up(u8),
    /// To the position one less; from the first to the last.
    Down(u8),
}

impl Direction {
    /// The link that leads there.
    #[must_use]
    pub const fn link(self) -> u8 {
        match self {
            Self::Up(dimension) => 2 * dimension,
            Self::Down(dimension) => 2 * dimension + 1,
        }
    }

    /// The way back: what is sent up arrives from below.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Up(dimension) => Self::Down(dimension),
            Self::Down(dimension) => Self::Up(dimension),
        }
    }

    /// Its dimension.
    #[must_use]
    pub const fn dimension(self) -> u8 {
        match self {
            Self::Up(dimension) | Self::Down(dimension) => dimension,
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up(dimension) => write!(f, "up in dimension {dimension}"),
            Self::Down(dimension) => write!(f, "down in dimension {dimension}"),
        }
    }
}

/// Whom a message goes to, or comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// The neighbour that way, on a virtual channel: 0 to 5 of them do not block each other.
    Neighbour {
        /// The way.
        direction: Direction,
        /// The channel.
        channel: u8,
    },
    /// Any other node, by its number.
    Node(u16),
}

impl Peer {
    pub(crate) const fn key(self, tag: u8) -> Key {
        match self {
            Self::Neighbour { direction, channel } => {
                Key::Neighbour { link: direction.link(), channel, tag }
            }
            Self::Node(node) => Key::Routed { node, tag },
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Neighbour { direction, channel } => {
                write!(f, "the neighbour {direction}, channel {channel}")
            }
            Self::Node(node) => write!(f, "node {node}"),
        }
    }
}

/// A node's place in a torus of up to four dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    dimensions: Vec<TorusDimension>,
}

impl Place {
    /// A place; the device checks it.
    #[must_use]
    pub fn new(dimensions: &[TorusDimension]) -> Self {
        Self { dimensions: dimensions.to_vec() }
    }

    /// The place of a node by its number, in a torus of these sizes whose rings are closed. The
    /// first dimension counts fastest.
    #[must_use]
    pub fn of_node(node: u16, sizes: &[u16]) -> Self {
        let mut rest = node;
        let dimensions = sizes.iter().map(|&size| {
            let position = rest.checked_rem(size).unwrap_or(0);
            rest = rest.checked_div(size).unwrap_or(0);
            TorusDimension { size, position, is_open: false }
        });
        Self { dimensions: dimensions.collect() }
    }

    /// Its dimensions.
    #[must_use]
    pub fn dimensions(&self) -> &[TorusDimension] {
        &self.dimensions
    }

    /// How many nodes the torus has.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.dimensions.iter().map(|dimension| u32::from(dimension.size)).product()
    }

    /// The node's number.
    #[must_use]
    pub fn node(&self) -> u16 {
        let positions: Vec<u16> = self.dimensions.iter().map(|it| it.position).collect();
        self.number(&positions)
    }

    /// The number of the node at these positions.
    fn number(&self, positions: &[u16]) -> u16 {
        let (mut number, mut weight) = (0_u32, 1_u32);
        for (dimension, &position) in self.dimensions.iter().zip(positions) {
            number += u32::from(position) * weight;
            weight *= u32::from(dimension.size);
        }
        number as u16
    }

    /// The neighbour that way, if there is one: none over the end of an open dimension, and none
    /// where the node is alone.
    #[must_use]
    pub fn neighbour(&self, direction: Direction) -> Option<u16> {
        let number = usize::from(direction.dimension());
        let TorusDimension { size, position, is_open } = *self.dimensions.get(number)?;
        if size < 2 {
            return None;
        }
        let next = match direction {
            Direction::Up(_) if position + 1 < size => position + 1,
            Direction::Down(_) if position > 0 => position - 1,
            _ if is_open => return None,
            Direction::Up(_) => 0,
            Direction::Down(_) => size - 1,
        };
        let mut positions: Vec<u16> = self.dimensions.iter().map(|it| it.position).collect();
        positions[number] = next;
        Some(self.number(&positions))
    }

    /// All ways to a neighbour, in the order of their links.
    pub fn directions(&self) -> impl Iterator<Item = Direction> {
        let dimensions = 0..self.dimensions.len() as u8;
        let both = dimensions.flat_map(|number| [Direction::Up(number), Direction::Down(number)]);
        both.filter(|&direction| self.neighbour(direction).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_next_to_whom() {
        let place = Place::of_node(7, &[3, 4, 2]);
        assert_eq!((place.node(), place.nodes()), (7, 24));
        let positions: Vec<u16> = place.dimensions().iter().map(|it| it.position).collect();
        assert_eq!(positions, [1, 2, 0]);
        let neighbours: Vec<_> =
            place.directions().map(|way| (way.link(), place.neighbour(way).unwrap())).collect();
        assert_eq!(neighbours, [(0, 8), (1, 6), (2, 10), (3, 4), (4, 19), (5, 19)]);
        // Over the edge.
        let corner = Place::of_node(0, &[3, 4]);
        assert_eq!(corner.neighbour(Direction::Down(0)), Some(2));
        assert_eq!(corner.neighbour(Direction::Down(1)), Some(9));
        assert_eq!(corner.neighbour(Direction::Up(2)), None);
    }

    #[test]
    fn each_is_the_neighbour_of_its_neighbours() {
        let sizes = [2, 3, 1, 4];
        for node in 0..24 {
            let place = Place::of_node(node, &sizes);
            assert_eq!(place.directions().count(), 6);
            for way in place.directions() {
                let other = Place::of_node(place.neighbour(way).unwrap(), &sizes);
                assert_eq!(other.neighbour(way.opposite()), Some(node), "{node} {way}");
            }
        }
    }

    #[test]
    fn a_line_has_ends() {
        let at = |position| Place::new(&[TorusDimension { size: 3, position, is_open: true }]);
        assert_eq!(at(0).directions().collect::<Vec<_>>(), [Direction::Up(0)]);
        assert_eq!(at(1).directions().count(), 2);
        assert_eq!(at(2).directions().collect::<Vec<_>>(), [Direction::Down(0)]);
    }
}
