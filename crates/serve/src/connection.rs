// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One client's connection: its messages, answered one after the other.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crosslane_pcie::config::CONFIG_SPACE_BYTES;
use crosslane_vfio::user::protocol::{
    CONFIG_REGION, Capabilities, Command, DeviceInfo, DmaMap, DmaUnmap, INTERRUPT_KINDS,
    InterruptAction, InterruptData, InterruptInfo, MAJOR, MINOR, MSIX, ProtocolError, REGIONS,
    RegionAccess, RegionInfo, RegionIoDescriptors, SetInterrupts, Version,
};
use crosslane_vfio::user::socket::Message;
use rustix::io::Errno;

use crate::ask::{Asker, What};
use crate::caller::{Caller, Commands, Tell};
use crate::error::ServeEvent;
use crate::mappings::SharedMappings;
use crate::plain::PlainBar;

/// A device, for its socket's thread.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    pub name: String,
    pub bar_bytes: [u64; 6],
    /// Parts of the BARs that clients may map.
    pub plain: [Option<Arc<PlainBar>>; 6],
    pub vectors: u16,
}

pub(crate) struct Connection<'a> {
    /// The channel to the client.
    pub caller: &'a Caller,
    pub device: &'a Description,
    pub mappings: &'a SharedMappings,
    pub asker: &'a Asker,
    pub tell: &'a Tell,
    /// The client's capabilities, once it has sent them.
    pub client: Cell<Capabilities>,
}

struct Answer {
    payload: Vec<u8>,
    /// The BAR whose file is sent with it.
    file: Option<Arc<PlainBar>>,
}

impl From<Vec<u8>> for Answer {
    fn from(payload: Vec<u8>) -> Self {
        Self { payload, file: None }
    }
}

enum Refusal {
    /// A Linux error number.
    Errno(Errno),
    /// An error number, after which the connection is unusable, for this reason.
    Last(Errno, String),
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<ProtocolError> for Refusal {
    fn from(_: ProtocolError) -> Self {
        Self::Errno(Errno::INVAL)
    }
}

impl Connection<'_> {
    /// Answers until the client disconnects or sends garbage; returns the reason.
    pub fn serve(&self, commands: Commands) -> String {
        let why = self.answer_all(&commands);
        self.caller.end_with(commands);
        why
    }

    fn answer_all(&self, commands: &Commands) -> String {
        let mut has_version = false;
        loop {
            let message = match self.caller.next(commands) {
                Ok(message) => message,
                Err(why) => return why,
            };
            let header = message.header;
            let is_version = header.command == Command::Version as u16;
            let result = match is_version {
                // Without all of its descriptors a command would do something else.
                _ if message.lacks_descriptors => Err(Errno::MFILE.into()),
                true if has_version => Err(Errno::INVAL.into()),
                true => self.version(&message).map(Answer::from),
                false if has_version => self.answer(message),
                false => Err(Refusal::Last(Errno::INVAL, "it told no version".to_owned())),
            };
            has_version |= is_version && result.is_ok();
            let nothing = || Answer::from(Vec::new());
            let (reply, answer, end) = match result {
                Ok(answer) => (header.reply(answer.payload.len()), answer, None),
                Err(Refusal::Errno(errno)) => {
                    (header.refusal(errno.raw_os_error()), nothing(), None)
                }
                Err(Refusal::Last(errno, why)) => {
                    (header.refusal(errno.raw_os_error()), nothing(), Some(why))
                }
            };
            let file = answer.file.as_ref().map(|plain| plain.file());
            if header.wants_reply()
                && let Err(error) = self.caller.send(&reply, &answer.payload, file.as_slice())
            {
                return error.to_string();
            }
            self.caller.note_answer();
            if let Some(why) = end {
                return why;
            }
        }
    }

    fn version(&self, message: &Message) -> Result<Vec<u8>, Refusal> {
        let last = |why: String| Refusal::Last(Errno::INVAL, why);
        let theirs = Version::decode(&message.payload).map_err(|error| last(error.to_string()))?;
        if !message.descriptors.is_empty() {
            return Err(last("its version came with descriptors".to_owned()));
        }
        if theirs.major != MAJOR {
            return Err(last(format!("it has version {} of the protocol", theirs.major)));
        }
        self.client.set(theirs.capabilities);
        self.caller.can(theirs.capabilities);
        let minor = theirs.minor.min(MINOR);
        Ok(Version { major: MAJOR, minor, capabilities: Capabilities::OURS }.encode())
    }

