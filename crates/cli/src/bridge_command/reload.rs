// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bridge reload`, and the programs by which a server reconfigures its cards.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crosslane::bridge::messages::{MOST_ENDING_BYTES, MOST_IMAGE_BYTES, one_line};
use crosslane::bridge::{CardAddress, Client, ImageFile, MemoryPart, Reloader, Renewed, Served};
use crosslane::host::{Clock, DmaMemory, PageSize, Rdma, RemoteAccess, hex};
use crosslane::machine::{self, Address, BindOptions, Machine};
use crosslane::network::{MachineClock, Network};
use crosslane::open::DeviceName;
use crosslane::results::SCHEMA;
use crosslane_vfio::user::{self, REQUEST_DEADLINE};
use futures_channel::oneshot;
use futures_executor::block_on;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use tempfile::NamedTempFile;

use super::arguments::{ReloadArguments, ServeArguments};
use super::client::open_file;
use super::serve::opened;
use super::servers::{connected, found};
use crate::error::{CommandError, Result, usage};
use crate::files::cannot_read;
use crate::output;
use crate::progress::Transferred;

/// Time between two looks whether a program has ended.
const LOOK: Duration = Duration::from_millis(20);
/// Time between two tries to open a card.
const TRY_AGAIN: Duration = Duration::from_millis(200);
/// Time for a program that is told to end, which may have a card to restore.
const LAST_STEPS: Duration = Duration::from_secs(10);
/// Lines of a program that its client is told, and most bytes of its output that are looked at.
const LAST_LINES: usize = 6;
const LAST_BYTES: u64 = 2048;
/// Longest line of it that is told, characters.
const LINE_LENGTH: usize = 140;
/// The kernel's folder of PCI.
const PCI: &str = "/sys/bus/pci";
/// Bytes of a file that are read at once.
const STEP_BYTES: u64 = 1 << 20;

/// Devices behind the names of a server's cards.
pub type Devices = Rc<RefCell<BTreeMap<String, DeviceName>>>;

/// The programs of a server, and the devices that they reconfigure.
pub struct Programs {
    /// Words of each card's program.
    programs: BTreeMap<String, Vec<String>>,
    devices: Devices,
    deadline: Duration,
    clock: MachineClock,
}

/// A file beside others of this machine's user; its name is random.
struct Stored(NamedTempFile);

impl Write for Stored {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl ImageFile for Stored {
    fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Whether a card of this device can be reconfigured.
const fn is_board(device: &DeviceName) -> bool {
    matches!(device, DeviceName::Vfio(_) | DeviceName::VfioUser(_))
}

/// Reads the programs of `--programmer`, for cards that are there or, with `--control`, come later.
///
/// # Errors
/// No name, no program, and a card that is not there or cannot be reconfigured.
pub fn programs(
    arguments: &ServeArguments,
    devices: &Devices,
    clock: &MachineClock,
) -> Result<Programs> {
    let mut programs = BTreeMap::new();
    for text in &arguments.programmer {
        let bad = |why: String| usage(format!("--programmer {text}: {why}"));
        let Some((name, program)) = text.split_once('=') else {
            return Err(bad("it is written NAME=PROGRAM".to_owned()));
        };
        let words = shell_words::split(program).map_err(|error| bad(error.to_string()))?;
        if words.is_empty() {
            return Err(bad("the program is missing".to_owned()));
        }
        match devices.borrow().get(name) {
            Some(device) if !is_board(device) => {
                return Err(bad(format!("{device} is no card that a program reconfigures")));
            }
            None if arguments.control.is_none() => {
                return Err(bad(format!("no --device has the name {name}")));
            }
            _ => {}
        }
        if programs.insert(name.to_owned(), words).is_some() {
            return Err(bad(format!("{name} has another program already")));
        }
    }
    let deadline = Duration::from_secs(arguments.reload_deadline);
    Ok(Programs { programs, devices: Rc::clone(devices), deadline, clock: clock.clone() })
}

impl Programs {
    /// Whether a card has a program.
    pub fn has(&self, card: &str) -> bool {
        self.programs.contains_key(card)
    }

    /// Returns the device of a card, and the words of its program.
    fn of(&self, card: &str) -> Result<(DeviceName, &[String]), String> {
        let words = self.programs.get(card).ok_or_else(|| {
            format!("{card} cannot be reloaded: its server has no program for it (--programmer)")
        })?;
        let device = self.devices.borrow().get(card).cloned();
        match device {
            Some(device) if is_board(&device) => Ok((device, words)),
            _ => Err(format!("{card} cannot be reloaded: it is no card of a board")),
        }
    }

