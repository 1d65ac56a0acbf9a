// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run of generic requesters as a case.

use std::sync::Arc;

use crosslane_experiment::{NoProgress, PlannedFlow, TrafficRun};
use crosslane_lab::Lab;
use crosslane_results::{Account, Figure};

use super::{Case, LENGTHS, SHORT_BYTES, SHORT_SHARED_BYTES, Short, Transfers};
use crate::error::ExplainError;

impl Case for TrafficRun {
    fn lab(&self) -> &Lab {
        &self.lab
    }

    fn with_lab(self, lab: Lab) -> Self {
        Self { lab: Arc::new(lab), ..self }
    }

    fn figure(&self) -> Result<Figure, ExplainError> {
        Ok(self.figure()?)
    }

    fn account(&self) -> Result<Option<Account>, ExplainError> {
        Ok(self.run(&NoProgress, None)?.account)
    }

    /// Shortens only the number of operations if flows differ in operation size: the number is the
    /// same for all of them.
    fn shortened(&self) -> Vec<Short<Self>> {
        let running = self.lab.build(self.seed).ok();
        let planned = running.and_then(|running| self.plan(&running).ok());
        let Some(planned) = planned else { return vec![(self.clone(), None)] };
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
                if words.is_none() {
                    return (self.clone(), None);
                }
                let mut short = self.clone();
                short.choices.operations = Some(transfers.count);
                short.choices.outstanding = Some(first.outstanding as u32);
                let flows = short.flows.iter_mut();
                flows.for_each(|flow| flow.operation_bytes = transfers.size_bytes);
                (short, words)
            };
            return first.shortened(bytes, 0).into_iter().map(with).collect();
        }
        with_fewer_operations(self, &flows)
    }
}

/// Returns runs with the same, smaller number of operations for each of several different flows.
fn with_fewer_operations(run: &TrafficRun, flows: &[Transfers]) -> Vec<Short<TrafficRun>> {
    let most = flows.iter().map(|flow| flow.count).max().unwrap_or_default();
    let mut shortened = Vec::new();
    for times in LENGTHS {
        let bytes = SHORT_SHARED_BYTES * times;
        let counts = flows.iter().map(|flow| flow.shortened(bytes, 0).swap_remove(0).0.count);
        let count = counts.max().unwrap_or_default();
        if count >= most {
            shortened.push((run.clone(), None));
            break;
        }
        let mut short = run.clone();
        short.choices.operations = Some(count);
        shortened.push((short, Some(format!("{count} operations of each flow"))));
    }
    shortened
}
