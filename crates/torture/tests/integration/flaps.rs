// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A link that is down only for a moment: no error is reported, and stores made then are lost. The
//! driver must notice, at every moment of opening, posting to and restarting a channel.

use std::future::{Future, poll_fn};
use std::pin::pin;

use crosslane_driver::{
    ChannelKind, ChannelOptions, CompletionLevel, Device, DriverError, Target, Transfer,
};
use crosslane_host::{Bus, PageSize};
use crosslane_lab::{Simulation, open};
use crosslane_pcie::units::{HostId, Picoseconds};

use crosslane_torture::stream;
use crosslane_torture::watched::{WatchedBus, Witness};

const BYTES: u64 = 4096;
const SEED: u32 = 5;

/// Opens a channel, moves data, restarts it, moves data.
async fn work(device: &Device, kind: ChannelKind) -> Result<(), DriverError> {
    let mut channel = device.channel(kind, 0, ChannelOptions::default()).await?;
    for _ in 0..2 {
        let buffer = device.buffer(BYTES, PageSize::Small).await?;
        buffer.write(0, &stream::words(SEED, 0, BYTES)).unwrap();
        let target = Target::Buffer(buffer, 0..BYTES);
        // Lost data must be noticed without a deadline.
        let deadline = Picoseconds::NEVER;
        let transfer = Transfer { target, level: CompletionLevel::Visible, deadline };
        let ticket = channel.post(&[transfer]).await?[0];
        // Lost or moved, the transfer ends.
        let _ = channel.wait(ticket).await;
        channel.restart().await?;
    }
    channel.close().await
}

/// Takes the link down for a moment while a channel is opened, posted to and restarted.
fn flap(kind: ChannelKind, after: Picoseconds, span: Picoseconds) {
    let lab = open("minimal").unwrap();
    let simulation = Simulation::new(lab.build_engines(1).unwrap());
    simulation.set_time_limit(Some(Picoseconds::from_ns(10_000_000_000)));
    let witness = Witness::watch(&simulation, &lab);
    let bus = WatchedBus { bus: simulation.bus(HostId(0)), witness: witness.clone() };
    let link = simulation.with_fabric(|fabric| fabric.ports()[0].link.unwrap());
    let body = async {
        let device = Device::open_by_name(bus.clone(), "card0").await.unwrap();
        // Leaves stale values in the registers.
        work(&device, kind).await.unwrap();
        let begin = bus.now() + after;
        let mut flapper = pin!(async {
            bus.sleep_until(begin).await;
            let until = Some(begin + span);
            simulation.with_fabric(|fabric| fabric.take_link_down(link, until));
        });
        let mut worker = pin!(work(&device, kind));
        let mut has_ended = false;
        let worked = poll_fn(|context| {
            has_ended = has_ended || flapper.as_mut().poll(context).is_ready();
            worker.as_mut().poll(context)
        });
        // Refused or done, it ends.
        let _ = worked.await;
        bus.sleep_until(bus.now().max(begin + span) + Picoseconds::from_ns(100_000)).await;
        work(&device, kind).await.unwrap();
    };
    simulation.run("flap", body).unwrap_or_else(|stuck| panic!("{kind} {after}: {stuck}"));
    let strays = witness.lock().unwrap().strays.clone();
    assert_eq!(strays, Vec::<String>::new(), "{kind}, down after {after}");
}

#[test]
fn a_link_that_is_down_for_a_moment_leaves_nothing_half_set() {
    for kind in [ChannelKind::H2c, ChannelKind::C2h] {
        for step in 0..400 {
            flap(kind, Picoseconds::from_ns(step * 61), Picoseconds::from_ns(40 + step % 7 * 50));
        }
    }
}
