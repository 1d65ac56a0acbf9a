// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes from one card into another, past the host: `cargo run --example peer_write -- A B`.

use crosslane::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        names = ["lab:rosta:crosslane/fpga1", "lab:rosta:crosslane/fpga2"].map(Into::into).into();
    }
    let names: Vec<_> = names.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
    let session = Session::open_all(&names, SessionOptions::default())?;
    session.block_on(async {
        let devices = session.devices().await?;
        let [sender, receiver] = &devices[..] else { return Err("two cards are needed".into()) };
        sender.user().route(StreamSource::Generator, StreamSource::Generator).await?;
        sender.user().seed(7).await?;
        // A receive queue of the other card, with credits; its user circuit checks the data.
        let peer = sender.connect(receiver, PeerOptions::default()).await?;
        peer.check(7).await?;
        println!("path: {}", names_of(peer.plan()));
        let mut channel = sender.channel(ChannelKind::Peer, 0, ChannelOptions::default()).await?;
        let deadline = sender.deadline(Duration::from_secs(1));
        let transfer = Transfer::new(peer.target(1 << 20), deadline);
        let done = channel.transfer(transfer.with_level(CompletionLevel::Acknowledged)).await?;
        let check = peer.check_result().await?;
        assert_eq!(check.errors, 0);
        println!("{} B in {}", done.bytes, done.completed.since(done.posted));
        channel.close().await?;
        peer.close().await?;
        Ok(())
    })?
}

fn names_of(plan: &crosslane::driver::Plan) -> String {
    plan.path.iter().map(|function| function.name.as_str()).collect::<Vec<_>>().join(" -> ")
}
