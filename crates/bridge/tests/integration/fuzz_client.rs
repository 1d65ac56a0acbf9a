// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server that answers with anything: a client's call ends, in time, with an outcome or an error;
//! memory that it has not lent for the call is not touched.

use std::pin::pin;

use bolero::TypeGenerator;
use crosslane_bridge::messages::{Failure, PeerTarget, Reply, Welcome, encode};
use crosslane_bridge::{Mode, Path, Report, Stage};
use crosslane_host::{
    Clock, FarEnd, NearEnd, Rdma, RdmaConnection, RdmaListener, RdmaRegion, RemoteMemory,
};
use crosslane_pcie::units::Picoseconds;
use futures_util::future::{Either, select};

use crate::support;
use support::{SECOND_PS, SERVER, Scene, bytes_of, options, pattern, place};

/// Inputs of a plain run; each is a lab.
const SESSIONS: usize = 60;
/// Answers to one call.
const MOST_ANSWERS: usize = 6;
/// Length of the client's memory, bytes.
const OWN_BYTES: u64 = 20_000;
/// Time of a call.
const TIME: Picoseconds = Picoseconds::from_ns(1_000_000);

#[derive(Clone, Debug, TypeGenerator)]
enum Answer {
    Bytes(Vec<u8>),
    Ready,
    /// With as many bytes as were asked for, or another number.
    Done(Option<u16>, Option<u32>),
    Data(Option<u16>),
    Progress(u64, Option<u32>),
    Taken(u64, u64),
    Cards(Vec<String>),
    Failed(u64, u64, String),
    Reloaded(u64, [u8; 32], String),
    /// Reads or writes the client's memory, or what lies beside it.
    Access {
        is_read: bool,
        key: i8,
        offset: u16,
        bytes: u16,
    },
    Waits(u32),
    Closes,
}

/// The call of the client.
#[derive(Clone, Copy, Debug, TypeGenerator)]
enum Call {
    Put,
    SmallPut,
    Get,
    SmallGet,
    RoundTrip,
    Copy,
    Cards,
    Survey,
    Reload,
}

fn report(bytes: u64, checksum: Option<u32>) -> Report {
    Report {
        path: Path::ToFpga,
        mode: Mode::Pipelined,
        bytes,
        elapsed_ps: 0,
        start_ps: u64::MAX,
        slot_bytes: 0,
        chunks: 0,
        is_zero_copy: false,
        stages: Vec::new(),
        steps: Vec::new(),
        processor_ps: None,
        checksum,
        card_bytes: 0,
        fair_share_bytes: 0,
        route: None,
    }
}

impl Answer {
    /// Returns the message, if it is one; `bytes` were asked for.
    fn message(&self, bytes: u64) -> Option<Vec<u8>> {
        let number = |other: &Option<u16>| other.map_or(bytes, u64::from);
        let cut = |text: &String| text.chars().take(300).collect();
        let reply = match self {
            Self::Bytes(bytes) => return Some(bytes.iter().copied().take(4000).collect()),
            Self::Ready => Reply::Ready,
            Self::Done(other, checksum) => Reply::Done(report(number(other), *checksum)),
            Self::Data(other) => {
                let data = vec![7; number(other).min(3800) as usize];
                Reply::Data { report: report(data.len() as u64, None), data }
            }
            Self::Progress(bytes, checksum) => {
                Reply::Progress { bytes: *bytes, checksum: *checksum }
            }
            Self::Taken(offset_bytes, bytes) => {
                Reply::Taken { offset_bytes: *offset_bytes, bytes: *bytes }
            }
            Self::Cards(cards) => Reply::Cards(cards.iter().take(8).map(cut).collect()),
            Self::Failed(arrived_bytes, total_bytes, why) => Reply::Failed(Failure {
                stage: Stage::Dma,
                why: cut(why),
                arrived_bytes: *arrived_bytes,
                total_bytes: *total_bytes,
            }),
            Self::Reloaded(bytes, sha256, said) => {
                Reply::Reloaded { bytes: *bytes, sha256: *sha256, said: cut(said) }
            }
            Self::Access { .. } | Self::Waits(_) | Self::Closes => return None,
        };
        encode(&reply).ok()
    }
}

