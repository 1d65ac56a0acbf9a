// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random numbers by seed, by a generator whose stream is fixed: the same seed gives the same
//! numbers in every version and on every machine. Traces, torture seeds and figures stand on it,
//! so nothing that a method of [`Random`] draws or returns may ever change; the tests hold it to
//! fixed values.
//!
//! The generator is wyrand, with the constants of wyhash final version 4.2 (Wang Yi, in the public
//! domain, <https://github.com/wangyi-fudan/wyhash>): an additive counter of 64 bits, of which each
//! state is multiplied by itself with some bits flipped and both halves of the product are folded
//! into one. Numbers below a bound are drawn by multiplication, without bias (Daniel Lemire, *Fast
//! Random Integer Generation in an Interval*, ACM Transactions on Modeling and Computer Simulation
//! 29(1), 2019). It is fast and passes the usual statistical tests; it keeps no secrets.

use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};

/// Increment of wyrand's state for each number, the first constant of wyhash 4.2.
const INCREMENT: u64 = 0x2d35_8dcc_aa6c_78a5;
/// The bits of the state that wyrand flips in one factor, the second constant of wyhash 4.2.
const FLIPPED_BITS: u64 = 0x8bb8_4b93_962e_acc9;

/// A generator of random numbers with a fixed stream.
///
/// Each method says how many numbers of the stream it takes.
///
/// ```
/// use crosslane_random::Random;
///
/// let mut random = Random::with_seed(7);
/// let die = random.u8(1..=6);
/// assert!((1..=6).contains(&die));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator at the beginning of the stream of `seed`.
    #[inline]
    pub const fn with_seed(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A second generator, whose seed is this one's next number.
    #[inline]
    pub fn fork(&mut self) -> Self {
        Self::with_seed(self.next())
    }

    /// The next 64 bits of the stream.
    #[inline]
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(INCREMENT);
        let product = u128::from(self.state) * u128::from(self.state ^ FLIPPED_BITS);
        (product >> 64) as u64 ^ product as u64
    }

    /// The lower half of the next number.
    #[inline]
    fn next_half(&mut self) -> u32 {
        self.next() as u32
    }

    /// A number below `bound`, of the lower half of one number, and of another as often as that one
    /// lies where the results would not be equally likely.
    #[inline]
    fn half_below(&mut self, bound: u32) -> u32 {
        loop {
            let product = u64::from(self.next_half()) * u64::from(bound);
            let (result, rest) = ((product >> 32) as u32, product as u32);
            // The second comparison alone decides; the first nearly always spares its division.
            if rest >= bound || rest >= bound.wrapping_neg() % bound {
                return result;
            }
        }
    }

    /// A number below `bound`, as [`Self::half_below`] draws it, but of whole numbers.
    #[inline]
    fn below(&mut self, bound: u64) -> u64 {
        loop {
            let product = u128::from(self.next()) * u128::from(bound);
            let (result, rest) = ((product >> 64) as u64, product as u64);
            if rest >= bound || rest >= bound.wrapping_neg() % bound {
                return result;
            }
        }
    }

    /// A number of `range`, in which all are equally likely, by half numbers.
    ///
    /// # Panics
    ///
    /// If the range is empty, as all methods that take one.
    #[inline]
    pub fn u8(&mut self, range: impl RangeBounds<u8>) -> u8 {
        match ends(&range, u8::MIN, u8::MAX) {
            (u8::MIN, u8::MAX) => self.next_half() as u8,
            (first, last) => first + self.half_below(u32::from(last - first) + 1) as u8,
        }
    }

    /// A number of `range`, in which all are equally likely, by half numbers.
    #[inline]
    pub fn u16(&mut self, range: impl RangeBounds<u16>) -> u16 {
        match ends(&range, u16::MIN, u16::MAX) {
            (u16::MIN, u16::MAX) => self.next_half() as u16,
            (first, last) => first + self.half_below(u32::from(last - first) + 1) as u16,
        }
    }

    /// A number of `range`, in which all are equally likely, by half numbers.
    #[inline]
    pub fn u32(&mut self, range: impl RangeBounds<u32>) -> u32 {
        match ends(&range, u32::MIN, u32::MAX) {
            (u32::MIN, u32::MAX) => self.next_half(),
            (first, last) => first + self.half_below(last - first + 1),
        }
    }

    /// A number of `range`, in which all are equally likely, by whole numbers.
    #[inline]
    pub fn u64(&mut self, range: impl RangeBounds<u64>) -> u64 {
        match ends(&range, u64::MIN, u64::MAX) {
            (u64::MIN, u64::MAX) => self.next(),
            (first, last) => first + self.below(last - first + 1),
        }
    }

    /// A number of `range`, in which all are equally likely, by whole numbers, however wide an
    /// index is on this machine.
    #[inline]
    pub fn usize(&mut self, range: impl RangeBounds<usize>) -> usize {
        match ends(&range, usize::MIN, usize::MAX) {
            (usize::MIN, usize::MAX) => self.next() as usize,
            (first, last) => first + self.below((last - first) as u64 + 1) as usize,
        }
    }

    /// `true` or `false` with equal chances, of one number.
    #[inline]
    pub fn bool(&mut self) -> bool {
        self.next() & 1 == 0
    }

    /// Trials that fail before the next one that succeeds, each by itself with `probability`, as a
    /// bit arrives wrong (the geometric distribution): of one [`Self::f64`].
    ///
    /// At most [`u64::MAX`], which a `probability` of 0 gives; 1 gives 0.
    #[inline]
    pub fn geometric(&mut self, probability: f64) -> u64 {
        ((1.0 - self.f64()).ln() / (-probability).ln_1p()) as u64
    }

    /// A number from 0 up to but without 1, in steps of 2^-63 at most, of one number and, once in
    /// 2^54 times, of another.
    #[inline]
    pub fn f64(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1_u64 << 63) as f64;
        loop {
            // A number close to 1 is rounded to it.
            let value = (self.next() >> 1) as f64 * STEP;
            if value < 1.0 {
                return value;
            }
        }
    }

    /// Fills `bytes`, of one number for each eight and one for the rest, lowest byte first.
    #[inline]
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(size_of::<u64>()) {
            part.copy_from_slice(&self.next().to_le_bytes()[..part.len()]);
        }
    }

    /// Brings `items` into a random order, of one index for each item but the first.
    #[inline]
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in 1..items.len() {
            items.swap(index, self.usize(..=index));
        }
    }
}

