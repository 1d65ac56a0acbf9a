// SPDX-License-Identifier: Apache-2.0 OR MIT
// A state as the fragment of an address: JSON, deflated, in base64url. It goes to no server.

import type { State } from "./state.ts";
import { FIRST } from "./state.ts";

/** Most bytes of a state that a fragment may hold. */
const MOST_BYTES = 4 << 20;

async function through(bytes: Uint8Array<ArrayBuffer>, by: TransformStream): Promise<Uint8Array> {
  const stream = new Blob([bytes]).stream().pipeThrough(by) as ReadableStream<Uint8Array>;
  const parts: Uint8Array[] = [];
  let length = 0;
  for (const reader = stream.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    length += value.length;
    if (length > MOST_BYTES) throw new Error("the address holds more than a lab");
  }
  const all = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Returns the fragment of a state. */
export async function fragmentOf(state: State): Promise<string> {
  const bytes = new TextEncoder().encode(JSON.stringify(state));
  const packed = await through(bytes, new CompressionStream("deflate-raw"));
  let binary = "";
  for (const byte of packed) binary += String.fromCharCode(byte);
  return `lab=${btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

/** Reads the state of a fragment; `null` if it has none. */
export async function stateOf(fragment: string): Promise<State | null> {
  const packed = /^#?lab=([\w-]+)$/.exec(fragment)?.[1];
  if (!packed) return null;
  const binary = atob(packed.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
  const text = new TextDecoder().decode(
    await through(bytes, new DecompressionStream("deflate-raw")),
  );
  return checked(JSON.parse(text));
}

/** Takes what is a state of an object that anybody may have written. */
function checked(found: unknown): State {
  const isObject = typeof found === "object" && found !== null;
  const from = (isObject ? found : {}) as Record<string, unknown>;
  const text = (value: unknown): string | null => (typeof value === "string" ? value : null);
  const flows = (Array.isArray(from["flows"]) ? from["flows"] : []).slice(0, 64).map((flow) => ({
    from: text(flow?.from) ?? "",
    to: text(flow?.to) ?? "",
    kind: flow?.kind === "read" ? ("read" as const) : ("write" as const),
    size: text(flow?.size) ?? "4K",
  }));
  const operations = from["operations"];
  const changes = Object.entries(from["what_if"] ?? {}).slice(0, 64);
  return {
    name: text(from["name"]) ?? FIRST.name,
    text: text(from["text"]),
    variant: text(from["variant"]),
    mover: from["mover"] === "engine" ? "engine" : "generic",
    flows: flows.length ? flows : FIRST.flows,
    operations: typeof operations === "number" && operations > 0 ? Math.floor(operations) : null,
    what_if: Object.fromEntries(changes.filter(([, change]) => typeof change === "object")),
  };
}
