// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys, and what somebody between the two ends can do.

use crate::support;
use crate::support::authority::Authority;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use crosslane_host::{
    DmaMemory, ErrorKind, Rdma, RdmaConnection, RdmaError, RdmaListener, RdmaRegion, RemoteAccess,
};
use crosslane_network::{SharedKey, Trust, TurnedAway};
use futures_util::future::{Either, select};
use support::{
    KEY, Over, contents, far, far_of, join, listener, near_end, open, pattern, region, run, tls,
};

fn keys(accept: &[u8], present: Option<u8>) -> Trust {
    let key = |byte: u8| SharedKey([byte; 32]);
    let accept = accept.iter().map(|byte| key(*byte)).collect();
    Trust { accept, present: present.map(key), ..Trust::default() }
}

fn everybody() -> Trust {
    Trust { everybody: true, ..Trust::default() }
}

#[test]
fn who_has_no_key_gets_no_connection() {
    let (hear, heard) = channel();
    let hear = move |from: SocketAddr, why: &str, others| {
        hear.send((from, why.to_owned(), others)).unwrap();
    };
    let turned_away = Some(TurnedAway::new(hear));
    let server = tls(&Trust { turned_away, ..keys(&[1, 2, 3], None) });
    let listening = listener(&server.0);
    let address = listening.address();
    for (trust, kind, words) in [
        (keys(&[], Some(4)), ErrorKind::Denied, "it does not know this key"),
        (everybody(), ErrorKind::Denied, "not sealed"),
        (Trust::default(), ErrorKind::Denied, "not sealed"),
    ] {
        let error = join(&tls(&trust), &address, &listening).unwrap_err();
        assert_eq!(error.kind(), kind, "{trust:?}: {error}");
        assert!(error.to_string().contains(words), "{trust:?}: {error}");
    }
    // Its owner hears of the first at once, and of the others in one word a second later.
    let (from, why, others) = heard.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(from.ip().is_loopback() && others == 0, "{from} {others}");
    assert_eq!(why, "the other end has no key that is known here");
    for key in [1, 2, 3] {
        let (near, there) = join(&tls(&keys(&[], Some(key))), &address, &listening).unwrap();
        run("a word", async {
            near.send(b"a word").await.unwrap();
            assert_eq!(there.receive().await.unwrap(), b"a word");
        });
    }
}

#[test]
fn a_server_that_has_no_key_is_found_out() {
    for (trust, words) in
        [(keys(&[9], None), "it does not know this key"), (everybody(), "closed the connection")]
    {
        let server = tls(&trust);
        let listening = listener(&server.0);
        let error = join(&tls(&keys(&[], Some(1))), &listening.address(), &listening);
        let error = error.unwrap_err().to_string();
        assert!(error.contains(words), "{trust:?}: {error}");
    }
}

#[test]
fn without_keys_only_this_machine_is_reached() {
    let (network, clock) = tls(&Trust::default());
    for address in ["0.0.0.0:0", "192.0.2.77:7471"] {
        let error = run("listening", network.listen(address)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        let error = run("connecting", network.connect(address, far(&clock))).unwrap_err();
        assert!(error.to_string().contains("give both ends a key"), "{error}");
    }
}

/// Stands between the ends of a connection and does something to the bytes towards the server.
struct Relay {
    address: String,
    /// Bytes that have passed towards the server.
    passed: Arc<AtomicU64>,
}

/// The harm that a relay does to the byte with this number.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Flip(u64),
    Cut(u64),
    Nothing,
}

impl Relay {
    fn new(to: &str, harm: Harm) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, to) = (socket.local_addr().unwrap().to_string(), to.to_owned());
        let passed = Arc::new(AtomicU64::new(0));
        let count = passed.clone();
        std::thread::spawn(move || {
            // Both streams of one connection.
            for client in socket.incoming().take(2) {
                let (client, server) = (client.unwrap(), TcpStream::connect(&to).unwrap());
                let (back, forth) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let count = count.clone();
                std::thread::spawn(move || pass(&client, &forth, &count, harm));
                std::thread::spawn(move || pass(&server, &back, &AtomicU64::new(0), Harm::Nothing));
            }
        });
        Self { address, passed }
    }
}

