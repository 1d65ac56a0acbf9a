// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kinds of the errors of functions and their servers.

use std::time::Duration;

use crosslane_host::ErrorKind::{
    Busy, Data, Denied, InvalidArgument, LinkDown, Timeout, Unsupported,
};

use crate::user::protocol::{Command, Header, ProtocolError};
use crate::user::socket::SocketError;
use crate::{FunctionError, NoUserMonitor};

#[test]
fn every_error_of_a_function_and_its_server_has_its_kind() {
    let (function, what, why) = (String::new, String::new, String::new);
    let refused = |errno| FunctionError::Refused { function: function(), what: what(), errno };
    let (region, offset, bytes, size, waited) = (String::new, 0, 1, 0, Duration::ZERO);
    let stalled = SocketError::Stalled { sent: 0, bytes: 1 };
    for (error, kind) in [
        (FunctionError::Gone { function: function(), why: stalled.into() }, LinkDown),
        (FunctionError::Deadline { function: function(), what: what(), waited }, Timeout),
        (refused(16), Busy),
        (refused(22), InvalidArgument),
        (
            FunctionError::System {
                function: function(),
                what: what(),
                errno: 13,
                remedy: String::new(),
            },
            Denied,
        ),
        (FunctionError::Malformed { function: function(), what: what(), why: why() }, Data),
        (
            FunctionError::Unsupported { function: function(), what: what(), why: why() },
            Unsupported,
        ),
        (
            FunctionError::BeyondRegion {
                function: function(),
                region: region(),
                offset,
                bytes,
                size,
            },
            InvalidArgument,
        ),
        (
            FunctionError::Unaligned { function: function(), region: region(), offset, bytes },
            InvalidArgument,
        ),
    ] {
        assert_eq!(error.kind(), kind, "{error}");
    }
    let header = Header::command(1, Command::Reset, 0);
    let protocol = |error| SocketError::Protocol { error, header };
    let (done, bytes) = (0, 1);
    for (error, kind) in [
        (SocketError::Closed, LinkDown),
        (SocketError::Slow { done, bytes, waited }, Timeout),
        (SocketError::Cut { missing: 1 }, LinkDown),
        (protocol(ProtocolError::Malformed { why: why() }), Data),
        (protocol(ProtocolError::TooMuchData { what: "", bytes: 1 }), InvalidArgument),
        (SocketError::Stalled { sent: 0, bytes: 1 }, Timeout),
        (SocketError::Failed(rustix::io::Errno::CONNRESET), LinkDown),
    ] {
        assert_eq!(error.kind(), kind, "{error}");
    }
    assert_eq!(NoUserMonitor.kind(), Unsupported);
}
