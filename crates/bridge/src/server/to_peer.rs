// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers from this server's FPGA to that of another server. This server acts as the other's
//! client: it fills slots from its card and announces each; the other reads them and reports it.

use std::collections::VecDeque;
use std::pin::pin;

use crosslane_host::ErrorKind::{Data, Failed};
use crosslane_host::{AnyMemory, Clock, Rdma, RdmaRegion};
use crosslane_pcie::units::Picoseconds;
use futures_channel::mpsc;
use futures_util::StreamExt;
use futures_util::future::{Either, select};

use super::peer_link::PeerLink;
use super::transfer::{Chunk, Expected, Replies, Transfer};
use crate::control::Control;
use crate::error::{At, BridgeError, Result};
use crate::messages::{PeerTarget, Reply, Request, TransferRequest, short};
use crate::report::Path;
use crate::stage::Stage;

/// Slots announced and not fully read: the rest of each, the time of its announcement, and that it
/// has to be read.
type Lent<'a> = VecDeque<(Chunk, u64, Picoseconds, Expected<'a>)>;

impl<R: Rdma<Memory = AnyMemory>, C: Clock> Transfer<'_, R, C> {
    /// Makes a transfer to another server's card.
    pub async fn to_peer(&self, to_tell: Replies) -> Result<()> {
        let _under_way = self.place.shares.begin();
        let link = match self.link.get() {
            Some(link) => link,
            None => {
                let link = self.new_link().await?;
                self.link.get_or_init(|| link)
            }
        };
        let PeerLink { ring, control, .. } = link;
        let _membership = ring.credits.join(self.client);
        let moving = async {
            let ask = self.ask(self.peer()?, &ring.region);
            control.send(&Request::Transfer(Box::new(ask))).await?;
            let (moved, filled) = mpsc::unbounded();
            let handing_over = self.hand_over(control, &ring.region, filled);
            futures_util::try_join!(self.move_from_card(moved), handing_over)?;
            Ok(())
        };
        self.beside(moving, |_| Ok(()), to_tell).await
    }

    /// Makes the request to the other server.
    fn ask(&self, peer: &PeerTarget, region: &R::Region) -> TransferRequest {
        let request = self.request;
        TransferRequest {
            first: request.first,
            source: Some(region.remote()),
            is_announced: true,
            time_ps: self.deadline.since(self.shared.clock.now()).0,
            checksum: request.checksum,
            ..TransferRequest::new(Path::ToFpga, &peer.card, peer.address, request.bytes)
        }
    }

    /// Announces each slot, keeps it until it has been read, and waits until all data are in the
    /// other card's memory.
    async fn hand_over(
        &self,
        control: &Control<R::Connection>,
        region: &R::Region,
        mut filled: mpsc::UnboundedReceiver<Chunk>,
    ) -> Result<()> {
        let mut lent = Lent::new();
        let mut arrived = self.request.first;
        loop {
            let event = {
                let reply = pin!(control.receive::<Reply>("a reply of the other server"));
                let next = pin!(filled.next());
                match select(next, reply).await {
                    Either::Left((Some(next), _)) => Either::Left(next),
                    // All slots have been announced.
                    Either::Left((None, reply)) => {
                        let _expected = self.expect(Stage::RdmaRead);
                        Either::Right(reply.await?)
                    }
                    Either::Right((reply, _)) => Either::Right(reply?),
                }
            };
            match event {
                Either::Left(mut next) => {
                    let length = next.length();
                    let offset_bytes = next.slot()?.start();
                    let begun = self.pipeline.begin(Stage::RdmaRead);
                    region.publish(offset_bytes, length).at(Stage::RdmaRead)?;
                    next.slot()?.lend();
                    lent.push_back((next, length, begun, self.expect(Stage::RdmaRead)));
                    control.send(&Request::Chunk { offset_bytes, bytes: length }).await?;
                }
                Either::Right(Reply::Taken { bytes, .. }) => {
                    self.take_back(&mut lent, bytes).await?
                }
                Either::Right(Reply::Progress { bytes, checksum }) => {
                    arrived = bytes.clamp(arrived, self.request.bytes);
                    self.compare(arrived, checksum.filter(|_| arrived == bytes))?;
                    self.has_arrived(arrived);
                }
                Either::Right(Reply::Done(report)) => {
                    let all = self.request.bytes;
                    self.compare(all, report.checksum)?;
                    if self.request.checksum && self.agreed.get().is_none_or(|it| it.0 != all) {
                        let why = "the other server has sent no checksum of the whole";
                        return Err(BridgeError::new(Stage::RdmaRead, Data, why));
                    }
                    self.has_arrived(all);
                    return Ok(());
                }
                Either::Right(Reply::Failed(failure)) => {
                    let why = format!("the other server says: {}", short(&failure.why));
                    return Err(BridgeError::new(failure.stage, Failed, why));
                }
                // Answers to what nobody has asked.
                Either::Right(
                    Reply::Cards(_)
                    | Reply::Survey(_)
                    | Reply::Ready
                    | Reply::Data { .. }
                    | Reply::Reloaded { .. },
                ) => {}
            }
        }
    }

    /// Compares the other server's checksum of the bytes before this one, if both have it.
    fn compare(&self, upto: u64, theirs: Option<u32>) -> Result<()> {
        let Some((own, theirs)) = self.checksum_upto(upto).zip(theirs) else { return Ok(()) };
        if own != theirs {
            let why = format!(
                "data were changed on the way: CRC-32 {own:08x} here, {theirs:08x} at the other \
                 server"
            );
            return Err(BridgeError::new(Stage::RdmaRead, Data, why));
        }
        self.agreed.set(Some((upto, own)));
        Ok(())
    }

    /// Notes that the other server has read `bytes` more of the announced bytes, oldest first.
    async fn take_back(&self, lent: &mut Lent<'_>, bytes: u64) -> Result<()> {
        let wrong = || {
            let why = format!("the other server has read {bytes} B more than were announced");
            BridgeError::new(Stage::Request, Data, why)
        };
        let (_, left, ..) = lent.front_mut().ok_or_else(wrong)?;
        *left = left.checked_sub(bytes).ok_or_else(wrong)?;
        if *left == 0
            && let Some((mut chunk, _, begun, _)) = lent.pop_front()
        {
            chunk.slot()?.take_back();
            self.pipeline.end(Stage::RdmaRead, begun, chunk.length()).await;
        }
        Ok(())
    }
}
