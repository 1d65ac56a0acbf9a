// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The control protocol of client and server. Each message is one of the network's small messages;
//! `docs/bridge.md` gives their order.

use crosslane_host::ErrorKind::{Data, Failed, InvalidArgument};
use crosslane_host::{MAX_RDMA_MESSAGE_BYTES, RemoteMemory};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{BridgeError, Result};
use crate::report::{Mode, Path, Report};
use crate::stage::Stage;
pub use reload::ReloadRequest;

mod reload;

/// First bytes of every first message.
pub const MAGIC: [u8; 4] = *b"XLBr";
/// Version of this protocol; others are refused.
pub const VERSION: u16 = 5;
/// Longest name of a client or card, bytes.
pub const MAX_NAME_BYTES: usize = 64;
/// Longest sentence in a message, bytes; the rest is cut.
pub const MAX_SENTENCE_BYTES: usize = 1024;
/// Most bytes of a transfer whose data travel within its messages: what one message holds beside
/// the longest request, or the longest report of such a transfer, and the seal.
pub const MOST_CARRIED_BYTES: u64 = 3840;
/// Largest image that a card is reloaded with, bytes: the server has all of it in a file before the
/// card is touched.
pub const MOST_IMAGE_BYTES: u64 = 512 << 20;
/// Longest ending of an image's file name, bytes.
pub const MOST_ENDING_BYTES: usize = 8;
/// Most bytes of the reasons in a [`Survey`], of all cards that are out of service.
const MOST_OUTAGE_BYTES: usize = 480;
/// Bytes added to a message by encryption.
pub const SEAL_BYTES: usize = 16;

/// The first message of a client, in the clear.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`MAGIC`].
    pub magic: [u8; 4],
    /// [`VERSION`].
    pub version: u16,
    /// Name of the client, which selects the key.
    pub name: String,
    /// The first message of the handshake; empty without a key.
    pub handshake: Vec<u8>,
}

/// The second message of a client that has a key, sealed: it shows that the greeting was not
/// somebody else's, sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmation;

/// The answer of a server, in the clear.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Welcome {
    /// Accepted; holds the second message of the handshake, empty without a key.
    Yes(Vec<u8>),
    /// Refused, for this reason.
    No(String),
}

/// The data of a small transfer, within its messages: the network neither reads nor writes memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Carried {
    /// All data are here (to the FPGA).
    Put(Vec<u8>),
    /// All data come with the answer, [`Reply::Data`] (from the FPGA).
    Get,
}

/// A transfer as requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferRequest {
    /// The path of the data.
    pub path: Path,
    /// Pipelined or naive.
    pub mode: Mode,
    /// Name of the card.
    pub card: String,
    /// First byte in the card's memory; unused in a round trip.
    pub address: u64,
    /// Length of the transfer, bytes.
    pub bytes: u64,
    /// Bytes at its start that have arrived before and are not moved again.
    pub first: u64,
    /// Data within the messages, at most [`MOST_CARRIED_BYTES`], in place of a source or
    /// destination.
    pub carried: Option<Carried>,
    /// Source of the data (to the FPGA, round trip).
    pub source: Option<RemoteMemory>,
    /// Whether the client announces the source's data piece by piece, with [`Request::Chunk`].
    pub is_announced: bool,
    /// Destination of the data (from the FPGA, round trip).
    pub destination: Option<RemoteMemory>,
    /// The other server and its target (FPGA to FPGA).
    pub peer: Option<PeerTarget>,
    /// Least and most bytes of a chunk; `None` for the server's setting.
    pub chunk_bytes: Option<(u64, u64)>,
    /// Time until the deadline, ps.
    pub time_ps: u64,
    /// Whether the report should include a checksum of the data.
    pub checksum: bool,
}

