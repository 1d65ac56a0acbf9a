// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links: rate, width, generation, bit errors and length. Their ports: credits, the delay of their
//! return, and the replay buffer.

use std::collections::BTreeMap;

use crosslane_fabric::DirectionId;
use crosslane_fabric::parameters::{Coalescing, LinkParameters, PortParameters};
use crosslane_lab::LabFile;
use crosslane_pcie::credits::Credits;
use crosslane_pcie::link::{Generation, LinkRate, Width};
use crosslane_results::LimitKind;

use super::ways::{PortRef, Ways, link_of};
use super::{NO_TIME, Spots};

/// A link that carries data.
struct Used {
    link: usize,
    /// `fpga1 -> rc47a.down0`, or `fpga1 <-> rc47a.down0` if data move both ways.
    name: String,
    /// Most flows in one direction.
    flows: usize,
}

fn used(ways: &Ways) -> Vec<Used> {
    let mut links: Vec<Used> = Vec::new();
    for (direction, flows) in ways.data_directions() {
        let (link, flows) = (link_of(direction), flows.len());
        match links.iter_mut().find(|used| used.link == link) {
            Some(used) => {
                used.flows = used.flows.max(flows);
                used.name = used.name.replace(" -> ", " <-> ");
            }
            None => links.push(Used { link, name: ways.direction_name(direction), flows }),
        }
    }
    links
}

/// Adds a limit of a link.
fn add_to_link(
    spots: &mut Spots<'_>,
    (link, name): (usize, &str),
    kind: LimitKind,
    (words, lifted): (String, &str),
    edit: impl Fn(&mut LinkParameters) + Send + Sync + 'static,
) {
    spots.add(kind, name, words, lifted, move |file| edit(&mut file.links[link].parameters));
}

pub(super) fn find(spots: &mut Spots<'_>, first: &LabFile) {
    let (file, ways) = (spots.file, spots.ways);
    for Used { link, name, flows } in used(ways) {
        let LinkParameters { rate, bit_error_rate, .. } = file.links[link].parameters;
        let ends = ways.ports_of(link).each_ref().map(|port| port.parameters);
        let best = ends.map(|port| port.get(first).capability.max_rate);
        let width = best[0].width.min(best[1].width);
        let generation = best[0].generation.min(best[1].generation);
        let (place, now) = ((link, name.as_str()), rate);
        if now.width < width {
            let words =
                format!("width {} of the link{{s}} {{}}, whose ports have {width}", now.width);
            let said = (words, &*width.to_string());
            add_to_link(spots, place, LimitKind::LinkWidth, said, move |link| {
                link.rate.width = width
            });
        }
        if now.generation < generation {
            let words =
                format!("{} of the link{{s}} {{}}, whose ports have {generation}", now.generation);
            add_to_link(
                spots,
                place,
                LimitKind::LinkGeneration,
                (words, &*generation.to_string()),
                move |link| link.rate.generation = generation,
            );
        }
        if now.width >= width && now.generation >= generation {
            faster(spots, place, flows, rate, ends);
        }
        if bit_error_rate > 0.0 {
            let words =
                format!("bit errors on the link{{s}} {{}}, one in {:.0}", 1.0 / bit_error_rate);
            add_to_link(spots, place, LimitKind::BitErrors, (words, "none"), |it| {
                it.bit_error_rate = 0.0
            });
        }
    }
    for link in ways.links() {
        let flight = file.links[link].parameters.flight;
        if flight > NO_TIME {
            let [upper, lower] = ways.ports_of(link);
            let name = format!("{} <-> {}", lower.name, upper.name);
            let words = format!("the {flight} of flight on the link{{s}} {{}}");
            let said = (words, "none");
            add_to_link(spots, (link, &name), LimitKind::Flight, said, |link| {
                link.flight = NO_TIME
            });
        }
    }
}

/// Doubles the rate of a link.
fn faster(
    spots: &mut Spots<'_>,
    (link, name): (usize, &str),
    flows: usize,
    rate: LinkRate,
    ends: [PortRef; 2],
) {
    let Some(twice) = twice(rate) else { return };
    let (kind, sharing) = match flows {
        0 | 1 => (LimitKind::Link, String::new()),
        _ => (LimitKind::SharedLink, format!(", which {flows} flows share")),
    };
    let words = format!("the link{{s}} {{}}, {rate}{sharing}");
    let spot = spots.add(kind, name, words, "twice its rate", move |file| {
        file.links[link].parameters.rate = twice;
        for port in ends {
            let able = &mut port.get_mut(file).capability.max_rate;
            able.width = able.width.max(twice.width);
            able.generation = able.generation.max(twice.generation);
        }
    });
    spot.role = if matches!(ends[1], PortRef::Up(_)) { "uplink" } else { "link" };
}

