/** The fleet by place and by label, and how fairly its devices are picked. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, readable, shared, startSite, until, visit } from "./harness.mjs";
import { probes } from "./mqtt.mjs";
import { fleetAnswers, HOSTILE_TEXT } from "./picks.mjs";

const site = shared((t) => startSite(t));

test("the fleet is gone through level by level, and by any label", async () => {
  const expected = [/status of 422/];
  const asked = [];
  const answers = fleetAnswers();
  const count = answers["GET /v1/fleet/count"];
  answers["GET /v1/fleet/count"] = (query) => (asked.push(query), count(query));
  await visit(await site(), "/fleet", { expected, answers }, async (page) => {
    const values = page.getByRole("list", { name: "Devices by country" });
    await values.getByText("7,000 of 8,000").waitFor();
    assert.equal(await page.locator("main img").count(), 0);
    await values.getByText(HOSTILE_TEXT).waitFor();
    await accessible(page);
    await page.getByRole("link", { name: "CN", exact: true }).click();
    await page.waitForURL("**/fleet?place=CN");
    await page.getByRole("list", { name: "Devices by province" }).getByText("3,900 of 4,000").waitFor();
    await page.getByText("The 2 largest values are shown.").waitFor();
    assert.deepEqual(asked.at(-1), { place: "CN", by: "province" });
    await page.getByRole("link", { name: "Everywhere" }).click();
    // A value that a place cannot say.
    await page.getByRole("link", { name: "two_words", exact: true }).click();
    await page.waitForURL(/place=\*/);
    await until("country=two_words", async () => asked.at(-1).selector);
    await page.getByLabel("Group by").selectOption("answering");
    await page.waitForURL(/by=answering/);
    await page.getByRole("list", { name: "Devices by answering" }).getByText("9,000 of 9,000").waitFor();
    await page.getByLabel("Another label").fill("firmware");
    await page.keyboard.press("Enter");
    await page.waitForURL(/by=firmware/);
    await page.getByRole("list", { name: "Devices by firmware" }).waitFor();
    assert.equal(await page.getByRole("link", { name: "devices of yes" }).getAttribute("href"), "/console/devices?selector=country%3Dtwo_words%2Cfirmware%3Dyes&place=*");
    await page.getByRole("searchbox", { name: "Selector" }).fill("site in (");
    await page.getByRole("alert").getByText("ends within brackets").waitFor();
  });
});

test("places are counted as devices connect", async (t) => {
  const site = await startSite(t, { settings: '[fleet]\nplace = ["country", "city"]\n' });
  const lines = ["a", "b", "c"].map((id, n) => JSON.stringify({ id, labels: { country: n < 2 ? "CN" : "DE", city: id } }));
  await site.api("POST", "/v1/devices/import", lines.join("\n"));
  await probes(t, site, ["a"], () => undefined);
  await visit(site, "/fleet", {}, async (page) => {
    await page.getByText("1 of 2", { exact: true }).waitFor();
    await page.getByText("0 of 1", { exact: true }).waitFor();
    await probes(t, site, ["b"], () => undefined);
    await page.getByText("2 of 2", { exact: true }).waitFor();
    await page.getByRole("link", { name: "CN", exact: true }).click();
    await page.getByRole("list", { name: "Devices by city" }).getByRole("link", { name: "devices of b" }).click();
    await page.waitForURL("**/devices?selector=city%3Db&place=CN");
    await page.getByRole("link", { name: "b", exact: true }).waitFor();
  });
});

test("weights are listed, and who is benched is marked", async () => {
  await visit(await site(), "/fleet?tab=weights&selector=kind%3Dprobe", { answers: fleetAnswers() }, async (page) => {
    await page.getByText("12,345 devices match now, 9,876 connected.").waitFor();
    await page.getByText("drops by 0.001 × punishment").waitFor();
    const line = page.getByRole("row").filter({ hasText: "probe002" });
    await line.getByText("benched").waitFor();
    assert.equal(await page.getByText("benched", { exact: true }).count(), 1);
    await page.getByRole("link", { name: "By place" }).click();
    await page.waitForURL("**/fleet?selector=kind%3Dprobe");
  });
});

test("both themes and a narrow window can be read", async () => {
  const ready = (page, path) => page.getByText(path.includes("weights") ? "probe000" : "7,000 of 8,000").first().waitFor();
  await readable(await site(), ["/fleet", "/fleet?tab=weights"], ready, { answers: fleetAnswers() });
});
