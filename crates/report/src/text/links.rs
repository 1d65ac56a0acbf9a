// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Use of each direction of a link.

use std::fmt::Write as _;

use crosslane_results::quantity::{mebibytes, megabytes, percent};
use crosslane_results::{IDLE_REASONS, Link};

use crate::table::{Field, Table};

/// Formats the busiest direction that several flows share, if there is one: the first of them along
/// the path.
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
        link.rate(),
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

/// Columns that a narrow terminal leaves out, the least important first: counts, then the reasons
/// that took the least time, then figures that are nearly the same on every link.
fn spare<'a>(links: &[Link], reasons: &[&'a str]) -> Vec<&'a str> {
    let share = |reason: &str| links.iter().map(|link| link.idle_share(reason)).sum::<f64>();
    let mut reasons = reasons.to_vec();
    reasons.sort_by(|a, b| share(a).total_cmp(&share(b)));
    // The reason that took most time stays.
    reasons.pop();
    ["TLPs"].into_iter().chain(reasons).chain(["SKP", "DLLP", "replay", "rate"]).collect()
}

const REPLAY: Field<Link> = ("replay:", |link| percent(link.share.replay));
const FIELDS: [Field<Link>; 7] = [
    ("direction", |link| link.direction.clone()),
    ("rate", Link::rate),
    ("TLPs:", |link| link.tlps.to_string()),
    ("payload:", |link| percent(link.share.payload)),
    ("header:", |link| percent(link.share.header)),
    ("DLLP:", |link| percent(link.share.dllp)),
    ("SKP:", |link| percent(link.share.skp)),
];

/// Returns a table of the use of each direction, in percent of the time.
pub fn link_table(links: &[Link]) -> Table {
    let mut fields = FIELDS.to_vec();
    if links.iter().any(|link| link.replayed_bytes > 0) {
        fields.insert(5, REPLAY);
    }
    let is_used = |reason: &&str| links.iter().any(|link| link.idle_share(reason) > 0.0);
    let reasons: Vec<&str> = IDLE_REASONS.into_iter().filter(is_used).collect();
    let mut table = Table::of(&fields, links).least_first(&spare(links, &reasons));
    for reason in reasons {
        let shares = links.iter().map(|link| percent(link.idle_share(reason)));
        table.push_column(&format!("{reason}:"), shares);
    }
    table
}
