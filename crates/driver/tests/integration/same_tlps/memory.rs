// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traffic with the card's memory, for both engines of `kc705:crosslane`: into it, out of it, and
//! copies within it.

use crosslane_driver::{ChannelKind, ChannelOptions, Device, Notification, Target, Transfer};
use crosslane_host::{Bus, Topology};
use crosslane_lab::{EngineKind, Simulation, open};
use crosslane_random::Random;

use crate::lab::setup::*;
use crate::same_tlps::seen::{Places, Recorder, Step};
use crate::same_tlps::workload::{bars_of, links_of};

const CARD: &str = "kc705";
/// Bytes of the buffer of each direction.
const BUFFER: u64 = 256 << 10;
/// Bytes of the card's memory that are used: data are read in its lower half, written in its upper
/// half.
const PLACE: u64 = 1 << 20;
const HALF: u64 = PLACE / 2;
/// Most descriptors of a step.
const MOST_PIECES: usize = 12;

/// Transfer of a step: its bytes, and the place in the half of the memory where they are read or
/// written.
#[derive(Clone, Copy, Debug)]
pub enum Piece {
    ToCard { to: u64, bytes: u64 },
    FromCard { from: u64, bytes: u64 },
    Copy { from: u64, to: u64, bytes: u64 },
}

/// Steps with a pause between them, each of one channel.
#[derive(Clone, Debug)]
pub struct Memory {
    notification: Notification,
    seed: u64,
    pub steps: Vec<Vec<Piece>>,
}

/// Outcome on one engine.
pub struct Outcome {
    pub steps: Vec<Step>,
    /// Host buffer and card memory at the end.
    pub contents: Vec<u8>,
}

impl Memory {
    pub fn random(seed: u64) -> Self {
        let mut rng = Random::with_seed(seed ^ 0xca4d);
        let notification = [Notification::Poll, Notification::Interrupt][rng.usize(..2)];
        let steps = (0..rng.usize(2..=5)).map(|_| Self::step(&mut rng)).collect();
        Self { notification, seed, steps }
    }

    /// Targets do not overlap: places are taken one behind another.
    fn step(rng: &mut Random) -> Vec<Piece> {
        let kind = rng.usize(..4);
        let most = [64, 600, 5_000, 20_000][rng.usize(..4)];
        let pieces = rng.usize(1..=MOST_PIECES);
        let mut next = HALF;
        let mut piece = |_| {
            let bytes = rng.u64(1..=most);
            let (to, from) = (next + rng.u64(..64), rng.u64(..HALF - bytes));
            let copies = kind == 2 || (kind == 3 && rng.bool());
            next = to + bytes;
            match (kind, copies) {
                (0, _) => Piece::ToCard { to, bytes },
                (_, true) => Piece::Copy { from, to, bytes },
                (_, false) => Piece::FromCard { from, bytes },
            }
        };
        (0..pieces).map(&mut piece).collect()
    }

    pub fn run(&self, kind: EngineKind) -> Outcome {
        // The gateware's bursts are of 16 beats of its datapath, the model's of the memory's bus.
        let lab = open("kc705:crosslane").unwrap().with_engines(kind);
        let lab =
            lab.with_constant("variant.crosslane.part.kc705.card_memory.burst_beats", 8.into());
        let simulation = Simulation::new(lab.unwrap().build_engines(1).unwrap());
        simulation.set_time_limit(Some(us(100_000)));
        let recorder = Recorder::of(&simulation);
        let links = links_of(&simulation, &[CARD]);
        let (begins_ps, buffers, bars, contents) = run(&simulation, async |bus| {
            let functions = bus.functions().unwrap();
            let device = Device::open_by_name(bus.clone(), CARD).await.unwrap();
            let (begins_ps, buffers, contents) = self.drive(&device).await;
            (begins_ps, buffers, bars_of(&functions, CARD), contents)
        });
        let places = Places::of(links, &[bars], buffers);
        Outcome { steps: recorder.steps(&places, &begins_ps), contents }
    }

    async fn drive(&self, card: &Device) -> (Vec<u64>, Vec<(u64, u64)>, Vec<u8>) {
        let (out, back) = (filled(card, BUFFER, self.seed as u32).await, empty(card, BUFFER).await);
        let whole = filled(card, PLACE, !self.seed as u32).await;
        let segments = back.segments().iter();
        let buffers = segments.map(|segment| (segment.address.0, segment.bytes)).collect();
        let options =
            ChannelOptions::default().with_card_memory(true).with_notification(self.notification);
        let mut h2c = card.channel(ChannelKind::H2c, 0, options).await.unwrap();
        let mut c2h = card.channel(ChannelKind::C2h, 0, options).await.unwrap();
        h2c.transfer(to(Target::Card(whole.clone(), 0..PLACE, 0), VISIBLE)).await.unwrap();
        let mut begins_ps = Vec::new();
        for step in &self.steps {
            sleep(card, us(20)).await;
            begins_ps.push(card.bus().now().0);
            let mut place = 0;
            let transfers: Vec<Transfer> = step
                .iter()
                .map(|piece| {
                    let mut slot = |bytes| {
                        place += bytes;
                        place - bytes..place
                    };
                    let target = match *piece {
                        Piece::ToCard { to, bytes } => Target::Card(out.clone(), slot(bytes), to),
                        Piece::FromCard { from, bytes } => {
                            Target::Card(back.clone(), slot(bytes), from)
                        }
                        Piece::Copy { from, to, bytes } => Target::CardToCard { from, to, bytes },
                    };
                    to(target, VISIBLE)
                })
                .collect();
            let is_written = matches!(step[0], Piece::ToCard { .. });
            let channel = if is_written { &mut h2c } else { &mut c2h };
            for ticket in channel.post(&transfers).await.unwrap() {
                channel.wait(ticket).await.unwrap();
            }
        }
        sleep(card, us(20)).await;
        begins_ps.push(card.bus().now().0);
        c2h.transfer(to(Target::Card(whole.clone(), 0..PLACE, 0), VISIBLE)).await.unwrap();
        let mut found = contents(&back);
        found.extend(contents(&whole));
        for channel in [h2c, c2h] {
            channel.close().await.unwrap();
        }
        (begins_ps, buffers, found)
    }
}
