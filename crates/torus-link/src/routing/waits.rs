// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dependencies between the receive buffers of routed datagrams in a whole torus. Without a cycle
//! of buffers that wait for each other, routed datagrams cannot block each other for ever (Dally
//! and Seitz 1987).

use super::{Dimension, Direction, ROUTED, ROUTED_BEHIND_EDGE, Torus, direction, link};
use crate::frame::Channel;

/// The buffer of one channel at the far end of a cable. It holds datagrams that have left `node` by
/// `link`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Buffer {
    /// Node before the cable.
    pub node: u16,
    /// Link of that node.
    pub link: u8,
    /// Channel of routed datagrams, 6 or 7.
    pub channel: Channel,
}

/// Product of links and channels of routed datagrams.
const BUFFERS_PER_NODE: usize = 16;

impl Buffer {
    const fn number(self) -> usize {
        let behind_edge = (self.channel.number() == ROUTED_BEHIND_EDGE.number()) as usize;
        self.node as usize * BUFFERS_PER_NODE + self.link as usize * 2 + behind_edge
    }

    const fn of_number(number: usize) -> Self {
        let behind_edge = !number.is_multiple_of(2);
        let channel = if behind_edge { ROUTED_BEHIND_EDGE } else { ROUTED };
        let link = (number / 2 % 8) as u8;
        Self { node: (number / BUFFERS_PER_NODE) as u16, link, channel }
    }
}

/// A hop within one dimension, numbered along its direction: from `at` to `at + 1`, with the ring's
/// edge behind the last.
#[derive(Clone, Copy)]
struct RingHop {
    dimension: Dimension,
    direction: Direction,
    at: u32,
    is_behind_edge: bool,
}

impl RingHop {
    /// A hop from `position`.
    const fn new(
        dimension: Dimension,
        direction: Direction,
        position: u16,
        channel: Channel,
    ) -> Self {
        let at = match direction {
            Direction::Up => position,
            Direction::Down => dimension.size - 1 - position,
        };
        let is_behind_edge = channel.number() == ROUTED_BEHIND_EDGE.number();
        Self { dimension, direction, at: at as u32, is_behind_edge }
    }

    /// Hops of the shortest route that ends with this one, from the earliest possible start.
    const fn shortest(self) -> Option<u32> {
        let is_over_edge = self.at + 1 == self.dimension.size as u32;
        match (self.is_behind_edge, is_over_edge) {
            (false, false) | (true, true) => Some(1),
            (false, true) => None,
            // The route begins at the last position.
            (true, false) => Some(self.at + 2),
        }
    }

    /// Whether any route uses this hop.
    const fn is_used(self) -> bool {
        match self.shortest() {
            Some(hops) => {
                hops <= self.dimension.longest(self.direction) as u32
                    && (self.dimension.wraps || !self.is_behind_edge)
            }
            None => false,
        }
    }

    /// Whether a route can begin with this hop.
    const fn is_first(self) -> bool {
        self.is_used() && matches!(self.shortest(), Some(1))
    }

    /// Channel of the next hop in the same dimension, if a route continues there.
    const fn next(self) -> Option<Channel> {
        let Some(hops) = self.shortest() else { return None };
        if hops >= self.dimension.longest(self.direction) as u32 {
            return None;
        }
        let is_over_edge = self.at + 2 == self.dimension.size as u32;
        if self.is_behind_edge {
            Some(ROUTED_BEHIND_EDGE)
        } else if !is_over_edge {
            Some(ROUTED)
        } else if self.dimension.wraps {
            Some(ROUTED_BEHIND_EDGE)
        } else {
            None
        }
    }
}

/// The dependency graph of a torus.
#[derive(Clone, Copy, Debug)]
pub struct Waits<'a> {
    torus: &'a Torus,
}

impl<'a> Waits<'a> {
    /// Creates the graph of `torus`.
    pub const fn of(torus: &'a Torus) -> Self {
        Self { torus }
    }

