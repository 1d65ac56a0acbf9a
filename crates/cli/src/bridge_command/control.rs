// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The control socket of a server: cards that are added and removed while it runs, by the user
//! whose server it is.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crosslane::bridge::CardChanges;
use crosslane::open::DeviceName;
use futures_channel::mpsc;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};

use super::arguments::{CardCommand, ControlArguments};
use super::reload::Devices;
use super::serve::{card_name, opened};
use crate::error::{CommandError, Result, usage};
use crate::output;

/// Longest request or answer, bytes.
const MOST_BYTES: u64 = 8192;
/// Requests that are carried out at the same time; more wait.
const MOST_REQUESTS: usize = 64;
/// Time for a client to say what it wants.
const REQUEST_TIME: Duration = Duration::from_secs(2);
/// Time for the server to carry it out: transfers of a card that is removed end before.
const ANSWER_TIME: Duration = Duration::from_secs(60);

/// A request at the socket.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Request {
    Add { name: String, device: String },
    Remove { name: String },
}

/// The answer: the sentence of an error.
type Answer = Result<(), String>;

/// A request, for the task that serves, and the stream that the answer goes to.
struct Asked {
    request: Request,
    stream: UnixStream,
}

/// Requests at a server's socket.
pub struct Control(mpsc::UnboundedReceiver<Asked>);

/// Whether the other end of a connection belongs to this program's user, or to root.
fn is_own(stream: &UnixStream) -> std::io::Result<bool> {
    let other = rustix::net::sockopt::socket_peercred(stream)?.uid;
    Ok(other.is_root() || other == rustix::process::geteuid())
}

impl Control {
    /// Listens at a path, from a thread.
    ///
    /// # Errors
    /// A path that is taken, or at which no socket can be made.
    pub fn listen(path: &Path) -> Result<Self> {
        let failed = |error| {
            let place = path.display();
            CommandError::Failed(format!("--control {place}: cannot listen there: {error}"))
        };
        crosslane_serve::free_socket(path).map_err(failed)?;
        let listener = UnixListener::bind(path).map_err(failed)?;
        std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
        let (ask, asked) = mpsc::unbounded();
        let answering = move || {
            for stream in listener.incoming().flatten() {
                // Whoever asks and goes has lost nothing.
                let _ = hear(stream, &ask);
            }
        };
        let thread = std::thread::Builder::new().name("crosslane-control".into());
        thread.spawn(answering).map_err(failed)?;
        Ok(Self(asked))
    }

    /// Carries out what is asked for; never ends. A card that is slow to leave keeps no other
    /// request waiting.
    pub async fn obey(self, changes: &CardChanges, devices: &Devices) {
        let obeyed =
            self.0.for_each_concurrent(MOST_REQUESTS, async |Asked { request, stream }| {
                let done = match request {
                    Request::Add { name, device } => {
                        let added = add(changes, &name, &device).await;
                        added.map(|device| drop(devices.borrow_mut().insert(name, device)))
                    }
                    Request::Remove { name } => {
                        let removed =
                            changes.remove(&name).await.map_err(|error| error.to_string());
                        removed.map(|()| drop(devices.borrow_mut().remove(&name)))
                    }
                };
                // Whoever asked may have gone.
                let _ = answer(&stream, &done);
            });
        obeyed.await;
        std::future::pending().await
    }
}

async fn add(changes: &CardChanges, name: &str, device: &str) -> Result<DeviceName, String> {
    let words = |error: &dyn std::error::Error| error.to_string();
    let named: DeviceName = device.parse().map_err(|error| words(&error))?;
    if matches!(named, DeviceName::Lab(_)) {
        return Err(format!("{device}: a lab runs from the start of its server on (--device)"));
    }
    let card = opened(&named).await?;
    changes.add(name, card).await.map_err(|error| words(&error))?;
    Ok(named)
}

/// Reads to the end of a stream, which shuts its direction down.
fn read(stream: &UnixStream) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Answers a request: a sentence, for which the socket of whoever asked has room.
fn answer(mut stream: &UnixStream, done: &Answer) -> std::io::Result<()> {
    stream.write_all(&serde_json::to_vec(done)?)
}

/// Hears a request, and hands it on.
fn hear(stream: UnixStream, ask: &mpsc::UnboundedSender<Asked>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(REQUEST_TIME))?;
    stream.set_write_timeout(Some(REQUEST_TIME))?;
    if !is_own(&stream)? {
        return Ok(());
    }
    match serde_json::from_slice(&read(&stream)?) {
        Err(error) => answer(&stream, &Err(format!("no request: {error}"))),
        Ok(request) => {
            // If the server has ended, so does the stream.
            drop(ask.unbounded_send(Asked { request, stream }));
            Ok(())
        }
    }
}

/// `bridge card`.
///
/// # Errors
/// A name that cannot be, no server at the socket, and what the server answers.
pub fn run(command: &CardCommand) -> Result<()> {
    let (control, request, said) = match command {
        CardCommand::Add { device, control } => {
            let (name, named) = card_name(device, None)?;
            // A path is seen from the server's folder, which may be another one.
            let device = match named {
                DeviceName::File(path) => format!("file:{}", absolute(&path)?.display()),
                DeviceName::VfioUser(path) => format!("vfio-user:{}", absolute(&path)?.display()),
                named => named.to_string(),
            };
            let said = format!("{name} ({device}) is served\n");
            (control, Request::Add { name, device }, said)
        }
        CardCommand::Remove { name, control } => {
            let said = format!("{name} is no longer served\n");
            (control, Request::Remove { name: name.clone() }, said)
        }
    };
    match asked(control, &request)? {
        Ok(()) => output::print(&said),
        Err(why) => Err(CommandError::Failed(why)),
    }
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| CommandError::Failed(error.to_string()))
}

/// Sends a request to the server at a socket, and waits for its answer.
fn asked(ControlArguments { control }: &ControlArguments, request: &Request) -> Result<Answer> {
    let path = control.display();
    let failed = |error: std::io::Error| CommandError::Failed(format!("{path}: {error}"));
    let mut stream = UnixStream::connect(control)
        .map_err(|error| CommandError::Failed(format!("{path}: cannot reach a server: {error}")))?;
    if !is_own(&stream).map_err(failed)? {
        return Err(usage(format!("{path}: the server there is another user's")));
    }
    stream.set_read_timeout(Some(ANSWER_TIME)).map_err(failed)?;
    let bytes = serde_json::to_vec(request).map_err(|error| failed(error.into()))?;
    stream.write_all(&bytes).map_err(failed)?;
    stream.shutdown(std::net::Shutdown::Write).map_err(failed)?;
    let answer = read(&stream).map_err(failed)?;
    serde_json::from_slice(&answer)
        .map_err(|_| CommandError::Failed(format!("{path}: the server there has not answered")))
}
