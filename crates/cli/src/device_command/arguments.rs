// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line of `device`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use crosslane::experiment::parse_register_size;
use crosslane::machine::{Address, VFIO_PCI};

use crate::values::whole;

/// Commands for the PCI functions of this machine.
#[derive(Debug, Subcommand)]
pub enum DeviceCommand {
    /// List PCI functions: driver, IOMMU group, link
    #[command(after_help = "\
Examples:
  crosslane device list
  crosslane device list --all --json")]
    List {
        /// Bridges and ports too.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Show a function, and how every port above it is set
    #[command(after_help = "\
Examples:
  crosslane device info 03:00.0
  crosslane device info 0000:03:00.0 --json

Without root the kernel shows 64 bytes of configuration space: values behind them are left out, and
the kind of a port is guessed from its position.")]
    Info {
        /// The function, as `lspci -D` writes it; domain 0 may be left out.
        address: Address,
        #[command(flatten)]
        output: Output,
    },
    /// Bind a function to vfio-pci, for programs
    #[command(after_help = "\
Examples:
  crosslane device bind 03:00.0

Needs root. The function's own driver gives it up, and gets it back where vfio-pci does not take
it. Controllers of storage, network, display and USB, and virtio devices, are taken with --force
only.")]
    Bind(BindArguments),
    /// Give a function back to the kernel's own driver
    #[command(after_help = "\
Examples:
  crosslane device unbind 03:00.0

Needs root. A function that a program has open is given back with --force only: the kernel then
asks the program for it and waits.")]
    Unbind {
        /// The function.
        address: Address,
        /// Even where a program has it open.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Check a card and its path to memory, with fixes
    Doctor(DoctorArguments),
    /// Set Max_Payload_Size of every port on the path between two functions
    SetMps(SetMpsArguments),
    /// Test cards: registers, transfers, interrupts, peers, a reset
    Test(TestArguments),
    /// Remove a card, wait until it is reconfigured, and restore it
    Reload(ReloadArguments),
}

/// Arguments of `device test`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  crosslane device test lab:kc705:crosslane
  crosslane device test lab:rosta:crosslane/fpga1 lab:rosta:crosslane/fpga5 --largest 4M

NAME is vfio:ADDRESS of this machine (see `crosslane device bind`), vfio-user:SOCKET of a server
(`crosslane lab serve`), or lab:LAB/ENDPOINT. Every byte that is moved is compared. With several
cards each also writes to the next one and back, and is read by it if BAR2 shows its memory. Behind
an IOMMU memory that was taken from a card must be out of its reach; in a lab that step is left out.
At last each card is reset while it writes to memory: nothing may come afterwards, and it has to
work as before.
A card is used alone: no other program may have it open.")]
pub struct TestArguments {
    /// The cards.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Bytes of the longest transfer; those of up to 1 MiB are made in any case.
    #[arg(long, value_name = "SIZE", default_value = "64M",
        value_parser = crate::overhead_command::parse_words)]
    pub largest: u64,
    /// A transfer that takes more seconds has failed.
    #[arg(long, value_name = "S", default_value_t = 30)]
    pub timeout: u32,
    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments that every command has.
#[derive(Args, Clone, Debug)]
pub struct Output {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The folder that holds `sys`, `dev` and `proc`: a machine in a folder, for tests.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, default_value = "/",
        hide = true)]
    pub root: PathBuf,
}

/// Arguments of `device bind`.
#[derive(Args, Debug)]
pub struct BindArguments {
    /// The function.
    pub address: Address,
    /// The driver to bind to: vfio-pci, or a variant of it for one kind of device.
    #[arg(long, value_name = "NAME", default_value = VFIO_PCI)]
    pub driver: String,
    /// Even a controller that the system uses, or a function that a program has open.
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub output: Output,
}

/// Arguments of `device doctor`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  crosslane device doctor                      whether the machine is ready, and its cards
  crosslane device doctor 03:00.0
  crosslane device doctor 03:00.0 --peer 04:00.0
  crosslane device doctor 03:00.0 --to-lab my-machine.toml
  crosslane topo my-machine.toml

No setting is changed. The predicted rates are those of the fabric model in a lab that is made of
what was read: links as they were trained, payload and read sizes as they are set, tags as they are
allowed. Values that no register shows, such as the memory's latency, are from a library of parts;
in the lab file each names its source. An unused card on vfio-pci with this project's engine is
opened and measured as well, unless --no-measure is given. The exit code is 1 where there is a
problem, also where a lab was written; notes do not count. Functions that the system uses are never
proposed for a program.")]
pub struct DoctorArguments {
    /// The card; left out: the machine, and the functions that programs may have.
    pub address: Option<Address>,
    /// Another card: check the path between them too.
    #[arg(long, value_name = "ADDRESS", requires = "address")]
    pub peer: Option<Address>,
    /// Write the card, its peer and the ports above them into this file, as a lab.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "address")]
    pub to_lab: Option<PathBuf>,
    /// The cards have this project's DMA engine: the lab can be driven then.
    #[arg(long, requires = "address")]
    pub engine: bool,
    /// Predict no rates.
    #[arg(long, requires = "address")]
    pub no_model: bool,
    /// Measure no rates: without this an unused card on vfio-pci that has this project's engine
    /// moves 16 MiB each way.
    #[arg(long, requires = "address")]
    pub no_measure: bool,
    #[command(flatten)]
    pub output: Output,
}

/// Longest deadline of a reload, seconds.
const MOST_SECONDS: u64 = 3600;

/// Arguments of `device reload`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  crosslane device reload 03:00.0 --now
  crosslane device reload 03:00.0 -- true            in its place what programs the card

Needs root. The card's functions are removed from the kernel's tree and the errors of the port above
are masked (SERR, reporting, AER, containment). Then the program behind -- is run, or the link is
awaited: it has to go down and come up; with --now it has to be up. The bus is looked at again, and
the functions get back their driver, payload and read sizes and the rest of Device Control, and
Command as far as no driver sets it. The port's errors are reported again as before, also where
something fails or the command is interrupted, but for a kill.")]
pub struct ReloadArguments {
    /// The card.
    pub address: Address,
    /// How long it may take until the card is back, seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
        value_parser = whole::<u64>(1..=MOST_SECONDS))]
    pub deadline: u64,
    /// The card is reconfigured already, or needs no more than the removal.
    #[arg(long)]
    pub now: bool,
    /// Even where a program has the card open.
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub output: Output,
    /// The program that reconfigures the card, with its arguments.
    #[arg(last = true, value_name = "PROGRAM", conflicts_with = "now",
        value_hint = ValueHint::CommandWithArguments)]
    pub program: Vec<String>,
}

/// Arguments of `device set-mps`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  crosslane device set-mps --path 03:00.0 host 256
  crosslane device set-mps --path 03:00.0 04:00.0 512

Needs root. Every port on the path is set, or none: a size that one of them does not support is
refused. A function that is set to less than a port above it may be sent packets that it takes for
malformed, so those are named. The setting is lost at the next start of the machine.")]
pub struct SetMpsArguments {
    /// The ends of the path: two functions, or a function and `host`.
    #[arg(long, num_args = 2, value_names = ["A", "B"], required = true)]
    pub path: Vec<String>,
    /// 128 to 4096, a power of two.
    #[arg(value_parser = parse_register_size)]
    pub bytes: u32,
    #[command(flatten)]
    pub output: Output,
}
