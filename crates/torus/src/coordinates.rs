// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Position of a node in its torus, and the peers that it can reach.

use std::fmt;

use crosslane_driver::network_processor::{Key, TorusDimension};

/// Direction to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// To the next position in this dimension; from the last to the first.
    Up(u8),
    /// To the previous position in this dimension; from the first to the last.
    Down(u8),
}

impl Direction {
    /// Returns the number of the link in this direction.
    pub const fn link(self) -> u8 {
        match self {
            Self::Up(dimension) => 2 * dimension,
            Self::Down(dimension) => 2 * dimension + 1,
        }
    }

    /// Returns the opposite direction: data sent up arrive from below.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Up(dimension) => Self::Down(dimension),
            Self::Down(dimension) => Self::Up(dimension),
        }
    }

    /// Returns the dimension.
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

/// Destination or source of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// The neighbour in a direction, on one of the virtual channels 0 to 5, which do not block each
    /// other.
    Neighbour {
        /// Direction of the neighbour.
        direction: Direction,
        /// Virtual channel, 0 to 5.
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

/// Position of a node in a torus of up to four dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coordinates {
    dimensions: Vec<TorusDimension>,
}

impl Coordinates {
    /// Creates a position, which the device checks.
    pub fn new(dimensions: &[TorusDimension]) -> Self {
        Self { dimensions: dimensions.to_vec() }
    }

    /// Returns the position of a node, by its number, in a torus of these sizes with closed rings.
    /// The first dimension counts fastest.
    pub fn of_node(node: u16, sizes: &[u16]) -> Self {
        let mut rest = node;
        let dimensions = sizes.iter().map(|&size| {
            let position = rest.checked_rem(size).unwrap_or(0);
            rest = rest.checked_div(size).unwrap_or(0);
            TorusDimension { size, position, is_open: false }
        });
        Self { dimensions: dimensions.collect() }
    }

    /// Returns the dimensions.
    pub fn dimensions(&self) -> &[TorusDimension] {
        &self.dimensions
    }

    /// Returns the number of nodes in the torus.
    pub fn nodes(&self) -> u32 {
        self.dimensions.iter().map(|dimension| u32::from(dimension.size)).product()
    }

    /// Returns the node's number.
    pub fn node(&self) -> u16 {
        let positions: Vec<u16> = self.dimensions.iter().map(|it| it.position).collect();
        self.number(&positions)
    }

    /// Returns the number of the node at these positions.
    fn number(&self, positions: &[u16]) -> u16 {
        let (mut number, mut weight) = (0_u32, 1_u32);
        for (dimension, &position) in self.dimensions.iter().zip(positions) {
            number += u32::from(position) * weight;
            weight *= u32::from(dimension.size);
        }
        number as u16
    }

    /// Returns the neighbour in a direction; `None` at the end of an open dimension, or if the
    /// dimension has one node.
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

    /// Returns the directions that have a neighbour, in the order of their links.
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
        let coordinates = Coordinates::of_node(7, &[3, 4, 2]);
        assert_eq!((coordinates.node(), coordinates.nodes()), (7, 24));
        let positions: Vec<u16> = coordinates.dimensions().iter().map(|it| it.position).collect();
        assert_eq!(positions, [1, 2, 0]);
        let neighbours: Vec<_> = coordinates
            .directions()
            .map(|way| (way.link(), coordinates.neighbour(way).unwrap()))
            .collect();
        assert_eq!(neighbours, [(0, 8), (1, 6), (2, 10), (3, 4), (4, 19), (5, 19)]);
        // Across the edge.
        let corner = Coordinates::of_node(0, &[3, 4]);
        assert_eq!(corner.neighbour(Direction::Down(0)), Some(2));
        assert_eq!(corner.neighbour(Direction::Down(1)), Some(9));
        assert_eq!(corner.neighbour(Direction::Up(2)), None);
    }

    #[test]
    fn each_is_the_neighbour_of_its_neighbours() {
        let sizes = [2, 3, 1, 4];
        for node in 0..24 {
            let coordinates = Coordinates::of_node(node, &sizes);
            assert_eq!(coordinates.directions().count(), 6);
            for way in coordinates.directions() {
                let other = Coordinates::of_node(coordinates.neighbour(way).unwrap(), &sizes);
                assert_eq!(other.neighbour(way.opposite()), Some(node), "{node} {way}");
            }
        }
    }

    #[test]
    fn a_line_has_ends() {
        let at =
            |position| Coordinates::new(&[TorusDimension { size: 3, position, is_open: true }]);
        assert_eq!(at(0).directions().collect::<Vec<_>>(), [Direction::Up(0)]);
        assert_eq!(at(1).directions().count(), 2);
        assert_eq!(at(2).directions().collect::<Vec<_>>(), [Direction::Down(0)]);
    }
}