fn pass(mut from: &TcpStream, mut to: &TcpStream, count: &AtomicU64, harm: Harm) {
    let mut bytes = vec![0; 1 << 16];
    loop {
        let Ok(got @ 1..) = from.read(&mut bytes) else { break };
        let begin = count.fetch_add(got as u64, Ordering::SeqCst);
        let at = |place: u64| {
            place.checked_sub(begin).filter(|at| *at < got as u64).map(|at| at as usize)
        };
        let mut most = got;
        match harm {
            Harm::Flip(place) => {
                if let Some(at) = at(place) {
                    bytes[at] ^= 0x10;
                }
            }
            Harm::Cut(place) => most = at(place).unwrap_or(got),
            Harm::Nothing => {}
        }
        if to.write_all(&bytes[..most]).is_err() || most < got {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// A flipped bit or a cut anywhere ends the connection, and no wrong byte gets through.
#[test]
fn bits_that_are_flipped_and_cuts() {
    const BYTES: u64 = 300_000;
    let (server, _) = open(Over::Sealed);
    let listening = listener(&server);
    let client = open(Over::Sealed);
    let write = |harm: Harm| {
        let relay = Relay::new(&listening.address(), harm);
        let (memory, there) = region(&server, BYTES, RemoteAccess::READ_WRITE);
        let (own, near_region) = region(&client.0, BYTES, RemoteAccess::NONE);
        own.write(0, &pattern(5, BYTES as usize)).unwrap();
        let joined = run("joining", async {
            let deadline = client.1.after(Duration::from_millis(500));
            let near = std::pin::pin!(client.0.connect(&relay.address, deadline));
            let accept = std::pin::pin!(listening.accept());
            match select(near, accept).await {
                Either::Left((near, accept)) => (near, Some(accept.await)),
                Either::Right((there, near)) => (near.await, Some(there)),
            }
        });
        let (near, _there) = match joined {
            (Ok(near), there) => (near, there),
            (Err(error), _) => return (Err(error), relay.passed.load(Ordering::SeqCst)),
        };
        let far = far_of(there.remote(), 0);
        let written = run("a write", near.write(&near_end(&near_region, 0), far, BYTES));
        let (right, got) = (pattern(5, BYTES as usize), contents(&memory));
        assert!(got.iter().zip(&right).all(|(got, right)| got == right || *got == 0), "{harm:?}");
        assert!(written.is_err() || got == right, "{harm:?}");
        (written, relay.passed.load(Ordering::SeqCst))
    };
    let (written, all) = write(Harm::Nothing);
    written.unwrap();
    let mut found = 0;
    // Behind the handshakes of both streams, which have some 600 B each, more or less.
    let (begin, end) = (3000, all - 1000);
    for place in (begin..end).step_by((end - begin) as usize / 23) {
        for harm in [Harm::Flip(place), Harm::Cut(place)] {
            match write(harm).0 {
                Err(error) => {
                    assert!(matches!(error, RdmaError::Lost { .. }), "{harm:?}: {error}");
                    found += 1;
                }
                // A record's version is not looked at; the data were right.
                Ok(()) => assert!(matches!(harm, Harm::Flip(_)), "{harm:?}"),
            }
        }
    }
    assert!(found > 40, "{found} of 46");
    write(Harm::Nothing).0.unwrap();
}

/// A handshake that is harmed anywhere ends with an error, in time, and the listener goes on.
#[test]
fn handshakes_that_are_harmed() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "ours");
    let by_key = Trust { accept: vec![KEY], present: Some(KEY), ..Trust::default() };
    let by_certificate = authority.node(&["127.0.0.1"]);
    let by_both = Trust { accept: vec![KEY], ..by_certificate.clone() };
    for (server, client, bytes, step) in [
        (&by_key, &by_key, 500, 31),
        (&by_both, &by_key, 500, 101),
        (&by_both, &by_certificate, 1000, 101),
    ] {
        let server = tls(server);
        let listening = listener(&server.0);
        let (client, clock) = tls(client);
        for place in (0..bytes).step_by(step) {
            for harm in [Harm::Flip(place), Harm::Cut(place)] {
                let relay = Relay::new(&listening.address(), harm);
                let deadline = clock.after(Duration::from_secs(2));
                let error = run("connecting", client.connect(&relay.address, deadline));
                error.expect_err(&format!("{harm:?}"));
            }
        }
        join(&(client, clock), &listening.address(), &listening).unwrap();
    }
}

/// Messages that were sent before a connection is closed arrive.
#[test]
fn last_words_arrive() {
    for over in [Over::Sealed, Over::Plain] {
        let server = open(over);
        let listening = listener(&server.0);
        for number in 0..100_u32 {
            let (near, there) = join(&open(over), &listening.address(), &listening).unwrap();
            run("the last words", async {
                for word in 0..3 {
                    near.send(&pattern(number.into(), 1000 * word)).await.unwrap();
                }
                // Dropped or closed.
                if number % 2 == 0 {
                    near.close().await;
                }
                drop(near);
                for word in 0..3 {
                    let message = there.receive().await.unwrap();
                    assert!(message == pattern(number.into(), 1000 * word), "{over}: {number}");
                }
                let end = there.receive().await.unwrap_err().to_string();
                assert!(end.ends_with("the other end has closed it"), "{end}");
            });
        }
    }
}

/// Nobody can read what goes over the wire.
#[test]
fn nothing_goes_in_the_clear() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let (client, clock) = open(Over::Sealed);
    let address = socket.local_addr().unwrap().to_string();
    let deadline = clock.after(Duration::from_millis(200));
    run("connecting", client.connect(&address, deadline)).unwrap_err();
    let (mut stream, _) = socket.accept().unwrap();
    let mut seen = Vec::new();
    let _ = stream.read_to_end(&mut seen);
    assert!(seen.len() > 100, "a greeting was sent");
    let name = KEY.0;
    assert!(!seen.windows(8).any(|piece| piece == &name[..8]), "the key is in it");
}
