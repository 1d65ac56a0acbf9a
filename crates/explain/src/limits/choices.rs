// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Levers of what a run chooses, beside its lab.

use crosslane_experiment::{Scenario, Work};
use crosslane_results::{Limit, LimitKind};

use super::list;
use super::ways::Ways;
use crate::search::Lever;

pub(super) fn lever<W: Work>(
    kind: LimitKind,
    (place, words, lifted): (&str, String, &str),
    lift: impl Fn(&mut Scenario<W>) + Send + Sync + 'static,
) -> Lever<W> {
    let limit = Limit { kind, place: place.to_owned(), words, lifted: lifted.to_owned() };
    let lift = Box::new(move |scenario: &Scenario<W>| {
        let mut scenario = scenario.clone();
        lift(&mut scenario);
        Ok(scenario)
    });
    Lever { limit, lift }
}

/// The DLLPs in the direction of the data.
pub(super) fn dllps<W: Work>(ways: &Ways) -> Lever<W> {
    let directions = ways.data_directions().into_iter();
    let names: Vec<String> = directions.map(|(id, _)| ways.direction_name(id)).collect();
    let place = match names.len() {
        0..=2 => list(&names),
        count => format!("the {count} directions that data cross"),
    };
    let words = "Acks and UpdateFCs beside the data".to_owned();
    lever(LimitKind::Dllps, (&place, words, "they take no time"), |run| {
        run.dllps_free = true;
    })
}
