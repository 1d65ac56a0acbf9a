// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting for memory in the kernel: its cost, and when a change is seen.

use crosslane_fabric::CoreWork;
use crosslane_host::{Bus, BusError, BusResult, DmaMemory, Waiting};
use crosslane_pcie::units::Picoseconds;

use super::LabBus;
use crate::executor::memory::LabMemory;

impl LabBus {
    /// Spends half of a system call: the entry, or the return.
    async fn half_a_call(&self) {
        let half = Picoseconds(self.running_host().cpu.system_call.0 / 2);
        self.spend(&[CoreWork::Time(half)]).await;
    }

    /// Returns the constant for a kind of waiting, if it needs one.
    pub(super) fn cost_of_waiting(&self, waiting: Waiting) -> BusResult<Picoseconds> {
        let cpu = &self.running_host().cpu;
        let (cost, key) = match waiting {
            Waiting::Polling => return Ok(Picoseconds::ZERO),
            Waiting::KernelPolling => (cpu.kernel_poll, "kernel_poll_ns"),
            Waiting::Monitor => (cpu.monitor_wake, "monitor_wake_ns"),
        };
        cost.ok_or_else(|| {
            let why = format!("the processor of {} has no {key}", self.running_host().name);
            BusError::CannotWait { waiting, why }
        })
    }

    /// Polls a word of memory.
    pub(super) async fn poll_memory(
        &self,
        memory: &LabMemory,
        offset_bytes: u64,
        seen: u32,
        deadline: Picoseconds,
    ) -> BusResult<u32> {
        assert!(offset_bytes.is_multiple_of(4), "a word begins at a multiple of 4");
        memory.check(offset_bytes, 4)?;
        assert_eq!(memory.host(), self.host, "a core waits for memory of its own host");
        let (address, _) = memory.locate(offset_bytes);
        self.turn().await;
        loop {
            match self.look_at_memory(address, seen, deadline) {
                Ok(result) => return result,
                Err(wait) => {
                    wait.await;
                }
            }
        }
    }

    /// Waits as a kernel that looks when it is called, at each tick, and finally at the deadline.
    pub(super) async fn poll_in_kernel(
        &self,
        memory: &LabMemory,
        offset_bytes: u64,
        seen: u32,
        deadline: Picoseconds,
    ) -> BusResult<u32> {
        let interval = self.cost_of_waiting(Waiting::KernelPolling)?;
        self.half_a_call().await;
        let begun = Bus::now(self);
        let mut changed = self.poll_memory(memory, offset_bytes, seen, deadline).await;
        // A change in between is seen at the next tick, with the word's value then.
        let waited_ps = Bus::now(self).0 - begun.0;
        let tick_ps = waited_ps.div_ceil(interval.0).saturating_mul(interval.0);
        let tick = Picoseconds(begun.0.saturating_add(tick_ps).min(deadline.0));
        if changed.is_ok() && Bus::now(self) < tick {
            Bus::sleep_until(self, tick).await;
            let mut word = [0; 4];
            changed = memory.read(offset_bytes, &mut word).map(|()| u32::from_le_bytes(word));
        }
        self.half_a_call().await;
        changed
    }

    /// Waits as a kernel that has the processor monitor the word; it wakes some time after the
    /// change.
    pub(super) async fn monitor_in_kernel(
        &self,
        memory: &LabMemory,
        offset_bytes: u64,
        seen: u32,
        deadline: Picoseconds,
    ) -> BusResult<u32> {
        let wake = self.cost_of_waiting(Waiting::Monitor)?;
        self.half_a_call().await;
        let begun = Bus::now(self);
        let changed = self.poll_memory(memory, offset_bytes, seen, deadline).await;
        if Bus::now(self) > begun {
            // The core was idle, whatever woke it.
            self.spend(&[CoreWork::Time(wake)]).await;
        }
        self.half_a_call().await;
        changed
    }
}
