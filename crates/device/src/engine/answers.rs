// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers to reads of the engine's registers and apertures, and their timing.

use crosslane_fabric::{DevicePort, ErrorKind, Received};
use crosslane_pcie::split;
use crosslane_pcie::tlp::{CompletionStatus, Header};

use super::{Engine, Taken};

/// Read completion boundary of an endpoint (PCIe 6.x 2.3.1.1), bytes.
pub(crate) const READ_COMPLETION_BOUNDARY_BYTES: u32 = 128;
/// Byte enables of a whole double word.
const ALL_BYTES: u8 = 0xf;

/// Completion waiting to be sent.
pub(super) struct Answer {
    pub ready_ps: u64,
    header: Header,
    /// Word that fills the payload.
    word: u32,
    /// Read whose receive buffer is freed with its last completion.
    frees: Option<(Received, Header, u32)>,
}

impl Engine {
    /// Takes a read. Its receive buffer is held until the read is answered, so the port's credits
    /// limit the reads in flight.
    ///
    /// Registers are read one whole double word at a time; any other read violates the programming
    /// model and gets Completer Abort (PCIe 6.x 2.3.1). A read of no bytes is a flush and always
    /// valid. The receive aperture reads as zero.
    pub(super) fn take_read(
        &mut self,
        request: &Header,
        tlp: Option<Received>,
        data_credits: u32,
        port: &mut DevicePort<'_>,
    ) -> Taken {
        let now_ps = port.now_ps();
        let (address, bytes) = (request.address.0, request.request_bytes());
        let frees = tlp.map(|tlp| (tlp, *request, data_credits));
        let id = port.routing_id();
        let register = self.function.registers.offset(address, bytes);
        let window = self.function.receive.offset(address, bytes);
        let is_whole = request.length_dw == 1 && request.first_byte_enables == ALL_BYTES;
        match (register, window) {
            (Some(_), _) | (_, Some(_)) if bytes == 0 => {
                let header = Header::completion_data(request, id, request.address, 0, 0);
                self.answer(header, 0, frees, now_ps);
            }
            (Some(offset), _) if is_whole => {
                let word = self.read_register(offset as u32, now_ps);
                let header = Header::completion_data(request, id, request.address, 4, 4);
                self.answer(header, word, frees, now_ps);
            }
            (Some(_), _) => {
                let status = CompletionStatus::CompleterAbort;
                let header = Header::completion_error(request, id, status);
                self.answer(header, 0, frees, now_ps);
            }
            (None, Some(_)) => {
                let most = self.function.max_payload_bytes;
                let boundary = READ_COMPLETION_BOUNDARY_BYTES;
                let mut left = bytes;
                for (at, length) in split::completions(request.address, bytes, boundary, most) {
                    let header = Header::completion_data(request, id, at, length, left);
                    left -= length;
                    self.answer(header, 0, frees.filter(|_| left == 0), now_ps);
                }
                assert!(left == 0, "a read of {bytes} B is answered without {left} B");
            }
            (None, None) => {
                let what = crosslane_fabric::trace::HeaderLine(request).to_string();
                port.report(ErrorKind::Unrouted { what, address: request.address });
                let status = CompletionStatus::UnsupportedRequest;
                let header = Header::completion_error(request, id, status);
                self.answer(header, 0, frees, now_ps);
            }
        }
        self.wake = true;
        Taken::Later
    }

    fn answer(
        &mut self,
        header: Header,
        word: u32,
        frees: Option<(Received, Header, u32)>,
        now_ps: u64,
    ) {
        let ready_ps = now_ps + self.parameters.register_latency.0;
        let last_ps = self.answers.back().map_or(0, |answer| answer.ready_ps);
        assert!(ready_ps >= last_ps, "an answer of {ready_ps} ps comes behind {last_ps} ps");
        self.answers.push_back(Answer { ready_ps, header, word, frees });
    }

    /// Sends the next completion if one is ready. Returns whether it sent one.
    pub(super) fn build_answer(&mut self, port: &mut DevicePort<'_>) -> bool {
        if self.answers.front().is_none_or(|answer| answer.ready_ps > port.now_ps()) {
            return false;
        }
        let Some(answer) = self.answers.pop_front() else { return false };
        let word = answer.word.to_le_bytes();
        self.send(answer.header, port, |payload| {
            for chunk in payload.as_chunks_mut::<4>().0 {
                *chunk = word;
            }
        });
        if let Some((tlp, request, data_credits)) = answer.frees {
            port.release(tlp, &request, data_credits);
        }
        true
    }
}
