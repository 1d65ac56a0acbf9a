// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting for memory in the kernel: its cost, and when a change is seen.

use crosslane_fabric::CoreWork;
use crosslane_host::{Bus, BusError, BusResult, DmaMemory, Waiting};
use crosslane_pcie::units::{BusAddress, Picoseconds};

use super::LabBus;
use crate::executor::memory::LabMemory;
use crate::executor::shared::{State, What};

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
        let look = |state: &mut State| {
            let mut word = [0; 4];
            state.fabric.peek(self.host(), BusAddress(address), &mut word);
            let word = u32::from_le_bytes(word);
            Ok((word != seen).then_some(word))
        };
        let watch = |state: &mut State, token| {
            let root_complex = self.running_host().root_complex;
            state.fabric.host_watch(root_complex, address..address + 4, token);
        };
        self.wait_for(What::Memory { host: self.host, address, seen }, deadline, look, watch).await
    }

    /// Waits within one system call. A kernel that polls looks when it is called, at each tick, and
    /// finally at the deadline; one that has the processor monitor the word wakes some time after
    /// the change.
    pub(super) async fn wait_in_kernel(
        &self,
        waiting: Waiting,
        memory: &LabMemory,
        offset_bytes: u64,
        seen: u32,
        deadline: Picoseconds,
    ) -> BusResult<u32> {
        let cost = self.cost_of_waiting(waiting)?;
        self.half_a_call().await;
        let begun = Bus::now(self);
        let mut changed = self.poll_memory(memory, offset_bytes, seen, deadline).await;
        let waited_ps = Bus::now(self).0 - begun.0;
        if waiting == Waiting::Monitor {
            // The core was idle, whatever woke it.
            if waited_ps > 0 {
                self.spend(&[CoreWork::Time(cost)]).await;
            }
        } else {
            // A change in between is seen at the next tick, with the word's value then.
            let tick_ps = waited_ps.div_ceil(cost.0).saturating_mul(cost.0);
            let tick = Picoseconds(begun.0.saturating_add(tick_ps).min(deadline.0));
            if changed.is_ok() && Bus::now(self) < tick {
                Bus::sleep_until(self, tick).await;
                let mut word = [0; 4];
                changed = memory.read(offset_bytes, &mut word).map(|()| u32::from_le_bytes(word));
            }
        }
        self.half_a_call().await;
        changed
    }
}
