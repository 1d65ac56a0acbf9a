// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A ring of pinned host buffers, registered once with the FPGA and with the network. Slots are
//! handed out by credit: first come, first served, but a client gets no more than its share while
//! others are waiting.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crosslane_driver::{Buffer, Device};
use crosslane_host::{AnyMemory, Bus, NearEnd, PageSize, Rdma, RdmaRegion, RemoteAccess, lock};
use futures_channel::oneshot;

use crate::error::{At, Result};
use crate::stage::Stage;

/// A client that shares the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientId(pub u64);

#[derive(Debug, Default)]
struct Account {
    free: Vec<usize>,
    /// Slots held by each participating client, including those in quarantine.
    held: BTreeMap<ClientId, usize>,
    /// Slots that the network may still use.
    quarantine: Vec<(ClientId, usize)>,
    waiting: VecDeque<(ClientId, oneshot::Sender<Slot>)>,
}

#[derive(Debug)]
pub(crate) struct Credits {
    count: usize,
    slot_bytes: u64,
    account: Mutex<Account>,
}

/// A slot, held until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    credits: Arc<Credits>,
    client: ClientId,
    index: usize,
    is_lent: bool,
}

/// A client's participation in a ring, until it is dropped.
#[derive(Debug)]
pub(crate) struct Membership {
    credits: Arc<Credits>,
    client: ClientId,
}

impl Credits {
    fn new(count: usize, slot_bytes: u64) -> Arc<Self> {
        let account = Account { free: (0..count).rev().collect(), ..Account::default() };
        Arc::new(Self { count, slot_bytes, account: Mutex::new(account) })
    }

    /// Returns the most slots of a client when `clients` clients take part.
    fn share(&self, clients: usize) -> usize {
        (self.count / clients.max(1)).max(1)
    }

    /// Gives free slots to the longest waiting clients that are below their share.
    fn hand_out(self: &Arc<Self>) {
        loop {
            let (sender, slot) = {
                let mut account = lock(&self.account);
                let account = &mut *account;
                let share = self.share(account.held.len());
                let has_room =
                    |client: &ClientId| account.held.get(client).is_none_or(|held| *held < share);
                let next = account
                    .waiting
                    .iter()
                    .position(|(client, sender)| sender.is_canceled() || has_room(client));
                let Some(next) = next else { return };
                let is_gone = account.waiting[next].1.is_canceled();
                if is_gone {
                    account.waiting.remove(next);
                    continue;
                }
                let Some(index) = account.free.pop() else { return };
                let Some((client, sender)) = account.waiting.remove(next) else { return };
                *account.held.entry(client).or_default() += 1;
                (sender, Slot { credits: Arc::clone(self), client, index, is_lent: false })
            };
            // A slot whose receiver is gone comes back by its own drop.
            let _ = sender.send(slot);
        }
    }

    /// Waits for the next slot for a client.
    pub async fn acquire(self: &Arc<Self>, client: ClientId) -> Slot {
        let (sender, receiver) = oneshot::channel();
        lock(&self.account).waiting.push_back((client, sender));
        self.hand_out();
        match receiver.await {
            Ok(slot) => slot,
            Err(oneshot::Canceled) => unreachable!("a ring outlives those who wait for its slots"),
        }
    }

    /// Lets a client take part.
    pub fn join(self: &Arc<Self>, client: ClientId) -> Membership {
        lock(&self.account).held.entry(client).or_default();
        Membership { credits: Arc::clone(self), client }
    }

    /// Frees the slots that a client had lent to its network, once its connection is closed.
    pub fn end_quarantine(self: &Arc<Self>, client: ClientId) {
        {
            let mut account = lock(&self.account);
            let account = &mut *account;
            let back: Vec<usize> = account
                .quarantine
                .extract_if(.., |(of, _)| *of == client)
                .map(|(_, index)| index)
                .collect();
            if let Some(held) = account.held.get_mut(&client) {
                *held = held.saturating_sub(back.len());
            }
            account.free.extend(back);
        }
        self.hand_out();
    }

    /// Counts all slots, and the free ones.
    pub fn counts(&self) -> (usize, usize) {
        (self.count, lock(&self.account).free.len())
    }

    /// Counts the free slots.
    #[cfg(test)]
    pub fn free(&self) -> usize {
        lock(&self.account).free.len()
    }
}

impl Slot {
    /// Returns the offset of its first byte in the ring's memory.
    pub fn start(&self) -> u64 {
        self.index as u64 * self.credits.slot_bytes
    }

    /// Returns its bytes within the ring's memory.
    pub fn range(&self, bytes: u64) -> Range<u64> {
        self.start()..self.start() + bytes.min(self.credits.slot_bytes)
    }

    /// Notes that the network may use it: dropped before [`take_back`](Self::take_back), it stays
    /// out of use until the client's connection is closed.
    pub fn lend(&mut self) {
        self.is_lent = true;
    }

