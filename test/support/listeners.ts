/** Records the types of events for which listeners are added at the signal from now on. */
export function listenersAt(signal: AbortSignal): ReadonlySet<string> {
  const types = new Set<string>();
  const { addEventListener, removeEventListener } = signal;
  Object.assign(signal, {
    addEventListener: (type: string, ...rest: [EventListener]) => {
      types.add(type);
      addEventListener.call(signal, type, ...rest);
    },
    removeEventListener: (type: string, ...rest: [EventListener]) => {
      types.delete(type);
      removeEventListener.call(signal, type, ...rest);
    },
  });
  return types;
}
