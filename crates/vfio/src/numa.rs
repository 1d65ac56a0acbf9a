// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NUMA nodes of memory that devices reach: the node is chosen when a bus is opened, and all its
//! memory is allocated there.
//!
//! Memory of `memfd` files and huge pages takes its node from the policy of the thread that
//! allocates it, so this one is set meanwhile (`set_mempolicy`); `mbind` then keeps the pages there
//! while they are not pinned. The card's own node is preferred (`MPOL_PREFERRED`): far memory is
//! better than none, and a program that asks for none is not killed because a node is full. A node
//! that a program names is binding (`MPOL_BIND`): a measurement of that node must not be made
//! elsewhere.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_long, c_ulong};
use std::fmt;
use std::ptr;

use crosslane_host::PageSize;
use rustix::io::Errno;

use crate::function::{FunctionError, Result};
use crate::memory::{Mapped, Pages, available_bytes};
use crate::sysfs::Machine;

/// Words of a set of nodes: as many as any kernel supports, 1024 (`CONFIG_NODES_SHIFT`).
const MASK_WORDS: usize = 1024 / c_ulong::BITS as usize;
/// Length of a set in the system calls, which is one more than its bits.
const MASK_BITS: c_ulong = 1024 + 1;
/// Flags of `get_mempolicy` (`linux/mempolicy.h`): the node, and of the page at an address.
const MPOL_F_NODE: c_int = 1;
const MPOL_F_ADDR: c_int = 2;
/// No flags, no address or an empty set, as wide as the kernel reads it.
const NONE: c_ulong = 0;

/// A set of nodes.
type Mask = [c_ulong; MASK_WORDS];

/// NUMA node in whose memory the buffers of a bus lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NumaNode {
    /// That of the bus's first function that has one, as far as it has room. A policy that the
    /// program has already (`numactl`) stays in force, and on a machine with one node nothing is
    /// set.
    #[default]
    OfCard,
    /// This node and no other: memory beyond its room is refused.
    Is(u32),
}

/// A node for memory, with the kernel's mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Policy {
    node: u32,
    mode: c_int,
}

