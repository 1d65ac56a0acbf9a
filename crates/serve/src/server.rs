// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server: the lab's thread, and the threads of the sockets.

use std::collections::BTreeSet;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::{fs, io};

use crosslane_host::{ErrorKind, FunctionInfo, Reason, Topology};
use crosslane_lab::{Lab, Simulation};
use crosslane_pcie::config::PortType;
use crosslane_pcie::units::{HostId, RoutingId};
use futures_channel::mpsc::{UnboundedReceiver, unbounded};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::ask::{Ask, Asker};
use crate::board::{Board, Reporter};
use crate::caller::Tell;
use crate::connection::Description;
use crate::error::{ServeError, ServeEvent};
use crate::function::ServedFunction;
use crate::mappings::{ClientMemory, SharedMappings};
use crate::options::{ServeOptions, quota};
use crate::plain::{self, PlainBar};
use crate::waiting::{Reception, Station, Wake};

/// Longest path of a socket: `sockaddr_un` has 108 bytes, including the final zero.
const MAX_PATH_BYTES: usize = 107;

/// A device of a lab, and the socket for its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedDevice {
    /// Name of the endpoint.
    pub name: String,
    /// Path of the socket.
    pub socket: PathBuf,
}

/// Devices of a lab being served. Dropping it ends that and removes the sockets.
pub struct Server {
    sockets: Vec<Socket>,
    lab: Option<JoinHandle<()>>,
}

/// A listening socket and its thread.
struct Socket {
    path: PathBuf,
    wake: Wake,
    thread: Option<JoinHandle<()>>,
}

/// A device, for the lab's thread.
struct Seat {
    name: String,
    mappings: SharedMappings,
    asks: UnboundedReceiver<Ask>,
}

impl Server {
    /// Builds the lab and serves some of its endpoints, each behind a socket. `tell` is called with
    /// events, from any thread. A socket left behind by a dead server is replaced.
    ///
    /// # Errors
    /// If the lab has a problem, a name is not one of its endpoints, or a socket cannot be made.
    pub fn start(
        lab: Lab,
        seed: u64,
        devices: &[ServedDevice],
        tell: impl Fn(&ServeEvent) + Send + Sync + 'static,
    ) -> Result<Self, ServeError> {
        Self::start_with(lab, seed, devices, &ServeOptions::default(), tell)
    }

    /// As [`start`](Self::start), with times of the caller's choice for clients.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub fn start_with(
        lab: Lab,
        seed: u64,
        devices: &[ServedDevice],
        options: &ServeOptions,
        tell: impl Fn(&ServeEvent) + Send + Sync + 'static,
    ) -> Result<Self, ServeError> {
        let mut seen = BTreeSet::new();
        for device in devices {
            for what in [device.name.clone(), device.socket.display().to_string()] {
                if !seen.insert(what.clone()) {
                    return Err(ServeError::Twice { what });
                }
            }
        }
        let tell: Tell = Arc::new(tell);
        let (mut seats, mut sides) = (Vec::new(), Vec::new());
        let quota = quota(devices.len());
        for device in devices {
            let (asker, asks) = unbounded();
            let mappings = SharedMappings::new(quota);
            seats.push(Seat { name: device.name.clone(), mappings: mappings.clone(), asks });
            sides.push((Asker(asker), mappings));
        }
        let (report, reported) = channel();
        let of_lab = Arc::clone(&tell);
        let thread = thread::Builder::new().name("lab".to_owned());
        let lab = thread.spawn(move || run(&lab, seed, seats, &*of_lab, &report));
        let lab = lab.map_err(|error| no_thread(&error))?;
        let mut server = Self { sockets: Vec::new(), lab: Some(lab) };
        let lab_ended = "the lab's thread reports before it ends";
        let descriptions = reported.recv().expect(lab_ended)?;
        for ((device, side), description) in devices.iter().zip(sides).zip(descriptions) {
            let (asker, mappings) = side;
            let (tell, options) = (Arc::clone(&tell), options.clone());
            let station = Station { description, asker, mappings, tell, options };
            server.sockets.push(Socket::new(&device.socket, station)?);
        }
        Ok(server)
    }

    /// Waits until the server ends, which happens only if one of its threads has failed.
    pub fn wait(mut self) {
        if let Some(lab) = self.lab.take() {
            // The panic was reported when it happened.
            let _ = lab.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for socket in &mut self.sockets {
            socket.close();
        }
        // Drop the sockets first: only they send requests to the lab.
        self.sockets.clear();
        if let Some(lab) = self.lab.take() {
            let _ = lab.join();
        }
    }
}

/// Removes the socket that a server has left at a path when it was killed.
///
/// # Errors
/// Something else is there, or a server that listens.
pub fn free_socket(path: &Path) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is there, and no socket"));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there")),
    }
}

fn no_thread(error: &std::io::Error) -> ServeError {
    let why = Reason::new(error.kind().into(), format!("cannot start a thread: {error}"));
    ServeError::Socket { path: PathBuf::new(), why }
}

