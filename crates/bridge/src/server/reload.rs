// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cards that are reconfigured while their server serves others: the image arrives in a file and is
//! compared, the card is let go, reconfigured, and served again under its name. If that fails, the
//! name stays, out of service, and can be reloaded again.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::rc::Rc;

use crosslane_host::ErrorKind::{Busy, Data, Failed, LinkDown, Unsupported};
use crosslane_host::{
    AnyMemory, Clock, DmaMemory, FarEnd, NearEnd, PageSize, Rdma, RdmaConnection, RdmaRegion,
    RemoteAccess, hex,
};
use crosslane_pcie::units::Picoseconds;
use futures_channel::{mpsc, oneshot};
use sha2::{Digest, Sha256};

use super::cards::{Change, Worker};
use super::transfer::PROGRESS;
use super::{ServerEvent, Shared};
use crate::control::Control;
use crate::deadline::{after, by};
use crate::error::{At, BridgeError, Result};
use crate::messages::{CardState, ReloadRequest, Reply};
use crate::reload::ImageFile;
use crate::stage::Stage;

/// Bytes of an image that the network reads at once.
const PIECE_BYTES: u64 = 1 << 20;

/// A card that is not served for now.
pub(super) struct Outage {
    /// Its state when it was let go.
    state: CardState,
    /// The reason for which it could not be reloaded; none while that is being done.
    why: Option<String>,
}

/// Names of the cards that are being reloaded, or whose images are on their way.
pub(super) type Reloading = Rc<RefCell<BTreeSet<String>>>;

/// The only reload of a card, until it is dropped.
struct Only {
    all: Reloading,
    card: String,
}

impl Drop for Only {
    fn drop(&mut self) {
        self.all.borrow_mut().remove(&self.card);
    }
}

/// A card and the image that it is reloaded with.
pub(super) struct ReloadOrder {
    only: Only,
    image: Box<dyn ImageFile>,
    told: oneshot::Sender<Result<String>>,
}

impl Outage {
    fn words(&self) -> String {
        let why = self.why.as_ref();
        why.map_or_else(|| "being reloaded".to_owned(), |why| format!("not reloaded: {why}"))
    }
}

impl<R: Rdma<Memory = AnyMemory>, C: Clock> Shared<R, C> {
    /// Returns the error of a use of a card that is out of service.
    pub fn outage(&self, name: &str) -> Option<BridgeError> {
        let outages = self.outages.borrow();
        let outage = outages.get(name)?;
        let (kind, words) = match &outage.why {
            None => (Busy, format!("{name} is being reloaded")),
            Some(why) => {
                let why = format!("{name} is out of service, as it could not be reloaded: {why}");
                (LinkDown, why)
            }
        };
        Some(BridgeError::new(Stage::Request, kind, words))
    }

    /// Describes the cards that are out of service.
    pub fn states_out(&self) -> Vec<CardState> {
        let outages = self.outages.borrow();
        let states = outages
            .values()
            .map(|outage| CardState { outage: Some(outage.words()), ..outage.state.clone() });
        states.collect()
    }

    /// Forgets a card that could not be reloaded; whether there was one.
    pub fn forget(&self, name: &str) -> bool {
        let mut outages = self.outages.borrow_mut();
        let is_over = outages.get(name).is_some_and(|outage| outage.why.is_some());
        is_over && outages.remove(name).is_some()
    }

    /// Lets a card go, has it reconfigured, and serves it again.
    pub async fn reload(&self, order: ReloadOrder, hire: mpsc::UnboundedSender<Worker>) {
        let ReloadOrder { only, image, told } = order;
        let renewed = self.renew(&only.card, image, &hire).await;
        drop(only);
        // Whoever asked may have gone.
        let _ = told.send(renewed);
    }

    async fn renew(
        &self,
        name: &str,
        image: Box<dyn ImageFile>,
        hire: &mpsc::UnboundedSender<Worker>,
    ) -> Result<String> {
        let reloader = self.reloader()?;
        match self.card(name) {
            Ok(card) => {
                let state = CardState { transfers: 0, ..card.state() };
                let outage = Outage { state, why: None };
                self.outages.borrow_mut().insert(name.to_owned(), outage);
                card.leaving.begin("is being reloaded");
                // Channels that do not close are one more reason to reload their card.
                let _ = self.let_go(card).await;
            }
            Err(error) => match self.outages.borrow_mut().get_mut(name) {
                Some(outage) => outage.why = None,
                None => return Err(error),
            },
        }
        let failed = |why: String| BridgeError::new(Stage::Reload, Failed, why);
        let renewed = match reloader.reload(name, image).await {
            Ok(renewed) => {
                let added = self.add(name, renewed.card, hire).await;
                added.map(|()| renewed.said).map_err(|error| failed(error.to_string()))
            }
            Err(why) => Err(failed(why)),
        };
        let mut outages = self.outages.borrow_mut();
        match &renewed {
            Ok(_) => drop(outages.remove(name)),
            Err(error) => {
                let why = Some(error.why.to_string());
                outages.entry(name.to_owned()).and_modify(|outage| outage.why = why);
            }
        }
        renewed
    }