/// The far end of a transfer from FPGA to FPGA.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerTarget {
    /// Address of the other server; empty for the one that is asked, between whose cards the copy
    /// then is.
    pub server: String,
    /// Name of its card.
    pub card: String,
    /// First byte in that card's memory.
    pub address: u64,
}

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// List the cards.
    Cards,
    /// Make a transfer.
    Transfer(Box<TransferRequest>),
    /// Continue a naive transfer: the client's receive buffer is ready.
    Ready,
    /// Read the next piece of announced data from the source.
    Chunk {
        /// First byte, from the start of the source's region.
        offset_bytes: u64,
        /// Length, bytes.
        bytes: u64,
    },
    /// Cancel the transfer.
    Cancel,
    /// Describe the cards.
    Survey,
    /// Reconfigure a card.
    Reload(Box<ReloadRequest>),
}

fn long_name(card: &str) -> String {
    format!("a card's name of {} B: at most {MAX_NAME_BYTES} are possible", card.len())
}

/// Most cards of an answer to [`Request::Survey`]: so many fit into a message.
pub const MOST_SURVEYED: usize = 32;

/// A server as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    /// The cards, the first [`MOST_SURVEYED`] of them.
    pub cards: Vec<CardState>,
    /// Bytes that naive transfers and copies to other servers may have together beside the rings,
    /// and how many of them are free.
    pub memory_bytes: u64,
    /// See `memory_bytes`.
    pub free_memory_bytes: u64,
}

/// A card as its server describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardState {
    /// Name of the card.
    pub name: String,
    /// Its kind.
    pub kind: CardKind,
    /// Bytes of its memory, if it has an end that the server knows.
    pub memory_bytes: Option<u64>,
    /// Transfers under way.
    pub transfers: u32,
    /// Bytes that it has moved since the server began.
    pub moved_bytes: u64,
    /// Slots of each of its two rings, and how many of each are free: to the card and from it.
    pub slots: u32,
    /// See `slots`.
    pub free_slots: [u32; 2],
    /// The reason for which it is out of service, shortened so that the message holds all.
    pub outage: Option<String>,
}

impl Survey {
    /// Shortens the reasons of outages to what a message holds.
    pub(crate) fn shorten(&mut self) {
        let out = self.cards.iter_mut().filter_map(|card| card.outage.as_mut());
        let mut out: Vec<&mut String> = out.collect();
        let most = MOST_OUTAGE_BYTES / out.len().max(1);
        for why in &mut out {
            **why = cut(why, most);
        }
    }
}

/// Kinds of cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum CardKind {
    /// A DMA engine.
    Engine,
    /// Memory of the server's node.
    Memory,
    /// Nothing: it gives zeros.
    Null,
}

/// A server's reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Names of the cards.
    Cards(Vec<String>),
    /// A naive transfer's data return as soon as the client is ready.
    Ready,
    /// Announced data have been read, so that their memory may be reused. Replies come in the order
    /// of the announcements, possibly for parts of them.
    Taken {
        /// First byte, from the start of the source's region.
        offset_bytes: u64,
        /// Length, bytes.
        bytes: u64,
    },
    /// Some bytes have arrived.
    Progress {
        /// Bytes arrived, without a gap from the beginning.
        bytes: u64,
        /// CRC-32 of those that this transfer has moved, if the client asked for it and the bytes
        /// end with a chunk.
        checksum: Option<u32>,
    },
    /// The transfer is complete.
    Done(Report),
    /// The transfer is complete, and these are its data ([`Carried::Get`]).
    Data {
        /// The report.
        report: Report,
        /// All bytes of the transfer.
        data: Vec<u8>,
    },
    /// The transfer failed or was refused.
    Failed(Failure),
    /// The server and its cards.
    Survey(Survey),
    /// The card was reloaded, and is served again.
    Reloaded {
        /// Bytes of the image as the server has it.
        bytes: u64,
        /// SHA-256 of these.
        sha256: [u8; 32],
        /// The last lines that the server's program has written.
        said: String,
    },
}

