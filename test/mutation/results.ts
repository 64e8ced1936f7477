/** The results of a run so far, in a file, so that it can be stopped and continued at any time. */
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { Mutant } from "./plan.ts";

/** By the keys of mutants and the files of tests. */
type Stored = {
  /** A digest of each file with mutants: what was found in another version of it is forgotten. */
  sources: Record<string, string>;
  /** The test that has killed a mutant, or how many tests it has survived. */
  killed: Record<string, string>;
  survived: Record<string, number>;
  /** Digests of the files of tests that are done. */
  done: Record<string, string>;
  /** Files of tests that did not end. */
  hung: string[];
};

export function digestOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

/** A name for each mutant that stays when other lines change. */
export function keysOf(mutants: readonly Mutant[]): Map<number, string> {
  const times = new Map<string, number>();
  return new Map(
    mutants.map(({ id, file, original, replacement }) => {
      const key = `${file}: ${digestOf(`${original}\n${replacement}`)}`;
      const time = (times.get(key) ?? 0) + 1;
      times.set(key, time);
      return [id, `${key} ${time}`] as const;
    }),
  );
}

export class Results {
  private stored: Stored = { sources: {}, killed: {}, survived: {}, done: {}, hung: [] };
  private readonly keys: ReadonlyMap<number, string>;
  private readonly path: string;

  constructor(path: string, mutants: readonly Mutant[], sources: Readonly<Record<string, string>>) {
    this.path = path;
    this.keys = keysOf(mutants);
    try {
      this.stored = JSON.parse(readFileSync(path, "utf8"));
    } catch {}
    this.forgetChanged(sources);
  }

  private forgetChanged(sources: Readonly<Record<string, string>>): void {
    const changed = Object.keys(sources).filter((file) => this.stored.sources[file] !== sources[file]);
    const isKept = ([key]: [string, unknown]) => !changed.some((file) => key.startsWith(`${file}: `));
    const { killed, survived, done } = this.stored;
    this.stored.killed = Object.fromEntries(Object.entries(killed).filter(isKept));
    this.stored.survived = Object.fromEntries(Object.entries(survived).filter(isKept));
    this.stored.done = changed.length > 0 ? {} : done;
    this.stored.sources = { ...sources };
  }

  private keyOf(id: number): string {
    return this.keys.get(id) ?? "";
  }

  killer(id: number): string | undefined {
    return this.stored.killed[this.keyOf(id)];
  }

  /** How many tests a mutant has survived. */
  survived(id: number): number {
    return this.stored.survived[this.keyOf(id)] ?? 0;
  }

  kill(id: number, test: string): void {
    this.stored.killed[this.keyOf(id)] ??= test;
  }

  survive(id: number): void {
    this.stored.survived[this.keyOf(id)] = this.survived(id) + 1;
  }

  isDone(file: string, digest: string): boolean {
    return this.stored.done[file] === digest;
  }

  finish(file: string, digest: string): void {
    this.stored.done[file] = digest;
    this.save();
  }

  /** A file of tests that did not end is not started again. */
  hang(file: string, digest: string): void {
    this.stored.hung.push(file);
    this.finish(file, digest);
  }

  save(): void {
    mkdirSync(dirname(this.path), { recursive: true });
    writeFileSync(this.path, JSON.stringify(this.stored, null, 1));
  }
}
