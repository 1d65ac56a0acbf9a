// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings of the doctor: each property examined, its severity, and the remedy.

use crosslane_driver::{PathEnd, Plan, Refusal};
use crosslane_results::machine::{Finding, Severity};
use crosslane_results::quantity::size_words;
use crosslane_vfio::Placement;
use crosslane_vfio::sysfs::{
    Address, ConfigurationWrites, Express, Machine, PciFunction, Right, Segment, Tree, huge_pages,
    in_the_way, iommu_groups, iommu_help, locking_right, rights, vfio_right, why_kept,
};

use super::describe::{error_words, link_words, path_from_root, placement};

fn finding(severity: Severity, what: &str, found: String, help: impl Into<String>) -> Finding {
    Finding { severity, what: what.to_owned(), found, help: help.into() }
}

/// Examines a card, its path to memory and to a peer, and the program's rights, without opening the
/// card.
pub fn examine_card(
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
    findings.extend(paths(tree, card, peer));
    findings.push(match card.numa_node {
        Some(node) => {
            let help = format!("keep programs there: numactl -N {node}");
            finding(Severity::Note, "NUMA node", node.to_string(), help)
        }
        None => finding(Severity::Ok, "NUMA node", "the machine names none".to_owned(), ""),
    });
    findings.push(buffers(&placement(machine, card)));
    findings.extend(errors(tree, card));
    findings.push(hugepages(machine));
    findings.extend(rights(machine, card).into_iter().map(|right| of_right(right, Severity::Note)));
    findings
}

/// Returns the finding on the place of a card's buffers.
fn buffers(placement: &Placement) -> Finding {
    let (severity, help) = match placement.is_refused() {
        true => (Severity::Problem, "docker run --cap-add SYS_NICE, or a cpuset with the node"),
        false => (Severity::Ok, ""),
    };
    finding(severity, "buffers", placement.to_string(), help)
}

/// Returns the finding on a right; `missing` is the severity of its absence.
fn of_right(right: Right, missing: Severity) -> Finding {
    let severity = if right.granted { Severity::Ok } else { missing };
    finding(severity, &format!("right to {}", right.what), right.found, right.command)
}

/// Examines the requirements of all cards of the machine.
pub fn examine_machine(machine: &Machine) -> Vec<Finding> {
    let groups = iommu_groups(machine);
    let iommu = match groups {
        0 => {
            let help = format!("turn the IOMMU on: {}", iommu_help(machine));
            finding(Severity::Problem, "IOMMU", "none: VFIO needs one".to_owned(), help)
        }
        _ => finding(
            Severity::Ok,
            "IOMMU",
            format!("{groups} group{}", if groups == 1 { "" } else { "s" }),
            "",
        ),
    };
    let vfio = of_right(vfio_right(machine), Severity::Problem);
    vec![iommu, vfio, hugepages(machine), of_right(locking_right(machine), Severity::Note)]
}

/// Compares the rate of every link from the root port to the card with the best of both ends.
fn links(tree: &Tree, card: &PciFunction) -> Vec<Finding> {
    let path = path_from_root(tree, card);
    let mut findings = Vec::new();
    for pair in path.windows(2) {
        let [upper, lower] = pair else { continue };
        let is_link = upper.kind.port_type().is_some_and(|kind| kind.is_above_its_link());
        let (true, Some((now, best)), Some((_, above))) = (is_link, lower.link(), upper.link())
        else {
            continue;
        };
        let what = format!("link {} to {}", upper.address, lower.address);
        let possible = (best.speed.min(above.speed), best.lanes.min(above.lanes));
        let finding = if now.speed < possible.0 || now.lanes < possible.1 {
            let found = format!("{now}, and both ends support Gen{} x{}", possible.0, possible.1);
            let help = "reseat the card, try another slot or riser, and look at the slot's \
                        settings in the firmware";
            finding(Severity::Problem, &what, found, help)
        } else if now.speed < best.speed || now.lanes < best.lanes {
            let found = format!("{}; the port above supports no more", link_words((now, best)));
            finding(Severity::Note, &what, found, "a better slot, if there is one")
        } else {
            finding(Severity::Ok, &what, now.to_string(), "")
        };
        findings.push(finding);
    }
    if findings.is_empty() {
        findings.push(match card.link().filter(|_| card.kind.is_linked_endpoint()) {
            Some((now, best)) if now.speed < best.speed || now.lanes < best.lanes => {
                let found = format!("{}; the port above it is not shown", link_words((now, best)));
                finding(Severity::Note, "link", found, "compare it with what the slot supports")
            }
            Some((now, _)) => {
                finding(Severity::Ok, "link", format!("{now}; the port above it is not shown"), "")
            }
            None => {
                let found = format!("no link registers: {}", card.kind);
                finding(Severity::Note, "link", found, "")
            }
        });
    }
    findings
}

