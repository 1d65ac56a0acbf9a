// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates of writes over networks of this machine, as shares of a bare socket's in the same run, and
//! the processor time of both ends. `make bench-network` runs it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crosslane_host::{
    Clock, FarEnd, NearEnd, PageSize, Rdma, RdmaConnection, RdmaError, RdmaListener, RdmaRegion,
    RemoteAccess,
};
use crosslane_network::{MachineClock, Network, Provider, SharedKey, Trust};
use futures_executor::block_on;
use futures_util::future::try_join;
use futures_util::stream::{FuturesUnordered, StreamExt};

/// Bytes of one measurement.
const BYTES: u64 = 1 << 30;
/// Bytes of memory, which is written again and again.
const MEMORY_BYTES: u64 = 16 << 20;
/// Bytes of one write: a slot of the bridge.
const PIECE_BYTES: u64 = 1 << 20;
/// Writes under way: the bridge's window.
const AT_ONCE: usize = 4;
/// Rounds, of which the fastest counts: others use the machine too.
const ROUNDS: usize = 5;

/// Seconds of the clock and of all processors.
#[derive(Clone, Copy)]
struct Taken {
    seconds: f64,
    processor_seconds: f64,
}

fn timed(work: impl FnOnce()) -> Taken {
    let clock = MachineClock::new();
    let processor = || clock.processor_time().map_or(0.0, |time| time.as_seconds());
    let (begin, before) = (Instant::now(), processor());
    work();
    Taken { seconds: begin.elapsed().as_secs_f64(), processor_seconds: processor() - before }
}

/// A thread writes to a socket, another one reads from it.
fn bare() -> Taken {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has one");
    timed(|| {
        let writer = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).expect("somebody listens");
            let piece = vec![1; PIECE_BYTES as usize];
            for _ in 0..BYTES / PIECE_BYTES {
                stream.write_all(&piece).expect("somebody reads");
            }
        });
        let (mut stream, _) = listener.accept().expect("somebody connects");
        let mut piece = vec![0; PIECE_BYTES as usize];
        let mut left = BYTES;
        while left > 0 {
            left -= stream.read(&mut piece).expect("somebody writes") as u64;
        }
        writer.join().expect("it has written");
    })
}

async fn write_all(here: &Network, there: &Network, clock: &MachineClock) -> Result<(), RdmaError> {
    let listener = there.listen("127.0.0.1:0").await?;
    let (address, deadline) = (listener.address(), clock.after(Duration::from_secs(10)));
    let (near, _far) = try_join(here.connect(&address, deadline), listener.accept()).await?;
    let memory = |network: &Network| network.allocate(MEMORY_BYTES, PageSize::Huge);
    let from = here.register(&memory(here)?, RemoteAccess::NONE).await?;
    let to = there.register(&memory(there)?, RemoteAccess::READ_WRITE).await?;
    let far = to.remote();
    let mut under_way = FuturesUnordered::new();
    for number in 0..BYTES / PIECE_BYTES {
        let offset_bytes = number * PIECE_BYTES % MEMORY_BYTES;
        let (near, region) = (&near, from.clone());
        under_way.push(async move {
            let far = FarEnd { memory: far, offset_bytes };
            near.write(&NearEnd { region, offset_bytes }, far, PIECE_BYTES).await
        });
        if under_way.len() == AT_ONCE {
            under_way.next().await.transpose()?;
        }
    }
    while let Some(written) = under_way.next().await {
        written?;
    }
    Ok(())
}

fn over(provider: Provider, trust: &Trust) -> Result<Taken, String> {
    let clock = MachineClock::new();
    let open = || Network::open_with(provider, &clock, trust).map_err(|error| error.to_string());
    let (here, there) = (open()?, open()?);
    let mut result = Ok(());
    let taken = timed(|| result = block_on(write_all(&here, &there, &clock)));
    result.map(|()| taken).map_err(|error| error.to_string())
}

fn main() {
    let key = SharedKey([3; 32]);
    let sealed = Trust { accept: vec![key.clone()], present: Some(key), ..Trust::default() };
    let kinds = [
        ("tls, sealed", Provider::Tls, sealed),
        ("tls, not sealed", Provider::Tls, Trust::default()),
        ("tcp of libfabric", Provider::Tcp, Trust::default()),
    ];
    let mut best: Vec<Result<Taken, String>> = vec![Err(String::new()); 1 + kinds.len()];
    for _ in 0..ROUNDS {
        let measured = kinds.iter().map(|(_, provider, trust)| over(*provider, trust));
        for (best, new) in best.iter_mut().zip(std::iter::once(Ok(bare())).chain(measured)) {
            let is_better = match (&*best, &new) {
                (Ok(best), Ok(new)) => new.seconds < best.seconds,
                (Ok(_), Err(_)) => false,
                (Err(_), _) => true,
            };
            if is_better {
                *best = new;
            }
        }
    }
    let bare = best[0].clone().expect("a bare socket works");
    println!("writes of 1 MiB, {AT_ONCE} at once, both ends on this machine; best of {ROUNDS}\n");
    println!("network            rate, of a bare socket's   processor s/GiB, both ends");
    let names = std::iter::once("bare socket").chain(kinds.iter().map(|(name, ..)| *name));
    for (name, taken) in names.zip(best) {
        match taken {
            Ok(Taken { seconds, processor_seconds }) => {
                let rate = bare.seconds / seconds;
                println!("{name:18} {rate:26.2} {processor_seconds:28.2}");
            }
            Err(why) => println!("{name:18} not measured: {why}"),
        }
    }
}