/// Returns twice the width, or at full width the next generation.
fn twice(rate: LinkRate) -> Option<LinkRate> {
    if let Some(width) = Width::new(rate.width.lanes().saturating_mul(2)) {
        return Some(LinkRate { width, ..rate });
    }
    let generation = Generation::from_number(rate.generation.number() + 1)?;
    Some(LinkRate { generation, ..rate })
}

/// Classes of credits, in the order of the lab's receive buffers.
const CLASSES: [(LimitKind, &str); 3] = [
    (LimitKind::PostedCredits, "posted"),
    (LimitKind::NonPostedCredits, "non-posted"),
    (LimitKind::CompletionCredits, "completion"),
];

/// Returns the ports that receive TLPs of each class.
fn receivers(ways: &Ways) -> [BTreeMap<PortRef, Vec<String>>; 3] {
    let mut directions: [Vec<DirectionId>; 3] = Default::default();
    for transfer in &ways.transfers {
        if transfer.writes {
            directions[0].extend(&transfer.requests);
        }
        if transfer.reads {
            directions[1].extend(&transfer.requests);
            directions[2].extend(&transfer.completions);
        }
    }
    directions.map(|directions| {
        Ways::ports_by_parameters(directions.iter().map(|direction| ways.ends(*direction).1))
    })
}

/// Adds a limit of each port of those that share their parameters.
fn add_to_ports(
    spots: &mut Spots<'_>,
    (port, names): (PortRef, &[String]),
    kind: LimitKind,
    (words, lifted): (&str, &str),
    edit: impl Fn(&mut PortParameters) + Clone + Send + Sync + 'static,
) {
    for name in names {
        let edit = edit.clone();
        let spot = spots.add(kind, name, words, lifted, move |file| edit(port.get_mut(file)));
        spot.role = port.role();
    }
}

pub(super) fn find_ports(spots: &mut Spots<'_>) {
    let (file, ways) = (spots.file, spots.ways);
    let receivers = receivers(ways);
    let mut giving: BTreeMap<PortRef, Vec<String>> = BTreeMap::new();
    for (class, (kind, word)) in CLASSES.into_iter().enumerate() {
        for (port, names) in &receivers[class] {
            let Credits { header, data, .. } = port.get(file).receive_credits[class];
            if header == u32::MAX && data == u32::MAX {
                continue;
            }
            let known = giving.entry(*port).or_default();
            for name in names {
                if !known.contains(name) {
                    known.push(name.clone());
                }
            }
            let count = |credits: u32| match credits {
                u32::MAX => "infinite".to_owned(),
                number => number.to_string(),
            };
            let plural = if header == 1 { "" } else { "s" };
            let (header, data) = (count(header), count(data));
            let words = format!(
                "the {word} credits of {{}} ({header} header{plural}, {data} x 16 B of data)"
            );
            add_to_ports(spots, (*port, names), kind, (&words, "infinite"), move |port| {
                port.receive_credits[class] = Credits::INFINITE;
            });
        }
    }
    for (port, names) in &giving {
        let habit = port.get(file).update_fc;
        let within = habit.within.map_or_else(
            || "the limit of the specification".to_owned(),
            |within| within.to_string(),
        );
        let words = match habit.tlps {
            0 | 1 => continue,
            u32::MAX => format!("how late credits of {{}} come back (after {within})"),
            tlps => format!("how late credits of {{}} come back (after {tlps} TLPs or {within})"),
        };
        let (kind, said) = (LimitKind::CreditReturn, (words.as_str(), "after each TLP"));
        add_to_ports(spots, (*port, names), kind, said, |port| {
            port.update_fc = Coalescing::EVERY_TLP
        });
    }
    let data = ways.data_directions();
    let senders = data.iter().map(|(direction, _)| ways.ends(*direction).0);
    for (port, names) in &Ways::ports_by_parameters(senders) {
        let bytes = port.get(file).replay_buffer_bytes;
        if bytes < u32::MAX {
            let words = format!("the replay buffer{{s}} of {{}}, {bytes} B");
            let (kind, said) = (LimitKind::ReplayBuffer, (words.as_str(), "without end"));
            add_to_ports(spots, (*port, names), kind, said, |port| {
                port.replay_buffer_bytes = u32::MAX
            });
        }
    }
}
