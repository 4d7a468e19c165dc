// A client of the TypeScript SDK that logs in where the server sends it, with a
// browser that agrees to everything. Usage: oauth-client.mjs URL CALL...
// where CALL is a tool, '=' and its arguments. It prints what happened as JSON.
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';

const [url, ...calls] = process.argv.slice(2);
const redirect = 'http://127.0.0.1:9/callback';
const log = { logins: [], results: [] };
const kept = { client: { client_id: 'test' } };

const authProvider = {
  redirectUrl: redirect,
  clientMetadata: { client_name: 'test', redirect_uris: [redirect], token_endpoint_auth_method: 'none', grant_types: ['authorization_code'], response_types: ['code'], application_type: 'native' },
  clientInformation: () => kept.client,
  saveClientInformation: (info) => { kept.client = info; },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens; },
  saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
  codeVerifier: () => kept.verifier,
  saveDiscoveryState: (state) => { kept.discovery = state; },
  discoveryState: () => kept.discovery,
  redirectToAuthorization: (address) => { kept.address = address; },
};

// browse follows redirects with cookies until the client's own address comes.
async function browse(address) {
  log.logins.push({ scope: address.searchParams.get('scope'), resource: address.searchParams.get('resource'), pkce: address.searchParams.get('code_challenge_method') });
  const jar = {};
  for (let at = address; ;) {
    const cookie = Object.entries(jar).map(([name, value]) => `${name}=${value}`).join('; ');
    const answer = await fetch(at, { redirect: 'manual', headers: cookie ? { cookie } : {} });
    for (const line of answer.headers.getSetCookie()) {
      const [name, ...value] = line.split(';')[0].split('=');
      jar[name] = value.join('=');
    }
    const location = answer.headers.get('location');
    if (!location) throw new Error(`${at} answered ${answer.status}: ${await answer.text()}`);
    at = new URL(location, at);
    if (at.href.startsWith(redirect)) return at.searchParams;
  }
}

async function withLogin(transport, work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    await transport().finishAuth(await browse(kept.address));
    return 'again';
  }
}

let transport;
let client;
const connect = async () => {
  client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } });
  transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
  await client.connect(transport);
};
if ((await withLogin(() => transport, connect)) === 'again') await connect();

log.tools = (await client.listTools()).tools.map((tool) => tool.name);
for (const call of calls) {
  const [name, args] = [call.slice(0, call.indexOf('=')), JSON.parse(call.slice(call.indexOf('=') + 1))];
  const work = () => client.callTool({ name, arguments: args });
  let result = await withLogin(() => transport, work);
  if (result === 'again') result = await work();
  log.results.push({ name, isError: result.isError === true, text: (result.content ?? []).map((part) => part.text).join('') });
}
log.token = JSON.parse(Buffer.from(kept.tokens.access_token.split('.')[1], 'base64url'));
await client.close();
console.log(JSON.stringify(log));
process.exit(0);
