// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers from this server's FPGA to that of another server. This server acts as the other's
//! client: it fills slots from its card and announces each; the other reads them and reports it.

use std::collections::VecDeque;
use std::pin::pin;

use crosslane_host::ErrorKind::{Data, Failed, InvalidArgument};
use crosslane_host::{Bus, Clock, Rdma, RdmaConnection, RdmaRegion, RemoteAccess};
use crosslane_pcie::units::Picoseconds;
use futures_channel::mpsc;
use futures_util::StreamExt;
use futures_util::future::{Either, select};

use super::pipelined::move_from_card;
use super::transfer::{Chunk, Transfer};
use crate::control::Control;
use crate::deadline::by;
use crate::error::{BridgeError, Result};
use crate::messages::{PeerTarget, Reply, Request, TransferRequest, short};
use crate::report::{Path, Report};
use crate::stage::Stage;

/// Slots announced and not fully read: the rest of each, and the time of its announcement.
type Lent = VecDeque<(Chunk, u64, Picoseconds)>;

/// Makes a transfer to another server's card.
pub(super) async fn run<B: Bus, R: Rdma<Memory = B::Memory>, C: Clock>(
    transfer: &Transfer<'_, B, R, C>,
) -> Result<Report> {
    let ring = &transfer.place.from_card;
    let _membership = ring.credits.join(transfer.client);
    // The ring is open to remote reads for this transfer only.
    let read = RemoteAccess { read: true, write: false };
    let registering = transfer.shared.rdma.register(ring.memory(), read);
    let region = registering.await.map_err(BridgeError::network(Stage::Registration))?;
    let connecting = connect(transfer);
    let clock = &transfer.shared.clock;
    let what = "connecting to the other server";
    let (control, peer) = by(clock, transfer.deadline, Stage::Connection, what, connecting).await?;
    let (progress, told) = mpsc::unbounded();
    let result = {
        let moving = async {
            let asked = ask(transfer, peer, &region);
            control.send(&Request::Transfer(asked)).await?;
            let (moved, filled) = mpsc::unbounded();
            futures_util::try_join!(
                move_from_card(transfer, moved),
                hand_over(transfer, (&control, &region), filled, &progress)
            )?;
            Ok(())
        };
        transfer.beside(moving, |_| Ok(()), told).await
    };
    // After this, the other server can no longer read from the ring.
    control.connection().close().await;
    ring.credits.end_quarantine(transfer.client);
    result?;
    Ok(transfer.report())
}

async fn connect<'a, B: Bus, R: Rdma<Memory = B::Memory>, C: Clock>(
    transfer: &Transfer<'a, B, R, C>,
) -> Result<(Control<R::Connection>, &'a PeerTarget)> {
    let Transfer { shared, request, deadline, .. } = transfer;
    let Some(peer) = &request.peer else {
        return Err(BridgeError::new(
            Stage::Request,
            InvalidArgument,
            "the other server is not named",
        ));
    };
    let connection = shared
        .rdma
        .connect(&peer.server, *deadline)
        .await
        .map_err(BridgeError::network(Stage::Connection))?;
    let (name, key) = &shared.options.identity;
    let control = Control::greet(connection, name, key.as_ref()).await?;
    Ok((control, peer))
}

/// Makes the request to the other server.
fn ask<B: Bus, R: Rdma<Memory = B::Memory>, C: Clock>(
    transfer: &Transfer<'_, B, R, C>,
    peer: &PeerTarget,
    region: &R::Region,
) -> TransferRequest {
    let Transfer { shared, request, deadline, .. } = transfer;
    TransferRequest {
        first: request.first,
        source: Some(region.remote().into()),
        is_announced: true,
        time_ps: deadline.since(shared.clock.now()).0,
        checksum: request.checksum,
        ..TransferRequest::new(Path::ToFpga, &peer.card, peer.address, request.bytes)
    }
}

/// Announces each slot, keeps it until it has been read, and waits until all data are in the other
/// card's memory.
async fn hand_over<B: Bus, R: Rdma<Memory = B::Memory>, C: Clock>(
    transfer: &Transfer<'_, B, R, C>,
    (control, region): (&Control<R::Connection>, &R::Region),
    mut filled: mpsc::UnboundedReceiver<Chunk>,
    progress: &mpsc::UnboundedSender<Reply>,
) -> Result<()> {
    let mut lent = Lent::new();
    let mut arrived = transfer.request.first;
    loop {
        let event = {
            let reply = pin!(control.receive::<Reply>("a reply of the other server"));
            let next = pin!(filled.next());
            match select(next, reply).await {
                Either::Left((Some(next), _)) => Either::Left(next),
                // All slots have been announced.
                Either::Left((None, reply)) => Either::Right(reply.await?),
                Either::Right((reply, _)) => Either::Right(reply?),
            }
        };
        match event {
            Either::Left(mut next) => {
                let length = next.length();
                let offset_bytes = next.slot()?.range(0).start;
                let begun = transfer.pipeline.begin(Stage::RdmaRead);
                let published = region.publish(offset_bytes, length);
                published.map_err(BridgeError::network(Stage::RdmaRead))?;
                next.slot()?.lend();
                lent.push_back((next, length, begun));
                control.send(&Request::Chunk { offset_bytes, bytes: length }).await?;
            }
            Either::Right(Reply::Taken { bytes, .. }) => {
                take_back(transfer, &mut lent, bytes).await?
            }
            Either::Right(Reply::Progress { bytes }) => {
                arrived = bytes.max(arrived);
                transfer.has_arrived(arrived, progress);
            }
            Either::Right(Reply::Done(_)) => {
                transfer.has_arrived(transfer.request.bytes, progress);
                return Ok(());
            }
            Either::Right(Reply::Failed(failure)) => {
                let why = format!("the other server says: {}", short(&failure.why));
                return Err(BridgeError::new(failure.stage, Failed, why));
            }
            Either::Right(Reply::Cards(_) | Reply::Ready) => {}
        }
    }
}

/// Notes that the other server has read `bytes` more of the announced bytes, oldest first.
async fn take_back<B: Bus, R: Rdma<Memory = B::Memory>, C: Clock>(
    transfer: &Transfer<'_, B, R, C>,
    lent: &mut Lent,
    bytes: u64,
) -> Result<()> {
    let wrong = || {
        let why = format!("the other server has read {bytes} B more than were announced");
        BridgeError::new(Stage::Request, Data, why)
    };
    let (_, left, _) = lent.front_mut().ok_or_else(wrong)?;
    *left = left.checked_sub(bytes).ok_or_else(wrong)?;
    if *left == 0
        && let Some((mut chunk, _, begun)) = lent.pop_front()
    {
        chunk.slot()?.take_back();
        transfer.pipeline.end(Stage::RdmaRead, begun, chunk.length()).await;
    }
    Ok(())
}
