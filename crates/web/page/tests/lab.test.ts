// SPDX-License-Identifier: Apache-2.0 OR MIT
// The module under Node: its answers, and that they are those of the program, byte for byte.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { after, describe, test } from "node:test";
import type { Question, Traffic, Transfers } from "../src/answers.ts";
import { Lab, Unanswered, type Watch } from "../src/wasm.ts";

const named = (name: string): string => {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: make check-web sets it`);
  return value;
};
const PROGRAM = named("CROSSLANE_PROGRAM");
const module = await WebAssembly.compile(readFileSync(named("CROSSLANE_WASM")));
const lab = await Lab.of(module);

/** Answers of real runs, by the names of their types. */
const samples: [string, unknown][] = [];
const sample = <T>(type: string, answer: T): T => {
  samples.push([type, answer]);
  return answer;
};

const traffic = (...flows: string[]): [Traffic, string] => {
  const operations = 256;
  const words = flows.map((flow) => `--flow ${flow} `).join("");
  return [{ kind: "traffic", flows, operations }, `traffic ${words}--operations ${operations}`];
};
const transfers = (work: Omit<Transfers, "kind">): [Transfers, string] => {
  const { bench, ...options } = work;
  const words = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
  return [{ kind: "transfers", ...work }, [bench, ...words].join(" ")];
};

/** Runs in labs, each as a question and as the words of the command line. */
const RUNS: [string, [Traffic | Transfers, string]][] = [
  ["rosta", traffic("fpga1:fpga5:write:4K", "fpga2:fpga6:write:4K")],
  ["rosta:crosslane", transfers({ bench: "p2p", from: "fpga1", to: "fpga5", size: "64K" })],
  ["rosta:iommu", traffic("fpga1:host0:read:1K")],
  ["minimal", transfers({ bench: "write", size: "64..256" })],
  ["rosta:crosslane", transfers({ bench: "latency", to: "fpga5", iterations: 100 })],
  ["kc705", traffic("kc705:host0:write:4K")],
  ["pciebench", traffic("nfp:host0:read:64,512")],
  ["pciebench:iommu", traffic("nfp:host0:write:256")],
  ["aws-f1", traffic("host0:f1:write:64")],
  ["sbdt", traffic("pac:fpga-node:write:4K")],
  ["nget", traffic("fpga1:gpu1:write:4K", "fpga2:gpu2:read:4K")],
  ["torus", traffic("fpga1:node1:write:4K", "fpga16:node16:read:4K")],
];

const program = (words: string[]) =>
  execFileSync(PROGRAM, words, { encoding: "utf8", maxBuffer: 1 << 28 });

const failureOf = (question: Question) => {
  try {
    lab.ask(question);
  } catch (error) {
    if (error instanceof Unanswered) return error.failure;
    throw error;
  }
  throw new Error("it has an answer");
};

/** The same question to the same crate, compiled for this machine. */
const native = (question: Question) =>
  execFileSync(named("CROSSLANE_NATIVE"), {
    input: JSON.stringify(question),
    encoding: "utf8",
    maxBuffer: 1 << 28,
  });

const chosen = (place: string) => {
  const [name, variant] = place.split(":");
  return { name: name!, ...(variant ? { variant } : {}) };
};

describe("results are those of the program, byte for byte", () => {
  for (const [place, [work, words]] of RUNS) {
    test(`${words} in ${place}`, () => {
      const run = lab.ask({ ask: "run", lab: chosen(place), work, why: true });
      const said = program(["bench", ...words.split(" "), "--lab", place, "--json"]);
      assert.equal(run.json, said);
      assert.equal(run.problem, null);
      sample("Bench", JSON.parse(run.json));
      sample("Run", run);
    });
  }
});

describe("traces are those of this machine", () => {
  for (const [place, [work, words]] of RUNS) {
    if (/\d\.\.|,\d/.test(words)) continue;
    test(`${words} in ${place}`, () => {
      const trace = { most: 2000, from_ps: 1_000_000 };
      const question: Question = { ask: "run", lab: chosen(place), work, trace };
      const answer = lab.answer(JSON.stringify(question));
      assert.equal(answer, native(question));
      const { hash, count, events } = JSON.parse(answer).answer.trace;
      assert.match(hash, /^[0-9a-f]{16}$/);
      assert.ok(count > events.length && events.length > 0, `${count} events`);
      assert.ok(events.every(([at]: [number]) => at >= trace.from_ps));
    });
  }

  test("another seed or lab is another trace", () => {
    const hash = (place: string) => {
      const work = traffic("fpga1:fpga5:write:4K")[0];
      const lab_ = chosen(place);
      return lab.ask({ ask: "run", lab: lab_, work, trace: {} }).trace!.hash;
    };
    assert.equal(hash("rosta"), hash("rosta"));
    assert.notEqual(hash("rosta"), hash("rosta:memory"));
  });
});

describe("labs", () => {
  test("shipped labs and parts of the library are listed", () => {
    const labs = sample("Labs", lab.ask({ ask: "labs" }));
    const listed: { name: string }[] = JSON.parse(program(["lab", "list", "--json"])).labs;
    assert.deepEqual(labs.labs.map(({ name }) => name), listed.map(({ name }) => name));
    assert.ok(labs.parts.some(({ kind }) => kind === "switch"));
    assert.match(labs.style, /--load4: light-dark/);
  });

  test("each shipped lab is checked, drawn and written", () => {
    for (const { name } of lab.ask({ ask: "labs" }).labs) {
      const found = sample("Checked", lab.ask({ ask: "check", lab: { name } }));
      assert.equal(found.checked.length, 1 + found.variants.length, name);
      const drawn = lab.ask({ ask: "topology", lab: { name } });
      for (const node of [...found.nodes.hosts, ...found.nodes.endpoints]) {
        assert.ok(drawn.svg.includes(`data-node="${node}"`), `${name}: ${node}`);
      }
      const text = lab.ask({ ask: "text", name });
      assert.equal(lab.ask({ ask: "written", lab: { name } }), text);
      sample("Constants", lab.ask({ ask: "constants", lab: { name } }));
    }
  });

  test("a drawing to keep is that of the program", () => {
    const { svg } = lab.ask({ ask: "topology", lab: { name: "rosta" }, standing: true });
    assert.equal(svg, readFileSync(new URL("../../../../docs/rosta.svg", import.meta.url), "utf8"));
  });

  test("an error names line, key and part", () => {
    const text = lab.ask({ ask: "text", name: "minimal" });
    const wrong = text.replace("max_width = { value = 16", "max_width = { value = 15");
    const { place, message } = sample(
      "Failure",
      failureOf({ ask: "check", lab: { name: "my.toml", text: wrong } }),
    );
    const line = 1 + wrong.split("\n").findIndex((it) => it.startsWith("max_width = { value = 15"));
    assert.equal(place?.line, line);
    assert.equal(place?.key, "part.host.port.max_width");
    assert.equal(place?.part, "host");
    assert.match(message, /15/);
  });

  test("changes are made, written and refused", () => {
    const changes = [{ set: "host0.mps=128" }, { link: "card0=3x2" }];
    const { topology } = lab.ask({ ask: "topology", lab: { name: "minimal", changes } });
    const card = topology.hosts[0]!.functions[0]!.children![0]!;
    assert.deepEqual([card.link!.generation, card.link!.width], [3, 2]);
    assert.equal(card.max_payload_bytes, 128);
    const text = lab.ask({ ask: "written", lab: { name: "minimal", changes } });
    assert.ok(lab.ask({ ask: "check", lab: { name: "my.toml", text } }).checked.length > 0);
    const wrong = { name: "minimal", changes: [{ set: "x.mps=1" }] };
    const { message } = failureOf({ ask: "check", lab: wrong });
    assert.match(message, /no host, switch or endpoint named x/);
  });

  test("constants are set", () => {
    const { constants } = lab.ask({ ask: "constants", lab: { name: "minimal" } });
    const { path } = constants.find((it) => it.path.endsWith("memory.read_latency_ns"))!;
    const changed = lab.ask({ ask: "constants", lab: { name: "minimal", set: { [path]: 321 } } });
    assert.equal(changed.constants.find((it) => it.path === path)!.value, "321");
  });
});

describe("edits", () => {
  test("a lab is edited as text, seen as a tree, and each node with its keys", () => {
    const own = { name: "minimal" };
    const edit = { edit: "add", part: "nvidia-connectx-6", below: "host0" } as const;
    const { text, added } = sample("Edited", lab.ask({ ask: "edit", lab: own, edit }));
    assert.equal(added, "card1");
    const after = { name: "my.toml", text };
    const outline = sample("Outline", lab.ask({ ask: "outline", lab: after }));
    assert.deepEqual(outline.nodes.map(({ name }) => name), ["host0", "card0", "card1"]);
    const view = sample("NodeView", lab.ask({ ask: "node", lab: after, node: "card1" }));
    const port = view.tables.find(({ name }) => name === "port")!;
    const generation = port.keys.find(({ key }) => key === "max_generation")!;
    assert.equal(generation.value, 4);
    assert.match(generation.source!, /^data sheet: ConnectX-6, /);
    const question: Question = { ask: "node", lab: after, node: "card1" };
    assert.equal(lab.answer(JSON.stringify(question)), native(question));
    const { message } = failureOf({ ask: "edit", lab: own, edit: { ...edit, below: "card0" } });
    assert.match(message, /^cannot put anything below card0/);
  });

  test("values are plotted", () => {
    const x = { label: "size", unit: "B", is_logarithmic: true };
    const y = { label: "rate", unit: "MB/s" };
    const lines: [string, [number, number][]][] = [["a <b>", [[64, 1], [4096, 2]]]];
    const plot = lab.ask({ ask: "plot", title: "Rate", x, y, lines });
    assert.match(plot, /^<figure.*<svg.*4 KiB/s);
    assert.ok(!plot.includes("<b>"), "names are text");
  });
});

describe("reports", () => {
  test("a run has the page that it has here", () => {
    const own = { name: "rosta" };
    const { json } = lab.ask({ ask: "run", lab: own, work: traffic("fpga1:fpga5:write:4K")[0] });
    const question: Question = { ask: "report", lab: own, outcome: json, command: "crosslane" };
    const page = lab.ask(question);
    assert.match(page, /^<!DOCTYPE html>.*Load of every link, in the last run/s);
    assert.equal(lab.answer(JSON.stringify(question)), native(question));
  });
});

describe("dumps", () => {
  const file = new URL("../../../twin/tests/dumps/server.txt", import.meta.url);
  const dump = readFileSync(file, "utf8");

  test("a machine becomes a lab that runs", () => {
    const dumps = [{ name: "dump.txt", text: dump }];
    const question: Question = { ask: "import", dumps, name: "mine" };
    assert.equal(lab.answer(JSON.stringify(question)), native(question));
    const twin = sample("Twin", lab.ask({ ask: "import", dumps, name: "mine" }));
    const card = twin.summary.endpoints[0]!.name;
    const named_ = { name: "mine.toml", text: twin.text };
    const host = lab.ask({ ask: "check", lab: named_ }).nodes.hosts[0]!;
    const work = traffic(`${card}:${host}:write:4K`)[0];
    const run = lab.ask({ ask: "run", lab: named_, work });
    assert.ok(run.figures[0]!.value > 1e8);
  });

  test("a text that is no dump is named", () => {
    const dumps = [{ name: "letter.txt", text: "Dear Sir," }];
    const { message } = failureOf({ ask: "import", dumps, name: "mine" });
    assert.match(message, /^cannot read letter\.txt: it is neither a listing of/);
  });
});

describe("bad questions", () => {
  test("what is no question is named", () => {
    for (const question of ["", "{", "[]", '{"ask":"fly"}', '{"ask":"text"}', "\u0000"]) {
      const { failure } = JSON.parse(lab.answer(question));
      assert.match(failure.message, /^this is no question: /);
    }
  });

  test("a flow that is impossible is named", () => {
    const ask = (...flows: string[]) =>
      failureOf({ ask: "run", lab: { name: "rosta" }, work: traffic(...flows)[0] }).message;
    assert.match(ask("fpga1"), /fpga1 has 1 part/);
    assert.match(ask("fpga1:nobody:write:4K"), /nobody/);
    assert.match(ask(), /a run needs a flow/);
    const work: Transfers = { kind: "transfers", bench: "p2p", size: "3" };
    const { message } = failureOf({ ask: "run", lab: { name: "rosta" }, work });
    assert.match(message, /^size 3: a transfer is a multiple of 4 B/);
  });

  test("a lab of too many parts is named", () => {
    const one = lab.ask({ ask: "text", name: "minimal" });
    const text = one.replaceAll('"card0"', '"card{1..10000}"');
    const { message } = failureOf({ ask: "check", lab: { name: "large.toml", text } });
    assert.match(message, /root ports of host0: .* more than the 31 that are possible/);
  });
});

describe("runs", () => {
  const long: Traffic = {
    kind: "traffic",
    flows: ["fpga1:fpga5:write:4K"],
    operations: 100_000_000,
  };

  test("one without end reports its progress and is stopped", async () => {
    const seen: [number, number][] = [];
    let busiest = 0;
    const watch: Watch = {
      isDue: () => true,
      loaded: (loads) => loads.forEach((it) => (busiest = Math.max(busiest, it.busy_share))),
      moved: (bytes, ps) => seen.push([bytes, ps]),
      isOver: () => seen.length >= 5,
    };
    const own = await Lab.of(module, watch);
    const question: Question = { ask: "run", lab: { name: "rosta" }, work: long };
    const { failure } = JSON.parse(own.answer(JSON.stringify(question)));
    assert.equal(failure.is_interrupted, true);
    assert.ok(seen.every(([, ps]) => ps > 0));
    assert.ok(busiest > 0.5 && busiest <= 1.01, `the busiest link is busy for ${busiest}`);
    // The instance goes on.
    assert.equal(own.ask({ ask: "check", lab: { name: "minimal" } }).name, "minimal");
  });

  test("the search for limits reports its runs", async () => {
    let tried = 0;
    const own = await Lab.of(module, { tried: () => (tried += 1) });
    const work = traffic("card0:host0:write:4K")[0];
    own.ask({ ask: "run", lab: { name: "minimal" }, work, why: true });
    assert.ok(tried > 5, `${tried} runs`);
  });
});

after(() => {
  const types = [...new Set(samples.map(([type]) => type))].join(", ");
  const lines = samples.map(([type, data], index) => {
    return `export const sample${index}: ${type} = ${JSON.stringify(data)};`;
  });
  const from = JSON.stringify(named("CROSSLANE_TYPES"));
  const head = `import type { ${types} } from ${from};`;
  writeFileSync(named("CROSSLANE_SAMPLES"), [head, ...lines, ""].join("\n"));
});
