// Fills a new Ghost site through its own API: the owner, tiers, labels, newsletters, members, posts and comments.
//
//   GHOST_URL=http://127.0.0.1:2368 GHOST_EMAIL=… GHOST_PASSWORD=… node test/ghost/seed.mjs
//
// Everything but ids and times is the same each time. It prints only counts.

const { GHOST_URL: url, GHOST_EMAIL: email, GHOST_PASSWORD: password } = process.env;
if (!url || !email || !password) {
  console.error('Set GHOST_URL, GHOST_EMAIL and GHOST_PASSWORD.');
  process.exit(2);
}

// The admin API.
let cookie = '';
async function call(method, path, body) {
  const answer = await fetch(`${url}/ghost/api/admin/${path}`, {
    method, body: body && JSON.stringify(body), headers: { 'Content-Type': 'application/json', Origin: new URL(url).origin, Cookie: cookie },
  });
  const text = await answer.text();
  const json = text.startsWith('{') ? JSON.parse(text) : {};
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${json.errors?.[0].message} ${json.errors?.[0].context ?? ''}`);
  cookie ||= answer.headers.getSetCookie().find((one) => one.startsWith('ghost-admin-api-session='))?.split(';')[0] ?? '';
  return json;
}
// Bodies and answers of a resource are in the form {members: [{…}]}.
const rootOf = (path) => path.split('/')[0];
const list = async (path) => (await call('GET', `${path}?limit=100`))[rootOf(path)];
const write = async (method, path, fields) => (await call(method, path, { [rootOf(path)]: [fields] }))[rootOf(path)][0];
const create = (path, fields) => write('POST', path, fields);
const update = (path, fields) => write('PUT', path, fields);

// Words and times. No two times are equal, so that lists that are sorted by time have one order.
const ago = (days, seconds) => new Date(Date.now() - days * 86_400_000 - seconds * 1000).toISOString();
const number = (i) => String(i + 1).padStart(3, '0');
const first = ['Ada', 'Ben', 'Cleo', 'Dev', 'Eva', 'Finn', 'Gia', 'Hugo', 'Ines', 'Jon', 'Kim', 'Léa', 'Max', 'Nia', 'Omar', 'Pia'];
const last = ['Abel', 'Brandt', 'Costa', 'Diaz', 'Evans', 'Fischer', 'García', 'Haddad', 'Ito', 'Jansen', 'Kaya', 'Lund', 'Müller'];

await call('POST', 'authentication/setup/', { setup: [{ name: 'Maya Stone', email, password, blogTitle: 'Backstage with Maya' }] });
await call('POST', 'session/', { username: email, password }); // the first sign-in of a user needs no code
await call('PUT', 'settings/', { settings: [{ key: 'comments_enabled', value: 'all' }, { key: 'description', value: 'Notes from the road' }] });

for (const { id } of await list('posts/')) await call('DELETE', `posts/${id}/`); // the ones of a new site

// Without Stripe, members of paid tiers are complimentary.
const paid = (await list('tiers/')).find((tier) => tier.type === 'paid');
const tiers = [
  await update(`tiers/${paid.id}/`, { name: 'Supporter', description: 'All posts', monthly_price: 500, yearly_price: 5000, currency: 'usd' }),
  await create('tiers/', { name: 'Backstage', description: 'All posts and recordings', monthly_price: 1500, yearly_price: 15000, currency: 'usd', visibility: 'public' }),
];

const labels = [];
for (const name of ['VIP', 'Berlin', 'London', 'Podcast', 'Early', 'Press']) labels.push(await create('labels/', { name }));

const newsletters = await list('newsletters/');
newsletters.push(await create('newsletters/', { name: 'Tour dates', description: 'Once a month', subscribe_on_signup: false }));
const old = await create('newsletters/', { name: 'Old news', subscribe_on_signup: false });
await update(`newsletters/${old.id}/`, { name: old.name, status: 'archived' });

const members = [];
for (let i = 0; i < 250; i++) {
  const tier = i % 5 === 0 ? tiers[0] : i % 9 === 0 ? tiers[1] : undefined;
  members.push(await create('members/', {
    email: `member${number(i)}@example.com`,
    name: i % 25 === 7 ? undefined : `${first[i % first.length]} ${last[i % last.length]}`,
    note: i % 20 === 3 ? 'Met after the show.' : undefined,
    labels: labels.filter((_, n) => i % (n + 4) === 1).map(({ name }) => ({ name })),
    newsletters: newsletters.filter((_, n) => i % (n + 7) !== 2).map(({ id }) => ({ id })),
    tiers: tier && [{ id: tier.id }],
    created_at: ago(400 - i * 1.5, i),
  }));
}

const readers = [{ visibility: 'public' }, { visibility: 'members' }, { visibility: 'paid' }, { visibility: 'tiers', tiers: [{ id: tiers[1].id }] }];
// state returns what makes a post published, a draft, scheduled or sent. Scheduled posts stay in the future for long,
// because copies of the site are started for years.
function state(i) {
  if (i < 26) return { status: 'published', published_at: ago(120 - i * 4, i) };
  if (i < 32) return { status: 'draft' };
  return i < 36 ? { status: 'scheduled', published_at: `20${i + 58}-01-01T12:00:00.000Z` } : { email_only: true };
}
const posts = [];
for (let i = 0; i < 40; i++) {
  const post = await create('posts/?source=html', {
    title: `Show ${number(i)}: ${['the load-in', 'a new song', 'the long drive', 'what we played'][i % 4]}`,
    html: `<p>Notes of day ${i + 1}.</p><p>${'We played until late, and the room sang along. '.repeat(1 + (i % 7))}</p>`,
    tags: ['Tour', 'Songs', 'Studio'].filter((_, n) => i % (n + 2) === 0),
    featured: i % 10 === 0,
    ...readers[i % readers.length],
    ...state(i),
  });
  posts.push(post);
  if (!post.email_only) continue;
  // This sends the post by mail, but to no member: without Mailgun, Ghost would retry for minutes.
  const segment = encodeURIComponent('label:none');
  await update(`posts/${post.id}/?newsletter=${newsletters[0].slug}&email_segment=${segment}`, { updated_at: post.updated_at, status: 'published' });
}

// Nine posts that all members can read have three comments each, and the first of them two replies.
let comments = 0;
for (const [i, post] of posts.filter(({ visibility }) => ['public', 'members'].includes(visibility)).slice(0, 9).entries()) {
  let parent;
  for (const [n, text] of ['Great show!', 'When do you come to Lisbon?', 'The second song is my favourite.', 'I think so too.', 'Thank you!'].entries()) {
    const made = await create('comments/', {
      post_id: post.id, parent_id: n > 2 ? parent : undefined, member_id: members[(i * 31 + n * 17) % members.length].id,
      html: `<p>${text}</p>`, created_at: ago(80 - i * 5 - n, n),
    });
    parent ??= made.id;
    comments++;
  }
}

await call('DELETE', 'session/');
const counts = { members: members.length, tiers: tiers.length + 1, labels: labels.length, newsletters: newsletters.length + 1, posts: posts.length, comments };
console.log(Object.entries(counts).map(([name, n]) => `${n} ${name}`).join(', '));
