// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bridge serve`: cards of labs beside a real network.

use crosslane_bridge::{BridgeError, Guard, Policy, Server, ServerEvent, ServerOptions, Stage};
use crosslane_driver::Device;
use crosslane_host::{Bus, Rdma, RdmaListener};
use crosslane_lab::{EngineKind, LabBus, LabMemory};
use crosslane_libfabric::{MachineClock, Network};
use crosslane_open::{DeviceName, OpenError, OpenLab, StagedRdma};

use super::arguments::{RingArguments, ServeArguments};
use super::{network, random_key};
use crate::error::CommandError;
use crate::output;

/// A real network for a lab's memory.
type Staged = StagedRdma<Network, LabMemory>;

/// What a card is called where nobody says.
pub const DEFAULT_NAME: &str = "fpga0";

/// Name and device of a card: `card=lab:…`, or fpga0.
fn card_name(text: &str) -> Result<(&str, &str), CommandError> {
    let (name, device) = text.split_once('=').unwrap_or((DEFAULT_NAME, text));
    if name.is_empty() || name.contains(['/', ':']) {
        let why = format!("--device {text}: a card's name has no / and no : in it");
        return Err(CommandError::Usage(why));
    }
    Ok((name, device))
}

/// What a server is made with, beside its guard.
pub fn server_options(ring: &RingArguments) -> ServerOptions {
    ServerOptions {
        slots: ring.buffers.into(),
        slot_bytes: ring.buffer_size,
        least_chunk_bytes: ServerOptions::default().least_chunk_bytes.min(ring.buffer_size),
        window_bytes: ring.window,
        ..ServerOptions::default()
    }
}

/// Opens the card of a lab that is to be served.
///
/// # Errors
/// A name that stands for none, or for several.
pub fn open_device(name: &str) -> Result<OpenLab, CommandError> {
    let refused = |error: OpenError| match error {
        OpenError::Lab(error) => CommandError::Lab(error),
        error => CommandError::Usage(error.to_string()),
    };
    let DeviceName::Lab(device) = name.parse::<DeviceName>().map_err(refused)? else {
        return Err(CommandError::Usage(format!("{name}: only cards of labs can be served")));
    };
    let mut lab = device.open(EngineKind::Model, 1).map_err(refused)?;
    // Of several the first.
    lab.cards.truncate(1);
    Ok(lab)
}

/// The server for a card of a lab on a real network.
async fn server(
    network: &Network,
    clock: &MachineClock,
    lab: &OpenLab,
    name: &str,
    options: ServerOptions,
    tell: impl Fn(&ServerEvent) + 'static,
) -> Result<(Server<LabBus, Staged, MachineClock>, String), CommandError> {
    let bus = lab.simulation.bus(lab.host);
    let mut cards = Vec::new();
    for card in &lab.cards {
        let device = Device::open(bus.clone(), card.function).await;
        let device = device.map_err(|error| BridgeError::new(Stage::Registration, error))?;
        cards.push((name.to_owned(), device));
    }
    let staged = StagedRdma::new(network.clone(), move |bytes, pages| bus.allocate(bytes, pages));
    let words = staged.name();
    let server = Server::new(cards, staged, clock.clone(), options, tell).await?;
    Ok((server, words))
}

/// `bridge serve`.
///
/// # Errors
/// What cannot be asked for, a network that cannot be used, or a device that fails as a whole.
pub fn run(arguments: &ServeArguments) -> Result<(), CommandError> {
    let (card, device_name) = card_name(&arguments.device)?;
    let guard = match &arguments.policy {
        Some(path) => Guard::Keys(Policy::read(path, random_key()?)?),
        None => Guard::Open,
    };
    let key = arguments.key.as_deref().map(network::read_key).transpose()?;
    let options = ServerOptions {
        guard,
        identity: (arguments.name.clone(), key),
        ..server_options(&arguments.ring)
    };
    let clock = MachineClock::new();
    let (network, why) = network::open(arguments.network, &arguments.listen, &clock)?;
    let lab = open_device(device_name)?;
    lab.simulation.run_free("bridge", async {
        let (server, name) = server(&network, &clock, &lab, card, options, tell).await?;
        let listener = server.listen(&arguments.listen).await?;
        let address = listener.address();
        output::print(&format!(
            "serving {card} ({device_name}) at {address}\nnetwork: {name}, because {why}\n"
        ))?;
        server.serve(listener, std::future::pending()).await?;
        Ok(())
    })
}

fn tell(event: &ServerEvent) {
    output::print_hint(&event.to_string());
}

/// Runs a program beside a server in the same process; it is given the server's address.
///
/// # Errors
/// The program's, and what fails at the server.
pub async fn beside<T>(
    network: &Network,
    clock: &MachineClock,
    lab: &OpenLab,
    options: ServerOptions,
    program: impl AsyncFnOnce(String) -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    let (server, _) = server(network, clock, lab, DEFAULT_NAME, options, |_| {}).await?;
    let listener = server.listen("127.0.0.1:0").await?;
    let address = listener.address();
    let (stop, stopped) = futures_channel::oneshot::channel::<()>();
    let serving = server.serve(listener, async {
        // Dropped is as good as sent.
        let _ = stopped.await;
    });
    let programming = async {
        let result = program(address).await;
        drop(stop);
        result
    };
    let (served, result) = futures_util::join!(serving, programming);
    served?;
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_has_the_name_that_is_given() {
        assert_eq!(card_name("lab:kc705").ok(), Some(("fpga0", "lab:kc705")));
        assert_eq!(card_name("big=lab:sbdt/pac").ok(), Some(("big", "lab:sbdt/pac")));
        assert!(card_name("a/b=lab:kc705").is_err());
        assert!(card_name("=lab:kc705").is_err());
    }
}
