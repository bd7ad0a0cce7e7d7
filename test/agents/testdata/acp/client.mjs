// An editor for tests: it runs the official SDK's client over the command in its arguments, and the steps
// that it reads from the file STEPS. It prints each thing that happened as a line of JSON.
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";

const acp = await import(process.env.ACP_SDK);
const { steps, permissions: asked } = JSON.parse(readFileSync(process.env.STEPS, "utf8"));
const permissions = asked ?? [];
const tell = (what, value) => console.log(JSON.stringify({ what, value }));

const began = performance.now();
const child = spawn(process.argv[2], process.argv.slice(3), { stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise((resolve) => child.on("exit", (code, signal) => resolve({ code, signal })));
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout), { maxMessageBytes: 128 << 20 });

const { client: called } = acp.methods;
const app = acp.client({ name: "test" });
app.onNotification("session/update", (c) => tell("update", c.params.update));
app.onRequest("session/request_permission", (c) => {
  const kind = permissions.shift() ?? "allow_once";
  tell("permission", { kind, title: c.params.toolCall.title, options: c.params.options.map((o) => o.kind) });
  if (kind === "cancel") return { outcome: { outcome: "cancelled" } };
  const option = c.params.options.find((o) => o.kind === kind) ?? c.params.options[0];
  return { outcome: { outcome: "selected", optionId: option.optionId } };
});
// What an agent in a sandbox must not reach.
app.onRequest("fs/read_text_file", (c) => {
  tell("reached", c.params);
  return { content: readFileSync(c.params.path, "utf8") };
});
app.onRequest("fs/write_text_file", (c) => {
  tell("reached", c.params);
  writeFileSync(c.params.path, c.params.content);
  return {};
});
app.onRequest("terminal/create", (c) => {
  tell("reached", c.params);
  spawn(c.params.command, c.params.args ?? []);
  return { terminalId: "t" };
});

const known = { cwd: process.cwd() };
const fill = (value) => JSON.parse(JSON.stringify(value), (_, v) => (typeof v === "string" && v.startsWith("$") ? known[v.slice(1)] : v));

await app.connectWith(stream, async (ctx) => {
  const open = [];
  for (const step of steps) {
    if (step.sleep) {
      await new Promise((r) => setTimeout(r, step.sleep));
      continue;
    }
    if (step.notify) {
      await ctx.notify(step.notify, fill(step.params ?? {}));
      continue;
    }
    const at = performance.now();
    const answer = ctx.request(step.request, fill(step.params ?? {})).then(
      (result) => {
        if (result?.sessionId) known.session = result.sessionId;
        tell("result", { method: step.request, ms: Math.round(performance.now() - at), result });
      },
      (e) => tell("error", { method: step.request, code: e.code, message: e.message, data: e.data }),
    );
    if (step.background) open.push(answer);
    else await answer;
  }
  await Promise.all(open);
  tell("ready", { ms: Math.round(performance.now() - began) });
});
child.stdin.end();
const at = performance.now();
tell("exit", { ...(await ended), ms: Math.round(performance.now() - at) });
