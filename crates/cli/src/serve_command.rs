// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane lab serve`: devices of a lab behind sockets, for virtual machines and for drivers in
//! other processes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::{Args, ValueHint};
use crosslane::lab::Lab;
use crosslane_serve::{ServeError, ServeEvent, ServedDevice, Server};

use crate::completions::{self, Known};
use crate::engine_argument::EngineArguments;
use crate::error::CommandError;
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
    /// The model, or the gateware.
    #[command(flatten)]
    pub engine: EngineArguments,
    /// Random seed of the lab.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
}

/// Serves until the program is ended.
///
/// # Errors
/// A lab or a card that cannot be served.
pub fn run(arguments: &ServeArguments) -> Result<(), CommandError> {
    let (devices, sockets) = (&arguments.devices, &arguments.sockets);
    if devices.len() != sockets.len() {
        return Err(CommandError::Usage(format!(
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
    let told = Mutex::new(Told::default());
    let tell = move |event: &ServeEvent| {
        let lines =
            told.lock().unwrap_or_else(PoisonError::into_inner).lines(event, Instant::now());
        lines.iter().for_each(|line| output::print_hint(line));
    };
    let server =
        Server::start(lab, arguments.seed, &served, tell).map_err(|error| match error {
            ServeError::Lab(error) => CommandError::Lab(error),
            ServeError::NoSuchDevice { .. } | ServeError::Twice { .. } => {
                CommandError::Usage(error.to_string())
            }
            error => CommandError::Input(error.to_string()),
        })?;
    for device in &served {
        let ServedDevice { name, socket } = device;
        output::print(&format!("{name} of {} at {}\n", arguments.lab, socket.display()))?;
    }
    server.wait();
    Err(CommandError::Input("the lab has ended".to_owned()))
}

/// Errors of one kind at one port are told once in this time, and the others counted.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// What was told of a server's events: a driver that looks for a card makes dozens of the same.
#[derive(Default)]
struct Told {
    /// By port and kind: when one was told last, and how many have come since.
    errors: BTreeMap<(String, String), (Instant, u64)>,
}

impl Told {
    /// The lines that an event is worth.
    fn lines(&mut self, event: &ServeEvent, now: Instant) -> Vec<String> {
        let ServeEvent::Fabric { port, kind, .. } = event else {
            // Events that a client has caused are told before its end.
            let errors = std::mem::take(&mut self.errors);
            let more = errors.into_iter().filter_map(|(key, (_, more))| more_line(&key, more));
            return more.chain([event.to_string()]).collect();
        };
        let key = (port.clone(), kind.clone());
        match self.errors.get_mut(&key) {
            Some((told, more)) if now.saturating_duration_since(*told) < TOLD_EVERY => {
                *more += 1;
                Vec::new()
            }
            before => {
                let more = before.and_then(|(_, more)| more_line(&key, *more));
                self.errors.insert(key, (now, 0));
                more.into_iter().chain([event.to_string()]).collect()
            }
        }
    }
}

fn more_line((port, kind): &(String, String), more: u64) -> Option<String> {
    (more > 0).then(|| format!("in the lab: {port}: {more} more of {kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_errors_are_counted() {
        let error = |number: u32| ServeEvent::Fabric {
            port: "up".to_owned(),
            kind: "Unsupported Request".to_owned(),
            error: format!("up at {number} ns: Unsupported Request: it routes nowhere"),
        };
        let ended = ServeEvent::Ended { device: "card".to_owned(), why: "closed".to_owned() };
        let (mut told, begun) = (Told::default(), Instant::now());
        let mut lines =
            |event: &ServeEvent, ms| told.lines(event, begun + Duration::from_millis(ms));
        assert_eq!(lines(&error(1), 0).len(), 1, "the first is told");
        for number in 2..64 {
            assert!(lines(&error(number), number.into()).is_empty(), "{number}");
        }
        let more = "in the lab: up: 62 more of Unsupported Request";
        let after = lines(&error(64), 1001);
        assert_eq!((after.len(), after[0].as_str()), (2, more));
        assert!(lines(&error(65), 1002).is_empty());
        let last = lines(&ended, 1003);
        assert_eq!(last[0], "in the lab: up: 1 more of Unsupported Request");
        assert!(last[1].starts_with("card: the client has gone"), "{last:?}");
        assert_eq!(lines(&ended, 1004).len(), 1);
    }
}
