/** What the server refuses, and what never reached it. */
import type { components } from "./schema.js";

/** A refusal as the server words it: `code` is stable, `detail` is for people. */
export type Problem = components["schemas"]["Problem"];

/** The server answered, and refused. */
export class FieldpostError extends Error {
  readonly problem: Problem;
  /** When the server says that the same may be tried again; seconds. */
  readonly retryAfter: number | undefined;

  constructor(problem: Problem, retryAfter?: number) {
    super(problem.detail);
    this.name = "FieldpostError";
    this.problem = problem;
    this.retryAfter = retryAfter;
  }

  get status(): number {
    return this.problem.status;
  }

  get code(): string {
    return this.problem.code;
  }
}

/** No answer came: the server is away, or the network is. */
export class Unreachable extends Error {
  constructor(cause: unknown) {
    super("the server cannot be reached", { cause });
    this.name = "Unreachable";
  }
}

function isProblem(body: unknown): body is Problem {
  return typeof body === "object" && body !== null && "code" in body && "detail" in body;
}

/** The problem of an answer that is not a success, also when a proxy wrote it. */
export function problemOf(response: Response, body: unknown): FieldpostError {
  const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
  const retryAfter = Number.isFinite(seconds) ? seconds : undefined;
  const problem: Problem = isProblem(body)
    ? body
    : {
        type: "about:blank",
        title: response.statusText || "Refused",
        status: response.status,
        detail: `the answer was ${response.status}, and not one of Fieldpost's`,
        code: "not_a_problem",
      };
  return new FieldpostError(problem, retryAfter);
}
