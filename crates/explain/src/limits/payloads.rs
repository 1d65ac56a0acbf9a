// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Longest writes, completions and read requests.

use std::sync::Arc;

use crosslane_experiment::Scenario;
use crosslane_fabric::parameters::RequesterParameters;
use crosslane_lab::LabFile;
use crosslane_lab::file::parts::EngineParameters;
use crosslane_results::{Limit, LimitKind};

use super::list;
use super::memories::completion_bytes;
use super::requesters::{edit_both, least_staging_bytes};
use super::ways::{PortInfo, Requester, Transfer, Ways};
use crate::explainable::Explainable;
use crate::search::Lever;

/// Work with payloads.
pub(super) trait Asked: Explainable {
    /// Returns the longest payload or read request that the run asks for, bytes, if any.
    fn asked_bytes(&self) -> Option<u32>;

    /// Returns whether it can be made with payloads of that size.
    fn can_have(&self, _payload_bytes: u32) -> bool {
        true
    }

    /// Asks for the longest payloads or read requests that are allowed.
    fn ask_for_longest(&mut self);
}

/// Returns the longest write and the longest read request that a requester builds, bytes.
fn own_limits(file: &LabFile, requester: Requester) -> Option<(u32, u32)> {
    let part = &file.endpoints[requester.endpoint()?].part;
    let p = &part.parameters.requester;
    Some(match (requester, part.engine) {
        (Requester::Engine(_), Some(engine)) => (engine.max_write_bytes, engine.max_read_bytes),
        _ => (p.max_write_bytes, p.max_read_bytes),
    })
}

fn by_endpoints<'a>(
    ways: &'a Ways,
    which: impl Fn(&Transfer) -> bool + 'a,
) -> impl Iterator<Item = (usize, &'a Transfer)> {
    let all = ways.transfers.iter().filter(move |transfer| which(transfer));
    all.filter_map(|transfer| Some((transfer.requester.endpoint()?, transfer)))
}

fn names(file: &LabFile, endpoints: &[usize]) -> String {
    let names = endpoints.iter().map(|index| file.endpoints[*index].name.clone());
    list(&names.collect::<Vec<_>>())
}

pub(super) fn levers<W: Asked>(case: &Scenario<W>, ways: &Ways) -> Vec<Lever<W>> {
    max_payload(case, ways).into_iter().chain(max_read_request(case, ways)).collect()
}

/// Writes and completions as long as all ports on the paths support.
fn max_payload<W: Asked>(case: &Scenario<W>, ways: &Ways) -> Option<Lever<W>> {
    let file = case.lab.file();
    let ports: Vec<&PortInfo> = ways.ports();
    let able = |port: &&PortInfo| port.parameters.get(file).capability.max_payload_bytes;
    let best = u32::from(ports.iter().map(able).min()?);
    let set = ports.iter().map(|port| port.max_payload_bytes).min()?;
    let writers: Vec<(usize, u32)> = by_endpoints(ways, |transfer| transfer.writes)
        .filter_map(|(index, it)| Some((index, own_limits(file, it.requester)?.0)))
        .collect();
    let asked = case.work.asked_bytes().filter(|_| !writers.is_empty());
    let built = writers.iter().map(|(_, bytes)| *bytes).min().unwrap_or(u32::MAX);
    let now = built.min(set).min(asked.unwrap_or(u32::MAX));
    let cuts_completions = ways.transfers.iter().any(|transfer| {
        transfer.reads && set < best && completion_bytes(file, transfer).is_some_and(|it| it > set)
    });
    if (writers.is_empty() || now >= best) && !cuts_completions || !case.work.can_have(best) {
        return None;
    }
    let mut endpoints: Vec<usize> = writers.iter().map(|(index, _)| *index).collect();
    endpoints.dedup();
    let host = &file.hosts[ways.transfers.first()?.host].name;
    let (place, words) = if asked == Some(now) && now < set.min(built) {
        let names = names(file, &endpoints);
        (names.clone(), format!("payloads of {now} B of {names}, as they were asked for"))
    } else if built < set {
        endpoints.retain(|index| writers.contains(&(*index, built)));
        let names = names(file, &endpoints);
        (names.clone(), format!("writes of {built} B, the longest that {names} can build"))
    } else {
        let words = format!("Max_Payload_Size of {set} B on the way ({best} B are possible)");
        (host.clone(), words)
    };
    let limit = Limit { kind: LimitKind::MaxPayload, place, words, lifted: format!("{best} B") };
    let lift = Box::new(move |case: &Scenario<W>| {
        let mut case = case.edited(|file| {
            for index in &endpoints {
                let longer = |bytes: &mut u32| *bytes = best.max(*bytes);
                let generic = |p: &mut RequesterParameters| longer(&mut p.max_write_bytes);
                let part = Arc::make_mut(&mut file.endpoints[*index].part);
                edit_both(part, generic, |p: &mut EngineParameters| {
                    longer(&mut p.max_write_bytes);
                    // A write is built only when all its data are there.
                    longer(&mut p.lane_fifo_bytes);
                    p.staging_bytes = p.staging_bytes.max(least_staging_bytes(p));
                });
            }
        })?;
        if !endpoints.is_empty() {
            case.work.ask_for_longest();
        }
        case.max_payload_bytes = Some(best);
        Ok(case)
    });
    Some(Lever { limit, lift })
}

/// Read requests as long as their requesters can build.
fn max_read_request<W: Asked>(case: &Scenario<W>, ways: &Ways) -> Option<Lever<W>> {
    let file = case.lab.file();
    let asked = case.work.asked_bytes().unwrap_or(u32::MAX);
    let mut endpoints: Vec<usize> = Vec::new();
    let (mut now, mut best, mut hosts) = (u32::MAX, 0, Vec::new());
    for (index, transfer) in by_endpoints(ways, |transfer| transfer.reads) {
        let (_, own) = own_limits(file, transfer.requester)?;
        let set = file.hosts[transfer.host].max_read_request_bytes;
        if set.min(asked) < own {
            endpoints.push(index);
            hosts.push(transfer.host);
            now = now.min(set.min(asked));
            best = best.max(own);
        }
    }
    if endpoints.is_empty() {
        return None;
    }
    endpoints.dedup();
    let place = names(file, &endpoints);
    let words = match asked == now {
        true => format!("reads of {now} B of {place}, as they were asked for"),
        false => format!("Max_Read_Request_Size of {now} B of {place} ({best} B are possible)"),
    };
    let limit =
        Limit { kind: LimitKind::MaxReadRequest, place, words, lifted: format!("{best} B") };
    let lift = Box::new(move |case: &Scenario<W>| {
        let mut case = case.edited(|file| {
            for host in &hosts {
                let set = &mut file.hosts[*host].max_read_request_bytes;
                *set = best.max(*set);
            }
        })?;
        case.work.ask_for_longest();
        Ok(case)
    });
    Some(Lever { limit, lift })
}
