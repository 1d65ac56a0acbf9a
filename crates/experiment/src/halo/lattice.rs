// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A node's part of a lattice: its sites, and the faces that its neighbours need.

use crosslane_torus::Direction;

/// Dimensions of a lattice.
pub const DIMENSIONS: usize = 4;
/// Most sites of a node's part: what an index of 32 bits reaches.
pub const MAX_SITES: u64 = 1 << 30;

/// The directions in which a site has a neighbour, in the order of a network processor's links.
pub const DIRECTIONS: [Direction; 2 * DIMENSIONS] = [
    Direction::Up(0),
    Direction::Down(0),
    Direction::Up(1),
    Direction::Down(1),
    Direction::Up(2),
    Direction::Down(2),
    Direction::Up(3),
    Direction::Down(3),
];

/// Position of a site's neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// In the same node: the index of the site.
    Inside(usize),
    /// In the next node of that direction: the position in the face that comes from there.
    Outside(usize),
}

/// A node's part of a lattice of four dimensions. Sites have indices; coordinate 0 counts fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lattice {
    extents: [u32; DIMENSIONS],
}

impl Lattice {
    /// A part with this number of sites in each dimension; `None` where one is 0 or there are more
    /// than [`MAX_SITES`].
    pub fn new(extents: [u32; DIMENSIONS]) -> Option<Self> {
        let sites = extents.iter().try_fold(1_u64, |all, &one| all.checked_mul(one.into()))?;
        (1..=MAX_SITES).contains(&sites).then_some(Self { extents })
    }

    /// Sites in each dimension.
    pub const fn extents(&self) -> [u32; DIMENSIONS] {
        self.extents
    }

    /// Returns the number of all sites.
    pub fn sites(&self) -> usize {
        self.extents.iter().map(|&extent| extent as usize).product()
    }

    /// Sites of each of the two faces of a dimension.
    pub fn face_sites(&self, dimension: usize) -> usize {
        self.sites() / self.extents[dimension] as usize
    }

    /// Coordinates of a site.
    pub fn coordinates(&self, site: usize) -> [u32; DIMENSIONS] {
        let mut left = site;
        self.extents.map(|extent| {
            let coordinate = left % extent as usize;
            left /= extent as usize;
            coordinate as u32
        })
    }

    /// Returns the index of the site at these coordinates.
    pub fn site(&self, coordinates: [u32; DIMENSIONS]) -> usize {
        let both = coordinates.iter().zip(self.extents).rev();
        both.fold(0, |site, (&coordinate, extent)| site * extent as usize + coordinate as usize)
    }

    /// Returns the position of a site in a face of that dimension: its index without that
    /// coordinate.
    fn place_in_face(&self, site: usize, dimension: usize) -> usize {
        let inner: usize =
            self.extents[..dimension].iter().map(|&extent| extent as usize).product();
        let outer = site / (inner * self.extents[dimension] as usize);
        outer * inner + site % inner
    }

    /// The sites of the face on that side, in the order in which they are sent there.
    pub fn face(&self, direction: Direction) -> impl Iterator<Item = usize> + use<> {
        let dimension = usize::from(direction.dimension());
        let inner: usize =
            self.extents[..dimension].iter().map(|&extent| extent as usize).product();
        let extent = self.extents[dimension] as usize;
        let first = match direction {
            Direction::Up(_) => (extent - 1) * inner,
            Direction::Down(_) => 0,
        };
        (0..self.face_sites(dimension))
            .map(move |place| place / inner * inner * extent + first + place % inner)
    }

    /// Returns the position of a site's neighbour.
    pub fn neighbour(&self, site: usize, direction: Direction) -> Neighbour {
        let dimension = usize::from(direction.dimension());
        let mut coordinates = self.coordinates(site);
        let (here, last) = (coordinates[dimension], self.extents[dimension] - 1);
        coordinates[dimension] = match direction {
            Direction::Up(_) if here < last => here + 1,
            Direction::Down(_) if here > 0 => here - 1,
            _ => return Neighbour::Outside(self.place_in_face(site, dimension)),
        };
        Neighbour::Inside(self.site(coordinates))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lattice() -> Lattice {
        Lattice::new([3, 2, 4, 5]).unwrap()
    }

    #[test]
    fn directions_are_in_the_order_of_links() {
        let links = DIRECTIONS.map(Direction::link);
        assert_eq!(links, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn sites_and_coordinates_are_the_same_thing() {
        let lattice = lattice();
        assert_eq!(lattice.sites(), 120);
        for site in 0..lattice.sites() {
            assert_eq!(lattice.site(lattice.coordinates(site)), site);
        }
        assert_eq!(lattice.coordinates(1), [1, 0, 0, 0]);
    }

    #[test]
    fn a_face_is_the_sites_at_the_edge_in_order() {
        let lattice = lattice();
        for direction in DIRECTIONS {
            let dimension = usize::from(direction.dimension());
            let edge = match direction {
                Direction::Up(_) => lattice.extents()[dimension] - 1,
                Direction::Down(_) => 0,
            };
            let expected: Vec<usize> = (0..lattice.sites())
                .filter(|&site| lattice.coordinates(site)[dimension] == edge)
                .collect();
            assert_eq!(lattice.face(direction).collect::<Vec<_>>(), expected);
            assert_eq!(expected.len(), lattice.face_sites(dimension));
        }
    }

    /// The neighbour up of a site at the upper edge is, in the next node, the site of that node's
    /// lower face that is sent down at the same place.
    #[test]
    fn neighbours_outside_are_where_the_other_node_sends_them() {
        let lattice = lattice();
        for direction in DIRECTIONS {
            let sent: Vec<usize> = lattice.face(direction.opposite()).collect();
            for site in 0..lattice.sites() {
                let mut wanted = lattice.coordinates(site);
                let dimension = usize::from(direction.dimension());
                let extent = lattice.extents()[dimension];
                let step = match direction {
                    Direction::Up(_) => 1,
                    Direction::Down(_) => extent - 1,
                };
                let here = &mut wanted[dimension];
                *here = (*here + step) % extent;
                let found = match lattice.neighbour(site, direction) {
                    Neighbour::Inside(other) => other,
                    Neighbour::Outside(place) => sent[place],
                };
                assert_eq!(lattice.coordinates(found), wanted);
            }
        }
    }

    #[test]
    fn parts_that_cannot_be() {
        assert_eq!(Lattice::new([1, 2, 0, 4]), None);
        assert_eq!(Lattice::new([1 << 31, 1 << 31, 1 << 31, 1 << 31]), None);
        assert!(Lattice::new([1, 1, 1, 1]).is_some());
    }
}
