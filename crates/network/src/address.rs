// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses of nodes, and errors about them.

use std::net::{SocketAddr, ToSocketAddrs};

use crosslane_host::{ErrorKind, RdmaError, RdmaResult, Reason};
use futures_channel::oneshot;

/// An error about an address.
pub fn failed(address: &str, kind: ErrorKind, why: &str) -> RdmaError {
    RdmaError::Address { address: address.to_owned(), why: Reason::new(kind, why) }
}

/// The same, of the system.
pub fn of_io(address: &str, error: &std::io::Error) -> RdmaError {
    use std::io::ErrorKind as Io;
    let kind = match error.kind() {
        Io::AddrInUse => ErrorKind::Busy,
        Io::PermissionDenied => ErrorKind::Denied,
        Io::ConnectionRefused
        | Io::ConnectionReset
        | Io::ConnectionAborted
        | Io::UnexpectedEof
        | Io::HostUnreachable
        | Io::NetworkUnreachable => ErrorKind::LinkDown,
        Io::InvalidData => ErrorKind::Data,
        _ => ErrorKind::Failed,
    };
    let why = match error.kind() {
        Io::UnexpectedEof | Io::ConnectionReset => {
            "the other end closed the connection at once".into()
        }
        _ => error.to_string(),
    };
    failed(address, kind, &why)
}

/// Finds the socket addresses of `HOST:PORT`; there is at least one.
///
/// # Errors
/// [`RdmaError::Address`]: no port, or a name that nobody knows.
pub async fn resolve(address: &str) -> RdmaResult<Vec<SocketAddr>> {
    match address.parse() {
        Ok(one) => Ok(vec![one]),
        Err(_) if address.rsplit_once(':').is_none() => {
            let why = "no port: it has to be like 127.0.0.1:7471";
            Err(failed(address, ErrorKind::InvalidArgument, why))
        }
        Err(_) => look_up(address).await.map_err(|why| failed(address, ErrorKind::NotFound, &why)),
    }
}

/// Asks the resolver in a separate thread, as it may block.
async fn look_up(address: &str) -> Result<Vec<SocketAddr>, String> {
    let (reply, answer) = oneshot::channel();
    let address = address.to_owned();
    let resolver = std::thread::Builder::new().name("crosslane-resolver".into());
    let started = resolver.spawn(move || {
        let found = address.to_socket_addrs().map(Iterator::collect::<Vec<_>>);
        let _ = reply.send(found.map_err(|error| error.to_string()));
    });
    started.map_err(|error| error.to_string())?;
    let found = answer.await.unwrap_or_else(|_| Err("the resolver has ended".into()))?;
    if found.is_empty() { Err("no address has this name".into()) } else { Ok(found) }
}
