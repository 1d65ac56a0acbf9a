// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sizes of tori and lattices, read from words.

use std::str::FromStr;

use super::lattice::Lattice;

/// Most nodes of a torus.
const MAX_NODES: u32 = 4096;

/// Sizes as `4x4x2x2`.
fn sizes_of<T: FromStr>(text: &str) -> Option<Vec<T>> {
    let sizes: Option<Vec<T>> = text.split('x').map(|size| size.parse().ok()).collect();
    sizes.filter(|sizes| (1..=4).contains(&sizes.len()))
}

/// Sizes of tori, smallest first; read from a number of nodes, a range whose powers of two are
/// taken, or sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tori(pub Vec<Vec<u16>>);

impl Tori {
    /// Returns up to four sizes with this product, as even as can be: the largest prime factors
    /// first, each to the smallest size.
    pub fn even(nodes: u32) -> Vec<u16> {
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
}

impl FromStr for Tori {
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
                Some(_) => Ok(Self(vec![sizes])),
                None => Err(wrong()),
            };
        }
        let Some((first, last)) = text.split_once("..") else {
            return Ok(Self(vec![Self::even(count(text).ok_or_else(wrong)?)]));
        };
        let (first, last) = (count(first).ok_or_else(wrong)?, count(last).ok_or_else(wrong)?);
        let powers = (1..).map(|power| 1_u32 << power).take_while(|&nodes| nodes <= last);
        let tori: Vec<Vec<u16>> = powers.filter(|&nodes| nodes >= first).map(Self::even).collect();
        if tori.is_empty() { Err(wrong()) } else { Ok(Self(tori)) }
    }
}

impl FromStr for Lattice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let extents = sizes_of::<u32>(text).and_then(|sizes| <[u32; 4]>::try_from(sizes).ok());
        extents.and_then(Self::new).ok_or_else(|| {
            format!(
                "{text} is no part of a lattice; write its sites in four dimensions, as 4x4x4x4"
            )
        })
    }
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
            assert_eq!(Tori::even(nodes), expected, "{nodes}");
        }
    }

    #[test]
    fn nodes_are_a_number_a_range_or_sizes() {
        let tori = |text: &str| text.parse::<Tori>().map(|word| word.0);
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
        assert_eq!("4x3x2x1".parse::<Lattice>().unwrap().sites(), 24);
        assert!("4x4x4".parse::<Lattice>().is_err());
        assert!("4x4x4x0".parse::<Lattice>().is_err());
    }
}