/// Place of a bus's memory. Its text is a phrase such as `node 1, that of the card`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    policy: Option<Policy>,
    words: String,
    is_refused: bool,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl Placement {
    /// Memory wherever the kernel takes it from, for the reason `why`.
    pub(crate) fn any(why: impl fmt::Display) -> Self {
        Self { policy: None, words: format!("any node: {why}"), is_refused: false }
    }

    /// Returns the place of memory for a card at node `card`, as a bus chooses it by default. Only
    /// on this machine is it tried out.
    pub fn of_card(card: Option<u32>, machine: &Machine) -> Self {
        let planned = Self::planned(NumaNode::OfCard, card, machine);
        let placed = match *machine == Machine::this() {
            true => planned.and_then(Self::tried),
            false => planned,
        };
        placed.unwrap_or_else(Self::any)
    }

    /// Chooses the place of memory for functions whose node is `card`, and allocates a page there.
    ///
    /// # Errors
    /// A node that was asked for and that the machine lacks, or that the kernel refuses.
    pub(crate) fn choose(wanted: NumaNode, card: Option<u32>, machine: &Machine) -> Result<Self> {
        Self::planned(wanted, card, machine)?.tried()
    }

    /// Chooses a place.
    fn planned(wanted: NumaNode, card: Option<u32>, machine: &Machine) -> Result<Self> {
        let nodes = machine.memory_nodes();
        let (policy, whose) = match (wanted, card) {
            (NumaNode::Is(0), _) if nodes.is_empty() => {
                return Ok(Self::any("the kernel knows only one"));
            }
            (NumaNode::Is(node), _) if !nodes.contains(&node) => {
                let numbers: Vec<String> = nodes.iter().map(u32::to_string).collect();
                let why = match numbers.as_slice() {
                    [] => "its kernel knows only one, 0".to_owned(),
                    [only] => format!("it has one with memory, {only}"),
                    _ => format!("those with memory are {}", numbers.join(", ")),
                };
                return Err(FunctionError::unsupported(
                    "this machine",
                    format!("NUMA node {node}"),
                    why,
                ));
            }
            (NumaNode::Is(node), _) => (Policy { node, mode: libc::MPOL_BIND }, "as asked for"),
            (NumaNode::OfCard, _) if nodes.len() < 2 => {
                return Ok(Self::any("the machine has one"));
            }
            (NumaNode::OfCard, None) => return Ok(Self::any("the card names none")),
            (NumaNode::OfCard, Some(node)) if !nodes.contains(&node) => {
                return Ok(Self::any(format_args!("that of the card, {node}, has no memory")));
            }
            (NumaNode::OfCard, Some(_))
                if of_thread().is_ok_and(|it| it.0 != libc::MPOL_DEFAULT) =>
            {
                return Ok(Self::any("the program runs under a policy of its own (numactl)"));
            }
            (NumaNode::OfCard, Some(node)) => {
                (Policy { node, mode: libc::MPOL_PREFERRED }, "that of the card")
            }
        };
        let words = format!("node {}, {whose}", policy.node);
        Ok(Self { policy: Some(policy), words, is_refused: false })
    }

    /// Allocates a page there. Where the kernel refuses the card's node, memory may be anywhere.
    fn tried(self) -> Result<Self> {
        let Some(Policy { node, mode }) = self.policy else { return Ok(self) };
        match Pages::allocate_at(1, PageSize::Small, &self) {
            Ok(_) => Ok(self),
            Err(errno) if mode == libc::MPOL_PREFERRED => {
                let why = format!("the kernel refuses node {node}, that of the card: {errno}");
                Ok(Self { is_refused: true, ..Self::any(why) })
            }
            Err(errno) => {
                let remedy = match errno {
                    Errno::PERM => {
                        "A container forbids set_mempolicy and mbind; Docker's `--cap-add \
                         SYS_NICE` permits them"
                    }
                    Errno::INVAL => {
                        "A cpuset may forbid the node: /proc/self/status lists those of the \
                         process as Mems_allowed_list"
                    }
                    _ => "",
                };
                let what = format!("placing buffers on NUMA node {node}");
                Err(FunctionError::system("this machine", &what, errno, remedy))
            }
        }
    }

    /// Returns the node, if one was chosen.
    pub fn node(&self) -> Option<u32> {
        self.policy.map(|policy| policy.node)
    }

    /// Whether the kernel refused the card's node.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Returns the memory that can be allocated there, bytes.
    pub(crate) fn available_bytes(&self) -> u64 {
        let of_machine = available_bytes();
        match self.policy {
            Some(Policy { node, mode: libc::MPOL_BIND }) => {
                of_machine.min(Machine::this().free_bytes_of(node).unwrap_or(u64::MAX))
            }
            _ => of_machine,
        }
    }

    /// Has this thread allocate memory there until the result is dropped.
    pub(crate) fn enter(&self) -> Result<Option<Entered>, Errno> {
        let Some(policy) = self.policy else { return Ok(None) };
        let (mode, nodes) = of_thread()?;
        set_of_thread(policy.mode, &policy.mask())?;
        Ok(Some(Entered { mode, nodes }))
    }

    /// Keeps the pages of a mapping there.
    pub(crate) fn keep(&self, mapped: &Mapped) -> Result<(), Errno> {
        let Some(policy) = self.policy else { return Ok(()) };
        let (address, bytes) = (mapped.address(), mapped.bytes());
        let (mode, mask) = (policy.mode, policy.mask());
        // SAFETY: the range is a mapping of this process, and the set is valid for the call.
        done(unsafe {
            libc::syscall(libc::SYS_mbind, address, bytes, mode, mask.as_ptr(), MASK_BITS, NONE)
        })
    }
}

