// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sweeps in a lab: each point in a new lab.

use std::sync::Arc;

use crosslane_lab::{Lab, Progress};

use super::SweepError;
use super::axes::{Axes, Point};
use super::point::{SweepOptions, SweepPoint};
use crate::scenario::Scenario;
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
        let lab = self.lab_of(point)?;
        let running = lab.build_engines(self.options.seed)?;
        let flows = vec![FlowEnds::find(&lab, &running, &[&self.card])?];
        let work = EngineWork { workload: self.options.workload(point), flows };
        Ok(Scenario::new(Arc::new(lab), work).with_seed(self.options.seed))
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
        let scenario = self.scenario(point)?;
        let ended = scenario.measured(&format!("bench sweep, {point}"), progress)?;
        let links = &scenario.lab.file().links;
        let link = links.iter().find(|link| link.lower == self.card);
        let link = link.map(|link| link.parameters.rate);
        let measured = SweepPoint::of(point, link, &scenario.work.workload, ended.value);
        Ok(SweepPoint { elapsed: ended.ended, ..measured })
    }

    /// Returns the lab of a point.
    fn lab_of(&self, point: &Point) -> Result<Lab, SweepError> {
        let mut lab = self.lab.clone();
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
        let mut problem = None;
        let edited = lab.edited(|file| {
            for link in file.links.iter_mut().filter(|link| link.lower == self.card) {
                link.parameters.rate = point.link.unwrap_or(link.parameters.rate);
            }
            if point.payload_bytes.is_some() {
                let bytes = point.payload_bytes;
                file.hosts.iter_mut().for_each(|host| host.max_payload_limit_bytes = bytes);
            }
            for endpoint in file.endpoints.iter_mut().filter(|one| one.name == self.card) {
                let part = Arc::make_mut(&mut endpoint.part);
                if let (Some(engine), Some(tags)) = (&mut part.engine, point.tags) {
                    engine.tags = tags;
                    part.parameters.requester.tags = tags;
                    problem = engine.check().err();
                }
            }
        })?;
        if let (Some(problem), Some(tags)) = (problem, point.tags) {
            return Err(SweepError::value("tags", tags, problem));
        }
        Ok(edited)
    }
}
