// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host time of a posted transfer of 64 B through the C library, as a ratio to the same through the
//! Rust crates: in a lab, one after the other, in turns. `make bench-c`. With `--rust-only` it
//! prints the microseconds of one through Rust, for the bench of the Python package.
#![allow(unsafe_code)]

use std::hint::black_box;
use std::ptr;
use std::time::Duration;

use crosslane::blocking;
use crosslane::driver::{ChannelKind, ChannelOptions, Transfer};
use crosslane::host::PageSize;
use crosslane::prelude::StreamSource;
use crosslane_capi::buffer::crosslane_buffer_create;
use crosslane_capi::channel::{
    CROSSLANE_C2H, crosslane_channel_open, crosslane_channel_post, crosslane_completion,
    crosslane_transfer,
};
use crosslane_capi::completions::crosslane_channel_wait;
use crosslane_capi::device::{crosslane_device_open, crosslane_device_route};
use crosslane_capi::session::{CROSSLANE_FOREVER, crosslane_session_open};

const LAB: &std::ffi::CStr = c"lab:rosta:crosslane/fpga1";
const BYTES: u64 = 64;
const TRANSFERS: u32 = 2000;
const ROUNDS: usize = 15;

/// Makes transfers through the Rust crates.
fn rust() -> impl FnMut() {
    let session = blocking::Session::open(LAB.to_str().expect("text")).expect("a shipped lab");
    let device = session.device(0).expect("an engine");
    let source = StreamSource::Generator;
    session.run(device.inner().user().route(source, source)).expect("a user circuit");
    let buffer = device.buffer(BYTES, PageSize::Huge).expect("memory");
    let opened = device.channel(ChannelKind::C2h, 0, ChannelOptions::default());
    let mut channel = opened.expect("a channel");
    move || {
        for _ in 0..TRANSFERS {
            let deadline = device.deadline(Duration::from_secs(1));
            let posted = channel.post(&[Transfer::of(&buffer, deadline)]).expect("a ticket");
            black_box(channel.wait(posted[0]).expect("it ends well"));
        }
    }
}

/// Makes the same transfers through the C functions.
fn c() -> impl FnMut() {
    let (mut session, mut device) = (ptr::null_mut(), ptr::null_mut());
    let (mut buffer, mut channel) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: valid places for the handles, and the defaults of all attributes.
    let codes = unsafe {
        [
            crosslane_session_open(LAB.as_ptr(), ptr::null(), &raw mut session),
            crosslane_device_open(session, 0, &raw mut device),
            crosslane_device_route(device, 0, 0),
            crosslane_buffer_create(device, BYTES, ptr::null(), &raw mut buffer),
            crosslane_channel_open(device, CROSSLANE_C2H, 0, ptr::null(), &raw mut channel),
        ]
    };
    assert_eq!(codes, [0; 5]);
    // SAFETY: structures of numbers and pointers, of which 0 stands for the defaults.
    let (mut transfer, mut completion): (crosslane_transfer, crosslane_completion) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    transfer.size = size_of_val(&transfer);
    completion.size = size_of_val(&completion);
    (transfer.buffer, transfer.bytes) = (buffer, BYTES);
    move || {
        for number in 0..TRANSFERS {
            transfer.wr_id = number.into();
            // SAFETY: one transfer, and room for one completion.
            let codes = unsafe {
                [
                    crosslane_channel_post(channel, &raw const transfer, 1),
                    crosslane_channel_wait(channel, &raw mut completion, 1, CROSSLANE_FOREVER),
                ]
            };
            assert_eq!((codes, completion.status), ([0, 1], 0));
            black_box(completion.wr_id);
        }
    }
}

/// Processor time of this thread, in seconds: what else the machine does is left out.
fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the time.
    let code = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(code, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn seconds(run: &mut impl FnMut()) -> f64 {
    let begun = processor_seconds();
    run();
    processor_seconds() - begun
}

fn main() {
    if std::env::args().any(|argument| argument == "--rust-only") {
        let mut rust = rust();
        let times: Vec<f64> = (0..3).map(|_| seconds(&mut rust)).collect();
        println!("{:.3}", 1e6 * times[1].min(times[2]) / f64::from(TRANSFERS));
        return;
    }
    let (mut rust, mut c) = (rust(), c());
    // Each pair runs at once after the other, so that what else the machine does hits both.
    let mut ratios: Vec<(f64, f64)> = (0..ROUNDS)
        .map(|_| {
            let rust = seconds(&mut rust);
            (seconds(&mut c) / rust, rust)
        })
        .collect();
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (ratio, rust) = ratios[ROUNDS / 2];
    let each_us = 1e6 * rust / f64::from(TRANSFERS);
    println!(
        "C / Rust: {ratio:.3} (from {:.3} to {:.3}), {each_us:.2} us through Rust",
        ratios[0].0,
        ratios[ROUNDS - 1].0
    );
}
