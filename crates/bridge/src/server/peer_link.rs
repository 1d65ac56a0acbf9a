// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A session's link to another server, for its copies: a connection to that server, and the ring
//! that it reads. Both are kept from one copy to the next, so that a program that copies again and
//! again registers and connects once.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;

use crosslane_host::ErrorKind::InvalidArgument;
use crosslane_host::{AnyMemory, Clock, Rdma, RdmaConnection, RemoteAccess};
use futures_util::FutureExt;
use futures_util::future::select;

use super::memory::Held;
use super::transfer::Transfer;
use super::{ServedCard, ServerOptions, Shared};
use crate::control::Control;
use crate::deadline::{after, by};
use crate::error::{At, BridgeError, Result};
use crate::messages::{PeerTarget, Reply, TransferRequest};
use crate::report::Path;
use crate::slots::Ring;
use crate::stage::Stage;

/// A connection to another server, with the ring from which that server takes a card's data. It is
/// of one session: the other server may read all of the ring, so that no other client's data are
/// ever in it.
pub(super) struct PeerLink<R: Rdma<Memory = AnyMemory>> {
    /// The card whose data it takes.
    place: Rc<ServedCard<R>>,
    /// Address of the other server.
    server: String,
    pub ring: Ring<R>,
    pub control: Control<R::Connection>,
    _memory: Held,
}

/// The link that a session keeps for its next copy.
pub(super) type Kept<R> = RefCell<Option<PeerLink<R>>>;

impl<R: Rdma<Memory = AnyMemory>> PeerLink<R> {
    /// Whether a next copy of this card to this server can use it: none of its slots is still out,
    /// and the other server has not closed it.
    fn serves(&self, place: &Rc<ServedCard<R>>, server: &str) -> bool {
        let (slots, free) = self.ring.credits.counts();
        let is_idle = || self.control.receive::<Reply>("a reply").now_or_never().is_none();
        Rc::ptr_eq(&self.place, place) && self.server == server && slots == free && is_idle()
    }

    /// Ends the connection, after which the other server can no longer read from the ring, and
    /// frees the ring.
    pub async fn close(self) {
        self.control.connection().close().await;
        self.ring.free().await;
    }
}

/// Takes the link that a session has kept, if it serves this request; any other one is closed.
pub(super) async fn take<R: Rdma<Memory = AnyMemory>>(
    kept: &Kept<R>,
    place: &Rc<ServedCard<R>>,
    request: &TransferRequest,
) -> Option<PeerLink<R>> {
    let peer = request.peer.as_ref().filter(|_| request.path == Path::ToPeer);
    let serves = |link: &mut PeerLink<R>| peer.is_some_and(|it| link.serves(place, &it.server));
    let link = kept.borrow_mut().take_if(serves);
    close(kept).await;
    link
}

/// Waits until the link that a session keeps has to be closed: its card is being removed, others
/// wait for the memory, or it was not used for as long as the server has patience.
pub(super) async fn is_over<R: Rdma<Memory = AnyMemory>, C: Clock>(
    kept: &Kept<R>,
    shared: &Shared<R, C>,
) {
    let leaving = kept.borrow().as_ref().map(|link| link.place.leaving.sign());
    let Some(leaving) = leaving else { return std::future::pending().await };
    let (leaving, wanted) = (pin!(leaving), pin!(shared.memory.is_wanted()));
    let unused = pin!(shared.clock.sleep_until(after(&shared.clock, shared.options.patience)));
    select(leaving, select(wanted, unused)).await;
}

/// Closes the link that a session has kept, if there is one.
pub(super) async fn close<R: Rdma<Memory = AnyMemory>>(kept: &Kept<R>) {
    let link = kept.take();
    if let Some(link) = link {
        link.close().await;
    }
}

impl<R: Rdma<Memory = AnyMemory>, C: Clock> Transfer<'_, R, C> {
    /// Returns the card of another server to which the request goes.
    pub fn peer(&self) -> Result<&PeerTarget> {
        let not_named =
            || BridgeError::new(Stage::Request, InvalidArgument, "the other server is not named");
        self.request.peer.as_ref().ok_or_else(not_named)
    }

    /// Sets up a link to the other server.
    pub async fn new_link(&self) -> Result<PeerLink<R>> {
        let (shared, deadline) = (self.shared, self.deadline);
        let ServerOptions { slots, slot_bytes, identity, .. } = &shared.options;
        let PeerTarget { server, .. } = self.peer()?;
        let memory = async { Ok(shared.memory.take(*slots as u64 * slot_bytes).await) };
        let what = "waiting for memory that other transfers have";
        let _memory = by(&shared.clock, deadline, Stage::Registration, what, memory).await?;
        let read = RemoteAccess { read: true, write: false };
        let device = self.place.core.device();
        let ring = Ring::new(device, &shared.rdma, (*slots, *slot_bytes), read).await?;
        let end = after(&shared.clock, shared.options.patience).min(deadline);
        let connecting = async {
            let connection = shared.rdma.connect(server, end).await.at(Stage::Connection)?;
            Control::greet(connection, identity).await
        };
        let what = "connecting to the other server";
        match by(&shared.clock, end, Stage::Connection, what, connecting).await {
            Ok(control) => {
                let (place, server) = (Rc::clone(self.place), server.clone());
                Ok(PeerLink { place, server, ring, control, _memory })
            }
            Err(error) => {
                ring.free().await;
                Err(error)
            }
        }
    }
}
