// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sweeps in a lab: each point in a new lab.

use std::sync::Arc;

use crosslane_lab::{Lab, Progress};
use crosslane_pcie::link::LinkRate;

use super::SweepError;
use super::axes::{Axes, Point};
use super::point::{SweepOptions, SweepPoint};
use crate::error::ExperimentError;
use crate::scenario::Scenario;
use crate::traffic::{Choices, FlowArgument, TrafficWork, split_place};
use crate::workload::{EngineWork, FlowEnds};

/// A sweep with a card of a lab.
#[derive(Clone, Debug)]
pub struct LabSweep<'a> {
    lab: &'a Lab,
    card: String,
    options: SweepOptions,
}

impl<'a> LabSweep<'a> {
    /// Chooses the card: the lab's first endpoint with an engine, or the one with a name.
    ///
    /// # Errors
    /// A lab without an engine, or an endpoint without one.
    pub fn new(
        lab: &'a Lab,
        card: Option<&str>,
        options: SweepOptions,
    ) -> Result<Self, SweepError> {
        let cards = lab.endpoints_with(|part| part.engine.is_some());
        let Some(first) = cards.first() else {
            let problem = "no endpoint has a DMA engine: its part needs an `engine` table";
            return Err(SweepError::value("lab", lab.name(), problem));
        };
        let card = card.unwrap_or(first);
        if !cards.contains(&card) {
            let problem = format!("endpoints with a DMA engine are {}", cards.join(", "));
            return Err(SweepError::value("card", card, problem));
        }
        Ok(Self { lab, card: card.to_owned(), options })
    }

    /// Returns the name of the card.
    pub fn card(&self) -> &str {
        &self.card
    }

    /// Returns axes with the default kinds of the card, if they have none.
    ///
    /// # Errors
    /// Transfers with the memory of a card that has none.
    pub fn axes(&self, axes: Axes) -> Result<Axes, SweepError> {
        let endpoint = self.lab.file().endpoints.iter().find(|one| one.name == self.card);
        let engine = endpoint.and_then(|one| one.part.engine);
        axes.for_card(&self.card, engine.is_some_and(|engine| engine.card_memory.is_some()))
    }

    /// Returns the run of a point.
    ///
    /// # Errors
    /// A lab that cannot be built.
    pub fn scenario(&self, point: &Point) -> Result<Scenario<EngineWork>, SweepError> {
        self.prepared(point).map(|(scenario, _)| scenario)
    }

    /// Returns the run of a point, and the ports whose maxima its link raises.
    fn prepared(&self, point: &Point) -> Result<(Scenario<EngineWork>, Vec<String>), SweepError> {
        let (lab, raised) = lab_of(self.lab, &self.card, point)?;
        let running = lab.build_engines(self.options.seed)?;
        let flows = vec![FlowEnds::find(&lab, &running, &[&self.card])?];
        let work = EngineWork { workload: self.options.workload(point), flows };
        Ok((Scenario::new(Arc::new(lab), work).with_seed(self.options.seed), raised))
    }

    /// Measures a point, unless `progress` says that the sweep is over.
    ///
    /// # Errors
    /// A lab that cannot be built, a run that fails, or an interruption.
    pub fn measure(
        &self,
        point: &Point,
        progress: &dyn Progress,
    ) -> Result<SweepPoint, SweepError> {
        let (scenario, raised_ports) = self.prepared(point)?;
        let ended = scenario.measured(&format!("bench sweep, {point}"), progress)?;
        let link = link_of(&scenario.lab, &self.card);
        let measured = SweepPoint::of(point, link, &scenario.work.workload, ended.value);
        Ok(SweepPoint { elapsed: ended.ended, raised_ports, ..measured })
    }
}

/// Returns the lab of a point, in which a card has the point's link and tags, and the ports whose
/// maxima that link raises.
fn lab_of(lab: &Lab, card: &str, point: &Point) -> Result<(Lab, Vec<String>), SweepError> {
    let mut lab = lab.clone();
    for (path, value) in &point.constants {
        lab = lab.with_constant(path, *value)?;
    }
    if let Some(bytes) = point.payload_bytes {
        let file = lab.file();
        let hosts = file.hosts.iter().map(|one| &one.part.port);
        let switches =
            file.switches.iter().flat_map(|one| [&one.part.upstream, &one.part.downstream]);
        let cards = file.endpoints.iter().map(|one| &one.part.port);
        let ports = hosts.chain(switches).chain(cards);
        let least = ports.map(|port| u32::from(port.capability.max_payload_bytes)).min();
        if let Some(least) = least.filter(|least| bytes > *least) {
            let problem = format!("some port of the lab has at most {least} B");
            return Err(SweepError::value("mps", bytes, problem));
        }
    }
    let (lab, raised) = match point.link {
        Some(rate) => lab.with_link(card, rate)?,
        None => (lab, Vec::new()),
    };
    let mut problem = None;
    let edited = lab.edited(|file| {
        if point.payload_bytes.is_some() {
            let bytes = point.payload_bytes;
            file.hosts.iter_mut().for_each(|host| host.max_payload_limit_bytes = bytes);
        }
        let Some(tags) = point.tags else { return };
        for endpoint in file.endpoints.iter_mut().filter(|one| one.name == card) {
            let part = Arc::make_mut(&mut endpoint.part);
            part.parameters.requester.tags = tags;
            problem = part.parameters.requester.check().err();
            if let Some(engine) = &mut part.engine {
                engine.tags = tags;
                problem = engine.check().err();
            }
        }
    })?;
    match (problem, point.tags) {
        (Some(problem), Some(tags)) => Err(SweepError::value("tags", tags, problem)),
        _ => Ok((edited, raised)),
    }
}

