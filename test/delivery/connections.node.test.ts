import { expect, test } from "vitest";
import { CONNECTIONS, connections } from "../../src/delivery/http.ts";

/** Tasks that run until they are ended, over connections that so many destinations share. */
function track(groups: number) {
  const shared = connections(groups);
  const running: { group: string; end: () => void }[] = [];
  let most = 0;

  function start(group: string): Promise<void> {
    return shared.run(group, () => {
      return new Promise<void>((resolve) => {
        const task = {
          group,
          end: () => {
            running.splice(running.indexOf(task), 1);
            resolve();
          },
        };
        running.push(task);
        most = Math.max(most, running.length);
      });
    });
  }

  return {
    shared,
    start,
    startMany: (group: string, count: number) => {
      for (let i = 0; i < count; i++) void start(group);
    },
    runningOf: (group: string) => running.filter((task) => task.group === group).length,
    endOne: async (group: string) => {
      running.find((task) => task.group === group)?.end();
      await calm();
    },
    most: () => most,
  };
}

/** Until every promise that can go on has gone on. */
const calm = () => new Promise((resolve) => setTimeout(resolve));

test("connections run six tasks at once and no more", async () => {
  const { startMany, endOne, most } = track(20);
  for (let i = 0; i < 20; i++) startMany(`group ${i}`, 5);
  for (let i = 0; i < 20; i++) {
    await calm();
    await endOne(`group ${i}`);
  }
  expect(CONNECTIONS).toBe(6);
  expect(most()).toBe(6);
});

test("all six connections go to a destination that is alone", async () => {
  const { startMany, runningOf } = track(1);
  startMany("a", 10);
  await calm();
  expect(runningOf("a")).toBe(6);
});

test("the last connection is kept for the other destinations, even before they have a task", async () => {
  const { startMany, runningOf } = track(2);
  startMany("hangs", 100);
  await calm();
  expect(runningOf("hangs")).toBe(5);
  startMany("comes later", 1);
  await calm();
  expect(runningOf("comes later")).toBe(1);
});

test("the last connection is kept between two attempts of a destination that makes one after the other", async () => {
  const { start, startMany, runningOf, endOne } = track(2);
  startMany("hangs", 100);
  for (let i = 0; i < 10; i++) {
    const attempt = start("one by one");
    await calm();
    expect(runningOf("one by one")).toBe(1);
    await endOne("one by one");
    await attempt;
  }
});

test("a free connection goes to the destination that holds the fewest", async () => {
  const { startMany, runningOf, endOne } = track(3);
  startMany("a", 10);
  startMany("b", 10);
  await calm();
  expect([runningOf("a"), runningOf("b")]).toEqual([5, 1]);
  for (let i = 0; i < 3; i++) await endOne("a");
  expect(runningOf("b")).toBeGreaterThanOrEqual(2);
  startMany("c", 1);
  await endOne("a");
  expect(runningOf("c")).toBe(1);
});

test("a task that throws frees its connection", async () => {
  const { shared } = track(1);
  for (let i = 0; i < 20; i++) {
    await expect(shared.run("a", () => Promise.reject(new Error("broke")))).rejects.toThrow("broke");
  }
  await expect(shared.run("a", async () => "through")).resolves.toBe("through");
});
