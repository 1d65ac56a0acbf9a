// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A custom device behind the [`Device`] trait: it sends, receives, holds buffers, uses timers and
//! interrupts, and has an MSI-X capability. Also work that occupies a core.

use crate::support;

use crosslane_fabric::*;
use crosslane_pcie::config::{Identity, MsixRequest, registers};
use crosslane_pcie::credits::Credits;
use crosslane_pcie::tlp::{Header, TlpKind};
use crosslane_pcie::units::{BusAddress, Picoseconds};
use support::*;

/// Answers each write into its BAR, after a delay, with a write of the same bytes to host memory
/// and an interrupt. Holds the receive buffer until then.
#[derive(Default)]
struct Echo {
    held: Option<(Received, Header, u32, Vec<u8>)>,
    echoed: u32,
}

const DELAY_PS: u64 = 5_000_000;
const TARGET: u64 = 0x4000;

impl Device for Echo {
    fn receive(&mut self, tlp: Received, port: &mut DevicePort<'_>) -> Consumed {
        let header = port.header(tlp);
        assert_eq!(header.kind, TlpKind::MemoryWrite);
        assert!(self.held.is_none(), "one credit: one write at a time");
        let bytes = port.payload(tlp).to_vec();
        self.held = Some((tlp, header, port.data_credits(tlp), bytes));
        port.timer(port.now_ps() + DELAY_PS, 7);
        Consumed::Held
    }

    fn transmit_ready(&mut self, _port: &mut DevicePort<'_>) {}

    fn timer(&mut self, token: u32, port: &mut DevicePort<'_>) {
        assert_eq!(token, 7);
        let (tlp, header, data_credits, bytes) = self.held.take().unwrap();
        let id = port.routing_id();
        let target = TARGET + u64::from(self.echoed) * 64;
        assert!(port.has_room());
        port.send(Header::memory_write(id, BusAddress(target), bytes.len() as u32), |payload| {
            payload.copy_from_slice(&bytes);
        });
        let message = BusAddress(INTERRUPT_ADDRESSES.start);
        let vector = self.echoed;
        port.send(Header::memory_write(id, message, 4), |payload| {
            payload.copy_from_slice(&vector.to_le_bytes());
        });
        self.echoed += 1;
        port.release(tlp, &header, data_credits);
    }
}

fn stand(settings: &Settings) -> Stand {
    direct_device(settings, Identity::default(), one_bar(), Box::new(Echo::default()))
}

/// A core stores eight bytes three times; with one credit the second store waits until the device
/// has freed the first. The interrupts follow the data that they announce.
#[test]
fn a_device_holds_sends_and_interrupts() {
    let mut settings = Settings::ideal(rate(2, 4), 128);
    settings.bar_bytes = 1 << 20;
    settings.port.receive_credits[0] = Credits { header: 1, data: 8 };
    settings.port.receive_latency = ns(50);
    let mut stand = stand(&settings);
    let flow = stand.core_flow(0, FlowKind::Write, stand.bar(0), 8).times(3).at_once(3);
    let id = stand.fabric.start_flow(flow).unwrap();
    // The flow's writes end in a device that does not report them: the run ends stuck.
    assert!(matches!(stand.fabric.run(None), RunEnd::Stuck(_)));
    stand.fabric.abandon_flow(id);
    assert_eq!(stand.fabric.errors(), &[]);
    let (interrupts, count) = stand.fabric.interrupts(stand.root);
    assert_eq!(count, 3);
    for (at, pair) in interrupts.windows(2).enumerate() {
        assert_eq!(pair[0].data, at as u32);
        let apart = pair[1].arrived - pair[0].arrived;
        assert!(apart.0 >= DELAY_PS, "{apart}");
        assert_eq!(pair[0].handled - pair[0].arrived, settings.cpu.interrupt);
    }
    let words = [0, 1, 2].map(|at| stand.peek::<8>(BusAddress(TARGET + at * 64)));
    assert!(words.iter().all(|word| *word != [0; 8]) && words[0] != words[1], "{words:?}");
    assert_eq!(stand.fabric.check_quiet(), Vec::<String>::new());
}

/// Holds received reads until its link can take a TLP.
#[derive(Default)]
struct Keeper(Vec<(Received, Header)>);

impl Device for Keeper {
    fn receive(&mut self, tlp: Received, port: &mut DevicePort<'_>) -> Consumed {
        self.0.push((tlp, port.header(tlp)));
        Consumed::Held
    }

    fn transmit_ready(&mut self, port: &mut DevicePort<'_>) {
        while let Some((tlp, read)) = self.0.pop() {
            assert!(port.has_room());
            let id = port.routing_id();
            let answer = Header::completion_data(&read, id, read.address, 4, 4);
            port.send(answer, |payload| payload.fill(7));
            port.release(tlp, &read, 0);
        }
    }

