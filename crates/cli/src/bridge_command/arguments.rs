// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line of `bridge`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueHint};
use crosslane::bridge::{BridgeError, CardAddress, CardName, Mode, Path};
use crosslane::experiment::{SizeRange, parse_size};
use crosslane::network::Provider;

use crate::completions::{self, Known};
use crate::values::{one_of, whole};

/// Commands of the bridge.
#[derive(Debug, Subcommand)]
pub enum BridgeCommand {
    /// List the networks of this machine, and why one cannot be used
    #[command(after_help = "\
Examples:
  crosslane bridge providers
  crosslane bridge providers --json")]
    Providers {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print a new random key for a policy file and its client
    #[command(after_help = "\
Examples:
  crosslane bridge key > rnode.key        to be read by its owner only: chmod 600")]
    Key,
    /// Serve cards or memory of this node to other nodes
    Serve(ServeArguments),
    /// Add cards to a server of this machine that runs, or remove them
    #[command(after_help = "\
Examples:
  crosslane bridge card add video=vfio:01:00.0 --control bridge.sock
  crosslane bridge card remove video --control bridge.sock")]
    Card {
        /// Add or remove.
        #[command(subcommand)]
        command: CardCommand,
    },
    /// Copy a file into a card's memory
    Put(PutArguments),
    /// Copy a card's memory into a file
    Get(GetArguments),
    /// Send a file through a card's stream, and compare or save what comes back
    Roundtrip(RoundtripArguments),
    /// Copy a card's memory into that of another card, at the same server or another
    Copy(CopyArguments),
    /// List the cards of servers, with their memory and load
    Pool(PoolArguments),
    /// Reload a card of a server with a configuration or bitstream
    Reload(ReloadArguments),
    /// Measure bridged transfers, pipelined or naive, in a lab or on a real network
    Bench(BenchArguments),
}

/// Changes of a running server's cards.
#[derive(Debug, Subcommand)]
pub enum CardCommand {
    /// Add a card to a server of this machine that runs
    #[command(after_help = "\
Examples:
  crosslane bridge serve --device mem:4G --control bridge.sock
  crosslane bridge card add video=vfio:01:00.0 --control bridge.sock

Clients have the rights that the server's policy gives them for a card of this name. A lab's cards
can only be named when the server starts.")]
    Add {
        /// NAME=DEVICE.
        #[arg(value_name = "NAME=DEVICE")]
        device: String,
        #[command(flatten)]
        control: ControlArguments,
    },
    /// Remove a card from a server of this machine that runs
    #[command(after_help = "\
Examples:
  crosslane bridge card remove video --control bridge.sock

Transfers of the card end with an error that says so; others go on. A card that was added is closed,
so that another program can have it.")]
    Remove {
        /// Name of the card.
        name: String,
        #[command(flatten)]
        control: ControlArguments,
    },
}

/// The server whose cards change.
#[derive(Args, Clone, Debug)]
pub struct ControlArguments {
    /// Socket of the server, as its --control names it.
    #[arg(long, value_name = "SOCKET", value_hint = ValueHint::FilePath)]
    pub control: PathBuf,
}

/// A network, or the one that suits the other end.
pub type NetworkChoice = Option<Provider>;

/// Networks.
const NETWORKS: [(&str, &str, NetworkChoice); 6] = [
    ("auto", "Shared memory within this machine, else the first adapter, else tls", None),
    ("verbs", "RDMA adapters", Some(Provider::Verbs)),
    ("efa", "Amazon's adapter; untested", Some(Provider::Efa)),
    ("shm", "Memory that programs of this machine share", Some(Provider::Shm)),
    ("tls", "TCP sockets, sealed by keys or certificates", Some(Provider::Tls)),
    ("tcp", "TCP sockets by libfabric, for networks that are trusted", Some(Provider::Tcp)),
];

/// Certificates of a node, in place of a key.
#[derive(Args, Clone, Debug)]
pub struct CertificateArguments {
    /// File (PEM) with this node's certificate, those between it and its authority behind it: over
    /// tls, in place of a key.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
        requires_all = ["tls_key", "tls_ca"], conflicts_with_all = ["key", "trust_network"])]
    pub tls_cert: Option<PathBuf>,
    /// File (PEM) with the private key of it, which only its owner may read.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// File (PEM) with the certificates of the authorities that this node trusts.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_cert")]
    pub tls_ca: Option<PathBuf>,
}

