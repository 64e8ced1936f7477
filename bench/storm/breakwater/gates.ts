/**
 * Durable Objects in virtual time: the production class over storage in memory, one object per destination, with its
 * alarm. Arguments and results of calls are cloned, as RPC does; a gate can be evicted at any time.
 */

import type { GateState } from "../../../src/core/gate-state.ts";
import { DestinationGate } from "../../../src/gate/durable-object.ts";
import type { Services } from "../../../src/services.ts";
import type { Engine } from "../engine.ts";

/** Makes the call to a gate by calling `work`, at most once. */
export type GateCall = <T>(method: string, destination: string, work: () => Promise<T>) => Promise<T>;

export type Gates = Readonly<{
  /** The binding for production code; `call` makes each call. */
  bindingFor: (call: GateCall) => DurableObjectNamespace<DestinationGate>;
  /** The stored state of a destination's gate; undefined before its first call. */
  stateOf: (destination: string) => GateState | undefined;
  /** When its alarm goes off, epoch ms. */
  alarmOf: (destination: string) => number | null;
  /** Drops the object from memory. */
  evict: (destination: string) => void;
}>;

/** A class of objects that send drains, and have an alarm. */
type ObjectClass<Object> = new (state: DurableObjectState, env: Env) => Object & { alarm(): Promise<void> };

/** How late an alarm goes off. */
const ALARM_LATE_MS = 10;
/** How often an alarm that throws runs again, and after how long at first; the wait doubles each time. */
const ALARM_RETRIES = 6;
const ALARM_RETRY_MS = 2_000;

/** The engine's timers, or those of a world that rings alarms by itself. */
type Timers = Pick<Engine, "at" | "after">;

type Methods = Record<string, (...args: unknown[]) => unknown>;

type Place = {
  readonly storage: Map<string, unknown>;
  object: { alarm(): Promise<void> } | undefined;
  alarmAt: number | null;
};

/**
 * @param drainsFor the queue that the gate of this destination sends drains over
 * @param onRow called for each row that a gate writes: a value put or deleted, an alarm set or deleted
 */
export function virtualGates(
  engine: Timers,
  drainsFor: (destination: string) => Services["drains"],
  onRow?: () => void,
): Gates {
  const { places, ...objects } = virtualObjects(engine, DestinationGate, drainsFor, onRow);
  return {
    ...objects,
    stateOf: (destination) => {
      const stored = places.get(destination)?.storage.get("gate");
      return typeof stored === "string" ? (JSON.parse(stored) as GateState) : undefined;
    },
  };
}

/** Objects of a class, by name. */
export function virtualObjects<Object extends Rpc.DurableObjectBranded>(
  engine: Timers,
  Class: ObjectClass<Object>,
  drainsFor: (name: string) => Services["drains"],
  onRow: () => void = () => {},
) {
  const places = new Map<string, Place>();

  function placeOf(name: string): Place {
    const known: Place = places.get(name) ?? { storage: new Map(), object: undefined, alarmAt: null };
    places.set(name, known);
    return known;
  }

  function objectOf(name: string): { alarm(): Promise<void> } {
    const place = placeOf(name);
    const env = { DRAINS: drainsFor(name) } as unknown as Env;
    place.object ??= new Class(stateIn(name, place), env);
    return place.object;
  }

  function stateIn(name: string, place: Place): DurableObjectState {
    const { storage } = place;
    const kv = {
      get: (key: string) => storage.get(key),
      put: (key: string, value: unknown) => {
        onRow();
        storage.set(key, typeof value === "string" ? value : structuredClone(value));
      },
      delete: (key: string) => {
        onRow();
        return storage.delete(key);
      },
      list: () => storage.entries(),
    };
    const setAlarm = async (at: number | Date | null) => {
      onRow();
      setAlarmOf(name, at === null ? null : Number(at));
    };
    const alarms = {
      setAlarm,
      deleteAlarm: () => setAlarm(null),
      getAlarm: async () => place.alarmAt,
      deleteAll: async () => storage.clear(),
      sync: async () => {},
      transactionSync: <T>(work: () => T) => work(),
    };
    return { id: { name }, storage: { kv, ...alarms }, waitUntil: () => {} } as unknown as DurableObjectState;
  }

  function setAlarmOf(name: string, at: number | null): void {
    placeOf(name).alarmAt = at;
    if (at !== null) engine.at(at + ALARM_LATE_MS, () => goOff(name, at, 0));
  }

  /** Runs the alarm, unless it has been set to another time since. */
  async function goOff(name: string, at: number, retries: number): Promise<void> {
    const place = placeOf(name);
    if (retries === 0 && place.alarmAt !== at) return;
    if (retries === 0) place.alarmAt = null;
    if (retries > 0 && place.alarmAt !== null) return;
    try {
      await objectOf(name).alarm();
    } catch {
      // An alarm that has been set meanwhile replaces the retry.
      if (place.alarmAt !== null || retries === ALARM_RETRIES) return;
      engine.after(ALARM_RETRY_MS * 2 ** retries, () => goOff(name, at, retries + 1));
    }
  }

  function bindingFor(call: GateCall): DurableObjectNamespace<Object> {
    const stub = (name: string) =>
      new Proxy({} as Methods, {
        get:
          (_, method: string) =>
          (...args: unknown[]) => {
            const sent = structuredClone(args);
            return call(method, name, async () => {
              const object = objectOf(name) as unknown as Methods;
              return structuredClone(await object[method]?.(...sent));
            });
          },
      });
    const binding = { idFromName: (name: string) => name, get: stub, getByName: stub };
    return binding as unknown as DurableObjectNamespace<Object>;
  }

  return {
    places,
    bindingFor,
    alarmOf: (destination: string) => places.get(destination)?.alarmAt ?? null,
    evict: (destination: string) => {
      placeOf(destination).object = undefined;
    },
  };
}
