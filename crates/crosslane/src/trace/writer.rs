// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the records of a fabric as a Perfetto trace, incrementally.
//!
//! Each used direction of a link has a track with a slice for each TLP and DLLP, for retraining,
//! and for idle time with a cause; below it a counter of payload in MB/s.

use std::collections::HashMap;
use std::io::{self, Write};

use crosslane_fabric::IdleReason;
use crosslane_fabric::trace::{TraceEvent, TraceRecord};
use crosslane_fabric::{DirectionId, LinkDirection};
use crosslane_pcie::tlp::{Header, TlpKind};
use crosslane_pcie::units::Picoseconds;
use prost::Message;

use super::messages::*;

/// Number of the only writer of a file.
const SEQUENCE: u32 = 1;
/// Track of the whole run; those of the directions follow, two each.
const RUN_TRACK: u64 = 1;
/// Averaging time of the payload counter, picoseconds.
const WINDOW_PS: u64 = 1_000_000;
/// Size of the output buffer, bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// Names that packets refer to by number.
#[derive(Default)]
struct Names {
    numbers: HashMap<String, u64>,
}

impl Names {
    /// Returns the number of a name, and whether it is new.
    fn number(&mut self, name: &str) -> (u64, bool) {
        if let Some(number) = self.numbers.get(name) {
            return (*number, false);
        }
        let number = self.numbers.len() as u64 + 1;
        self.numbers.insert(name.to_owned(), number);
        (number, true)
    }
}

/// State of one direction.
struct Track {
    uuid: u64,
    counter: u64,
    /// Current idle time, with its start and cause.
    idle: Option<(Picoseconds, IdleReason)>,
    /// First window without a counter value, and its payload so far.
    window: u64,
    window_bytes: u64,
    last_counter: f64,
}

/// A trace file that is being written.
pub struct TraceWriter<W: Write> {
    output: W,
    buffer: Vec<u8>,
    /// Picoseconds that one nanosecond of the file stands for.
    unit_ps: u64,
    tracks: HashMap<DirectionId, Track>,
    label: Box<dyn Fn(DirectionId) -> String + Send>,
    event_names: Names,
    detail_names: Names,
    latest: Picoseconds,
    error: Option<io::Error>,
}

fn packet(data: PacketData, at: Option<u64>) -> TracePacket {
    TracePacket {
        timestamp: at,
        trusted_packet_sequence_id: Some(SEQUENCE),
        interned_data: None,
        sequence_flags: Some(SEQUENCE_NEEDS_INCREMENTAL_STATE),
        data: Some(data),
    }
}

/// Names a TLP in few words, without values that differ within a flow.
fn tlp_name(header: &Header) -> String {
    let bytes = header.request_bytes();
    match header.kind {
        TlpKind::MemoryWrite => format!("MWr {bytes} B"),
        TlpKind::MemoryRead => format!("MRd {bytes} B"),
        TlpKind::CompletionData => format!("CplD {} B", header.payload_bytes()),
        TlpKind::Completion => "Cpl".into(),
        TlpKind::ConfigurationRead => "CfgRd".into(),
        TlpKind::ConfigurationWrite => "CfgWr".into(),
        TlpKind::Message => "Msg".into(),
    }
}

impl<W: Write> TraceWriter<W> {
    /// Begins a file: `lab` names the run, `label` names a direction, and a nanosecond of the
    /// file stands for `unit_ps` picoseconds.
    pub fn new(
        output: W,
        lab: &str,
        unit_ps: u64,
        label: Box<dyn Fn(DirectionId) -> String + Send>,
    ) -> Self {
        let mut writer = Self {
            output,
            buffer: Vec::with_capacity(BUFFER_BYTES + 4096),
            unit_ps: unit_ps.max(1),
            tracks: HashMap::new(),
            label,
            event_names: Names::default(),
            detail_names: Names::default(),
            latest: Picoseconds::ZERO,
            error: None,
        };
        let descriptor = TrackDescriptor {
            uuid: Some(RUN_TRACK),
            process: Some(ProcessDescriptor { pid: Some(1), process_name: Some(lab.into()) }),
            child_ordering: Some(ChildOrder::Explicit.into()),
            ..TrackDescriptor::default()
        };
        let mut first = packet(PacketData::TrackDescriptor(descriptor), None);
        first.sequence_flags = Some(SEQUENCE_INCREMENTAL_STATE_CLEARED);
        writer.put(first);
        writer
    }

