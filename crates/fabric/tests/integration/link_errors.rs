// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links with bit errors: nothing is lost, duplicated or reordered (`Stand::run` checks every byte,
//! the ordering checker every arrival), and the cost agrees with arithmetic.

use crate::support::{self, log};

use crosslane_fabric::parameters::*;
use crosslane_fabric::trace::{DllpKind, TraceEvent};
use crosslane_fabric::*;
use crosslane_pcie::credits::{Credits, UPDATE_FC_LIMIT_PS};
use crosslane_pcie::timers;
use crosslane_pcie::tlp::Class;
use crosslane_pcie::units::BusAddress;
use log::{Log, Sent, opposite};
use support::*;

/// The bit error rate that corrupts a packet of `bytes` bytes with this probability.
fn bit_error_rate(probability: f64, bytes: u32) -> f64 {
    -(-probability).ln_1p() / (8.0 * f64::from(bytes))
}

/// Up to one TLP in ten corrupt, through up to three switches, writes and reads, all directions
/// loaded. The number of corrupt arrivals agrees with the bits of each TLP in the trace.
#[test]
fn nothing_is_lost_doubled_or_reordered() {
    for (seed, shape, probability) in
        [(1, 0, 0.001), (2, 0, 0.1), (3, 1, 0.1), (4, 2, 0.02), (5, 3, 0.1), (6, 4, 0.1)]
    {
        let mut settings = Settings::ideal(rate(3, 8), 256);
        settings.seed = seed;
        settings.link.bit_error_rate = bit_error_rate(probability, 276);
        settings.link.skp = true;
        settings.link.flight = ns(5);
        settings.switch.latency = ns(100);
        settings.completer.read_latency = ns(300);
        settings.port.ack = Coalescing { tlps: 1 + seed as u32 % 4, within: None };
        settings.port.update_fc = Coalescing { tlps: 2, within: None };
        settings.port.receive_credits = [Credits { header: 32, data: 512 }; 3];
        let mut stand = tree(&settings, shape);
        let log = Log::of(&mut stand.fabric);
        stand.run(stand.everywhere(300, [1000, 2000], (FlowKind::WriteRead, 700)));
        // A Bernoulli trial for each TLP, with the probability of its length.
        let (mut mean, mut variance, mut corrupt) = (0.0, 0.0, 0.0);
        for tlp in log.all_tlps() {
            let bits = 8 * tlp.wire_bytes;
            let p = 1.0 - (1.0 - settings.link.bit_error_rate).powi(bits as i32);
            mean += p;
            variance += p * (1.0 - p);
            corrupt += f64::from(u8::from(tlp.corrupt));
        }
        assert!(corrupt > 0.0);
        assert!((corrupt - mean).abs() < 5.0 * f64::sqrt(variance), "{corrupt} {mean}");
        let mut counted = 0;
        for direction in stand.directions() {
            let counters = stand.fabric.counters(direction);
            counted += counters.corrupt_tlps;
            let tlps = log.tlps(direction);
            assert_first_sent_in_order(&tlps);
            let replayed = tlps.iter().filter(|tlp| tlp.replay);
            let bytes: u64 = replayed.clone().map(|tlp| u64::from(tlp.wire_bytes)).sum();
            assert_eq!(counters.replayed_tlps, replayed.count() as u64);
            assert_eq!(counters.replayed_bytes, bytes);
        }
        assert_eq!(counted, corrupt as u64);
    }
}

/// New TLPs carry consecutive numbers; a replay carries a number sent before.
fn assert_first_sent_in_order(tlps: &[Sent]) {
    let mut next = 0;
    for tlp in tlps {
        if tlp.replay {
            assert!(tlp.sequence < next);
        } else {
            assert_eq!(tlp.sequence, next);
            next += 1;
        }
    }
}

/// Go-back-N, per TLP and in units of its wire time T. A corrupt TLP is lost with all that the
/// transmitter began before it knew: those during the return of the Nak, n = ceil((2 x flight +
/// DLLP)/T). If the same TLP is lost again the receiver sends no second Nak (PCIe 6.x 3.6.3.1), so
/// the replay timer ends the wait, m = ceil(limit/T); likewise if the Nak is lost.
struct GoBackN {
    corrupt: f64,
    corrupt_nak: f64,
    by_nak: f64,
    by_timer: f64,
}

impl GoBackN {
    /// Replays for each TLP that arrives.
    fn extra(&self) -> f64 {
        let p = self.corrupt;
        let (nak, timer) = (1.0 + self.by_nak, 1.0 + self.by_timer);
        p * ((1.0 - self.corrupt_nak) * nak + self.corrupt_nak * timer) + p * p / (1.0 - p) * timer
    }
}