    async fn run(&self, card: &str, image: &Path) -> Result<Renewed, String> {
        let (device, words) = self.of(card)?;
        let end = Instant::now() + self.deadline;
        let said = self.program(&device, words, image, end).await?;
        loop {
            match opened_again(&device).await {
                Ok(card) => return Ok(Renewed { card, said }),
                Err(why) if Instant::now() >= end => {
                    let seconds = self.deadline.as_secs();
                    return Err(format!("it did not come back within {seconds} s: {why}"));
                }
                Err(_) => self.clock.sleep_until(self.clock.after(TRY_AGAIN)).await,
            }
        }
    }

    /// Runs the program of a card, for a card of this machine by `device reload`, unless it is
    /// still away since an earlier one; returns its last lines.
    async fn program(
        &self,
        device: &DeviceName,
        words: &[String],
        image: &Path,
        end: Instant,
    ) -> Result<String, String> {
        let cannot = |error: io::Error| format!("cannot run {}: {error}", words[0]);
        let mut command = match device {
            DeviceName::Vfio(address) if is_there(*address) => {
                let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
                let seconds = self.deadline.as_secs().to_string();
                command.args(["device", "reload", &address.to_string(), "--deadline", &seconds]);
                command.arg("--").args(words);
                command
            }
            _ => {
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]);
                command
            }
        };
        let mut log = tempfile::tempfile().map_err(cannot)?;
        let both = [log.try_clone(), log.try_clone()];
        let [stdout, stderr] = both.map(|file| file.map(Stdio::from));
        command.arg(image).stdin(Stdio::null());
        command.stdout(stdout.map_err(cannot)?).stderr(stderr.map_err(cannot)?);
        // A signal that interrupts the server must not leave a card half programmed.
        let mut child = command.process_group(0).spawn().map_err(cannot)?;
        let status = self.ended(&mut child, end).await.map_err(cannot)?;
        let lines = last_lines(&mut log).map_err(cannot)?;
        match status {
            Some(status) if status.success() => Ok(lines.join("\n")),
            Some(status) => {
                let last = lines.last().map(String::as_str).unwrap_or_default();
                // That of `device reload` says all.
                Err(last.strip_prefix("error: ").map_or_else(
                    || format!("{} failed: {status}: {last}", words[0]),
                    ToOwned::to_owned,
                ))
            }
            None => {
                let seconds = self.deadline.as_secs();
                Err(format!("{} took longer than {seconds} s, and was ended", words[0]))
            }
        }
    }

    /// Waits until a program has ended; one that has not in time is ended.
    async fn ended(&self, child: &mut Child, end: Instant) -> io::Result<Option<ExitStatus>> {
        let group = Pid::from_child(child);
        let killed = end + LAST_STEPS;
        for (until, then) in
            [(end, Some(Signal::TERM)), (killed, Some(Signal::KILL)), (killed + LAST_STEPS, None)]
        {
            while Instant::now() < until {
                if let Some(status) = child.try_wait()? {
                    return Ok(Some(status).filter(|_| until == end));
                }
                self.clock.sleep_until(self.clock.after(LOOK)).await;
            }
            if let Some(signal) = then {
                // It may have ended just now.
                let _ = kill_process_group(group, signal);
            }
        }
        Ok(None)
    }
}

/// Whether the kernel has a function.
fn is_there(address: Address) -> bool {
    Path::new(PCI).join("devices").join(address.to_string()).exists()
}

/// Opens a card that was away.
async fn opened_again(device: &DeviceName) -> Result<Served, String> {
    if let DeviceName::Vfio(address) = device {
        if !is_there(*address) {
            std::fs::write(Path::new(PCI).join("rescan"), "1")
                .map_err(|error| format!("{address} is away, and cannot be looked for: {error}"))?;
        }
        // Found by this, it has no driver yet; else it has its own again.
        let bound = machine::bind(&Machine::this(), *address, &BindOptions::default());
        bound.map_err(|error| error.to_string())?;
    }
    if let DeviceName::VfioUser(socket) = device {
        // One that takes connections and says nothing must not hold up the server's other cards.
        let socket = socket.clone();
        let (tell, hear) = oneshot::channel();
        let ask = move || {
            let answer = user::open(&[socket], REQUEST_DEADLINE);
            // The server may have ended.
            let _ = tell.send(answer.map(drop).map_err(|error| error.to_string()));
        };
        let thread = std::thread::Builder::new().name("crosslane-card".into()).spawn(ask);
        thread.map_err(|error| error.to_string())?;
        hear.await.map_err(|error| error.to_string())??;
    }
    opened(device).await
}

