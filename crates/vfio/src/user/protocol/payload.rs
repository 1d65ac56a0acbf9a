// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What stands behind the headers.

use super::{Fields, MAX_DATA_BYTES, ProtocolError};

/// Bytes of `struct vfio_region_info`.
const REGION_INFO_BYTES: usize = 32;
/// Identity of the capability that says which parts of a region can be mapped.
const CAPABILITY_SPARSE: u16 = 1;
/// Capabilities and parts of one region that are looked at: more than any device has.
const MOST_AREAS: usize = 64;

/// Memory that the device may reach: a part of the file that comes with the message, if one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaMap {
    /// The device may read it.
    pub readable: bool,
    /// The device may write it.
    pub writable: bool,
    /// Where in the file it begins.
    pub offset: u64,
    /// Its first I/O virtual address.
    pub address: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

impl DmaMap {
    const BYTES: usize = 32;

    /// As it goes over the socket.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let flags = u32::from(self.readable) | u32::from(self.writable) << 1;
        let mut bytes = (Self::BYTES as u32).to_ne_bytes().to_vec();
        bytes.extend(flags.to_ne_bytes());
        for number in [self.offset, self.address, self.bytes] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes
    }

    /// From the socket.
    ///
    /// # Errors
    /// Not whole.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields::of("a mapping for DMA", bytes, Self::BYTES)?;
        let (_argsz, flags) = (fields.u32()?, fields.u32()?);
        Ok(Self {
            readable: flags & 1 != 0,
            writable: flags & 2 != 0,
            offset: fields.u64()?,
            address: fields.u64()?,
            bytes: fields.u64()?,
        })
    }
}

/// Memory that the device may no longer reach; the reply is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaUnmap {
    /// All that is mapped, whatever the range says.
    pub all: bool,
    /// First I/O virtual address.
    pub address: u64,
    /// Length in bytes. Address and length together may be 2^64.
    pub bytes: u64,
}

impl DmaUnmap {
    const BYTES: usize = 24;
    /// `VFIO_DMA_UNMAP_FLAG_ALL`.
    const ALL: u32 = 1 << 1;

    /// As it goes over the socket.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let flags = if self.all { Self::ALL } else { 0 };
        let mut bytes = (Self::BYTES as u32).to_ne_bytes().to_vec();
        bytes.extend(flags.to_ne_bytes());
        for number in [self.address, self.bytes] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes
    }

    /// From the socket.
    ///
    /// # Errors
    /// Not whole.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields::of("the end of a mapping", bytes, Self::BYTES)?;
        let (_argsz, flags) = (fields.u32()?, fields.u32()?);
        Ok(Self { all: flags & Self::ALL != 0, address: fields.u64()?, bytes: fields.u64()? })
    }
}

/// What kind of device it is; the command has zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// It can be reset.
    pub resets: bool,
    /// It is a PCI device.
    pub is_pci: bool,
    /// How many regions it has.
    pub regions: u32,
    /// How many kinds of interrupts it has.
    pub interrupt_kinds: u32,
}

impl DeviceInfo {
    const BYTES: usize = 16;

    /// As it goes over the socket.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let flags = u32::from(self.resets) | u32::from(self.is_pci) << 1;
        let numbers = [Self::BYTES as u32, flags, self.regions, self.interrupt_kinds];
        numbers.into_iter().flat_map(u32::to_ne_bytes).collect()
    }

    /// From the socket.
    ///
    /// # Errors
    /// Not whole.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields::of("what the device is", bytes, Self::BYTES)?;
        let (_argsz, flags) = (fields.u32()?, fields.u32()?);
        Ok(Self {
            resets: flags & 1 != 0,
            is_pci: flags & 2 != 0,
            regions: fields.u32()?,
            interrupt_kinds: fields.u32()?,
        })
    }
}