    fn reloader(&self) -> Result<&dyn crate::reload::Reloader> {
        let why = "this server reloads no cards";
        let none = || BridgeError::new(Stage::Request, Unsupported, why);
        self.reloader.as_deref().ok_or_else(none)
    }

    /// Reads an image from the client's memory into a file.
    async fn image(
        &self,
        control: &Control<R::Connection>,
        request: &ReloadRequest,
    ) -> Result<Box<dyn ImageFile>> {
        let (clock, options) = (&self.clock, &self.options);
        let deadline = after(clock, Picoseconds(request.time_ps).min(options.longest_time));
        let most = PIECE_BYTES.min(request.bytes);
        let what = "waiting for memory that other transfers have";
        let taking = async { Ok(self.memory.take(most).await) };
        let _part = by(clock, deadline, Stage::Registration, what, taking).await?;
        let memory = self.rdma.allocate(most, PageSize::Small).at(Stage::Registration)?;
        let region = self.rdma.register(&memory, RemoteAccess::NONE).await;
        let near = NearEnd { region: region.at(Stage::Registration)?, offset_bytes: 0 };
        let not_stored = |error: std::io::Error| {
            let why = format!("the image cannot be stored: {error}");
            BridgeError::new(Stage::Registration, error.kind().into(), why)
        };
        let mut file = self.reloader()?.file(&request.ending).map_err(not_stored)?;
        let mut sum = Sha256::new();
        let mut piece = vec![0; most as usize];
        let mut told = clock.now();
        let mut at = 0;
        while at < request.bytes {
            let length = most.min(request.bytes - at);
            let far = FarEnd { memory: request.source, offset_bytes: at };
            let connection = control.connection();
            let reading = async { connection.read(&near, far, length).await.at(Stage::RdmaRead) };
            let end = after(clock, options.patience).min(deadline);
            by(clock, end, Stage::RdmaRead, "the image was read", reading).await?;
            let piece = &mut piece[..length as usize];
            near.region.memory().read(0, piece)?;
            file.write_all(piece).map_err(not_stored)?;
            sum.update(&*piece);
            at += length;
            if clock.now().since(told) >= PROGRESS {
                told = clock.now();
                let progress = Reply::Progress { bytes: at, checksum: None };
                let what = "the client takes no message";
                by(clock, end, Stage::Connection, what, control.send(&progress)).await?;
            }
        }
        file.flush().map_err(not_stored)?;
        let theirs: [u8; 32] = sum.finalize().into();
        if theirs != request.sha256 {
            let why = format!(
                "the image was changed on the way: SHA-256 {} was announced, and {} has arrived",
                hex(&request.sha256),
                hex(&theirs)
            );
            return Err(BridgeError::new(Stage::RdmaRead, Data, why));
        }
        Ok(file)
    }
}

/// Checks that a client may reload a card here, and that no other is doing so.
fn admit<R: Rdma<Memory = AnyMemory>, C: Clock>(
    shared: &Shared<R, C>,
    client: &str,
    request: &ReloadRequest,
) -> Result<Only> {
    request.check()?;
    let card = &request.card;
    let options = &shared.options;
    options.guard.check_reload(client, card, options.is_closed_network)?;
    // One that is out of service is reloaded, too.
    if shared.outage(card).is_none() {
        shared.card(card)?;
    }
    let refused = |kind, why: String| BridgeError::new(Stage::Request, kind, why);
    shared.reloader()?.check(card).map_err(|why| refused(Unsupported, why))?;
    if !shared.reloading.borrow_mut().insert(card.clone()) {
        return Err(refused(Busy, format!("{card} is being reloaded")));
    }
    Ok(Only { all: Rc::clone(&shared.reloading), card: card.clone() })
}

/// Reloads a card for a client. Returns the answer, and whether the network may still use this
/// node's memory for it if it has failed.
pub(super) async fn serve<R: Rdma<Memory = AnyMemory>, C: Clock>(
    shared: &Shared<R, C>,
    control: &Control<R::Connection>,
    client: &str,
    request: &ReloadRequest,
) -> (Result<Reply>, bool) {
    let only = match admit(shared, client, request) {
        Ok(only) => only,
        Err(error) => return (Err(error), false),
    };
    let image = match shared.image(control, request).await {
        Ok(image) => image,
        Err(error) => return (Err(error), true),
    };
    let (bytes, sha256) = (request.bytes, request.sha256);
    let (client, card) = (client.to_owned(), request.card.clone());
    (shared.tell)(&ServerEvent::Reloading { client, card, bytes, sha256 });
    let (told, hear) = oneshot::channel();
    let order = ReloadOrder { only, image, told };
    let over = || BridgeError::new(Stage::Reload, LinkDown, "the server has ended");
    if shared.changes.0.unbounded_send(Change::Reload(order)).is_err() {
        return (Err(over()), false);
    }
    match hear.await {
        Ok(Ok(said)) => (Ok(Reply::Reloaded { bytes, sha256, said }), false),
        Ok(Err(error)) => (Err(error), false),
        Err(_) => (Err(over()), false),
    }
}
