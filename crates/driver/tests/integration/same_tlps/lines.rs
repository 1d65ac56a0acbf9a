// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traffic by lines of the push aperture, for both engines of `pciebench:crosslane`.

use crosslane_driver::{
    Channel, ChannelKind, ChannelOptions, Contents, Device, Notification, StreamSource, Window,
    WindowOptions,
};
use crosslane_host::{Bus, Mapping, Topology};
use crosslane_lab::{EngineKind, Simulation, open};
use crosslane_random::Random;
use crosslane_regs::push_line;

use crate::lab::setup::*;
use crate::same_tlps::seen::{Places, Recorder, Step};
use crate::same_tlps::workload::{bars_of, links_of};

const CARD: &str = "nfp";
const PUSH_BAR: u8 = 4;
const LINE_BYTES: u64 = push_line::BYTES as u64;
/// Tags of the engine, with those for descriptors, rounded up to a power of two.
const TAGS: u16 = 256;
/// Bytes of the buffer of each direction.
const BUFFER: u64 = 64 << 10;
/// Most descriptors of a step.
const MOST_PIECES: u64 = 12;

/// Work of one channel, alone.
#[derive(Clone, Debug)]
pub enum Work {
    /// Transfers, by offset and length, of posts that do not wait for each other: a single one is
    /// pushed if it is the first.
    Posts(ChannelKind, Vec<Vec<(u64, u64)>>),
    /// A write to the channel's line that is no descriptor: bytes from an offset on.
    Part(ChannelKind, u64, u64),
    /// A whole line whose number is that much beyond the next one.
    Wrong(ChannelKind, u32),
}

/// Steps with a pause between them.
#[derive(Clone, Debug)]
pub struct Lines {
    notification: Notification,
    seed: u64,
    pub steps: Vec<Work>,
}

/// Bytes written, and each channel's counts of descriptors pushed and fetched, and of lines
/// dropped.
#[derive(PartialEq, Eq)]
pub struct Told {
    pub written: Vec<u8>,
    pub counts: [[u32; 3]; 2],
}

/// Outcome on one engine.
pub struct Outcome {
    pub steps: Vec<Step>,
    pub told: Told,
}

impl Lines {
    pub fn random(seed: u64) -> Self {
        let mut rng = Random::with_seed(seed ^ 0x11e5);
        let notification = [Notification::Poll, Notification::Interrupt][rng.usize(..2)];
        let steps = (0..rng.usize(3..=8)).map(|_| Self::step(&mut rng)).collect();
        Self { notification, seed, steps }
    }

    fn step(rng: &mut Random) -> Work {
        let kind = [ChannelKind::H2c, ChannelKind::C2h][rng.usize(..2)];
        match rng.usize(..6) {
            0 => {
                let offset = 4 * rng.u64(..16);
                let most = (LINE_BYTES - offset).min(LINE_BYTES - 4);
                Work::Part(kind, offset, 4 * rng.u64(1..=most / 4))
            }
            1 => Work::Wrong(kind, [1, 2, u32::MAX, 0x8000_0000][rng.usize(..4)]),
            _ => {
                let most = [48, 64, 600, 5_000][rng.usize(..4)];
                let mut left = rng.u64(1..=MOST_PIECES);
                let mut posts = Vec::new();
                while left > 0 && posts.len() < 3 {
                    let count = if rng.bool() { 1 } else { rng.u64(1..=left) };
                    left -= count;
                    let piece = |_| (rng.u64(..2048), rng.u64(1..=most));
                    posts.push((0..count).map(piece).collect());
                }
                Work::Posts(kind, posts)
            }
        }
    }

