// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages in progress, each sent as one piece or several in sequence.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use crosslane_driver::Buffer;
use crosslane_driver::network_processor::{Ended, InFlight, Key};
use crosslane_pcie::units::Picoseconds;

use crate::blocks::Blocks;
use crate::error::Result;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MessageDirection {
    Sent,
    Received,
}

/// Properties common to all pieces of a message.
pub(crate) struct Whole {
    pub direction: MessageDirection,
    pub key: Key,
    pub buffer: Buffer,
    pub blocks: Blocks,
    pub deadline: Picoseconds,
    /// Length of the longest piece.
    pub piece_bytes: u64,
}

impl Whole {
    /// Returns the piece that begins at an offset of the message.
    pub fn piece(&self, from: u64) -> Range<u64> {
        from..self.blocks.bytes().min(from.saturating_add(self.piece_bytes))
    }
}

/// Message in progress or ended.
pub(crate) struct Operation {
    pub whole: Arc<Whole>,
    /// Piece of the message that the device has, or had last.
    piece: Range<u64>,
    /// `None` while the next piece is being posted.
    current: Option<Arc<InFlight>>,
    moved_bytes: u64,
    posted: Picoseconds,
    result: Option<Result<Ended>>,
    is_abandoned: bool,
}

/// Next step after the end of a piece.
pub(crate) enum Next {
    /// The message has ended.
    Nothing,
    /// The next piece must be posted.
    Post(Range<u64>),
}

/// Messages of a node.
#[derive(Default)]
pub(crate) struct Operations {
    by_id: BTreeMap<u64, Operation>,
    keys: HashSet<(MessageDirection, Key)>,
    next_id: u64,
}

impl Operations {
    /// Reserves a key. Returns false if a message in progress has it.
    pub fn take_key(&mut self, direction: MessageDirection, key: Key) -> bool {
        self.keys.insert((direction, key))
    }

    pub fn give_key_back(&mut self, direction: MessageDirection, key: Key) {
        self.keys.remove(&(direction, key));
    }

    /// Adds a message whose key is reserved and whose first piece is posted.
    pub fn begin(&mut self, whole: Arc<Whole>, first: InFlight, now: Picoseconds) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let piece = whole.piece(0);
        let operation = Operation {
            whole,
            piece,
            current: Some(Arc::new(first)),
            moved_bytes: 0,
            posted: now,
            result: None,
            is_abandoned: false,
        };
        self.by_id.insert(id, operation);
        id
    }

    pub fn whole(&self, id: u64) -> Option<Arc<Whole>> {
        self.by_id.get(&id).map(|operation| Arc::clone(&operation.whole))
    }

    pub fn result(&self, id: u64) -> Option<Result<Ended>> {
        self.by_id.get(&id)?.result.clone()
    }

    /// Returns the piece that the device has.
    pub fn current(&self, id: u64) -> Option<Arc<InFlight>> {
        self.by_id.get(&id)?.current.clone()
    }

    /// Returns the messages with further pieces after the current one.
    pub fn long(&self) -> Vec<u64> {
        let long = |operation: &Operation| {
            operation.result.is_none() && operation.piece.end < operation.whole.blocks.bytes()
        };
        self.by_id.iter().filter(|(_, operation)| long(operation)).map(|(&id, _)| id).collect()
    }

    /// Records the end of a piece. Returns `None` if another task has already recorded it.
    pub fn piece_ended(
        &mut self,
        id: u64,
        piece: &Arc<InFlight>,
        ended: Result<Ended>,
    ) -> Option<Next> {
        let operation = self.by_id.get_mut(&id)?;
        if !operation.current.as_ref().is_some_and(|current| Arc::ptr_eq(current, piece)) {
            return None;
        }
        operation.current = None;
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => {
                self.end(id, Err(error));
                return Some(Next::Nothing);
            }
        };
        operation.moved_bytes += ended.bytes;
        let is_whole = ended.bytes == operation.piece.end - operation.piece.start;
        if is_whole && operation.piece.end < operation.whole.blocks.bytes() {
            operation.piece = operation.whole.piece(operation.piece.end);
            return Some(Next::Post(operation.piece.clone()));
        }
        let (bytes, posted) = (operation.moved_bytes, operation.posted);
        self.end(id, Ok(Ended { bytes, posted, ended: ended.ended }));
        Some(Next::Nothing)
    }

    /// Records that the next piece has been posted.
    pub fn posted(&mut self, id: u64, piece: InFlight) {
        if let Some(operation) = self.by_id.get_mut(&id) {
            operation.current = Some(Arc::new(piece));
        }
    }

    pub fn end(&mut self, id: u64, result: Result<Ended>) {
        let Some(operation) = self.by_id.get_mut(&id) else { return };
        if operation.result.is_some() {
            return;
        }
        let (direction, key) = (operation.whole.direction, operation.whole.key);
        operation.result = Some(result);
        operation.current = None;
        if operation.is_abandoned {
            self.by_id.remove(&id);
        }
        self.keys.remove(&(direction, key));
    }

    /// Abandons a message: one being sent continues, room to receive is taken back.
    pub fn abandon(&mut self, id: u64) {
        let Some(operation) = self.by_id.get_mut(&id) else { return };
        let is_long = operation.piece.end < operation.whole.blocks.bytes();
        if operation.result.is_none()
            && operation.whole.direction == MessageDirection::Sent
            && is_long
        {
            operation.is_abandoned = true;
            return;
        }
        // The driver lets the device's current piece continue, or takes it back.
        let (direction, key) = (operation.whole.direction, operation.whole.key);
        let has_ended = operation.result.is_some();
        self.by_id.remove(&id);
        if !has_ended {
            self.keys.remove(&(direction, key));
        }
    }
}
