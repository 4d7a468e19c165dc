// A client of the TypeScript SDK v2: node client.mjs URL ERA [TOOL ARGUMENTS]
// prints the tools of a server, or the result of a call, as JSON.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [url, era, tool, args] = process.argv.slice(2);
const mode = era === 'modern' ? { pin: '2026-07-28' } : era;
const client = new Client({ name: 'integration', version: '1' }, { versionNegotiation: { mode } });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const result = tool ? await client.callTool({ name: tool, arguments: JSON.parse(args) }) : await client.listTools();
console.log(JSON.stringify(result));
await client.close();
process.exit(0);
