/** The form of a rollout as the call takes it. */
import type { paths } from "@fieldpost/client";
import { timeOf } from "../../lib/durations";
import { filled } from "../../lib/filled";

type NewRollout = paths["/v1/rollouts"]["post"]["requestBody"]["content"]["application/json"];

export interface StageForm {
  /** In per cent, cumulative. */
  share: string;
  soak: string;
  approve: boolean;
}

export interface RolloutForm {
  id: string;
  which: "selector" | "devices";
  selector: string;
  place: string;
  devices: string;
  includeLater: boolean;
  payload: string;
  rate: string;
  inFlight: string;
  stages: StageForm[];
  cron: string;
  windowFor: string;
  tz: string;
  failedShare: string;
  after: string;
  ttl: string;
  notBefore: string;
  key: string;
  origin: string;
  priority: string;
  attempts: string;
}

export function emptyForm(query: URLSearchParams): RolloutForm {
  const devices = query.get("devices") ?? "";
  return {
    id: "", which: devices === "" ? "selector" : "devices", selector: query.get("selector") ?? "", place: query.get("place") ?? "", devices, includeLater: false,
    payload: "", rate: "", inFlight: "", stages: [], cron: "", windowFor: "", tz: "", failedShare: "", after: "", ttl: "",
    notBefore: "", key: "", origin: "", priority: "", attempts: "",
  };
}

/** Ids with anything between them that no id has. */
export function idsOf(text: string): string[] {
  return [...new Set(text.split(/[\s,;]+/).filter((id) => id !== ""))];
}

/** A share of 1 of one in per cent, without what binary fractions add to it. */
export function shareOf(percent: string): number {
  return Number((Number(percent) / 100).toPrecision(12));
}

/** The body of the call; what was left empty is left out. */
export function bodyOf(form: RolloutForm, payload: unknown): NewRollout {
  const number = (given: string): number | undefined => (given.trim() === "" ? undefined : Number(given));
  const stages = form.stages.map(({ share, soak, approve }) => ({
    share: shareOf(share), ...filled({ soak: soak.trim(), approve: approve || undefined }),
  }));
  const selected = { selector: form.selector.trim(), ...filled({ place: form.place.trim(), include_later: form.includeLater || undefined }) };
  const window = { cron: form.cron.trim(), for: form.windowFor.trim() };
  return {
    payload,
    ...(form.which === "devices" ? { devices: idsOf(form.devices) } : selected),
    ...filled({
      rate: number(form.rate),
      in_flight: number(form.inFlight),
      stages: stages.length > 0 ? stages : undefined,
      window: window.cron === "" ? undefined : { ...window, ...filled({ tz: form.tz.trim() }) },
      stop: form.failedShare.trim() === "" ? undefined : { failed_share: shareOf(form.failedShare), ...filled({ after: number(form.after) }) },
      ttl: form.ttl.trim(),
      not_before: timeOf(form.notBefore),
      key: form.key.trim(),
      origin: form.origin.trim(),
      priority: number(form.priority),
      max_attempts: number(form.attempts),
    }),
  };
}
