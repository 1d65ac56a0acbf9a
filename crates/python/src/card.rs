// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cards as Python code sees them.

use std::sync::Arc;

use crosslane::driver::{
    Buffer as Registered, ChannelKind, ChannelOptions, CompletionLevel, DescriptorSource,
    Notification, StreamSource, Target, Transfer as Posted,
};
use crosslane::host::{Bus, PageSize};
use crosslane::open::AnyMemory;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::buffer::Buffer;
use crate::error::Failure;
use crate::memory_card::MemoryCard;
use crate::packets::{self, PacketReceiver};
use crate::peer::{Check, Peer, PeerMemory};
use crate::plan::function_name;
use crate::posted::{ChannelKey, LineKey};
use crate::session::{Owner, Shared};
use crate::transfer::{Asked, Memory, Transfer, part_of, seconds};
use crate::window::{Part, Window};

/// An open card.
#[pyclass(frozen, module = "crosslane")]
pub struct Card {
    shared: Arc<Shared>,
    index: usize,
    #[pyo3(get)]
    pub name: String,
    #[pyo3(get)]
    address: String,
}

/// A transfer that is asked for.
pub struct Job {
    kind: ChannelKind,
    number: u8,
    /// Address in the card's memory; none for its stream.
    pub address: Option<u64>,
    /// Level to wait for.
    pub level: CompletionLevel,
    /// Seconds after which it has failed.
    pub deadline: f64,
    /// Whether it has an interrupt.
    pub reported: bool,
}

impl Card {
    /// Takes a card of a session that was just opened.
    pub const fn new(shared: Arc<Shared>, index: usize, name: String, address: String) -> Self {
        Self { shared, index, name, address }
    }

    /// Returns the name by which its function is found, for a call of a session.
    ///
    /// # Errors
    /// A card of another session.
    pub fn address_in(&self, session: &Shared) -> Result<String, Failure> {
        if std::ptr::eq(Arc::as_ptr(&self.shared), session) {
            return Ok(self.address.clone());
        }
        Err(Failure::argument(format!("{}: it is a card of another session", self.name)))
    }

    /// Returns the name of its function in the tree.
    ///
    /// # Errors
    /// A card of another session, or a closed session.
    pub fn endpoint(&self, py: Python<'_>, session: &Shared) -> PyResult<String> {
        self.address_in(session)?;
        self.shared.call(py, |state| state.endpoint(self.index))
    }

    const fn asked<'a, 'py>(
        &self,
        object: &'a Bound<'py, PyAny>,
        start: u64,
        stop: Option<u64>,
    ) -> Asked<'a, 'py> {
        Asked { object, start, stop, owner: Owner::Card(self.index) }
    }

    const fn channel(&self, kind: ChannelKind, number: u8) -> ChannelKey {
        ChannelKey { card: self.index, kind, number }
    }

    const fn key(&self, job: &Job) -> LineKey {
        (self.channel(job.kind, job.number), job.address.is_some())
    }

    /// Posts a transfer with a part of a peer's memory.
    fn post_for_peer(
        &self,
        py: Python<'_>,
        memory: &PeerMemory,
        start: u64,
        stop: Option<u64>,
        job: &Job,
    ) -> PyResult<Transfer> {
        let part = part_of(memory.nbytes(), start, stop)?;
        memory.post(py, &self.shared, self.channel(job.kind, job.number), part, job)
    }

    /// Posts a transfer with a part of registered memory.
    fn post(&self, py: Python<'_>, job: &Job, mut memory: Memory) -> PyResult<Transfer> {
        let deadline = seconds("deadline", job.deadline)?;
        let (part, key) = (memory.part.clone(), self.key(job));
        let bytes = part.end - part.start;
        let registered: Registered = memory.registered.clone();
        let target = match job.address {
            Some(address) => Target::Card(registered, part, address),
            None => Target::Buffer(registered, part),
        };
        let posted = self.shared.call(py, |state| {
            let transfer = Posted::new(target, state.bus().after(deadline));
            state.post_by(key, transfer.with_level(job.level), None, job.reported)
        })?;
        if job.level == CompletionLevel::Accepted {
            // The card may still read it when the outcome is known.
            memory.lent_by = None;
        }
        Ok(Transfer::new(&self.shared, posted, bytes, Some(memory)))
    }
}

