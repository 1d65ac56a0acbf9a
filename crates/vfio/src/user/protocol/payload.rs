// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Payloads of messages.

use super::{Fields, MAX_DATA_BYTES, ProtocolError};

/// Bytes of `struct vfio_region_info`.
const REGION_INFO_BYTES: usize = 32;
/// Number of the capability that lists the mappable parts of a region.
const CAPABILITY_SPARSE: u16 = 1;
/// Most capabilities and parts of one region that are decoded: more than any device has.
const MOST_AREAS: usize = 64;

/// Checks the length that a command states for its structure (`argsz`).
fn check_stated(what: &str, need_bytes: u32, stated_bytes: u32) -> Result<(), ProtocolError> {
    if (need_bytes..=MAX_DATA_BYTES).contains(&stated_bytes) {
        return Ok(());
    }
    let why = format!(
        "{what} states its length as {stated_bytes} B; {need_bytes} to {MAX_DATA_BYTES} are valid"
    );
    Err(ProtocolError::Malformed { why })
}

/// Defines a payload: its length, flags, and numbers one after the other.
macro_rules! payload {
    (
        $(#[$meta:meta])*
        $name:ident($what:literal, $bytes:literal B) {
            flags { $($(#[$of_flag:meta])* $flag:ident: $bit:literal,)* }
            numbers { $($(#[$of_number:meta])* $number:ident: $type:ident,)* }
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$of_flag])* pub $flag: bool,)*
            $($(#[$of_number])* pub $number: $type,)*
        }

        impl $name {
            /// Encodes the payload for the socket.
            pub fn encode(&self) -> Vec<u8> {
                let flags = 0_u32 $(| u32::from(self.$flag) << $bit)*;
                let mut bytes = u32::to_ne_bytes($bytes).to_vec();
                bytes.extend(flags.to_ne_bytes());
                $(bytes.extend(self.$number.to_ne_bytes());)*
                bytes
            }

            /// Decodes a payload from the socket.
            ///
            /// # Errors
            /// A payload that is too short.
            pub fn decode(bytes: &[u8]) -> Result<Self, ProtocolError> {
                let mut fields = Fields::of($what, bytes, $bytes)?;
                let (_argsz, _flags) = (fields.u32()?, fields.u32()?);
                $(let $flag = _flags >> $bit & 1 != 0;)*
                Ok(Self { $($flag,)* $($number: fields.$type()?,)* })
            }

            /// Decodes the payload of a command, as a server must.
            ///
            /// # Errors
            /// Those of [`decode`](Self::decode), a stated length that the structure does not have
            /// or no message has, and flags that do not exist.
            pub fn decode_command(bytes: &[u8]) -> Result<Self, ProtocolError> {
                let decoded = Self::decode(bytes)?;
                let mut fields = Fields::of($what, bytes, $bytes)?;
                let (stated_bytes, flags) = (fields.u32()?, fields.u32()?);
                check_stated($what, $bytes, stated_bytes)?;
                let unknown = flags & !(0_u32 $(| 1 << $bit)*);
                if unknown != 0 {
                    let why = format!("{} has unknown flags {unknown:#x}", $what);
                    return Err(ProtocolError::Malformed { why });
                }
                Ok(decoded)
            }
        }
    };
}

payload! {
    /// Memory that the device may reach: a part of the file that comes with the message, if one
    /// does.
    DmaMap("a mapping for DMA", 32 B) {
        flags {
            /// The device may read it.
            readable: 0,
            /// The device may write it.
            writable: 1,
            /// The server is to map the file that comes with the message.
            by_mapping: 2,
            /// The server is to read and write the file by system calls.
            by_calls: 3,
        }
        numbers {
            /// Offset in the file.
            offset: u64,
            /// First I/O virtual address of the range.
            address: u64,
            /// Length of the range in bytes.
            bytes: u64,
        }
    }
}

payload! {
    /// Memory that the device may no longer reach; the reply repeats it.
    DmaUnmap("the end of a mapping", 24 B) {
        flags {
            /// Asks for a bitmap of the pages that the device has written.
            dirty_pages: 0,
            /// Unmaps everything (`VFIO_DMA_UNMAP_FLAG_ALL`); address and length are 0 then.
            all: 1,
        }
        numbers {
            /// First I/O virtual address.
            address: u64,
            /// Length in bytes. Address and length may add up to 2^64.
            bytes: u64,
        }
    }
}

payload! {
    /// Description of a device; zeros in the command.
    DeviceInfo("what the device is", 16 B) {
        flags {
            /// The device can be reset.
            resets: 0,
            /// The device is a PCI device.
            is_pci: 1,
        }
        numbers {
            /// Number of regions.
            regions: u32,
            /// Number of interrupt kinds.
            interrupt_kinds: u32,
        }
    }
}

payload! {
    /// Description of the interrupts of a kind. The command uses only `index`.
    InterruptInfo("what interrupts there are", 16 B) {
        flags {
            /// They can signal eventfds.
            eventfd: 0,
        }
        numbers {
            /// Index of the kind.
            index: u32,
            /// Number of interrupts.
            count: u32,
        }
    }
}

payload! {
    /// Descriptors that stand for stores to a region; a reply with `count` 0 has none.
    RegionIoDescriptors("a question for descriptors of a region", 16 B) {
        flags {}
        numbers {
            /// Index of the region.
            index: u32,
            /// Number of descriptors; 0 in the command.
            count: u32,
        }
    }
}

/// A part of a region that can be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Offset in the region.
    pub offset: u64,
    /// Length of the area in bytes.
    pub bytes: u64,
}

/// Description of a region. The command uses only `index` and `room_bytes`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionInfo {
    /// Bytes that a reply may have or, in a reply, that a complete one has.
    pub room_bytes: u32,
    /// The region can be read.
    pub readable: bool,
    /// The region can be written.
    pub writable: bool,
    /// The region can be mapped, through the descriptor that comes with the reply.
    pub mappable: bool,
    /// Index of the region.
    pub index: u32,
    /// Length of the region in bytes.
    pub bytes: u64,
    /// Offset of the region in the descriptor's file.
    pub file_offset: u64,
    /// The mappable parts; empty if the whole region is mappable, or none of it.
    pub areas: Vec<Area>,
}

impl RegionInfo {
    /// Encodes a reply to a client that has `room_bytes` for it.
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
        // A client without room asks again; QEMU treats a flag without a list as an error.
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

    /// Encodes a command that asks about a region.
    pub fn question(index: u32, room_bytes: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(REGION_INFO_BYTES);
        for number in [room_bytes, 0, index, 0] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.resize(REGION_INFO_BYTES, 0);
        bytes
    }

    /// Decodes a command or a reply from the socket.
    ///
    /// # Errors
    /// A payload that is too short, or a list of parts that leaves the message or runs in a circle.
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

    /// Decodes a command, as a server must.
    ///
    /// # Errors
    /// Those of [`decode`](Self::decode), and no room for the structure in the reply.
    pub fn decode_command(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let question = Self::decode(bytes)?;
        let need = REGION_INFO_BYTES as u32;
        check_stated("a question about a region", need, question.room_bytes.min(MAX_DATA_BYTES))?;
        Ok(question)
    }

    fn areas(region: u32, bytes: &[u8], first: usize) -> Result<Vec<Area>, ProtocolError> {
        let astray = |why| ProtocolError::Malformed {
            why: format!("invalid capability list of region {region}: {why}"),
        };
        let (mut at, mut areas) = (first, Vec::new());
        for _ in 0..MOST_AREAS {
            let bytes = bytes.get(at..).filter(|_| at >= REGION_INFO_BYTES);
            let bytes = bytes.ok_or_else(|| astray("it begins outside of the message"))?;
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

/// Data of a command about interrupts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterruptData {
    /// No data: the command applies to all of them.
    None,
    /// A flag for each interrupt: whether the command applies to it.
    Bools(Vec<bool>),
    /// The descriptors of the message, one each; without descriptors, removes the present ones.
    Eventfds,
}

/// An action on interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptAction {
    /// Masks them.
    Mask,
    /// Unmasks them.
    Unmask,
    /// Triggers them, or sets the eventfds that they signal.
    Trigger,
}

/// A command about interrupts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetInterrupts {
    /// Data of the command.
    pub data: InterruptData,
    /// The action to take.
    pub action: InterruptAction,
    /// Index of the kind.
    pub index: u32,
    /// Number of the first interrupt.
    pub start: u32,
    /// Number of interrupts; 0 without data turns all of them off.
    pub count: u32,
}

impl SetInterrupts {
    const BYTES: usize = 20;

    /// Encodes the payload for the socket.
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

    /// Decodes a payload from the socket; `None` if its data or action is not exactly one known
    /// kind.
    ///
    /// # Errors
    /// A payload that is too short, a stated length that it cannot have, or more or fewer flags
    /// than interrupts.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, ProtocolError> {
        let what = "a command about interrupts";
        let mut fields = Fields::of(what, bytes, Self::BYTES)?;
        let (stated_bytes, flags) = (fields.u32()?, fields.u32()?);
        check_stated(what, Self::BYTES as u32, stated_bytes)?;
        let (index, start, count) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let data = match flags & 0b111 {
            0b001 => InterruptData::None,
            0b010 => {
                let bools = exactly(what, count as usize, fields.bytes)?;
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

fn first<'a>(what: &'static str, need: usize, bytes: &'a [u8]) -> Result<&'a [u8], ProtocolError> {
    bytes.get(..need).ok_or_else(|| ProtocolError::too_short(what, need, bytes.len()))
}

fn exactly<'a>(
    what: &'static str,
    need: usize,
    bytes: &'a [u8],
) -> Result<&'a [u8], ProtocolError> {
    if bytes.len() > need {
        let why = format!("{what} is for {need} and has {}", bytes.len());
        return Err(ProtocolError::Malformed { why });
    }
    first(what, need, bytes)
}

/// Defines a read or write: numbers one after the other, with data behind them in the command of a
/// write and in the reply to a read.
macro_rules! access {
    (
        $(#[$meta:meta])*
        $name:ident($what:literal, $of_data:literal) {
            $($(#[$of_number:meta])* $number:ident: $type:ident,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$of_number])* pub $number: $type,)*
        }

        impl $name {
            /// Bytes of the structure, without the data.
            pub const BYTES: usize = 16;
            /// Most bytes of data.
            pub const MOST_BYTES: usize = MAX_DATA_BYTES as usize;

            /// Encodes the payload with `data` after it.
            pub fn encode(&self, data: &[u8]) -> Vec<u8> {
                let mut bytes = Vec::with_capacity(Self::BYTES + data.len());
                $(bytes.extend(self.$number.to_ne_bytes());)*
                bytes.extend(data);
                bytes
            }

            /// Decodes a payload from the socket, and returns the bytes that follow it.
            ///
            /// # Errors
            /// A payload that is too short, or more data than one message carries.
            pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), ProtocolError> {
                let mut fields = Fields::of($what, bytes, Self::BYTES)?;
                let access = Self { $($number: fields.$type()?,)* };
                let bytes = u64::from(access.bytes);
                if bytes > MAX_DATA_BYTES.into() {
                    return Err(ProtocolError::TooMuchData { what: $what, bytes });
                }
                Ok((access, fields.bytes))
            }

            /// Like [`decode`](Self::decode), and returns exactly as many data as the payload
            /// states.
            ///
            /// # Errors
            /// Those of [`decode`](Self::decode), and too few data.
            pub fn decode_with_data(bytes: &[u8]) -> Result<(Self, &[u8]), ProtocolError> {
                let (access, data) = Self::decode(bytes)?;
                Ok((access, first($of_data, access.bytes as usize, data)?))
            }

            /// Like [`decode_with_data`](Self::decode_with_data), for the command of a write.
            ///
            /// # Errors
            /// Those of [`decode_with_data`](Self::decode_with_data), and too many data.
            pub fn decode_write(bytes: &[u8]) -> Result<(Self, &[u8]), ProtocolError> {
                let (access, data) = Self::decode(bytes)?;
                Ok((access, exactly($of_data, access.bytes as usize, data)?))
            }
        }
    };
}

access! {
    /// A read or write of a region: the command, and the beginning of its reply.
    RegionAccess("an access to a region", "data of an access to a region") {
        /// Offset in the region.
        offset: u64,
        /// Index of the region.
        region: u32,
        /// Length in bytes.
        bytes: u32,
    }
}

access! {
    /// A server's access to memory of the client: the command, and the beginning of its reply.
    DmaAccess("an access to memory", "data of an access to memory") {
        /// First I/O virtual address.
        address: u64,
        /// Length in bytes.
        bytes: u64,
    }
}

impl DmaAccess {
    /// Bytes of a reply to a write with only half of the length, as the specification has it.
    const SHORT_BYTES: usize = 12;

    /// Decodes the reply to a write.
    ///
    /// # Errors
    /// A payload that is too short.
    pub fn decode_written(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields::of("the end of a write to memory", bytes, Self::SHORT_BYTES)?;
        let address = fields.u64()?;
        let is_short = bytes.len() < Self::BYTES;
        Ok(Self { address, bytes: if is_short { fields.u32()?.into() } else { fields.u64()? } })
    }
}
