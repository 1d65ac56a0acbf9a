// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two nodes of a lab with a bridge between them: one has the card and runs the server, the other
//! runs clients.

use crosslane_bridge::{BridgeError, Client, Identity, Server, ServerOptions};
use crosslane_driver::Device;
use crosslane_fabric::trace::TraceSink;
use crosslane_lab::{CheckedRun, Lab, LabBus, LabRdma, Progress, Simulation};
use crosslane_pcie::units::{HostId, Picoseconds};
use crosslane_results::{Better, BridgeTransfer, Figure, ScenarioResult};
use futures_channel::oneshot;
use futures_util::join;

use crate::bridged::BridgePlan;
use crate::error::{ExperimentError, Result};
use crate::scenario::{Outcome, Scenario, Work};

/// Port of the server.
const PORT: u16 = 7471;
/// Longest simulated time of a run.
const TIME_LIMIT: Picoseconds = Picoseconds::from_ns(100_000_000_000);
/// Time in which a client has to be connected.
const CONNECTING: Picoseconds = Picoseconds::from_ns(1_000_000_000);

/// A client of the bridge in a lab.
pub type LabClient = Client<LabRdma, LabBus>;

/// A node: its host, and its adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    host: HostId,
    nic: String,
}

/// Two nodes of a lab, joined by a bridge.
#[derive(Clone, Debug)]
pub struct TwoNodes {
    server: Node,
    client: Node,
    card: String,
    address: String,
}

impl TwoNodes {
    /// Finds the nodes: the server's host is the first that has an engine and a NIC, the client's
    /// the first other one with a NIC.
    ///
    /// # Errors
    /// A lab without such hosts.
    pub fn find(lab: &Lab) -> Result<Self> {
        let running = lab.build_engines(1)?;
        let file = lab.file();
        let first = |host: usize, is_wanted: &dyn Fn(&str) -> bool| {
            let functions = &running.hosts[host].tree.functions;
            functions.iter().map(|function| function.name.clone()).find(|name| is_wanted(name))
        };
        let endpoint = |name: &str| file.endpoints.iter().find(|one| one.name == name);
        let is_nic = |name: &str| endpoint(name).is_some_and(|one| one.part.nic.is_some());
        let is_card = |name: &str| endpoint(name).is_some_and(|one| one.part.engine.is_some());
        let hosts = 0..running.hosts.len();
        let node = |host: usize| {
            first(host, &is_nic).map(|nic| Node { host: running.hosts[host].id, nic })
        };
        let server = hosts.clone().find_map(|host| {
            let (card, node) = (first(host, &is_card)?, node(host)?);
            Some((host, card, node))
        });
        let missing = |what: &str| {
            ExperimentError::run(&format!("lab {}", lab.name()), format!("it has {what}"))
        };
        let (index, card, server) =
            server.ok_or_else(|| missing("no host with a card and a network adapter"))?;
        let client = hosts.filter(|host| *host != index).find_map(node);
        let client = client.ok_or_else(|| missing("no second host with a network adapter"))?;
        let address = format!("{}:{PORT}", running.hosts[index].name);
        Ok(Self { server, client, card, address })
    }

    /// Name of the card.
    pub fn card(&self) -> &str {
        &self.card
    }

    /// Names of the adapters of the server and of the client.
    pub fn adapters(&self) -> [&str; 2] {
        [&self.server.nic, &self.client.nic]
    }

    /// Name of the server's host.
    pub fn server(&self) -> &str {
        self.address.rsplit_once(':').map_or("", |(host, _)| host)
    }

    /// Runs a program with a number of clients beside a server, in a new lab; it may look at the
    /// lab. Returns the program's result, and the simulated time at the end.
    ///
    /// # Errors
    /// A lab that cannot be built, or a run that fails.
    pub fn run<T>(
        &self,
        lab: &Lab,
        seed: u64,
        name: &str,
        options: ServerOptions,
        clients: usize,
        program: impl AsyncFnOnce(&Simulation, Vec<LabClient>) -> T,
    ) -> Result<(T, Picoseconds)> {
        self.run_in(CheckedRun::new(lab, seed)?, name, options, clients, program)
    }

    fn run_in<T>(
        &self,
        run: CheckedRun,
        name: &str,
        options: ServerOptions,
        clients: usize,
        program: impl AsyncFnOnce(&Simulation, Vec<LabClient>) -> T,
    ) -> Result<(T, Picoseconds)> {
        let run = run.with_limit(TIME_LIMIT);
        let program = self.beside(run.simulation(), options, clients, program);
        let ended = run.run(name, program).map_err(|error| ExperimentError::run(name, error))?;
        Ok((ended.value, run.simulation().now()))
    }