impl Policy {
    fn mask(self) -> Mask {
        let mut mask = [0; MASK_WORDS];
        let (word, bit) = (self.node / c_ulong::BITS, self.node % c_ulong::BITS);
        if let Some(word) = mask.get_mut(word as usize) {
            *word = 1 << bit;
        }
        mask
    }
}

/// A thread that allocates memory at a place; dropping it restores the policy of before.
pub(crate) struct Entered {
    mode: c_int,
    nodes: Mask,
}

impl Drop for Entered {
    fn drop(&mut self) {
        // The kernel had accepted it before.
        let _ = set_of_thread(self.mode, &self.nodes);
    }
}

/// Returns the node of the page at an address of a mapping; `None` if the kernel does not say.
pub(crate) fn node_of(mapped: &Mapped, offset: u64) -> Option<u32> {
    let mut node: c_int = -1;
    let address = mapped.address() as u64 + offset;
    let (none, flags) = (ptr::null_mut::<c_ulong>(), c_long::from(MPOL_F_NODE | MPOL_F_ADDR));
    // SAFETY: the kernel stores one number.
    let answer = unsafe {
        let into = ptr::from_mut(&mut node);
        done(libc::syscall(libc::SYS_get_mempolicy, into, none, NONE, address, flags))
    };
    answer.ok().and_then(|()| u32::try_from(node).ok())
}

/// Returns mode and nodes of this thread's policy.
fn of_thread() -> Result<(c_int, Mask), Errno> {
    let (mut mode, mut nodes): (c_int, Mask) = (0, [0; MASK_WORDS]);
    // SAFETY: the kernel stores a number and a set of that length.
    done(unsafe {
        let (mode, nodes) = (ptr::from_mut(&mut mode), nodes.as_mut_ptr());
        libc::syscall(libc::SYS_get_mempolicy, mode, nodes, MASK_BITS, NONE, NONE)
    })?;
    Ok((mode, nodes))
}

fn set_of_thread(mode: c_int, nodes: &Mask) -> Result<(), Errno> {
    // Policies without nodes take no set.
    let (set, bits) = match nodes.iter().all(|word| *word == 0) {
        true => (ptr::null(), NONE),
        false => (nodes.as_ptr(), MASK_BITS),
    };
    // SAFETY: the set is valid for the call.
    done(unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, set, bits) })
}