    pub fn run(&self, kind: EngineKind) -> Outcome {
        let lab = open("pciebench:crosslane").unwrap().with_engines(kind);
        let simulation = Simulation::new(lab.build_engines(1).unwrap());
        simulation.set_time_limit(Some(us(100_000)));
        let recorder = Recorder::of(&simulation);
        let links = links_of(&simulation, &[CARD]);
        let (begins_ps, buffers, bars, push, told) = run(&simulation, async |bus| {
            let functions = bus.functions().unwrap();
            let function = functions.iter().find(|info| info.name == CARD).unwrap();
            let push = function.bars.iter().find(|bar| bar.index == usize::from(PUSH_BAR));
            let push = push.unwrap().base.0;
            let device = Device::open_by_name(bus.clone(), CARD).await.unwrap();
            let (begins_ps, buffers, told) = self.drive(&device).await;
            (begins_ps, buffers, bars_of(&functions, CARD), push, told)
        });
        let places = Places::of(links, &[bars], buffers);
        let places = Places { tags: TAGS, push: Some(push), ..places };
        Outcome { steps: recorder.steps(&places, &begins_ps), told }
    }

    async fn drive(&self, card: &Device) -> (Vec<u64>, Vec<(u64, u64)>, Told) {
        let (out, back) = (filled(card, BUFFER, self.seed as u32).await, empty(card, BUFFER).await);
        let segments = back.segments().iter();
        let buffers = segments.map(|segment| (segment.address.0, segment.bytes)).collect();
        card.user().route(StreamSource::Generator, StreamSource::Generator).await.unwrap();
        let options = ChannelOptions::default().with_notification(self.notification);
        let mut channels = [
            card.channel(ChannelKind::H2c, 0, options).await.unwrap(),
            card.channel(ChannelKind::C2h, 0, options).await.unwrap(),
        ];
        let mut begins_ps = Vec::new();
        for step in &self.steps {
            sleep(card, us(20)).await;
            begins_ps.push(card.bus().now().0);
            match step {
                Work::Posts(kind, posts) => {
                    let buffer = if *kind == ChannelKind::H2c { &out } else { &back };
                    let channel = &mut channels[*kind as usize];
                    assert!(channel.pushes());
                    let (mut tickets, mut place) = (Vec::new(), 0);
                    for post in posts {
                        // Transfers in flight do not overlap.
                        let mut transfer = |&(offset, bytes): &(u64, u64)| {
                            let begin = place + offset % 128;
                            place = begin + bytes;
                            part(buffer, begin, place, VISIBLE)
                        };
                        let transfers: Vec<_> = post.iter().map(&mut transfer).collect();
                        tickets.extend(channel.post(&transfers).await.unwrap());
                    }
                    for ticket in tickets {
                        channel.wait(ticket).await.unwrap();
                    }
                }
                Work::Part(kind, offset, bytes) => {
                    let stored = vec![0x5a; *bytes as usize];
                    line(card, *kind, false).copy(*offset, &stored).await.unwrap();
                }
                Work::Wrong(kind, beyond) => {
                    let posted = channels[*kind as usize].statistics().descriptors as u32;
                    let number = posted.wrapping_add(1).wrapping_add(*beyond);
                    let mut wrong = [0; LINE_BYTES as usize];
                    wrong[..4].copy_from_slice(&number.to_le_bytes());
                    wrong[5] = 64;
                    let window = line(card, *kind, true);
                    window.push(&wrong).await.unwrap();
                    window.flush().await.unwrap();
                }
            }
            sleep(card, us(20)).await;
        }
        let written = contents(&back);
        let mut counts = [[0; 3]; 2];
        for (channel, counts) in channels.iter().zip(&mut counts) {
            *counts = counts_of(channel).await;
        }
        for channel in channels {
            channel.close().await.unwrap();
        }
        (begins_ps, buffers, Told { written, counts })
    }
}

async fn counts_of(channel: &Channel) -> [u32; 3] {
    let counters = channel.counters().await.unwrap();
    [counters.pushed, counters.fetched, counters.pushes_dropped]
}

/// The line of a channel, uncached or for whole lines.
fn line(card: &Device, kind: ChannelKind, is_whole: bool) -> Window {
    let at = if kind == ChannelKind::H2c { 0 } else { 4 * LINE_BYTES };
    let mut options = WindowOptions::new(PUSH_BAR, at..at + LINE_BYTES);
    if is_whole {
        options = options
            .with_mapping(Mapping::WriteCombined)
            .with_contents(Contents::Fifo { decoded_bytes: LINE_BYTES });
    }
    Window::open(card.bus().clone(), card.function().id, options).unwrap()
}