    async fn beside<T>(
        &self,
        simulation: &Simulation,
        options: ServerOptions,
        clients: usize,
        program: impl AsyncFnOnce(&Simulation, Vec<LabClient>) -> T,
    ) -> Result<T, BridgeError> {
        let (bus, nic) = (simulation.bus(self.server.host), &self.server.nic);
        let refused = |error: crosslane_host::RdmaError| {
            BridgeError::of(crosslane_bridge::Stage::Connection, error)
        };
        let rdma = simulation.rdma(self.server.host, nic).map_err(refused)?;
        let device = Device::open_by_name(bus.clone(), &self.card)
            .await
            .map_err(|error| BridgeError::of(crosslane_bridge::Stage::Registration, error))?;
        let options = options.with_closed_network(true);
        let cards = vec![(self.card.clone(), device)];
        let server = Server::new(cards, rdma, bus, options, |_| {}).await?;
        let listener = server.listen(&self.address).await?;
        let (stop, stopped) = oneshot::channel::<()>();
        let connecting = async {
            let bus = simulation.bus(self.client.host);
            let rdma = simulation.rdma(self.client.host, &self.client.nic).map_err(refused)?;
            let mut connected = Vec::new();
            for _ in 0..clients {
                let identity = Identity::default();
                let (rdma, bus) = (rdma.clone(), bus.clone());
                let client =
                    Client::connect(rdma, bus, &self.address, &identity, CONNECTING).await?;
                connected.push(client);
            }
            Ok::<_, BridgeError>(connected)
        };
        let serving = server.serve(listener, async {
            // Dropped is as good as sent.
            let _ = stopped.await;
        });
        let programming = async {
            let result = match connecting.await {
                Ok(clients) => Ok(program(simulation, clients).await),
                Err(error) => Err(error),
            };
            drop(stop);
            result
        };
        let (served, result) = join!(serving, programming);
        served?;
        result
    }
}

/// Bytes of transfers that only prepare others, for each client.
const FEW_BYTES: u64 = 4096;

/// Bridged transfers between the two nodes of a lab.
#[derive(Clone, Debug)]
pub struct BridgeWork {
    /// Transfers to be made before: the first ones open channels.
    pub before: Vec<BridgePlan>,
    /// The transfers; the figure is that of the last kind.
    pub plan: BridgePlan,
    /// Options of the server.
    pub server: ServerOptions,
    /// Clients at once, each with a share of the bytes.
    pub clients: usize,
}

impl BridgeWork {
    /// Returns each kind of transfers of a plan as it was measured there: behind a short transfer
    /// of each kind before it, and of its own kind if the median is not that of the first.
    pub fn kinds(plan: &BridgePlan, server: &ServerOptions, clients: usize) -> Vec<Self> {
        let mut before: Vec<BridgePlan> = Vec::new();
        let with = |plan: BridgePlan| {
            let sizes = vec![FEW_BYTES * clients as u64];
            let short = BridgePlan { sizes, iterations: 1, ..plan.clone() };
            let of_own = (plan.iterations > 2).then(|| short.clone());
            let prepared = before.iter().cloned().chain(of_own).collect();
            let same = |one: &BridgePlan| (&one.paths, &one.modes) == (&short.paths, &short.modes);
            if !before.iter().any(same) {
                before.push(short);
            }
            Self { before: prepared, plan, server: server.clone(), clients }
        };
        plan.kinds().into_iter().map(with).collect()
    }
}

/// Outcome of bridged transfers in a lab.
#[derive(Clone, Debug)]
pub struct BridgeOutcome {
    /// Each kind of transfers.
    pub transfers: Vec<BridgeTransfer>,
    /// Simulated time at the end.
    pub simulated: Picoseconds,
}

impl Outcome for BridgeOutcome {
    fn result(&self) -> ScenarioResult {
        ScenarioResult {
            bytes: self.transfers.last().map(|last| last.bytes),
            simulated_ps: Some(self.simulated.0),
            ..ScenarioResult::default()
        }
    }

    fn figure(&self) -> Option<Figure> {
        let last = self.transfers.last()?;
        Some(Figure { value: last.bytes_per_second, better: Better::Higher })
    }

    fn simulated(&self) -> Picoseconds {
        self.simulated
    }

    fn wrong_data(&self) -> Option<String> {
        let wrong: u64 = self.transfers.iter().map(|one| one.wrong_words).sum();
        (wrong > 0).then(|| format!("{wrong} words of 4 B are not what was sent"))
    }
}

impl Work for BridgeWork {
    type Outcome = BridgeOutcome;

    fn name(&self, lab: &Lab) -> String {
        format!("bridge in lab {}", lab.name())
    }

    fn run(
        scenario: &Scenario<Self>,
        progress: &dyn Progress,
        trace: Option<Box<dyn TraceSink>>,
    ) -> Result<BridgeOutcome> {
        let Self { before, plan, server, clients } = &scenario.work;
        let scenario = scenario.edited(|file| {
            for host in file.hosts.iter_mut().filter(|_| scenario.max_payload_bytes.is_some()) {
                host.max_payload_limit_bytes = scenario.max_payload_bytes;
            }
        })?;
        let nodes = TwoNodes::find(&scenario.lab)?;
        let (run, name) = (scenario.begin(trace)?, scenario.name());
        let program = async |_: &Simulation, clients: Vec<_>| {
            let place = (nodes.card(), 0);
            for before in before {
                before.measure(&clients, place, &(), &mut Vec::new()).await?;
            }
            let mut transfers = Vec::new();
            let made = plan.measure(&clients, place, progress, &mut transfers).await;
            made.map(|()| transfers)
        };
        let (transfers, simulated) = nodes.run_in(run, &name, server.clone(), *clients, program)?;
        Ok(BridgeOutcome { transfers: transfers?, simulated })
    }
}
