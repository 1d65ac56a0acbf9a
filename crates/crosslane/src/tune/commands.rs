// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that change a machine as a lab was changed: functions are compared one by one.

use crosslane_experiment::ExperimentError;
use crosslane_lab::{LabFile, RunningLab};
use crosslane_pcie::config::{PortType, size_code};
use crosslane_twin::Addresses;

use crate::what_if::{Changed, Flows, PLAIN_TAGS, tree};

/// Vendors of processors, whose IOMMUs have options of their own.
const INTEL: u16 = 0x8086;
const AMD: u16 = 0x1022;

/// Commands, and notes on them.
type Commands = (Vec<String>, Vec<String>);

/// Returns the commands that lead from a lab to a changed one.
///
/// # Errors
/// A lab that cannot be built.
pub fn between(
    before: &Changed,
    after: &Changed,
    flows: &Flows,
) -> Result<Commands, ExperimentError> {
    let [first, second] = [before, after].map(|it| it.lab.build(flows.seed));
    let (first, second) = (first?, second?);
    let known = Addresses::of(after.lab.file().text());
    let mut writer = Writer { known, commands: Vec::new(), notes: Vec::new() };
    let moved = writer.places(before.lab.file(), after.lab.file());
    writer.payloads(&first, &second, &moved);
    writer.requesters(before, after);
    writer.redirection(&first, &second);
    writer.translation(before.lab.file(), after.lab.file());
    Ok((writer.commands, writer.notes))
}

struct Writer {
    known: Addresses,
    commands: Vec<String>,
    notes: Vec<String>,
}

impl Writer {
    /// Returns the address of a function, or its name as a placeholder.
    fn address(&self, name: &str) -> String {
        self.known.get(name).map_or_else(|| format!("'<{name}>'"), |address| address.to_string())
    }

    /// Writes bits of a word of a function's configuration space, and leaves the others.
    fn write(&mut self, name: &str, register: &str, (value, mask): (u32, u32)) {
        let address = self.address(name);
        self.commands.push(format!("setpci -s {address} {register}.w={value:04x}:{mask:04x}"));
    }

    fn device_control(&mut self, name: &str, bits: (u32, u32)) {
        self.write(name, "CAP_EXP+8", bits);
    }

    /// Returns the names of the nodes that are moved.
    fn places(&mut self, before: &LabFile, after: &LabFile) -> Vec<String> {
        let mut moved = Vec::new();
        for link in &after.links {
            let was = before.link_above(&link.lower).map(|at| &before.links[at]);
            if was.is_none_or(|was| (&was.upper, was.socket) != (&link.upper, link.socket)) {
                let host = after.hosts.iter().find(|host| host.name == link.upper);
                let port = match host.map(|host| host.part.parameters.socket_count()) {
                    None => "port".to_owned(),
                    Some(1) => "root port".to_owned(),
                    Some(_) => format!("root port of socket {}", link.socket),
                };
                self.commands.push(format!("move {} to a {port} of {}", link.lower, link.upper));
                moved.push(link.lower.clone());
            }
        }
        moved
    }

    /// Sets Max_Payload_Size of each function whose own changes, from the root port down. Those
    /// that are moved are set when the machine starts.
    fn payloads(&mut self, before: &RunningLab, after: &RunningLab, moved: &[String]) {
        let functions = after.hosts.iter().flat_map(|host| &host.tree.functions);
        let mut raised = false;
        for function in functions.filter(|function| !moved.contains(&function.name)) {
            let mut earlier = before.hosts.iter().filter_map(|it| it.tree.find(&function.name));
            let bytes = function.max_payload_bytes;
            if earlier.next().is_none_or(|earlier| earlier.max_payload_bytes == bytes) {
                continue;
            }
            self.device_control(&function.name, (size_code(bytes) << 5, 0x00e0));
            if function.port_type == PortType::Endpoint {
                let address = self.address(&function.name);
                let set_mps = format!("crosslane device set-mps --path {address} host {bytes}");
                self.notes.push(format!("or, for its way: {set_mps}"));
            }
            raised |= bytes == function.max_payload_supported_bytes;
        }
        if raised {
            self.notes.push(
                "or boot with pci=pcie_bus_perf, which sets the largest payload that fits".into(),
            );
        }
    }

