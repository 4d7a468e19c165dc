// A server of the TypeScript SDK v2, which speaks 2026-07-28: node server.mjs
// stdio, or http with the port in PORT.
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { memorySkillFiles, SkillsExtension } from '@modelcontextprotocol/server/ext/skills';
import { createMcpHandler, fromJsonSchema, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const skills = await SkillsExtension.load(memorySkillFiles({
  'greeting/SKILL.md': '---\nname: greeting\ndescription: Greets as one does here.\n---\nSee references/GUIDE.md.\n',
  'greeting/references/GUIDE.md': 'Say hello, and mean it.\n',
}));

function factory() {
  const server = new McpServer({ name: 'typescript', version: '1' });
  server.registerTool('greet', {
    description: 'Greets somebody.',
    inputSchema: fromJsonSchema({ type: 'object', properties: { name: { type: 'string' } }, required: ['name'] }),
  }, ({ name }) => ({ content: [{ type: 'text', text: `Hello, ${name}!` }] }));
  skills.attach(server);
  return server;
}

if (process.argv[2] === 'stdio') {
  await serveStdio(factory);
} else {
  const handler = createMcpHandler(factory);
  createServer(async (req, res) => {
    const body = req.method === 'POST' ? Readable.toWeb(req) : undefined;
    const answer = await handler.fetch(new Request(`http://${req.headers.host}${req.url}`, {
      method: req.method, headers: req.headers, body, duplex: 'half',
    }));
    res.writeHead(answer.status, Object.fromEntries(answer.headers));
    if (answer.body) Readable.fromWeb(answer.body).pipe(res);
    else res.end();
  }).listen(Number(process.env.PORT), '127.0.0.1');
}