/// A sweep of flows of generic requesters in a lab.
#[derive(Clone, Debug)]
pub struct FlowSweep<'a> {
    lab: &'a Lab,
    card: String,
    options: SweepOptions,
}

impl<'a> FlowSweep<'a> {
    /// Chooses the card whose link and tags are axes: that of a name, or the first endpoint that a
    /// flow comes from or goes to.
    ///
    /// # Errors
    /// A name that is no endpoint's, and flows without an endpoint.
    pub fn new(
        lab: &'a Lab,
        card: Option<&str>,
        flows: &[FlowArgument],
        options: SweepOptions,
    ) -> Result<Self, SweepError> {
        let endpoints = lab.endpoints_with(|_| true);
        let ends = flows.iter().flat_map(|flow| [&*flow.from, split_place(&flow.to).0]);
        let of_flows = ends.into_iter().find(|end| endpoints.contains(end));
        let problem = || format!("endpoints are {}", endpoints.join(", "));
        let chosen = card.or(of_flows);
        match chosen.filter(|card| endpoints.contains(card)) {
            Some(card) => Ok(Self { lab, card: card.to_owned(), options }),
            None => Err(SweepError::value("card", card.unwrap_or("of the flows"), problem())),
        }
    }

    /// Returns the name of the card.
    pub fn card(&self) -> &str {
        &self.card
    }

    /// Returns the run of a point.
    ///
    /// # Errors
    /// A lab that cannot be built.
    pub fn scenario(&self, point: &Point) -> Result<Scenario<TrafficWork>, SweepError> {
        self.prepared(point).map(|(scenario, _)| scenario)
    }

    /// Returns the run of a point, and the ports whose maxima its link raises.
    fn prepared(&self, point: &Point) -> Result<(Scenario<TrafficWork>, Vec<String>), SweepError> {
        let (lab, raised) = lab_of(self.lab, &self.card, point)?;
        let choices = Choices::default()
            .with_operations(self.options.iterations)
            .with_outstanding(point.outstanding);
        let work = TrafficWork { flows: point.flows.clone(), choices, shuffle: false };
        Ok((Scenario::new(Arc::new(lab), work).with_seed(self.options.seed), raised))
    }

    /// Measures a point, unless `progress` says that the sweep is over. Its rate is that of all
    /// flows together.
    ///
    /// # Errors
    /// A lab that cannot be built, a flow that is impossible or fails, or an interruption.
    pub fn measure(
        &self,
        point: &Point,
        progress: &dyn Progress,
    ) -> Result<SweepPoint, SweepError> {
        let (scenario, raised_ports) = self.prepared(point)?;
        let outcome = scenario.run(progress, None)?;
        if let Some(error) = outcome.deadlock.as_ref().or(outcome.errors.first()) {
            return Err(ExperimentError::failed(format!("bench sweep, {point}: {error}")).into());
        }
        let bytes_per_second = outcome.figure.value;
        let typical_ps = match &outcome.flows[..] {
            [flow] if point.outstanding == Some(1) => Some(flow.latencies.typical_ps),
            _ => None,
        };
        Ok(SweepPoint {
            point: point.clone(),
            link: link_of(&scenario.lab, &self.card),
            transfer_s: match typical_ps {
                Some(ps) => ps as f64 / 1e12,
                None => point.size_bytes as f64 / bytes_per_second,
            },
            bytes_per_second,
            wrong_words: 0,
            elapsed: outcome.simulated,
            raised_ports,
        })
    }
}

/// Returns the rate of the link above a card.
fn link_of(lab: &Lab, card: &str) -> Option<LinkRate> {
    let link = lab.file().links.iter().find(|link| link.lower == card);
    link.map(|link| link.parameters.rate)
}
