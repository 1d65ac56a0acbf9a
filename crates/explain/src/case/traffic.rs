// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run of generic requesters as a case.

use crosslane_experiment::{PlannedFlow, Scenario, TrafficWork};

use super::{Explainable, SHORT_BYTES, SHORT_SHARED_BYTES, Short, Transfers, lengthened};
use crate::error::ExplainError;
use crate::limits;
use crate::search::Lever;

impl Explainable for TrafficWork {
    const HAS_ACCOUNT: bool = true;

    /// Shortens only the number of operations if flows differ in operation size: the number is the
    /// same for all of them.
    fn shortened(scenario: &Scenario<Self>) -> Vec<Short<Scenario<Self>>> {
        let running = scenario.lab.build(scenario.seed).ok();
        let planned = running.and_then(|running| scenario.plan(&running).ok());
        let Some(planned) = planned else { return vec![(scenario.clone(), None)] };
        let of = |planned: &PlannedFlow| Transfers {
            count: planned.flow.operations,
            size_bytes: planned.flow.operation_bytes,
            outstanding: planned.flow.outstanding.into(),
        };
        let flows: Vec<Transfers> = planned.iter().map(of).collect();
        let Some((first, others)) = flows.split_first() else { return Vec::new() };
        let bytes = if others.is_empty() { SHORT_BYTES } else { SHORT_SHARED_BYTES };
        if others.iter().all(|flow| flow == first) {
            let with = |(transfers, words): Short<Transfers>| {
                let mut short = scenario.clone();
                if words.is_some() {
                    short.work.choices.operations = Some(transfers.count);
                    short.work.choices.outstanding = Some(first.outstanding as u32);
                    let flows = short.work.flows.iter_mut();
                    flows.for_each(|flow| flow.operation_bytes = transfers.size_bytes);
                }
                (short, words)
            };
            return first.shortened(bytes, 0).into_iter().map(with).collect();
        }
        let most = flows.iter().map(|flow| flow.count).max().unwrap_or_default();
        lengthened(|times| {
            let bytes = SHORT_SHARED_BYTES * times;
            let counts = flows.iter().map(|flow| flow.shortened(bytes, 0).swap_remove(0).0.count);
            let count = counts.max().unwrap_or_default();
            if count >= most {
                return (scenario.clone(), None);
            }
            let mut short = scenario.clone();
            short.work.choices.operations = Some(count);
            (short, Some(format!("{count} operations of each flow")))
        })
    }

    fn levers(
        scenario: &Scenario<Self>,
        first: &Scenario<Self>,
    ) -> Result<Vec<Lever<Scenario<Self>>>, ExplainError> {
        limits::of_traffic(scenario, first)
    }
}
