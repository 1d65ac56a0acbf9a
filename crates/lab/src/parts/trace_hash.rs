// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A hash of a lab's trace that does not depend on the parts that simulate it.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex};

use crosslane_fabric::DirectionId;
use crosslane_fabric::trace::{TraceRecord, TraceSink};
use crosslane_host::lock;

use super::Part;

/// Hash of a trace: of all records of each direction in their order. Records of different
/// directions come in no certain order, so that two traces are equal if those of all directions
/// are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceHash {
    /// Sum of the hashes of all directions.
    pub sum: u64,
    /// Number of records.
    pub records: u64,
}

impl TraceHash {
    /// Adds the hash of other directions.
    pub fn add(&mut self, other: Self) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.records += other.records;
    }
}

/// Prints number and hash: `5120 events, hash 00c0ffee00c0ffee`.
impl fmt::Display for TraceHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} events, hash {:016x}", self.records, self.sum)
    }
}

/// Text on its way into a hasher.
struct Hashed<'a>(&'a mut DefaultHasher);

impl fmt::Write for Hashed<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// A sink that hashes a trace, or the part of one that a part of the lab has.
pub struct TraceHasher {
    directions: BTreeMap<DirectionId, (DefaultHasher, u64)>,
    part: Option<Part>,
    sum: Arc<Mutex<TraceHash>>,
    next: Option<Box<dyn TraceSink>>,
}

impl TraceHasher {
    /// Makes a sink whose hash is added to `sum` when the trace ends. Records also go to `next`.
    /// Those of a part get the links of the whole lab.
    pub fn new(
        sum: Arc<Mutex<TraceHash>>,
        part: Option<&Part>,
        next: Option<Box<dyn TraceSink>>,
    ) -> Self {
        Self { directions: BTreeMap::new(), part: part.cloned(), sum, next }
    }
}

impl TraceSink for TraceHasher {
    fn record(&mut self, record: &TraceRecord) {
        if let Some(next) = &mut self.next {
            next.record(record);
        }
        let link = record.direction.link;
        let link = self.part.as_ref().map_or(link, |part| part.whole_link(link));
        let direction = DirectionId { link, ..record.direction };
        let record = TraceRecord { direction, ..*record };
        let (hasher, records) = self.directions.entry(direction).or_default();
        write!(Hashed(hasher), "{record:?}").expect("a hasher takes any text");
        *records += 1;
    }

    fn says(&mut self, count: u64, amount: u64) {
        if let Some(next) = &mut self.next {
            next.says(count, amount);
        }
    }
}

impl Drop for TraceHasher {
    fn drop(&mut self) {
        let mut sum = lock(&self.sum);
        for (hasher, records) in self.directions.values() {
            sum.add(TraceHash { sum: hasher.finish(), records: *records });
        }
    }
}
