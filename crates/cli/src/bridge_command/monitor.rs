// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server as others watch it: its log, counters for Prometheus, and systemd.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crosslane::bridge::{Report, ServerEvent, Stage};
use crosslane::host::{Clock, RdmaError, hex, lock};
use crosslane::network::MachineClock;
use crosslane::pcie::units::Picoseconds;
use sd_notify::NotifyState;
use serde::Serialize;

use super::arguments::{LogFormat, command_of};
use crate::error::{CommandError, Result, usage};
use crate::http::{self, NOT_ALLOWED, NOT_FOUND, Refusal};
use crate::output;

/// Time for a request for the counters.
const REQUEST_TIME: Duration = Duration::from_secs(2);

/// Events at a server since it began.
#[derive(Default)]
struct Counters {
    clients: u64,
    /// Connections that were refused or lost, by stage.
    lost: BTreeMap<String, u64>,
    /// Transfers, bytes and seconds by path.
    transfers: BTreeMap<&'static str, (u64, u64, f64)>,
    /// Transfers that failed or were refused, by stage.
    failed: BTreeMap<String, u64>,
    /// Cards that were reloaded.
    reloads: u64,
    /// Bytes, operations and busy seconds by stage.
    stages: BTreeMap<String, (u64, u64, f64)>,
}

/// Hears of all events of a server.
#[derive(Clone)]
pub struct Monitor {
    format: LogFormat,
    counters: Arc<Mutex<Counters>>,
}

/// An event in the log, as JSON.
#[derive(Default, Serialize)]
struct Line<'a> {
    /// Seconds since 1970.
    time: f64,
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    card: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'static str>,
    /// Number of the client's session.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// Bytes that the transfer has in all, while it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    of_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    /// Why it failed, or why it was not faster.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// The line that a log of text has.
    text: String,
    /// Everything that a transfer says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<&'a Report>,
}

const fn seconds(ps: u64) -> f64 {
    ps as f64 / 1e12
}

impl<'a> Line<'a> {
    fn now() -> Self {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |t| t.as_secs_f64());
        Self { time, ..Self::default() }
    }

    fn of(event: &'a ServerEvent) -> Self {
        let line = Self { text: event.to_string(), ..Self::now() };
        match event {
            ServerEvent::Greeted { client, peer } => {
                Self { event: "connected", client: Some(client), peer: Some(peer), ..line }
            }
            ServerEvent::CardAdded { card } => Self { event: "added", card: Some(card), ..line },
            ServerEvent::CardRemoved { card } => {
                Self { event: "removed", card: Some(card), ..line }
            }
            ServerEvent::Reloading { client, card, bytes, sha256 } => Self {
                event: "reloading",
                client: Some(client),
                card: Some(card),
                bytes: Some(*bytes),
                sha256: Some(hex(sha256)),
                ..line
            },
            ServerEvent::Reloaded { client, card } => {
                Self { event: "reloaded", client: Some(client), card: Some(card), ..line }
            }
            ServerEvent::Lost { peer, error } => Self {
                event: "lost",
                peer: Some(peer),
                stage: Some(error.stage.to_string()),
                why: Some(error.why.to_string()),
                ..line
            },
            ServerEvent::Moving { client, session, of_bytes, report } => {
                let line = line.reported("moving", client, *session, report);
                Self { of_bytes: Some(*of_bytes), ..line }
            }
            ServerEvent::Done { client, session, report } => {
                line.reported("done", client, *session, report)
            }
            ServerEvent::Failed { client, session, error } => Self {
                event: "failed",
                client: Some(client),
                session: Some(*session),
                bytes: Some(error.arrived_bytes),
                stage: Some(error.stage.to_string()),
                why: Some(error.why.to_string()),
                ..line
            },
        }
    }

    /// Adds what a transfer says of itself.
    fn reported(
        self,
        event: &'static str,
        client: &'a str,
        session: u64,
        report: &'a Report,
    ) -> Self {
        Self {
            event,
            client: Some(client),
            session: Some(session),
            path: Some(command_of(report.path)),
            bytes: Some(report.bytes),
            seconds: Some(seconds(report.elapsed_ps)),
            why: Some(report.why_not_faster()),
            report: Some(report),
            ..self
        }
    }
}