/// Returns the level of a word; `None` is the strongest that the channel can promise.
///
/// # Errors
/// No such level.
pub fn level_of(
    word: Option<&str>,
    strongest: CompletionLevel,
) -> Result<CompletionLevel, Failure> {
    match word {
        None => Ok(strongest),
        Some("accepted") => Ok(CompletionLevel::Accepted),
        Some("sent") => Ok(CompletionLevel::Sent),
        Some("visible") => Ok(CompletionLevel::Visible),
        Some("acknowledged") => Ok(CompletionLevel::Acknowledged),
        Some(other) => Err(Failure::argument(format!(
            "level {other:?}: it is 'accepted', 'sent', 'visible' or 'acknowledged'"
        ))),
    }
}

/// Returns the kind of a channel by its word.
fn kind_of(word: &str) -> Result<ChannelKind, Failure> {
    match word {
        "h2c" => Ok(ChannelKind::H2c),
        "c2h" => Ok(ChannelKind::C2h),
        "peer" => Ok(ChannelKind::Peer),
        other => {
            let problem = format!("channel {other:?}: it is 'h2c', 'c2h' or 'peer'");
            Err(Failure::argument(problem))
        }
    }
}

/// Returns the source of a stream: a word, or the number of a receive queue.
fn source_of(source: &Bound<'_, PyAny>) -> PyResult<StreamSource> {
    if let Ok(queue) = source.extract::<u8>() {
        return Ok(StreamSource::ReceiveQueue(queue));
    }
    match source.extract::<String>().as_deref() {
        Ok("generator") => Ok(StreamSource::Generator),
        Ok("h2c") => Ok(StreamSource::H2c),
        _ => {
            let shown = source.repr()?;
            let problem = "it is 'generator', 'h2c', or the number of a receive queue";
            Err(Failure::argument(format!("source {shown}: {problem}")).into())
        }
    }
}

#[pymethods]
impl Card {
    /// Registers memory that this card reaches.
    #[pyo3(signature = (bytes, *, huge = true))]
    fn buffer(&self, py: Python<'_>, bytes: u64, huge: bool) -> PyResult<Buffer> {
        let pages = if huge { PageSize::Huge } else { PageSize::Small };
        let (memory, registered) = self.shared.call(py, |state| {
            let device = state.device(self.index)?;
            if bytes == 0 {
                return Err(Failure::argument("a buffer of 0 B is not possible"));
            }
            let memory: AnyMemory = device.bus().allocate(bytes, pages)?;
            let registered = state.run(device.register(memory.clone()))?;
            Ok((memory, registered))
        })?;
        Ok(Buffer::new(&self.shared, Owner::Card(self.index), &memory, registered)?)
    }