    /// Sets read requests, tags and relaxed ordering of endpoints.
    fn requesters(&mut self, before: &Changed, after: &Changed) {
        let read_bytes = |file: &LabFile, name: &str| {
            let endpoint = file.endpoints.iter().find(|endpoint| endpoint.name == name)?;
            let host = tree::host_of(file, name)?;
            let longest = endpoint.part.parameters.requester.max_read_bytes;
            Some(longest.min(file.hosts[host].max_read_request_bytes))
        };
        let [old, new] = [before, after].map(|it| it.lab.file());
        for (was, is) in old.endpoints.iter().zip(&new.endpoints) {
            let name = &is.name;
            if let Some(bytes) = read_bytes(new, name).filter(|_| read_bytes(old, name).is_some())
                && read_bytes(old, name) != Some(bytes)
            {
                self.device_control(name, (size_code(bytes) << 12, 0x7000));
            }
            let tags = [was, is].map(|it| it.part.parameters.requester.tags > PLAIN_TAGS);
            if tags == [false, true] {
                self.device_control(name, (0x0100, 0x0100));
            }
        }
        for name in after.relaxed.iter().filter(|name| !before.relaxed.contains(name)) {
            self.device_control(name, (0x0010, 0x0010));
            self.notes.push(format!(
                "the bit allows relaxed ordering; {name} or its driver has to ask for it too"
            ));
        }
    }

    /// Ends the redirection of ports: Request Redirect, Completion Redirect and Upstream Forwarding
    /// of ACS Control (PCIe 6.x 7.7.11.3).
    fn redirection(&mut self, before: &RunningLab, after: &RunningLab) {
        let functions = after.hosts.iter().flat_map(|host| &host.tree.functions);
        let mut is_less = false;
        for function in functions.filter(|function| !function.redirects) {
            let mut earlier = before.hosts.iter().filter_map(|it| it.tree.find(&function.name));
            if earlier.any(|earlier| earlier.redirects) {
                self.write(&function.name, "ECAP_ACS+6", (0, 0x001c));
                is_less = true;
            }
        }
        if is_less {
            self.notes.push(
                "without redirection the IOMMU no longer keeps the devices below these ports apart"
                    .into(),
            );
        }
    }

    fn translation(&mut self, before: &LabFile, after: &LabFile) {
        for (was, is) in before.hosts.iter().zip(&after.hosts) {
            let [had, has] = [was, is].map(|host| host.part.parameters.iommu.is_some());
            if !had || has {
                continue;
            }
            self.commands.push("boot with iommu=pt".to_owned());
            let off = match is.part.identity.vendor {
                INTEL => "intel_iommu=off",
                AMD => "amd_iommu=off",
                _ => continue,
            };
            self.notes.push(format!(
                "or boot with {off}: then no device is kept from the memory of others"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::import;
    use crate::what_if::{Change, apply};
    use crosslane_lab::Lab;

    /// Each setting of an imported lab as a command with the function's address, its register and
    /// the mask of the field.
    #[test]
    fn every_change_has_its_command() {
        let dump = concat!(env!("CARGO_MANIFEST_DIR"), "/../twin/tests/dumps/server.txt");
        let text = import(&[dump.into()], "server").unwrap().text;
        let lab = Lab::from_text("server.toml", &text).unwrap();
        let set = |text| Change::set(text).unwrap();
        let acs = |text| Change::acs(text).unwrap();
        let first = [set("host.iommu=on"), set("nvme0.tags=32"), acs("on")];
        let before = apply(&lab, &first).unwrap();
        let then = [
            set("nvme0.mps=256"),
            set("nvme0.mrrs=4096"),
            set("nvme0.tags=256"),
            set("nic0.relaxed-ordering=on"),
            set("host.iommu=off"),
            acs("switch-17-00-0=off"),
            Change::moved("gpu1=host").unwrap(),
        ];
        let after = apply(&before.lab, &then).unwrap();
        let (commands, notes) = between(&before, &after, &Flows::default()).unwrap();
        assert_eq!(
            commands,
            [
                "move gpu1 to a root port of socket 0 of host",
                "setpci -s 0000:30:02.0 CAP_EXP+8.w=0020:00e0",
                "setpci -s 0000:31:00.0 CAP_EXP+8.w=0020:00e0",
                "setpci -s 0000:31:00.0 CAP_EXP+8.w=5000:7000",
                "setpci -s 0000:31:00.0 CAP_EXP+8.w=0100:0100",
                "setpci -s 0000:1b:00.0 CAP_EXP+8.w=0010:0010",
                "setpci -s 0000:18:00.0 ECAP_ACS+6.w=0000:001c",
                "setpci -s 0000:18:02.0 ECAP_ACS+6.w=0000:001c",
                "boot with iommu=pt",
            ]
        );
        let set_mps = "or, for its way: crosslane device set-mps --path 0000:31:00.0 host 256";
        assert!(notes.contains(&set_mps.to_owned()), "{notes:?}");
        let off = "or boot with intel_iommu=off: then no device is kept from the memory of others";
        assert!(notes.contains(&off.to_owned()), "{notes:?}");
        assert_eq!(notes.len(), 5, "{notes:?}");
        let (none, _) = between(&before, &before, &Flows::default()).unwrap();
        assert_eq!(none, [] as [String; 0]);
    }
}
