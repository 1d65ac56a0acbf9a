// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of every byte that a channel moves or must not move.

use std::ops::Range;

use crosslane_driver::{ChannelKind, CompletionLevel};
use crosslane_host::Bus;
use crosslane_pcie::units::Picoseconds;

use crate::check::{Check, check};
use crate::endings::Outcome;
use crate::fault::{Engines, Fault};
use crate::line::{Line, TRIES};
use crate::scene::us;
use crate::stream::{self, Word};

/// Bound on the words of a stream: no seed moves that many, and a garbled word mostly decodes
/// beyond.
const LONGEST_STREAM: u32 = 1 << 26;

impl Line {
    /// Checks every byte of the buffer.
    pub async fn verify(&mut self, parts: &[Range<u64>], outcomes: &[Outcome], lossy: bool) {
        match self.key.0 {
            ChannelKind::C2h => self.verify_written(parts, outcomes, lossy),
            ChannelKind::H2c => self.verify_read(parts, outcomes).await,
            ChannelKind::Peer => {}
        }
    }

    async fn verify_read(&mut self, parts: &[Range<u64>], outcomes: &[Outcome]) {
        let mut delivered = 0;
        let mut is_known = true;
        for (part, outcome) in parts.iter().zip(outcomes) {
            match outcome {
                Outcome::Whole => delivered += part.end - part.start,
                Outcome::Moved(bytes) => delivered += bytes,
                Outcome::Unknown => is_known = false,
            }
        }
        if !self.checked {
            // Nothing is read twice: a gap in the stream shows as a jump.
            self.position +=
                parts.iter().map(|part| (part.end - part.start) as u32 / 4).sum::<u32>();
            return;
        }
        let is_whole = self.exact && is_known;
        self.position += (delivered / 4) as u32;
        self.exact = is_whole;
        let user = self.device.user();
        for _ in 0..TRIES {
            match user.h2c_check_result().await {
                Ok(found) => {
                    let is_right = !self.exact || found.errors == 0;
                    check!(Check::Data, is_right, "{}: {found:?}", self.name());
                    self.words += delivered / 4;
                    break;
                }
                Err(_) if self.is_over() => return,
                Err(error) => self.expect(&error),
            }
            self.world.sleep(us(300)).await;
        }
        if !self.exact {
            self.wait_for_checker().await;
        }
        while !self.exact && !self.is_over() {
            match user.check_h2c(self.seed).await {
                Ok(()) => (self.position, self.exact) = (0, self.is_checking().await),
                Err(_) if self.is_over() => return,
                Err(error) => {
                    self.expect(&error);
                    self.world.sleep(us(300)).await;
                }
            }
        }
    }

    /// Waits until the checker has compared all that has come. A transfer is complete when its data
    /// are in the staging memory, and the gateware's checker takes them from there, beat by beat.
    pub async fn wait_for_checker(&self) {
        let engine = &self.world.engines[self.own.trailing_zeros() as usize];
        self.world.sleep(engine.compares_within).await;
    }

    /// Whether the checker has restarted: stores over a link that is down are lost.
    async fn is_checking(&self) -> bool {
        let begun = self.world.bus.now();
        let read = self.device.user().h2c_check_result().await;
        if read.is_err() || self.world.has(self.own, begun, Fault::loses_writes) {
            self.world.sleep(us(300)).await;
            return false;
        }
        read.is_ok_and(|check| check.errors == 0)
    }

    /// Returns the parts of a dropped channel that the driver allows to be written again, since no
    /// device writes them any more.
    pub fn take_back(&self, parts: &[Range<u64>]) -> Vec<Range<u64>> {
        let Some(buffer) = self.buffer.as_ref().filter(|_| self.key.0 == ChannelKind::C2h) else {
            return Vec::new();
        };
        let is_free = |part: &&Range<u64>| {
            buffer.write(part.start, &stream::guard(self.seed, part.end - part.start)).is_ok()
        };
        parts.iter().filter(is_free).cloned().collect()
    }

    /// Checks that these parts were not written since.
    pub fn check_free(&self, parts: &[Range<u64>]) {
        let Some(buffer) = &self.buffer else { return };
        for part in parts {
            let mut bytes = vec![0; (part.end - part.start) as usize];
            if buffer.read(part.start, &mut bytes).is_ok() {
                self.all_guards(&bytes, 0..part.end - part.start);
            }
        }
    }

