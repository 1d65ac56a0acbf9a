// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of Perfetto's trace format that this crate writes, as protocol buffers.
//!
//! Read first: `protos/perfetto/trace/trace_packet.proto` and `track_event/*.proto` of the Perfetto
//! project, which number the fields. A file is a `Trace`: a sequence of packets, so it can be
//! written incrementally.

use prost::{Message, Oneof};

/// The parser must forget the state of earlier packets of the sequence.
pub const SEQUENCE_INCREMENTAL_STATE_CLEARED: u32 = 1;
/// The packet uses names that earlier packets interned.
pub const SEQUENCE_NEEDS_INCREMENTAL_STATE: u32 = 2;

/// A whole file, or any part of one.
#[derive(Clone, PartialEq, Message)]
pub struct Trace {
    /// Packets of the trace.
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<TracePacket>,
}

/// One record.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    /// Nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    /// Number of the packet's writer: the same in the whole file.
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    /// Names that later packets use by number.
    #[prost(message, optional, tag = "12")]
    pub interned_data: Option<InternedData>,
    /// See the constants of this module.
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    /// Content of the packet.
    #[prost(oneof = "PacketData", tags = "11, 60")]
    pub data: Option<PacketData>,
}

/// Content of a record.
#[derive(Clone, PartialEq, Oneof)]
pub enum PacketData {
    /// An event on a track.
    #[prost(message, tag = "11")]
    TrackEvent(TrackEvent),
    /// The description of a track.
    #[prost(message, tag = "60")]
    TrackDescriptor(TrackDescriptor),
}

/// A track.
#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    /// Number of the track.
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    /// Name of the track.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// Set for a process: a group of tracks.
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    /// The track above it.
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    /// Set for a counter.
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
    /// Order of the tracks below it.
    #[prost(enumeration = "ChildOrder", optional, tag = "11")]
    pub child_ordering: Option<i32>,
    /// Rank of the track among its siblings, for an explicit order.
    #[prost(int32, optional, tag = "12")]
    pub sibling_order_rank: Option<i32>,
}

/// Order of the tracks below one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum ChildOrder {
    /// Chosen by the reader.
    Unknown = 0,
    /// By rank.
    Explicit = 3,
}

/// A process.
#[derive(Clone, PartialEq, Message)]
pub struct ProcessDescriptor {
    /// Number of the process.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// Name of the process.
    #[prost(string, optional, tag = "6")]
    pub process_name: Option<String>,
}

/// A counter.
#[derive(Clone, PartialEq, Message)]
pub struct CounterDescriptor {
    /// Name of its unit.
    #[prost(string, optional, tag = "6")]
    pub unit_name: Option<String>,
}

/// Kind of a track event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum EventType {
    /// Unspecified.
    Unspecified = 0,
    /// A slice begins.
    SliceBegin = 1,
    /// The innermost slice ends.
    SliceEnd = 2,
    /// A counter has a new value.
    Counter = 4,
}

/// An event on a track.
#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    /// Details.
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    /// Kind of event.
    #[prost(enumeration = "EventType", optional, tag = "9")]
    pub r#type: Option<i32>,
    /// The track.
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    /// Number of the event's name, which was interned.
    #[prost(uint64, optional, tag = "10")]
    pub name_iid: Option<u64>,
    /// The value of a counter.
    #[prost(double, optional, tag = "44")]
    pub double_counter_value: Option<f64>,
}

/// A detail of an event.
#[derive(Clone, PartialEq, Message)]
pub struct DebugAnnotation {
    /// Number of the detail's name, if it was interned.
    #[prost(uint64, optional, tag = "1")]
    pub name_iid: Option<u64>,
    /// Value of the detail.
    #[prost(oneof = "AnnotationValue", tags = "3, 6")]
    pub value: Option<AnnotationValue>,
}

/// The value of a detail.
#[derive(Clone, PartialEq, Oneof)]
pub enum AnnotationValue {
    /// A number.
    #[prost(uint64, tag = "3")]
    Number(u64),
    /// Words.
    #[prost(string, tag = "6")]
    Text(String),
}

/// Names by number.
#[derive(Clone, PartialEq, Message)]
pub struct InternedData {
    /// Names of events.
    #[prost(message, repeated, tag = "2")]
    pub event_names: Vec<InternedName>,
    /// Names of details.
    #[prost(message, repeated, tag = "3")]
    pub debug_annotation_names: Vec<InternedName>,
}

/// A name and its number.
#[derive(Clone, PartialEq, Message)]
pub struct InternedName {
    /// The number, from 1.
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    /// The name.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
}