impl Counters {
    fn add(&mut self, event: &ServerEvent) {
        match event {
            ServerEvent::Greeted { .. } => self.clients += 1,
            ServerEvent::CardAdded { .. }
            | ServerEvent::CardRemoved { .. }
            | ServerEvent::Moving { .. }
            | ServerEvent::Reloading { .. } => {}
            ServerEvent::Reloaded { .. } => self.reloads += 1,
            ServerEvent::Lost { error, .. } => {
                *self.lost.entry(error.stage.to_string()).or_default() += 1;
            }
            ServerEvent::Failed { error, .. } => {
                *self.failed.entry(error.stage.to_string()).or_default() += 1;
            }
            ServerEvent::Done { report, .. } => {
                let sums = self.transfers.entry(command_of(report.path)).or_default();
                sums.0 += 1;
                sums.1 += report.bytes;
                sums.2 += seconds(report.elapsed_ps);
                for stage in &report.stages {
                    let sums = self.stages.entry(stage.stage.to_string()).or_default();
                    sums.0 += stage.bytes;
                    sums.1 += stage.operations;
                    sums.2 += seconds(stage.busy_ps);
                }
            }
        }
    }

    /// Formats them for Prometheus (text format 0.0.4).
    fn text(&self, processor_s: Option<f64>) -> String {
        let mut text = String::new();
        let mut family =
            |name: &str, help: &str, values: &mut dyn Iterator<Item = (String, f64)>| {
                let name = format!("crosslane_bridge_{name}_total");
                // Writing to a string does not fail.
                let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter");
                for (labels, value) in values {
                    let _ = writeln!(text, "{name}{labels} {value}");
                }
            };
        let by = |label: &str, value: &str| format!("{{{label}=\"{value}\"}}");
        let all = |value: f64| std::iter::once((String::new(), value));
        family("clients", "Clients that have authenticated.", &mut all(self.clients as f64));
        let counts = |map: &BTreeMap<String, u64>| {
            let counts = map.iter().map(|(stage, count)| (by("stage", stage), *count as f64));
            counts.collect::<Vec<_>>().into_iter()
        };
        family("lost_connections", "Connections refused or lost.", &mut counts(&self.lost));
        family("failed_transfers", "Transfers failed or refused.", &mut counts(&self.failed));
        family("reloads", "Cards that were reloaded.", &mut all(self.reloads as f64));
        let paths = |value: fn(&(u64, u64, f64)) -> f64| {
            self.transfers.iter().map(move |(path, sums)| (by("path", path), value(sums)))
        };
        family("transfers", "Transfers that are complete.", &mut paths(|it| it.0 as f64));
        family("bytes", "Bytes of complete transfers.", &mut paths(|it| it.1 as f64));
        family("seconds", "Seconds of complete transfers.", &mut paths(|it| it.2));
        let stages = |value: fn(&(u64, u64, f64)) -> f64| {
            self.stages.iter().map(move |(stage, sums)| (by("stage", stage), value(sums)))
        };
        family("stage_bytes", "Bytes moved by a stage.", &mut stages(|it| it.0 as f64));
        family("stage_operations", "Operations of a stage.", &mut stages(|it| it.1 as f64));
        family("stage_busy_seconds", "Seconds with operations.", &mut stages(|it| it.2));
        if let Some(processor_s) = processor_s {
            family("processor_seconds", "Processor seconds of the server.", &mut all(processor_s));
        }
        text
    }
}

impl Monitor {
    /// Makes one with this format of its log.
    pub fn new(format: LogFormat) -> Self {
        Self { format, counters: Arc::default() }
    }

    /// Counts an event and writes it into the log. For people who read it, transfers that go on
    /// are not in it.
    pub fn tell(&self, event: &ServerEvent) {
        lock(&self.counters).add(event);
        match self.format {
            LogFormat::Text if matches!(event, ServerEvent::Moving { .. }) => {}
            LogFormat::Text => output::print_hint(&event.to_string()),
            LogFormat::Json => output::print_log(&Line::of(event)),
        }
    }

    fn write(&self, line: &Line<'_>) {
        match self.format {
            LogFormat::Text => output::print_hint(&line.text),
            LogFormat::Json => output::print_log(line),
        }
    }

    /// Writes into the log that changed files with certificates were read, or why they cannot be
    /// used.
    pub fn tell_certificates(&self, error: Option<&RdmaError>) {
        let why = error.map(ToString::to_string);
        let text = match &why {
            None => "certificates: their files have changed, and were read".to_owned(),
            Some(why) => format!("certificates: they stay as they were: {why}"),
        };
        self.write(&Line { event: "certificates", why, text, ..Line::now() });
    }

    /// Writes into the log that somebody who connected has no right to, and how many others there
    /// were since the last such line.
    pub fn tell_turned_away(&self, from: SocketAddr, why: &str, others: u64) {
        let stage = Stage::Connection.to_string();
        *lock(&self.counters).lost.entry(stage.clone()).or_default() += 1 + others;
        let peer = from.to_string();
        let more = match others {
            0 => String::new(),
            _ => format!(" ({others} others since the last such line)"),
        };
        let text = format!("{peer} was turned away: {why}{more}");
        self.write(&Line {
            event: "turned away",
            peer: Some(&peer),
            stage: Some(stage),
            why: Some(why.to_owned()),
            text,
            ..Line::now()
        });
    }

