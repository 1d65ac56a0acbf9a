// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments of the workloads: `bench write`, `read`, `p2p`, `latency` and `chain`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use crosslane::driver::Notification;
use crosslane::experiment::{SizeRange, parse_payload, parse_register_size};
use crosslane::host::PageSize;

use crate::arguments::{MAX_OPERATIONS, ShownArguments, TraceArguments};
use crate::completions::{self, Known};
use crate::engine_argument::EngineArguments;
use crate::place_argument::PlaceArguments;
use crate::values::{one_of, whole};

/// Most transfers that are posted at once: a quarter of the largest ring.
pub const MAX_POSTED: u32 = 1 << 14;
/// Most round trips of a ping-pong: one command covers them all.
pub const MAX_ROUNDS: u64 = 1_000_000;
/// Most flows at once: as many endpoints as a lab can have on one host.
pub const MAX_FLOWS: u16 = 256;

/// Arguments that every workload has.
#[derive(Args, Clone, Debug)]
pub struct WorkloadArguments {
    #[command(flatten)]
    pub place: PlaceArguments,
    #[command(flatten)]
    pub engines: EngineArguments,
    /// Write what happens in the gateware into FST files: FILE, with the name of the endpoint
    /// before its ending.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub trace_fst: Option<PathBuf>,
    /// Bytes of one write TLP or read request; see below.
    #[arg(long, value_name = "N", value_parser = parse_payload)]
    pub payload: Option<u32>,
    /// First set Max_Payload_Size to N bytes in every port on the way, and in no other.
    #[arg(long, value_name = "N", value_parser = parse_register_size)]
    pub mps: Option<u32>,
    /// Random seed; it also makes the data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Skip the bottleneck search: a sweep is then many times faster.
    #[arg(long)]
    pub no_why: bool,
    #[command(flatten)]
    pub shown: ShownArguments,
    #[command(flatten)]
    pub trace: TraceArguments,
}

/// How transfers are made.
#[derive(Args, Clone, Debug)]
pub struct TransferArguments {
    /// Bytes of one transfer, a multiple of 4; 64..4M is a sweep over the powers of two.
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_transfer_sizes)]
    pub size: SizeRange,
    /// Transfers [default: by size, about 8 MiB of data, but 16 to 10000 transfers; of more than
    /// 4 MiB, as many as are 64 MiB, but at least 2].
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=MAX_OPERATIONS))]
    pub iterations: Option<u64>,
    /// Place of descriptors.
    #[arg(long, value_name = "WHERE", default_value = "ring")]
    pub descriptors: DescriptorWord,
    /// How the host is told of completions.
    #[arg(long, value_name = "HOW", default_value = "poll", value_parser = one_of(&NOTIFICATIONS))]
    pub notify: Notification,
}

/// Place of the data in host memory.
#[derive(Args, Clone, Copy, Debug)]
pub struct HostMemoryArguments {
    /// Pages that buffers are made of; each contiguous run of them is a descriptor.
    #[arg(long, value_name = "SIZE", default_value = "huge", value_parser = one_of(&PAGES))]
    pub pages: PageSize,
}

/// Engines at the ends of a way, and the credits between them.
#[derive(Args, Clone, Debug)]
pub struct BetweenArguments {
    /// The endpoint that sends, or that a chain begins with.
    #[arg(long, value_name = "ENDPOINT", value_parser = Known(completions::endpoints),
        hide_possible_values = true)]
    pub from: Option<String>,
    /// The endpoint that receives, or that a chain ends with.
    #[arg(long, value_name = "ENDPOINT", value_parser = Known(completions::endpoints),
        hide_possible_values = true)]
    pub to: Option<String>,
    /// Without credit windows between engines: a sender never stops, and a p2p transfer is complete
    /// when sent.
    #[arg(long)]
    pub no_credits: bool,
}

impl BetweenArguments {
    /// The ends, if they are named.
    pub fn ends(&self) -> (Option<&str>, Option<&str>) {
        (self.from.as_deref(), self.to.as_deref())
    }
}