/// Compares Max_Payload_Size of the ports on the path to host memory.
fn payload(tree: &Tree, card: &PciFunction) -> Vec<Finding> {
    if card.express().is_none() && card.kind_is_read {
        // A conventional PCI device has no such register.
        return Vec::new();
    }
    let path = path_from_root(tree, card);
    let sizes: Vec<(&PciFunction, Express)> =
        path.iter().filter_map(|&port| Some((port, port.express()?))).collect();
    let (Some(own), Some(set), Some(possible)) = (
        card.express(),
        sizes.iter().map(|(_, it)| it.max_payload_bytes).min(),
        sizes.iter().map(|(_, it)| it.max_payload_supported_bytes).min(),
    ) else {
        let found = "not visible".to_owned();
        return vec![finding(Severity::Note, "Max_Payload_Size", found, "run as root (sudo)")];
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
            "the card may send {} B, and ports on its path are set to less: {}",
            own.max_payload_bytes,
            too_small.join(", ")
        );
        return vec![finding(Severity::Problem, what, found, command)];
    }
    if set < possible {
        let found = format!("{set} B in force, {possible} B possible on the whole path");
        return vec![finding(Severity::Problem, what, found, command)];
    }
    vec![finding(Severity::Ok, what, format!("{set} B, the most that its path supports"), "")]
}

/// Examines the sizes, tags and ordering of the card's requests.
fn requests(card: &PciFunction, express: &Express) -> Vec<Finding> {
    let address = card.address;
    let set = |field: &str| format!("sudo setpci -s {address} CAP_EXP+8.w={field}");
    let mut findings = Vec::new();
    let read = express.max_read_request_bytes;
    findings.push(if read < 512 {
        let help = set("2000:7000");
        let found = format!("{read} B: many short requests, each with its own tag");
        finding(Severity::Problem, "Max_Read_Request_Size", found, help)
    } else {
        finding(Severity::Ok, "Max_Read_Request_Size", format!("{read} B"), "")
    });
    let tags = format!("{} reads in flight", express.tags());
    findings.push(if express.extended_tags_supported && !express.extended_tags {
        let found = format!("off, though the card supports it: {tags}");
        finding(Severity::Problem, "Extended Tag", found, set("0100:0100"))
    } else {
        let severity = if express.extended_tags { Severity::Ok } else { Severity::Note };
        let word = if express.extended_tags { "on" } else { "not supported" };
        finding(severity, "Extended Tag", format!("{word}: {tags}"), "")
    });
    let (word, help) = match express.relaxed_ordering {
        true => ("on", String::new()),
        false => ("off: completions wait behind writes", set("0010:0010")),
    };
    let severity = if express.relaxed_ordering { Severity::Ok } else { Severity::Note };
    findings.push(finding(severity, "relaxed ordering", word.to_owned(), help));
    findings
}

/// Examines bus mastering, also of the ports above: without it they stop requests from below.
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
        findings.push(finding(Severity::Problem, "bus mastering above", found, help));
    }
    if let Some(on) = card.configuration.bus_master() {
        let found = if on { "on" } else { "off; turned on when the card is opened" };
        findings.push(finding(Severity::Ok, "bus mastering", found.to_owned(), ""));
    }
    findings
}

