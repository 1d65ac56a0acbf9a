// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab's card on a socket, which programs open like a real card.

use std::path::PathBuf;
use std::time::Duration;

use crosslane_lab::EngineKind;
use crosslane_serve::{ServedDevice, Server};
use crosslane_vfio::{BusOptions, VfioBus, user};

/// A card whose model is fast, and its lab.
const CARD: (&str, &str) = ("sbdt:crosslane", "pac");
/// Deadline of one request to the server.
const REQUEST: Duration = Duration::from_secs(20);

/// The server of a card in this process, which ends on drop.
pub struct ServedCard {
    server: Option<Server>,
    folder: PathBuf,
    socket: PathBuf,
}

impl ServedCard {
    pub fn start(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("crosslane-{}-{test}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("card");
        let lab = crosslane_lab::open(CARD.0).unwrap().with_engines(EngineKind::Model);
        let device = ServedDevice { name: CARD.1.to_owned(), socket: socket.clone() };
        let server = Some(Server::start(lab, 1, &[device], |_| {}).unwrap());
        Self { server, folder, socket }
    }

    /// Returns the name of the card.
    pub fn name(&self) -> String {
        format!("vfio-user:{}", self.socket.display())
    }

    /// Connects a bus to the server; one at a time.
    pub fn bus(&self) -> VfioBus {
        user::open_bus(&[&self.socket], REQUEST, BusOptions::default()).unwrap()
    }
}

impl Drop for ServedCard {
    fn drop(&mut self) {
        self.server.take();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