/// The failure of a transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The stage that failed.
    pub stage: Stage,
    /// The reason.
    pub why: String,
    /// Bytes that have arrived, without a gap from the beginning.
    pub arrived_bytes: u64,
    /// Length of the transfer, bytes.
    pub total_bytes: u64,
}

impl From<BridgeError> for Failure {
    fn from(error: BridgeError) -> Self {
        let BridgeError { stage, why, arrived_bytes, total_bytes } = error;
        Self { stage, why: short(&why.to_string()), arrived_bytes, total_bytes }
    }
}

impl From<Failure> for BridgeError {
    fn from(failure: Failure) -> Self {
        let Failure { stage, why, arrived_bytes, total_bytes } = failure;
        Self::new(stage, Failed, short(&why)).arrived(arrived_bytes, total_bytes)
    }
}

/// Escapes characters that are not printed as themselves: controls, line ends, and those that turn
/// the direction of a text.
pub fn one_line(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars() {
        match c {
            '"' | '\'' | '\\' => line.push(c),
            c => line.extend(c.escape_debug()),
        }
    }
    line
}

/// Shortens a sentence and drops control characters, since it may come from anyone and be shown on
/// a terminal.
pub fn short(sentence: &str) -> String {
    cut(sentence, MAX_SENTENCE_BYTES)
}

fn cut(sentence: &str, most_bytes: usize) -> String {
    let mut short = String::new();
    for c in sentence.chars() {
        if short.len() + c.len_utf8() > most_bytes {
            break;
        }
        short.push(if c.is_control() { ' ' } else { c });
    }
    short
}

/// Encodes a message.
///
/// # Errors
/// If the message is too long.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>> {
    let bytes = postcard::to_stdvec(message).map_err(|error| {
        BridgeError::new(Stage::Request, InvalidArgument, format!("cannot be sent: {error}"))
    })?;
    let most = MAX_RDMA_MESSAGE_BYTES - SEAL_BYTES;
    if bytes.len() > most {
        let why = format!("a message of {} B: at most {most} are possible", bytes.len());
        return Err(BridgeError::new(Stage::Request, InvalidArgument, why));
    }
    Ok(bytes)
}

/// Decodes a message.
///
/// # Errors
/// If the bytes are not such a message.
pub fn decode<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T> {
    let wrong = |why: &dyn std::fmt::Display| {
        let why = format!("{} B from the other node are not {what}: {why}", bytes.len());
        BridgeError::new(Stage::Request, Data, why)
    };
    let (message, rest) = postcard::take_from_bytes(bytes).map_err(|error| wrong(&error))?;
    match rest.len() {
        0 => Ok(message),
        left => Err(wrong(&format_args!("{left} B are left over"))),
    }
}

impl TransferRequest {
    /// Makes a pipelined request for a number of bytes without memory, which the path needs, and
    /// without time.
    pub fn new(path: Path, card: &str, address: u64, bytes: u64) -> Self {
        Self {
            path,
            mode: Mode::Pipelined,
            card: card.to_owned(),
            address,
            bytes,
            first: 0,
            carried: None,
            source: None,
            is_announced: false,
            destination: None,
            peer: None,
            chunk_bytes: None,
            time_ps: 0,
            checksum: false,
        }
    }

    /// Checks that the numbers of a request are consistent, before any of them is used.
    ///
    /// # Errors
    /// The first that is not, with its name and value.
    pub fn check(&self) -> Result<()> {
        self.problem()
            .map_or(Ok(()), |why| Err(BridgeError::new(Stage::Request, InvalidArgument, why)))
    }

