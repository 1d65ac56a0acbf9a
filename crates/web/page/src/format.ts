// SPDX-License-Identifier: Apache-2.0 OR MIT
// Numbers as people read them. Units are decimal: MB/s is 1000000 bytes a second.

/** `3012.4 MB/s`, as the program prints it. */
export function rate(bytesPerSecond: number): string {
  return `${(bytesPerSecond / 1e6).toFixed(1)} MB/s`;
}

/** `87.3 %`. */
export function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

/** `+12.0 %`. */
export function gain(fraction: number): string {
  return `${fraction < 0 ? "−" : "+"}${(100 * Math.abs(fraction)).toFixed(1)} %`;
}

/** `1.234 µs`. */
export function time(picoseconds: number): string {
  const units = ["ps", "ns", "µs", "ms", "s"];
  let value = picoseconds;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toPrecision(4)} ${units[unit]}`;
}

/** `4 KiB`, `1 MiB`; other numbers as bytes. */
export function size(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && value % 1024 === 0 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return unit === 0 && value >= 1e6 ? `${(value / 1e6).toFixed(1)} MB` : `${value} ${units[unit]}`;
}

/** A figure of a run: a rate, or a time. */
export function figure(value: number, better: "higher" | "lower"): string {
  return better === "higher" ? rate(value) : time(value);
}
