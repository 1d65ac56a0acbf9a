// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run of generic requesters as one figure.

use std::sync::Arc;

use crosslane_fabric::{FlowId, FlowReport};
use crosslane_lab::Lab;
use crosslane_results::{Account, Figure};

use super::plan::PlannedFlow;
use super::run::{TrafficRun, errors_of, figure_of};
use crate::case::{Case, LENGTHS, SHORT_BYTES, SHORT_SHARED_BYTES, Short, Transfers};
use crate::error::ExplainError;
use crate::progress::NoProgress;

impl Case for TrafficRun {
    fn lab(&self) -> &Lab {
        &self.lab
    }

    fn with_lab(self, lab: Lab) -> Self {
        Self { lab: Arc::new(lab), ..self }
    }

    fn figure(&self) -> Result<Figure, ExplainError> {
        let (mut lab, planned) = self.prepare()?;
        let fabric = &mut lab.fabric;
        let mut ids: Vec<FlowId> = Vec::new();
        for flow in &planned {
            let id = fabric.start_flow(flow.flow.clone());
            ids.push(id.map_err(|error| ExplainError::Refused(error.to_string()))?);
        }
        let end = fabric.run(None);
        let reports: Vec<FlowReport> = ids.iter().map(|id| fabric.flow_report(*id)).collect();
        let errors = errors_of(fabric, &planned, &reports, end);
        if let Some(error) = errors.deadlock.or(errors.sentences.into_iter().next()) {
            return Err(ExplainError::Failed(error));
        }
        Ok(figure_of(&reports))
    }

    fn account(&self) -> Result<Option<Account>, ExplainError> {
        Ok(self.run(&NoProgress, None)?.account)
    }

    /// Only the number of operations changes where flows differ in the size of theirs: it is the
    /// same for all of them.
    fn shortened(&self) -> Vec<Short<Self>> {
        let Ok((_, planned)) = self.prepare() else { return vec![(self.clone(), None)] };
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
        self.with_fewer_operations(&flows)
    }
}

impl TrafficRun {
    /// Runs with the same, smaller number of operations for each of some flows that differ.
    fn with_fewer_operations(&self, flows: &[Transfers]) -> Vec<Short<Self>> {
        let most = flows.iter().map(|flow| flow.count).max().unwrap_or_default();
        let mut shortened = Vec::new();
        for times in LENGTHS {
            let bytes = SHORT_SHARED_BYTES * times;
            let counts = flows.iter().map(|flow| flow.shortened(bytes, 0).swap_remove(0).0.count);
            let count = counts.max().unwrap_or_default();
            if count >= most {
                shortened.push((self.clone(), None));
                break;
            }
            let mut short = self.clone();
            short.choices.operations = Some(count);
            shortened.push((short, Some(format!("{count} operations of each flow"))));
        }
        shortened
    }
}
