/** A small fleet that has something of everything, for specs and pictures. */
import { createServer } from "node:http";
import { once } from "node:events";
import { setTimeout as wait } from "node:timers/promises";
import { probes } from "./mqtt.mjs";

const SITES = ["harbour", "station", "airport", "old town"];
export const DEVICES = 120;

/**
 * Registers devices with labels, a client that hears them, one whose receiver refuses everything, and
 * a queue with jobs of every state, and a stream of some blocks. Answers what makes the fleet report.
 */
export async function seed(site) {
  const receiver = createServer((request, response) => {
    request.resume().on("end", () => {
      response.statusCode = request.url === "/refuses" ? 500 : 204;
      response.end(request.url === "/refuses" ? "no room for more" : undefined);
    });
  }).listen(0, "127.0.0.1");
  receiver.unref();
  await once(receiver, "listening");
  const url = `http://127.0.0.1:${receiver.address().port}`;
  await site.api("POST", "/v1/clients", { id: "acme", name: "Acme Doors", url: `${url}/hook` });
  await site.api("POST", "/v1/clients", { id: "bolt", name: "Bolt & Sons", url: `${url}/refuses` });
  const ids = Array.from({ length: DEVICES }, (_, n) => `lock${String(n).padStart(3, "0")}`);
  const lines = ids.map((id, n) => {
    const labels = { site: SITES[n % SITES.length], floor: String(n % 7) };
    const clients = n % 10 === 0 ? ["acme", "bolt"] : ["acme"];
    return JSON.stringify({ id, labels, clients, address: `${n} Harbour St` });
  });
  await site.api("POST", "/v1/devices/import", lines.join("\n"));
  await publish(site);
  await appendOrders(site);
  await refuse(site);
  await site.report(...ids.slice(0, DEVICES - 8).map((device_id) => ({ device_id, data: 1 })));
  const command = await site.api("POST", "/v1/devices/lock001/commands", { payload: { open: true } });
  const rollout = await site.api("POST", "/v1/rollouts", { payload: { blink: 3 }, selector: "site=harbour", ttl: "1d" });
  const refused = () => site.api("GET", "/v1/deliveries?client=bolt&limit=1");
  while ((await refused()).items.length === 0) await wait(50);
  const delivery = (await refused()).items[0].id;
  return { ids, command: command.id, rollout: rollout.id, delivery, reports: () => reporting(site, ids) };
}

/**
 * Connects half of the devices, which answer all but one time in ten, and has them asked by a campaign
 * and by a task. Answers the task's id.
 */
export async function askFleet(t, site, ids) {
  let asked = 0;
  await probes(t, site, ids.slice(0, DEVICES / 2), () => {
    asked += 1;
    return asked % 10 === 0 ? undefined : { ok: asked % 7 !== 0, result: { rtt_ms: 8 + (asked % 9) } };
  });
  const terms = { payload: { op: "ping" }, answer_timeout: "2s" };
  await site.api("PUT", "/v1/campaigns/ping", { ...terms, name: "Ping of the harbour", selector: "site in (harbour,station)", count: 12, every: "2s" });
  return (await site.api("POST", "/v1/tasks?wait=5s", { ...terms, count: 25, deadline: "4s" })).id;
}

async function publish(site) {
  const jobs = (name, jobs) => site.api("POST", `/v1/queues/shop/${name}/jobs`, { jobs });
  await jobs("mails", Array.from({ length: 40 }, (_, n) => ({ payload: { to: `customer ${n}` } })));
  await jobs("invoices", Array.from({ length: 12 }, (_, n) => ({ payload: { invoice: n }, delay: "1h" })));
  await jobs("scans", Array.from({ length: 5 }, (_, n) => ({ payload: { scan: n }, tries: 1 })));
  const held = await site.api("POST", "/v1/queues/shop/scans/consume", { max: 4, ttr: "1m" });
  for (const { id, reservation } of held.jobs) {
    await site.api("POST", `/v1/queues/shop/scans/jobs/${id}/release`, { reservation, error: "the scanner is out of paper" });
  }
  await site.api("POST", "/v1/queues/shop/invoices/pause");
}

async function appendOrders(site) {
  const orders = "/v1/streams/shop/orders";
  await site.api("PUT", `${orders}/settings`, { save: "wait", save_interval: "500ms", keep: { age: "30d", bytes: "10GB" }, block: { messages: 40 } });
  for (let till = 1; till <= 4; till += 1) {
    const messages = Array.from({ length: 30 }, (_, n) => ({
      payload: { order: 1000 * till + n, total: 19.9 }, source: `till-${till}`, external_id: n, segment: till % 2 === 0 ? "north" : "south",
      headers: { "content-language": "en" },
    }));
    await site.api("POST", `${orders}/messages`, { messages });
  }
}

/** Reports that end in quarantine. */
function refuse(site) {
  const reports = [{ device_id: "lock999", data: 1 }, { device_id: "lock001", data: "open" }];
  return site.api("POST", "/v1/reports", [...reports.map((report) => JSON.stringify(report)), "not JSON"].join("\n"));
}

/** Every device reports something new, a few at a time, until it is stopped. */
function reporting(site, ids) {
  let stopped = false;
  let value = 0;
  const work = (async () => {
    while (!stopped) {
      value = 1 - value;
      const some = ids.filter(() => Math.random() < 0.15);
      if (some.length > 0) await site.report(...some.map((device_id) => ({ device_id, data: value })));
      await wait(150);
    }
  })();
  return {
    stop: async () => {
      stopped = true;
      await work;
    },
  };
}