    /// Takes one record. An error of the file is kept for [`finish`](Self::finish).
    pub fn record(&mut self, record: &TraceRecord) {
        let (time, direction) = (record.time, record.direction);
        self.open_track(direction);
        self.end_idle(direction, time);
        self.latest = self.latest.max(time);
        match &record.event {
            TraceEvent::Tlp { header, sequence, wire_bytes, ready, end, replay, corrupt, flow } => {
                let mut name = tlp_name(header);
                if *replay {
                    name.push_str(" replay");
                }
                if *corrupt {
                    name.push_str(" corrupt");
                }
                let mut details = vec![
                    ("sequence", AnnotationValue::Number(*sequence)),
                    ("wire bytes", AnnotationValue::Number((*wire_bytes).into())),
                    ("requester", AnnotationValue::Text(header.requester.to_string())),
                ];
                let waited_ns = time.since(*ready).0 / 1000;
                details.push(("waited ns", AnnotationValue::Number(waited_ns)));
                if matches!(header.kind, TlpKind::MemoryWrite | TlpKind::MemoryRead) {
                    details.push(("address", AnnotationValue::Text(header.address.to_string())));
                }
                if header.kind != TlpKind::MemoryWrite {
                    details.push(("tag", AnnotationValue::Number(header.tag.0.into())));
                }
                if let Some(flow) = flow {
                    details.push(("flow", AnnotationValue::Number((*flow).into())));
                }
                self.slice(direction, &name, time, *end, details);
                if !replay {
                    self.count(direction, time, header.payload_bytes().into());
                }
            }
            TraceEvent::Dllp { kind, end, corrupt } => {
                let name = if *corrupt { format!("{kind} corrupt") } else { kind.to_string() };
                self.slice(direction, &name, time, *end, Vec::new());
            }
            TraceEvent::Idle { reason } => {
                if let Some(track) = self.tracks.get_mut(&direction) {
                    track.idle = Some((time, *reason));
                }
            }
            TraceEvent::Retrain { end } => {
                self.slice(direction, "retraining", time, *end, Vec::new());
            }
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The first error of writing, now or before.
    pub fn finish(&mut self) -> io::Result<()> {
        let latest = self.latest;
        let mut directions: Vec<DirectionId> = self.tracks.keys().copied().collect();
        directions.sort_unstable();
        for direction in directions {
            self.end_idle(direction, latest);
            // The window after the last one resets every counter to zero.
            self.count(direction, latest + Picoseconds(2 * WINDOW_PS), 0);
        }
        self.flush();
        match self.error.take() {
            Some(error) => Err(error),
            None => self.output.flush(),
        }
    }

    fn stamp(&self, time: Picoseconds) -> Option<u64> {
        Some(time.0 / self.unit_ps)
    }

    fn put(&mut self, packet: TracePacket) {
        // Each packet is encoded as a `Trace`: protocol buffer messages can be concatenated.
        let encoded = Trace { packet: vec![packet] }.encode(&mut self.buffer);
        debug_assert!(encoded.is_ok(), "a vector grows");
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.error.is_none() {
            self.error = self.output.write_all(&self.buffer).err();
        }
        self.buffer.clear();
    }

    fn open_track(&mut self, direction: DirectionId) {
        if self.tracks.contains_key(&direction) {
            return;
        }
        let uuid = RUN_TRACK + 1 + 2 * self.tracks.len() as u64;
        let counter = uuid + 1;
        let label = (self.label)(direction);
        let rank = 2 * direction.link.0 as i32 + i32::from(direction.heading == LinkDirection::Up);
        let slices = TrackDescriptor {
            uuid: Some(uuid),
            name: Some(label),
            parent_uuid: Some(RUN_TRACK),
            child_ordering: Some(ChildOrder::Explicit.into()),
            sibling_order_rank: Some(rank),
            ..TrackDescriptor::default()
        };
        let payload = TrackDescriptor {
            uuid: Some(counter),
            name: Some("payload".into()),
            parent_uuid: Some(uuid),
            counter: Some(CounterDescriptor { unit_name: Some("MB/s".into()) }),
            ..TrackDescriptor::default()
        };
        for descriptor in [slices, payload] {
            self.put(packet(PacketData::TrackDescriptor(descriptor), None));
        }
        let track =
            Track { uuid, counter, idle: None, window: 0, window_bytes: 0, last_counter: 0.0 };
        self.tracks.insert(direction, track);
    }

    fn end_idle(&mut self, direction: DirectionId, time: Picoseconds) {
        let Some(track) = self.tracks.get_mut(&direction) else { return };
        let Some((since, reason)) = track.idle.take() else { return };
        if reason != IdleReason::NothingToSend && time > since {
            self.slice(direction, &format!("idle: {reason}"), since, time, Vec::new());
        }
    }

    fn slice(
        &mut self,
        direction: DirectionId,
        name: &str,
        begin: Picoseconds,
        end: Picoseconds,
        details: Vec<(&str, AnnotationValue)>,
    ) {
        let mut interned = InternedData::default();
        let entry =
            |number, name: &str| InternedName { iid: Some(number), name: Some(name.into()) };
        let (number, is_new) = self.event_names.number(name);
        if is_new {
            interned.event_names.push(entry(number, name));
        }
        let mut annotations = Vec::with_capacity(details.len());
        for (name, value) in details {
            let (number, is_new) = self.detail_names.number(name);
            if is_new {
                interned.debug_annotation_names.push(entry(number, name));
            }
            annotations.push(DebugAnnotation { name_iid: Some(number), value: Some(value) });
        }
        let track_uuid = self.tracks.get(&direction).map(|track| track.uuid);
        let event = TrackEvent {
            r#type: Some(EventType::SliceBegin.into()),
            track_uuid,
            name_iid: Some(number),
            debug_annotations: annotations,
            ..TrackEvent::default()
        };
        let mut opening = packet(PacketData::TrackEvent(event), self.stamp(begin));
        if interned != InternedData::default() {
            opening.interned_data = Some(interned);
        }
        self.put(opening);
        let event = TrackEvent {
            r#type: Some(EventType::SliceEnd.into()),
            track_uuid,
            ..TrackEvent::default()
        };
        self.put(packet(PacketData::TrackEvent(event), self.stamp(end)));
        self.latest = self.latest.max(end);
    }

    /// Adds payload at a time, and writes the counter of every finished window.
    fn count(&mut self, direction: DirectionId, time: Picoseconds, bytes: u64) {
        let Some(track) = self.tracks.get_mut(&direction) else { return };
        let window = time.0 / WINDOW_PS;
        let mut values = Vec::new();
        if window > track.window {
            // Bytes per microsecond are MB/s.
            let rate = track.window_bytes as f64 * 1e6 / WINDOW_PS as f64;
            values.push((track.window, rate));
            if window > track.window + 1 {
                values.push((track.window + 1, 0.0));
            }
            track.window = window;
            track.window_bytes = 0;
        }
        track.window_bytes += bytes;
        values.retain(|(_, rate)| std::mem::replace(&mut track.last_counter, *rate) != *rate);
        let counter = track.counter;
        for (window, rate) in values {
            let event = TrackEvent {
                r#type: Some(EventType::Counter.into()),
                track_uuid: Some(counter),
                double_counter_value: Some(rate),
                ..TrackEvent::default()
            };
            let at = self.stamp(Picoseconds(window * WINDOW_PS));
            self.put(packet(PacketData::TrackEvent(event), at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosslane_fabric::LinkId;
    use crosslane_fabric::trace::DllpKind;
    use crosslane_pcie::RoutingId;
    use crosslane_pcie::units::BusAddress;

    const UP: DirectionId = DirectionId { link: LinkId(3), heading: LinkDirection::Up };

    fn at(time_ps: u64, event: TraceEvent) -> TraceRecord {
        TraceRecord { time: Picoseconds(time_ps), direction: UP, event }
    }

    fn write_tlp(begin_ps: u64, end_ps: u64) -> TraceRecord {
        let header = Header::memory_write(RoutingId::new(5, 0, 0), BusAddress(0x1000), 128);
        let end = Picoseconds(end_ps);
        let event = TraceEvent::Tlp {
            header,
            sequence: 7,
            wire_bytes: 148,
            ready: Picoseconds(begin_ps),
            end,
            replay: false,
            corrupt: false,
            flow: Some(0),
        };
        at(begin_ps, event)
    }

    fn trace_of(unit_ps: u64, records: &[TraceRecord]) -> Trace {
        let mut file = Vec::new();
        let label = Box::new(|id: DirectionId| format!("link {}", id.link.0));
        let mut writer = TraceWriter::new(&mut file, "lab test", unit_ps, label);
        for record in records {
            writer.record(record);
        }
        writer.finish().expect("a vector takes all");
        Trace::decode(file.as_slice()).expect("what was written can be read")
    }

    fn events(trace: &Trace) -> Vec<(u64, EventType, Option<String>)> {
        let mut names = HashMap::new();
        let mut events = Vec::new();
        for packet in &trace.packet {
            for entry in packet.interned_data.iter().flat_map(|data| &data.event_names) {
                names.insert(entry.iid, entry.name.clone());
            }
            if let Some(PacketData::TrackEvent(event)) = &packet.data {
                let name = event.name_iid.and_then(|iid| names[&Some(iid)].clone());
                events.push((packet.timestamp.unwrap_or(0), event.r#type(), name));
            }
        }
        events
    }

    #[test]
    fn a_slice_for_each_packet_and_for_each_idle_time_with_a_cause() {
        let trace = trace_of(
            1000,
            &[
                write_tlp(1_000, 75_500),
                at(75_500, TraceEvent::Idle { reason: IdleReason::NoCredit }),
                at(
                    90_000,
                    TraceEvent::Dllp {
                        kind: DllpKind::Ack,
                        end: Picoseconds(94_000),
                        corrupt: false,
                    },
                ),
                at(94_000, TraceEvent::Idle { reason: IdleReason::NothingToSend }),
                write_tlp(200_000, 274_000),
            ],
        );
        use EventType::{SliceBegin, SliceEnd};
        let slices: Vec<_> =
            events(&trace).into_iter().filter(|(_, kind, _)| *kind != EventType::Counter).collect();
        let name = |text: &str| Some(text.to_owned());
        let expected = [
            (1, SliceBegin, name("MWr 128 B")),
            (75, SliceEnd, None),
            (75, SliceBegin, name("idle: no credit")),
            (90, SliceEnd, None),
            (90, SliceBegin, name("Ack")),
            (94, SliceEnd, None),
            (200, SliceBegin, name("MWr 128 B")),
            (274, SliceEnd, None),
        ];
        assert_eq!(slices, expected);
    }

    #[test]
    fn a_nanosecond_may_stand_for_a_picosecond() {
        let trace = trace_of(1, &[write_tlp(1_001, 75_502)]);
        let times: Vec<u64> = events(&trace).iter().take(2).map(|(time, _, _)| *time).collect();
        assert_eq!(times, [1_001, 75_502]);
    }

    #[test]
    fn tracks_are_described_before_they_are_used() {
        let trace = trace_of(1000, &[write_tlp(0, 74_000)]);
        let mut known = Vec::new();
        for packet in &trace.packet {
            match &packet.data {
                Some(PacketData::TrackDescriptor(track)) => known.push(track.uuid),
                Some(PacketData::TrackEvent(event)) => {
                    assert!(known.contains(&event.track_uuid), "{event:?}");
                }
                None => panic!("an empty packet"),
            }
        }
        assert_eq!(known.len(), 3, "the run, the direction, its counter");
    }

    #[test]
    fn the_counter_is_payload_by_microsecond() {
        // Ten writes of 128 B in the second microsecond: 1280 MB/s, then none.
        let writes: Vec<TraceRecord> =
            (0..10).map(|n| write_tlp(1_000_000 + n * 80_000, 1_074_000 + n * 80_000)).collect();
        let trace = trace_of(1000, &writes);
        let values: Vec<(u64, f64)> = trace
            .packet
            .iter()
            .filter_map(|packet| match &packet.data {
                Some(PacketData::TrackEvent(event)) => {
                    Some((packet.timestamp?, event.double_counter_value?))
                }
                _ => None,
            })
            .collect();
        assert_eq!(values, [(1_000, 1280.0), (2_000, 0.0)]);
    }

    #[test]
    fn an_output_that_fails_is_told_at_the_end() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut writer = TraceWriter::new(Full, "lab test", 1000, Box::new(|_| String::new()));
        writer.record(&write_tlp(0, 74_000));
        assert_eq!(writer.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
