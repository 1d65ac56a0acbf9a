// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `device doctor` finds: each thing looked at, whether it is well, and what would help.

use crosslane_driver::{Place, Plan, Refusal};
use crosslane_explain::size_words;
use crosslane_vfio::sysfs::{
    Address, ConfigurationWrites, Express, Machine, PciFunction, Right, Tree, huge_pages,
    in_the_way, iommu_groups, iommu_help, locking_right, rights, vfio_right, why_kept,
};
use serde_json::{Value, json};

use super::info::{errors_words, way_down};
use super::list::link_words;
use crate::quantity::count_words;

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// As it should be.
    Well,
    /// Worth knowing.
    Note,
    /// Costs speed, or stands in the way.
    Problem,
}

impl State {
    /// As it is printed.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Well => "ok",
            Self::Note => "note",
            Self::Problem => "problem",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug)]
pub struct Finding {
    /// How it is.
    pub state: State,
    /// What was looked at.
    pub what: String,
    /// What was found.
    pub found: String,
    /// What would help, a command where there is one; empty where nothing is needed.
    pub help: String,
}

impl Finding {
    fn new(state: State, what: &str, found: String, help: impl Into<String>) -> Self {
        Self { state, what: what.to_owned(), found, help: help.into() }
    }

    /// For a program.
    pub fn json(&self) -> Value {
        json!({
            "state": self.state.word(),
            "what": self.what,
            "found": self.found,
            "help": self.help,
        })
    }
}

/// Everything that can be found without opening the function.
pub fn look(
    machine: &Machine,
    tree: &Tree,
    card: &PciFunction,
    peer: Option<&PciFunction>,
) -> Vec<Finding> {
    let mut findings = links(tree, card);
    findings.extend(payload(tree, card));
    if let Some(express) = card.express() {
        findings.extend(requests(card, &express));
    }
    findings.extend(commands(tree, card));
    findings.push(group(machine, tree, card));
    findings.extend(ways(tree, card, peer));
    findings.push(match card.numa_node {
        Some(node) => {
            let help = format!("keep programs and their memory there: numactl -N {node} -m {node}");
            Finding::new(State::Note, "NUMA node", node.to_string(), help)
        }
        None => Finding::new(State::Well, "NUMA node", "the machine names none".to_owned(), ""),
    });
    findings.extend(errors(tree, card));
    findings.push(hugepages(machine));
    findings.extend(rights(machine, card).into_iter().map(|right| of_right(right, State::Note)));
    findings
}

/// A right, and how it is where it is missing.
fn of_right(right: Right, missing: State) -> Finding {
    let state = if right.granted { State::Well } else { missing };
    Finding::new(state, &format!("right to {}", right.what), right.found, right.command)
}

/// What every card of the machine needs.
pub fn look_at_machine(machine: &Machine) -> Vec<Finding> {
    let groups = iommu_groups(machine);
    let iommu = match groups {
        0 => {
            let help = format!("turn the IOMMU on: {}", iommu_help(machine));
            Finding::new(State::Problem, "IOMMU", "none: VFIO needs one".to_owned(), help)
        }
        _ => Finding::new(State::Well, "IOMMU", count_words(groups, "group", "groups"), ""),
    };
    let vfio = of_right(vfio_right(machine), State::Problem);
    vec![iommu, vfio, hugepages(machine), of_right(locking_right(machine), State::Note)]
}

/// Every link from the root port to the card: trained to what both ends are able to do?
fn links(tree: &Tree, card: &PciFunction) -> Vec<Finding> {
    let way = way_down(tree, card);
    let mut findings = Vec::new();
    for pair in way.windows(2) {
        let [upper, lower] = pair else { continue };
        let is_link = upper.kind.port_type().is_some_and(|kind| kind.is_above_its_link());
        let (true, Some((now, best)), Some((_, above))) = (is_link, lower.link(), upper.link())
        else {
            continue;
        };
        let what = format!("link {} to {}", upper.address, lower.address);
        let possible = (best.speed.min(above.speed), best.lanes.min(above.lanes));
        let finding = if now.speed < possible.0 || now.lanes < possible.1 {
            let found = format!("{now}, and both ends can do Gen{} x{}", possible.0, possible.1);
            let help = "seat the card anew, try another slot or riser, and look at the slot's \
                        settings in the firmware";
            Finding::new(State::Problem, &what, found, help)
        } else if now.speed < best.speed || now.lanes < best.lanes {
            let found = format!("{}; the port above can do no more", link_words((now, best)));
            Finding::new(State::Note, &what, found, "a better slot, if there is one")
        } else {
            Finding::new(State::Well, &what, now.to_string(), "")
        };
        findings.push(finding);
    }
    if findings.is_empty() {
        let found = format!("no link registers: it is a {}", card.kind);
        findings.push(Finding::new(State::Note, "link", found, ""));
    }
    findings
}

