// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client's session: its greeting, then its requests, one after the other.

use std::pin::pin;
use std::rc::Rc;

use crosslane_host::ErrorKind::Busy;
use crosslane_host::{AnyMemory, Clock, Rdma, RdmaConnection};
use crosslane_pcie::units::Picoseconds;
use futures_channel::oneshot;
use futures_util::FutureExt;
use futures_util::future::{Either, select};

use super::cards::unless_removed;
use super::guests::Guest;
use super::peer_link::{self, Kept};
use super::transfer::Transfer;
use super::{ServedCard, ServerEvent, ServerOptions, Shared, reload};
use crate::control::Control;
use crate::deadline::{after, by};
use crate::error::{BridgeError, Result};
use crate::messages::{Failure, MOST_SURVEYED, Reply, Request, Survey, TransferRequest};
use crate::report::{Path, Report};
use crate::slots::ClientId;
use crate::stage::Stage;

/// Time for a client to disconnect after it was told of a failure.
const LEAVING: Picoseconds = Picoseconds::from_secs(1);

/// Serves a client until it disconnects.
pub(super) async fn serve<R: Rdma<Memory = AnyMemory>, C: Clock>(
    shared: &Shared<R, C>,
    connection: R::Connection,
    (guest, leave): (Guest<'_>, oneshot::Receiver<()>),
) {
    let (peer, client) = (connection.peer(), guest.client);
    let kept = Kept::default();
    let talked = {
        let talking = pin!(talk(shared, connection.clone(), &guest, &kept));
        // Asked first: whoever has to leave begins no transfer.
        match select(leave, talking).await {
            Either::Left(_) => {
                let why = "it was idle, and has made room for others";
                Err(BridgeError::new(Stage::Connection, Busy, why))
            }
            Either::Right((talked, _)) => talked,
        }
    };
    if let Err(error) = talked {
        (shared.tell)(&ServerEvent::Lost { peer, error });
    }
    drop(guest);
    peer_link::close(&kept).await;
    // The connection is closed: the client's network no longer touches the rings.
    connection.close().await;
    for place in shared.places.borrow().iter() {
        place.to_card.credits.end_quarantine(client);
        place.from_card.credits.end_quarantine(client);
    }
}

async fn talk<R: Rdma<Memory = AnyMemory>, C: Clock>(
    shared: &Shared<R, C>,
    connection: R::Connection,
    guest: &Guest<'_>,
    kept: &Kept<R>,
) -> Result<()> {
    let peer = connection.peer();
    let clock = &shared.clock;
    let guard = &shared.options.guard;
    let end = after(clock, shared.options.greeting_time);
    let greeting = Control::answer(connection, guard);
    let what = "waiting for the client to say who it is";
    let (control, name) = by(clock, end, Stage::Connection, what, greeting).await?;
    let send = async |reply: &Reply| {
        let end = after(clock, shared.options.patience);
        by(clock, end, Stage::Connection, "the client takes no message", control.send(reply)).await
    };
    let fail = async |error: BridgeError| {
        let failure = Failure::from(error.clone());
        let session = guest.client.0;
        (shared.tell)(&ServerEvent::Failed { client: name.clone(), session, error });
        send(&Reply::Failed(failure)).await
    };
    if let Err(error) = guest.is_known() {
        send(&Reply::Failed(error.clone().into())).await?;
        return Err(error);
    }
    (shared.tell)(&ServerEvent::Greeted { client: name.clone(), peer });
    loop {
        guest.is_idle();
        // A client that leaves between two requests has lost nothing.
        let request = {
            let receiving = pin!(control.receive::<Request>("a request"));
            match select(receiving, pin!(peer_link::is_over(kept, shared))).await {
                Either::Left((request, _)) => Some(request),
                Either::Right(_) => None,
            }
        };
        let Some(request) = request else {
            peer_link::close(kept).await;
            continue;
        };
        let request = match request {
            Ok(request) => request,
            Err(error) if error.stage == Stage::Connection => return Ok(()),
            Err(error) => {
                send(&Reply::Failed(error.clone().into())).await?;
                return Err(error);
            }
        };
        match request {
            Request::Cards => {
                let names = shared.served().iter().map(|place| place.name.clone()).collect();
                send(&Reply::Cards(names)).await?;
            }
            Request::Survey => {
                let served = shared.served().into_iter();
                let cards = served.map(|card| card.state()).chain(shared.states_out());
                let cards = cards.take(MOST_SURVEYED).collect();
                let (memory_bytes, free_memory_bytes) = shared.memory.counts();
                let mut survey = Survey { cards, memory_bytes, free_memory_bytes };
                survey.shorten();
                send(&Reply::Survey(survey)).await?;
            }
            Request::Transfer(request) => {
                guest.is_busy();
                let of = (guest.client, name.as_str());
                let session = guest.client.0;
                let (result, has_begun) = transfer(shared, &control, of, &request, kept).await;
                match result {
                    Ok((report, data)) => {
                        let done = match data {
                            Some(data) => Reply::Data { report: report.clone(), data },
                            None => Reply::Done(report.clone()),
                        };
                        send(&done).await?;
                        let report = Box::new(report);
                        let done = ServerEvent::Done { client: name.clone(), session, report };
                        (shared.tell)(&done);
                    }
                    Err(error) => {
                        fail(error).await?;
                        if has_begun {
                            // Its operations in flight end with the connection.
                            leave(clock, &control).await;
                            return Ok(());
                        }
                    }
                }
            }
            Request::Reload(request) => {
                guest.is_busy();
                peer_link::close(kept).await;
                let (result, is_in_use) = reload::serve(shared, &control, &name, &request).await;
                match result {
                    Ok(reloaded) => {
                        let (client, card) = (name.clone(), request.card);
                        (shared.tell)(&ServerEvent::Reloaded { client, card });
                        send(&reloaded).await?;
                    }
                    Err(error) => {
                        fail(error).await?;
                        if is_in_use {
                            leave(clock, &control).await;
                            return Ok(());
                        }
                    }
                }
            }
            // Late messages of a transfer that has ended.
            Request::Cancel | Request::Ready | Request::Chunk { .. } => {}
        }
    }
}

/// Waits a short time for the client to disconnect.
async fn leave<C: Clock, N: RdmaConnection>(clock: &C, control: &Control<N>) {
    let end = after(clock, LEAVING);
    let gone = async { while control.receive::<Request>("a request").await.is_ok() {} };
    let gone = pin!(gone.fuse());
    let late = pin!(clock.sleep_until(end).fuse());
    select(gone, late).await;
}

/// Makes a transfer; returns its report, the data that its answer carries, and whether its stages
/// had begun.
async fn transfer<R: Rdma<Memory = AnyMemory>, C: Clock>(
    shared: &Shared<R, C>,
    control: &Control<R::Connection>,
    (client, name): (ClientId, &str),
    request: &TransferRequest,
    kept: &Kept<R>,
) -> (Result<(Report, Option<Vec<u8>>)>, bool) {
    let (place, target) = match admit(shared, name, request) {
        Ok(places) => places,
        Err(error) => return (Err(error), false),
    };
    let link = peer_link::take(kept, &place, request).await;
    let from = (&place, link);
    let (transfer, to_tell) = Transfer::new(shared, from, control, (client, name), request);
    let cards = [Some(&*place), target.as_deref()];
    let arrived = || (transfer.pipeline.arrived_bytes(), request.bytes);
    let running = transfer.run(target.as_deref(), to_tell);
    let result = unless_removed(cards, running, arrived).await;
    kept.replace(transfer.link.into_inner());
    if result.is_err() {
        peer_link::close(kept).await;
    }
    (result, true)
}

/// Checks that a request is valid and allowed; returns its card, and of a copy within this node the
/// one that it goes to.
#[allow(clippy::type_complexity)]
fn admit<R: Rdma<Memory = AnyMemory>, C: Clock>(
    shared: &Shared<R, C>,
    name: &str,
    request: &TransferRequest,
) -> Result<(Rc<ServedCard<R>>, Option<Rc<ServedCard<R>>>)> {
    request.check()?;
    let ServerOptions { guard, identity, has_certificate, is_closed_network, .. } = &shared.options;
    let has_proof = identity.key.is_some() || *has_certificate;
    guard.check(name, request, has_proof, *is_closed_network)?;
    let place = shared.card(&request.card)?;
    place.core.check(request)?;
    let here = request.peer.as_ref().filter(|_| request.path == Path::WithinNode);
    let target = here.map(|peer| {
        let target = shared.card(&peer.card)?;
        let put = TransferRequest::new(Path::ToFpga, &peer.card, peer.address, request.bytes);
        target.core.check(&put).map(|()| target)
    });
    Ok((place, target.transpose()?))
}
