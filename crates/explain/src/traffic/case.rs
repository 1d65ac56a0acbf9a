// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run of generic requesters as one figure.

use std::sync::Arc;

use crosslane_fabric::{FlowId, FlowReport};
use crosslane_lab::Lab;

use super::plan::PlannedFlow;
use super::run::{TrafficRun, errors_of};
use crate::case::{Case, SHORT_BYTES, SHORT_SHARED_BYTES, Transfers};
use crate::error::ExplainError;
use crate::explanation::{Better, Figure};

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
        let bytes: u64 = reports.iter().map(|report| report.bytes).sum();
        let started = reports.iter().map(|report| report.first_post).min().unwrap_or_default();
        let ended = reports.iter().map(|report| report.last_done).max().unwrap_or_default();
        let seconds = ended.since(started).as_seconds();
        let value = if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 };
        Ok(Figure { value, better: Better::Higher })
    }

    /// Only the number of operations changes where flows differ in the size of theirs: it is the
    /// same for all of them.
    fn shortened(&self) -> Option<(Self, String)> {
        let (_, planned) = self.prepare().ok()?;
        let of = |planned: &PlannedFlow| Transfers {
            count: planned.flow.operations,
            size_bytes: planned.flow.operation_bytes,
            outstanding: planned.flow.outstanding.into(),
        };
        let flows: Vec<Transfers> = planned.iter().map(of).collect();
        let (first, others) = flows.split_first()?;
        let mut short = self.clone();
        let bytes = if others.is_empty() { SHORT_BYTES } else { SHORT_SHARED_BYTES };
        if others.iter().all(|flow| flow == first) {
            let (transfers, words) = first.shortened(bytes)?;
            short.choices.operations = Some(transfers.count);
            short.choices.outstanding = Some(first.outstanding as u32);
            short.flows.iter_mut().for_each(|flow| flow.operation_bytes = transfers.size_bytes);
            return Some((short, words));
        }
        let counts =
            flows.iter().map(|flow| flow.shortened(bytes).map_or(*flow, |(short, _)| short));
        let count = counts.map(|flow| flow.count).max()?;
        short.choices.operations = Some(count);
        let most = flows.iter().map(|flow| flow.count).max()?;
        (count < most).then(|| (short, format!("{count} operations of each flow")))
    }
}