/// Returns the last lines of a program's output, harmless and not long.
fn last_lines(log: &mut File) -> io::Result<Vec<String>> {
    let length = log.metadata()?.len();
    log.seek(SeekFrom::Start(length.saturating_sub(LAST_BYTES)))?;
    let mut bytes = Vec::new();
    log.take(LAST_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // Programs draw their progress with carriage returns.
    let lines = text.split(['\n', '\r']).filter(|line| !line.trim().is_empty());
    let lines: Vec<&str> = lines.collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].iter();
    Ok(last.map(|line| one_line(line).chars().take(LINE_LENGTH).collect()).collect())
}

impl Reloader for Programs {
    fn check(&self, card: &str) -> Result<(), String> {
        self.of(card).map(drop)
    }

    fn file(&self, ending: &str) -> io::Result<Box<dyn ImageFile>> {
        let ending = if ending.is_empty() { String::new() } else { format!(".{ending}") };
        let file = tempfile::Builder::new().prefix("crosslane-").suffix(&ending).tempfile()?;
        Ok(Box::new(Stored(file)))
    }

    fn reload<'a>(
        &'a self,
        card: &'a str,
        image: Box<dyn ImageFile>,
    ) -> LocalBoxFuture<'a, Result<Renewed, String>> {
        async move { self.run(card, image.path()).await }.boxed_local()
    }
}

/// JSON of the command.
#[derive(Serialize)]
struct BridgeReload<'a> {
    schema: u32,
    what: String,
    bytes: u64,
    sha256: String,
    seconds: f64,
    network: String,
    /// The last lines of the server's program.
    said: Vec<&'a str>,
}

/// `bridge reload`.
///
/// # Errors
/// A file that cannot be read or is too long, a refusal, and a card that could not be reloaded.
pub fn run(arguments: &ReloadArguments) -> Result<()> {
    let ReloadArguments { card, file: path, client } = arguments;
    if card.address != 0 {
        return Err(usage(format!("{card}: a card is reloaded as a whole, not at an address")));
    }
    let (file, bytes) = open_file(path)?;
    if bytes > MOST_IMAGE_BYTES {
        let why = format!("it has {bytes} B, and at most {MOST_IMAGE_BYTES} are possible");
        return Err(cannot_read(path, &why));
    }
    let cards = found(client, &[card])?;
    let [CardAddress { server, card, .. }] = cards.as_slice() else {
        unreachable!("one card was looked for")
    };
    let time = Duration::from_secs(client.timeout);
    let shown = Transferred::new(bytes);
    let reloading = async {
        let connection = connected(client, server).await?;
        let image = loaded(&connection, path, file, bytes).await?;
        let ending = ending_of(path);
        let arrived = |bytes| shown.set(bytes);
        let reloaded = connection.reload(card, &image, ending, time, arrived).await?;
        let network = connection.rdma().name();
        connection.close().await;
        Ok::<_, CommandError>((reloaded, network))
    };
    let (reloaded, network) = block_on(reloading)?;
    shown.finish();
    let seconds = reloaded.elapsed.as_seconds();
    let sum = hex(&reloaded.sha256);
    let what = format!("{} -> {server}/{card}", path.display());
    let said = reloaded.said.lines().collect();
    let text =
        format!("{what}: reloaded in {seconds:.1} s\n{bytes} B at both ends, SHA-256 {sum}\n");
    let outcome = BridgeReload { schema: SCHEMA, what, bytes, sha256: sum, seconds, network, said };
    output::show(client.json, &outcome, |_| {
        outcome.said.iter().fold(text, |text, line| text + "server: " + line + "\n")
    })
}

/// Reads a file into registered memory.
async fn loaded(
    client: &Client<Network, MachineClock>,
    path: &Path,
    mut file: File,
    bytes: u64,
) -> Result<MemoryPart<<Network as Rdma>::Region>> {
    let memory = client.rdma().allocate(bytes, PageSize::Small).map_err(CommandError::failed)?;
    let mut step = vec![0; STEP_BYTES.min(bytes) as usize];
    let mut at = 0;
    while at < bytes {
        let step = &mut step[..STEP_BYTES.min(bytes - at) as usize];
        file.read_exact(step).map_err(|error| cannot_read(path, &error))?;
        memory.write(at, step).map_err(CommandError::failed)?;
        at += step.len() as u64;
    }
    let region = client.register(&memory, RemoteAccess { read: true, write: false }).await?;
    Ok(MemoryPart { region, range: 0..bytes })
}

/// Returns the ending of a file's name by which programs tell formats apart, if it has one.
fn ending_of(path: &Path) -> &str {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let is_plain = ending.bytes().all(|letter| letter.is_ascii_alphanumeric());
    if is_plain && ending.len() <= MOST_ENDING_BYTES { ending } else { "" }
}
