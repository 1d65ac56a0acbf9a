// SPDX-License-Identifier: Apache-2.0 OR MIT
// Step mode and sweeps without a page: their counts of a trace, and the values that are read.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { arrivalOf, ledgerAt, stepsOf, tlpsOf, waysOf } from "../src/steps.ts";
import { csvOf, isLogarithmic, valuesOf } from "../src/sweep.ts";
import { Lab } from "../src/wasm.ts";

const path = process.env["CROSSLANE_WASM"];
if (!path) throw new Error("CROSSLANE_WASM is not set: make check-web sets it");
const lab = await Lab.of(await WebAssembly.compile(readFileSync(path)));

const traced = (name: string, flow: string, variant?: string) => {
  const work = { kind: "traffic", flows: [flow], operations: 64 } as const;
  const of = { name, ...(variant ? { variant } : {}) };
  const trace = { most: 20_000, values: true };
  return lab.ask({ ask: "run", lab: of, work, trace }).trace!;
};

describe("steps of a TLP", () => {
  for (const [name, flow] of [
    ["rosta", "fpga1:fpga5:write:512"],
    ["rosta", "fpga1:host0:read:512"],
    ["kc705", "kc705:host0:write:4K"],
    ["pciebench", "nfp:host0:read:512"],
  ] as const) {
    test(`${flow} in ${name}: credits are never overdrawn, and come back`, () => {
      const trace = traced(name, flow);
      assert.equal(trace.values.length, trace.events.length);
      const ways = waysOf(trace);
      assert.ok(ways.length > 0);
      const end = Math.max(...trace.events.map((_, event) => arrivalOf(trace, event)));
      for (const way of ways) {
        const tlps = tlpsOf(trace, way);
        for (const tlp of [tlps[0]!, tlps[tlps.length >> 1]!]) {
          const steps = stepsOf(trace, way, tlp);
          assert.equal(steps[0]!.event, tlp);
          assert.ok(steps.length >= 4, `${steps.length} steps`);
          assert.ok(steps.some(({ words }) => words.includes("acknowledges #")));
          for (const { ledger } of steps) {
            for (const count of [...ledger.available, ...ledger.free]) {
              assert.ok((count.header ?? 0) >= 0 && (count.data ?? 0) >= 0);
            }
            assert.ok(ledger.unacknowledged >= 0);
          }
        }
        // At the end no TLP is on its way, and both sides agree.
        const { available, free, unacknowledged } = ledgerAt(trace, way, end);
        assert.deepEqual(available, free);
        assert.equal(unacknowledged, 0);
      }
    });
  }

  test("a TLP takes a header credit and data credits of 16 B", () => {
    const trace = traced("rosta", "fpga1:fpga5:write:128");
    const way = waysOf(trace).find(({ from }) => from === "fpga1")!;
    const tlp = tlpsOf(trace, way)[0]!;
    const [first] = stepsOf(trace, way, tlp);
    const capacity = trace.credits[way.there]!;
    assert.deepEqual(first!.ledger.available[0], {
      header: capacity[0]! - 1,
      data: capacity[1]! - 8,
    });
    assert.deepEqual(first!.ledger.free[0], { header: capacity[0], data: capacity[1] });
  });

  test("a trace without values has none", () => {
    const work = { kind: "traffic", flows: ["card0:host0:write:64"], operations: 4 } as const;
    const run = lab.ask({ ask: "run", lab: { name: "minimal" }, work, trace: { most: 100 } });
    assert.deepEqual([run.trace!.values, run.trace!.credits], [[], []]);
  });
});

describe("sweeps", () => {
  test("values are read, sorted, and limited", () => {
    assert.deepEqual(valuesOf("1K, 64 128,64"), [64, 128, 1024]);
    assert.deepEqual(valuesOf("1..4"), [1, 2, 3, 4]);
    assert.deepEqual(valuesOf("0.5; 1MiB"), [0.5, 1 << 20]);
    assert.throws(() => valuesOf("64, many"), /"many" is no value/);
    assert.throws(() => valuesOf("8..1"), /8\.\.1 has no values/);
    assert.throws(() => valuesOf(" "), /give values/);
    assert.throws(() => valuesOf("1..1e15"), /more than the 64 values/);
  });

  test("a line of CSV is a value with the rate of each flow", () => {
    const lines: [string, [number, number][]][] = [
      ['a "b"', [[64, 1.5], [128, 2]]],
      ["c, d", [[64, 3]]],
    ];
    const text = csvOf({ label: "size", unit: "B", values: [64, 128], lines });
    const head = 'size (B),"a ""b"" (B/s)","c, d (B/s)"';
    assert.equal(text, [head, "64,1.5,3", "128,2,", ""].join("\n"));
    assert.ok(isLogarithmic([64, 1024]) && !isLogarithmic([1, 2, 4]) && !isLogarithmic([0, 99]));
  });
});
