/** A receiver of webhooks that keeps what it was sent, and answers as it is told. */
import { createServer } from "node:http";
import { once } from "node:events";

/** Until the test is over. `answer.status` and `answer.body` are given to every request from now on. */
export async function startReceiver(t) {
  const received = [];
  const answer = { status: 204, body: "" };
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text) => (body += text));
    request.on("end", () => {
      received.push({ headers: request.headers, body });
      response.statusCode = answer.status;
      response.end(answer.body);
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${server.address().port}/hook`, received, answer };
}

/** Settings with which a receiver on this machine is allowed. */
export const LOCAL = "[notify]\nallow_private = true\n";

/** Texts that a page must show, and never take for more. */
export const HOSTILE = {
  markup: `<img src=x onerror="document.title='taken'"><script>document.title='taken'</script>`,
  backwards: "\u202eشركة الأبواب",
  long: "a very long name ".repeat(14).trim(),
};