    fn answer(&self, message: Message) -> Result<Answer, Refusal> {
        match Command::from_repr(message.header.command) {
            Some(Command::RegionInfo) => {
                self.region(&RegionInfo::decode_command(&message.payload)?)
            }
            Some(command) => self.plain_answer(command, message).map(Answer::from),
            None => Err(Errno::INVAL.into()),
        }
    }

    /// Answers a command that sends no file.
    fn plain_answer(&self, command: Command, message: Message) -> Result<Vec<u8>, Refusal> {
        let Message { payload, descriptors, .. } = message;
        if let Command::DmaMap | Command::SetInterrupts | Command::RegionWrite | Command::Reset =
            command
        {
            self.caller.note_use();
        }
        match command {
            Command::DmaMap => self.map(&DmaMap::decode_command(&payload)?, descriptors),
            Command::DmaUnmap => {
                let unmap = DmaUnmap::decode_command(&payload)?;
                self.mappings.lock().unmap(&unmap)?;
                Ok(unmap.encode())
            }
            Command::DeviceInfo => {
                DeviceInfo::decode_command(&payload)?;
                let interrupt_kinds = INTERRUPT_KINDS;
                let info =
                    DeviceInfo { resets: true, is_pci: true, regions: REGIONS, interrupt_kinds };
                Ok(info.encode())
            }
            Command::InterruptInfo => {
                let InterruptInfo { index, .. } = InterruptInfo::decode_command(&payload)?;
                if index >= INTERRUPT_KINDS {
                    return Err(Errno::INVAL.into());
                }
                let count = if index == MSIX { self.device.vectors.into() } else { 0 };
                Ok(InterruptInfo { eventfd: count > 0, index, count }.encode())
            }
            Command::SetInterrupts => {
                let set = SetInterrupts::decode(&payload)?.ok_or(Errno::INVAL)?;
                self.set_interrupts(set, descriptors)
            }
            Command::RegionRead => {
                let (access, _) = RegionAccess::decode(&payload)?;
                let (offset, bytes) = (access.offset, access.bytes as usize);
                let data = match self.bar(access.region)? {
                    Some(bar) => self.asker.ask(What::Read { bar, offset, bytes })?,
                    None => {
                        let offset = config_offset(offset, bytes)?;
                        self.asker.ask(What::ConfigRead { offset, bytes })?
                    }
                };
                Ok(access.encode(&data))
            }
            Command::RegionWrite => {
                let (access, data) = RegionAccess::decode_write(&payload)?;
                let (offset, data) = (access.offset, data.to_vec());
                match self.bar(access.region)? {
                    Some(bar) => self.asker.ask(What::Write { bar, offset, data })?,
                    None => {
                        let offset = config_offset(offset, data.len())?;
                        self.asker.ask(What::ConfigWrite { offset, data })?
                    }
                };
                Ok(access.encode(&[]))
            }
            Command::Reset => Ok(self.asker.ask(What::Reset)?),
            Command::RegionIoDescriptors => {
                let asked = RegionIoDescriptors::decode_command(&payload)?;
                if asked.count != 0 || self.region_bytes(asked.index) == 0 {
                    return Err(Errno::INVAL.into());
                }
                // No store to a region is a mere signal.
                Ok(asked.encode())
            }
            Command::Version | Command::RegionInfo | Command::DmaRead | Command::DmaWrite => {
                Err(Errno::INVAL.into())
            }
        }
    }

    fn map(&self, map: &DmaMap, mut descriptors: Vec<OwnedFd>) -> Result<Vec<u8>, Refusal> {
        if descriptors.len() > 1 {
            return Err(Errno::INVAL.into());
        }
        let file = descriptors.pop();
        let has_file = file.is_some();
        if (map.by_mapping || map.by_calls) && !has_file {
            return Err(Errno::INVAL.into());
        }
        let mapped = self.mappings.lock().map(map, file);
        if mapped == Err(Errno::MFILE) {
            let (device, most) = (self.device.name.clone(), self.mappings.lock().files().1);
            (self.tell)(&ServeEvent::TooManyFiles { device, most });
        }
        mapped?;
        if !has_file && map.writable {
            let (device, address, bytes) = (self.device.name.clone(), map.address, map.bytes);
            (self.tell)(&ServeEvent::WithoutFile { device, address, bytes });
        }
        Ok(Vec::new())
    }

