// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes to functions of this machine: their driver, their payload size, and their
//! reconfiguration while the machine runs.

use crosslane_driver::{PathEnd, PlanError, set_max_payload_on_path};
use crosslane_host::kinds;
use crosslane_results::machine::{
    Binding, BoundFunction, FunctionPayload, PayloadSizes, PortPayload, Reload,
};
use crosslane_vfio::sysfs::{
    self, Address, BindOptions, Bound, ConfigurationWrites, Machine, ReloadOptions, Segment,
    SysfsError, Tree,
};
use thiserror::Error;

/// Binds a function to vfio-pci, or to another driver for programs.
///
/// # Errors
/// A function that does not exist or that the system uses, and a missing right.
pub fn bind(
    machine: &Machine,
    address: Address,
    options: &BindOptions,
) -> Result<Binding, SysfsError> {
    sysfs::bind(machine, address, options).map(binding)
}

/// Gives a function back to the kernel's own driver; with `force` also one that a program has open.
///
/// # Errors
/// As [`bind`].
pub fn unbind(machine: &Machine, address: Address, force: bool) -> Result<Binding, SysfsError> {
    sysfs::unbind(machine, address, force).map(binding)
}

fn binding(bound: Bound) -> Binding {
    let others = bound.in_the_way.into_iter();
    Binding {
        address: bound.address.to_string(),
        before: bound.before,
        driver: bound.now,
        iommu_group: bound.group,
        in_the_way: others
            .map(|(address, driver)| BoundFunction { address: address.to_string(), driver })
            .collect(),
    }
}

/// Removes a card, waits until it is reconfigured, and restores it.
///
/// # Errors
/// A card that cannot be removed or restored, and the deadline.
pub fn reload(
    machine: &Machine,
    address: Address,
    options: &mut ReloadOptions<'_>,
) -> Result<Reload, SysfsError> {
    let reloaded = sysfs::reload(machine, address, options)?;
    Ok(Reload {
        address: reloaded.now.address.to_string(),
        port: reloaded.port.to_string(),
        took_seconds: reloaded.took.as_secs_f64(),
        driver: reloaded.now.driver,
        notes: reloaded.notes,
        recorded: reloaded.recorded,
    })
}

/// Reason for which the payload size of a path cannot be set.
#[derive(Debug, Error)]
pub enum PathError {
    /// Both ends are host memory.
    #[error("one end has to be a function")]
    NoFunction,
    /// The ends are in different domains.
    #[error("{0} and {1} are in different domains: no path joins them")]
    Domains(Address, Address),
    /// A function does not exist, or the machine has no PCI bus.
    #[error(transparent)]
    Function(#[from] SysfsError),
    /// No path joins the ends, or a port does not take the size.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

kinds!(PathError {
    Self::NoFunction | Self::Domains(..) => InvalidArgument,
    Self::Function(error) => error.kind(),
    Self::Plan(error) => error.kind(),
});

/// Sets Max_Payload_Size of every port on the path between two ends, or of none. An end without an
/// address is host memory.
///
/// # Errors
/// Ends without a path, a size that a port does not support or keep, and a missing right.
pub fn set_max_payload(
    machine: &Machine,
    ends: [Option<Address>; 2],
    bytes: u32,
) -> Result<PayloadSizes, PathError> {
    let domain = match ends {
        [Some(a), Some(b)] if a.domain != b.domain => return Err(PathError::Domains(a, b)),
        [Some(end), _] | [None, Some(end)] => end.domain,
        [None, None] => return Err(PathError::NoFunction),
    };
    let [from, to] =
        ends.map(|end| end.map_or(PathEnd::HostMemory, |address| PathEnd::Function(address.id)));
    let before = machine.tree()?;
    let segment = Segment::new(&before, domain, ConfigurationWrites::Allowed);
    let names = set_max_payload_on_path(&segment, from, to, bytes)?;
    let path: Vec<Address> = names.iter().filter_map(|name| name.parse().ok()).collect();
    let tree = before.read_again()?;
    let set = |tree: &Tree, address: Address| {
        tree.function(address).ok()?.express().map(|express| express.max_payload_bytes)
    };
    let ports = path.iter().map(|&port| PortPayload {
        address: port.to_string(),
        before_bytes: set(&before, port),
        bytes: set(&tree, port),
    });
    Ok(PayloadSizes { ports: ports.collect(), set_to_less: set_to_less(&tree, &path, bytes) })
}

/// Functions below the ports of a path that are set to less than these now: they may be sent longer
/// packets than they take.
fn set_to_less(tree: &Tree, path: &[Address], bytes: u32) -> Vec<FunctionPayload> {
    tree.functions()
        .filter(|function| !path.contains(&function.address))
        .filter(|function| {
            let above = tree.above(function.address);
            above.iter().any(|bridge| path.contains(&bridge.address))
        })
        .filter_map(|function| Some((function, function.express()?.max_payload_bytes)))
        .filter(|(_, set)| *set < bytes)
        .map(|(function, bytes)| FunctionPayload { address: function.address.to_string(), bytes })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(a: Option<&str>, b: Option<&str>) -> String {
        let end = |text: Option<&str>| text.map(|text| text.parse().unwrap());
        let nowhere = Machine::below("/nowhere".as_ref());
        set_max_payload(&nowhere, [end(a), end(b)], 256).unwrap_err().to_string()
    }

    #[test]
    fn a_path_has_two_ends_in_one_domain() {
        assert_eq!(refused(None, None), "one end has to be a function");
        let words = "0000:03:00.0 and 0001:03:00.0 are in different domains: no path joins them";
        assert_eq!(refused(Some("03:00.0"), Some("0001:03:00.0")), words);
        assert!(refused(Some("10000:03:00.0"), None).contains("cannot list the PCI functions"));
    }
}
