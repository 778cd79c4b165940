/** What is asked of whom, as people type it, and as the calls of tasks and campaigns take it. */
import { filled } from "../../lib/filled";

/** What tasks and campaigns have in common. */
export interface PickForm {
  which: "selection" | "devices";
  selector: string;
  place: string;
  exclude: string;
  devices: string;
  payload: string;
  count: string;
  answerTimeout: string;
  class: string;
  spreadBy: string;
}

export interface TaskForm extends PickForm {
  deadline: string;
  /** "", "same_as" or "not_as", and the task that it is about. */
  relation: string;
  task: string;
}

export function emptyPicks(query: URLSearchParams): PickForm {
  return {
    which: "selection", selector: query.get("selector") ?? "", place: query.get("place") ?? "", exclude: "", devices: "",
    payload: "", count: "10", answerTimeout: "", class: "", spreadBy: "",
  };
}

export function emptyTask(query: URLSearchParams): TaskForm {
  return { ...emptyPicks(query), deadline: "", relation: "", task: "" };
}

/** Ids with anything between them that no id has. */
export function idsOf(text: string): string[] {
  return [...new Set(text.split(/[\s,;]+/).filter((id) => id !== ""))];
}

export function picksOf(form: PickForm, payload: unknown): Record<string, unknown> {
  const whom = form.which === "devices" ? { devices: idsOf(form.devices) } : filled({ selector: form.selector.trim(), place: form.place.trim() });
  return {
    payload, ...whom, count: Number(form.count),
    ...filled({
      exclude: form.exclude.trim(), answer_timeout: form.answerTimeout.trim(), class: form.class, spread_by: form.spreadBy.trim(),
    }),
  };
}

/** The body of `POST /v1/tasks`; what was left empty is left out. */
export function taskOf(form: TaskForm, payload: unknown): Record<string, unknown> {
  const related = form.relation === "" ? {} : filled({ [form.relation]: form.task.trim() });
  return { ...picksOf(form, payload), ...filled({ deadline: form.deadline.trim() }), ...related };
}

/** What is wrong with it, in a sentence; the server has the last word. */
export function wrongPicks(form: PickForm, isJson: boolean): string | undefined {
  if (!isJson) return "The payload has to be JSON.";
  if (form.which === "devices" && idsOf(form.devices).length === 0) return "List at least one device.";
  if (!/^[1-9]\d*$/.test(form.count.trim())) return "Say how many devices to ask.";
  return undefined;
}