    fn region(&self, asked: &RegionInfo) -> Result<Answer, Refusal> {
        if asked.index >= REGIONS {
            return Err(Errno::INVAL.into());
        }
        let bytes = self.region_bytes(asked.index);
        let is_there = bytes > 0;
        let (readable, writable, index) = (is_there, is_there, asked.index);
        let plain = self.device.plain.get(index as usize).and_then(Option::as_ref);
        // Only for a client that accepts files.
        let plain = plain.filter(|_| self.client.get().max_descriptors > 0);
        let areas = plain.map(|plain| plain.areas()).unwrap_or_default();
        let (mappable, file_offset, room_bytes) = (plain.is_some(), 0, asked.room_bytes);
        let info = RegionInfo {
            room_bytes,
            readable,
            writable,
            mappable,
            index,
            bytes,
            file_offset,
            areas,
        };
        Ok(Answer { payload: info.encode(asked.room_bytes), file: plain.cloned() })
    }

    /// Returns the size of a region; 0 for one that does not exist.
    fn region_bytes(&self, index: u32) -> u64 {
        match index {
            CONFIG_REGION => CONFIG_SPACE_BYTES.into(),
            bar => self.device.bar_bytes.get(bar as usize).copied().unwrap_or(0),
        }
    }

    /// Returns the BAR of a region; `None` for configuration space.
    fn bar(&self, region: u32) -> Result<Option<u8>, Errno> {
        match region {
            CONFIG_REGION => Ok(None),
            bar if self.device.bar_bytes.get(bar as usize).is_some_and(|bytes| *bytes > 0) => {
                Ok(Some(bar as u8))
            }
            _ => Err(Errno::INVAL),
        }
    }

    fn set_interrupts(
        &self,
        set: SetInterrupts,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Vec<u8>, Refusal> {
        let (start, count) = (set.start as usize, set.count as usize);
        let have = if set.index == MSIX { usize::from(self.device.vectors) } else { 0 };
        let is_off = set.action == InterruptAction::Trigger && set.data == InterruptData::None;
        // Without a count a command can only turn off all interrupts of a kind.
        let is_range = match count {
            0 => start == 0 && is_off,
            _ => start.checked_add(count).is_some_and(|end| end <= have),
        };
        let takes_descriptors = set.action == InterruptAction::Trigger
            && set.data == InterruptData::Eventfds
            && (descriptors.is_empty() || descriptors.len() == count);
        if set.index >= INTERRUPT_KINDS
            || !is_range
            || !(descriptors.is_empty() || takes_descriptors)
        {
            return Err(Errno::INVAL.into());
        }
        let are_meant = match set.data {
            InterruptData::Bools(bools) => Some(bools),
            InterruptData::None => Some(vec![true; count]),
            InterruptData::Eventfds => None,
        };
        let what = match (set.action, are_meant) {
            _ if is_off && count == 0 && have == 0 => return Ok(Vec::new()),
            _ if is_off && count == 0 => What::VectorsOff,
            (InterruptAction::Trigger, Some(are_meant)) => What::Trigger { start, are_meant },
            (InterruptAction::Trigger, None) if descriptors.is_empty() => {
                What::SetVectors { start, eventfds: (0..count).map(|_| None).collect() }
            }
            (InterruptAction::Trigger, None) => {
                let eventfds = descriptors.into_iter().map(Some).collect();
                What::SetVectors { start, eventfds }
            }
            (action, Some(are_meant)) => {
                What::Mask { start, are_meant, is_mask: action == InterruptAction::Mask }
            }
            // Descriptors that unmask by a signal are for INTx.
            (_, None) => return Err(Errno::INVAL.into()),
        };
        Ok(self.asker.ask(what)?)
    }
}

fn config_offset(offset: u64, bytes: usize) -> Result<u16, Errno> {
    let end = offset.checked_add(bytes as u64).ok_or(Errno::INVAL)?;
    if end > CONFIG_SPACE_BYTES.into() {
        return Err(Errno::INVAL);
    }
    u16::try_from(offset).map_err(|_| Errno::INVAL)
}
