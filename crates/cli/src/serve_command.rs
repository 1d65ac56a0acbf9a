// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane lab serve`: devices of a lab behind sockets, for virtual machines and for drivers in
//! other processes.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::{Args, ValueHint};
use crosslane::lab::Lab;
use crosslane_serve::{
    EventLog, ServeError, ServeEvent, ServeOptions, ServedDevice, Server, raise_limit_of_files,
};

use crate::completions::{self, Known};
use crate::engine_argument::EngineArguments;
use crate::error::{CommandError, Result, usage};
use crate::output;

/// Arguments of `lab serve`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  crosslane lab serve kc705:crosslane --device kc705 --socket kc705.sock
  crosslane lab serve rosta:crosslane --device fpga1 --socket a.sock --device fpga2 --socket b.sock

Each device is a PCI function behind its socket: QEMU 10.1 and later shows it to a guest with
  -device '{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"kc705.sock\"}}'
where the guest's memory is shared: -object memory-backend-memfd,id=mem,size=1G,share=on
-machine q35,memory-backend=mem. Devices that are to reach each other need windows of their own:
each behind a root port of its own in the guest.
The program serves until you end it. Simulated time runs as fast as it can and has nothing to do
with the clients' time.")]
pub struct ServeArguments {
    /// A shipped lab's name, or a lab file; `:VARIANT` behind it chooses a variant.
    #[arg(value_hint = ValueHint::AnyPath, value_parser = Known(completions::labs),
        hide_possible_values = true)]
    pub lab: String,
    /// An endpoint to serve; repeat it for each.
    #[arg(long = "device", value_name = "NAME", required = true)]
    pub devices: Vec<String>,
    /// The socket of the device before it; repeat it for each.
    #[arg(long = "socket", value_name = "PATH", required = true, value_hint = ValueHint::FilePath)]
    pub sockets: Vec<PathBuf>,
    #[command(flatten)]
    pub engine: EngineArguments,
    /// A client that has been silent for this long loses its device to one that waits; without it,
    /// only a client that has set up nothing does.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub give_way: Option<u64>,
    /// Random seed of the lab.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
}

/// Serves until the program is ended.
///
/// # Errors
/// A lab or a card that cannot be served.
pub fn run(arguments: &ServeArguments) -> Result<()> {
    let (devices, sockets) = (&arguments.devices, &arguments.sockets);
    if devices.len() != sockets.len() {
        return Err(usage(format!(
            "--device was given {} times and --socket {} times: each device has one socket",
            devices.len(),
            sockets.len()
        )));
    }
    let lab = Lab::load(&arguments.lab)?.with_engines(arguments.engine.kind()?);
    let served: Vec<ServedDevice> = devices
        .iter()
        .zip(sockets)
        .map(|(name, socket)| ServedDevice { name: name.clone(), socket: socket.clone() })
        .collect();
    let log = Mutex::new(EventLog::default());
    let tell = move |event: &ServeEvent| {
        let lines = log.lock().unwrap_or_else(PoisonError::into_inner).lines(event, Instant::now());
        lines.iter().for_each(|line| output::print_hint(line));
    };
    raise_limit_of_files();
    let used = arguments.give_way.map(Duration::from_secs);
    let options = ServeOptions { used, ..ServeOptions::default() };
    let server =
        Server::start_with(lab, arguments.seed, &served, &options, tell).map_err(|error| {
            match error {
                ServeError::Lab(error) => CommandError::Lab(error),
                ServeError::NoSuchDevice { .. } | ServeError::Twice { .. } => {
                    usage(error.to_string())
                }
                error => CommandError::Failed(error.to_string()),
            }
        })?;
    for device in &served {
        let ServedDevice { name, socket } = device;
        output::print(&format!("{name} of {} at {}\n", arguments.lab, socket.display()))?;
    }
    server.wait();
    Err(CommandError::Failed("the lab has ended".to_owned()))
}
