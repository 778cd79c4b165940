/** The form of a campaign: what is in it, the body of the call, and what a change changes. */
import type { Campaign } from "../../lib/campaigns";
import { timeOf } from "../../lib/durations";
import { filled } from "../../lib/filled";
import { toLocal } from "../../lib/when";
import { emptyPicks, picksOf, wrongPicks, type PickForm } from "../tasks/form";

export interface CampaignForm extends PickForm {
  id: string;
  name: string;
  mode: "every" | "over";
  interval: string;
  phase: string;
  from: string;
  until: string;
  missed: string;
  panel: boolean;
  relation: string;
  task: string;
  /** Where results go: "", "queue", "stream" or "url". */
  receiver: string;
  address: string;
}

export function emptyCampaign(query: URLSearchParams): CampaignForm {
  return {
    ...emptyPicks(query), id: "", name: "", mode: "every", interval: "5m", phase: "", from: "", until: "", missed: "", panel: false,
    relation: "", task: "", receiver: "", address: "",
  };
}

/** A campaign as its form shows it. */
export function formOf(campaign: Campaign): CampaignForm {
  const [receiver, address] = Object.entries(filled(campaign.results ?? {}))[0] ?? ["", ""];
  return {
    ...emptyCampaign(new URLSearchParams()),
    id: campaign.id,
    name: campaign.name ?? "",
    which: campaign.devices == null ? "selection" : "devices",
    devices: campaign.devices?.join("\n") ?? "",
    selector: campaign.selector ?? "",
    exclude: campaign.exclude ?? "",
    payload: JSON.stringify(campaign.payload, null, 2),
    count: String(campaign.count),
    mode: campaign.over == null ? "every" : "over",
    interval: campaign.every ?? campaign.over ?? "",
    phase: campaign.phase ?? "",
    answerTimeout: campaign.answer_timeout,
    class: campaign.class,
    spreadBy: campaign.spread_by ?? "",
    relation: campaign.same_as != null ? "same_as" : campaign.not_as != null ? "not_as" : "",
    task: campaign.same_as ?? campaign.not_as ?? "",
    from: toLocal(campaign.from ?? ""),
    until: toLocal(campaign.until ?? ""),
    missed: campaign.missed,
    panel: campaign.panel ?? false,
    receiver,
    address: String(address),
  };
}

/** The body of a campaign; what was left empty is left out. */
export function campaignOf(form: CampaignForm, payload: unknown): Record<string, unknown> {
  return {
    ...picksOf(form, payload),
    [form.mode]: form.interval.trim(),
    ...(form.relation === "" ? {} : filled({ [form.relation]: form.task.trim() })),
    ...filled({
      id: form.id.trim(), name: form.name.trim(), phase: form.phase.trim(), from: timeOf(form.from), until: timeOf(form.until),
      missed: form.missed, panel: form.panel || undefined,
      results: form.receiver === "" ? undefined : { [form.receiver]: form.address.trim() },
    }),
  };
}

/**
 * What a change sends: members that are other than before, and `null` for those that are gone.
 * Whoever changes one of selector and place says what both are from then on.
 */
export function patchOf(before: Record<string, unknown>, after: Record<string, unknown>): Record<string, unknown> {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const isOther = (name: string): boolean => JSON.stringify(before[name]) !== JSON.stringify(after[name]);
  const together = ["selector", "place"];
  const both = together.some(isOther) ? together.filter((name) => name in after) : [];
  const changed = names.filter((name) => isOther(name) || both.includes(name));
  return Object.fromEntries(changed.map((name) => [name, after[name] ?? null]));
}

/** What is wrong with it, in a sentence; the server has the last word. */
export function wrongCampaign(form: CampaignForm, isJson: boolean): string | undefined {
  const wrong = wrongPicks(form, isJson);
  if (wrong !== undefined) return wrong;
  if (form.interval.trim() === "") return "Say how often, or over how long.";
  if (form.receiver !== "" && form.address.trim() === "") return "Say where the results go.";
  if (form.relation !== "" && form.task.trim() === "") return "Name the task.";
  return undefined;
}
