// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cards that clients reload while others use the server.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;

use crosslane_bridge::messages::{ReloadRequest, Reply, Request, decode, encode};
use crosslane_bridge::{
    BridgeError, Guard, Identity, ImageFile, Key, MemoryPart, Policy, Reloaded, Reloader, Renewed,
    ServerOptions, Stage,
};
use crosslane_driver::Device;
use crosslane_host::{Bus, ErrorKind, Rdma, RdmaConnection, RdmaRegion};
use crosslane_lab::LabBus;
use crosslane_pcie::units::Picoseconds;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use futures_util::join;

use crate::support;
use support::network::Region;
use support::{
    CARD, Events, LabClient, SECOND_PS, SERVER, Scene, bytes_of, hello, options, pattern, place,
    serve_while,
};

const SECOND: &str = "second";
const BYTES: u64 = 1_000_000;
/// Time for which a card is away.
const AWAY: Picoseconds = Picoseconds::from_ns(200_000);
/// Time until an upload has ended, and its card is let go or away.
const MOMENT: Picoseconds = Picoseconds::from_ns(60_000);

/// Images, as files had them.
type Images = Rc<RefCell<Vec<(String, Vec<u8>)>>>;

/// The file of an image, which goes to the bench when the card is reloaded.
struct Memory(Vec<u8>, Images, String);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.1.borrow_mut().push((self.2.clone(), self.0.clone()));
        Ok(())
    }
}

impl ImageFile for Memory {
    fn path(&self) -> &Path {
        Path::new("")
    }
}

/// Opens cards of the lab again, or fails with the next of these sentences.
pub struct Bench {
    bus: LabBus,
    images: Images,
    outcomes: RefCell<VecDeque<Option<&'static str>>>,
}

impl Bench {
    /// Makes one that succeeds always.
    pub fn new(bus: LabBus) -> Self {
        Self { bus, images: Images::default(), outcomes: RefCell::default() }
    }
}

impl Reloader for Bench {
    fn check(&self, card: &str) -> Result<(), String> {
        if card == CARD { Ok(()) } else { Err(format!("{card} has no program for it")) }
    }

    fn file(&self, ending: &str) -> io::Result<Box<dyn ImageFile>> {
        Ok(Box::new(Memory(Vec::new(), Rc::clone(&self.images), ending.to_owned())))
    }

    fn reload<'a>(
        &'a self,
        card: &'a str,
        _image: Box<dyn ImageFile>,
    ) -> LocalBoxFuture<'a, Result<Renewed, String>> {
        async move {
            Bus::sleep_until(&self.bus, Picoseconds(Bus::now(&self.bus).0 + AWAY.0)).await;
            if let Some(why) = self.outcomes.borrow_mut().pop_front().flatten() {
                return Err(why.to_owned());
            }
            let device = Device::open_by_name(self.bus.clone(), card).await;
            let card = device.map_err(|error| error.to_string())?.into();
            Ok(Renewed { card, said: "done\nwell".to_owned() })
        }
        .boxed_local()
    }
}

