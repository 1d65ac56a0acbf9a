#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Heat on a torus, over four FPGAs of the lab rosta that exchange borders by peer writes.

Each card has a strip of rows. A step needs the rows above and below a strip, but a peer channel
writes to one card only. So borders travel one way around the ring: each card gets the first two
rows of the next strip, and its own strip moves down by one row a step, until after as many steps
it is where NumPy's own is. Both results are equal to the last bit.

A border's way is that of a program on real boards: host memory, the card's stream, the next card's
receive queue, host memory. Times are simulated. NumPy stands for the circuit that updates cells.

    python examples/python/stencil.py [--steps N] [--size N] [--cards CARD CARD ...]
"""

import argparse
from typing import TypeAlias

import crosslane
import numpy
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[numpy.float64]
#: Cells that a card's circuit updates each clock (assumption: the engine's stream has 8 B a clock,
#: one cell, and the circuit four such units).
CELLS_PER_CLOCK = 4
LAB = "rosta:crosslane"


def step(rows: Rows) -> Rows:
    """The next values of all rows but the first and the last."""
    left, right = numpy.roll(rows, 1, axis=1), numpy.roll(rows, -1, axis=1)
    updated: Rows = 0.25 * (rows[:-2] + rows[2:] + left[1:-1] + right[1:-1])
    return updated


def on_one_host(field: Rows, steps: int) -> Rows:
    """The same computation with one array."""
    for _ in range(steps):
        field = step(numpy.concatenate([field[-1:], field, field[:1]]))
    return field


class Ring:
    """Cards, each with a strip, and a connection from each to the one before it."""

    def __init__(self, cards: list[crosslane.Card], field: Rows) -> None:
        self.cards = cards
        self.strips = numpy.split(field, len(cards))
        before = [cards[-1], *cards[:-1]]
        self.peers = [card.peer(other) for card, other in zip(cards, before, strict=True)]
        for card, peer in zip(cards, [*self.peers[1:], self.peers[0]], strict=True):
            # What the next card has written goes to the host, what the host sends to the card
            # before.
            card.route(peer.receive_queue, peer="h2c")
        # The first exchange opens the channels.
        self.exchange()

    def exchange(self) -> list[Rows]:
        """Moves the first two rows of each strip to the card before, and returns what came."""
        borders = [numpy.empty_like(strip[:2]) for strip in self.strips]
        posted: list[crosslane.Transfer] = []
        for card, peer, strip, border in zip(
            self.cards, self.peers, self.strips, borders, strict=True
        ):
            posted += [card.from_card(border), peer.write(border.nbytes), card.to_card(strip[:2])]
        for transfer in posted:
            transfer.wait()
        return borders

    def compute(self, session: crosslane.Session, borders: list[Rows]) -> None:
        """Updates the strips: for as long as the cards' circuits would take."""
        for number, border in enumerate(borders):
            self.strips[number] = step(numpy.concatenate([self.strips[number], border]))
        clock = self.cards[0].description["clock_ps"] / 1e12
        session.sleep(self.strips[0].size / CELLS_PER_CLOCK * clock)

    def field(self, steps: int) -> Rows:
        """All strips, moved back to where they began."""
        return numpy.roll(numpy.concatenate(self.strips), steps, axis=0)


def main() -> None:
    """Runs, compares, and says what limits the exchange."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--size", type=int, default=256, help="rows and columns of the field")
    parser.add_argument("--cards", nargs="+", default=["fpga1", "fpga2", "fpga3", "fpga4"])
    chosen = parser.parse_args()
    names = chosen.cards
    if len(names) < 2 or chosen.size % len(names) or chosen.size < 2 * len(names):
        parser.error(f"{chosen.size} rows are no equal strips of two or more for {names}")

    field = numpy.random.default_rng(1).random((chosen.size, chosen.size))
    exchanging = 0.0
    with crosslane.open([f"lab:{LAB}/{name}" for name in names]) as session:
        ring = Ring([session.card(name) for name in names], field)
        begun = session.now
        for _ in range(chosen.steps):
            before = session.now
            borders = ring.exchange()
            exchanging += session.now - before
            ring.compute(session, borders)
        total = session.now - begun
        plan = session.plan(names[1], names[0])
    result = ring.field(chosen.steps)
    if not numpy.array_equal(result, on_one_host(field, chosen.steps)):
        raise SystemExit("the result differs from NumPy's own")

    print(f"{chosen.size} x {chosen.size} cells on {len(names)} cards: equal to NumPy to the bit")
    print(f"{1e6 * total / chosen.steps:.2f} us a step, simulated")
    print(f"{100 * exchanging / total:.1f} % of it for the exchange of borders")
    print(f"path of a border: {' -> '.join(plan.path)}")
    # The same way alone: from host memory through two cards to host memory.
    border = 2 * chosen.size * field.itemsize
    alone = crosslane.Lab.load(LAB).bench(
        "chain", from_=names[0], to=names[1], size=border, iterations=16
    )
    microseconds = 1e6 * border / alone.figure()
    print(f"a border of {border} B alone: {microseconds:.2f} us; limited by {alone.why()}")


if __name__ == "__main__":
    main()
