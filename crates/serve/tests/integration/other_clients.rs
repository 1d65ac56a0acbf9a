// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client by others: the crate `vfio_user`, with which Cloud Hypervisor opens devices.

use std::os::fd::AsRawFd;
use std::time::Instant;

use crosslane_driver::MEMORY_BAR;
use vfio_user::Client;

use crate::raw::{count, event, file};
use crate::support::*;

const CONFIG: u32 = 7;
const MSIX: u32 = 2;
/// Flags of a command about interrupts: trigger, with descriptors or without data.
const SET: u32 = 0x24;
const TRIGGER: u32 = 0x21;

#[test]
fn the_client_of_the_crate_vfio_user_is_served() {
    let folder = tempdir().unwrap();
    let lab = lab_with_a_memory_card(folder.path(), false);
    let served = Served::start(&lab, &["fpga1", CARD]);
    for round in 0..2 {
        let mut engine = Client::new(&served.sockets[0]).unwrap();
        let mut ids = [0; 4];
        engine.region_read(CONFIG, 0, &mut ids).unwrap();
        assert_eq!(ids[..2], 0x10ee_u16.to_le_bytes());
        assert_eq!(engine.region(CONFIG).unwrap().size, 4096);
        let interrupts = engine.get_irq_info(MSIX).unwrap();
        assert!(interrupts.count > 1 && interrupts.flags == 1);
        let events = [event(0), event(0)];
        let raw = events.each_ref().map(AsRawFd::as_raw_fd);
        engine.set_irqs(MSIX, SET, 0, 2, &raw).unwrap();
        engine.set_irqs(MSIX, TRIGGER, 1, 1, &[]).unwrap();
        assert_eq!(events.each_ref().map(count), [0, 1]);
        let pages = [file(true), file(false)];
        for (address, page) in [0x10_0000, 0x20_0000].into_iter().zip(&pages) {
            engine.dma_map(0, address, PAGE, page.as_raw_fd()).unwrap();
        }
        engine.dma_unmap(0x10_0000, PAGE).unwrap();
        engine.region_write(CONFIG, 4, &[2, 0]).unwrap();
        let mut register = [0; 4];
        engine.region_read(0, 0, &mut register).unwrap();
        engine.reset().unwrap();
        // A card's memory comes with its file and its areas.
        let card = Client::new(&served.sockets[1]).unwrap();
        let memory = card.region(MEMORY_BAR.into()).unwrap();
        assert_eq!(memory.size, CARD_BAR_BYTES);
        let areas: Vec<_> =
            memory.sparse_areas.iter().map(|area| (area.offset, area.size)).collect();
        assert_eq!(areas, [(0, BANKS_BYTES)]);
        assert!(memory.file_offset.is_some());
        engine.shutdown().unwrap();
        card.shutdown().unwrap();
        drop((engine, card));
        let ended = || served.told().iter().filter(|line| line.contains("has gone")).count();
        let begun = Instant::now();
        while ended() < 2 * (round + 1) {
            assert!(begun.elapsed() < REQUEST, "{:?}", served.told());
            std::thread::yield_now();
        }
    }
}
