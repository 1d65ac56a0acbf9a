// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A tree for functions behind sockets. Servers do not describe the ports above their functions, so
//! each is shown below a root port with the function's link and payload sizes: paths between
//! functions meet in the root complex.

use std::sync::{Arc, Mutex};

use crosslane_host::{FunctionInfo, Topology, TopologyError, lock};
use crosslane_pcie::config::{
    Capability, ConfigSpace, Identity, PortType, registers as reg, size_code,
};
use crosslane_pcie::link::LinkRate;
use crosslane_pcie::units::RoutingId;

use super::function::UserFunction;
use crate::flat;
use crate::function::{Function, Result};
use crate::sysfs::Configuration;

/// Bus of the root ports, whose device and function numbers suffice for 255 of them.
const PORTS_BUS: u8 = 0;

/// A root port that exists only in this tree.
struct RootPort {
    info: FunctionInfo,
    config: Mutex<ConfigSpace>,
}

/// Functions behind sockets, each below a root port.
pub(super) struct SocketTree {
    ports: Vec<RootPort>,
    functions: Vec<FunctionInfo>,
}

/// Reads link rate and payload size from a function's PCI Express capability, if it has one.
fn express(function: &dyn Function) -> Result<Option<(LinkRate, u32)>> {
    let mut bytes = vec![0; reg::EXTENDED_SPACE.into()];
    function.config_read(0, &mut bytes)?;
    let express = Configuration::new(bytes).express();
    Ok(express.and_then(|express| Some((express.link.rate()?, express.max_payload_bytes))))
}

impl SocketTree {
    /// Builds the tree of functions whose BARs have been assigned addresses.
    pub fn new(functions: &[Arc<UserFunction>]) -> Result<Self> {
        let mut tree = Self { ports: Vec::new(), functions: Vec::new() };
        for (number, function) in functions.iter().enumerate() {
            let mut info = flat::info(&**function)?;
            if let Some((max_rate, max_payload_bytes)) = express(&**function)? {
                let id = RoutingId::new(PORTS_BUS, (number / 8) as u8, (number % 8) as u8);
                let capability = Capability {
                    max_payload_bytes: max_payload_bytes as u16,
                    max_rate,
                    extended_tags: true,
                    ten_bit_tags: false,
                    acs: false,
                };
                let identity = Identity { class_code: 0x06_0400, ..Identity::default() };
                let port_type = PortType::RootPort;
                let mut config = ConfigSpace::bridge(port_type, identity, capability);
                let express = config.find_capability(reg::CAPABILITY_PCI_EXPRESS).unwrap_or(0);
                let size = size_code(max_payload_bytes) << reg::DEVICE_CONTROL_MAX_PAYLOAD_SHIFT;
                config.write(express + reg::DEVICE_CONTROL, size, 0b0011);
                config.write(reg::COMMAND, reg::COMMAND_MEMORY_SPACE, 0b0011);
                let bus = u32::from(info.id.bus());
                config.write(reg::PRIMARY_BUS, bus << 8 | bus << 16, 0xf);
                config.set_link_status(max_rate);
                config.set_link_active(true);
                info.parent = Some(id);
                let info = FunctionInfo {
                    id,
                    parent: None,
                    name: format!("port above {}", info.name),
                    port_type,
                    vendor: 0,
                    device: 0,
                    bars: Vec::new(),
                };
                tree.ports.push(RootPort { info, config: Mutex::new(config) });
            }
            tree.functions.push(info);
        }
        Ok(tree)
    }

    fn port(&self, function: RoutingId) -> Result<&RootPort, TopologyError> {
        let port = self.ports.iter().find(|port| port.info.id == function);
        port.ok_or(TopologyError::NoSuchFunction(function))
    }
}

impl Topology for SocketTree {
    fn functions(&self) -> Result<Vec<FunctionInfo>, TopologyError> {
        let ports = self.ports.iter().map(|port| &port.info);
        Ok(ports.chain(&self.functions).cloned().collect())
    }

    fn config_read(&self, function: RoutingId, offset: u16) -> Result<u32, TopologyError> {
        Ok(lock(&self.port(function)?.config).read(offset))
    }

    fn config_write(
        &self,
        function: RoutingId,
        offset: u16,
        value: u32,
        byte_enables: u8,
    ) -> Result<(), TopologyError> {
        lock(&self.port(function)?.config).write(offset, value, byte_enables);
        Ok(())
    }
}
