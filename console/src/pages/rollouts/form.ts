/** The form of a rollout as the call takes it. */
import { timeOf } from "../../lib/durations";

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
    id: "", which: devices === "" ? "selector" : "devices", selector: query.get("selector") ?? "", place: "", devices, includeLater: false,
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
export function bodyOf(form: RolloutForm, payload: unknown): Record<string, unknown> & { payload: unknown } {
  const text = (given: string): string | undefined => (given.trim() === "" ? undefined : given.trim());
  const number = (given: string): number | undefined => (given.trim() === "" ? undefined : Number(given));
  const stages = form.stages.map(({ share, soak, approve }) => ({ share: shareOf(share), soak: text(soak), approve: approve || undefined }));
  const selected = { selector: form.selector.trim(), place: text(form.place), include_later: form.includeLater || undefined };
  return {
    payload,
    ...(form.which === "devices" ? { devices: idsOf(form.devices) } : selected),
    rate: number(form.rate),
    in_flight: number(form.inFlight),
    stages: stages.length > 0 ? stages : undefined,
    window: text(form.cron) === undefined ? undefined : { cron: text(form.cron), for: text(form.windowFor), tz: text(form.tz) },
    stop: text(form.failedShare) === undefined ? undefined : { failed_share: shareOf(form.failedShare), after: number(form.after) },
    ttl: text(form.ttl),
    not_before: timeOf(form.notBefore),
    key: text(form.key),
    origin: text(form.origin),
    priority: number(form.priority),
    max_attempts: number(form.attempts),
  };
}
