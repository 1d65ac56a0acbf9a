// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asks why a transfer is not faster: what limits it, and what it would reach without that.

use std::sync::Arc;

use crosslane::experiment::{EngineWork, FlowEnds, Options, Outcome, Scenario, Workload};
use crosslane::explain::explain;
use crosslane::lab::Lab;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let lab = Lab::load("rosta:crosslane")?;
    let ends = FlowEnds::find(&lab, &lab.build_engines(1)?, &["fpga1"])?;
    let options = Options::default().with_size_bytes(65_536).with_iterations(64);
    let work = EngineWork { workload: Workload::Write(options), flows: vec![ends] };
    let run = Scenario::new(Arc::new(lab), work);
    let outcome = run.run(&(), None)?;
    let explanation = explain(&run, outcome.figure(), 2, &|_| ())?;
    println!("{:.1} MB/s", explanation.figure.value / 1e6);
    for step in &explanation.steps {
        let limits: Vec<&str> = step.limits.iter().map(|limit| limit.words.as_str()).collect();
        println!("limited by {}; without it {:.1} MB/s", limits.join(" and "), step.value / 1e6);
    }
    Ok(())
}