    /// Checks that complete and visible data are all there, whatever a link has lost meanwhile.
    pub fn verify_visible(
        &self,
        parts: &[Range<u64>],
        outcomes: &[Outcome],
        levels: &[CompletionLevel],
    ) {
        if self.key.0 != ChannelKind::C2h {
            return;
        }
        let buffer = self.buffer.as_ref().expect("C2H has a buffer");
        for ((part, outcome), level) in parts.iter().zip(outcomes).zip(levels) {
            if *outcome != Outcome::Whole || *level != CompletionLevel::Visible {
                continue;
            }
            let mut bytes = vec![0; (part.end - part.start) as usize];
            buffer.read(part.start, &mut bytes).expect("nothing is in flight");
            let hole = stream::places(self.seed, &bytes).position(|word| word == Word::Guard);
            check!(
                Check::Whole,
                hole.is_none(),
                "{}: {part:?} is complete and visible, and word {hole:?} is not there",
                self.name()
            );
        }
    }

    fn verify_written(&mut self, parts: &[Range<u64>], outcomes: &[Outcome], lossy: bool) {
        let buffer = self.buffer.clone().expect("C2H has a buffer");
        let mut bytes = vec![0; self.buffer_bytes as usize];
        buffer.read(0, &mut bytes).expect("nothing is in flight");
        let mut end = 0;
        for (part, outcome) in parts.iter().zip(outcomes) {
            self.all_guards(&bytes, end..part.start);
            end = part.end;
            let part = &bytes[part.start as usize..part.end as usize];
            let words: Vec<Word> = stream::places(self.seed, part).collect();
            self.verify_words(&words, *outcome, lossy);
        }
        self.all_guards(&bytes, end..self.buffer_bytes);
        for part in parts {
            let clean = stream::guard(self.seed, part.end - part.start);
            buffer.write(part.start, &clean).expect("nothing is in flight");
        }
    }

    /// Checks that a gap holds only its guards.
    fn all_guards(&self, bytes: &[u8], gap: Range<u64>) {
        let words = || stream::places(self.seed, &bytes[gap.start as usize..gap.end as usize]);
        // Without a jump the words are compared many at once.
        let are_guards = words().fold(true, |all, word| all & (word == Word::Guard));
        check!(
            Check::Data,
            are_guards,
            "{}: written beside a transfer, in {gap:?}: word {:?}",
            self.name(),
            words().position(|word| word != Word::Guard)
        );
    }

    /// Whether words from a peer may have overtaken others: while requests went astray they took
    /// the path through the root complex, and afterwards the next ones went by the switch.
    fn may_have_overtaken(&self) -> bool {
        self.depends
            && self.world.has(Engines::MAX, Picoseconds::ZERO, |fault| fault == Fault::Astray)
    }

    fn verify_words(&mut self, words: &[Word], outcome: Outcome, lossy: bool) {
        let name = self.name();
        let written = words.iter().rposition(|word| *word != Word::Guard).map_or(0, |n| n + 1);
        if !lossy {
            let bytes = written as u64 * 4;
            let said = match outcome {
                Outcome::Whole => words.len() as u64 * 4,
                Outcome::Moved(bytes) => bytes,
                Outcome::Unknown => bytes,
            };
            check!(Check::Whole, bytes == said, "{name}: {bytes} B are there, {said} B were said");
        }
        self.note(|| stream::runs(words));
        for word in &words[..written] {
            let Word::At(place) = *word else {
                check!(Check::Whole, lossy, "{name}: a hole in what was written");
                continue;
            };
            self.words += 1;
            let next = self.position;
            if place != next {
                let in_order = place > next || self.may_have_overtaken();
                check!(Check::Data, in_order, "{name}: word {place} after {next}");
                let is_of_it = place < LONGEST_STREAM;
                check!(Check::Data, is_of_it, "{name}: word {place} is of no stream");
                let may_jump = self.depends || lossy || !self.exact;
                check!(Check::Data, may_jump, "{name}: word {place} where {next} was to be");
            }
            self.position = next.max(place + 1);
        }
        if outcome == Outcome::Unknown || lossy {
            self.exact = false;
        } else if written > 0 {
            self.exact = true;
        }
    }
}
