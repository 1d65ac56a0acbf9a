// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time of single small operations between the host's program and one engine, from the program's
//! call until the data are there. In a lab each time is split by the packets on the card's link:
//! an analyzer in the card's slot would see the same.
//!
//! Read first: [`operations`], then `Moments`, which splits one operation.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

use crosslane_driver::{
    Channel, ChannelKind, ChannelOptions, Contents, DescriptorSource, Device, INLINE_BYTES,
    LINE_BYTES, StreamSource, Target, Transfer, Window, WindowOptions,
};
use crosslane_fabric::LinkDirection;
use crosslane_fabric::trace::{TraceEvent, TraceRecord};
use crosslane_host::{Bus, Mapping, PageSize, lock, setters};
use crosslane_lab::Simulation;
use crosslane_pcie::tlp::TlpKind;
use crosslane_pcie::units::Picoseconds;
use crosslane_results::{Latencies, OperationRow, PublishedTime, Term};
use smart_default::SmartDefault;

use crate::error::{ExperimentError, Result};
use crate::measured::DataErrors;
use crate::pattern::{WORD_BYTES, compare, fill, pattern_bytes};

/// BAR of the registers, of which the first identifies the engine, and the one of the receive
/// queues.
const REGISTERS_BAR: u8 = 0;
const QUEUES_BAR: u8 = 1;
/// Bytes of an operation: at least two words, at most what one descriptor of small pages moves.
const SIZES: RangeInclusive<u64> = 8..=4096;

/// Sizes and numbers of the operations.
#[derive(Clone, Debug, PartialEq, Eq, SmartDefault)]
#[non_exhaustive]
pub struct OperationOptions {
    /// Bytes of an operation, a multiple of 8 from 8 to 4096; rows for each.
    #[default(vec![64])]
    pub sizes: Vec<u64>,
    /// Operations of each kind and size, one at a time, behind one that is not counted.
    #[default(100)]
    pub rounds: u64,
    /// Seed of the data.
    #[default(1)]
    pub seed: u32,
    /// An operation that takes longer than this has failed.
    #[default(Picoseconds::from_ms(1_000))]
    pub timeout: Picoseconds,
}

setters!(OperationOptions {
    with_sizes(sizes: Vec<u64>),
    with_rounds(rounds: u64),
    with_seed(seed: u32),
    with_timeout(timeout: impl Into<Picoseconds>),
});

impl OperationOptions {
    /// Checks that the operations are possible.
    pub(crate) fn check(&self) -> Result<()> {
        let is_possible = |bytes: &u64| SIZES.contains(bytes) && bytes.is_multiple_of(8);
        if let Some(bytes) = self.sizes.iter().find(|bytes| !is_possible(bytes)) {
            let problem = format!("operations of {bytes} B: a multiple of 8 B from 8 to 4096");
            return Err(ExperimentError::refused("operations", problem));
        }
        if self.rounds == 0 {
            return Err(ExperimentError::refused("operations", "at least one of each is needed"));
        }
        Ok(())
    }
}

/// The shortest published time of a device's own read of 64 B of host memory, for comparison.
pub fn published_read() -> PublishedTime {
    PublishedTime {
        what: "DMA read, from the device's command to its data".to_owned(),
        bytes: 64,
        ps: 546_000,
        source: "pcie-bench, LAT_DMA_RD, median, 8 KiB window, warm cache, Dell T430 and T630: \
                 labs/published/pciebench-systems.csv"
            .to_owned(),
    }
}

/// TLP on the card's link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub kind: TlpKind,
    pub is_down: bool,
    /// Time from which it could have been sent.
    ready: Picoseconds,
    /// Time of its first byte on the link.
    pub begin: Picoseconds,
    /// Time at which its last byte left.
    pub end: Picoseconds,
}

/// The link of a card in a lab, whose packets split the time of an operation. It takes the trace of
/// the lab for as long as it exists.
pub struct CardLink<'a> {
    simulation: &'a Simulation,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// Times between the card's logic and the link: to send, and to receive with the way of a byte.
    transmit: Picoseconds,
    receive: Picoseconds,
}