/// Replayed bytes and rate follow go-back-N for several error rates and distances.
#[test]
fn the_rate_falls_as_go_back_n_says() {
    for (probability, flight_ns) in
        [(0.001, 0), (0.01, 0), (0.03, 0), (0.1, 0), (0.01, 150), (0.03, 150), (0.1, 150)]
    {
        let mut settings = Settings::ideal(rate(3, 8), 256);
        settings.seed = 42 + flight_ns;
        settings.link.bit_error_rate = bit_error_rate(probability, 276);
        settings.link.flight = ns(flight_ns);
        // REPLAY_NUM rolls over occasionally; another test measures that.
        settings.link.retrain = ns(0);
        let mut stand = direct(&settings);
        let mut flow = stand.flow(0, FlowKind::Write, BusAddress(0), 16 * 256);
        flow.operations = 5000;
        flow.outstanding = 64;
        flow.window_bytes = 8 << 20;
        let report = stand.run_one(flow);
        let counters = stand.fabric.counters(stand.direction(0, LinkDirection::Up));
        assert_eq!(counters.tlps, 80_000);

        let tlp_ps = 276.0 * 126.953125;
        let limit = timers::replay_timer(settings.rate.generation, settings.rate.width, 256);
        let model = GoBackN {
            corrupt: probability,
            corrupt_nak: 1.0 - (1.0 - settings.link.bit_error_rate).powi(64),
            by_nak: ((2e3 * flight_ns as f64 + 8.0 * 126.953125) / tlp_ps).ceil(),
            by_timer: (limit.0 as f64 / tlp_ps).ceil(),
        };
        let extra = counters.replayed_tlps as f64 / counters.tlps as f64;
        // The number of errors has a deviation of its root: 3 % of 1 in 1000 of 80,000.
        let errors = 80_000.0 * probability;
        let tolerance = 0.02 + 4.0 / f64::sqrt(errors);
        let error = off(extra, model.extra());
        assert!(error < tolerance, "{probability} {flight_ns} ns: {extra} {}", model.extra());
        assert_eq!(counters.replayed_bytes, counters.replayed_tlps * 276);

        // The wire was never idle: its time is that of the TLPs.
        let rate = report.bytes_per_second();
        let wire = 256.0 / (tlp_ps * 1e-12);
        let error = off(rate, wire / (1.0 + extra));
        assert!(error < 2e-3, "{probability} {flight_ns} ns: {error}");
        let error = off(rate, wire / (1.0 + model.extra()));
        assert!(error < 0.02, "{probability} {flight_ns} ns: {error}");
    }
}

/// Single writes far apart. A replay has one of two reasons, each at its exact time: a Nak, or the
/// replay timer after a lost Ack; the receiver then has the TLP twice.
#[test]
fn lost_acks_lead_to_the_replay_timer_and_doubles_are_dropped() {
    for (generation, lanes, max_payload) in [(1, 1, 128), (2, 4, 256), (3, 8, 256), (4, 16, 512)] {
        let mut settings = Settings::ideal(rate(generation, lanes), max_payload);
        settings.link.bit_error_rate = 4e-4;
        settings.link.flight = ns(10);
        settings.requester.write_interval = ns(100_000);
        let mut stand = direct(&settings);
        let log = Log::of(&mut stand.fabric);
        stand.run_one(stand.flow(0, FlowKind::Write, BusAddress(0), 16).times(1000));
        let at = settings.rate;
        let limit = timers::replay_timer(at.generation, at.width, u32::from(max_payload)).0;
        let up = stand.direction(0, LinkDirection::Up);
        let (tlps, answers) = (log.tlps(up), log.dllps(opposite(up)));
        let (mut by_nak, mut by_timer, mut doubles) = (0, 0, 0);
        for pair in tlps.windows(2) {
            let (before, tlp) = (pair[0], pair[1]);
            if !tlp.replay {
                continue;
            }
            assert_eq!(tlp.sequence, before.sequence);
            let arrived_ps = before.end_ps + 10_000;
            let answer = answers.iter().find(|dllp| dllp.start_ps == arrived_ps);
            if let Some(nak) = answer
                && nak.kind == DllpKind::Nak
                && !nak.corrupt
            {
                assert!(before.corrupt);
                assert_eq!(tlp.start_ps, nak.end_ps + 10_000);
                by_nak += 1;
            } else {
                // No answer (an earlier Nak stands), or a lost one.
                assert!(answer.is_none_or(|dllp| dllp.corrupt));
                assert_eq!(tlp.start_ps, before.end_ps + limit, "{at}");
                by_timer += 1;
                doubles += u32::from(!before.corrupt);
            }
        }
        assert!(by_nak > 20 && by_timer > 5 && doubles > 5, "{by_nak} {by_timer} {doubles}");
        let counters = stand.fabric.counters(up);
        assert_eq!(counters.replayed_tlps, by_nak + by_timer);
        // Each TLP that arrived, duplicates included, got a separate Ack (PCIe 6.x 3.6.3.1).
        let acks = answers.iter().filter(|dllp| dllp.kind == DllpKind::Ack).count();
        let clean = tlps.iter().filter(|tlp| !tlp.corrupt).count();
        assert!(acks == clean && clean > 1000, "{acks} {clean}");
    }
}

