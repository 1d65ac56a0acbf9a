# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The bridge end to end over verbs, on the kernel's software RDMA device (Soft-RoCE)."""

from machine import Machine, Plug

ADDRESS = "10.9.0.1"
BYTES = (1 << 20) + 1
# Seconds for steps that move data through an emulated processor and a simulated card.
LONG = 400
# Full path: the shell has a builtin `ip` with fewer options.
NETWORK = f"""
/bin/ip link add rdma0 type veth peer name rdma1
/bin/ip addr add {ADDRESS}/24 dev rdma0
/bin/ip link set rdma0 up
/bin/ip link set rdma1 up
rdma link add rxe0 type rxe netdev rdma0
rdma link
"""
# Policy of clients: required by a server that other machines can reach.
POLICY = """
umask 077
crosslane bridge key >/tmp/guest.key
cat >/tmp/policy.toml <<END
[[client]]
name = "guest"
key_file = "/tmp/guest.key"
[[client.allow]]
card = "fpga0"
from = 0x1000
bytes = 0x20_0000
access = "read-write"
END
"""
CLIENT = "--network verbs --as guest --key /tmp/guest.key"


def test_what_is_put_over_verbs_comes_back(machine: Machine) -> None:
    round_trip(machine, "lab:sbdt:crosslane", ", copied: ")


def test_the_network_reaches_the_buffers_of_a_card(machine: Machine, plug: Plug) -> None:
    [card] = plug("kc705:crosslane", "kc705")
    machine.run(f"crosslane device bind {card}")
    # The adapter and the card read and write the same pages, both through the kernel's mappings.
    round_trip(machine, f"vfio:{card}", "in the card's own buffers")


def round_trip(machine: Machine, card: str, ways: str) -> None:
    assert "link rxe0/1 state ACTIVE" in machine.run(NETWORK)
    providers = machine.run("crosslane bridge providers").splitlines()
    assert [line.split()[:2] for line in providers if "verbs" in line] == [["verbs", "yes"]]
    machine.run(POLICY)
    machine.run(f"head -c {BYTES} /dev/urandom >/tmp/data")
    place = f"{ADDRESS}:7471/fpga0:0x1000"
    code, said = machine.attempt(f"crosslane bridge put /tmp/data {place} {CLIENT}")
    assert code == 1 and "Connection refused" in said, said
    served = f"crosslane bridge serve --device {card} --network verbs"
    served += f" --policy /tmp/policy.toml --listen {ADDRESS}:7471"
    machine.run(f"{served} >/tmp/serve.log 2>&1 & echo $! >/tmp/server")
    # The server listens shortly after its start.
    machine.until("grep -q 7471 /tmp/serve.log")
    assert ways in machine.run("cat /tmp/serve.log")
    machine.run(f"crosslane bridge put /tmp/data {place} {CLIENT}", LONG)
    machine.run(f"crosslane bridge get {place} /tmp/back --bytes {BYTES} {CLIENT}", LONG)
    machine.run("cmp /tmp/data /tmp/back")
    # A request outside the policy is refused, over verbs as over any network.
    code, said = machine.attempt(
        f"crosslane bridge get {ADDRESS}:7471/fpga0:0x0 /tmp/none --bytes 64 {CLIENT}"
    )
    assert code == 1, said
    machine.run("kill $(cat /tmp/server)")
    machine.run("/bin/ip link del rdma0")