/// How much is in flight.
#[derive(Args, Clone, Debug)]
pub struct ManyArguments {
    /// Transfers of a flow that are kept posted [default: by size, about 256 KiB of data, but 2
    /// to 64 transfers; 1 by the table and by the command port].
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=MAX_POSTED))]
    pub outstanding: Option<u32>,
    /// Flows at once, each with a thread of its own, released together.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = whole::<u16>(1..=MAX_FLOWS))]
    pub flows: u16,
}

/// Place of descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DescriptorWord {
    /// In the engine's own table, stored there by the processor (write and read).
    Table,
    /// In a ring in host memory, fetched in batches.
    Ring,
    /// At the user circuit's command port (p2p).
    Command,
}

/// Pages of buffers.
const PAGES: [(&str, &str, PageSize); 2] =
    [("small", "4 KiB, lying anywhere", PageSize::Small), ("huge", "2 MiB", PageSize::Huge)];
/// How the host is told of completions.
pub const NOTIFICATIONS: [(&str, &str, Notification); 2] = [
    ("poll", "A status block in memory is polled", Notification::Poll),
    ("interrupt", "The thread sleeps until an interrupt", Notification::Interrupt),
];

/// Arguments of `bench write`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
FROM is an endpoint whose part has a DMA engine [default: the lab's first]. With --flows N the N
endpoints from FROM on write at once, in the order of the lab file, going round.
PAYLOAD is sent as asked, up to the longest that the engine can build, even where a port on the
way is set to less: the first port that it is too large for reports a malformed TLP, and the
command fails.

Examples:
  crosslane bench write --lab rosta
  crosslane bench write --lab rosta:crosslane --size 64..4M
  crosslane bench write --lab rosta --flows 8 --size 4M --iterations 1
  crosslane bench write --lab rosta --payload 32 --descriptors table --notify interrupt
  crosslane bench write --lab rosta --pages small --size 4M

The generator's pattern goes to host memory, where every byte is compared. Times are in
microseconds, from a transfer's post until the host knows that it is complete. Rates are by the
engine's timers, from the first TLP to the last, and as the application sees them (app).
MB/s is 1000000 bytes a second, MiB/s is 1048576. The ceiling is that of the slowest link on the
way, for the TLPs that are sent; percentages are of the ceiling less the DLLPs that this run sent
in that direction. Registering the memory is measured apart.")]
pub struct WriteArguments {
    /// The endpoint that writes.
    #[arg(long, value_name = "ENDPOINT", value_parser = Known(completions::endpoints),
        hide_possible_values = true)]
    pub from: Option<String>,
    /// The host whose memory is written [default: the endpoint's own, the only one possible].
    #[arg(long, value_name = "HOST")]
    pub to: Option<String>,
    #[command(flatten)]
    pub transfer: TransferArguments,
    #[command(flatten)]
    pub memory: HostMemoryArguments,
    #[command(flatten)]
    pub many: ManyArguments,
    #[command(flatten)]
    pub common: WorkloadArguments,
}

/// Arguments of `bench read`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
TO is an endpoint whose part has a DMA engine [default: the lab's first]. With --flows N the N
endpoints from TO on read at once, in the order of the lab file, going round.
PAYLOAD is the length of a read request; more than Max_Read_Request_Size is asked for all the
same, up to the longest that the engine can build.

Examples:
  crosslane bench read --lab rosta
  crosslane bench read --lab rosta:crosslane --size 64..4M
  crosslane bench read --lab rosta --descriptors table --pages small --size 4M
  crosslane bench read --lab rosta --flows 4 --size 4M --iterations 1

The card's checker compares every word that it reads with the pattern in host memory. The ceiling
is for the completions that the host's memory really sends. For the rest see `bench write`.")]
pub struct ReadArguments {
    /// The host whose memory is read [default: the endpoint's own, the only one possible].
    #[arg(long, value_name = "HOST")]
    pub from: Option<String>,
    /// The endpoint that reads.
    #[arg(long, value_name = "ENDPOINT", value_parser = Known(completions::endpoints),
        hide_possible_values = true)]
    pub to: Option<String>,
    #[command(flatten)]
    pub transfer: TransferArguments,
    #[command(flatten)]
    pub memory: HostMemoryArguments,
    #[command(flatten)]
    pub many: ManyArguments,
    #[command(flatten)]
    pub common: WorkloadArguments,
}