fn group(machine: &Machine, tree: &Tree, card: &PciFunction) -> Finding {
    let what = "IOMMU group";
    let Some(group) = &card.iommu_group else {
        let help = format!("turn the IOMMU on: {}", iommu_help(machine));
        return finding(Severity::Problem, what, "none: VFIO needs one".to_owned(), help);
    };
    let others = in_the_way(tree, card);
    if others.is_empty() {
        let count = group.members.len().saturating_sub(1);
        let found =
            format!("{}, with {count} other functions, none held by another driver", group.number);
        return finding(Severity::Ok, what, found, "");
    }
    let words: Vec<String> =
        others.iter().map(|(address, driver)| format!("{address} ({driver})")).collect();
    let found =
        format!("{}, with functions that other drivers hold: {}", group.number, words.join(", "));
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
    finding(Severity::Problem, what, found, help)
}

/// Examines the paths to host memory and to a peer, and the reasons against faster paths.
fn paths(tree: &Tree, card: &PciFunction, peer: Option<&PciFunction>) -> Vec<Finding> {
    let segment = Segment::new(tree, card.address.domain, ConfigurationWrites::Forbidden);
    let from = PathEnd::Function(card.address.id);
    let mut findings = Vec::new();
    let redirecting: Vec<String> = tree
        .above(card.address)
        .into_iter()
        .filter(|port| port.configuration.acs().is_some_and(|acs| acs.redirects_requests()))
        .map(|port| port.address.to_string())
        .collect();
    let found = match redirecting.len() {
        0 => "no port on the path redirects peer requests".to_owned(),
        _ => format!("{} redirects peer requests up", redirecting.join(", ")),
    };
    findings.push(finding(
        if redirecting.is_empty() { Severity::Ok } else { Severity::Note },
        "ACS",
        found,
        "",
    ));
    let Some(peer) = peer else { return findings };
    let what = format!("path to {}", peer.address);
    if peer.address.domain != card.address.domain {
        let found = "in another domain: no path joins them".to_owned();
        findings.push(finding(Severity::Problem, &what, found, ""));
        return findings;
    }
    match Plan::new(&segment, from, PathEnd::Function(peer.address.id)) {
        Ok(plan) => {
            let refused: Vec<String> = plan.refused.iter().map(ToString::to_string).collect();
            let severity = if refused.is_empty() { Severity::Ok } else { Severity::Problem };
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
            findings.push(finding(severity, &what, found, help.join("; ")));
        }
        Err(error) => {
            findings.push(finding(Severity::Problem, &what, error.to_string(), ""));
        }
    }
    findings
}

/// Reports errors of ports that the kernel has counted.
fn errors(tree: &Tree, card: &PciFunction) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut counted = false;
    for port in path_from_root(tree, card) {
        let Some(errors) = &port.errors else { continue };
        counted = true;
        if !errors.is_clean() {
            let is_bad = !errors.fatal.is_empty() || !errors.non_fatal.is_empty();
            let severity = if is_bad { Severity::Problem } else { Severity::Note };
            let what = format!("errors of {}", port.address);
            let help = "a growing count is a bad link: reseat the card, try another slot";
            findings.push(finding(severity, &what, error_words(port), help));
        }
    }
    if findings.is_empty() {
        let (severity, found) = match counted {
            true => (Severity::Ok, "none on the path"),
            false => (Severity::Note, "the kernel counts none here (no AER)"),
        };
        findings.push(finding(severity, "errors counted", found.to_owned(), ""));
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
        return finding(Severity::Ok, what, free.join(", "), "");
    }
    let help = match sizes.first() {
        Some(size) => format!(
            "echo 64 | sudo tee /sys/kernel/mm/hugepages/hugepages-{}kB/nr_hugepages",
            size.page_bytes / 1024
        ),
        None => String::new(),
    };
    let found =
        "none reserved: buffers consist of small pages, each with its own mapping".to_owned();
    finding(Severity::Note, what, found, help)
}
