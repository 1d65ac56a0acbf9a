// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of all cables of a torus: of a lab, or of cards on one bus.

use crosslane_driver::network_processor::Modes;
use crosslane_fabric::trace::TraceSink;
use crosslane_host::{AnyBus, Bus};
use crosslane_lab::{Lab, Progress};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::{Better, Detail, Figure, Flow, LinkSoak, ScenarioResult};
use crosslane_torus::{Node, NodeOptions};

use super::{EndSoaked, SoakOptions, soak_links};
use crate::error::{ExperimentError, Result};
use crate::halo::{place_among, place_in};
use crate::nget::host_of;
use crate::scenario::{Outcome, Scenario, Work, execute_well};

/// Longest simulated time of a run.
const TIME_LIMIT: Picoseconds = Picoseconds::from_secs(200);
/// Bits without an error, times the rate of errors, at the bound of 95 %: -ln 0.05.
const WITHOUT_ERROR: f64 = 2.996;

/// Outcome of a test of cables.
#[derive(Clone, Debug, PartialEq)]
pub struct SoakOutcome {
    /// Both ends of each cable, in the order of nodes and links.
    pub ends: Vec<EndSoaked>,
    /// Payload that a cable carries one way, bytes per second; of a lab.
    pub payload_rate: Option<f64>,
    /// Time at the end.
    pub now: Picoseconds,
}

impl EndSoaked {
    /// Returns the test as plain data.
    fn flow(&self, payload_rate: Option<f64>) -> Flow {
        let Self { node, link, far_node, far_link, status, counters, margins, .. } = self;
        let (line_bits, damaged) = (self.line_bits(), f64::from(counters.damaged));
        let has_bits = line_bits > 0.0;
        let soak = LinkSoak {
            node: node.clone(),
            link: *link,
            far_node: far_node.clone(),
            far_link: *far_link,
            state: format!("{:?}", status.state).to_lowercase(),
            lanes: status.lanes,
            lane_bits_per_second: status.lane_bits_per_second,
            elapsed_ns: self.elapsed.as_ns(),
            sent: counters.sent.into(),
            right: counters.checked.into(),
            wrong: counters.wrong.into(),
            lost: self.lost.into(),
            share_of_line: self.share_of_line(),
            share_of_payload_rate: payload_rate.map(|rate| self.bytes_per_second / rate),
            repeated: counters.repeated.into(),
            damaged: counters.damaged.into(),
            nacks: counters.nacks.into(),
            restarts: counters.restarts.into(),
            timeouts: counters.timeouts.into(),
            trainings: self.trainings.into(),
            losses: self.losses().into(),
            dropped: margins.dropped.into(),
            doubled: margins.doubled.into(),
            slipped: margins.slipped.into(),
            lane_errors: margins
                .lane_errors
                .iter()
                .take(status.lanes.into())
                .map(|errors| u64::from(*errors))
                .collect(),
            line_bits,
            damage_per_bit: if has_bits { damaged / line_bits } else { 0.0 },
            bit_error_rate_below: (counters.damaged == 0 && has_bits)
                .then(|| WITHOUT_ERROR / line_bits),
        };
        Flow {
            name: format!("{node} link {link} <- {far_node} link {far_link}"),
            bytes: self.payload_bytes,
            iterations: soak.right,
            bytes_per_second: Some(self.bytes_per_second),
            detail: Detail::LinkSoak(Box::new(soak)),
            ..Flow::default()
        }
    }
}

impl Outcome for SoakOutcome {
    fn result(&self) -> ScenarioResult {
        let flows: Vec<Flow> = self.ends.iter().map(|end| end.flow(self.payload_rate)).collect();
        let bytes = flows.first().map(|flow| flow.bytes);
        ScenarioResult { bytes, flows, ..ScenarioResult::default() }
    }

    fn figure(&self) -> Option<Figure> {
        let value = self.ends.iter().map(|end| end.bytes_per_second).sum();
        Some(Figure { value, better: Better::Higher })
    }

    fn simulated(&self) -> Picoseconds {
        self.now
    }

    fn wrong_data(&self) -> Option<String> {
        let bad = |end: &&EndSoaked| end.counters.wrong > 0 || end.lost > 0 || !end.is_up();
        let end = self.ends.iter().find(bad)?;
        let (state, wrong, lost) = (end.status.state, end.counters.wrong, end.lost);
        let (node, link) = (&end.node, end.link);
        Some(format!("{node} link {link}: {wrong} datagrams wrong, {lost} lost, link {state:?}"))
    }
}

/// Tests all cables of a lab with one torus at once.
impl Work for SoakOptions {
    type Outcome = SoakOutcome;

    fn name(&self, lab: &Lab) -> String {
        let nodes = lab.file().tori.first().map_or(0, |torus| torus.nodes.len());
        format!("links of {nodes} nodes")
    }

    fn run(
        scenario: &Scenario<Self>,
        progress: &dyn Progress,
        trace: Option<Box<dyn TraceSink>>,
    ) -> Result<SoakOutcome> {
        let (lab, work, name) = (&scenario.lab, scenario.work, scenario.name());
        let [torus] = &lab.file().tori[..] else {
            let problem = format!("lab {} does not have one torus", lab.name());
            return Err(ExperimentError::run(&name, problem));
        };
        let run = scenario.begin(trace)?.with_limit(TIME_LIMIT);
        let simulation = run.simulation();
        let program = async {
            let mut nodes = Vec::new();
            for (number, processor) in (0..).zip(&torus.nodes) {
                let bus = simulation.bus(host_of(simulation, processor)?);
                let options = NodeOptions::default().with_modes(Modes::FASTEST);
                nodes.push(Node::open(bus, processor, place_in(torus, number), options).await?);
            }
            let ends = soak_links(&nodes, &work).await?;
            for node in nodes {
                node.close().await?;
            }
            Ok(ends)
        };
        let (ends, now) = execute_well(&run, &name, progress, program)?;
        let payload_rate = Some(torus.parameters.payload_bytes_per_second());
        Ok(SoakOutcome { ends, payload_rate, now })
    }
}

/// Tests the cables between the network processors of one bus, which are the nodes of a torus in
/// order, the first dimension counting fastest. The torus is open if no cable leads from the last
/// node of a row to its first. Each node comes with the modes of its driver.
///
/// # Errors
/// No such network processor, links that do not come up, or a failure of the run.
pub async fn soak_on(
    bus: &AnyBus,
    nodes: &[(&str, Modes)],
    sizes: &[u16],
    is_open: bool,
    options: SoakOptions,
) -> Result<SoakOutcome> {
    let begun = bus.now();
    let mut opened = Vec::new();
    for (number, &(name, modes)) in (0..).zip(nodes) {
        let place = place_among(number, sizes, is_open);
        let node_options = NodeOptions::default().with_modes(modes);
        opened.push(Node::open(bus.clone(), name, place, node_options).await?);
    }
    let ends = soak_links(&opened, &options).await?;
    for node in opened {
        node.close().await?;
    }
    Ok(SoakOutcome { ends, payload_rate: None, now: bus.now().since(begun) })
}
