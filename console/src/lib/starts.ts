/** Where a subscription or a copy begins in its stream, as a form has it. */
import { timeOf } from "./durations";

export interface StartForm {
  /** `""` leaves the position where it is. */
  begins: "" | "start" | "end" | "id" | "time";
  /** Of the last message that is left out. */
  id: string;
  /** As a `datetime-local` field has it. */
  time: string;
}

export function startForm(begins: StartForm["begins"]): StartForm {
  return { begins, id: "", time: "" };
}

/** The `from` of the call; nothing where the position stays. */
export function fromOf({ begins, id, time }: StartForm): string | undefined {
  switch (begins) {
    case "": return undefined;
    case "id": return id.trim();
    case "time": return timeOf(time);
    default: return begins;
  }
}
