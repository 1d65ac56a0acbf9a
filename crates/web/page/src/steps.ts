// SPDX-License-Identifier: Apache-2.0 OR MIT
// One TLP on one link, step by step: it leaves, it arrives, its Ack and its credits come back. All
// of it is read from the trace of a run, and the credits of both sides are counted from its events.

import type { Trace } from "./answers.ts";

/** A link in one direction, and the direction back. */
export interface Way {
  name: string;
  from: string;
  to: string;
  there: number;
  back: number | null;
}

/** Credits of one class, for headers and for data, 16 B each; `null` for infinite ones. */
export interface Count {
  header: number | null;
  data: number | null;
}

/** The credits of both sides of a direction at one time. */
export interface Ledger {
  /** Credits of each class that the transmitter may still use. */
  available: Count[];
  /** Credits of each class that the receiver has granted and has not seen used. */
  free: Count[];
  /** TLPs that wait for their Ack. */
  unacknowledged: number;
}

/** A step of a TLP. */
export interface Step {
  at: number;
  /** The event of the trace that it belongs to. */
  event: number;
  /** Whether something leaves or arrives. */
  end: "leaves" | "arrives";
  words: string;
  ledger: Ledger;
}

export const CLASSES = ["posted", "non-posted", "completion"] as const;

/** The directions of a trace that carry TLPs. */
export function waysOf(trace: Trace): Way[] {
  const has = new Set(
    trace.events.filter(([, , , kind]) => kind === "tlp").map(([, direction]) => direction),
  );
  return trace.directions.flatMap((name, there) => {
    const [from = "", to = ""] = name.split(" -> ");
    const back = trace.directions.indexOf(`${to} -> ${from}`);
    return has.has(there) ? [{ name, from, to, there, back: back < 0 ? null : back }] : [];
  });
}

/** The TLPs of a direction, by their events; replays are left out. */
export function tlpsOf(trace: Trace, way: Way): number[] {
  return trace.events.flatMap(([, direction, , kind], event) =>
    direction === way.there && kind === "tlp" ? [event] : [],
  );
}

/** When an event reaches the other side. */
export function arrivalOf(trace: Trace, event: number): number {
  const [at, direction, onWire] = trace.events[event]!;
  return at + onWire + (trace.flights_ps[direction] ?? 0);
}

function isCorrupt(trace: Trace, event: number): boolean {
  return trace.events[event]![4].includes("corrupt");
}

/** The name of a DLLP: `Ack`, `Nak`, `UpdateFC-P`. */
function nameOf(trace: Trace, event: number): string {
  return trace.events[event]![4].split(",")[0]!;
}

/** Counts the credits of both sides at a time. */
export function ledgerAt(trace: Trace, way: Way, time: number): Ledger {
  const capacity = trace.credits[way.there]!;
  const used = new Array<number>(6).fill(0);
  const arrived = new Array<number>(6).fill(0);
  const limit = [...capacity];
  const granted = [...capacity];
  let [sent, acknowledged] = [0, 0];
  trace.events.forEach(([at, direction, , kind], event) => {
    if (at > time) return;
    const [class_, first, second] = trace.values[event]!;
    const hasArrived = arrivalOf(trace, event) <= time && !isCorrupt(trace, event);
    if (direction === way.there && (kind === "tlp" || kind === "replay")) {
      const of = [1, second];
      of.forEach((count, index) => {
        if (kind === "tlp") used[2 * class_ + index]! += count;
        // A replay of what has arrived is dropped.
        if (hasArrived && kind === "tlp") arrived[2 * class_ + index]! += count;
      });
      if (kind === "tlp") sent += 1;
    } else if (direction === way.back && kind === "dllp") {
      if (class_ < 3) {
        [first, second].forEach((count, index) => {
          const pool = 2 * class_ + index;
          if (capacity[pool] === null) return;
          granted[pool] = Math.max(granted[pool]!, count);
          if (hasArrived) limit[pool] = Math.max(limit[pool]!, count);
        });
      } else if (hasArrived) {
        acknowledged = Math.max(acknowledged, first);
      }
    }
  });
  const left = (of: (number | null)[], taken: number[]) =>
    CLASSES.map((_, index) => {
      const count = (pool: number) => (of[pool] === null ? null : of[pool]! - taken[pool]!);
      return { header: count(2 * index), data: count(2 * index + 1) };
    });
  return {
    available: left(limit, used),
    free: left(granted, arrived),
    unacknowledged: sent - acknowledged,
  };
}

