// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports: credits, the delay of their return, and the replay buffer.

use std::collections::BTreeMap;

use crosslane_fabric::DirectionId;
use crosslane_fabric::parameters::Coalescing;
use crosslane_lab::LabFile;
use crosslane_pcie::credits::Credits;
use crosslane_results::LimitKind;

use super::Spot;
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

pub(super) fn spots(file: &LabFile, ways: &Ways) -> Vec<Spot> {
    let mut spots = Vec::new();
    let receivers = receivers(ways);
    for (class, (kind, word)) in CLASSES.into_iter().enumerate() {
        for (port, names) in &receivers[class] {
            spots.extend(credits(file, (*port, names), class, kind, word));
        }
    }
    let mut giving: BTreeMap<PortRef, Vec<String>> = BTreeMap::new();
    for (class, ports) in receivers.iter().enumerate() {
        for (port, names) in ports {
            if is_finite(port.get(file).receive_credits[class]) {
                let known = giving.entry(*port).or_default();
                known.extend(
                    names.iter().filter(|name| !known.contains(name)).cloned().collect::<Vec<_>>(),
                );
            }
        }
    }
    for (port, names) in &giving {
        spots.extend(credit_return(file, *port, names));
    }
    let data = ways.data_directions();
    let senders = data.iter().map(|(direction, _)| ways.ends(*direction).0);
    for (port, names) in &Ways::ports_by_parameters(senders) {
        spots.extend(replay_buffer(file, *port, names));
    }
    spots
}

fn is_finite(credits: Credits) -> bool {
    credits.header < u32::MAX || credits.data < u32::MAX
}

fn credits<'a>(
    file: &LabFile,
    (port, names): (PortRef, &'a [String]),
    class: usize,
    kind: LimitKind,
    word: &'static str,
) -> impl Iterator<Item = Spot> + use<'a> {
    let have = port.get(file).receive_credits[class];
    let count = |credits: u32| match credits {
        u32::MAX => "infinite".to_owned(),
        number => number.to_string(),
    };
    let (header, data) = (count(have.header), count(have.data));
    let plural = if have.header == 1 { "" } else { "s" };
    let words =
        format!("the {word} credits of {{}} ({header} header{plural}, {data} x 16 B of data)");
    names.iter().filter(move |_| is_finite(have)).map(move |name| {
        let edit = move |file: &mut LabFile| {
            port.get_mut(file).receive_credits[class] = Credits::INFINITE;
        };
        Spot::new(kind, name, words.clone(), "infinite", edit).in_role(port.role())
    })
}

fn credit_return<'a>(
    file: &LabFile,
    port: PortRef,
    names: &'a [String],
) -> impl Iterator<Item = Spot> + use<'a> {
    let habit = port.get(file).update_fc;
    let within = habit
        .within
        .map_or_else(|| "the limit of the specification".to_owned(), |within| within.to_string());
    let words = match habit.tlps {
        u32::MAX => format!("how late credits of {{}} come back (after {within})"),
        tlps => format!("how late credits of {{}} come back (after {tlps} TLPs or {within})"),
    };
    names.iter().filter(move |_| habit.tlps > 1).map(move |name| {
        let edit = move |file: &mut LabFile| {
            port.get_mut(file).update_fc = Coalescing::EVERY_TLP;
        };
        let kind = LimitKind::CreditReturn;
        Spot::new(kind, name, words.clone(), "after each TLP", edit).in_role(port.role())
    })
}

fn replay_buffer<'a>(
    file: &LabFile,
    port: PortRef,
    names: &'a [String],
) -> impl Iterator<Item = Spot> + use<'a> {
    let bytes = port.get(file).replay_buffer_bytes;
    let words = format!("the replay buffer{{s}} of {{}}, {bytes} B");
    names.iter().filter(move |_| bytes < u32::MAX).map(move |name| {
        let edit = move |file: &mut LabFile| port.get_mut(file).replay_buffer_bytes = u32::MAX;
        let kind = LimitKind::ReplayBuffer;
        Spot::new(kind, name, words.clone(), "without end", edit).in_role(port.role())
    })
}
