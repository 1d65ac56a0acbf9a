// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts of the program's JSON that pages and comparisons need. What else stands there is
//! passed over, and what an older version did not print may be missing.

use serde::Deserialize;

/// `crosslane bench … --json`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct BenchDocument {
    /// `write`, `traffic`, ….
    pub bench: String,
    /// Name of the lab, of a run in one.
    pub lab: Option<String>,
    /// Names of the cards, of a run on cards that were opened by name.
    #[serde(default)]
    pub devices: Vec<String>,
    /// Whether a program serves these cards: it may simulate them.
    #[serde(default)]
    pub served: bool,
    /// What all that is random came from.
    pub seed: u64,
    /// Version of the program.
    pub version: String,
    /// One for each size of a sweep.
    pub scenarios: Vec<ScenarioDocument>,
}

impl BenchDocument {
    /// Where it was made: name of the lab, or those of the cards.
    #[must_use]
    pub fn place(&self) -> String {
        self.lab.clone().unwrap_or_else(|| self.devices.join(", "))
    }

    /// The rate of one of its flows that is in the time of all else, bytes per second: of served
    /// cards the application's, elsewhere that of the engine's timers, where there are any.
    #[must_use]
    pub fn rate(&self, flow: &FlowDocument) -> Option<f64> {
        let application = flow.application_bytes_per_second.filter(|_| self.served);
        application.or(flow.rate())
    }
}

/// One size.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ScenarioDocument {
    /// Bytes of one transfer; traffic says it flow by flow.
    pub bytes: Option<u64>,
    /// What was moved.
    #[serde(default)]
    pub flows: Vec<FlowDocument>,
    /// Of `bench latency`.
    pub latency: Option<LatencyDocument>,
    /// Directions of links on the way.
    #[serde(default)]
    pub links: Vec<LinkDocument>,
    /// What went wrong.
    #[serde(default)]
    pub errors: Vec<String>,
    /// Why it was not faster; none where nobody wanted to know.
    pub why_not_faster: Option<ExplanationDocument>,
}

/// A flow. Some of its fields are of the workloads through the driver, some of generic traffic.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct FlowDocument {
    /// `fpga1 -> host`.
    pub name: Option<String>,
    /// Who moves, of traffic.
    pub from: Option<String>,
    /// To or from whom, of traffic.
    pub to: Option<String>,
    /// `write`, `read` or `writeread`, of traffic.
    pub kind: Option<String>,
    /// Bytes of one transfer.
    pub bytes: u64,
    /// Transfers.
    pub iterations: u64,
    /// Transfers on their way at once, at the most.
    pub in_flight: Option<u64>,
    /// Times of the transfers, where each has one.
    pub latency: Option<StatisticsDocument>,
    /// As the application sees it.
    pub application_bytes_per_second: Option<f64>,
    /// By the engine's timers.
    pub hardware: Option<HardwareDocument>,
    /// Of traffic.
    pub bytes_per_second: Option<f64>,
    /// What it could reach.
    pub ceiling: Option<CeilingDocument>,
    /// Its rate as a fraction of that, less DLLPs.
    pub share_of_ceiling: Option<f64>,
}

/// By the engines' timers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct HardwareDocument {
    /// Its rate.
    pub bytes_per_second: f64,
}

/// What a flow could reach.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct CeilingDocument {
    /// No DLLPs taken off.
    pub bytes_per_second: f64,
    /// Less those of the run.
    pub less_dllps_bytes_per_second: f64,
    /// The direction that sets it.
    pub direction: Option<String>,
}

/// Times in picoseconds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct StatisticsDocument {
    /// The shortest.
    pub min_ps: u64,
    /// The median.
    pub typical_ps: u64,
    /// The mean.
    pub average_ps: u64,
    /// 99 of 100 are no longer.
    pub p99_ps: u64,
    /// The longest.
    pub max_ps: u64,
}

/// Of `bench latency`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct LatencyDocument {
    /// `fpga1 -> fpga2`.
    pub name: String,
    /// Half of the round trips.
    pub one_way: StatisticsDocument,
}

/// A direction of a link.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct LinkDocument {
    /// `fpga1 -> rc47a.down0`.
    pub direction: String,
    /// Payload, bytes per second.
    pub bytes_per_second: f64,
    /// What it could carry.
    pub ceiling_bytes_per_second: f64,
    /// Generation of the link.
    pub generation: u8,
    /// Its lanes.
    pub width: u8,
}

