// A client of MCP, by the official SDK, that does what its rules let it do and tries what
// they do not. Run by try.sh, inside a sandbox: node client.mjs URL. Ends with 0 only if all
// is as it should be.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const url = new URL(process.argv[2]);
const check = (what, ok, got) => {
  console.log(ok ? 'ok' : 'WRONG', what, ok ? '' : got);
  if (!ok) process.exitCode = 1;
};
const refused = async (what, f) => {
  const got = await f().then((x) => JSON.stringify(x), (e) => e.message);
  check(`${what} is refused, with the rule that would allow it`, got.includes('bothy_refused') && got.replaceAll("'", '').includes(`--rpc ${what}`), got);
};

const client = new Client({ name: 'try', version: '1' });
const transport = new StreamableHTTPClientTransport(url);
await client.connect(transport); // initialize, notifications/initialized, and it listens by GET
check('there is a session', transport.sessionId !== undefined);
const tools = (await client.listTools()).tools.map((t) => t.name);
check('tools are listed', tools.includes('echo') && tools.includes('get-env'), tools);
const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
const echo = (await call('echo', { message: 'hello' })).content[0].text;
check('a tool that is allowed is called', echo.includes('hello'), echo);
let steps = 0;
await call('trigger-long-running-operation', { duration: 1, steps: 3 }, { onprogress: () => steps++ });
check('progress comes as it is made (SSE)', steps === 3, steps);
await refused('tools/call get-env', () => call('get-env', {}));
await refused('resources/list', async () => client.listResources());
check('the session goes on', (await client.ping()) !== undefined);

const batch = [['echo', 1], ['get-env', 2]].map(([name, id]) => ({ jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: {} } }));
const head = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
const both = await fetch(url, { method: 'POST', headers: head, body: JSON.stringify(batch) });
check('a batch with one call that is not allowed is refused', both.status === 403 && both.headers.get('x-bothy') === 'refused', both.status);

await transport.terminateSession(); // DELETE
check('the session is ended', transport.sessionId === undefined, transport.sessionId);
await client.close();