/// Arguments of `bench p2p`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
FROM and TO are endpoints whose parts have DMA engines [default: the lab's first, and the one
behind FROM]. With --flows N the first goes from FROM to TO, the second from the endpoint behind
FROM to the one behind TO, and so on in the order of the lab file, going round.
PAYLOAD is sent as asked, up to the longest that the engine can build, even where a port on the
way is set to less: the first port that it is too large for reports a malformed TLP, and the
command fails. --mps sets the ports on the way first, and then longer payloads are the default.

Examples:
  crosslane bench p2p --lab rosta --from fpga1 --to fpga2
  crosslane bench p2p --lab rosta --from fpga1 --to fpga5 --mps 256
  crosslane bench p2p --lab rosta --from fpga1 --to fpga5 --flows 8 --size 4M --iterations 1
  crosslane bench p2p --lab rosta --descriptors command --no-credits

The sender's generator writes to a receive queue of the receiver, whose checker compares every word.
Unless --no-credits is given the receiver says what it has taken, and a transfer is complete when
it has taken all. For the rest see `bench write`.")]
pub struct PeerArguments {
    #[command(flatten)]
    pub between: BetweenArguments,
    #[command(flatten)]
    pub transfer: TransferArguments,
    #[command(flatten)]
    pub many: ManyArguments,
    #[command(flatten)]
    pub common: WorkloadArguments,
}

/// Arguments of `bench latency`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
FROM and TO are endpoints whose parts have DMA engines [default: the lab's first, and the one
behind FROM].

Examples:
  crosslane bench latency --lab rosta --from fpga1 --to fpga2
  crosslane bench latency --lab rosta --from fpga1 --to fpga5 --json
  crosslane bench latency --lab rosta --size 4..128

FROM sends a message, TO's circuit sends it straight back, and FROM's timer stops as its data
begin to come in. Times are half of a round trip, in microseconds. What comes back is compared.")]
pub struct LatencyArguments {
    #[command(flatten)]
    pub between: BetweenArguments,
    /// Bytes of a message: a power of two up to the payload, or a multiple of the payload;
    /// 4..128 is a sweep over the powers of two.
    #[arg(long, value_name = "SIZE", default_value = "64", value_parser = parse_transfer_sizes)]
    pub size: SizeRange,
    /// Round trips.
    #[arg(long, value_name = "N", default_value_t = 1000,
        value_parser = whole::<u64>(1..=MAX_ROUNDS))]
    pub iterations: u64,
    #[command(flatten)]
    pub common: WorkloadArguments,
}

/// Arguments of `bench chain`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
FROM and TO are endpoints whose parts have DMA engines: the chain goes from FROM to TO through all
that are between them in the lab file [default: from the first to the last].

Examples:
  crosslane bench chain --lab rosta
  crosslane bench chain --lab rosta --from fpga1 --to fpga4 --size 256K
  crosslane bench chain --lab rosta:crosslane --json

The first card reads host memory and writes to the next one, and so on; the last one writes to
host memory, where every byte is compared. A transfer's time is from its post to its completion.
For the rest see `bench write`.")]
pub struct ChainArguments {
    #[command(flatten)]
    pub between: BetweenArguments,
    #[command(flatten)]
    pub transfer: TransferArguments,
    #[command(flatten)]
    pub memory: HostMemoryArguments,
    #[command(flatten)]
    pub common: WorkloadArguments,
}

/// Sizes of transfers: whole words.
fn parse_transfer_sizes(text: &str) -> Result<SizeRange, String> {
    let range: SizeRange = text.parse()?;
    let odd = range.sizes().find(|bytes| !bytes.is_multiple_of(4));
    match odd {
        Some(bytes) => Err(format!("{bytes} B is not a multiple of 4 B, an engine's word")),
        None => Ok(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_are_whole_words() {
        assert!(parse_transfer_sizes("64..4M").is_ok());
        let error = parse_transfer_sizes("3").unwrap_err();
        assert_eq!(error, "3 B is not a multiple of 4 B, an engine's word");
        assert!(parse_transfer_sizes("1..64").is_err());
    }
}
