// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links: rate, width, generation, bit errors and length.

use crosslane_fabric::parameters::LinkParameters;
use crosslane_lab::LabFile;
use crosslane_pcie::link::{Generation, LinkRate, Width};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::LimitKind;

use super::Spot;
use super::ways::{PortRef, Ways, link_of};

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

pub(super) fn spots(file: &LabFile, first: &LabFile, ways: &Ways) -> Vec<Spot> {
    let mut spots = Vec::new();
    for Used { link, name, flows } in used(ways) {
        let LinkParameters { rate, bit_error_rate, .. } = file.links[link].parameters;
        let [upper, lower] = ways.ports_of(link);
        let ends = [upper.parameters, lower.parameters];
        let best = ends.map(|port| port.get(first).capability.max_rate);
        let width = best[0].width.min(best[1].width);
        let generation = best[0].generation.min(best[1].generation);
        if rate.width < width {
            let words =
                format!("width {} of the link{{s}} {{}}, whose ports have {width}", rate.width);
            let edit = move |file: &mut LabFile| file.links[link].parameters.rate.width = width;
            spots.push(Spot::new(LimitKind::LinkWidth, &name, words, width.to_string(), edit));
        }
        if rate.generation < generation {
            let (now, kind) = (rate.generation, LimitKind::LinkGeneration);
            let words = format!("{now} of the link{{s}} {{}}, whose ports have {generation}");
            let edit =
                move |file: &mut LabFile| file.links[link].parameters.rate.generation = generation;
            spots.push(Spot::new(kind, &name, words, generation.to_string(), edit));
        }
        if rate.width >= width && rate.generation >= generation {
            spots.extend(faster(link, &name, flows, rate, ends));
        }
        if bit_error_rate > 0.0 {
            let words =
                format!("bit errors on the link{{s}} {{}}, one in {:.0}", 1.0 / bit_error_rate);
            let edit = move |file: &mut LabFile| file.links[link].parameters.bit_error_rate = 0.0;
            spots.push(Spot::new(LimitKind::BitErrors, &name, words, "none", edit));
        }
    }
    spots.extend(flights(file, ways));
    spots
}

/// Doubles the rate of a link.
fn faster(
    link: usize,
    name: &str,
    flows: usize,
    rate: LinkRate,
    ends: [PortRef; 2],
) -> Option<Spot> {
    let twice = twice(rate)?;
    let (kind, sharing) = match flows {
        0 | 1 => (LimitKind::Link, String::new()),
        _ => (LimitKind::SharedLink, format!(", which {flows} flows share")),
    };
    let words = format!("the link{{s}} {{}}, {rate}{sharing}");
    let edit = move |file: &mut LabFile| {
        file.links[link].parameters.rate = twice;
        for port in ends {
            let able = &mut port.get_mut(file).capability.max_rate;
            able.width = able.width.max(twice.width);
            able.generation = able.generation.max(twice.generation);
        }
    };
    let role = match ends[1] {
        PortRef::Up(_) => "uplink",
        _ => "link",
    };
    Some(Spot::new(kind, name, words, "twice its rate", edit).in_role(role))
}

/// Returns twice the width, or at full width the next generation.
fn twice(rate: LinkRate) -> Option<LinkRate> {
    if let Some(width) = Width::new(rate.width.lanes().saturating_mul(2)) {
        return Some(LinkRate { width, ..rate });
    }
    let generation = Generation::from_number(rate.generation.number() + 1)?;
    Some(LinkRate { generation, ..rate })
}

fn flights(file: &LabFile, ways: &Ways) -> Vec<Spot> {
    let flies = |link: &usize| file.links[*link].parameters.flight > Picoseconds::ZERO;
    let spot = |link: usize| {
        let [upper, lower] = ways.ports_of(link);
        let place = format!("{} <-> {}", lower.name, upper.name);
        let flight = file.links[link].parameters.flight;
        let words = format!("the {flight} of flight on the link{{s}} {{}}");
        let edit = move |file: &mut LabFile| file.links[link].parameters.flight = Picoseconds::ZERO;
        Spot::new(LimitKind::Flight, &place, words, "none", edit)
    };
    ways.links().into_iter().filter(flies).map(spot).collect()
}
