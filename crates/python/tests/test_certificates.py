# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Clients of a bridge that show certificates, made and used as docs/how-to/certificates.md says."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import crosslane
import pytest
from conftest import Server, blocks, served, still_works

PAGE = "docs/how-to/certificates.md"


def shell(folder: Path, script: str) -> None:
    """Runs the commands of a shell in a folder."""
    subprocess.run(["sh", "-e"], input=script, text=True, cwd=folder, check=True, timeout=60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the page, for a server of this machine; another authority with a client."""
    script = blocks(PAGE, "sh")[0].replace("10.0.0.2", "127.0.0.1")
    folder = tmp_path_factory.mktemp("certificates")
    (folder / "theirs").mkdir()
    shell(folder, script)
    shell(folder / "theirs", script.replace("our lab", "their lab"))
    (folder / "policy.toml").write_text(blocks(PAGE, "toml")[0])
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    """The server of the page."""
    files = (f"--tls-cert={folder}/node.pem", f"--tls-key={folder}/node.key")
    policy = ("--policy", str(folder / "policy.toml"))
    with served(*policy, *files, f"--tls-ca={folder}/ca.pem") as server:
        yield server


def test_the_page_is_right(
    server: Server,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    exec(blocks(PAGE, "python")[0].replace("node:7471", server.address), {})
    assert capsys.readouterr().out == "tls, sealed\n"


def test_a_certificate_is_a_client_of_the_policy(server: Server, folder: Path) -> None:
    cert, key, ca = folder / "rnode.pem", folder / "rnode.key", folder / "ca.pem"
    # The network is tls without a word, and the name is the certificate's.
    with crosslane.bridge(server.address, tls_cert=cert, tls_key=key, tls_ca=ca) as client:
        assert client.network == "tls, sealed"
        still_works(client.card())
        with pytest.raises(crosslane.BridgeError, match="rnode may not write 1 B"):
            client.card().to_card(b"x", 0x100000).wait()
    by_text = crosslane.bridge(
        server.address, name="rnode", tls_cert=str(cert), tls_key=str(key), tls_ca=str(ca)
    )
    with by_text as client:
        still_works(client.card())
    with pytest.raises(crosslane.BridgeError, match="is not that of other in the policy"):
        crosslane.bridge(server.address, name="other", tls_cert=cert, tls_key=key, tls_ca=ca)


def test_certificates_of_another_authority_are_refused(server: Server, folder: Path) -> None:
    cert, key = folder / "rnode.pem", folder / "rnode.key"
    with pytest.raises(crosslane.BridgeError, match=r"no authority in .*theirs/ca\.pem") as caught:
        theirs = folder / "theirs" / "ca.pem"
        crosslane.bridge(server.address, tls_cert=cert, tls_key=key, tls_ca=theirs)
    assert (caught.value.kind, caught.value.stage) == ("denied", "connection")
    cert, key = folder / "theirs" / "rnode.pem", folder / "theirs" / "rnode.key"
    with pytest.raises(crosslane.BridgeError, match="trusts no authority that has signed"):
        crosslane.bridge(server.address, tls_cert=cert, tls_key=key, tls_ca=folder / "ca.pem")
    with pytest.raises(crosslane.BridgeError, match="no connection that is not sealed"):
        crosslane.bridge(server.address, network="tls")


def test_incomplete_certificates_are_refused(server: Server, folder: Path) -> None:
    at, cert, ca = server.address, folder / "rnode.pem", folder / "ca.pem"
    key, exposed = folder / "rnode.key", folder / "exposed.key"
    exposed.write_bytes(key.read_bytes())
    exposed.chmod(0o644)
    with pytest.raises(crosslane.ArgumentError, match="tls_key is missing: certificates need"):
        crosslane.bridge(at, tls_cert=cert, tls_ca=ca)
    with pytest.raises(crosslane.ArgumentError, match="tls_cert, tls_ca is missing"):
        crosslane.bridge(at, tls_key=key)
    with pytest.raises(crosslane.ArgumentError, match="certificates and a key"):
        crosslane.bridge(at, key="5a" * 32, tls_cert=cert, tls_key=key, tls_ca=ca)
    with pytest.raises(crosslane.ArgumentError, match="certificates and a network that is trusted"):
        crosslane.bridge(at, trust_network=True, tls_cert=cert, tls_key=key, tls_ca=ca)
    with pytest.raises(crosslane.RdmaError, match="it takes no certificates") as caught:
        crosslane.bridge(at, network="shm", tls_cert=cert, tls_key=key, tls_ca=ca)
    assert caught.value.kind == "invalid_argument"
    with pytest.raises(crosslane.ArgumentError, match="it is not the key of"):
        crosslane.bridge(at, tls_cert=cert, tls_key=folder / "node.key", tls_ca=ca)
    with pytest.raises(crosslane.ArgumentError, match=r"chmod 600 .*exposed\.key"):
        crosslane.bridge(at, tls_cert=cert, tls_key=exposed, tls_ca=ca)
    with pytest.raises(crosslane.ArgumentError, match="no certificate is in it"):
        crosslane.bridge(at, tls_cert=key, tls_key=key, tls_ca=ca)
    with pytest.raises(TypeError):
        crosslane.bridge(at, tls_cert=7, tls_key=key, tls_ca=ca)  # type: ignore[arg-type]