#[test]
fn fuzz_replies() {
    bolero::check!()
        .with_type::<(Call, Vec<Answer>)>()
        .with_iterations(SESSIONS)
        .for_each(|(call, answers)| session(*call, answers));
}

fn session(call: Call, answers: &[Answer]) {
    let scene = Scene::new(10);
    let run = scene.simulation.run("test", async {
        let own = scene.filled(OWN_BYTES, 1).await;
        let foreign = scene.filled(OWN_BYTES, 2).await;
        let small = scene.filled(1000, 3).await;
        let lent = own.region.remote();
        let listener = scene.network.listen(SERVER).await.expect("it is free");
        let serving = async {
            let Ok(connection) = listener.accept().await else { return };
            let _ = connection.receive().await;
            let _ = connection.send(&encode(&Welcome::Yes(Vec::new())).expect("short")).await;
            let _ = connection.receive().await;
            for answer in answers.iter().take(MOST_ANSWERS) {
                if let Some(message) = answer.message(OWN_BYTES) {
                    let _ = connection.send(&message).await;
                }
                match answer {
                    Answer::Access { is_read, key, offset, bytes } => {
                        let key = lent.key.wrapping_add_signed((*key).into());
                        let memory = RemoteMemory { key, ..lent };
                        let far = FarEnd { memory, offset_bytes: u64::from(*offset) };
                        let bytes = u64::from(*bytes).clamp(1, OWN_BYTES);
                        let region = scene.filled(OWN_BYTES, 9).await.region;
                        let near = NearEnd { region, offset_bytes: 0 };
                        let _ = match is_read {
                            true => connection.read(&near, far, bytes).await,
                            false => connection.write(&near, far, bytes).await,
                        };
                    }
                    Answer::Waits(time) => {
                        let until = Picoseconds(scene.bus_now() + u64::from(*time));
                        scene.clock().sleep_until(until).await;
                    }
                    Answer::Closes => connection.close().await,
                    _ => {}
                }
            }
            // Silent from here on.
            std::future::pending().await
        };
        let calling = async {
            let client = scene.client().await;
            let options = options().with_time(TIME);
            let to = place("card", 0);
            let begun = scene.bus_now();
            let none = |_| {};
            match call {
                Call::Put => drop(client.put(&own, &to, &options, none).await),
                Call::SmallPut => drop(client.put(&small, &to, &options, none).await),
                Call::Get => {
                    if let Ok(outcome) = client.get(&to, &own, &options, none).await {
                        let _ = outcome.check(&own);
                    }
                }
                Call::SmallGet => drop(client.get(&to, &small, &options, none).await),
                Call::RoundTrip => {
                    drop(client.round_trip("card", &own, &own, &options, none).await);
                }
                Call::Copy => {
                    let card = "other".to_owned();
                    let peer = PeerTarget { server: String::new(), card, address: 0 };
                    drop(client.copy(&to, peer, OWN_BYTES, &options, none).await);
                }
                Call::Cards => drop(client.cards().await),
                Call::Survey => drop(client.survey().await),
                Call::Reload => {
                    if let Ok(reloaded) = client.reload("card", &own, "bit", TIME, none).await {
                        assert_eq!(reloaded.bytes, OWN_BYTES);
                    }
                }
            }
            // An answer has ten seconds; the last words that a client waits for have two.
            let is_question = matches!(call, Call::Cards | Call::Survey);
            let most = if is_question { 11 } else { 3 } * SECOND_PS;
            assert!(scene.bus_now() - begun < most, "it ends in time");
            client.close().await;
        };
        let (calling, serving) = (pin!(calling), pin!(serving));
        assert!(matches!(select(calling, serving).await, Either::Left(_)), "the client ends");
        assert!(bytes_of(&foreign) == pattern(OWN_BYTES, 2), "nobody has lent this memory");
    });
    run.expect("nothing hangs");
}
