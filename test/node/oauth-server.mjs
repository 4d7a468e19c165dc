// An authorization server, oidc-provider, in which every login is ada's, or that
// of the header Person, and is consented to. Of the people, olga is an operator. It prints its URL, then a line for
// each token that it gives and each client that registers. It knows the client
// "test", those of CLIENTS, a JSON list, those who register and those with a
// metadata document. Usage: oauth-server.mjs SCOPES [CLIENTS]
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const [scopes, clients = '[]'] = process.argv.slice(2);
const server = createServer();
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  cookies: { keys: ['test'] },
  scopes: ['openid', ...scopes.split(' ')],
  claims: { openid: ['sub', 'groups'] },
  clients: [{
    client_id: 'test', token_endpoint_auth_method: 'none', application_type: 'native',
    redirect_uris: ['http://127.0.0.1:9/callback'], grant_types: ['authorization_code'], response_types: ['code'],
  }, ...JSON.parse(clients)],
  // Metadata documents are on this machine, which its guard would refuse.
  fetch: (address, { dispatcher, ...options }) => fetch(address, options),
  issueRefreshToken: async (_, client) => client.grantTypeAllowed('refresh_token'),
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  findAccount: (_, id) => ({ accountId: id, claims: async () => ({ sub: id, groups: id === 'olga' ? ['operators'] : [] }) }),
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    registration: { enabled: true },
    clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, asked) => ({
        scope: scopes, audience: asked, accessTokenFormat: 'jwt', accessTokenTTL: 600, jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
});

provider.use(async (ctx, next) => {
  if (!ctx.path.startsWith('/interaction/')) return next();
  const { prompt, params, session, grantId } = await provider.interactionDetails(ctx.req, ctx.res);
  if (prompt.name === 'login') {
    return provider.interactionFinished(ctx.req, ctx.res, { login: { accountId: ctx.get('person') || 'ada' } });
  }
  const known = grantId && (await provider.Grant.find(grantId));
  const grant = known || new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  if (prompt.details.missingOIDCScope) grant.addOIDCScope(prompt.details.missingOIDCScope.join(' '));
  for (const [indicator, missing] of Object.entries(prompt.details.missingResourceScopes ?? {})) {
    grant.addResourceScope(indicator, missing.join(' '));
  }
  const consent = { grantId: await grant.save() };
  return provider.interactionFinished(ctx.req, ctx.res, { consent }, { mergeWithLastSubmission: true });
});

provider.on('grant.success', ({ oidc }) => console.log(JSON.stringify({ grant: oidc.params.grant_type, client: oidc.client.clientId, method: oidc.client.clientAuthMethod })));
provider.on('registration_create.success', (_, client) => console.log(JSON.stringify({ registered: client.clientId })));
for (const refused of ['grant.error', 'authorization.error']) provider.on(refused, (_, error) => console.error(error.message, error.error_detail));
server.on('request', provider.callback());
console.log(issuer);