/// Why a run was not faster.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ExplanationDocument {
    /// The figure that was to get better.
    pub figure: FigureDocument,
    /// Where the time of the busiest direction went.
    pub account: Option<AccountDocument>,
    /// The figure of the whole run, as it was measured.
    pub measured: Option<FigureDocument>,
    /// How the run was shortened to be explained, if it was.
    pub shortened: Option<String>,
    /// The bottleneck, then the next.
    #[serde(default)]
    pub steps: Vec<StepDocument>,
    /// A wait that goes with the bottleneck, though it is called otherwise.
    pub consequence: Option<ConsequenceDocument>,
    /// What was lifted alone.
    #[serde(default)]
    pub trials: Vec<TrialDocument>,
}

/// A wait of another name than the bottleneck, which goes with it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ConsequenceDocument {
    /// What was waited for, such as `no_tag`.
    #[serde(rename = "use")]
    pub what: String,
    /// Share of the time, 0 to 1.
    pub share: f64,
    /// The same without the bottleneck.
    pub share_without: f64,
}

/// The run that is explained stands for the measured one where their figures differ by no more
/// than this fraction.
const CLOSE: f64 = 0.03;

impl ExplanationDocument {
    /// That the run that was explained is not like the one that was measured, as a sentence.
    #[must_use]
    pub fn unlike(&self) -> Option<String> {
        let measured = self.measured.as_ref().filter(|measured| measured.value > 0.0)?;
        let off = self.figure.value / measured.value - 1.0;
        (off.abs() > CLOSE).then(|| {
            format!(
                "Warning: the run that was explained reached {}, {:.1} % {} than the {} that were \
                 measured: what limits it may not limit the whole run.",
                self.figure.words(self.figure.value),
                100.0 * off.abs(),
                if off < 0.0 { "less" } else { "more" },
                measured.words(measured.value),
            )
        })
    }
}

/// A figure that is to get better.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct FigureDocument {
    /// Bytes per second, or picoseconds where less is better.
    pub value: f64,
    /// `higher` or `lower`.
    pub better: String,
}

impl FigureDocument {
    /// A value of this figure in words: `1599.8 MB/s`, `706.0 ns`.
    #[must_use]
    pub fn words(&self, value: f64) -> String {
        if self.better == "lower" {
            format!("{:.1} ns", value / 1e3)
        } else {
            format!("{:.1} MB/s", value / 1e6)
        }
    }
}

/// Where time went.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct AccountDocument {
    /// `fpga1 -> rc47a.down0`.
    pub direction: String,
    /// `Gen2 x4`.
    pub link: String,
    /// Each use and its share.
    pub uses: Vec<UseDocument>,
    /// What the IOMMUs of hosts did meanwhile.
    #[serde(default)]
    pub iommus: Vec<IommuDocument>,
}

/// What the IOMMU of a host did.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct IommuDocument {
    /// The host.
    pub host: String,
    /// Pages that its IOTLB holds.
    pub iotlb_entries: u32,
    /// Time of a walk, picoseconds.
    pub walk_ps: u64,
    /// Walks that can be at once.
    pub walks: u32,
    /// Requests that were looked up.
    pub requests: u64,
    /// Those of them whose page was not held.
    pub misses: u64,
    /// Time that misses have waited until a walk was free, all together, picoseconds.
    pub queued_ps: u64,
    /// Time that requests have waited for their translation, all together, picoseconds.
    pub waited_ps: u64,
    /// Walks at once, on average.
    pub walks_at_once: f64,
}

/// A use of time.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct UseDocument {
    /// Its word, such as `no_credit`.
    #[serde(rename = "use")]
    pub what: String,
    /// Its share, 0 to 1.
    pub share: f64,
}

/// Something lifted.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct StepDocument {
    /// What holds the run; of several each does alone.
    pub limits: Vec<LimitDocument>,
    /// The figure without them.
    pub value: f64,
    /// By how much that is better, as a fraction.
    pub gain: f64,
}

/// A limit.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct LimitDocument {
    /// Its kind, such as `descriptor_gap`.
    pub kind: String,
    /// Where.
    pub place: String,
    /// In words.
    pub words: String,
    /// What it was changed to.
    pub lifted: String,
}

/// A limit lifted alone.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct TrialDocument {
    /// The limit.
    pub limit: LimitDocument,
    /// The figure without it.
    pub value: f64,
    /// By how much that is better, as a fraction.
    pub gain: f64,
}

/// `crosslane reproduce … --json`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ReproductionDocument {
    /// Its name.
    pub reproduction: String,
    /// What all that is random came from.
    pub seed: u64,
    /// Version of the program.
    pub version: String,
    /// Its rows.
    pub rows: Vec<RowDocument>,
}

/// A row of a reproduction.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct RowDocument {
    /// What was measured.
    pub quantity: String,
    /// How.
    pub conditions: String,
    /// In which unit.
    pub unit: String,
    /// What the document gives.
    pub published: Option<f64>,
    /// What the lab gives.
    pub simulated: Option<f64>,
    /// What it is worth.
    pub kind: String,
}
