// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trees of a lab file: what is above and below a link, and the ports at its ends.

use std::sync::Arc;

use crosslane_fabric::parameters::PortParameters;
use crosslane_lab::LabFile;
use crosslane_lab::file::LinkInstance;

/// Returns the link of the root port above a link, or itself.
pub fn root_link(file: &LabFile, link: usize) -> Option<usize> {
    file.root_link(&file.links[link].lower)
}

/// Returns the link of the root port above a node.
pub fn root_of(file: &LabFile, name: &str) -> Vec<usize> {
    file.root_link(name).into_iter().collect()
}

/// Returns the links of a host's root ports.
pub fn root_links(file: &LabFile, host: &str) -> Vec<usize> {
    (0..file.links.len()).filter(|link| file.links[*link].upper == host).collect()
}

/// Returns the host of a node, an index.
pub fn host_of(file: &LabFile, name: &str) -> Option<usize> {
    let upper = &file.links[file.root_link(name)?].upper;
    file.hosts.iter().position(|host| host.name == *upper)
}

/// Whether a node is another, or below it.
pub fn is_below(file: &LabFile, name: &str, upper: &str) -> bool {
    name == upper || file.links_upwards(name).any(|link| file.links[link].upper == upper)
}

/// Returns the links below that of a root port, and itself.
pub fn links(file: &LabFile, root: usize) -> Vec<usize> {
    (0..file.links.len()).filter(|link| root_link(file, *link) == Some(root)).collect()
}

/// Returns the endpoints below the link of a root port, by their indexes.
pub fn endpoints(file: &LabFile, root: usize) -> Vec<usize> {
    let is_there = |name: &str| root_of(file, name) == [root];
    (0..file.endpoints.len()).filter(|index| is_there(&file.endpoints[*index].name)).collect()
}

/// Returns the endpoints of a host, by their indexes.
pub fn of_host(file: &LabFile, host: usize) -> Vec<usize> {
    let is_there = |name: &str| host_of(file, name) == Some(host);
    (0..file.endpoints.len()).filter(|index| is_there(&file.endpoints[*index].name)).collect()
}

/// Returns the port at the upper end of a link.
///
/// # Panics
/// If there is no such node; a lab that was read has it.
pub fn upper_port(file: &LabFile, link: usize) -> &PortParameters {
    let upper = &file.links[link].upper;
    let host = file.hosts.iter().find(|host| host.name == *upper).map(|host| &host.part.port);
    let switch = || file.switches.iter().find(|switch| switch.name == *upper);
    host.or_else(|| switch().map(|switch| &switch.part.downstream)).expect("it is wired")
}

/// Returns the same to be changed: ports of a host or a switch share their constants.
///
/// # Panics
/// As [`upper_port`].
pub fn upper_port_mut(file: &mut LabFile, link: usize) -> &mut PortParameters {
    let LabFile { links, hosts, switches, .. } = file;
    let upper = &links[link].upper;
    match hosts.iter_mut().find(|host| host.name == *upper) {
        Some(host) => &mut Arc::make_mut(&mut host.part).port,
        None => {
            let switch = switches.iter_mut().find(|switch| switch.name == *upper);
            &mut Arc::make_mut(&mut switch.expect("it is wired").part).downstream
        }
    }
}

/// Returns the port at the lower end of a link, to be changed.
///
/// # Panics
/// As [`upper_port`].
pub fn lower_port_mut(file: &mut LabFile, link: usize) -> &mut PortParameters {
    let LabFile { links, switches, endpoints, .. } = file;
    let lower = &links[link].lower;
    match switches.iter_mut().find(|switch| switch.name == *lower) {
        Some(switch) => &mut Arc::make_mut(&mut switch.part).upstream,
        None => {
            let endpoint = endpoints.iter_mut().find(|endpoint| endpoint.name == *lower);
            &mut Arc::make_mut(&mut endpoint.expect("it is wired").part).port
        }
    }
}

/// Returns the least Max_Payload_Size Supported of a root port and all below it, and the name of
/// its node.
pub fn least_payload(file: &LabFile, root: usize) -> (String, u32) {
    let links = links(file, root).into_iter();
    let ports = links.flat_map(|link| {
        let LinkInstance { upper, lower, .. } = &file.links[link];
        let switch = file.switches.iter().find(|it| it.name == *lower).map(|it| &it.part.upstream);
        let endpoint = || file.endpoints.iter().find(|it| it.name == *lower);
        let below = switch.or_else(|| endpoint().map(|it| &it.part.port)).expect("it is wired");
        [(upper, upper_port(file, link)), (lower, below)]
    });
    let able = ports.map(|(name, port)| (name, u32::from(port.capability.max_payload_bytes)));
    able.min_by_key(|(_, bytes)| *bytes)
        .map_or_else(Default::default, |(name, bytes)| (name.clone(), bytes))
}

/// Word of the ports that links make below a host or a switch, as a lab names them.
fn word(file: &LabFile, upper: &str) -> &'static str {
    if file.hosts.iter().any(|host| host.name == upper) { "port" } else { "down" }
}

/// Gives each upper port the name that the lab makes for it.
pub fn name_ports(file: &mut LabFile) {
    let mut made: Vec<String> = Vec::new();
    for link in 0..file.links.len() {
        let upper = file.links[link].upper.clone();
        let count = made.iter().filter(|other| **other == upper).count();
        let name = format!("{}{count}", word(file, &upper));
        file.links[link].upper_port.get_or_insert(name);
        made.push(upper);
    }
}

/// Returns the first name that no port of a host or a switch has.
pub fn free_port(file: &LabFile, upper: &str) -> String {
    let word = word(file, upper);
    let is_taken = |name: &String| {
        let mut links = file.links.iter();
        links.any(|link| link.upper == upper && link.upper_port.as_ref() == Some(name))
    };
    let mut names = (0..=file.links.len()).map(|number| format!("{word}{number}"));
    names.find(|name| !is_taken(name)).unwrap_or_default()
}

/// Returns the link at a port of that name, whichever node has it.
pub fn at_port<'a>(file: &'a LabFile, port: &str) -> Option<&'a LinkInstance> {
    file.links.iter().find(|link| link.upper_port.as_deref() == Some(port))
}