/// Max_Payload_Size along the way to host memory.
fn payload(tree: &Tree, card: &PciFunction) -> Vec<Finding> {
    if card.express().is_none() && card.kind_is_read {
        // A device of PCI has no such register.
        return Vec::new();
    }
    let way = way_down(tree, card);
    let sizes: Vec<(&PciFunction, Express)> =
        way.iter().filter_map(|&port| Some((port, port.express()?))).collect();
    let (Some(own), Some(set), Some(possible)) = (
        card.express(),
        sizes.iter().map(|(_, it)| it.max_payload_bytes).min(),
        sizes.iter().map(|(_, it)| it.max_payload_supported_bytes).min(),
    ) else {
        let found = "cannot be seen".to_owned();
        return vec![Finding::new(State::Note, "Max_Payload_Size", found, "run as root (sudo)")];
    };
    let command = format!("sudo crosslane device set-mps --path {} host {possible}", card.address);
    let what = "Max_Payload_Size";
    let too_small: Vec<String> = sizes
        .iter()
        .filter(|(_, it)| it.max_payload_bytes < own.max_payload_bytes)
        .map(|(port, it)| format!("{} {} B", port.address, it.max_payload_bytes))
        .collect();
    if !too_small.is_empty() {
        let found = format!(
            "the card may send {} B, and on the way are set to less: {}",
            own.max_payload_bytes,
            too_small.join(", ")
        );
        return vec![Finding::new(State::Problem, what, found, command)];
    }
    if set < possible {
        let found = format!("{set} B in force, {possible} B possible on the whole way");
        return vec![Finding::new(State::Problem, what, found, command)];
    }
    vec![Finding::new(State::Well, what, format!("{set} B, all that the way can do"), "")]
}

/// What the card may put into its requests.
fn requests(card: &PciFunction, express: &Express) -> Vec<Finding> {
    let address = card.address;
    let set = |field: &str| format!("sudo setpci -s {address} CAP_EXP+8.w={field}");
    let mut findings = Vec::new();
    let read = express.max_read_request_bytes;
    findings.push(if read < 512 {
        let help = set("2000:7000");
        let found = format!("{read} B: many short requests, each with a tag of its own");
        Finding::new(State::Problem, "Max_Read_Request_Size", found, help)
    } else {
        Finding::new(State::Well, "Max_Read_Request_Size", format!("{read} B"), "")
    });
    let tags = format!("{} reads can be told apart", express.tags());
    findings.push(if express.extended_tags_supported && !express.extended_tags {
        let found = format!("off, though the card has it: {tags}");
        Finding::new(State::Problem, "Extended Tag", found, set("0100:0100"))
    } else {
        let state = if express.extended_tags { State::Well } else { State::Note };
        let word = if express.extended_tags { "on" } else { "the card has it not" };
        Finding::new(state, "Extended Tag", format!("{word}: {tags}"), "")
    });
    let (word, help) = match express.relaxed_ordering {
        true => ("on", String::new()),
        false => ("off: completions wait behind writes", set("0010:0010")),
    };
    let state = if express.relaxed_ordering { State::Well } else { State::Note };
    findings.push(Finding::new(state, "relaxed ordering", word.to_owned(), help));
    findings
}

/// Bus mastering, of the ports above too: without it nothing from below passes.
fn commands(tree: &Tree, card: &PciFunction) -> Vec<Finding> {
    let above = tree.above(card.address).into_iter();
    let off: Vec<String> = above
        .filter(|port| port.configuration.bus_master() == Some(false))
        .map(|port| port.address.to_string())
        .collect();
    let mut findings = Vec::new();
    if !off.is_empty() {
        let help = format!("sudo setpci -s {} COMMAND=4:4", off[0]);
        let found = format!("off in {}: requests of the card end there", off.join(", "));
        findings.push(Finding::new(State::Problem, "bus mastering above", found, help));
    }
    if let Some(on) = card.configuration.bus_master() {
        let found = if on { "on" } else { "off; turned on when the card is opened" };
        findings.push(Finding::new(State::Well, "bus mastering", found.to_owned(), ""));
    }
    findings
}

fn group(machine: &Machine, tree: &Tree, card: &PciFunction) -> Finding {
    let what = "IOMMU group";
    let Some(group) = &card.iommu_group else {
        let help = format!("turn the IOMMU on: {}", iommu_help(machine));
        return Finding::new(State::Problem, what, "none: VFIO needs one".to_owned(), help);
    };
    let others = in_the_way(tree, card);
    if others.is_empty() {
        let count = group.members.len().saturating_sub(1);
        let found = format!("{}, with {count} other functions, none in the way", group.number);
        return Finding::new(State::Well, what, found, "");
    }
    let words: Vec<String> =
        others.iter().map(|(address, driver)| format!("{address} ({driver})")).collect();
    let found = format!("{}, with others that drivers have: {}", group.number, words.join(", "));
    let is_kept = |address| tree.function(address).is_ok_and(|it| why_kept(it).is_some());
    let (kept, free): (Vec<Address>, Vec<Address>) =
        others.into_iter().map(|(address, _)| address).partition(|address| is_kept(*address));
    let help = if kept.is_empty() {
        let commands = free.iter().map(|address| format!("sudo crosslane device bind {address}"));
        commands.collect::<Vec<_>>().join("; ")
    } else {
        let kept: Vec<String> = kept.iter().map(Address::to_string).collect();
        format!("another slot for the card: the system uses {}", kept.join(", "))
    };
    Finding::new(State::Problem, what, found, help)
}