    /// Answers requests for the counters at an address of this machine, from a thread. Returns the
    /// address.
    ///
    /// # Errors
    /// An address that others can reach, or that is taken.
    pub fn serve(&self, address: SocketAddr, clock: &MachineClock) -> Result<SocketAddr> {
        if !address.ip().is_loopback() {
            let why = "the counters are for this machine only: take an address like 127.0.0.1:9100";
            return Err(usage(format!("--metrics {address}: {why}")));
        }
        let failed = |error| CommandError::Failed(format!("--metrics {address}: {error}"));
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (monitor, clock) = (self.clone(), clock.clone());
        let answering = move || {
            for stream in listener.incoming().flatten() {
                monitor.answer(stream, &clock);
            }
        };
        let thread = std::thread::Builder::new().name("crosslane-metrics".into());
        thread.spawn(answering).map_err(failed)?;
        Ok(address)
    }

    fn answer(&self, mut stream: TcpStream, clock: &MachineClock) {
        let asked = http::read_head(&mut stream, REQUEST_TIME).and_then(|head| {
            match (head.method.as_str(), head.path.as_str()) {
                ("GET", "/metrics" | "/") => Ok(()),
                ("GET", _) => Err(Refusal::new(NOT_FOUND, "the counters are at /metrics")),
                _ => Err(Refusal::new(NOT_ALLOWED, "the counters are read by GET")),
            }
        });
        if let Err(refusal) = asked {
            return http::refuse(&mut stream, &refusal);
        }
        let processor = clock.processor_time().map(Picoseconds::as_seconds);
        let text = lock(&self.counters).text(processor);
        let kind = "text/plain; version=0.0.4; charset=utf-8";
        // Whoever asks and goes has lost nothing.
        let _ = http::write_whole(&mut stream, http::OK, kind, text.as_bytes());
    }
}

/// Tells systemd, if it started this program, that the server is ready, and from then on, as often
/// as its watchdog wants, that it lives: told by the thread that serves, not by one beside it.
/// Never ends.
pub async fn ready_and_alive(clock: &MachineClock, address: &str) {
    let status = format!("serving at {address}");
    // Without systemd there is nobody to tell.
    let _ = sd_notify::notify(false, &[NotifyState::Ready, NotifyState::Status(&status)]);
    let mut watchdog_us = 0;
    if !sd_notify::watchdog_enabled(false, &mut watchdog_us) {
        return std::future::pending().await;
    }
    let Ok(watchdog) = watchdog() else { return std::future::pending().await };
    let alive = NotifyState::Watchdog.to_string();
    // Twice in its time, as systemd recommends.
    let interval = Duration::from_micros((watchdog_us / 2).max(1));
    loop {
        let _ = watchdog.send(alive.as_bytes());
        clock.sleep_until(clock.after(interval)).await;
    }
}

/// Connects to systemd's watchdog. Nobody waits for one that does not read: `sd_notify` would.
fn watchdog() -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(std::env::var_os("NOTIFY_SOCKET").unwrap_or_default())?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use crosslane::bridge::{BridgeError, Stage};
    use crosslane::host::ErrorKind;

    use super::*;

    #[test]
    fn events_are_counted_for_prometheus() {
        let mut counters = Counters::default();
        let error = BridgeError::new(Stage::RdmaRead, ErrorKind::Failed, "no");
        let client = "one".to_owned();
        counters.add(&ServerEvent::Greeted { client: client.clone(), peer: "a:1".into() });
        counters.add(&ServerEvent::Failed { client, session: 0, error: error.clone() });
        counters.add(&ServerEvent::Lost { peer: "a:1".into(), error });
        let text = counters.text(Some(1.5));
        for line in [
            "# TYPE crosslane_bridge_clients_total counter",
            "crosslane_bridge_clients_total 1",
            "crosslane_bridge_failed_transfers_total{stage=\"RDMA read\"} 1",
            "crosslane_bridge_lost_connections_total{stage=\"RDMA read\"} 1",
            "crosslane_bridge_processor_seconds_total 1.5",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
        assert!(!counters.text(None).contains("processor"));
    }

    #[test]
    fn a_log_line_escapes_what_comes_from_outside() {
        let client = "a\n\u{1b}[31m\"".to_owned();
        let event = ServerEvent::Greeted { client, peer: "b:2".into() };
        let line = serde_json::to_string(&Line::of(&event)).unwrap();
        assert!(line.contains(r#""event":"connected","client":"a\n\u001b[31m\"","peer":"b:2""#));
        assert!(!line.contains('\n'), "{line}");
    }
}