/// Arguments of a client: its network, identity, time and output.
#[derive(Args, Clone, Debug)]
pub struct ClientArguments {
    /// The network; both ends need the same.
    #[arg(long, value_name = "NETWORK", default_value = "auto", value_parser = one_of(&NETWORKS))]
    pub network: NetworkChoice,
    /// Trust the network: seal nothing over tls, and let tcp leave this machine.
    #[arg(long)]
    pub trust_network: bool,
    /// Servers, at which a card without SERVER/ is looked for: HOST:PORT, several with commas
    /// between them, or a file with one on each line. A name stands for all its addresses.
    #[arg(long, value_name = "LIST", value_hint = ValueHint::FilePath)]
    pub servers: Option<String>,
    /// Name of this client in the server's policy [default: anybody; with --tls-cert the first
    /// client there that the certificate is of].
    #[arg(long = "as", value_name = "NAME")]
    pub name: Option<String>,
    /// File with the key shared with the server.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub key: Option<PathBuf>,
    #[command(flatten)]
    pub certificates: CertificateArguments,
    /// Time for each piece of a transfer, seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 600,
        value_parser = whole::<u64>(1..=86_400))]
    pub timeout: u64,
    /// Times that an interrupted transfer is resumed.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub retries: u32,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `bridge serve`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  crosslane bridge serve --device lab:kc705:crosslane
  crosslane bridge serve --device card=lab:kc705:crosslane --listen 0.0.0.0:7471 \\
      --network tls --policy policy.toml
  crosslane bridge serve --device mem:4G --listen 0.0.0.0:7471 --policy policy.toml \\
      --tls-cert node.pem --tls-key node.key --tls-ca ca.pem
  crosslane bridge serve --device memory=mem:4G --device disk=file:/dev/dax0.0
  crosslane bridge serve --device vfio:01:00.0 --policy policy.toml \\
      --programmer 'fpga0=openFPGALoader -b kc705'

DEVICE is vfio:ADDRESS of this machine (see `crosslane device bind`), vfio-user:SOCKET of a server
(`crosslane lab serve`), or lab:LAB/ENDPOINT, a lab that runs freely beside the real network, with
real bytes. Memory can stand for a card's: mem:SIZE, file:PATH (a file or DAX device, as it is) and
null:, which takes all data and gives zeros. A lab's cards have to be of one lab. Without a policy
file a server listens on this machine only. A policy names clients, their keys or certificates, and
the ranges of each card that they may read and write; `crosslane bridge key` makes a key. Started by
systemd (Type=notify), the server tells it when it is ready, and its watchdog that it lives. Over
tls data are sealed as requests are; adapters and shared memory seal requests only. Certificates
are read anew for the next connection when their files change.")]
pub struct ServeArguments {
    /// A card to serve, any number of times: DEVICE, or NAME=DEVICE for a name other than fpga0,
    /// fpga1 and so on.
    #[arg(long, value_name = "DEVICE", value_parser = Known(completions::devices), required = true,
        hide_possible_values = true)]
    pub device: Vec<String>,
    /// Address to listen at; port 0 takes any.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7471")]
    pub listen: String,
    /// The network.
    #[arg(long, value_name = "NETWORK", default_value = "auto", value_parser = one_of(&NETWORKS))]
    pub network: NetworkChoice,
    /// Trust the network: seal nothing over tls, and let tcp listen beyond this machine, though
    /// strangers can end it.
    #[arg(long)]
    pub trust_network: bool,
    /// Policy file: clients, their keys or certificates, and their rights.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub policy: Option<PathBuf>,
    /// Name of this server in other servers' policies (FPGA to FPGA) [default: bridge; with
    /// --tls-cert the first client there that the certificate is of].
    #[arg(long = "as", value_name = "NAME")]
    pub name: Option<String>,
    /// File with the key shared with them.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub key: Option<PathBuf>,
    #[command(flatten)]
    pub certificates: CertificateArguments,
    /// Format of the log on standard error.
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = one_of(&LOG_FORMATS))]
    pub log: LogFormat,
    /// Address of this machine at which Prometheus gets the counters; port 0 takes any.
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<SocketAddr>,
    /// Socket at which the same user adds and removes cards (`crosslane bridge card`).
    #[arg(long, value_name = "SOCKET", value_hint = ValueHint::FilePath)]
    pub control: Option<PathBuf>,
    /// Program by which clients with the right to it reload a card, any number of times:
    /// NAME=PROGRAM, with its arguments. The path of the client's file is added to them.
    #[arg(long, value_name = "NAME=PROGRAM", value_hint = ValueHint::CommandString)]
    pub programmer: Vec<String>,
    /// How long such a program, and its card until it is back, may take, seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 300,
        value_parser = whole::<u64>(1..=3600))]
    pub reload_deadline: u64,
    #[command(flatten)]
    pub ring: RingArguments,
}

