// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two nodes on one machine: network namespaces joined by a pair of virtual interfaces.
//!
//! They need root and `ip`. In CI (variable `CROSSLANE_CI`, which `.ci/run` sets) and for root, a
//! test without them fails; otherwise it prints what is missing.

use std::process::{Command, Output};

/// Addresses of the two nodes, in separate namespaces, where they cannot conflict with others.
pub const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];

/// Two namespaces, deleted on drop.
pub struct Nodes {
    names: [String; 2],
}

/// Returns the nodes, or `None` for a user without root outside CI.
pub fn nodes() -> Option<Nodes> {
    match Nodes::new() {
        Ok(nodes) => Some(nodes),
        Err(why) => {
            let must =
                rustix::process::geteuid().is_root() || std::env::var_os("CROSSLANE_CI").is_some();
            assert!(!must, "cannot create two network namespaces: {why}");
            eprintln!(
                "NOT TESTED: two network namespaces need root and `ip` (Debian: iproute2): {why}"
            );
            None
        }
    }
}

impl Nodes {
    /// Makes the two namespaces.
    ///
    /// # Errors
    /// The missing requirement.
    pub fn new() -> Result<Self, String> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static LAST: AtomicU32 = AtomicU32::new(0);
        let unique = format!("{}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed));
        let nodes = Self { names: ["a", "b"].map(|node| format!("crosslane-{unique}-{node}")) };
        let [a, b] = &nodes.names;
        // From here on everything that was made is deleted in any case.
        ip(&["netns", "add", a])?;
        ip(&["netns", "add", b])?;
        let pair = ["link", "add", "wire", "netns", a, "type", "veth", "peer", "name", "wire"];
        ip(&[&pair[..], &["netns", b]].concat())?;
        for (name, address) in nodes.names.iter().zip(ADDRESSES) {
            ip(&["-n", name, "address", "add", &format!("{address}/24"), "dev", "wire"])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
            ip(&["-n", name, "link", "set", "wire", "up"])?;
        }
        Ok(nodes)
    }

    /// Returns a command for a program that runs on a node, 0 or 1.
    pub fn command(&self, node: usize, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[node]]).arg(program);
        command
    }

    /// Unplugs a node's cable, or plugs it in again: packets are lost, but connections are not
    /// told.
    pub fn plug(&self, node: usize, is_in: bool) {
        let state = if is_in { "up" } else { "down" };
        ip(&["-n", &self.names[node], "link", "set", "wire", state]).expect("the wire is there");
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for name in &self.names {
            // It may never have been made.
            let _ = ip(&["netns", "delete", name]);
        }
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let told = Command::new("ip").args(arguments).output();
    match told {
        Ok(Output { status, .. }) if status.success() => Ok(()),
        Ok(Output { stderr, .. }) => {
            let why = String::from_utf8_lossy(&stderr);
            Err(format!("ip {}: {}", arguments.join(" "), why.trim()))
        }
        Err(error) => Err(format!("ip: {error}")),
    }
}