/// The plan to host memory, and to a peer: what stands against a faster way.
fn ways(tree: &Tree, card: &PciFunction, peer: Option<&PciFunction>) -> Vec<Finding> {
    let segment = tree.segment(card.address.domain, ConfigurationWrites::Forbidden);
    let from = Place::Function(card.address.id);
    let mut findings = Vec::new();
    let redirecting: Vec<String> = tree
        .above(card.address)
        .into_iter()
        .filter(|port| port.configuration.acs().is_some_and(|acs| acs.redirects_requests()))
        .map(|port| port.address.to_string())
        .collect();
    let found = match redirecting.len() {
        0 => "no port on the way redirects peer requests".to_owned(),
        _ => format!("{} redirects peer requests up", redirecting.join(", ")),
    };
    findings.push(Finding::new(
        if redirecting.is_empty() { State::Well } else { State::Note },
        "ACS",
        found,
        "",
    ));
    let Some(peer) = peer else { return findings };
    let what = format!("way to {}", peer.address);
    if peer.address.domain != card.address.domain {
        let found = "of another domain: no way between them".to_owned();
        findings.push(Finding::new(State::Problem, &what, found, ""));
        return findings;
    }
    match Plan::new(&segment, from, Place::Function(peer.address.id)) {
        Ok(plan) => {
            let refused: Vec<String> = plan.refused.iter().map(ToString::to_string).collect();
            let state = if refused.is_empty() { State::Well } else { State::Problem };
            let by = if plan.through_root_complex { "by the root complex" } else { "by a switch" };
            let found = format!(
                "{by}, payloads of {} B{}{}",
                plan.max_payload_bytes,
                if refused.is_empty() { "" } else { "; not faster: " },
                refused.join("; ")
            );
            let help: Vec<String> = plan
                .refused
                .iter()
                .filter_map(|refusal| match refusal {
                    Refusal::AcsRedirect { port } => Some(format!(
                        "sudo setpci -s {port} ECAP_ACS+6.w=0:4 (which ends the isolation there)"
                    )),
                    Refusal::MaxPayload { possible_bytes, .. } => Some(format!(
                        "sudo crosslane device set-mps --path {} {} {possible_bytes}",
                        card.address, peer.address
                    )),
                    _ => None,
                })
                .collect();
            findings.push(Finding::new(state, &what, found, help.join("; ")));
        }
        Err(error) => {
            findings.push(Finding::new(State::Problem, &what, error.to_string(), ""));
        }
    }
    findings
}

/// Errors that ports have seen, and that the kernel has counted.
fn errors(tree: &Tree, card: &PciFunction) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut counted = false;
    for port in way_down(tree, card) {
        let Some(errors) = &port.errors else { continue };
        counted = true;
        if !errors.is_clean() {
            let is_bad = !errors.fatal.is_empty() || !errors.non_fatal.is_empty();
            let state = if is_bad { State::Problem } else { State::Note };
            let what = format!("errors of {}", port.address);
            let help = "a growing count is a bad link: seat the card anew, try another slot";
            findings.push(Finding::new(state, &what, errors_words(port), help));
        }
    }
    if findings.is_empty() {
        let (state, found) = match counted {
            true => (State::Well, "none on the way"),
            false => (State::Note, "the kernel counts none here (no AER)"),
        };
        findings.push(Finding::new(state, "errors counted", found.to_owned(), ""));
    }
    findings
}

fn hugepages(machine: &Machine) -> Finding {
    let sizes = huge_pages(machine);
    let free: Vec<String> = sizes
        .iter()
        .filter(|size| size.pages > 0)
        .map(|it| format!("{} of {} free of {}", it.free, it.pages, size_words(it.page_bytes)))
        .collect();
    let what = "huge pages";
    if !free.is_empty() {
        return Finding::new(State::Well, what, free.join(", "), "");
    }
    let help = match sizes.first() {
        Some(size) => format!(
            "echo 64 | sudo tee /sys/kernel/mm/hugepages/hugepages-{}kB/nr_hugepages",
            size.page_bytes / 1024
        ),
        None => String::new(),
    };
    let found = "none set aside: buffers are of small pages, each its own mapping".to_owned();
    Finding::new(State::Note, what, found, help)
}
