// SPDX-License-Identifier: Apache-2.0 OR MIT
//! HTTP/1.1 as far as programs on the same machine need it (`crosslane ui`, `bridge serve
//! --metrics`): one request for each connection, whose head crate `httparse` reads. Every length is
//! bounded, and no peer is waited for without end.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// Most bytes of a request's head: many times what browsers send.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Most header fields of a request.
const MAX_FIELDS: usize = 64;
/// Time for a peer to take what is written.
const WRITE_TIME: Duration = Duration::from_secs(30);
/// Bytes and time of a refused request that are still read, so that the peer sees the answer
/// instead of a reset connection.
const DRAINED_BYTES: u64 = 4 << 20;
const DRAIN_TIME: Duration = Duration::from_millis(500);

/// A status code with its words.
pub type Status = (u16, &'static str);

/// Success.
pub const OK: Status = (200, "OK");
/// The answer is elsewhere.
pub const SEE_OTHER: Status = (303, "See Other");
/// The request cannot be read.
pub const BAD_REQUEST: Status = (400, "Bad Request");
/// The request lacks the token, or comes from elsewhere.
pub const FORBIDDEN: Status = (403, "Forbidden");
/// No such file.
pub const NOT_FOUND: Status = (404, "Not Found");
/// Another method.
pub const NOT_ALLOWED: Status = (405, "Method Not Allowed");
/// The request has not arrived in time.
const TIMEOUT: Status = (408, "Request Timeout");
/// The length of the body is not said.
pub const LENGTH_REQUIRED: Status = (411, "Length Required");
/// The body is too long.
pub const TOO_LARGE: Status = (413, "Content Too Large");
/// The head is too long.
const HEAD_TOO_LARGE: Status = (431, "Request Header Fields Too Large");
/// There are too many connections.
pub const BUSY: Status = (503, "Service Unavailable");

/// A request that is not answered: the status and a sentence.
#[derive(Debug)]
pub struct Refusal(pub Status, pub String);

impl Refusal {
    /// Makes a refusal.
    pub fn new(status: Status, sentence: impl Into<String>) -> Self {
        Self(status, sentence.into())
    }
}

/// The head of a request.
#[derive(Debug)]
pub struct Head {
    /// Method, such as `GET`.
    pub method: String,
    /// Path, without what follows a question mark.
    pub path: String,
    /// Name and port by which the client knows this server.
    pub host: String,
    /// Origin of the page that asks, if a page does.
    pub origin: Option<String>,
    /// Bytes of the body, if that is said.
    length: Option<u64>,
    /// Whether the client waits for a word before it sends the body.
    waits: bool,
    /// The part of the body that has arrived with the head.
    begun: Vec<u8>,
    /// Time at which the whole request has to be there.
    end: Instant,
}

/// Reads the head of a request, which has this time to arrive, with its body.
///
/// # Errors
/// A head that is broken, too long, or late.
pub fn read_head(stream: &mut TcpStream, time: Duration) -> Result<Head, Refusal> {
    let end = Instant::now() + time;
    let mut bytes = Vec::with_capacity(1 << 10);
    loop {
        if let Some(head) = parsed(&bytes, end)? {
            return Ok(head);
        }
        if bytes.len() >= MAX_HEAD_BYTES {
            let sentence = format!("a request's head has at most {MAX_HEAD_BYTES} B");
            return Err(Refusal::new(HEAD_TOO_LARGE, sentence));
        }
        let before = bytes.len();
        bytes.resize(MAX_HEAD_BYTES.min(before + (4 << 10)), 0);
        let count = read_until(stream, &mut bytes[before..], end)?;
        bytes.truncate(before + count);
    }
}

/// Reads some bytes until a time.
fn read_until(stream: &mut TcpStream, into: &mut [u8], end: Instant) -> Result<usize, Refusal> {
    let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let read = stream.set_read_timeout(Some(left)).and_then(|()| stream.read(into));
    match read {
        Ok(0) => Err(Refusal::new(BAD_REQUEST, "the connection ends within the request")),
        Ok(count) if Instant::now() < end => Ok(count),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        Ok(_) => Err(Refusal::new(TIMEOUT, "the request has not arrived in time")),
        Err(error) if is_late(&error) => {
            Err(Refusal::new(TIMEOUT, "the request has not arrived in time"))
        }
        Err(error) => Err(Refusal::new(BAD_REQUEST, format!("the request is lost: {error}"))),
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Reads a head from these bytes; `None` if there is more to come.
fn parsed(bytes: &[u8], end: Instant) -> Result<Option<Head>, Refusal> {
    let broken =
        |problem: &str| Refusal::new(BAD_REQUEST, format!("the request is broken: {problem}"));
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let body = match request.parse(bytes) {
        Ok(httparse::Status::Complete(body)) => body,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            let sentence = format!("a request has at most {MAX_FIELDS} header fields");
            return Err(Refusal::new(HEAD_TOO_LARGE, sentence));
        }
        Err(error) => return Err(broken(&error.to_string())),
    };
    let field = |name: &str| -> Result<Option<&str>, Refusal> {
        let mut found = request.headers.iter().filter(|it| it.name.eq_ignore_ascii_case(name));
        let Some(first) = found.next() else { return Ok(None) };
        if found.next().is_some() {
            return Err(broken(&format!("{name} is there twice")));
        }
        let text = std::str::from_utf8(first.value);
        text.map(|text| Some(text.trim())).map_err(|_| broken(&format!("{name} is not text")))
    };
    if field("transfer-encoding")?.is_some() {
        return Err(Refusal::new(LENGTH_REQUIRED, "the body's length has to be said"));
    }
    let length = match field("content-length")? {
        None => None,
        Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            // More digits than a number has are more bytes than are read.
            Some(text.parse().unwrap_or(u64::MAX))
        }
        Some(_) => return Err(broken("Content-Length is no number")),
    };
    let path = request.path.unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    Ok(Some(Head {
        method: request.method.unwrap_or_default().to_owned(),
        path: path.to_owned(),
        host: field("host")?.ok_or_else(|| broken("it has no Host"))?.to_owned(),
        origin: field("origin")?.map(str::to_owned),
        length,
        waits: field("expect")?.is_some(),
        begun: bytes[body..].to_vec(),
        end,
    }))
}

impl Head {
    /// Reads the body of the request.
    ///
    /// # Errors
    /// A body that has no length, is longer than `most` bytes, or is late.
    pub fn read_body(self, stream: &mut TcpStream, most: usize) -> Result<Vec<u8>, Refusal> {
        let Self { length, waits, begun: mut body, end, .. } = self;
        let said =
            length.ok_or_else(|| Refusal::new(LENGTH_REQUIRED, "the body's length is not said"))?;
        let length = match usize::try_from(said) {
            Ok(length) if length <= most => length,
            _ => {
                let sentence = format!("the body has {said} B, and at most {most} B are read");
                return Err(Refusal::new(TOO_LARGE, sentence));
            }
        };
        if waits && body.len() < length {
            // A peer that is gone is found when it is read from.
            let _ = stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        let mut at = body.len().min(length);
        // Memory is taken as bytes arrive, not as the client says.
        while at < length {
            body.resize(length.min(at + (64 << 10)), 0);
            at += read_until(stream, &mut body[at..], end)?;
        }
        body.truncate(length);
        Ok(body)
    }
}

/// Begins an answer whose end is that of the connection, or which has a length.
///
/// # Errors
/// A peer that is gone.
pub fn write_head(
    stream: &mut TcpStream,
    (code, words): Status,
    fields: &[(&str, &str)],
    length: Option<usize>,
) -> io::Result<()> {
    stream.set_write_timeout(Some(WRITE_TIME))?;
    // Each piece of progress is sent at once.
    stream.set_nodelay(true)?;
    let mut head = format!("HTTP/1.1 {code} {words}\r\nConnection: close\r\n");
    // Nothing is kept, shown in other pages, or told to them.
    for (name, value) in [
        ("Cache-Control", "no-store"),
        ("Content-Security-Policy", "frame-ancestors 'none'"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Referrer-Policy", "no-referrer"),
        ("X-Content-Type-Options", "nosniff"),
    ]
    .iter()
    .chain(fields)
    {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(length) = length {
        head.push_str(&format!("Content-Length: {length}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())
}

/// Answers with a whole body.
///
/// # Errors
/// A peer that is gone.
pub fn write_whole(
    stream: &mut TcpStream,
    status: Status,
    kind: &str,
    body: &[u8],
) -> io::Result<()> {
    write_head(stream, status, &[("Content-Type", kind)], Some(body.len()))?;
    stream.write_all(body)
}

/// Refuses a request, and reads some of what is left of it.
pub fn refuse(stream: &mut TcpStream, Refusal(status, sentence): &Refusal) {
    let text = format!("{sentence}\n");
    let written = write_whole(stream, *status, "text/plain; charset=utf-8", text.as_bytes());
    let begun = written.and_then(|()| stream.shutdown(Shutdown::Write));
    if begun.is_err() || stream.set_read_timeout(Some(DRAIN_TIME)).is_err() {
        return;
    }
    let end = Instant::now() + DRAIN_TIME;
    let (mut left, mut bytes) = (DRAINED_BYTES, [0; 4 << 10]);
    while left > 0 && Instant::now() < end {
        match stream.read(&mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(count) => left = left.saturating_sub(count as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head_of(text: &str) -> Result<Option<Head>, Refusal> {
        parsed(text.as_bytes(), Instant::now())
    }

    #[test]
    fn a_head_is_read_when_all_of_it_is_there() {
        let text = "POST /a/b?c HTTP/1.1\r\nHost: localhost:1\r\nContent-Length: 2\r\n\r\n{}";
        for length in 0..text.len() - 2 {
            assert!(head_of(&text[..length]).unwrap().is_none(), "{length}");
        }
        let head = head_of(text).unwrap().unwrap();
        assert_eq!((head.method.as_str(), head.path.as_str()), ("POST", "/a/b"));
        assert_eq!((head.host.as_str(), head.length), ("localhost:1", Some(2)));
        assert_eq!((head.begun.as_slice(), head.origin), (&b"{}"[..], None));
    }

    #[test]
    fn broken_heads_are_refused() {
        let many = "A: b\r\n".repeat(MAX_FIELDS + 1);
        for (fields, status) in [
            ("", BAD_REQUEST),
            ("Host: a\r\nHost: b\r\n", BAD_REQUEST),
            ("Host: a\r\nTransfer-Encoding: chunked\r\n", LENGTH_REQUIRED),
            ("Host: a\r\nContent-Length: -1\r\n", BAD_REQUEST),
            ("Host: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n", BAD_REQUEST),
            ("Host: a\r\nOrigin: \u{fffd}\r\n", OK),
            ("no field\r\n", BAD_REQUEST),
            (&many, HEAD_TOO_LARGE),
        ] {
            let found = head_of(&format!("GET / HTTP/1.1\r\n{fields}\r\n"));
            let found = found.map_or_else(|Refusal(status, _)| status, |_| OK);
            assert_eq!(found, status, "{fields:.60}");
        }
        let large = "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n";
        assert_eq!(head_of(large).unwrap().unwrap().length, Some(u64::MAX));
    }

    /// Parts of heads: right, wrong, and in any order.
    const PARTS: [&[u8]; 16] = [
        b"GET /",
        b"POST /a?b",
        b" HTTP/1.1\r\n",
        b"Host: a\r\n",
        b"Origin: http://a\r\n",
        b"Content-Length: 3\r\n",
        b"Content-Length: 99999999999999999999999\r\n",
        b"Expect: 100-continue\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"\r\n",
        b"\n",
        b": ",
        b"abc",
        b"\0",
        b"\xff",
        b"%2e%2e/",
    ];

    #[test]
    fn fuzz_heads_of_any_bytes() {
        let end = Instant::now();
        let look = |bytes: &[u8]| {
            let Ok(Some(head)) = parsed(bytes, end) else { return };
            assert!(head.begun.len() < bytes.len() && bytes.ends_with(&head.begun));
            assert!(!head.path.contains('?') && !head.host.contains(['\r', '\n']));
            // Bytes behind it are the body's, and change nothing.
            let longer = parsed(&[bytes, b"GET / HTTP/1.1\r\n\r\n"].concat(), end);
            let longer = longer.unwrap().unwrap();
            assert_eq!((longer.method, longer.path), (head.method, head.path));
            assert_eq!((longer.host, longer.origin), (head.host, head.origin));
            assert_eq!((longer.length, longer.waits), (head.length, head.waits));
        };
        bolero::check!().with_type::<(bool, Vec<u8>)>().with_iterations(5000).for_each(
            |(whole, bytes)| {
                let parts = bytes.iter().map(|byte| PARTS[usize::from(byte % 16)]);
                let made = parts.collect::<Vec<_>>().concat();
                look(bytes);
                look(&made);
                // Most random heads lack the same few parts.
                let begun: &[u8] = if *whole { b"GET / HTTP/1.1\r\nHost: a\r\n" } else { b"" };
                look(&[begun, &made, b"\r\n\r\n"].concat());
            },
        );
    }
}