impl<'a> CardLink<'a> {
    /// Begins to watch the link of a card; `None` of one that has no link.
    pub fn of(simulation: &'a Simulation, card: &str) -> Option<Self> {
        let port = simulation.find_port(card)?;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        simulation.with_fabric(|fabric| {
            let id = fabric.port(port).link?;
            let (link, port) = (fabric.link(id).parameters, &fabric.port(port).parameters);
            let generation = link.rate.generation;
            let transmit = port.transmit_latency_at(generation);
            let receive = link.flight + port.receive_latency_at(generation);
            fabric.set_trace(Box::new(move |record: &TraceRecord| {
                let TraceEvent::Tlp { header, ready, end, .. } = record.event else { return };
                if record.direction.link == id {
                    let is_down = record.direction.heading == LinkDirection::Down;
                    let (kind, begin) = (header.kind, record.time);
                    lock(&kept).push(Seen { kind, is_down, ready, begin, end });
                }
            }));
            Some(Self { simulation, seen, transmit, receive })
        })
    }

    pub(crate) fn forget(&self) {
        lock(&self.seen).clear();
    }

    /// Returns the packets since it last forgot them.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        lock(&self.seen).clone()
    }
}

impl Drop for CardLink<'_> {
    fn drop(&mut self) {
        self.simulation.with_fabric(|fabric| drop(fabric.take_trace()));
    }
}

/// Way of a descriptor to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Ring,
    Table,
    /// With its doorbell.
    Pushed,
    /// With its doorbell, and the data with it.
    Inline,
}

impl Way {
    fn options(self) -> ChannelOptions {
        let ring =
            ChannelOptions::default().with_descriptors(DescriptorSource::Ring { entries: 16 });
        match self {
            Self::Ring => ring.with_push(false),
            Self::Table => ring.with_descriptors(DescriptorSource::Table),
            Self::Pushed | Self::Inline => ring,
        }
    }

    /// Returns the sizes, of those asked for, at which a channel of a kind uses this way; for data
    /// inline the most that fits if none does.
    fn sizes(self, kind: ChannelKind, asked: &[u64]) -> Vec<u64> {
        let is_read = kind == ChannelKind::H2c;
        let fits = |bytes: &&u64| **bytes <= INLINE_BYTES;
        match self {
            Self::Ring | Self::Table => asked.to_vec(),
            Self::Pushed if is_read => asked.iter().filter(|bytes| !fits(bytes)).copied().collect(),
            Self::Pushed => asked.to_vec(),
            Self::Inline if !is_read => Vec::new(),
            Self::Inline if asked.iter().any(|bytes| fits(&bytes)) => {
                asked.iter().filter(fits).copied().collect()
            }
            Self::Inline => vec![INLINE_BYTES],
        }
    }
}

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Dma(ChannelKind, Way),
    Store(Mapping),
    RegisterRead,
}

impl Kind {
    fn name(self) -> String {
        match self {
            Self::Dma(_, Way::Inline) => "inline data, pushed".to_owned(),
            Self::Dma(kind, way) => {
                let direction = if kind == ChannelKind::H2c { "read" } else { "write" };
                let way = match way {
                    Way::Ring => "ring",
                    Way::Table => "table",
                    Way::Pushed | Way::Inline => "pushed",
                };
                format!("DMA {direction}, {way}")
            }
            Self::Store(Mapping::Uncached) => "store, uncached".to_owned(),
            Self::Store(Mapping::WriteCombined) => "store, write-combined".to_owned(),
            Self::RegisterRead => "register read".to_owned(),
        }
    }
}

/// One operation, timed.
#[derive(Clone, Debug)]
struct Timed {
    /// Time until the data are at the other end, where that is known.
    data: Option<Picoseconds>,
    /// Part of it from the descriptor at the card to the data.
    card: Option<Picoseconds>,
    /// Time until the program knows.
    done: Picoseconds,
    terms: Vec<Term>,
}

/// Moments of one operation in their order, each with the name of what ends there.
struct Moments {
    begun: Picoseconds,
    all: Vec<(&'static str, Picoseconds)>,
}

impl Moments {
    fn terms(&self) -> Vec<Term> {
        let mut last = self.begun;
        let term = |&(what, time): &(&str, Picoseconds)| {
            let ps = time.since(last).0;
            last = time;
            Term { what: what.to_owned(), ps }
        };
        self.all.iter().map(term).collect()
    }
}

/// Measures DMA reads and writes by ring, by table and pushed, as the card can, stores into a
/// receive queue, and register reads, one at a time. The data of DMA are compared. `link` splits
/// the times, in a lab.
///
/// # Errors
/// Impossible options, a failure of the run, and [`ExperimentError::Refused`] where data are not
/// what was sent.
pub async fn operations(
    device: &Device,
    link: Option<&CardLink<'_>>,
    options: &OperationOptions,
) -> Result<Vec<OperationRow>> {
    options.check()?;
    let bench = Bench { device, link, options };
    let mut rows = Vec::new();
    let description = device.description();
    let has = |way: &Way| match way {
        Way::Ring => true,
        Way::Table => description.table_entries > 0,
        Way::Pushed | Way::Inline => description.push,
    };
    for kind in [ChannelKind::H2c, ChannelKind::C2h] {
        let ways = [Way::Ring, Way::Table, Way::Pushed, Way::Inline];
        for way in ways.into_iter().filter(has) {
            rows.extend(bench.dma(kind, way).await?);
        }
    }
    for mapping in [Mapping::Uncached, Mapping::WriteCombined] {
        rows.extend(bench.stores(mapping).await?);
    }
    rows.push(bench.register_reads().await?);
    Ok(rows)
}

struct Bench<'a> {
    device: &'a Device,
    link: Option<&'a CardLink<'a>>,
    options: &'a OperationOptions,
}

