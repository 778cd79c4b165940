/** What a button does: the call, and a word of how it ended. */
import { sentence } from "./api";
import { toast, type ToastAction } from "./toast.svelte";

/** Does it and says `done`; a refusal is said in the server's words. Answers whether it was done. */
export async function act(work: () => Promise<unknown>, done?: string, undo?: ToastAction["run"]): Promise<boolean> {
  try {
    await work();
  } catch (refused) {
    toast.show(sentence(refused), { kind: "failed" });
    return false;
  }
  if (done !== undefined) toast.show(done, undo === undefined ? {} : { action: { label: "Undo", run: undo } });
  return true;
}