/// With enough errors for a TLP to fail four times in a row, the link retrains, is silent for that
/// time in both directions, and then continues. Nothing is lost.
#[test]
fn replay_num_rolls_over_into_retraining() {
    let mut settings = Settings::ideal(rate(3, 8), 128);
    settings.link.bit_error_rate = 0.005;
    settings.link.retrain = ns(3000);
    settings.requester.write_interval = ns(50_000);
    let mut stand = direct(&settings);
    let log = Log::of(&mut stand.fabric);
    stand.run_one(stand.flow(0, FlowKind::Write, BusAddress(0), 4).times(300));
    let up = stand.direction(0, LinkDirection::Up);
    let records = log.records();
    let tlps = log.tlps(up);
    let mut retrainings = 0;
    for record in &records {
        let TraceEvent::Retrain { end } = record.event else { continue };
        retrainings += 1;
        assert_eq!((record.direction, end.since(record.time)), (up, ns(3000)));
        // Sent once and replayed three times since the last retraining or its first transmission.
        let before: Vec<&Sent> = tlps.iter().filter(|tlp| tlp.start_ps < record.time.0).collect();
        let last = before.last().unwrap();
        let sent = before.iter().filter(|tlp| tlp.sequence == last.sequence).count();
        assert_eq!(sent % 4, 0, "a multiple of 4 where it retrained before");
        let next = tlps.iter().find(|tlp| tlp.start_ps >= record.time.0).unwrap();
        assert_eq!((next.start_ps, next.sequence, next.replay), (end.0, last.sequence, true));
        for direction in [up, opposite(up)] {
            let starts = log.dllps(direction).into_iter().map(|dllp| dllp.start_ps);
            let silent = record.time.0..end.0;
            assert_eq!(starts.filter(|start_ps| silent.contains(start_ps)).count(), 0);
        }
    }
    assert!(retrainings >= 10, "{retrainings}");
    assert_eq!(stand.fabric.counters(up).retrainings, retrainings);
    // Of a TLP of 24 B and its Ack or Nak of 8 B: the chance that one try does not end it, in
    // the power of four, for each write.
    let clean = |bytes: f64| f64::powf(1.0 - 0.005, 8.0 * bytes);
    let failure = 1.0 - clean(24.0) * clean(8.0);
    let expected = 300.0 * failure.powi(4) / (1.0 - failure.powi(4));
    let deviation = f64::sqrt(expected) * 4.0;
    assert!((f64::from(retrainings as u32) - expected).abs() < deviation, "{expected}");
}

/// The same with both directions full, writes and reads.
#[test]
fn a_loaded_link_recovers_from_retraining() {
    let mut settings = Settings::ideal(rate(3, 8), 128);
    settings.link.bit_error_rate = 0.003;
    settings.link.retrain = ns(3000);
    settings.port.replay_buffer_bytes = 1000;
    settings.port.receive_credits = [Credits { header: 4, data: 32 }; 3];
    let mut stand = one_switch(&settings, 2);
    let mut flows = vec![
        stand.flow(0, FlowKind::Write, BusAddress(0), 16),
        stand.flow(1, FlowKind::Read, BusAddress(1 << 26), 16),
        stand.flow(0, FlowKind::WriteRead, stand.bar(1), 8),
    ];
    flows.iter_mut().for_each(|flow| flow.operations = 200);
    stand.run(flows);
    let directions = stand.directions();
    let counters = directions.into_iter().map(|direction| stand.fabric.counters(direction));
    let retrainings: Vec<u64> = counters.map(|counters| counters.retrainings).collect();
    assert!(retrainings.iter().sum::<u64>() > 10, "{retrainings:?}");
}

/// The next UpdateFC of the class, at most 30 us later, makes up for a lost one (PCIe 6.x 2.6.1.2);
/// until then the transmitter waits.
#[test]
fn a_lost_update_fc_heals_within_30_us() {
    let mut settings = Settings::ideal(rate(3, 8), 128);
    settings.link.bit_error_rate = bit_error_rate(0.02, 8);
    settings.port.receive_credits[0] = Credits { header: 1, data: 8 };
    let mut stand = direct(&settings);
    let log = Log::of(&mut stand.fabric);
    let report = stand.run_one(stand.flow(0, FlowKind::Write, BusAddress(0), 4).times(1000));
    let down = stand.direction(0, LinkDirection::Down);
    let updates: Vec<_> = log
        .dllps(down)
        .into_iter()
        .filter(|dllp| dllp.kind == DllpKind::UpdateFc(Class::Posted))
        .collect();
    let mut lost = 0;
    for pair in updates.windows(2) {
        if pair[0].corrupt {
            lost += 1;
            // With one credit, only this can cause another UpdateFC.
            let gap_ps = pair[1].start_ps - pair[0].end_ps;
            let busy_ps = 4 * 8 * 127;
            assert!((UPDATE_FC_LIMIT_PS..UPDATE_FC_LIMIT_PS + busy_ps).contains(&gap_ps));
        }
    }
    assert!(lost > 5, "{lost}");
    let waits_ps = lost as f64 * UPDATE_FC_LIMIT_PS as f64;
    let span_ps = report.last_done.since(report.first_post).0 as f64;
    // The rest: 1000 round trips of about 5 ns, and replays.
    assert!((waits_ps..waits_ps + 1e9).contains(&span_ps), "{span_ps} {waits_ps}");
}