/// Runs a program beside a server of both cards, which are reloaded with these outcomes; returns
/// the images and the events.
fn beside(
    options: ServerOptions,
    outcomes: &[Option<&'static str>],
    program: impl AsyncFnOnce(&Scene),
) -> (Vec<(String, Vec<u8>)>, Vec<String>) {
    let scene = Scene::new(100);
    let (events, images) = (Events::default(), Images::default());
    let run = scene.simulation.run("test", async {
        let server = scene.server(&[CARD, SECOND], options, Rc::clone(&events)).await;
        let outcomes = RefCell::new(outcomes.iter().copied().collect());
        let bench = Bench { bus: scene.bus.clone(), images: Rc::clone(&images), outcomes };
        serve_while(server.with_reloader(bench), SERVER, async || program(&scene).await).await;
    });
    run.expect("nothing hangs");
    scene.check_empty();
    (images.take(), events.take())
}

/// A network that nobody else reaches.
fn closed() -> ServerOptions {
    Scene::small().with_closed_network(true)
}

async fn reload(
    client: &LabClient,
    card: &str,
    image: &MemoryPart<Region>,
) -> Result<Reloaded, BridgeError> {
    client.reload(card, image, "bit", Picoseconds(SECOND_PS), |_| {}).await
}

fn why<T>(result: Result<T, BridgeError>) -> String {
    result.err().expect("it is refused").why.to_string()
}

/// Puts data into a card and gets them back.
async fn is_served(scene: &Scene, client: &LabClient, card: &str, seed: u8) {
    let (source, back) = (scene.filled(5000, seed).await, scene.empty(5000).await);
    client.put(&source, &place(card, 99), &options(), |_| {}).await.expect("it is put");
    client.get(&place(card, 99), &back, &options(), |_| {}).await.expect("it is got");
    assert!(bytes_of(&back) == pattern(5000, seed), "{card}");
}

/// Longer than a piece, and with an end that is none.
const IMAGE_BYTES: u64 = (1 << 20) + 4321;

#[test]
fn a_card_is_reloaded_while_others_are_served() {
    let (images, events) = beside(closed(), &[], async |scene| {
        let (one, two) = (scene.client().await, scene.client().await);
        let (third, other) = (scene.client().await, scene.client().await);
        let image = scene.filled(IMAGE_BYTES, 5).await;
        let (long, source) = (scene.filled(10 * BYTES, 3).await, scene.filled(BYTES, 4).await);
        let settings = options();
        let (to_first, to_second) = (place(CARD, 0), place(SECOND, 0));
        let beside = async {
            let moment = scene.bus_now() + 2 * MOMENT.0 + IMAGE_BYTES * 100;
            Bus::sleep_until(&scene.bus, Picoseconds(moment)).await;
            let error = reload(&third, CARD, &image).await;
            assert_eq!(why(error), format!("{CARD} is being reloaded"));
            let survey = third.survey().await.expect("it answers");
            let states = survey.cards.into_iter().map(|card| (card.name, card.outage));
            let out = Some("being reloaded".to_owned());
            let expected = [(SECOND.to_owned(), None), (CARD.to_owned(), out)];
            assert_eq!(states.collect::<Vec<_>>(), expected);
            let put = third.put(&source, &to_first, &settings, |_| {}).await;
            assert_eq!(why(put), format!("{CARD} is being reloaded"));
            other.put(&source, &to_second, &settings, |_| {}).await.expect("another card");
        };
        let reloading = async {
            Bus::sleep_until(&scene.bus, Picoseconds(scene.bus_now() + MOMENT.0)).await;
            reload(&one, CARD, &image).await
        };
        let putting = two.put(&long, &to_first, &settings, |_| {});
        let (reloaded, put, ()) = join!(reloading, putting, beside);
        let error = put.expect_err("its card is reloaded");
        assert_eq!(error.why.to_string(), format!("{CARD} is being reloaded"));
        assert!(error.arrived_bytes > 0 && error.arrived_bytes < 10 * BYTES, "{error}");
        let reloaded = reloaded.expect("it is reloaded");
        assert_eq!((reloaded.bytes, reloaded.said.as_str()), (IMAGE_BYTES, "done\nwell"));
        // The same connections use the card as before.
        is_served(scene, &one, CARD, 7).await;
        is_served(scene, &third, SECOND, 8).await;
        reload(&one, CARD, &image).await.expect("it is reloaded again");
    });
    let image = ("bit".to_owned(), pattern(IMAGE_BYTES, 5));
    assert!(images == [image.clone(), image]);
    let of_reload: Vec<&String> =
        events.iter().filter(|event| event.contains("reloaded")).collect();
    let begun = format!(": {CARD} is reloaded with {IMAGE_BYTES} B, SHA-256 ");
    assert!(of_reload[0].starts_with(&begun), "{of_reload:?}");
    let done = format!(": {CARD} was reloaded and is served again");
    assert!(of_reload.contains(&&done), "{of_reload:?}");
}

#[test]
fn only_a_client_with_the_right_reloads_a_card() {
    let key = |byte| Key::new([byte; 32]);
    let client = |name: &str, byte, access: &str| {
        format!(
            "[[client]]\nname = '{name}'\nkey = '{}'\n\
             [[client.allow]]\ncard = '{CARD}'\n{access}\n",
            key(byte).to_hex()
        )
    };
    let text = client("user", 1, "bytes = 0x1000_0000\naccess = 'read-write'")
        + &client("owner", 2, "access = 'reload'");
    let policy = Policy::parse("policy", &text, key(9), |_| Ok(key(3))).expect("it is right");
    let guarded = Scene::small().with_guard(Guard::Keys(policy));
    let (images, _) = beside(guarded, &[], async |scene| {
        let image = scene.filled(5000, 5).await;
        let identity = |name: &str, byte| Identity { name: name.to_owned(), key: Some(key(byte)) };
        let user = scene.client_as(&identity("user", 1)).await.expect("its key");
        let owner = scene.client_as(&identity("owner", 2)).await.expect("its key");
        let error = reload(&user, CARD, &image).await;
        assert_eq!(why(error), format!("user may not reload {CARD}"));
        is_served(scene, &user, CARD, 1).await;
        let error = reload(&owner, SECOND, &image).await;
        assert_eq!(why(error), format!("owner may not reload {SECOND}"));
        // The right to reload is none to memory.
        let put = owner.put(&image, &place(CARD, 0), &options(), |_| {}).await;
        assert!(why(put).starts_with("owner may not write 5000 B"));
        reload(&owner, CARD, &image).await.expect("it may");
        is_served(scene, &user, CARD, 2).await;
    });
    assert_eq!(images.len(), 1);
    let (images, _) = beside(Scene::small(), &[], async |scene| {
        let (client, image) = (scene.client().await, scene.filled(5000, 5).await);
        let error = reload(&client, CARD, &image).await;
        let only = format!("{CARD} is reloaded only for clients of a policy file that gives");
        assert!(why(error).starts_with(&only));
        is_served(scene, &client, CARD, 1).await;
    });
    assert_eq!(images.len(), 0);
    for (access, problem) in [
        ("access = 'reload'\nbytes = 5", "a reload is of the whole card: it has no range"),
        ("access = 'reload'\nserver = 'a:1'", "can only be written, by copies to it"),
    ] {
        let text = client("user", 1, access);
        let parsed = Policy::parse("policy", &text, key(9), |_| Ok(key(3)));
        assert!(parsed.expect_err("it is wrong").to_string().contains(problem));
    }
}

#[test]
fn a_card_that_is_not_reloaded_is_out_of_service() {
    let outcomes = [Some("the programmer found no cable"), Some("it did not come back"), None];
    let (_, events) = beside(closed(), &outcomes, async |scene| {
        let (client, image) = (scene.client().await, scene.filled(5000, 5).await);
        let failed = reload(&client, CARD, &image).await.expect_err("there is no cable");
        assert_eq!(failed.to_string(), "reload: the programmer found no cable");
        let states = async || {
            let survey = client.survey().await.expect("it answers");
            survey.cards.into_iter().map(|card| (card.name, card.outage)).collect::<Vec<_>>()
        };
        let fine = (SECOND.to_owned(), None);
        let out = |why: &str| (CARD.to_owned(), Some(format!("not reloaded: {why}")));
        assert_eq!(states().await, [fine.clone(), out("the programmer found no cable")]);
        let put = client.put(&image, &place(CARD, 0), &options(), |_| {}).await;
        let refused =
            format!("{CARD} is out of service, as it could not be reloaded: the programmer found");
        assert!(why(put).starts_with(&refused));
        is_served(scene, &client, SECOND, 1).await;
        reload(&client, CARD, &image).await.expect_err("it stays away");
        assert_eq!(states().await, [fine.clone(), out("it did not come back")]);
        reload(&client, CARD, &image).await.expect("the third time it does");
        assert_eq!(states().await, [fine, (CARD.to_owned(), None)]);
        is_served(scene, &client, CARD, 2).await;
    });
    let failed = ": reload: the programmer found no cable";
    assert!(events.iter().any(|event| event == failed), "{events:?}");
}

#[test]
fn a_card_out_of_service_keeps_its_name_until_removed() {
    let scene = Scene::new(100);
    let run = scene.simulation.run("test", async {
        let server = scene.server(&[CARD], closed(), Events::default()).await;
        let outcomes = RefCell::new([Some("no")].into());
        let bench = Bench { outcomes, ..Bench::new(scene.bus.clone()) };
        let server = server.with_reloader(bench);
        let changes = server.changes();
        serve_while(server, SERVER, async || {
            let (client, image) = (scene.client().await, scene.filled(5000, 5).await);
            reload(&client, CARD, &image).await.expect_err("it is not");
            let device = async || Device::open_by_name(scene.bus.clone(), CARD).await.expect("one");
            let out = format!("{CARD} is out of service, as it could not be reloaded: no");
            assert_eq!(why(changes.add(CARD, device().await).await), out);
            changes.remove(CARD).await.expect("it is out of service");
            assert_eq!(client.survey().await.expect("it answers").cards, []);
            let gone = format!("{CARD} was removed from this server, which has none");
            assert_eq!(why(changes.remove(CARD).await), gone);
            changes.add(CARD, device().await).await.expect("the name is free");
            is_served(&scene, &client, CARD, 3).await;
        })
        .await;
    });
    run.expect("nothing hangs");
    scene.check_empty();
}

/// A client that is not ours, with a request of any numbers.
#[test]
fn an_image_that_changed_on_the_way_is_not_taken() {
    beside(closed(), &[], async |scene| {
        let image = scene.filled(5000, 5).await;
        let end = Picoseconds(SECOND_PS);
        let good = ReloadRequest {
            card: CARD.to_owned(),
            ending: "bit".to_owned(),
            bytes: 5000,
            sha256: [7; 32],
            source: image.region.remote(),
            time_ps: SECOND_PS,
        };
        let long = "x".repeat(65);
        for (request, why) in [
            (good.clone(), "the image was changed on the way: SHA-256 0707"),
            (ReloadRequest { bytes: 0, ..good.clone() }, "an image of 0 B: 1 to 536870912 are"),
            (ReloadRequest { bytes: u64::MAX, ..good.clone() }, "an image of 18446744073709551615"),
            (ReloadRequest { bytes: 5001, ..good.clone() }, "the image has 5000 B from"),
            (ReloadRequest { ending: "../x".into(), ..good.clone() }, "the ending \"../x\" of the"),
            (ReloadRequest { ending: long.clone(), ..good.clone() }, "the ending \"xxx"),
            (ReloadRequest { card: long, ..good.clone() }, "a card's name of 65 B"),
            (ReloadRequest { card: "no".into(), ..good.clone() }, "there is no card no"),
            (ReloadRequest { card: SECOND.into(), ..good.clone() }, "second has no program"),
            (ReloadRequest { time_ps: 0, ..good }, "the deadline passed while"),
        ] {
            let connection = scene.network.connect(SERVER, end).await.expect("it is there");
            connection.send(&hello("x")).await.expect("it is taken");
            connection.receive().await.expect("it answers");
            let request = encode(&Request::Reload(Box::new(request))).expect("it is short");
            connection.send(&request).await.expect("it is taken");
            let answer = connection.receive().await.expect("it answers");
            let Ok(Reply::Failed(failure)) = decode("a reply", &answer) else {
                panic!("{answer:?} is no failure")
            };
            assert!(failure.why.starts_with(why), "{failure:?}");
            let kind = BridgeError::from(failure).kind();
            assert_eq!(kind, ErrorKind::Failed);
            connection.close().await;
        }
        let client = scene.client().await;
        is_served(scene, &client, CARD, 1).await;
        // A client of ours says no more.
        let image = scene.filled(5000, 5).await;
        let error = client.reload(CARD, &image, "b it", end, |_| {}).await.expect_err("no ending");
        assert_eq!(error.stage, Stage::Request);
    });
}
