// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports: credits, the delay of their return, and the replay buffer.

use std::collections::BTreeMap;

use crosslane_fabric::DirectionId;
use crosslane_fabric::parameters::{Coalescing, PortParameters};
use crosslane_pcie::credits::Credits;
use crosslane_results::LimitKind;

use super::Spots;
use super::ways::{PortRef, Ways};

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
fn add(
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

pub(super) fn find(spots: &mut Spots<'_>) {
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
            add(spots, (*port, names), kind, (&words, "infinite"), move |port| {
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
        add(spots, (*port, names), kind, said, |port| port.update_fc = Coalescing::EVERY_TLP);
    }
    let data = ways.data_directions();
    let senders = data.iter().map(|(direction, _)| ways.ends(*direction).0);
    for (port, names) in &Ways::ports_by_parameters(senders) {
        let bytes = port.get(file).replay_buffer_bytes;
        if bytes < u32::MAX {
            let words = format!("the replay buffer{{s}} of {{}}, {bytes} B");
            let (kind, said) = (LimitKind::ReplayBuffer, (words.as_str(), "without end"));
            add(spots, (*port, names), kind, said, |port| port.replay_buffer_bytes = u32::MAX);
        }
    }
}