    fn problem(&self) -> Option<String> {
        let Self { path, bytes, first, address, .. } = self;
        if *bytes == 0 {
            return Some("a transfer of 0 B is not possible".to_owned());
        }
        if first >= bytes {
            return Some(format!("a transfer of {bytes} B cannot go on from byte {first}"));
        }
        if self.card.len() > MAX_NAME_BYTES {
            return Some(long_name(&self.card));
        }
        if *path != Path::RoundTrip && address.checked_add(*bytes).is_none() {
            return Some(format!("no card has {bytes} B from address {address:#x} on"));
        }
        if let Some((least, most)) = self.chunk_bytes
            && !(1..=most).contains(&least)
        {
            return Some(format!("chunks of {least} B to {most} B were asked for"));
        }
        if let Some(problem) = self.problem_of_carried() {
            return Some(problem);
        }
        let (needs_source, needs_destination) = match path {
            _ if self.carried.is_some() => (false, false),
            Path::ToFpga => (true, false),
            Path::FromFpga => (false, true),
            Path::RoundTrip => (true, true),
            Path::ToPeer | Path::WithinNode => (false, false),
        };
        let to_other = self.peer.as_ref().map(|peer| !peer.server.is_empty());
        let of_path = match path {
            Path::ToPeer => Some(true),
            Path::WithinNode => Some(false),
            _ => None,
        };
        if to_other != of_path {
            return Some(format!("a transfer {path} and its other server do not fit each other"));
        }
        if let Some(peer) = &self.peer {
            let long = peer.server.len().max(peer.card.len());
            if long > 4 * MAX_NAME_BYTES {
                return Some(format!("a name of {long} B for the other server or its card"));
            }
            if peer.address.checked_add(*bytes).is_none() {
                let at = peer.address;
                return Some(format!("no card has {bytes} B from address {at:#x} on"));
            }
            if *path == Path::WithinNode
                && peer.card == self.card
                && peer.address.abs_diff(*address) < *bytes
            {
                let at = peer.address;
                return Some(format!(
                    "{bytes} B from {address:#x} on and from {at:#x} on overlap in {}",
                    self.card
                ));
            }
        }
        let is_copy = self.peer.is_some();
        if self.mode == Mode::Naive && (is_copy || self.is_announced || *first > 0) {
            return Some("a naive transfer is of one piece, from or to one client".to_owned());
        }
        if self.is_announced && *path != Path::ToFpga {
            return Some(format!("data are announced to an FPGA, not {path}"));
        }
        let ends = [
            ("source", needs_source, &self.source, self.is_announced),
            ("destination", needs_destination, &self.destination, false),
        ];
        for (name, is_needed, region, is_partial) in ends {
            match (is_needed, region) {
                (true, None) => return Some(format!("a transfer {path} needs a {name}")),
                (false, Some(_)) => return Some(format!("a transfer {path} has no {name}")),
                (true, Some(region)) => {
                    let needed = if is_partial { 1 } else { *bytes };
                    let RemoteMemory { address, bytes: have, .. } = *region;
                    if !region.holds(0, needed) {
                        return Some(format!(
                            "the {name} has {have} B from {address:#x} on, and {needed} are needed"
                        ));
                    }
                }
                (false, None) => {}
            }
        }
        None
    }