/// An integer that has neighbours: one more and one less than it, where there is one.
trait Neighbours: Copy + Ord + Debug {
    fn next(self) -> Option<Self>;
    fn previous(self) -> Option<Self>;
}

macro_rules! neighbours {
    ($($integer:ty)*) => {
        $(impl Neighbours for $integer {
            #[inline]
            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }

            #[inline]
            fn previous(self) -> Option<Self> {
                self.checked_sub(1)
            }
        })*
    };
}
neighbours!(u8 u16 u32 u64 usize);

/// The first and the last number of `range`, of a type from `min` to `max`.
#[inline]
fn ends<N: Neighbours>(range: &impl RangeBounds<N>, min: N, max: N) -> (N, N) {
    let first = match range.start_bound() {
        Bound::Unbounded => Some(min),
        Bound::Included(&first) => Some(first),
        Bound::Excluded(&before) => before.next(),
    };
    let last = match range.end_bound() {
        Bound::Unbounded => Some(max),
        Bound::Included(&last) => Some(last),
        Bound::Excluded(&behind) => behind.previous(),
    };
    match (first, last) {
        (Some(first), Some(last)) if first <= last => (first, last),
        _ => panic!("no number in the range {:?}, {:?}", range.start_bound(), range.end_bound()),
    }
}

#[cfg(test)]
mod tests;
