// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explanations of the experiments: the most informative runs of each, repeated without each
//! possible limit.

use std::sync::Arc;

use crosslane_experiment::parallel;
use crosslane_experiment::{EngineWork, FlowEnds, Scenario, Workload};
use crosslane_results::Explanation;

use super::devices::ORDER;
use super::scene::{Engine, Scene};
use super::{latency, own, payload, peers};
use crate::context::Explain;
use crate::error::{ReproduceError, Result};
use crate::explained::Explained;
use crate::page::topology;

/// A run to be explained.
struct Run {
    /// Number of its experiment in the paper's order, from 1.
    experiment: usize,
    name: String,
    run: Scenario<EngineWork>,
}

/// Makes runs with one engine in its lab.
struct Maker<'a> {
    scene: &'a Scene<'a>,
    engine: Engine,
}

impl Maker<'_> {
    fn run(
        &self,
        workload: Workload,
        flows: &[Vec<u32>],
        max_payload_bytes: Option<u32>,
    ) -> Result<Scenario<EngineWork>> {
        let lab = self.scene.lab(self.engine);
        let running = lab.build_engines(self.scene.seed())?;
        let ends = |numbers: &Vec<u32>| {
            let names: Vec<String> = numbers.iter().map(|number| format!("fpga{number}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            FlowEnds::find(lab, &running, &names)
        };
        let flows = flows.iter().map(ends).collect::<Result<_, _>>()?;
        let seed = self.scene.seed();
        let run = Scenario::new(Arc::new(lab.clone()), EngineWork { workload, flows });
        Ok(Scenario { seed, max_payload_bytes, ..run })
    }
}

/// Returns the runs, by experiment.
fn runs(scene: &Scene<'_>) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    let one = || vec![vec![1]];
    let all = || ORDER.iter().map(|number| vec![*number]).collect::<Vec<_>>();
    for engine in Engine::ALL {
        let maker = Maker { scene, engine };
        let options = scene.options(engine);
        let peer = peers::options(scene, engine);
        let pairs = |case: peers::Case| {
            case.pairs.iter().map(|(from, to)| vec![*from, *to]).collect::<Vec<_>>()
        };
        let small = options.with_payload_bytes(Some(payload::SMALLEST_BYTES));
        let mut add = |experiment, name: &str, job, flows: &[Vec<u32>], mps| {
            let name = format!("{name}, {}", engine.words());
            let run = maker.run(job, flows, mps)?;
            runs.push(Run { experiment, name, run });
            Ok::<(), ReproduceError>(())
        };
        if engine == Engine::Paper {
            add(3, "payloads of 8 B", Workload::Write(small), &one(), None)?;
        }
        add(3, "payloads of 128 B", Workload::Write(options), &one(), None)?;
        add(4, "8 FPGAs write", Workload::Write(options), &all(), None)?;
        add(5, "1 FPGA reads", Workload::Read(options), &one(), None)?;
        add(5, "8 FPGAs read", Workload::Read(options), &all(), None)?;
        let chain = vec![(1..=8).collect::<Vec<u32>>()];
        add(6, "chain of 8", Workload::Chain(scene.registered(engine)), &chain, None)?;
        add(7, "case 1, MPS 128", Workload::Peer(peer), &pairs(peers::ONE), None)?;
        add(7, "case 8.1, MPS 128", Workload::Peer(peer), &pairs(peers::RING), None)?;
        add(7, "case 8.2, MPS 128", Workload::Peer(peer), &pairs(peers::ACROSS), None)?;
        if engine == Engine::Own {
            let small = own::small(scene);
            add(9, "writes of 4 KiB", Workload::Write(small), &one(), None)?;
            add(9, "reads of 4 KiB", Workload::Read(small), &one(), None)?;
            add(9, "FPGA to FPGA, 4 KiB", Workload::Peer(small), &pairs(peers::ONE), None)?;
        }
        for (switches, far) in latency::WAYS {
            let name = format!("{switches} switch{}", if switches == 1 { "" } else { "es" });
            let job = Workload::Latency(latency::options(engine));
            add(8, &name, job, &[vec![1, far]], None)?;
        }
    }
    Ok(runs)
}

/// Explains the runs; each comes with the number of its experiment.
///
/// # Errors
/// A run that cannot be made or fails.
pub(super) fn explained(
    scene: &Scene<'_>,
    explain: &Explain<'_>,
) -> Result<Vec<(usize, Explained)>> {
    let explained = |run: &Run| {
        scene.may_begin()?;
        let outcome = run.run.run(&(), None)?;
        // The shortest run: the page says that its figures are those of a shortened run.
        let explanation = explain(&run.run);
        let explanation =
            explanation.map_err(|why| ReproduceError::experiment("why not faster", why))?;
        let explanation = Explanation { account: outcome.account, ..explanation };
        scene.done(&format!("why: {}", run.name), outcome.simulated);
        let explained = Explained {
            topology: topology(&run.run.lab, &run.name, &outcome.loads)?,
            name: run.name.clone(),
            explanation,
        };
        Ok((run.experiment, explained))
    };
    parallel::try_map(&runs(scene)?, explained)
}