/// Format of a server's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Sentences.
    Text,
    /// A JSON object on each line.
    Json,
}

/// Formats of the log.
const LOG_FORMATS: [(&str, &str, LogFormat); 2] = [
    ("text", "Sentences", LogFormat::Text),
    ("json", "A JSON object on each line", LogFormat::Json),
];

/// Buffers of a server.
#[derive(Args, Clone, Copy, Debug)]
pub struct RingArguments {
    /// Slots of each ring.
    #[arg(long, value_name = "N", default_value_t = 8,
        value_parser = whole::<u16>(1..=4096))]
    pub buffers: u16,
    /// Bytes of a slot.
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_size)]
    pub buffer_size: u64,
    /// Most bytes of reads, and of writes, in flight in the network for each client.
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = parse_size)]
    pub window: u64,
}

/// Arguments of `bridge put`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  crosslane bridge put data.bin 127.0.0.1:7471/fpga0:0x0
  crosslane bridge put data.bin node:7471/fpga0:0x4000 --network tls --as rnode --key rnode.key
  crosslane bridge put data.bin node:7471/fpga0:0x4000 \\
      --tls-cert rnode.pem --tls-key rnode.key --tls-ca ca.pem
  crosslane bridge put data.bin fpga0:0x4000 --servers pool.txt
  crosslane bridge put data.bin one:7471/fpga0,one:7471/fpga1,other:7471/fpga0 --network tls

The address is in the card's memory. The server's checksum of each piece must be the file's. Of
several cards the first has the first part of the file, from its address on, and so on; all are sent
at once, each by its own connection.")]
pub struct PutArguments {
    /// The file.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Destination: SERVER/CARD or SERVER/CARD:ADDRESS, without SERVER/ with --servers; several,
    /// with commas between them, have a part of the file each.
    #[arg(value_parser = parse_cards)]
    pub target: CardNames,
    /// Bytes at the beginning that have arrived before.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub resume: u64,
    #[command(flatten)]
    pub client: ClientArguments,
}

/// Arguments of `bridge get`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  crosslane bridge get 127.0.0.1:7471/fpga0:0x0 back.bin --bytes 64M")]
pub struct GetArguments {
    /// Source: SERVER/CARD or SERVER/CARD:ADDRESS, without SERVER/ with --servers; several, with
    /// commas between them, have a part of the data each.
    #[arg(value_parser = parse_cards)]
    pub source: CardNames,
    /// The file; replaced if it exists.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Number of bytes.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub bytes: u64,
    #[command(flatten)]
    pub client: ClientArguments,
}

/// Arguments of `bridge roundtrip`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  crosslane bridge roundtrip data.bin 127.0.0.1:7471/fpga0
  crosslane bridge roundtrip data.bin 127.0.0.1:7471/fpga0 --output result.bin

