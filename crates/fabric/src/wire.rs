// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time on the wire, exact below a picosecond, and SKP ordered sets.

use std::cmp::Ordering;

use crosslane_pcie::link::{LinkRate, SkpRule, TICKS_PER_PS, TLP_PREFIX_BYTES};

/// A moment on a wire, exact to the tick (1/3072 ps), so that byte times never round.
///
/// It is kept as what most of its users want, the picosecond by which it has come, and how many
/// ticks earlier it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WireTime {
    /// The moment rounded up to a whole picosecond.
    ps: u64,
    /// Ticks from the moment to `ps`, less than a picosecond.
    early_ticks: u32,
}

impl WireTime {
    pub const fn at(ps: u64) -> Self {
        Self { ps, early_ticks: 0 }
    }

    /// The moment `ticks` later.
    #[inline]
    pub const fn plus_ticks(self, ticks: u64) -> Self {
        const LAST: u64 = TICKS_PER_PS - 1;
        let sum = ticks + (LAST - self.early_ticks as u64);
        Self { ps: self.ps + sum / TICKS_PER_PS, early_ticks: (LAST - sum % TICKS_PER_PS) as u32 }
    }

    /// The moment rounded up to a whole picosecond.
    #[inline]
    pub const fn ceil_ps(self) -> u64 {
        self.ps
    }

    /// The moment rounded down to a whole picosecond.
    #[inline]
    pub const fn floor_ps(self) -> u64 {
        self.ps - (self.early_ticks != 0) as u64
    }

    /// Start of the next use of what is free from here on: one that waited for it begins at that
    /// exact tick, any other one now.
    #[inline]
    pub const fn resumed_at(self, now_ps: u64) -> Self {
        if self.ps == now_ps { self } else { Self::at(now_ps) }
    }

    /// Ticks since `earlier`, or 0 if that is later.
    #[inline]
    pub const fn ticks_since(self, earlier: Self) -> u64 {
        if self.ps < earlier.ps {
            return 0;
        }
        let ticks = (self.ps - earlier.ps) * TICKS_PER_PS + earlier.early_ticks as u64;
        ticks.saturating_sub(self.early_ticks as u64)
    }
}

impl Ord for WireTime {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let by_ps = self.ps.cmp(&other.ps);
        by_ps.then_with(|| other.early_ticks.cmp(&self.early_ticks))
    }

    #[inline]
    fn max(self, other: Self) -> Self {
        let is_later =
            other.ps > self.ps || (other.ps == self.ps && other.early_ticks < self.early_ticks);
        if is_later { other } else { self }
    }
}

impl PartialOrd for WireTime {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The wire of one direction: time at which it is free, and SKP schedule.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    pub byte_ticks: u64,
    /// Bytes of a TLP beside its header and payload.
    pub framing_bytes: u32,
    /// Those of them that follow the payload.
    pub trailing_bytes: u32,
    /// Bytes of a DLLP.
    pub dllp_bytes: u32,
    pub free: WireTime,
    skp: Option<SkpRule>,
    /// Moment from which the next SKP ordered set is due; far away if none are sent.
    skp_due: WireTime,
    /// Bytes of SKP ordered sets sent.
    pub skp_bytes: u64,
    /// Ticks taken by SKP ordered sets.
    pub skp_ticks: u64,
}

impl Wire {
    pub fn new(rate: LinkRate, skp: bool) -> Self {
        let rule = rate.skp_rule();
        let framing_bytes = rate.generation.tlp_framing_bytes();
        let first = WireTime::default().plus_ticks(rule.interval_ticks);
        Self {
            byte_ticks: rate.byte_ticks(),
            framing_bytes,
            trailing_bytes: framing_bytes.saturating_sub(TLP_PREFIX_BYTES),
            dllp_bytes: rate.generation.dllp_bytes(),
            free: WireTime::default(),
            skp: skp.then_some(rule),
            skp_due: if skp { first } else { WireTime::at(u64::MAX) },
            skp_bytes: 0,
            skp_ticks: 0,
        }
    }

