// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device that is gone does not hinder the others.

use crosslane_driver::{ChannelKind, ChannelOptions, CompletionLevel, Target};
use crosslane_pcie::units::BusAddress;

use crate::lab::setup::*;

#[test]
fn channels_are_opened_and_used_while_another_device_is_gone() {
    let simulation = simulation("rosta:crosslane");
    let port = simulation.find_port("rc47a.down2").unwrap();
    run(&simulation, async |bus| {
        let [device, gone] = open_all(&bus, ["fpga1", "fpga3"]).await;
        simulation.with_fabric(|fabric| {
            let link = fabric.port(port).link.unwrap();
            fabric.take_link_down(link, None);
        });
        for kind in [ChannelKind::H2c, ChannelKind::C2h, ChannelKind::Peer] {
            let options = ChannelOptions::default();
            assert!(gone.channel(kind, 0, options).await.is_err());
            let mut channel = device.channel(kind, 0, options).await.unwrap();
            let transfer = if kind == ChannelKind::Peer {
                to(Target::Bus(BusAddress(0x9000_0000), PAGE), CompletionLevel::Sent)
            } else {
                whole(&filled(&device, PAGE, 1).await, VISIBLE)
            };
            channel.transfer(within(&device, us(1000), transfer)).await.unwrap();
            channel.restart().await.unwrap();
            channel.close().await.unwrap();
        }
    });
}