Without --output the data that come back are compared with those sent, which suits a compute core
that passes data on unchanged.")]
pub struct RoundtripArguments {
    /// The file.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The card: SERVER/CARD.
    #[arg(value_parser = parse_card::<CardName>)]
    pub target: CardName,
    /// Write the data that come back into this file instead of comparing them.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub client: ClientArguments,
}

/// Arguments of `bridge copy`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  crosslane bridge copy one:7471/fpga0:0x0 other:7471/fpga0:0x1000 --bytes 64M --network tls
  crosslane bridge copy one:7471/fpga0 one:7471/fpga1 --bytes 64M --network tls

The first server connects to the other one: the data do not pass through this machine. Between cards
of one server the target's engine reads the source's memory, where their way does not lead through
the root complex, else data go through the server's memory; the output says which.")]
pub struct CopyArguments {
    /// Source: SERVER/CARD or SERVER/CARD:ADDRESS, without SERVER/ with --servers.
    #[arg(value_parser = parse_card::<CardName>)]
    pub source: CardName,
    /// Destination as the first server reaches it: SERVER/CARD or SERVER/CARD:ADDRESS.
    #[arg(value_parser = parse_card::<CardName>)]
    pub target: CardName,
    /// Number of bytes.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub bytes: u64,
    #[command(flatten)]
    pub client: ClientArguments,
}

/// Arguments of `bridge pool`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  crosslane bridge pool 127.0.0.1:7471
  crosslane bridge pool one:7471 other:7471 --network tls --as rnode --key rnode.key
  crosslane bridge pool --servers pool.txt --json

A file has a server on each line, and remarks behind #; a name with several addresses stands for a
server at each. Servers that do not answer are listed last, with the reason; the exit code is then
1. Transfers, moved bytes and free slots are the load of a card. Free memory is the server's, for
naive transfers and copies to other servers: a card's own memory is divided by the policy.")]
pub struct PoolArguments {
    /// Servers, or files with servers.
    #[arg(value_name = "SERVER", value_hint = ValueHint::FilePath)]
    pub server: Vec<String>,
    #[command(flatten)]
    pub client: ClientArguments,
}

/// Arguments of `bridge reload`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  crosslane bridge reload node:7471/fpga0 design.bit --network tls --as owner --key owner.key

The server's policy has to give the right to it (access = \"reload\"), and its owner the program
that reconfigures the card (`crosslane bridge serve --programmer`). The file is sent, and compared,
before the card is touched. Transfers of the card end with an error; other cards are served
meanwhile. A card that cannot be reloaded, or does not come back, is out of service until it is
reloaded again; `crosslane bridge pool` says why. Once the file is there, the server ends what it
has begun.")]
pub struct ReloadArguments {
    /// The card: SERVER/CARD, without SERVER/ with --servers.
    #[arg(value_parser = parse_card::<CardName>)]
    pub card: CardName,
    /// The configuration or bitstream.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    #[command(flatten)]
    pub client: ClientArguments,
}

/// Paths that can be measured.
pub const PATHS: [(&str, &str, Path); 3] = [
    ("put", "Remote memory to the card's", Path::ToFpga),
    ("get", "The card's memory to the remote one", Path::FromFpga),
    ("roundtrip", "Through the card's stream and back", Path::RoundTrip),
];

/// Returns the command that makes transfers of a path.
pub fn command_of(path: Path) -> &'static str {
    let known = PATHS.iter().find(|(_, _, known)| *known == path);
    known.map_or("copy", |(name, ..)| name)
}

/// Modes that can be measured.
const MODES: [(&str, &str, &[Mode]); 3] = [
    ("pipelined", "Stages at once", &[Mode::Pipelined]),
    ("naive", "The seven steps of the sbdt paper, one after the other", &[Mode::Naive]),
    ("both", "Both, compared with what overlap can bring", &[Mode::Naive, Mode::Pipelined]),
];

