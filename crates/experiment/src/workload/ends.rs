// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ends of a workload's flows in a lab.

use crosslane_fabric::NodeId;
use crosslane_lab::{Lab, RunningLab};

use crate::error::{ExperimentError, Result};

/// One end of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Name in the lab.
    pub name: String,
    /// The node.
    pub node: NodeId,
}

/// The ends of a flow, in the tree of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowEnds {
    /// Index of the host.
    pub host: usize,
    /// The host's own end.
    pub memory: End,
    /// The endpoint that data leave, or which reads; of a chain, all of them in order.
    pub cards: Vec<End>,
}

impl FlowEnds {
    /// The ends with these endpoints, and the host in whose tree they are.
    ///
    /// # Errors
    /// A name that is not that of an endpoint with a DMA engine, no name at all, or endpoints that
    /// are in different trees.
    pub fn find(lab: &Lab, running: &RunningLab, cards: &[&str]) -> Result<Self> {
        let refused = |problem: String| ExperimentError::refused(cards.join(" -> "), problem);
        let mut found = Vec::new();
        for card in cards {
            let mut endpoints = lab.file().endpoints.iter();
            let endpoint = endpoints.find(|endpoint| endpoint.name == *card);
            let has_engine = endpoint.is_some_and(|endpoint| endpoint.part.engine.is_some());
            let node = running.find(card).filter(|_| has_engine);
            let node = node.ok_or_else(|| {
                refused(format!("{card} is no endpoint with a DMA engine of {}", lab.name()))
            })?;
            found.push(End { name: (*card).to_owned(), node });
        }
        let mut hosts = found.iter().map(|end| running.fabric.node(end.node).host);
        let Some(id) = hosts.next() else {
            return Err(refused("a flow needs an endpoint".to_owned()));
        };
        if hosts.any(|other| other != id) {
            return Err(refused("they are in the trees of different hosts".to_owned()));
        }
        let mut hosts = running.hosts.iter().enumerate();
        let (host, there) =
            hosts.find(|(_, host)| host.id == id).expect("every endpoint has its host");
        let memory = End { name: there.name.clone(), node: there.root_complex };
        Ok(Self { host, memory, cards: found })
    }
}