    fn timer(&mut self, _token: u32, _port: &mut DevicePort<'_>) {}
}

/// A read that a device has received but not answered holds its credit. Behind a link that is down
/// this is correct, since the answer cannot leave; with the link up the credit counts as missing.
#[test]
fn behind_a_link_that_is_down_a_device_may_hold_what_it_has_received() {
    let settings = Settings { bar_bytes: 1 << 20, ..Settings::ideal(rate(2, 4), 128) };
    for goes_down in [false, true] {
        let device = Box::new(Keeper::default());
        let mut stand = direct_device(&settings, Identity::default(), one_bar(), device);
        let (root, bar) = (stand.root, stand.bar(0));
        let fabric = &mut stand.fabric;
        fabric.host_load(root, 0, bar, 4, 1).unwrap();
        fabric.host_timer(ns(10_000), 2);
        next_event(fabric);
        if goes_down {
            fabric.take_link_down(LinkId(0), None);
        }
        assert_eq!(next_event(fabric), timed_out(1, bar));
        if !goes_down {
            assert_eq!(
                fabric.check_quiet(),
                ["rp0 to ep0: credits, Acks or TLPs are missing".to_owned()]
            );
            continue;
        }
        assert_eq!(fabric.check_quiet(), Vec::<String>::new());
        fabric.bring_link_up(LinkId(0));
        fabric.host_timer(fabric.now() + ns(10_000), 3);
        assert!(fabric.run_until_host_event());
        assert_eq!(fabric.check_quiet(), Vec::<String>::new());
        let last = fabric.errors().last().map(ToString::to_string).unwrap();
        assert!(last.contains("CplD"), "the load has given up: {last}");
    }
}

/// Work on a core is done in sequence, at the costs of the lab, and stores wait behind it.
#[test]
fn work_occupies_a_core() {
    let settings = Settings::ideal(rate(2, 4), 128);
    let mut stand = direct(&settings);
    let (root, cpu) = (stand.root, settings.cpu);
    let call = stand.fabric.spend(root, 0, CoreWork::SystemCall).unwrap();
    assert_eq!(call, cpu.system_call);
    let pinned = stand.fabric.spend(root, 0, CoreWork::PinPages(1000)).unwrap();
    assert_eq!(pinned, call + Picoseconds(1000 * cpu.pin_page.0));
    let copied = stand.fabric.spend(root, 0, CoreWork::Copy(8_000)).unwrap();
    assert_eq!(copied, pinned + ns(1000), "8,000 B at 8 GB/s");
    let touched = stand.fabric.spend(root, 0, CoreWork::TouchPages(10)).unwrap();
    assert_eq!(touched, copied + Picoseconds(10 * cpu.touch_page.0));
    assert_eq!(stand.fabric.spend(root, 1, CoreWork::Time(ns(3))), Some(ns(3)), "another core");
    assert_eq!(stand.fabric.spend(root, 2, CoreWork::SystemCall), None, "no such core");
    let flow = stand.core_flow(0, FlowKind::Write, stand.bar(0), 8).times(1).at_once(1);
    let report = stand.run_one(flow);
    // 28 B at 0.5 ns a byte behind the work.
    assert_eq!(report.last_done, touched + ns(14));
}

/// An endpoint gets the MSI-X capability that it asks for; the error names an impossible one.
#[test]
fn an_endpoint_has_the_msix_that_it_asked_for() {
    let settings = Settings::ideal(rate(2, 4), 128);
    let build = |msix: MsixRequest| {
        let mut builder = FabricBuilder::new(1);
        let (port, device) = (settings.port.clone(), Box::new(Echo::default()));
        let identity = Identity::default();
        let root = builder.root_complex("host", HOST, root_parameters(&settings));
        let upper = builder.root_port(root, "rp0", identity, port.clone());
        let (_, id) =
            builder.endpoint_with_device("board", identity, one_bar(), Some(msix), port, device);
        builder.link("board", upper, id, settings.link);
        (builder, id)
    };
    let request = MsixRequest {
        vectors: 8,
        table_bar: 0,
        table_offset_bytes: 0x1000,
        pending_bar: 0,
        pending_offset_bytes: 0x1800,
    };
    let (builder, id) = build(request);
    let fabric = builder.build().unwrap();
    let config = &fabric.port(id).config;
    assert_eq!(config.msix().unwrap().request, request);
    assert!(config.find_capability(registers::CAPABILITY_MSIX).is_some());
    let (builder, _) = build(MsixRequest { table_bar: 1, ..request });
    let error = builder.build().err().unwrap();
    assert!(error.to_string().contains("board"), "{error}");
}