/// A part of a region that can be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Where in the region it begins.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// What a region is. In the command only `index` and `room_bytes` count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionInfo {
    /// Bytes that a reply may have, or (in a reply) that a whole one has.
    pub room_bytes: u32,
    /// It can be read.
    pub readable: bool,
    /// It can be written.
    pub writable: bool,
    /// It can be mapped, by the descriptor that comes with the reply.
    pub mappable: bool,
    /// Which region.
    pub index: u32,
    /// Its length in bytes.
    pub bytes: u64,
    /// Where in the descriptor's file it begins.
    pub file_offset: u64,
    /// The parts that can be mapped; empty where that is all of it, or nothing.
    pub areas: Vec<Area>,
}

impl RegionInfo {
    /// As a reply goes over the socket, to a client that has `room_bytes` for it.
    #[must_use]
    pub fn encode(&self, room_bytes: u32) -> Vec<u8> {
        let mut areas = Vec::new();
        if !self.areas.is_empty() {
            areas.extend(CAPABILITY_SPARSE.to_ne_bytes());
            areas.extend(1_u16.to_ne_bytes());
            areas.extend(0_u32.to_ne_bytes());
            areas.extend((self.areas.len() as u32).to_ne_bytes());
            areas.extend(0_u32.to_ne_bytes());
            for area in &self.areas {
                areas.extend(area.offset.to_ne_bytes());
                areas.extend(area.bytes.to_ne_bytes());
            }
        }
        let whole_bytes = REGION_INFO_BYTES + areas.len();
        let has_room = whole_bytes <= room_bytes as usize;
        let mut flags = u32::from(self.readable) | u32::from(self.writable) << 1;
        // Who has no room asks again; QEMU takes a list that is nowhere for an error.
        let has_list = has_room && !areas.is_empty();
        flags |= u32::from(self.mappable) << 2 | u32::from(has_list) << 3;
        let first = if has_list { REGION_INFO_BYTES as u32 } else { 0 };
        let mut bytes = Vec::with_capacity(whole_bytes);
        for number in [whole_bytes as u32, flags, self.index, first] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(self.bytes.to_ne_bytes());
        bytes.extend(self.file_offset.to_ne_bytes());
        if has_room {
            bytes.extend(areas);
        }
        bytes
    }

    /// A command: it asks about a region.
    #[must_use]
    pub fn question(index: u32, room_bytes: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(REGION_INFO_BYTES);
        for number in [room_bytes, 0, index, 0] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.resize(REGION_INFO_BYTES, 0);
        bytes
    }

    /// From the socket, a command or a reply.
    ///
    /// # Errors
    /// Not whole, or a list of parts that leads out of the message or in a circle.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let what = "what a region is";
        let mut fields = Fields::of(what, bytes, REGION_INFO_BYTES)?;
        let (room_bytes, flags, index) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let (first, size, file_offset) = (fields.u32()?, fields.u64()?, fields.u64()?);
        let areas = match flags & 8 != 0 && first != 0 {
            true => Self::areas(index, bytes, first as usize)?,
            false => Vec::new(),
        };
        Ok(Self {
            room_bytes,
            readable: flags & 1 != 0,
            writable: flags & 2 != 0,
            mappable: flags & 4 != 0,
            index,
            bytes: size,
            file_offset,
            areas,
        })
    }

    fn areas(region: u32, bytes: &[u8], first: usize) -> Result<Vec<Area>, ProtocolError> {
        let astray = |why| ProtocolError::BadAreas { region, why };
        let (mut at, mut areas) = (first, Vec::new());
        for _ in 0..MOST_AREAS {
            let bytes = bytes.get(at..).filter(|_| at >= REGION_INFO_BYTES);
            let bytes = bytes.ok_or(astray("it begins outside of the message"))?;
            let mut fields = Fields::of("a capability of a region", bytes, 8)?;
            let (id, _version, next) = (fields.u16()?, fields.u16()?, fields.u32()?);
            if id == CAPABILITY_SPARSE {
                let (count, _reserved) = (fields.u32()?, fields.u32()?);
                if count as usize > MOST_AREAS {
                    return Err(astray("it has more parts than a region can have"));
                }
                for _ in 0..count {
                    areas.push(Area { offset: fields.u64()?, bytes: fields.u64()? });
                }
            }
            if next == 0 {
                return Ok(areas);
            }
            at = next as usize;
        }
        Err(astray("it does not end"))
    }
}

