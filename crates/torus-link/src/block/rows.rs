// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way out: training sets, skip rows, idle blocks and frames as rows of blocks.
//!
//! Read first: `docs/torus-link.md`, *64b/66b*.

use super::{
    BLOCK_BYTES, Block, Content, IDLE_BYTE, SET_ROWS, SKIP_BYTE, SKIP_INTERVAL_ROWS, Scrambler,
    blocks,
};
use crate::frame::Frame;
use crate::lanes::{MAX_LANES, TrainingSet};
use std::collections::VecDeque;

/// A row as it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentRow {
    /// Line bits of each lane, lane 0 first; those of lanes that the port lacks say nothing.
    pub blocks: [Block; MAX_LANES],
    /// The training set that ends with this row.
    pub ended: Option<TrainingSet>,
}

/// State of a port's way out, from its first row on.
#[derive(Clone, Debug)]
pub struct Rows {
    lanes: usize,
    scramblers: [Scrambler; MAX_LANES],
    /// Rows since the last skip row began, or since the first row.
    since_skip: u32,
    /// The training set that is being sent, and the number of its next row.
    set: Option<(TrainingSet, usize)>,
    /// Blocks that are left of the frame that is being sent.
    frame: VecDeque<Content>,
    /// Whether an idle row comes before the next frame.
    leads: bool,
}

impl Rows {
    /// Creates the way out of a port that has sent nothing yet.
    pub const fn new(lanes: usize) -> Self {
        Self {
            lanes,
            scramblers: [Scrambler::new(u64::MAX); MAX_LANES],
            since_skip: 0,
            set: None,
            frame: VecDeque::new(),
            leads: false,
        }
    }

    /// Returns the row to send. `training` is the set to begin while the link is not up; sets and
    /// frames that have begun are finished first. `next_frame` is asked with a block's lane where a
    /// frame may begin.
    pub fn next(
        &mut self,
        training: Option<TrainingSet>,
        next_frame: impl FnMut(usize) -> Option<Frame>,
    ) -> SentRow {
        let is_end = self.set.is_none() && self.frame.is_empty();
        let skips = is_end && self.since_skip >= SKIP_INTERVAL_ROWS;
        if is_end
            && !skips
            && let Some(set) = training
        {
            self.set = Some((set, 0));
            self.leads = true;
        }
        let mut ended = None;
        let row = if skips {
            self.since_skip = 0;
            [Content::filler(SKIP_BYTE); MAX_LANES]
        } else if let Some((set, at)) = self.set {
            self.set = (at + 1 < SET_ROWS).then_some((set, at + 1));
            ended = self.set.is_none().then_some(set);
            std::array::from_fn(|lane| set_block(&set, lane, at))
        } else if is_end && std::mem::take(&mut self.leads) {
            [Content::filler(IDLE_BYTE); MAX_LANES]
        } else {
            self.frames(training.is_none(), next_frame)
        };
        self.since_skip = self.since_skip.saturating_add(1);
        let mut blocks = [Block::from_bits(0); MAX_LANES];
        for (lane, block) in blocks[..self.lanes].iter_mut().enumerate() {
            *block = self.scramblers[lane].encode(row[lane]);
        }
        SentRow { blocks, ended }
    }

    /// A row of frames one behind the other, and idle blocks where none begins: behind the end of a
    /// frame none does if a skip row is due at the next one, or training.
    fn frames(
        &mut self,
        is_up: bool,
        mut next_frame: impl FnMut(usize) -> Option<Frame>,
    ) -> [Content; MAX_LANES] {
        let mut row = [Content::filler(IDLE_BYTE); MAX_LANES];
        for (lane, content) in row[..self.lanes].iter_mut().enumerate() {
            let fills = lane > 0 && self.since_skip + 1 >= SKIP_INTERVAL_ROWS;
            if self.frame.is_empty()
                && is_up
                && !fills
                && let Some(frame) = next_frame(lane)
            {
                self.frame.extend(blocks(&frame.encode()));
            }
            if let Some(block) = self.frame.pop_front() {
                *content = block;
            }
        }
        row
    }
}

/// Block `at` of a lane's training set.
fn set_block(set: &TrainingSet, lane: usize, at: usize) -> Content {
    let mut bytes = [0; BLOCK_BYTES];
    if let Some(half) = set.encode(lane as u8).chunks_exact(BLOCK_BYTES).nth(at) {
        bytes.copy_from_slice(half);
    }
    if at == 0 { Content::Control(bytes) } else { Content::Data(bytes) }
}
