// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links: rate, width, generation, bit errors and length.

use crosslane_fabric::parameters::LinkParameters;
use crosslane_lab::LabFile;
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
fn add(
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
            add(spots, place, LimitKind::LinkWidth, said, move |link| link.rate.width = width);
        }
        if now.generation < generation {
            let words =
                format!("{} of the link{{s}} {{}}, whose ports have {generation}", now.generation);
            add(
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
            add(spots, place, LimitKind::BitErrors, (words, "none"), |it| it.bit_error_rate = 0.0);
        }
    }
    for link in ways.links() {
        let flight = file.links[link].parameters.flight;
        if flight > NO_TIME {
            let [upper, lower] = ways.ports_of(link);
            let name = format!("{} <-> {}", lower.name, upper.name);
            let words = format!("the {flight} of flight on the link{{s}} {{}}");
            let said = (words, "none");
            add(spots, (link, &name), LimitKind::Flight, said, |link| link.flight = NO_TIME);
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
