// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Declarations of `shim/shim.c`.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

/// Length of a text that the shim fills.
pub const TEXT_BYTES: usize = 128;
/// Most bytes of data with a request for a connection.
pub const MAX_GREETING_BYTES: usize = 32;

/// Opaque; allocated by the shim.
#[repr(C)]
pub struct NetworkC {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct EndpointC {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct ListenerC {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct InfoC {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct RegionC {
    _opaque: [u8; 0],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Facts {
    pub max_message_bytes: u64,
    pub transmit_slots: u64,
    pub receive_slots: u64,
    pub registers_local: u32,
    pub addresses_are_virtual: u32,
    pub provider_gives_keys: u32,
    pub version: u32,
    pub domain: [c_char; TEXT_BYTES],
}

#[repr(C)]
pub struct RegistrationC {
    pub region: *mut RegionC,
    pub descriptor: *mut c_void,
    pub key: u64,
}

pub const EVENT_REQUEST: u32 = 1;
pub const EVENT_CONNECTED: u32 = 2;
pub const EVENT_SHUTDOWN: u32 = 3;
pub const EVENT_ERROR: u32 = 4;

#[repr(C)]
pub struct EventC {
    pub kind: u32,
    pub error: i32,
    pub fid: *const c_void,
    pub request: *mut InfoC,
    pub greeting: [u8; MAX_GREETING_BYTES],
    pub greeting_bytes: u64,
    pub text: [c_char; TEXT_BYTES],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct CompletionC {
    pub slot: u32,
    pub error: i32,
    pub bytes: u64,
    pub text: [c_char; TEXT_BYTES],
}

unsafe extern "C" {
    pub fn crosslane_fi_load() -> *const c_char;
    pub fn crosslane_fi_version() -> u32;
    pub fn crosslane_fi_error_text(error: c_int) -> *const c_char;
    pub fn crosslane_fi_probe(
        provider: *const c_char,
        with_connections: c_int,
        hardware: c_int,
    ) -> c_int;
    pub fn crosslane_fi_open(
        provider: *const c_char,
        with_connections: c_int,
        hardware: c_int,
        out: *mut *mut NetworkC,
        facts: *mut Facts,
    ) -> c_int;
    pub fn crosslane_fi_close(network: *mut NetworkC);
    pub fn crosslane_fi_event_fd(network: *mut NetworkC) -> c_int;
    pub fn crosslane_fi_register(
        network: *mut NetworkC,
        memory: *mut c_void,
        bytes: u64,
        remote_read: c_int,
        remote_write: c_int,
        key: u64,
        out: *mut RegistrationC,
    ) -> c_int;
    pub fn crosslane_fi_unregister(region: *mut RegionC) -> c_int;
    pub fn crosslane_fi_endpoint_free(endpoint: *mut EndpointC);
    pub fn crosslane_fi_endpoint_new(
        network: *mut NetworkC,
        slots: u32,
        service: *const c_char,
        name: *mut u8,
        name_bytes: *mut u64,
        out: *mut *mut EndpointC,
    ) -> c_int;
    pub fn crosslane_fi_endpoint_peer(endpoint: *mut EndpointC, name: *const u8) -> c_int;
    pub fn crosslane_fi_connect(
        network: *mut NetworkC,
        node: *const c_char,
        service: *const c_char,
        by_device: c_int,
        slots: u32,
        greeting: *const u8,
        greeting_bytes: u64,
        out: *mut *mut EndpointC,
    ) -> c_int;
    pub fn crosslane_fi_accept(
        network: *mut NetworkC,
        request: *mut InfoC,
        slots: u32,
        greeting: *const u8,
        greeting_bytes: u64,
        out: *mut *mut EndpointC,
    ) -> c_int;
    pub fn crosslane_fi_reject(listener: *mut ListenerC, request: *mut InfoC);
    pub fn crosslane_fi_forget(request: *mut InfoC);
    pub fn crosslane_fi_shutdown(endpoint: *mut EndpointC);
    pub fn crosslane_fi_endpoint_fid(endpoint: *mut EndpointC) -> *const c_void;
    pub fn crosslane_fi_wait_fd(endpoint: *mut EndpointC) -> c_int;
    pub fn crosslane_fi_peer_address(
        endpoint: *mut EndpointC,
        address: *mut u8,
        bytes: *mut u64,
    ) -> c_int;
    pub fn crosslane_fi_listen(
        network: *mut NetworkC,
        node: *const c_char,
        service: *const c_char,
        by_device: c_int,
        address: *mut u8,
        address_bytes: *mut u64,
        out: *mut *mut ListenerC,
    ) -> c_int;
    pub fn crosslane_fi_listener_fid(listener: *mut ListenerC) -> *const c_void;
    pub fn crosslane_fi_listener_free(listener: *mut ListenerC);
    pub fn crosslane_fi_next_event(network: *mut NetworkC, event: *mut EventC) -> c_int;
    pub fn crosslane_fi_completions(
        endpoint: *mut EndpointC,
        into: *mut CompletionC,
        most: u32,
    ) -> c_int;
    pub fn crosslane_fi_may_wait(endpoint: *mut EndpointC) -> c_int;
    pub fn crosslane_fi_may_wait_events(network: *mut NetworkC) -> c_int;
    pub fn crosslane_fi_send(
        endpoint: *mut EndpointC,
        slot: u32,
        from: *const c_void,
        bytes: u64,
        descriptor: *mut c_void,
    ) -> c_int;
    pub fn crosslane_fi_receive(
        endpoint: *mut EndpointC,
        slot: u32,
        into: *mut c_void,
        bytes: u64,
        descriptor: *mut c_void,
    ) -> c_int;
    pub fn crosslane_fi_read(
        endpoint: *mut EndpointC,
        slot: u32,
        into: *mut c_void,
        bytes: u64,
        descriptor: *mut c_void,
        address: u64,
        key: u64,
    ) -> c_int;
    pub fn crosslane_fi_write(
        endpoint: *mut EndpointC,
        slot: u32,
        from: *mut c_void,
        bytes: u64,
        descriptor: *mut c_void,
        address: u64,
        key: u64,
    ) -> c_int;
}