impl Bench<'_> {
    fn now(&self) -> Picoseconds {
        Bus::now(self.device.bus())
    }

    /// Begins an operation.
    fn begin(&self) -> Picoseconds {
        self.link.into_iter().for_each(CardLink::forget);
        self.now()
    }

    /// Returns the packets on the card's link since the beginning of the operation.
    fn seen(&self) -> Vec<Seen> {
        self.link.map_or_else(Vec::new, CardLink::seen)
    }

    /// Returns the row of some operations: the terms are those of one that took the median.
    fn row(&self, kind: Kind, bytes: u64, mut timed: Vec<Timed>) -> OperationRow {
        timed.sort_by_key(|one| one.done);
        let done = Latencies::of(timed.iter().map(|one| one.done.0).collect());
        let typical = timed.into_iter().find(|one| one.done.0 == done.typical_ps);
        let ps = |time: Option<Picoseconds>| time.map(|time| time.0);
        OperationRow {
            what: kind.name(),
            bytes,
            rounds: self.options.rounds,
            data_ps: typical.as_ref().and_then(|one| ps(one.data)),
            card_ps: typical.as_ref().and_then(|one| ps(one.card)),
            done,
            terms: typical.map_or_else(Vec::new, |one| one.terms),
        }
    }

    /// Rows of DMA, one for each size; none if the platform does not let it push.
    async fn dma(&self, kind: ChannelKind, way: Way) -> Result<Vec<OperationRow>> {
        let device = self.device;
        let is_pushed = matches!(way, Way::Pushed | Way::Inline);
        device.user().route(StreamSource::Generator, StreamSource::Generator).await?;
        let mut rows = Vec::new();
        for bytes in way.sizes(kind, &self.options.sizes) {
            let mut channel = device.channel(kind, 0, way.options()).await?;
            if is_pushed && !channel.pushes() {
                channel.close().await?;
                return Ok(rows);
            }
            let mut errors = DataErrors::default();
            let seed = self.options.seed;
            match kind {
                ChannelKind::H2c => device.user().check_h2c(seed).await?,
                _ => device.user().seed(seed).await?,
            }
            let buffer = device.buffer(bytes, PageSize::Huge).await?;
            let mut timed = Vec::new();
            for round in 0..=self.options.rounds {
                let first = round * (bytes / WORD_BYTES);
                if kind == ChannelKind::H2c {
                    fill(&buffer, 0, bytes, seed, first)?;
                }
                let deadline = Picoseconds(self.now().0.saturating_add(self.options.timeout.0));
                let transfer = Transfer::new(Target::Buffer(buffer.clone(), 0..bytes), deadline);
                timed.push(match kind {
                    ChannelKind::H2c => self.read(&mut channel, way, transfer).await?,
                    _ => self.write(&mut channel, way, transfer).await?,
                });
                if kind == ChannelKind::C2h {
                    compare(&buffer, 0, bytes, seed, first, &mut errors)?;
                }
            }
            if kind == ChannelKind::H2c {
                // Data that still wait in the engine are compared before the restart ends.
                channel.restart().await?;
                errors.words = device.user().h2c_check_result().await?.errors.into();
            }
            channel.close().await?;
            buffer.unregister().await?;
            let kind = Kind::Dma(kind, way);
            if errors.words > 0 {
                let (place, words) = (device.function().name.clone(), errors.words);
                let problem = format!(
                    "{}, {bytes} B: {words} words of 4 B are not what was sent",
                    kind.name()
                );
                return Err(ExperimentError::refused(place, problem));
            }
            rows.push(self.row(kind, bytes, timed.split_off(1)));
        }
        Ok(rows)
    }

    /// Makes one DMA read.
    async fn read(&self, channel: &mut Channel, way: Way, transfer: Transfer) -> Result<Timed> {
        let begun = self.begin();
        channel.transfer(transfer).await?;
        let done = self.now();
        let Some(link) = self.link else { return Ok(only_done(done.since(begun))) };
        let (mut moments, reads, seen) = self.until_data(begun, way, TlpKind::MemoryRead)?;
        let status = last(&seen, TlpKind::MemoryWrite, false)?;
        // The status block is built when the data are in the stream.
        let data = Picoseconds(status.ready.0 - link.transmit.0);
        let card = data.since(moments.all[moments.all.len() - 2].1);
        if way == Way::Inline {
            // Nothing is read: the first TLP of the card is the status block.
            moments.all.pop();
        } else {
            moments.all.push((reads, last(&seen, TlpKind::CompletionData, true)?.end));
        }
        moments.all.extend([
            ("card, to the stream", data),
            ("status leaves", status.end),
            ("status to the program", done),
        ]);
        let (data, card) = (Some(data.since(begun)), Some(card));
        Ok(Timed { data, card, done: done.since(begun), terms: moments.terms() })
    }

    /// Makes one DMA write.
    async fn write(&self, channel: &mut Channel, way: Way, transfer: Transfer) -> Result<Timed> {
        let Target::Buffer(buffer, part) = &transfer.target else {
            return Err(ExperimentError::failed("a write without a buffer"));
        };
        let (memory, offset) = (buffer.memory().clone(), part.end - WORD_BYTES);
        let mut word = [0; WORD_BYTES as usize];
        buffer.read(offset, &mut word)?;
        let deadline = transfer.deadline;
        let begun = self.begin();
        let tickets = channel.post(std::slice::from_ref(&transfer)).await?;
        let bus = self.device.bus();
        // The last word changes with each operation: no two of the pattern are equal.
        let seen = bus.wait_memory(&memory, offset, u32::from_le_bytes(word), deadline).await;
        seen.map_err(ExperimentError::failed)?;
        let data = self.now();
        for ticket in tickets {
            channel.wait(ticket).await?;
        }
        let done = self.now();
        let (data_span, span) = (Some(data.since(begun)), done.since(begun));
        if self.link.is_none() {
            return Ok(Timed { data: data_span, ..only_done(span) });
        }
        let (mut moments, writes, seen) = self.until_data(begun, way, TlpKind::MemoryWrite)?;
        let card = data.since(moments.all[moments.all.len() - 2].1);
        let mut sent = seen.iter().filter(|tlp| tlp.kind == TlpKind::MemoryWrite && !tlp.is_down);
        // The status block is the last.
        sent.next_back();
        let sent = sent.next_back().ok_or_else(|| unseen("data"))?;
        moments.all.extend([
            (writes, sent.end),
            ("data to the program", data),
            ("status to the program", done),
        ]);
        Ok(Timed { data: data_span, card: Some(card), done: span, terms: moments.terms() })
    }

    /// Returns the moments of a DMA up to its first TLP of data, the name of what follows, and all
    /// TLPs. The moment before the last is that of the descriptor at the card.
    fn until_data(
        &self,
        begun: Picoseconds,
        way: Way,
        data: TlpKind,
    ) -> Result<(Moments, &'static str, Vec<Seen>)> {
        let mut seen = self.seen();
        seen.sort_by_key(|tlp| tlp.begin);
        let up = |tlp: &&Seen| !tlp.is_down;
        let first = *seen.iter().find(up).ok_or_else(|| unseen("request"))?;
        let is_store = |tlp: &&Seen| tlp.is_down && tlp.kind == TlpKind::MemoryWrite;
        let mut stores = seen.iter().filter(|tlp| is_store(tlp) && tlp.begin < first.begin);
        let doorbell = match way {
            Way::Ring | Way::Table => stores.next_back(),
            // The line; the doorbell is behind it.
            Way::Pushed | Way::Inline => stores.next(),
        };
        let doorbell = doorbell.copied();
        let doorbell = doorbell.ok_or_else(|| unseen("doorbell"))?;
        let call = match way {
            Way::Ring | Way::Table => "call to the doorbell",
            Way::Pushed | Way::Inline => "call to the line",
        };
        let mut all = vec![(call, doorbell.end)];
        let mut head = first;
        if way == Way::Ring {
            let behind = |tlp: &&Seen| up(tlp) && tlp.begin > first.begin && tlp.kind == data;
            head = *seen.iter().find(behind).ok_or_else(|| unseen("request for data"))?;
            let is_answer = |tlp: &&Seen| tlp.is_down && tlp.kind == TlpKind::CompletionData;
            let answer = seen.iter().rfind(|tlp| is_answer(tlp) && tlp.end < head.begin);
            all.push(("card, to the fetch", first.begin));
            all.push(("fetch", answer.ok_or_else(|| unseen("descriptor"))?.end));
        }
        let (name, rest) = match data {
            TlpKind::MemoryRead => ("card, to the read", "read"),
            _ => ("card, to the write", "write leaves"),
        };
        all.push((name, head.begin));
        Ok((Moments { begun, all }, rest, seen))
    }

    /// Rows of stores into the first receive queue, one for each size that it decodes, combined
    /// ones in whole lines of 64 B; none where the window cannot be mapped so.
    async fn stores(&self, mapping: Mapping) -> Result<Vec<OperationRow>> {
        let description = self.device.description();
        let decoded_bytes = description.lane_window_bytes;
        let range = 0..decoded_bytes.min(*SIZES.end());
        if description.lanes == 0 || range.is_empty() {
            return Ok(Vec::new());
        }
        let window = WindowOptions::new(QUEUES_BAR, range.clone())
            .with_mapping(mapping)
            .with_contents(Contents::Fifo { decoded_bytes });
        let function = self.device.function().id;
        let Ok(window) = Window::open(self.device.bus().clone(), function, window) else {
            return Ok(Vec::new());
        };
        let registers = self.registers()?;
        let mut rows = Vec::new();
        // Parts of a combined line may come in any order, which a FIFO does not bear.
        let step = if mapping == Mapping::WriteCombined { LINE_BYTES } else { 1 };
        let fits = |bytes: &&u64| **bytes <= range.end && bytes.is_multiple_of(step);
        for &bytes in self.options.sizes.iter().filter(fits) {
            let data = pattern_bytes(self.options.seed, bytes);
            let mut timed = Vec::new();
            for _ in 0..=self.options.rounds {
                timed.push(self.store(&window, &registers, &data).await?);
            }
            rows.push(self.row(Kind::Store(mapping), bytes, timed.split_off(1)));
        }
        Ok(rows)
    }

    /// Makes one store; the read behind it is the program's proof that the card has the data.
    async fn store(&self, window: &Window, registers: &Window, data: &[u8]) -> Result<Timed> {
        let begun = self.begin();
        window.push(data).await?;
        window.flush().await?;
        let mut word = [0; WORD_BYTES as usize];
        registers.read(0, &mut word).await?;
        let done = self.now();
        let span = done.since(begun);
        let Some(link) = self.link else { return Ok(only_done(span)) };
        let stored = last(&self.seen(), TlpKind::MemoryWrite, true)?;
        let data = stored.end + link.receive;
        let all =
            vec![("call to the link", stored.end), ("card's port", data), ("read behind it", done)];
        let terms = Moments { begun, all }.terms();
        Ok(Timed { data: Some(data.since(begun)), card: None, done: span, terms })
    }

    fn registers(&self) -> Result<Window> {
        let options = WindowOptions::new(REGISTERS_BAR, 0..WORD_BYTES);
        let device = self.device;
        Ok(Window::open(device.bus().clone(), device.function().id, options)?)
    }

    async fn register_reads(&self) -> Result<OperationRow> {
        let registers = self.registers()?;
        let mut timed = Vec::new();
        for _ in 0..=self.options.rounds {
            let begun = self.begin();
            let mut word = [0; WORD_BYTES as usize];
            registers.read(0, &mut word).await?;
            let done = self.now();
            let span = done.since(begun);
            let mut one = Timed { data: Some(span), ..only_done(span) };
            if self.link.is_some() {
                let seen = self.seen();
                let request = last(&seen, TlpKind::MemoryRead, true)?;
                let answer = last(&seen, TlpKind::CompletionData, false)?;
                let all = vec![
                    ("call to the request", request.end),
                    ("card", answer.begin),
                    ("completion to the program", done),
                ];
                one.terms = Moments { begun, all }.terms();
            }
            timed.push(one);
        }
        Ok(self.row(Kind::RegisterRead, WORD_BYTES, timed.split_off(1)))
    }
}

const fn only_done(done: Picoseconds) -> Timed {
    Timed { data: None, card: None, done, terms: Vec::new() }
}

/// Returns the last TLP of a kind in one direction.
fn last(seen: &[Seen], kind: TlpKind, is_down: bool) -> Result<Seen> {
    let found = seen.iter().filter(|tlp| tlp.kind == kind && tlp.is_down == is_down);
    found.max_by_key(|tlp| tlp.end).copied().ok_or_else(|| unseen("answer"))
}

fn unseen(what: &str) -> ExperimentError {
    ExperimentError::failed(format!("no {what} was seen on the card's link"))
}
