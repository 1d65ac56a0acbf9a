// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sweeps in a lab: each point in a new lab.

use std::sync::Arc;

use crosslane_driver::Device;
use crosslane_lab::{CheckedRun, Lab, RunError};
use crosslane_pcie::link::LinkRate;

use super::SweepError;
use super::axes::{Axes, Point};
use super::point::{SweepOptions, SweepPoint, measure_point};
use crate::error::ExperimentError;
use crate::scenario::unless_over;

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

    /// Measures a point, unless the caller says that the sweep is over; it is asked again and again
    /// while the point is measured.
    ///
    /// # Errors
    /// A lab that cannot be built, a run that fails, or an interruption.
    pub fn measure(
        &self,
        point: &Point,
        is_over: &dyn Fn() -> bool,
    ) -> Result<SweepPoint, SweepError> {
        let (lab, link) = self.lab_of(point)?;
        let name = format!("bench sweep, {point}");
        let run = CheckedRun::new(&lab, self.options.seed)?;
        let simulation = run.simulation();
        let node = simulation.find(&self.card).expect("a lab that was built has its endpoints");
        let bus = simulation.bus(simulation.with_fabric(|fabric| fabric.node(node).host));
        let program = async {
            let measuring = async {
                let device = Device::open_by_name(bus, &self.card).await?;
                measure_point(&device, point, &self.options).await
            };
            let measured = unless_over(measuring, is_over).await;
            measured.unwrap_or(Err(ExperimentError::Interrupted))
        };
        let measured = match run.run("bench sweep", program) {
            Ok(ended) => ended.value,
            Err(RunError::Program(ExperimentError::Interrupted)) => {
                return Err(ExperimentError::Interrupted.into());
            }
            Err(error) => return Err(ExperimentError::run(&name, error).into()),
        };
        Ok(SweepPoint { link: Some(link), elapsed: simulation.now(), ..measured })
    }

    /// Returns the lab of a point, and the rate of the card's own link in it.
    fn lab_of(&self, point: &Point) -> Result<(Lab, LinkRate), SweepError> {
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
        let (mut found, mut problem) = (None, None);
        let edited = lab.edited(|file| {
            for link in file.links.iter_mut().filter(|link| link.lower == self.card) {
                link.parameters.rate = point.link.unwrap_or(link.parameters.rate);
                found = Some(link.parameters.rate);
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
        let no_link = || SweepError::value("card", &self.card, "no link leads to it");
        Ok((edited, found.ok_or_else(no_link)?))
    }
}