    /// All buffers that routed datagrams use.
    pub fn buffers(self) -> impl Iterator<Item = Buffer> + 'a {
        let all = 0..self.torus.nodes() as usize * BUFFERS_PER_NODE;
        all.map(Buffer::of_number).filter(move |buffer| self.is_used(*buffer))
    }

    fn hop(self, buffer: Buffer) -> Option<RingHop> {
        let (number, direction) = direction(buffer.link);
        let dimension = *self.torus.dimensions().get(number)?;
        let position = self.torus.position(buffer.node)[number];
        Some(RingHop::new(dimension, direction, position, buffer.channel))
    }

    fn is_used(self, buffer: Buffer) -> bool {
        self.hop(buffer).is_some_and(RingHop::is_used)
    }

    /// The buffers that datagrams in `buffer` may wait for. Routes in different dimensions are
    /// independent of each other, so some pair of nodes uses every turn that dimension order
    /// allows.
    pub fn waits_for(self, buffer: Buffer) -> impl Iterator<Item = Buffer> + 'a {
        let here = self.torus.neighbour(buffer.node, buffer.link).map(|there| there.0);
        let hop = self.hop(buffer).filter(|hop| hop.is_used());
        let ahead = hop.and_then(RingHop::next).zip(here);
        let ahead = ahead.map(|(channel, node)| Buffer { node, link: buffer.link, channel });
        let (number, _) = direction(buffer.link);
        let further = number + 1..self.torus.dimensions().len();
        let turns = here.filter(|_| hop.is_some()).into_iter().flat_map(move |node| {
            further.clone().flat_map(move |number| {
                [Direction::Up, Direction::Down].into_iter().flat_map(move |direction| {
                    [ROUTED, ROUTED_BEHIND_EDGE].map(|channel| Buffer {
                        node,
                        link: link(number, direction),
                        channel,
                    })
                })
            })
        });
        let turns = turns.filter(move |turn| self.hop(*turn).is_some_and(RingHop::is_first));
        ahead.into_iter().chain(turns)
    }

    /// Finds a cycle of buffers that wait for each other; `None` for every torus.
    pub fn cycle(self) -> Option<Vec<Buffer>> {
        let count = self.torus.nodes() as usize * BUFFERS_PER_NODE;
        let cycle = find_cycle(count, |number| {
            self.waits_for(Buffer::of_number(number)).map(Buffer::number).collect()
        });
        cycle.map(|cycle| cycle.into_iter().map(Buffer::of_number).collect())
    }
}

/// Finds a cycle of a graph with `count` vertices by depth-first search.
fn find_cycle(count: usize, next: impl Fn(usize) -> Vec<usize>) -> Option<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        OnPath,
        Done,
    }
    let mut marks = vec![Mark::New; count];
    for root in 0..count {
        if marks[root] != Mark::New {
            continue;
        }
        marks[root] = Mark::OnPath;
        let mut path = vec![(root, next(root))];
        while let Some((vertex, left)) = path.last_mut() {
            let Some(successor) = left.pop() else {
                marks[*vertex] = Mark::Done;
                path.pop();
                continue;
            };
            match marks[successor] {
                Mark::Done => {}
                Mark::New => {
                    marks[successor] = Mark::OnPath;
                    path.push((successor, next(successor)));
                }
                Mark::OnPath => {
                    let path = path.iter().map(|step| step.0);
                    return Some(path.skip_while(|vertex| *vertex != successor).collect());
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_found() {
        let ring = |count: usize| find_cycle(count, |vertex| vec![(vertex + 1) % count]);
        assert_eq!(ring(5), Some(vec![0, 1, 2, 3, 4]));
        assert_eq!(ring(1), Some(vec![0]));
        assert_eq!(find_cycle(5, |vertex| (vertex + 1..5).collect()), None);
        let tail = find_cycle(4, |vertex| vec![[1, 2, 3, 2][vertex]]);
        assert_eq!(tail, Some(vec![2, 3]));
    }

    #[test]
    fn buffers_have_numbers() {
        for number in 0..64 {
            assert_eq!(Buffer::of_number(number).number(), number);
        }
    }
}
