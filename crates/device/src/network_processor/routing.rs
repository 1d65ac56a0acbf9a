// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nodes of a torus, their neighbours, and the way between any two.

/// A dimension of a torus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Nodes in it, at least 1.
    pub size: u32,
    /// Whether no cable joins its ends.
    pub is_open: bool,
}

/// A torus: nodes are numbered with the first dimension counting fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torus(Vec<Dimension>);

/// Where a routed datagram goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Number of the link.
    pub link: u8,
    /// Channel there.
    pub channel: u8,
}

/// A cable: at each end the number of the node and that of its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    /// The end whose link leads up.
    pub lower: (u32, u8),
    /// The end whose link leads down.
    pub upper: (u32, u8),
}

impl Torus {
    /// A torus of these dimensions.
    ///
    /// # Errors
    /// More than four dimensions, or more nodes than have numbers.
    pub fn of(dimensions: &[Dimension]) -> Result<Self, String> {
        let nodes: u64 = dimensions.iter().map(|dimension| u64::from(dimension.size)).product();
        if dimensions.is_empty() || dimensions.len() > 4 || nodes == 0 || nodes > 1 << 16 {
            return Err(format!("{} dimensions with {nodes} nodes", dimensions.len()));
        }
        Ok(Self(dimensions.to_vec()))
    }

    /// How many nodes it has.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.0.iter().map(|dimension| dimension.size).product()
    }

    /// Its dimensions.
    #[must_use]
    pub fn dimensions(&self) -> &[Dimension] {
        &self.0
    }

    /// The number of the node at these coordinates.
    #[must_use]
    pub fn node_at(&self, position: &[u32]) -> u32 {
        let from_last = self.0.iter().zip(position).rev();
        from_last.fold(0, |node, (dimension, place)| node * dimension.size + place)
    }

    /// The coordinates of a node.
    #[must_use]
    pub fn position(&self, node: u32) -> Vec<u32> {
        let mut left = node;
        let place = |dimension: &Dimension| {
            let place = left % dimension.size;
            left /= dimension.size;
            place
        };
        self.0.iter().map(place).collect()
    }

    /// The next hop on the way from one node to another; `None` from a node to itself.
    #[must_use]
    pub fn next_hop(&self, at: u32, to: u32) -> Option<Hop> {
        let (at, to) = (self.position(at), self.position(to));
        let number = (0..self.0.len()).find(|number| at[*number] != to[*number])?;
        let Dimension { size, is_open } = self.0[number];
        let up = (to[number] + size - at[number]) % size;
        let goes_up = if is_open { at[number] < to[number] } else { 2 * up <= size };
        Some(Hop { link: 2 * number as u8 + u8::from(!goes_up), channel: 6 })
    }

    /// All cables.
    #[must_use]
    pub fn cables(&self) -> Vec<Cable> {
        let mut cables = Vec::new();
        for node in 0..self.nodes() {
            let position = self.position(node);
            for (number, Dimension { size, is_open }) in self.0.iter().enumerate() {
                let place = position[number];
                if *size < 2 || *is_open && place + 1 == *size {
                    continue;
                }
                let mut above = position.clone();
                above[number] = (place + 1) % size;
                let (up, down) = (2 * number as u8, 2 * number as u8 + 1);
                let upper = (self.node_at(&above), down);
                cables.push(Cable { lower: (node, up), upper });
            }
        }
        cables
    }
}
