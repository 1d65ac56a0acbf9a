// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines of ports in a lab file: rates, payloads, tags and services, as registers say them or as
//! the links below need them.

use crosslane_sysfs::{Express, LinkCode, PciFunction};

use crate::assumptions::{ASSUMED_LINK, UNSEEN};
use crate::lab_file::{assume, read, size};
use crate::library::Part;
use crate::plan::LinkPlan;

/// Returns the highest rate and the largest width of some links, for ports of one part.
fn best(links: impl Iterator<Item = LinkCode>) -> (u8, u8) {
    links.fold((1, 1), |(speed, lanes), link| {
        // Generations beyond those of labs are reduced to the highest.
        (speed.max(link.speed.min(6)), lanes.max(known_width(link.lanes)))
    })
}

/// Returns the largest width of labs with no more than `lanes` lanes.
fn known_width(lanes: u8) -> u8 {
    [32, 16, 12, 8, 4, 2, 1].into_iter().find(|&width| width <= lanes).unwrap_or(1)
}

/// Writes the best rate of ports: what a register says, unless assumed links are faster.
pub(crate) fn best_rate(
    text: &mut String,
    shown: impl Iterator<Item = LinkCode>,
    links: &[&LinkPlan<'_>],
    source: &str,
) {
    let of = |is_assumed: bool| {
        links.iter().filter(move |it| it.is_assumed == is_assumed).map(|link| link.rate)
    };
    let seen = best(shown.chain(of(false)));
    let all = best(of(true));
    for (key, seen, all) in [("max_generation", seen.0, all.0), ("max_width", seen.1, all.1)] {
        match all > seen {
            true => assume(text, &[(key, &all.to_string(), ASSUMED_LINK)]),
            false => read(text, key, seen, source),
        }
    }
}

/// Writes the capabilities of a port, or of several alike, with their links.
pub(crate) fn capability(
    text: &mut String,
    ports: &[&PciFunction],
    links: &[&LinkPlan<'_>],
    has_acs: bool,
) {
    // Some devices show a capability below the rate at which their link runs.
    let kernel = ports.iter().filter_map(|port| Some(port.link()?.1));
    let shown = ports.iter().filter_map(|port| Some(port.express()?.link_capability));
    best_rate(text, kernel.chain(shown), links, "Link Capabilities");
    let seen: Vec<Express> = ports.iter().filter_map(|port| port.express()).collect();
    if seen.is_empty() {
        assume(text, &[("max_payload_bytes", "256", UNSEEN), ("extended_tags", "true", UNSEEN)]);
    } else {
        // Ports of one part are alike: the host's have a limit each where they are not.
        let payload = seen.iter().map(|express| size(express.max_payload_supported_bytes)).max();
        read(text, "max_payload_bytes", payload.unwrap_or(128), "Device Capabilities");
        let tags = seen.iter().all(|it| it.extended_tags_supported || it.extended_tags);
        read(text, "extended_tags", tags, "Device Capabilities");
        if seen.iter().all(|it| it.ten_bit_tags_supported || it.ten_bit_tags) {
            read(text, "ten_bit_tags", true, "Device Capabilities 2");
        }
    }
    if has_acs && !seen.is_empty() {
        let acs = ports.iter().any(|port| port.configuration.acs().is_some());
        read(text, "acs", acs, "whether the capability is there");
    }
}

/// Writes the rate of ports that no dump shows, where their links run at a higher one than the
/// library has for such a part.
pub(crate) fn rates(text: &mut String, part: &Part, links: &[&LinkPlan<'_>]) {
    let (speed, lanes) = best(links.iter().map(|link| link.rate));
    let Some(known) = part.best_link("port") else { return };
    for (key, known, seen) in
        [("max_generation", known.speed, speed), ("max_width", known.lanes, lanes)]
    {
        if known < seen {
            match links.iter().any(|link| link.is_assumed) {
                true => assume(text, &[(key, &seen.to_string(), ASSUMED_LINK)]),
                false => read(text, key, seen, "Link Status of what is below"),
            }
        }
    }
}
