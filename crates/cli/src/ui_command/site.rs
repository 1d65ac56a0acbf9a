// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The site of `crosslane ui`: who may ask, and what is answered.
//!
//! Every path begins with the token. A request without it is refused, and so is one whose `Host` is
//! no name of this machine (a page elsewhere whose name now leads here) or whose `Origin` is not
//! this site. `POST TOKEN/ask` takes a question, as the page's worker does, and answers with lines
//! of JSON: progress, and at last `{"answer": …}`, `{"failure": …}` or `{"panic": …}`. The end of
//! the connection ends its run.

use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crosslane::experiment::Progress;
use crosslane::host::{hex, lock};
use crosslane::pcie::units::Picoseconds;
use crosslane::results::DirectionLoad;

use super::page::{INDEX, PageFiles};
use super::questions::{MAX_QUESTION_BYTES, Progressed, Questions, line_of};
use crate::error::{CommandError, Result};
use crate::http::{
    BAD_REQUEST, BUSY, FORBIDDEN, Head, NOT_ALLOWED, NOT_FOUND, OK, Refusal, SEE_OTHER, read_head,
    refuse, write_head, write_whole,
};

/// Most connections, and questions whose asker has gone, at once: a page has about ten.
const MAX_CONNECTIONS: usize = 256;
/// Time for a request to arrive, head and body.
const REQUEST_TIME: Duration = Duration::from_secs(30);
/// Time between two lines about a run.
const INTERVAL: Duration = Duration::from_millis(100);
/// Time between two answers to whether progress is due.
const DUE: Duration = Duration::from_millis(100);
/// Time for which the address that is used once, by a browser that is started, is good.
const ONCE_TIME: Duration = Duration::from_secs(60);
/// Pause after a connection that could not be taken, for lack of files for example.
const PAUSE: Duration = Duration::from_millis(50);
/// Bytes of a token.
const TOKEN_BYTES: usize = 16;

/// The page, its secrets, and what answers.
pub struct Site {
    page: PageFiles,
    questions: Questions,
    token: String,
    /// A second word, good once and for a short time: others see the arguments of a browser.
    once: Mutex<Option<(String, Instant)>>,
    connections: AtomicUsize,
}

/// Makes a random word.
fn random_word() -> Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| CommandError::Failed(format!("no random numbers: {error}")))?;
    Ok(hex(&bytes))
}

/// Compares words in a time that does not depend on how much of them is equal.
fn is_same(first: &str, second: &str) -> bool {
    let differences = first.bytes().zip(second.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    first.len() == second.len() && differences == 0
}

/// Whether a `Host` is a name of this machine; any port, since it may have been taken along.
fn is_own_host(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host }
    });
    ["127.0.0.1", "localhost", "[::1]"].iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// The place of a connection among all of them, until it and what it asks have ended.