/// Arguments of `bridge bench`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  crosslane bridge bench --lab sbdt:crosslane --size 4M
  crosslane bridge bench --lab sbdt --path put --size 256K..4M --buffer-size 256K --report bridge
  crosslane bridge bench --lab sbdt:crosslane --path put --size 4M --why
  crosslane bridge bench --network tls --device lab:kc705:crosslane --mode both --size 4M
  crosslane bridge bench --network tls --device mem:4M --size 4M
  crosslane bridge bench --lab sbdt:crosslane --latency --path put --size 64..4K --iterations 20
  crosslane bridge bench 10.0.0.2:7471/fpga0 --network tls --path put --clients 4
  crosslane bridge bench --servers one:7471,other:7471 --network tls --size 16M

With --lab server and client are nodes of that lab in simulated time: figures are exact and the
same on every machine. Else data go over a real network, to the server that is named or to one
within this program; figures are of this machine at this moment, so what counts are ratios. All
data are compared. With --servers each card of the list copies to each other one, a pair at a time,
from byte 0 to byte 0: the table has the rate from the card of a row to that of a column, and below
it the reason for each pair that fails. With --mode both the ratio is compared with its bound: the
sum of the stages over the slowest, each alone.")]
pub struct BenchArguments {
    /// A server that is there: SERVER/CARD or SERVER/CARD:ADDRESS.
    #[arg(value_parser = parse_card::<CardAddress>,
        conflicts_with_all = ["lab", "device", "servers"])]
    pub target: Option<CardAddress>,
    /// Measure in a lab with two nodes: a shipped lab's name, or a lab file; `:VARIANT` behind it
    /// chooses a variant.
    #[arg(long, value_name = "LAB", value_hint = ValueHint::AnyPath,
        conflicts_with_all = ["device", "servers"],
        value_parser = Known(completions::labs), hide_possible_values = true)]
    pub lab: Option<String>,
    /// The card of a server within this program.
    #[arg(long, value_name = "DEVICE", default_value = "lab:kc705:crosslane",
        conflicts_with = "servers",
        value_parser = Known(completions::devices), hide_possible_values = true)]
    pub device: String,
    /// The ways [default: all].
    #[arg(long, value_name = "PATH", conflicts_with = "servers", value_parser = one_of(&PATHS))]
    pub path: Vec<Path>,
    /// One mode or both.
    #[arg(long, value_name = "MODE", default_value = "pipelined", conflicts_with = "servers",
        value_parser = one_of(&MODES))]
    pub mode: &'static [Mode],
    /// Bytes of a transfer, or a range of powers of two [default: 64M; 64..64K with --latency].
    #[arg(long, value_name = "SIZE")]
    pub size: Option<SizeRange>,
    /// Transfers of each kind [default: 3; 1000 with --latency].
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=1_000_000))]
    pub iterations: Option<u32>,
    /// Show how long transfers take, from the fastest to the slowest, with their stages.
    #[arg(long, conflicts_with_all = ["clients", "why", "report", "servers"])]
    pub latency: bool,
    /// Clients at once, each with a share of the size.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "servers",
        value_parser = whole::<u16>(1..=64))]
    pub clients: u16,
    /// Delay each stage to at least so many nanoseconds for each KiB: stages of the same length
    /// show what overlap brings even where processors are few.
    #[arg(long, value_name = "NS", conflicts_with_all = ["target", "servers"])]
    pub pace: Option<u32>,
    #[command(flatten)]
    pub ring: RingArguments,
    #[command(flatten)]
    pub client: ClientArguments,
    /// Random seed; it also makes the data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Look for what limits each kind of transfers, in a lab: that takes many more runs.
    #[arg(long, requires = "lab")]
    pub why: bool,
    /// Write an HTML page to FOLDER/index.html.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, conflicts_with = "servers")]
    pub report: Option<PathBuf>,
}

/// The cards of a file: one, or several that have a range of it each.
#[derive(Clone, Debug)]
pub struct CardNames(pub Vec<CardName>);

fn parse_cards(text: &str) -> Result<CardNames, String> {
    text.split(',').map(parse_card).collect::<Result<_, _>>().map(CardNames)
}

/// Parses a [`CardName`] or a [`CardAddress`].
fn parse_card<T: FromStr<Err = BridgeError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: BridgeError| error.why.to_string())
}