/// What interrupts of a kind there are. In the command only `index` counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterruptInfo {
    /// They can signal descriptors.
    pub eventfd: bool,
    /// Which kind.
    pub index: u32,
    /// How many.
    pub count: u32,
}

impl InterruptInfo {
    const BYTES: usize = 16;

    /// As it goes over the socket.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let numbers = [Self::BYTES as u32, u32::from(self.eventfd), self.index, self.count];
        numbers.into_iter().flat_map(u32::to_ne_bytes).collect()
    }

    /// From the socket, a command or a reply.
    ///
    /// # Errors
    /// Not whole.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields::of("what interrupts there are", bytes, Self::BYTES)?;
        let (_argsz, flags) = (fields.u32()?, fields.u32()?);
        Ok(Self { eventfd: flags & 1 != 0, index: fields.u32()?, count: fields.u32()? })
    }
}

/// What comes with a command about interrupts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterruptData {
    /// Nothing: it is for all of them.
    None,
    /// Which of them it is for.
    Bools(Vec<bool>),
    /// The descriptors of the message, one each; none at all to take them away.
    Eventfds,
}

/// What is to be done about interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptAction {
    /// Hold them back.
    Mask,
    /// No longer.
    Unmask,
    /// Make them happen, or say what happens when they do.
    Trigger,
}

/// A command about interrupts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetInterrupts {
    /// What comes with it.
    pub data: InterruptData,
    /// What is to be done.
    pub action: InterruptAction,
    /// Which kind.
    pub index: u32,
    /// The first of them.
    pub start: u32,
    /// How many; none and no data: all are turned off.
    pub count: u32,
}

impl SetInterrupts {
    const BYTES: usize = 20;

    /// As it goes over the socket.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (data, bools) = match &self.data {
            InterruptData::None => (1, &[][..]),
            InterruptData::Bools(bools) => (1 << 1, &bools[..]),
            InterruptData::Eventfds => (1 << 2, &[][..]),
        };
        let action = match self.action {
            InterruptAction::Mask => 1 << 3,
            InterruptAction::Unmask => 1 << 4,
            InterruptAction::Trigger => 1 << 5,
        };
        let argsz = (Self::BYTES + bools.len()) as u32;
        let numbers = [argsz, data | action, self.index, self.start, self.count];
        let mut bytes: Vec<u8> = numbers.into_iter().flat_map(u32::to_ne_bytes).collect();
        bytes.extend(bools.iter().map(|is_set| u8::from(*is_set)));
        bytes
    }

    /// From the socket; none where data or action are not exactly one of those that there are.
    ///
    /// # Errors
    /// Not whole.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, ProtocolError> {
        let what = "a command about interrupts";
        let mut fields = Fields::of(what, bytes, Self::BYTES)?;
        let (_argsz, flags) = (fields.u32()?, fields.u32()?);
        let (index, start, count) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let data = match flags & 0b111 {
            0b001 => InterruptData::None,
            0b010 => {
                let bools = fields.bytes.get(..count as usize);
                let have = fields.bytes.len();
                let need = count as usize;
                let bools = bools.ok_or(ProtocolError::TooShort { what, need, have })?;
                InterruptData::Bools(bools.iter().map(|byte| *byte != 0).collect())
            }
            0b100 => InterruptData::Eventfds,
            _ => return Ok(None),
        };
        let action = match flags >> 3 {
            0b001 => InterruptAction::Mask,
            0b010 => InterruptAction::Unmask,
            0b100 => InterruptAction::Trigger,
            _ => return Ok(None),
        };
        Ok(Some(Self { data, action, index, start, count }))
    }
}

