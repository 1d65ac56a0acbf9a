// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers from this server's FPGA to that of another server. This server acts as the other's
//! client: it fills slots from its card and announces each; the other reads them and reports it.

use std::collections::VecDeque;
use std::pin::pin;

use crosslane_host::ErrorKind::{Cancelled, Data, Failed, InvalidArgument};
use crosslane_host::{Bus, Clock, Rdma, RdmaConnection, RdmaRegion, RemoteAccess};
use crosslane_pcie::units::Picoseconds;
use futures_channel::mpsc;
use futures_util::StreamExt;
use futures_util::future::{Either, select};

use super::pipelined::{Filled, Run};
use super::session::Context;
use crate::control::Control;
use crate::deadline::by;
use crate::error::BridgeError;
use crate::messages::{PeerTarget, Reply, Request, TransferRequest, short};
use crate::report::{Mode, Path, Report};
use crate::stage::Stage;

/// Slots announced and not fully read: the rest of each, and the time of its announcement.
type Lent = VecDeque<(Filled, u64, Picoseconds)>;

/// Makes a transfer to another server's card.
pub(super) async fn run<B: Bus, R: Rdma<Memory = B::Memory>, C: Clock>(
    context: &Context<'_, B, R, C>,
) -> Result<Report, BridgeError> {
    let run = Run::new(context);
    let ring = &context.place.from_card;
    let _membership = ring.credits.join(context.client);
    // The ring is open to remote reads for this transfer only.
    let read = RemoteAccess { read: true, write: false };
    let registering = context.shared.rdma.register(ring.memory(), read);
    let region = registering.await.map_err(BridgeError::network(Stage::Registration))?;
    let connecting = connect(context);
    let clock = &context.shared.clock;
    let what = "connecting to the other server";
    let (control, peer) = by(clock, context.deadline, Stage::Connection, what, connecting).await?;
    let (progress, told) = mpsc::unbounded();
    let result = {
        let moving = async {
            let asked = ask(context, peer, &region);
            control.send(&Request::Transfer(asked)).await?;
            let (moved, filled) = mpsc::unbounded();
            futures_util::try_join!(
                run.move_from_card(moved),
                hand_over(&run, (&control, &region), filled, &progress)
            )?;
            Ok(())
        };
        let only_cancel = |request| match request {
            Request::Cancel => {
                Err(BridgeError::new(Stage::Request, Cancelled, "cancelled by the client"))
            }
            _ => Ok(()),
        };
        run.beside(moving, only_cancel, told).await
    };
    // After this, the other server can no longer read from the ring.
    control.connection().close().await;
    ring.credits.end_quarantine(context.client);
    result?;
    Ok(run.report())
}

async fn connect<'a, B: Bus, R: Rdma<Memory = B::Memory>, C: Clock>(
    context: &Context<'a, B, R, C>,
) -> Result<(Control<R::Connection>, &'a PeerTarget), BridgeError> {
    let Context { shared, request, deadline, .. } = context;
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
    context: &Context<'_, B, R, C>,
    peer: &PeerTarget,
    region: &R::Region,
) -> TransferRequest {
    let Context { shared, request, deadline, .. } = context;
    TransferRequest {
        path: Path::ToFpga,
        mode: Mode::Pipelined,
        card: peer.card.clone(),
        address: peer.address,
        bytes: request.bytes,
        first: request.first,
        source: Some(region.remote().into()),
        is_announced: true,
        destination: None,
        peer: None,
        chunk_bytes: None,
        time_ps: deadline.since(shared.clock.now()).0,
        checksum: request.checksum,
    }
}

/// Announces each slot, keeps it until it has been read, and waits until all data are in the other
/// card's memory.
async fn hand_over<B: Bus, R: Rdma<Memory = B::Memory>, C: Clock>(
    run: &Run<'_, B, R, C>,
    (control, region): (&Control<R::Connection>, &R::Region),
    mut filled: mpsc::UnboundedReceiver<Filled>,
    progress: &mpsc::UnboundedSender<Reply>,
) -> Result<(), BridgeError> {
    let mut lent = Lent::new();
    let mut arrived = run.context.request.first;
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
                let length = next.bytes.end - next.bytes.start;
                let offset_bytes = next.slot.range(0).start;
                let begun = run.begin(Stage::RdmaRead);
                let published = region.publish(offset_bytes, length);
                published.map_err(BridgeError::network(Stage::RdmaRead))?;
                next.slot.lend();
                lent.push_back((next, length, begun));
                control.send(&Request::Chunk { offset_bytes, bytes: length }).await?;
            }
            Either::Right(Reply::Taken { bytes, .. }) => take_back(run, &mut lent, bytes).await?,
            Either::Right(Reply::Progress { bytes }) => {
                run.has_arrived(arrived..bytes.max(arrived), progress);
                arrived = bytes.max(arrived);
            }
            Either::Right(Reply::Done(_)) => {
                run.has_arrived(arrived..run.context.request.bytes, progress);
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
    run: &Run<'_, B, R, C>,
    lent: &mut Lent,
    bytes: u64,
) -> Result<(), BridgeError> {
    let wrong = || {
        let why = format!("the other server has read {bytes} B more than were announced");
        BridgeError::new(Stage::Request, Data, why)
    };
    let (_, left, _) = lent.front_mut().ok_or_else(wrong)?;
    *left = left.checked_sub(bytes).ok_or_else(wrong)?;
    if *left == 0
        && let Some((mut filled, _, begun)) = lent.pop_front()
    {
        filled.slot.take_back();
        run.end(Stage::RdmaRead, begun, filled.bytes.end - filled.bytes.start).await;
    }
    Ok(())
}