    /// Posts a transfer of data to the card: to its stream, or to an address of its memory. It
    /// fails if it is not complete `deadline` seconds from now. Data that are memory of another
    /// card are read past the host. One that is not `reported` has no interrupt: on a channel with
    /// interrupts its end is noticed with that of the next transfer that has one.
    #[pyo3(signature = (data, address = None, *, start = 0, stop = None, channel = 0, level = None,
                        deadline = 10.0, reported = true))]
    #[expect(clippy::too_many_arguments, reason = "options of a transfer, by name")]
    fn to_card(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        address: Option<u64>,
        start: u64,
        stop: Option<u64>,
        channel: u8,
        level: Option<&str>,
        deadline: f64,
        reported: bool,
    ) -> PyResult<Transfer> {
        let level = level_of(level, CompletionLevel::Visible)?;
        let job =
            Job { kind: ChannelKind::H2c, number: channel, address, level, deadline, reported };
        if let Ok(memory) = data.cast::<PeerMemory>() {
            return self.post_for_peer(py, memory.get(), start, stop, &job);
        }
        let asked = self.asked(data, start, stop);
        let lend = |bytes| self.shared.spare_of_card(py, self.index, bytes);
        self.post(py, &job, Memory::source(&self.shared, &asked, lend)?)
    }

    /// Posts a transfer from the card: from its stream, or from an address of its memory. The data
    /// are in `target` when the transfer was waited for; those for a peer's memory were sent then.
    #[expect(clippy::wrong_self_convention, reason = "the name in Python")]
    #[pyo3(signature = (target, address = None, *, start = 0, stop = None, channel = 0,
                        level = None, deadline = 10.0, reported = true))]
    #[expect(clippy::too_many_arguments, reason = "options of a transfer, by name")]
    fn from_card(
        &self,
        py: Python<'_>,
        target: &Bound<'_, PyAny>,
        address: Option<u64>,
        start: u64,
        stop: Option<u64>,
        channel: u8,
        level: Option<&str>,
        deadline: f64,
        reported: bool,
    ) -> PyResult<Transfer> {
        let memory = target.cast::<PeerMemory>().ok();
        let strongest = memory.map_or(CompletionLevel::Visible, |_| CompletionLevel::Sent);
        let level = level_of(level, strongest)?;
        let job =
            Job { kind: ChannelKind::C2h, number: channel, address, level, deadline, reported };
        if let Some(memory) = memory {
            return self.post_for_peer(py, memory.get(), start, stop, &job);
        }
        if level == CompletionLevel::Accepted {
            let problem = "the level accepted cannot be promised: data go to Python's memory when \
                           the transfer was waited for";
            return Err(Failure::unsupported(problem).into());
        }
        let asked = self.asked(target, start, stop);
        let lend = |bytes| self.shared.spare_of_card(py, self.index, bytes);
        self.post(py, &job, Memory::sink(&self.shared, &asked, lend)?)
    }

    /// Sends packets to the card's stream, with one doorbell: the objects of a sequence, such as
    /// the rows of an array, or the parts of one object that have these lengths, one behind the
    /// other. `users` are the user bits (`tuser`) of all, or of each. The transfer ends with the
    /// last of them.
    #[pyo3(signature = (data, *, lengths = None, users = None, deadline = 10.0))]
    fn send_packets(
        &self,
        data: &Bound<'_, PyAny>,
        lengths: Option<Vec<u64>>,
        users: Option<&Bound<'_, PyAny>>,
        deadline: f64,
    ) -> PyResult<Transfer> {
        let channel = (&self.shared, self.channel(ChannelKind::H2c, 0));
        packets::send(data, lengths, users, channel, deadline)
    }

    /// Posts places for packets of the card's stream. A packet that is longer than a place goes on
    /// in the next one.
    #[pyo3(signature = (places = 64, place_bytes = 2048))]
    fn packet_receiver(
        &self,
        py: Python<'_>,
        places: u64,
        place_bytes: u64,
    ) -> PyResult<PacketReceiver> {
        let key = self.channel(ChannelKind::C2h, 0);
        PacketReceiver::open(py, &self.shared, key, places, place_bytes)
    }

    /// Posts a copy within the card's memory.
    #[pyo3(signature = (source, target, bytes, *, deadline = 10.0))]
    fn copy(
        &self,
        py: Python<'_>,
        source: u64,
        target: u64,
        bytes: u64,
        deadline: f64,
    ) -> PyResult<Transfer> {
        let span = seconds("deadline", deadline)?;
        let key = (self.channel(ChannelKind::C2h, 0), true);
        let posted = self.shared.call(py, |state| {
            let target = Target::CardToCard { from: source, to: target, bytes };
            state.post(key, Posted::new(target, state.bus().after(span)), None)
        })?;
        Ok(Transfer::new(&self.shared, posted, bytes, None))
    }

    /// Connects a peer channel of this card to a receive queue of another card of the session.
    /// Without a path `PlanError` says why.
    #[pyo3(signature = (other, *, channel = 0, credits = true, policy = "stall"))]
    fn peer(
        &self,
        py: Python<'_>,
        other: &Bound<'_, Card>,
        channel: u8,
        credits: bool,
        policy: &str,
    ) -> PyResult<Peer> {
        let other = other.get();
        other.address_in(&self.shared)?;
        let key = self.channel(ChannelKind::Peer, channel);
        Peer::connect(py, &self.shared, key, other.index, credits, policy)
    }

    /// Opens memory of another card, which this card can then read.
    #[pyo3(signature = (other, bar = 2))]
    fn peer_memory(
        &self,
        py: Python<'_>,
        other: &Bound<'_, PyAny>,
        bar: u8,
    ) -> PyResult<PeerMemory> {
        let name = function_name(&self.shared, other)?;
        let of_card = other.cast::<Card>().ok().map(|card| card.get().index);
        PeerMemory::open(py, &self.shared, self.index, &name, of_card, bar)
    }

    /// Opens a window into a BAR, or a part of one, that the host stores into and loads from.
    /// `decoded_bytes` is what a FIFO decodes from its beginning.
    #[pyo3(signature = (bar, start = 0, stop = None, *, mapping = "uncached",
                        contents = "registers", decoded_bytes = 0))]
    #[expect(clippy::too_many_arguments, reason = "options of a window, by name")]
    fn window(
        &self,
        py: Python<'_>,
        bar: u8,
        start: u64,
        stop: Option<u64>,
        mapping: &str,
        contents: &str,
        decoded_bytes: u64,
    ) -> PyResult<Window> {
        let part = Part { bar, start, stop, decoded_bytes };
        Window::open(py, &self.shared, (self.index, &self.address), part, mapping, contents)
    }

    /// Opens the card as a memory card.
    fn memory_card(&self, py: Python<'_>) -> PyResult<MemoryCard> {
        MemoryCard::open(py, &self.shared, self.index)
    }

    /// Chooses the data of the stream to host memory and of that to the peer: the generator's,
    /// those that come in from host memory, or those of a receive queue.
    #[pyo3(signature = (c2h, peer = None))]
    fn route(
        &self,
        py: Python<'_>,
        c2h: &Bound<'_, PyAny>,
        peer: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let c2h = source_of(c2h)?;
        let peer = peer.map_or(Ok(StreamSource::Generator), source_of)?;
        self.shared.call(py, |state| state.route(self.index, c2h, peer))
    }

    /// Sets how a channel is opened, which its first transfer does. One that is open is closed
    /// before. With `packets` H2C 0 sends packets, and C2H 0 receives them; `drop_packets` there
    /// drops and counts those that find no place, which wait otherwise. With `command_port` peer
    /// channel 0 is for `Peer.command` and `Peer.ping_pong`. With `oversize` `payload_bytes` are
    /// used even beyond Max_Payload_Size; the ports that detect it are in the error's `ports`.
    #[pyo3(signature = (kind, number = 0, *, ring_entries = None, table = false, notify = "poll",
                        payload_bytes = None, relaxed_ordering = false, packets = false,
                        drop_packets = false, command_port = false, oversize = false))]
    #[expect(clippy::too_many_arguments, reason = "options of a channel, by name")]
    fn set_channel(
        &self,
        py: Python<'_>,
        kind: &str,
        number: u8,
        ring_entries: Option<u32>,
        table: bool,
        notify: &str,
        payload_bytes: Option<u32>,
        relaxed_ordering: bool,
        packets: bool,
        drop_packets: bool,
        command_port: bool,
        oversize: bool,
    ) -> PyResult<()> {
        let options = ChannelOptions::default();
        let descriptors = match (table, command_port, ring_entries) {
            (true, true, _) => {
                let problem = "a channel has its descriptors from a table or from the command port";
                return Err(Failure::argument(problem).into());
            }
            (true, _, Some(_)) => {
                return Err(Failure::argument("a table has no ring_entries").into());
            }
            (_, true, Some(_)) => {
                return Err(Failure::argument("the command port has no ring_entries").into());
            }
            (true, false, None) => DescriptorSource::Table,
            (false, true, None) => DescriptorSource::CommandPort,
            (false, false, None) => options.descriptors,
            (false, false, Some(entries)) => DescriptorSource::Ring { entries },
        };
        let notification = match notify {
            "poll" => Notification::Poll,
            "interrupt" => Notification::Interrupt,
            other => {
                let problem = format!("notify {other:?}: it is 'poll' or 'interrupt'");
                return Err(Failure::argument(problem).into());
            }
        };
        let options = options
            .with_descriptors(descriptors)
            .with_notification(notification)
            .with_payload_bytes(payload_bytes)
            .with_relaxed_ordering(relaxed_ordering)
            .with_packets(packets)
            .with_drop_packets(drop_packets)
            .with_oversize(oversize);
        let key = self.channel(kind_of(kind)?, number);
        self.shared.call(py, |state| state.set_options(key, options))
    }

    /// Returns the counters of a channel, which is opened if it was not.
    #[pyo3(signature = (kind, number = 0))]
    fn counters<'py>(
        &self,
        py: Python<'py>,
        kind: &str,
        number: u8,
    ) -> PyResult<Bound<'py, PyDict>> {
        let key = self.channel(kind_of(kind)?, number);
        let (host, engine) = self.shared.call(py, |state| {
            state.with_channel(key, async |channel| {
                Ok((channel.statistics(), channel.counters().await?))
            })
        })?;
        let named = PyDict::new(py);
        named.set_item("posted", host.posted)?;
        named.set_item("completed", host.completed)?;
        named.set_item("failed", host.failed)?;
        named.set_item("bytes", host.bytes)?;
        named.set_item("descriptors", host.descriptors)?;
        named.set_item("doorbells", host.doorbells)?;
        named.set_item("restarts", host.restarts)?;
        named.set_item("engine_bytes", engine.bytes)?;
        named.set_item("engine_tlps", engine.tlps)?;
        named.set_item("first_clocks", engine.first_clocks)?;
        named.set_item("last_clocks", engine.last_clocks)?;
        named.set_item("no_descriptor_clocks", engine.no_descriptor_clocks)?;
        named.set_item("no_data_clocks", engine.no_data_clocks)?;
        named.set_item("no_tag_clocks", engine.no_tag_clocks)?;
        named.set_item("link_clocks", engine.link_clocks)?;
        named.set_item("no_credit_clocks", engine.no_credit_clocks)?;
        named.set_item("packets", engine.packets)?;
        named.set_item("packets_dropped", engine.packets_dropped)?;
        named.set_item("packets_truncated", engine.packets_truncated)?;
        Ok(named)
    }

    /// Clears the engine's counters and hardware timers.
    fn reset_counters(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.call(py, |state| {
            let device = state.device(self.index)?;
            state.run(device.reset_counters())
        })
    }

    /// Starts comparing the data of H2C channel 0 with the pattern of a seed.
    fn check_h2c(&self, py: Python<'_>, seed: u32) -> PyResult<()> {
        self.shared.call(py, |state| {
            let device = state.device(self.index)?;
            state.run(device.user().check_h2c(seed))
        })
    }

    /// Returns what the checker of H2C channel 0 has found so far.
    fn h2c_check_result(&self, py: Python<'_>) -> PyResult<Check> {
        let found = self.shared.call(py, |state| {
            let device = state.device(self.index)?;
            state.run(device.user().h2c_check_result())
        })?;
        Ok(found.into())
    }

    /// Sets the seed of the generator's pattern.
    fn seed(&self, py: Python<'_>, seed: u32) -> PyResult<()> {
        self.shared.call(py, |state| {
            let device = state.device(self.index)?;
            state.run(device.user().seed(seed))
        })
    }

    /// Time of the engine, in its clocks.
    fn time_clocks(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.call(py, |state| {
            let device = state.device(self.index)?;
            state.run(device.time_clocks())
        })
    }

    /// Resets the card: transfers in flight are lost, and it is opened anew when it is used.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.call(py, |state| state.reset(self.index))
    }

    /// Returns the engine's abilities.
    #[getter]
    fn description<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = self.shared.call(py, |state| Ok(state.device(self.index)?.description()))?;
        let named = PyDict::new(py);
        named.set_item("h2c_channels", found.h2c_channels)?;
        named.set_item("c2h_channels", found.c2h_channels)?;
        named.set_item("peer_channels", found.peer_channels)?;
        named.set_item("receive_queues", found.lanes)?;
        named.set_item("receive_queue_bytes", found.lane_fifo_bytes)?;
        named.set_item("vectors", found.vectors)?;
        named.set_item("tags", found.tags)?;
        named.set_item("table_entries", found.table_entries)?;
        named.set_item("card_memory", found.card_memory)?;
        named.set_item("card_copy", found.card_copy)?;
        named.set_item("packets", found.packets)?;
        named.set_item("push", found.push)?;
        named.set_item("max_write_bytes", found.max_write_bytes)?;
        named.set_item("max_read_bytes", found.max_read_bytes)?;
        named.set_item("clock_ps", found.clock.0)?;
        Ok(named)
    }

    /// Time of the card's bus in seconds.
    #[getter]
    fn now(&self) -> PyResult<f64> {
        Ok(self.shared.now()?.as_seconds())
    }

    fn __repr__(&self) -> String {
        format!("<crosslane.Card {} at {}>", self.name, self.address)
    }
}