    /// Notes that the network no longer uses it.
    pub fn take_back(&mut self) {
        self.is_lent = false;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        {
            let mut account = lock(&self.credits.account);
            if self.is_lent {
                account.quarantine.push((self.client, self.index));
                return;
            }
            account.free.push(self.index);
            if let Some(held) = account.held.get_mut(&self.client) {
                *held = held.saturating_sub(1);
            }
        }
        self.credits.hand_out();
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        lock(&self.credits.account).held.remove(&self.client);
        self.credits.hand_out();
    }
}

/// A ring: its memory, registered with the FPGA and the network, and its credits.
pub(crate) struct Ring<R: Rdma<Memory = AnyMemory>> {
    /// The engine's registration, if there is an engine.
    pub buffer: Option<Buffer>,
    pub region: R::Region,
    pub credits: Arc<Credits>,
    pub slot_bytes: u64,
}

impl<R: Rdma<Memory = AnyMemory>> fmt::Debug for Ring<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ring({} slots of {} B)", self.credits.count, self.slot_bytes)
    }
}

impl<R: Rdma<Memory = AnyMemory>> Ring<R> {
    /// Allocates the memory and registers it with the network, for this access of others, and with
    /// an engine.
    pub async fn new(
        device: Option<&Device>,
        rdma: &R,
        (slots, slot_bytes): (usize, u64),
        access: RemoteAccess,
    ) -> Result<Self> {
        let bytes = slots as u64 * slot_bytes;
        // Of the engine's own bus: the network may serve several.
        let memory = match device {
            Some(device) => device.bus().allocate(bytes, PageSize::Huge).at(Stage::Registration)?,
            None => rdma.allocate(bytes, PageSize::Huge).at(Stage::Registration)?,
        };
        let region = rdma.register(&memory, access).await.at(Stage::Registration)?;
        let buffer = match device {
            Some(device) => Some(device.register(memory).await.at(Stage::Registration)?),
            None => None,
        };
        Ok(Self { buffer, region, credits: Credits::new(slots, slot_bytes), slot_bytes })
    }

    /// Takes its memory from the engine. Orders of a transfer that has failed may be at the card:
    /// it then ends with the last one.
    pub async fn free(self) {
        if let Some(buffer) = self.buffer {
            let _ = buffer.unregister().await;
        }
    }

    /// Returns a slot as the near end of a read or write.
    pub fn near(&self, slot: &Slot) -> NearEnd<R::Region> {
        NearEnd { region: self.region.clone(), offset_bytes: slot.start() }
    }

    pub fn memory(&self) -> &AnyMemory {
        self.region.memory()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const ONE: ClientId = ClientId(1);
    const TWO: ClientId = ClientId(2);

    fn now(future: impl Future<Output = Slot>) -> Option<Slot> {
        future.now_or_never()
    }

    #[test]
    fn a_client_alone_has_all_slots_and_two_have_half_each() {
        let credits = Credits::new(4, 100);
        let _one = credits.join(ONE);
        let mut slots: Vec<Slot> = (0..4).filter_map(|_| now(credits.acquire(ONE))).collect();
        assert_eq!(slots.len(), 4);
        assert!(now(credits.acquire(ONE)).is_none(), "there are four");
        let _two = credits.join(TWO);
        let (mut other, mut own) = (Box::pin(credits.acquire(TWO)), Box::pin(credits.acquire(ONE)));
        assert!(own.as_mut().now_or_never().is_none());
        assert!(other.as_mut().now_or_never().is_none());
        // The first slot back goes to the other, which is below its share, although it asked later.
        drop(slots.pop());
        assert!(other.as_mut().now_or_never().is_some());
        drop(slots.pop());
        assert!(own.as_mut().now_or_never().is_none(), "two are its share");
        drop(slots.pop());
        assert!(own.as_mut().now_or_never().is_some());
    }

    #[test]
    fn slots_have_places_of_their_own() {
        let credits = Credits::new(2, 100);
        let mut starts: Vec<u64> = (0..2)
            .filter_map(|_| now(credits.acquire(ONE)))
            .map(|slot| {
                let range = slot.range(70);
                std::mem::forget(slot);
                assert_eq!(range.end - range.start, 70);
                range.start
            })
            .collect();
        starts.sort_unstable();
        assert_eq!(starts, [0, 100]);
    }

    #[test]
    fn what_the_network_may_still_write_is_not_given_to_others() {
        let credits = Credits::new(1, 100);
        let mut slot = now(credits.acquire(ONE)).expect("it is free");
        slot.lend();
        drop(slot);
        assert!(now(credits.acquire(TWO)).is_none());
        credits.end_quarantine(ONE);
        let mut slot = now(credits.acquire(TWO)).expect("it has come back");
        slot.lend();
        slot.take_back();
        drop(slot);
        assert_eq!(credits.free(), 1);
    }

    #[test]
    fn who_waits_no_longer_loses_nothing() {
        let credits = Credits::new(1, 100);
        let slot = now(credits.acquire(ONE)).expect("it is free");
        {
            let mut waiting = Box::pin(credits.acquire(TWO));
            assert!(waiting.as_mut().now_or_never().is_none());
            drop(slot);
            // The slot was sent to a waiting client, which drops its future without looking.
        }
        assert_eq!(credits.free(), 1);
    }
}