impl Socket {
    fn new(path: &Path, station: Station) -> Result<Self, ServeError> {
        let refused = |why: Reason| ServeError::Socket { path: path.to_owned(), why };
        free_socket(path).map_err(|error| refused(error.into()))?;
        let bytes = path.as_os_str().len();
        if bytes > MAX_PATH_BYTES {
            let why = format!(
                "the socket path is {bytes} bytes long, at most {MAX_PATH_BYTES} are possible"
            );
            return Err(refused(Reason::new(ErrorKind::InvalidArgument, why)));
        }
        let listener = UnixListener::bind(path).map_err(|error| refused(error.into()))?;
        let name = station.description.name.clone();
        let wake = Wake::new().map_err(|errno| refused(io::Error::from(errno).into()))?;
        let reception = Reception::new(listener, station, wake.clone());
        let reception = reception.map_err(|error| refused(error.into()))?;
        let thread = thread::Builder::new().name(name).spawn(move || reception.run());
        let thread = Some(thread.map_err(|error| no_thread(&error))?);
        Ok(Self { path: path.to_owned(), wake, thread })
    }

    fn close(&mut self) {
        self.wake.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Runs the lab's thread.
fn run(
    lab: &Lab,
    seed: u64,
    seats: Vec<Seat>,
    tell: &dyn Fn(&ServeEvent),
    report: &Sender<Result<Vec<Description>, ServeError>>,
) {
    let simulation = match lab.build_engines(seed) {
        Ok(running) => Simulation::new(running),
        Err(error) => {
            let _ = report.send(Err(error.into()));
            return;
        }
    };
    let trees: Vec<(HostId, Vec<FunctionInfo>)> = simulation
        .hosts()
        .iter()
        .map(|host| (host.id, simulation.bus(host.id).functions().unwrap_or_default()))
        .collect();
    let mut places = Vec::new();
    for seat in &seats {
        match find(&trees, &seat.name) {
            Ok(place) => places.push(place),
            Err(error) => {
                let _ = report.send(Err(error));
                return;
            }
        }
    }
    let reporter = Reporter::new(tell);
    let mut boards = Vec::new();
    for (host, tree) in &trees {
        let of_host = |(host_of, id): &(HostId, RoutingId)| (host_of == host).then_some(*id);
        let served: Vec<RoutingId> = places.iter().filter_map(of_host).collect();
        if served.is_empty() {
            continue;
        }
        let memory = seats
            .iter()
            .zip(&places)
            .filter_map(|(seat, place)| of_host(place).map(|id| (id, seat.mappings.clone())));
        let memory = Box::new(ClientMemory(memory.collect()));
        simulation.with_fabric(|fabric| fabric.set_outside_memory(*host, Some(memory)));
        let bus = simulation.bus(*host);
        boards.push((*host, Board::new(&simulation, bus, tree, &served, &reporter)));
    }
    let mut functions = Vec::new();
    for (host, id) in &places {
        let board = boards.iter().find(|(host_of, _)| host_of == host).map(|(_, board)| board);
        let board = board.expect("each host with a served device has a board");
        let function = board.functions().iter().find(|function| function.id == *id);
        functions.push((board, function.expect("the board has all its devices")));
    }
    let describe = |(_, function): &(&Board<'_>, &ServedFunction)| {
        let (name, bar_bytes) = (function.name.clone(), function.bar_bytes());
        let plain = share_memory(&simulation, function, tell);
        Description { name, bar_bytes, plain, vectors: function.vectors() }
    };
    let _ = report.send(Ok(functions.iter().map(describe).collect()));
    simulation.run_free("serve", async {
        let serving = functions.iter().zip(seats);
        let mut serving: FuturesUnordered<_> =
            serving.map(|((board, function), seat)| board.serve(function, seat.asks)).collect();
        while serving.next().await.is_some() {}
    });
}

/// Makes the files of a function's BARs that clients may map.
fn share_memory(
    simulation: &Simulation,
    function: &ServedFunction,
    tell: &dyn Fn(&ServeEvent),
) -> [Option<Arc<PlainBar>>; 6] {
    let (bars, without) = simulation.with_fabric(|fabric| {
        let port = fabric.function_at(function.host, function.id);
        port.map(|port| plain::share(fabric, port)).unwrap_or_default()
    });
    for (bar, errno) in without {
        let (device, why) = (function.name.clone(), errno.to_string());
        tell(&ServeEvent::NoFile { device, bar, why });
    }
    bars
}

fn find(
    trees: &[(HostId, Vec<FunctionInfo>)],
    name: &str,
) -> Result<(HostId, RoutingId), ServeError> {
    let endpoints = || {
        let all = trees.iter().flat_map(|(host, tree)| tree.iter().map(move |info| (*host, info)));
        all.filter(|(_, info)| info.port_type == PortType::Endpoint)
    };
    let found = endpoints().find(|(_, info)| info.name == name);
    found.map(|(host, info)| (host, info.id)).ok_or_else(|| ServeError::NoSuchDevice {
        name: name.to_owned(),
        have: endpoints().map(|(_, info)| info.name.clone()).collect(),
    })
}