struct Place(Arc<Site>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Site {
    /// Makes the site with a new token.
    ///
    /// # Errors
    /// A system without random numbers.
    pub fn new(page: PageFiles, questions: Questions) -> Result<Arc<Self>> {
        let once = Mutex::new(None);
        let (token, connections) = (random_word()?, AtomicUsize::new(0));
        Ok(Arc::new(Self { page, questions, token, once, connections }))
    }

    /// Returns the path of the page.
    pub fn root(&self) -> String {
        format!("/{}/", self.token)
    }

    /// Returns a path that leads to the page once.
    pub fn once(&self) -> String {
        // Without random numbers no site was made.
        let word = random_word().unwrap_or_default();
        let path = format!("/once/{word}");
        *lock(&self.once) = Some((word, Instant::now()));
        path
    }

    fn is_first(&self, word: &str) -> bool {
        let mut once = lock(&self.once);
        let is_good = once.as_ref().is_some_and(|(known, made)| {
            is_same(known, word) && !word.is_empty() && made.elapsed() < ONCE_TIME
        });
        if is_good {
            *once = None;
        }
        is_good
    }

    /// Answers until the program is ended. A connection that fails concerns nobody else.
    pub fn serve(self: Arc<Self>, listener: &TcpListener) -> ! {
        loop {
            let Ok((mut stream, _)) = listener.accept() else {
                std::thread::sleep(PAUSE);
                continue;
            };
            let before = self.connections.fetch_add(1, Ordering::SeqCst);
            let place = Arc::new(Place(Arc::clone(&self)));
            if before >= MAX_CONNECTIONS {
                let _ = write_whole(&mut stream, BUSY, "text/plain", b"too many connections\n");
                continue;
            }
            let thread = std::thread::Builder::new().name("connection".to_owned());
            // Without a thread the connection ends, and its place is free again.
            let _ = thread.spawn(move || {
                if let Err(refusal) = answer(&place, &mut stream) {
                    refuse(&mut stream, &refusal);
                }
            });
        }
    }

    /// Returns the path behind the token, or none for who comes by the address that is used once.
    fn admitted(&self, head: &Head) -> std::result::Result<Option<String>, Refusal> {
        let refused = |sentence: &str| Err(Refusal::new(FORBIDDEN, sentence));
        if !is_own_host(&head.host) {
            return refused("this address has another name: open the one that was printed");
        }
        let own = format!("http://{}", head.host);
        if head.origin.as_ref().is_some_and(|origin| !origin.eq_ignore_ascii_case(&own)) {
            return refused("another site may not ask here");
        }
        let path = head.path.strip_prefix('/').unwrap_or_default();
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        if first == "once" && self.is_first(rest) {
            return Ok(None);
        }
        if !is_same(first, &self.token) {
            return refused(
                "the token is missing: open the address that `crosslane ui` has printed",
            );
        }
        // Relative addresses need the slash.
        Ok(if path.contains('/') { Some(rest.to_owned()) } else { None })
    }
}

/// Answers a request.
fn answer(place: &Arc<Place>, stream: &mut TcpStream) -> std::result::Result<(), Refusal> {
    let site = &place.0;
    let head = read_head(stream, REQUEST_TIME)?;
    let path = site.admitted(&head)?;
    let Some(path) = path else {
        let root = site.root();
        let _ = write_head(stream, SEE_OTHER, &[("Location", &root)], Some(0));
        return Ok(());
    };
    match (head.method.as_str(), path.as_str()) {
        ("POST", "ask") => {
            let body = head.read_body(stream, MAX_QUESTION_BYTES)?;
            let question = String::from_utf8(body)
                .map_err(|_| Refusal::new(BAD_REQUEST, "the question is not text (UTF-8)"))?;
            // A peer that is gone has heard enough.
            let _ = ask(place, stream, question);
            Ok(())
        }
        (_, "ask") => Err(Refusal::new(NOT_ALLOWED, "a question is sent by POST")),
        ("GET", name) => {
            let name = if name.is_empty() { INDEX } else { name };
            let file = site.page.get(name);
            let file = file.ok_or_else(|| Refusal::new(NOT_FOUND, "there is no such file"))?;
            let _ = write_whole(stream, OK, file.kind, &file.bytes);
            Ok(())
        }
        _ => Err(Refusal::new(NOT_ALLOWED, "files are read by GET")),
    }
}

/// Answers a question, with progress in the meantime.
fn ask(place: &Arc<Place>, stream: &mut TcpStream, question: String) -> io::Result<()> {
    let kind = [("Content-Type", "application/x-ndjson")];
    write_head(stream, OK, &kind, None)?;
    let watch = Arc::new(Watch::default());
    // However this ends, nobody waits for the run any more.
    let over = Over(Arc::clone(&watch));
    let (answered, answer) = mpsc::channel();
    let place = Arc::clone(place);
    std::thread::Builder::new().name("question".to_owned()).spawn(move || {
        // Nobody may be there to hear it.
        let _ = answered.send(place.0.questions.answer(&question, &*watch));
    })?;
    loop {
        match answer.recv_timeout(INTERVAL) {
            Ok(answer) => return writeln!(stream, "{answer}"),
            Err(RecvTimeoutError::Timeout) => {
                for said in over.0.so_far() {
                    writeln!(stream, "{}", line_of(&said))?;
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                let panic = "the simulator failed; its message is on the terminal";
                return writeln!(stream, "{}", line_of(&Progressed::Panic { panic }));
            }
        }
    }
}

/// Ends a run when it is dropped.
struct Over(Arc<Watch>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
    }
}

/// Observer of one question's runs.
struct Watch {
    begun: Instant,
    /// Time at which progress was last due, ms since the beginning.
    due_ms: AtomicU64,
    moved: AtomicU64,
    picoseconds: AtomicU64,
    tried: AtomicU64,
    /// Loads of links since the last ones that were told.
    loads: Mutex<Vec<DirectionLoad>>,
    is_over: AtomicBool,
}

impl Default for Watch {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            begun: Instant::now(),
            due_ms: zero(),
            moved: zero(),
            picoseconds: zero(),
            tried: zero(),
            loads: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
    }
}

impl Watch {
    /// Returns the progress. It is sent even if there is none, to find out whether anybody listens.
    fn so_far(&self) -> impl Iterator<Item = Progressed> {
        let [moved, picoseconds, tried] = [&self.moved, &self.picoseconds, &self.tried]
            .map(|count| count.load(Ordering::Relaxed));
        let moved = Progressed::Moved { moved, picoseconds, tried };
        let loads = std::mem::take(&mut *lock(&self.loads));
        let loads = (!loads.is_empty()).then_some(Progressed::Loads { loads });
        std::iter::once(moved).chain(loads)
    }
}

impl Progress for Watch {
    fn is_due(&self) -> bool {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let before = self.due_ms.load(Ordering::Relaxed);
        let is_due = now.saturating_sub(before) >= DUE.as_millis() as u64;
        if is_due {
            self.due_ms.store(now, Ordering::Relaxed);
        }
        is_due
    }

    fn moved(&self, bytes: u64, simulated: Picoseconds) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
        self.picoseconds.fetch_add(simulated.0, Ordering::Relaxed);
    }

    fn loaded(&self, loads: &[DirectionLoad]) {
        loads.clone_into(&mut lock(&self.loads));
    }

    fn tried(&self) {
        self.tried.fetch_add(1, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_are_known() {
        for own in ["127.0.0.1:8080", "localhost:1", "LOCALHOST", "[::1]:80", "127.0.0.1"] {
            assert!(is_own_host(own), "{own}");
        }
        for other in ["evil.example:80", "127.0.0.1.evil.example", "localhost.", "", "a:b", "::1"] {
            assert!(!is_own_host(other), "{other}");
        }
    }

    #[test]
    fn words_are_compared_whole() {
        assert!(is_same("abc", "abc"));
        assert!(!is_same("abc", "abd") && !is_same("abc", "ab") && !is_same("", "a"));
    }
}