function plural(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

/** The steps of a TLP, in the order of time. */
export function stepsOf(trace: Trace, way: Way, tlp: number): Step[] {
  const [begun] = trace.events[tlp]!;
  const [class_, number, data] = trace.values[tlp]!;
  const name = CLASSES[class_] ?? "";
  const steps: Step[] = [];
  const add = (at: number, event: number, end: Step["end"], words: string) =>
    steps.push({ at, event, end, words, ledger: ledgerAt(trace, way, at) });
  const costs = data
    ? `${plural(1, `${name} header`)} and ${plural(data, "data credit")}`
    : plural(1, `${name} header credit`);
  // Sent for the first time, and again after a Nak.
  trace.events.forEach(([at, direction, , kind, words], event) => {
    const isIt = direction === way.there && trace.values[event]![1] === number && at >= begun;
    if (!isIt || (kind !== "tlp" && kind !== "replay")) return;
    const takes = kind === "replay" ? "sends again" : "sends";
    const cost = kind === "replay" ? "its credits are taken already" : `it takes ${costs}`;
    add(at, event, "leaves", `${way.from} ${takes} ${words}: ${cost}.`);
    const came = isCorrupt(trace, event)
      ? `It arrives at ${way.to} corrupt, and is dropped.`
      : `It has arrived at ${way.to}, which keeps it in its receive buffer until it is passed on.`;
    add(arrivalOf(trace, event), event, "arrives", came);
  });
  const back = trace.events.flatMap(([at, direction, , kind], event) =>
    direction === way.back && kind === "dllp" && at >= begun ? [event] : [],
  );
  const dllp = (event: number, sent: string, came: string) => {
    add(trace.events[event]![0], event, "leaves", sent);
    const isLost = isCorrupt(trace, event);
    const said = isLost ? `The ${nameOf(trace, event)} arrives corrupt, and is dropped.` : came;
    add(arrivalOf(trace, event), event, "arrives", said);
  };
  const naks = back.filter(
    (event) => nameOf(trace, event) === "Nak" && trace.values[event]![1] <= number,
  );
  const firstAck = back.find((event) => {
    const isAck = trace.values[event]![0] === 3 && !isCorrupt(trace, event);
    return isAck && trace.values[event]![1] > number;
  });
  for (const event of naks) {
    if (firstAck !== undefined && event > firstAck) continue;
    const from = trace.values[event]![1];
    const sent = `${way.to} sends a Nak: TLPs from #${from} on are missing.`;
    dllp(event, sent, `${way.from} sends again all that is not acknowledged.`);
  }
  if (firstAck !== undefined) {
    const last = trace.values[firstAck]![1] - 1;
    const many = last > number ? `, and with it all up to #${last}` : "";
    const sent = `${way.to} acknowledges #${number}${many}.`;
    dllp(firstAck, sent, `${way.from} forgets its copy of #${number} in the replay buffer${many}.`);
  }
  // The credits of this TLP are back when as many are granted as were used up to it.
  const capacity = trace.credits[way.there]![2 * class_];
  const before = tlpsOf(trace, way).filter(
    (event) => trace.values[event]![0] === class_ && trace.values[event]![1] <= number,
  );
  if (capacity !== null && capacity !== undefined) {
    const needed = capacity + before.length;
    const update = back.find((event) => {
      const [of, headers] = trace.values[event]!;
      return of === class_ && headers >= needed && !isCorrupt(trace, event);
    });
    if (update !== undefined) {
      const title = nameOf(trace, update);
      const [, headers, total] = trace.values[update]!;
      const sum = `${headers} headers and ${total} data credits since the start`;
      const sent = `${way.to} has passed it on and sends ${title}: ${sum}.`;
      dllp(update, sent, `${way.from} may use the credits of #${number} again.`);
    }
  }
  return steps.sort((a, b) => a.at - b.at);
}
