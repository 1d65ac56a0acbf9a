// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The control messages of a connection, encrypted if both ends have a key.
//!
//! Client and server prove to each other that they have the same key by a handshake of the Noise
//! framework, `Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s` (Noise revision 34, 9): each connection has
//! fresh keys, so messages of one cannot be replayed in another. Data that the network moves beside
//! the messages are not encrypted.
//!
//! A client whose certificate the network has verified, and the policy names, has no key: its
//! network seals messages as well as data.

use std::sync::{Mutex, MutexGuard};

use crosslane_host::ErrorKind::{self, Data, Denied, Failed, Unsupported};
use crosslane_host::RdmaConnection;
use serde::Serialize;
use serde::de::DeserializeOwned;
use snow::{HandshakeState, TransportState};

use crate::client::Identity;
use crate::error::{At, BridgeError, Result};
use crate::key::Key;
use crate::messages::{
    Confirmation, Hello, MAGIC, MAX_NAME_BYTES, SEAL_BYTES, VERSION, Welcome, decode, encode, short,
};
use crate::policy::{Admitted, Guard};
use crate::stage::Stage;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Longest message of the handshake, bytes: two keys and two seals.
const MAX_HANDSHAKE_BYTES: usize = 96;

/// Control messages of a connection, which can send and receive at the same time.
pub(crate) struct Control<C> {
    connection: C,
    seal: Option<Mutex<TransportState>>,
}

fn failed(kind: ErrorKind, why: impl Into<String>) -> BridgeError {
    BridgeError::new(Stage::Connection, kind, why)
}

fn noise(error: snow::Error) -> BridgeError {
    failed(Denied, format!("the handshake failed: {error}"))
}

fn handshake(key: &Key, is_client: bool) -> Result<HandshakeState> {
    let parameters = PATTERN.parse().map_err(noise)?;
    let builder = snow::Builder::new(parameters).psk(0, key.bytes()).map_err(noise)?;
    let state = if is_client { builder.build_initiator() } else { builder.build_responder() };
    state.map_err(noise)
}

/// Returns the next message of a handshake.
fn next_message(state: &mut HandshakeState) -> Result<Vec<u8>> {
    let mut message = vec![0; MAX_HANDSHAKE_BYTES];
    let length = state.write_message(&[], &mut message).map_err(noise)?;
    message.truncate(length);
    Ok(message)
}

fn locked(seal: &Mutex<TransportState>) -> Result<MutexGuard<'_, TransportState>> {
    seal.lock().map_err(|_| failed(Failed, "a panic left the seal half done"))
}

impl<C: RdmaConnection> Control<C> {
    /// Makes the client's side of the handshake.
    pub async fn greet(connection: C, Identity { name, key }: &Identity) -> Result<Self> {
        let mut state = key.as_ref().map(|key| handshake(key, true)).transpose()?;
        let handshake = state.as_mut().map_or(Ok(Vec::new()), next_message)?;
        let hello = Hello { magic: MAGIC, version: VERSION, name: name.clone(), handshake };
        connection.send(&encode(&hello)?).await.at(Stage::Connection)?;
        let answer = connection.receive().await.at(Stage::Connection)?;
        let second = match decode("a server's welcome", &answer)? {
            Welcome::Yes(second) => second,
            Welcome::No(why) => {
                return Err(failed(Denied, format!("the server says: {}", short(&why))));
            }
        };
        let Some(mut state) = state else { return Ok(Self { connection, seal: None }) };
        let mut payload = [0; MAX_HANDSHAKE_BYTES];
        let not_ours = |_| failed(Denied, "the server does not have the same key");
        state.read_message(&second, &mut payload).map_err(not_ours)?;
        let seal = Some(Mutex::new(state.into_transport_mode().map_err(noise)?));
        let control = Self { connection, seal };
        control.send(&Confirmation).await?;
        Ok(control)
    }

    /// Makes the server's side of the handshake, up to the first message that only the client can
    /// have sealed: `guard` says who may come. Returns the client's name.
    pub async fn answer(connection: C, guard: &Guard) -> Result<(Self, String)> {
        let bytes = connection.receive().await.at(Stage::Connection)?;
        match Self::welcome(&bytes, guard, &connection.proven_names()) {
            Ok((second, seal, name)) => {
                connection.send(&encode(&Welcome::Yes(second))?).await.at(Stage::Connection)?;
                let control = Self { connection, seal: seal.map(Mutex::new) };
                if control.seal.is_some() {
                    control.receive::<Confirmation>("a client's confirmation").await?;
                }
                Ok((control, name))
            }
            Err(error) => {
                // Tell the client; whether the message arrives does not matter.
                if let Ok(no) = encode(&Welcome::No(short(&error.why.to_string()))) {
                    let _ = connection.send(&no).await;
                }
                Err(error)
            }
        }
    }

    #[allow(clippy::type_complexity)]
    fn welcome(
        bytes: &[u8],
        guard: &Guard,
        proven: &[String],
    ) -> Result<(Vec<u8>, Option<TransportState>, String)> {
        let hello: Hello = decode("a client's greeting", bytes)?;
        if hello.magic != MAGIC {
            return Err(failed(Unsupported, "the other end does not speak this protocol"));
        }
        if hello.version != VERSION {
            let why = format!("version {} of the protocol, here is {VERSION}", hello.version);
            return Err(failed(Unsupported, why));
        }
        if hello.name.len() > MAX_NAME_BYTES || hello.handshake.len() > MAX_HANDSHAKE_BYTES {
            return Err(failed(Data, "a greeting that is too long"));
        }
        let Admitted { name, key } = guard.admit(&hello.name, proven)?;
        let Some(key) = key else {
            return match hello.handshake.is_empty() {
                true => Ok((Vec::new(), None, name)),
                false => Err(failed(Denied, "a key was used, and this server has none")),
            };
        };
        // A missing key, a wrong key and an unknown name get the same answer.
        let refused = |_| failed(Denied, "this client and this key do not fit");
        let mut state = handshake(&key, false)?;
        let mut payload = [0; MAX_HANDSHAKE_BYTES];
        state.read_message(&hello.handshake, &mut payload).map_err(refused)?;
        let second = next_message(&mut state)?;
        Ok((second, Some(state.into_transport_mode().map_err(noise)?), name))
    }

    pub fn connection(&self) -> &C {
        &self.connection
    }

    pub async fn send<T: Serialize>(&self, message: &T) -> Result<()> {
        let plain = encode(message)?;
        let bytes = match &self.seal {
            None => plain,
            Some(seal) => {
                let mut sealed = vec![0; plain.len() + SEAL_BYTES];
                locked(seal)?.write_message(&plain, &mut sealed).map_err(noise)?;
                sealed
            }
        };
        self.connection.send(&bytes).await.at(Stage::Connection)
    }

    /// Waits for the next message.
    pub async fn receive<T: DeserializeOwned>(&self, what: &str) -> Result<T> {
        let bytes = self.connection.receive().await.at(Stage::Connection)?;
        let Some(seal) = &self.seal else { return decode(what, &bytes) };
        let mut plain = vec![0; bytes.len()];
        let forged = |_| failed(Data, "a message that the other end has not sealed");
        let length = locked(seal)?.read_message(&bytes, &mut plain).map_err(forged)?;
        decode(what, &plain[..length])
    }
}