    /// Returns the reason for which messages cannot carry the data of this transfer.
    fn problem_of_carried(&self) -> Option<String> {
        let Self { path, bytes, first, mode, .. } = self;
        let fits = match self.carried.as_ref()? {
            Carried::Put(data) if data.len() as u64 != *bytes => {
                return Some(format!("{} B came for a transfer of {bytes} B", data.len()));
            }
            Carried::Put(_) => *path == Path::ToFpga,
            Carried::Get => *path == Path::FromFpga,
        };
        let is_whole = *mode == Mode::Pipelined && *first == 0 && !self.is_announced;
        if !fits || !is_whole {
            return Some(format!("no message carries the data of this transfer {path}"));
        }
        (*bytes > MOST_CARRIED_BYTES).then(|| {
            format!("a message carries at most {MOST_CARRIED_BYTES} B of data, not {bytes} B")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::StageStatistics;

    fn region(bytes: u64) -> RemoteMemory {
        RemoteMemory { address: 0x1000, key: 7, bytes }
    }

    fn request() -> TransferRequest {
        let source = Some(region(1000));
        let request = TransferRequest::new(Path::ToFpga, "fpga0", 0, 1000);
        TransferRequest { source, time_ps: 1, ..request }
    }

    #[test]
    fn the_largest_survey_fits_into_a_message() {
        let card = CardState {
            name: "x".repeat(MAX_NAME_BYTES),
            kind: CardKind::Memory,
            memory_bytes: Some(u64::MAX),
            transfers: u32::MAX,
            moved_bytes: u64::MAX,
            slots: u32::MAX,
            free_slots: [u32::MAX; 2],
            outage: Some("\u{e4}".repeat(MAX_SENTENCE_BYTES)),
        };
        let cards = vec![card; MOST_SURVEYED];
        for out in [0, 1, 7, MOST_SURVEYED] {
            let mut cards = cards.clone();
            cards[out..].iter_mut().for_each(|card| card.outage = None);
            let (memory_bytes, free_memory_bytes) = (u64::MAX, u64::MAX);
            let mut survey = Survey { cards, memory_bytes, free_memory_bytes };
            survey.shorten();
            assert!(encode(&Reply::Survey(survey.clone())).is_ok(), "{out} are out of service");
            let told = survey.cards.iter().filter_map(|card| card.outage.as_deref());
            assert_eq!(told.filter(|why| !why.is_empty()).count(), out);
        }
    }

    #[test]
    fn a_message_comes_back_as_it_was() {
        let request = Request::Transfer(Box::new(request()));
        let bytes = encode(&request).expect("it is short");
        assert_eq!(decode::<Request>("a request", &bytes), Ok(request));
        let error = decode::<Request>("a request", &bytes[..3]).expect_err("it is cut");
        assert!(
            error.why.to_string().starts_with("3 B from the other node are not a request"),
            "{error}"
        );
        let more = [&bytes[..], &[0]].concat();
        let error = decode::<Request>("a request", &more).expect_err("it is longer");
        assert!(error.why.to_string().ends_with("1 B are left over"), "{error}");
    }

    #[test]
    fn a_line_of_a_log_is_one_line() {
        assert_eq!(one_line("it's \"é\" \\"), "it's \"é\" \\");
        assert_eq!(one_line("a\u{1b}[2J\nb\u{202e}c"), "a\\u{1b}[2J\\nb\\u{202e}c");
    }

    #[test]
    fn numbers_from_the_wire_are_checked_before_use() {
        let wrong = |change: fn(&mut TransferRequest)| {
            let mut request = request();
            change(&mut request);
            request.check().expect_err("it is wrong").why.to_string()
        };
        request().check().expect("it is right");
        assert_eq!(wrong(|r| r.bytes = 0), "a transfer of 0 B is not possible");
        assert_eq!(wrong(|r| r.first = 1000), "a transfer of 1000 B cannot go on from byte 1000");
        assert_eq!(
            wrong(|r| r.address = u64::MAX),
            "no card has 1000 B from address 0xffffffffffffffff on"
        );
        assert_eq!(
            wrong(|r| r.source = Some(region(999))),
            "the source has 999 B from 0x1000 on, and 1000 are needed"
        );
        assert_eq!(
            wrong(|r| r.source = Some(RemoteMemory { address: u64::MAX, key: 0, bytes: 1000 })),
            "the source has 1000 B from 0xffffffffffffffff on, and 1000 are needed"
        );
        assert_eq!(wrong(|r| r.source = None), "a transfer remote -> FPGA needs a source");
        assert_eq!(
            wrong(|r| r.destination = Some(region(1))),
            "a transfer remote -> FPGA has no destination"
        );
        assert_eq!(wrong(|r| r.chunk_bytes = Some((0, 9))), "chunks of 0 B to 9 B were asked for");
        assert_eq!(wrong(|r| r.chunk_bytes = Some((9, 8))), "chunks of 9 B to 8 B were asked for");
        assert!(wrong(|r| r.card = "x".repeat(65)).starts_with("a card's name of 65 B"));
        assert!(wrong(|r| r.path = Path::ToPeer).starts_with("a transfer FPGA -> FPGA"));
    }

    #[test]
    fn the_longest_carried_data_fit_into_a_message() {
        let longest = TransferRequest {
            first: u64::MAX,
            carried: Some(Carried::Put(vec![0xff; MOST_CARRIED_BYTES as usize])),
            chunk_bytes: Some((u64::MAX, u64::MAX)),
            time_ps: u64::MAX,
            ..TransferRequest::new(
                Path::ToFpga,
                &"x".repeat(MAX_NAME_BYTES),
                u64::MAX,
                MOST_CARRIED_BYTES,
            )
        };
        encode(&Request::Transfer(Box::new(longest))).expect("the request fits");
        let most = u64::MAX;
        let stage = StageStatistics {
            stage: Stage::RdmaWrite,
            bytes: most,
            operations: most,
            retries: most,
            busy_ps: most,
            waiting_for_slot_ps: most,
        };
        let report = Report {
            path: Path::FromFpga,
            mode: Mode::Pipelined,
            bytes: most,
            elapsed_ps: most,
            start_ps: most,
            slot_bytes: most,
            chunks: most,
            is_zero_copy: true,
            stages: vec![stage],
            steps: Vec::new(),
            processor_ps: Some(most),
            checksum: Some(u32::MAX),
            card_bytes: most,
            fair_share_bytes: most,
            route: None,
        };
        let data = vec![0xff; MOST_CARRIED_BYTES as usize];
        encode(&Reply::Data { report, data }).expect("the answer fits");
    }

    #[test]
    fn carried_data_are_of_whole_small_transfers() {
        let put = |bytes: u64, data: usize| TransferRequest {
            carried: Some(Carried::Put(vec![0; data])),
            ..TransferRequest::new(Path::ToFpga, "fpga0", 0, bytes)
        };
        let get = |path, bytes| TransferRequest {
            carried: Some(Carried::Get),
            ..TransferRequest::new(path, "fpga0", 0, bytes)
        };
        put(3840, 3840).check().expect("it is right");
        get(Path::FromFpga, 3840).check().expect("it is right");
        let wrong =
            |request: TransferRequest| request.check().expect_err("it is wrong").why.to_string();
        assert_eq!(wrong(put(64, 63)), "63 B came for a transfer of 64 B");
        let long = "a message carries at most 3840 B of data, not 3841 B";
        assert_eq!(wrong(put(3841, 3841)), long);
        assert_eq!(wrong(get(Path::FromFpga, 3841)), long);
        let no = "no message carries the data of this transfer";
        assert_eq!(wrong(get(Path::ToFpga, 64)), format!("{no} remote -> FPGA"));
        assert_eq!(
            wrong(TransferRequest { path: Path::FromFpga, ..put(64, 64) }),
            format!("{no} FPGA -> remote")
        );
        for odd in [
            TransferRequest { first: 1, ..put(64, 64) },
            TransferRequest { mode: Mode::Naive, ..put(64, 64) },
            TransferRequest { is_announced: true, ..put(64, 64) },
        ] {
            assert_eq!(wrong(odd), format!("{no} remote -> FPGA"));
        }
        let source = Some(region(64));
        let both = wrong(TransferRequest { source, ..put(64, 64) });
        assert_eq!(both, "a transfer remote -> FPGA has no source");
    }

    #[test]
    fn sentences_from_outside_are_cut_and_harmless() {
        assert_eq!(short("a\u{1b}[31mb\n"), "a [31mb ");
        assert_eq!(short(&"x".repeat(5000)).len(), MAX_SENTENCE_BYTES);
    }
}