fn done(answer: c_long) -> Result<(), Errno> {
    match answer {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::NOSYS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose nodes are these, in a folder.
    fn machine(nodes: &str) -> (tempfile::TempDir, Machine) {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("sys/devices/system/node");
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("has_memory"), nodes).unwrap();
        let machine = Machine::below(folder.path());
        (folder, machine)
    }

    /// Lines of `/proc/self/numa_maps` of a mapping: its policy, and its pages by node.
    fn maps_of(mapped: &Mapped) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/numa_maps").ok()?;
        let start = format!("{:x} ", mapped.address());
        maps.lines().find_map(|line| line.strip_prefix(&start).map(str::to_owned))
    }

    #[test]
    fn a_cards_node_is_taken_only_where_there_are_several() {
        if of_thread().is_err() {
            // Without the right to place memory nothing is placed.
            return;
        }
        let words = |nodes: &str, card| {
            let (_folder, machine) = machine(nodes);
            Placement::choose(NumaNode::OfCard, card, &machine).unwrap().to_string()
        };
        assert_eq!(words("0\n", Some(0)), "any node: the machine has one");
        assert_eq!(words("", Some(0)), "any node: the machine has one");
        assert_eq!(words("0-1\n", None), "any node: the card names none");
        let far = "any node: that of the card, 2, has no memory";
        assert_eq!(words("0-1,3\n", Some(2)), far);
        assert_eq!(words("0-1,3\n", Some(0)), "node 0, that of the card");
        // Node 700 is none of this machine's, whatever the folder says.
        let (_folder, machine) = machine("0,700\n");
        let refused = Placement::choose(NumaNode::OfCard, Some(700), &machine).unwrap();
        assert!(refused.is_refused() && refused.node().is_none(), "{refused}");
        assert!(refused.to_string().starts_with("any node: the kernel refuses node 700"));
        let error = Placement::choose(NumaNode::Is(700), None, &machine).unwrap_err().to_string();
        assert!(error.starts_with("this machine: placing buffers on NUMA node 700 failed: "));
        assert!(error.contains("Mems_allowed_list"), "{error}");
    }

    #[test]
    fn a_node_that_a_machine_lacks_is_refused() {
        let refused = |nodes: &str, node| {
            let (_folder, machine) = machine(nodes);
            Placement::choose(NumaNode::Is(node), None, &machine).unwrap_err().to_string()
        };
        let one = "this machine has no NUMA node 1: it has one with memory, 0";
        assert_eq!(refused("0\n", 1), one);
        let several = "this machine has no NUMA node 2: those with memory are 0, 1, 4, 5, 6";
        assert_eq!(refused("0-1,4-6\n", 2), several);
        assert_eq!(refused("", 1), "this machine has no NUMA node 1: its kernel knows only one, 0");
        let (_folder, machine) = machine("");
        assert_eq!(Placement::choose(NumaNode::Is(0), None, &machine).unwrap().node(), None);
    }

    /// The kernel is asked where the pages are, and under what policy.
    #[test]
    fn pages_lie_on_the_node_that_is_asked_for() {
        let machine = Machine::this();
        let Some(&node) = machine.memory_nodes().last().filter(|_| of_thread().is_ok()) else {
            return;
        };
        let placed = Placement::choose(NumaNode::Is(node), None, &machine).unwrap();
        assert_eq!(
            (placed.node(), placed.to_string()),
            (Some(node), format!("node {node}, as asked for"))
        );
        let pages = Pages::allocate_at(3 << 12, PageSize::Small, &placed).unwrap();
        let mapped = pages.mapped();
        mapped.store(0, &[1; 3 << 12], crate::StoreWidth::B8);
        for page in 0..3 {
            assert_eq!(node_of(mapped, page << 12), Some(node));
        }
        assert_eq!(pages.node(), Some(node));
        if let Some(line) = maps_of(mapped) {
            assert!(line.starts_with(&format!("bind:{node} ")), "{line}");
            assert!(line.contains(&format!(" N{node}=3")), "{line}");
        }
        // The thread is as it was.
        assert_eq!(of_thread().unwrap().0, libc::MPOL_DEFAULT);
        let preferred = Policy { node, mode: libc::MPOL_PREFERRED };
        let preferred = Placement { policy: Some(preferred), ..placed.clone() };
        let pages = Pages::allocate_at(1, PageSize::Huge, &preferred).unwrap();
        if let Some(line) = maps_of(pages.mapped()) {
            assert!(line.starts_with(&format!("prefer:{node} ")), "{line}");
        }
        // Beyond the node's memory an allocation is refused, and no program is killed.
        let free = placed.available_bytes();
        assert!(free <= machine.free_bytes_of(node).unwrap());
        let refused = Pages::allocate_at(2 * free, PageSize::Small, &placed).err();
        assert_eq!(refused, Some(Errno::NOMEM));
        // A policy that the thread has is kept.
        let before = placed.enter().unwrap();
        let (_folder, two) = self::machine(&format!("{node},{}\n", node + 1));
        let own = Placement::choose(NumaNode::OfCard, Some(node), &two).unwrap();
        assert_eq!(
            own.to_string(),
            "any node: the program runs under a policy of its own (numactl)"
        );
        drop(before);
        assert_eq!(of_thread().unwrap().0, libc::MPOL_DEFAULT);
    }
}
