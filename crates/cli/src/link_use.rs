// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The use of each direction of a link, as text.

use std::fmt::Write as _;

use crosslane::fabric::IdleReason;
use crosslane::results::Link;

use crate::quantity::{mebibytes, megabytes, percent};
use crate::table::{Align, Table};

/// Formats the rate of a link: `Gen2 x4`.
#[must_use]
pub fn rate_words(link: &Link) -> String {
    format!("Gen{} x{}", link.generation, link.width)
}

/// Formats the busiest direction that several flows share, if there is one: the first of them along
/// the path.
#[must_use]
pub fn sharing(links: &[Link]) -> String {
    let load = |link: &Link| link.bytes_per_second / link.ceiling_bytes_per_second.max(1.0);
    let shared = links.iter().filter(|link| link.flows.len() > 1);
    let busiest = shared.rev().max_by(|a, b| load(a).total_cmp(&load(b)));
    let Some(link) = busiest else { return String::new() };
    // Not the sum of the flows' rates: each of those is over the flow's own time.
    let (together, ceiling) = (link.bytes_per_second, link.ceiling_bytes_per_second);
    let mut text = format!(
        "{} flows share {} ({}): {} MB/s ({} MiB/s) together",
        link.flows.len(),
        link.direction,
        rate_words(link),
        megabytes(together),
        mebibytes(together)
    );
    if ceiling > 0.0 {
        let _ = write!(
            text,
            ", {} % of the {} MB/s that it can carry",
            percent(together / ceiling),
            megabytes(ceiling)
        );
    }
    text.push_str("\n\n");
    text
}

fn idle_share(link: &Link, reason: IdleReason) -> f64 {
    link.share.idle.get(&reason.to_string().replace(' ', "_")).copied().unwrap_or_default()
}

/// Columns that a narrow terminal leaves out, the least important first: counts, then the reasons
/// that took the least time, then figures that are nearly the same on every link.
fn spare(links: &[Link], reasons: &[IdleReason]) -> Vec<String> {
    let share = |reason: IdleReason| links.iter().map(|link| idle_share(link, reason)).sum::<f64>();
    let mut reasons = reasons.to_vec();
    reasons.sort_by(|a, b| share(*a).total_cmp(&share(*b)));
    // The reason that took most time stays.
    reasons.pop();
    let reasons = reasons.iter().map(IdleReason::to_string);
    let counts = ["TLPs".to_owned()].into_iter();
    counts.chain(reasons).chain(["SKP", "DLLP", "replay", "rate"].map(str::to_owned)).collect()
}

/// Formats the use of each direction, in percent of the time.
#[must_use]
pub fn link_rows(links: &[Link]) -> String {
    let is_used = |reason: &IdleReason| links.iter().any(|link| idle_share(link, *reason) > 0.0);
    let reasons: Vec<IdleReason> = IdleReason::ALL.into_iter().filter(is_used).collect();
    let replays = links.iter().any(|link| link.replayed_bytes > 0);
    let mut columns = vec![
        ("direction".to_owned(), Align::Left),
        ("rate".to_owned(), Align::Left),
        ("TLPs".to_owned(), Align::Right),
        ("payload".to_owned(), Align::Right),
        ("header".to_owned(), Align::Right),
    ];
    if replays {
        columns.push(("replay".to_owned(), Align::Right));
    }
    columns.push(("DLLP".to_owned(), Align::Right));
    columns.push(("SKP".to_owned(), Align::Right));
    columns.extend(reasons.iter().map(|reason| (reason.to_string(), Align::Right)));
    let columns: Vec<(&str, Align)> =
        columns.iter().map(|(heading, align)| (heading.as_str(), *align)).collect();
    let mut table = Table::new(&columns).least_first(&spare(links, &reasons));
    for link in links {
        let share = &link.share;
        let named = [link.direction.clone(), rate_words(link), link.tlps.to_string()];
        let shares = [share.payload, share.header].into_iter();
        let shares = shares.chain(replays.then_some(share.replay)).chain([share.dllp, share.skp]);
        let idle = reasons.iter().map(|reason| idle_share(link, *reason));
        table.row(named.into_iter().chain(shares.chain(idle).map(percent)));
    }
    table.to_string()
}