    /// Start of a packet that is ready at `ready`: once the wire is free, and behind every SKP
    /// ordered set due by then. Sends those ordered sets; they go only between packets, and delayed
    /// ones go out together.
    #[inline]
    pub fn begin(&mut self, ready: WireTime) -> WireTime {
        let start = ready.max(self.free);
        if self.skp_due.ps <= start.ps { self.send_skps(start) } else { start }
    }

    #[cold]
    #[inline(never)]
    fn send_skps(&mut self, mut start: WireTime) -> WireTime {
        let Some(rule) = self.skp.filter(|_| self.skp_due <= start) else { return start };
        let due = &mut self.skp_due;
        // Ordered sets that began and ended while the wire was idle.
        let gap = start.ticks_since(self.free.max(*due));
        let passed = gap / rule.interval_ticks;
        if passed > 1 {
            *due = due.plus_ticks((passed - 1) * rule.interval_ticks);
            self.skp_bytes += (passed - 1) * u64::from(rule.length_bytes);
            self.skp_ticks += (passed - 1) * rule.length_ticks;
            self.free = self.free.max(*due);
        }
        while *due <= start {
            self.free = self.free.max(*due).plus_ticks(rule.length_ticks);
            self.skp_bytes += u64::from(rule.length_bytes);
            self.skp_ticks += rule.length_ticks;
            *due = due.plus_ticks(rule.interval_ticks);
            start = start.max(self.free);
        }
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosslane_pcie::link::{Generation, Width};
    use proptest::prelude::*;

    proptest! {
        /// Sums, rounding and order are those of ticks counted from the start.
        #[test]
        fn moments_are_exact_to_the_tick(steps in prop::collection::vec(0u64..10_000, 1..20)) {
            let mut moments = vec![(0u64, WireTime::default())];
            for step in steps {
                let (ticks, moment) = moments[moments.len() / 2];
                let next = (ticks + step, moment.plus_ticks(step));
                prop_assert_eq!(next.1.floor_ps(), next.0 / TICKS_PER_PS);
                prop_assert_eq!(next.1.ceil_ps(), next.0.div_ceil(TICKS_PER_PS));
                for (ticks, moment) in &moments {
                    prop_assert_eq!(next.1.cmp(moment), next.0.cmp(ticks));
                    let later = if next.0 > *ticks { next.1 } else { *moment };
                    prop_assert_eq!(next.1.max(*moment), later);
                    prop_assert_eq!(next.1.ticks_since(*moment), next.0.saturating_sub(*ticks));
                }
                moments.push(next);
            }
        }
    }

    fn rate() -> LinkRate {
        LinkRate { generation: Generation::Gen2, width: Width::new(4).unwrap() }
    }

    #[test]
    fn ordered_sets_come_every_1538_symbols_and_cost_four() {
        let mut wire = Wire::new(rate(), true);
        // Back-to-back packets of 152 B for 10 ms: 0.5 ns a byte on x4 Gen2.
        let mut bytes = 0u64;
        while wire.free.ceil_ps() < 10_000_000_000 {
            let start = wire.begin(WireTime::default());
            wire.free = start.plus_ticks(152 * wire.byte_ticks);
            bytes += 152;
        }
        let share = wire.skp_bytes as f64 / (bytes + wire.skp_bytes) as f64;
        assert!((share - 4.0 / 1538.0).abs() < 1e-5, "{share}");
    }

    #[test]
    fn an_idle_wire_skips_what_has_passed_and_delays_at_most_one() {
        let mut wire = Wire::new(rate(), true);
        let start = wire.begin(WireTime::at(1_000_000_000));
        assert!(start.floor_ps() - 1_000_000_000 <= 8_000);
        // 1 ms / 3076 ns = 325.1
        assert_eq!(wire.skp_bytes, 325 * 16);
    }
}