/// A read or write of a region: the command, and what its reply begins with. Data follow in the
/// command of a write and in the reply to a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionAccess {
    /// Where in the region it begins.
    pub offset: u64,
    /// Which region.
    pub region: u32,
    /// Its length in bytes.
    pub bytes: u32,
}

impl RegionAccess {
    /// Bytes of it without the data.
    pub const BYTES: usize = 16;
    /// Most bytes of data.
    pub const MOST_BYTES: usize = MAX_DATA_BYTES as usize;

    /// As it goes over the socket, with the data behind it.
    #[must_use]
    pub fn encode(&self, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::BYTES + data.len());
        bytes.extend(self.offset.to_ne_bytes());
        bytes.extend(self.region.to_ne_bytes());
        bytes.extend(self.bytes.to_ne_bytes());
        bytes.extend(data);
        bytes
    }

    /// From the socket, and what follows.
    ///
    /// # Errors
    /// Not whole, or more data than one message carries.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), ProtocolError> {
        let what = "an access to a region";
        let mut fields = Fields::of(what, bytes, Self::BYTES)?;
        let access = Self { offset: fields.u64()?, region: fields.u32()?, bytes: fields.u32()? };
        if access.bytes > MAX_DATA_BYTES {
            let bytes = access.bytes.into();
            return Err(ProtocolError::TooMuchData { what, bytes });
        }
        Ok((access, fields.bytes))
    }

    /// The same, of which exactly so many data follow as it says.
    ///
    /// # Errors
    /// As there, and too few data.
    pub fn decode_with_data(bytes: &[u8]) -> Result<(Self, &[u8]), ProtocolError> {
        let (access, data) = Self::decode(bytes)?;
        let (need, have) = (access.bytes as usize, data.len());
        let what = "data of an access to a region";
        let data = data.get(..need).ok_or(ProtocolError::TooShort { what, need, have })?;
        Ok((access, data))
    }
}

/// An access of the server's to memory of the client: the command, and what its reply begins with.
/// Data follow in the command of a write and in the reply to a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaAccess {
    /// First I/O virtual address.
    pub address: u64,
    /// Length in bytes.
    pub bytes: u64,
}

impl DmaAccess {
    /// Bytes of it without the data.
    pub const BYTES: usize = 16;
    /// The same where a reply to a write has only half of the length, as the specification says.
    const SHORT_BYTES: usize = 12;

    /// As it goes over the socket, with the data behind it.
    #[must_use]
    pub fn encode(&self, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::BYTES + data.len());
        bytes.extend(self.address.to_ne_bytes());
        bytes.extend(self.bytes.to_ne_bytes());
        bytes.extend(data);
        bytes
    }

    /// From the socket, and what follows.
    ///
    /// # Errors
    /// Not whole, or more data than one message carries.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), ProtocolError> {
        let what = "an access to memory";
        let mut fields = Fields::of(what, bytes, Self::BYTES)?;
        let access = Self { address: fields.u64()?, bytes: fields.u64()? };
        if access.bytes > MAX_DATA_BYTES.into() {
            return Err(ProtocolError::TooMuchData { what, bytes: access.bytes });
        }
        Ok((access, fields.bytes))
    }

    /// The same, of which exactly so many data follow as it says.
    ///
    /// # Errors
    /// As there, and too few data.
    pub fn decode_with_data(bytes: &[u8]) -> Result<(Self, &[u8]), ProtocolError> {
        let (access, data) = Self::decode(bytes)?;
        let (need, have) = (access.bytes as usize, data.len());
        let what = "data of an access to memory";
        let data = data.get(..need).ok_or(ProtocolError::TooShort { what, need, have })?;
        Ok((access, data))
    }

    /// From the reply to a write.
    ///
    /// # Errors
    /// Not whole.
    pub fn decode_written(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields::of("the end of a write to memory", bytes, Self::SHORT_BYTES)?;
        let address = fields.u64()?;
        let is_short = bytes.len() < Self::BYTES;
        Ok(Self { address, bytes: if is_short { fields.u32()?.into() } else { fields.u64()? } })
    }
}
