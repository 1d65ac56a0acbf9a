// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that a client has mapped without a file: the server asks the client for it.

use crate::support;

use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crosslane_driver::{ChannelKind, Notification, Transfer};
use crosslane_host::Bus;
use crosslane_pcie::units::Picoseconds;
use crosslane_vfio::VfioBus;
use crosslane_vfio::user::protocol::Command;
use crosslane_vfio::user::socket::{Message, receive, send};

use support::*;

/// Opens a client of one device that shares no files.
fn client(socket: &Path) -> VfioBus {
    let (function, bus) = function(socket);
    function.keep_files();
    bus
}

#[test]
fn rings_data_and_status_go_by_messages() {
    let served = Served::start("rosta:crosslane", &["fpga1"]);
    let bus = client(&served.sockets[0]);
    on_device(&bus, async |device| {
        for notification in [Notification::Poll, Notification::Interrupt] {
            loop_back_by(&device, notification, 40 * PAGE).await;
        }
    });
    served.wait_for("were mapped without a file");
    assert!(!served.told().iter().any(|line| line.contains("in the lab")), "{:?}", served.told());
}

/// Runs as a separate process for the test below: ends in the middle of a transfer.
#[test]
fn client_that_dies() {
    let Ok(socket) = std::env::var(SOCKET) else { return };
    let bus = client(Path::new(&socket));
    on_device(&bus, async |device| {
        let memory = buffer(&device, 16 * MIB).await;
        let mut c2h = channel(&device, ChannelKind::C2h).await;
        c2h.post(&[whole(&device, &memory)]).await.unwrap();
        while c2h.counters().await.unwrap().bytes == 0 {}
        std::process::exit(DIED);
    });
}

#[test]
fn a_client_that_dies_while_it_is_asked_leaves_the_device_to_the_next() {
    let served = Served::start("rosta:crosslane", &["fpga1"]);
    let begun = Instant::now();
    die("messages::client_that_dies", &served.sockets[0]);
    let bus = client(&served.sockets[0]);
    on_device(&bus, async |device| {
        loop_back_by(&device, Notification::Poll, 4 * PAGE).await;
    });
    assert!(begun.elapsed() < REQUEST, "{:?}", begun.elapsed());
}

/// Changes an answer to a command of the server's; false drops it.
type Change = fn(&mut Message) -> bool;

/// Relays all messages between the two sides, with their files; the client's answers to reads of
/// its memory are changed or dropped.
fn between(socket: PathBuf, folder: &Path, change: Change) -> PathBuf {
    let path = folder.join("between");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let server = UnixStream::connect(socket).unwrap();
        let pass_on = |from: UnixStream, to: UnixStream| {
            std::thread::spawn(move || {
                while let Ok(mut message) = receive(&from) {
                    let header = message.header;
                    let is_answer = header.is_reply() && header.command == Command::DmaRead as u16;
                    if is_answer && !change(&mut message) {
                        continue;
                    }
                    let Message { header, payload, descriptors, .. } = message;
                    let files: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
                    if send(&to, &header, &payload, &files).is_err() {
                        break;
                    }
                }
                let _ = to.shutdown(std::net::Shutdown::Both);
            })
        };
        pass_on(client.try_clone().unwrap(), server.try_clone().unwrap());
        pass_on(server, client);
    });
    path
}

/// An invalid answer is an error of the transfer and has no other effect.
#[test]
fn answers_that_do_not_come_or_are_of_no_use_end_the_transfer() {
    let cases: [(&str, Change, &str); 2] = [
        ("silent", |_| false, "did not answer within"),
        (
            "elsewhere",
            |message| {
                message.payload[0] ^= 4;
                true
            },
            "it answered for another address",
        ),
    ];
    for (name, change, why) in cases {
        let served = Served::start("rosta:crosslane", &["fpga1", "fpga2"]);
        let folder = tempdir().unwrap();
        let socket = between(served.sockets[0].clone(), folder.path(), change);
        let bus = client(&socket);
        on_device(&bus, async |device| {
            device.user().check_h2c(5).await.unwrap();
            let memory = buffer(&device, 16 * PAGE).await;
            let mut h2c = channel(&device, ChannelKind::H2c).await;
            let transfer = whole(&device, &memory);
            let deadline = bus.now() + Picoseconds::from_ns(15_000_000_000);
            let error = h2c.transfer(Transfer { deadline, ..transfer }).await.unwrap_err();
            assert!(error.to_string().contains("Unsupported Request at 0x"), "{name}: {error}");
        });
        served.wait_for(why);
        assert_eq!(served.told().iter().filter(|line| line.contains(why)).count(), 1);
        // The other device is served as usual.
        let other = client(&served.sockets[1]);
        on_device(&other, async |device| {
            loop_back_by(&device, Notification::Poll, 4 * PAGE).await;
        });
        drop((bus, other));
    }
}
