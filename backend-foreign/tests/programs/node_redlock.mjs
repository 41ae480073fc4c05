// A client of node-redlock on one node, with commands from stdin: see tests/all/clients/program.rs.
import { readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { createRequire } from "node:module";

const require = createRequire(process.argv[4] + "/");
const Redis = require("ioredis");
const Redlock = require("redlock").default;

const client = new Redis({ host: process.argv[2], port: Number(process.argv[3]) });
const redlock = new Redlock([client], { retryCount: -1, automaticExtensionThreshold: 500 });
const held = new Map();
const pause = (millis) => new Promise((done) => setTimeout(done, millis));

const words = {
  async acquire(name, millis, settings) {
    held.set(name, await redlock.acquire([name], Number(millis), settings));
    return "got";
  },
  async release(name) {
    const lock = held.get(name);
    held.delete(name);
    try {
      // Without retries: it would retry if the lock is gone.
      await redlock.release(lock, { retryCount: 0 });
      return "released";
    } catch {
      return "lost";
    }
  },
  async count(name, path, holds) {
    let done = 0;
    while (done < Number(holds)) {
      await words.acquire(name, 20000, { retryDelay: 10, retryJitter: 5 });
      const [number, last] = readFileSync(path, "utf8").split(" ");
      if (last !== "theirs") {
        await pause(1);
        writeFileSync(path, `${Number(number) + 1} theirs`);
        done += 1;
      }
      if ((await words.release(name)) !== "released") throw new Error("lost");
      await pause(30);
    }
    return "counted";
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const [word, ...rest] = line.split(" ");
  console.log(await words[word](...rest));
}
process.exit(0);
