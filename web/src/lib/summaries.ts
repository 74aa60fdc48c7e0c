// What happened, in one line of plain text per kind of event.
import { duration, number, words } from './format'

type Bag = Record<string, unknown>
const bag = (v: unknown): Bag => (v !== null && typeof v === 'object' && !Array.isArray(v) ? (v as Bag) : {})
const text = (v: unknown): string => (typeof v === 'string' ? v : '')
const many = (v: unknown): string => (typeof v === 'number' ? number(v) : '')
const money = (v: unknown): string => (typeof v === 'number' ? `$${(v / 100).toFixed(2)}` : '')
const quote = (v: unknown): string => (text(v) ? `“${text(v)}”` : '')
const lower = (v: unknown): string => (text(v) ? words(text(v)).toLowerCase() : '')
const list = (v: unknown): string => (Array.isArray(v) ? v.filter((x) => typeof x === 'string').join(', ') : '')
const long = (v: unknown): string => (typeof v === 'number' && v > 0 ? duration(v) : '')
/** The name of a person in the data: of a user, a fan, a member or an author. */
const named = (v: unknown): string => text(bag(v)['name']) || text(bag(v)['displayName']) || text(bag(v)['email'])
const who = (d: Bag): string =>
  named(d['user']) || named(d['fromUser']) || named(d['member']) || named(d['by']) || text(bag(d['by'])['label'])
const from = (d: Bag): string => (who(d) ? `by ${who(d)}` : '')

const moved = (d: Bag) => [lower(d['reason']), text(d['from']) ? `was ${lower(d['from'])}` : '']
const post = (said: string) => (d: Bag) => [said, quote(bag(d['post'])['text']) || quote(bag(d['post'])['title'])]
const stream = (said: string) => (d: Bag) => [said, quote(bag(d['stream'])['title'])]
const payout = (said: string) => (d: Bag) => [said, money(bag(d['payout'])['amountCents']), text(d['reason'])]
const attempt = (d: Bag) => [
  d['state'] === 'awaiting_mobile_session' ? 'waiting for the phone' : lower(d['state']),
  text(d['label']),
  lower(bag(d['failure'])['code']) || lower(bag(d['failure'])['reason']),
]
const job = (d: Bag) => {
  const j = bag(d['job'])
  return [
    [lower(j['kind']), text(j['method'])].filter(Boolean).join(' '),
    lower(j['state']),
    many(bag(j['progress'])['items']) && `${many(bag(j['progress'])['items'])} lines`,
    text(bag(j['error'])['detail']),
  ]
}

const lines: Record<string, (d: Bag) => string[]> = {
  // fans and subscriptions
  subscribed: (d) => ['new subscriber', who(d), money(d['priceCents'])],
  resubscribed: (d) => ['subscribed again', who(d), money(d['priceCents'])],
  subscriptionRenewed: (d) => ['subscription renewed', who(d), money(d['priceCents'])],
  subscriptionExpired: (d) => ['subscription ended', who(d)],
  autoRenewChanged: (d) => [d['autoRenew'] === false ? 'turned renewal off' : 'turned renewal on', who(d)],
  trialClaimed: (d) => ['claimed a trial', who(d), many(d['days']) && `${many(d['days'])} days`],
  online: (d) => [d['online'] === false || d['isOnline'] === false ? 'went offline' : 'came online', who(d)],
  listUpdated: (d) => [
    `list ${quote(bag(d['list'])['name'])}`,
    d['added'] ? `${many(d['added'])} added` : '',
    d['removed'] ? `${many(d['removed'])} removed` : '',
  ],
  profileUpdated: (d) => ['profile changed', list(d['changes'])],
  settingsChanged: (d) => ['settings changed', list(d['changes'])],
  linkClicked: (d) => ['link opened', who(d), text(d['url'])],
  // messages
  messageRead: () => ['a fan read a message'],
  messageDeleted: (d) => ['message unsent', text(d['by']) && `by the ${text(d['by'])}`],
  messageLiked: (d) => ['liked a message', who(d)],
  messageUnliked: (d) => ['removed a like', who(d)],
  messagePurchased: (d) => ['bought', who(d), money(d['priceCents'])],
  chatRead: (d) => [d['all'] === true ? 'all chats read' : 'chat read'],
  typing: (d) => [who(d) ? `${who(d)} is typing` : 'a fan is typing'],
  massMessageSent: (d) => [
    quote(bag(d['massMessage'])['text']),
    many(bag(d['massMessage'])['recipients']) && `to ${many(bag(d['massMessage'])['recipients'])} fans`,
  ],
  counts: (d) => [
    'unread counts',
    Object.entries(d)
      .filter(([, v]) => typeof v === 'number' && v > 0)
      .map(([name, v]) => `${number(v as number)} ${words(name).toLowerCase()}`)
      .join(', '),
  ],
  // posts, stories, streams
  postPublished: post('published'),
  postScheduled: post('scheduled'),
  postDraftSaved: post('draft saved'),
  postUpdated: (d) => ['post changed', list(d['changes']) || quote(bag(d['post'])['title'])],
  postDeleted: () => ['post deleted'],
  postExpired: () => ['post expired'],
  postLiked: (d) => ['liked a post', who(d)],
  postCommented: (d) => [quote(bag(d['comment'])['text']), named(bag(d['comment'])['author'])],
  postPurchased: (d) => ['bought', who(d), money(d['priceCents'])],
  postFundraisingUpdated: (d) => [
    'raised',
    [money(d['progressCents']), money(d['targetCents'])].filter(Boolean).join(' of '),
  ],
  mention: (d) => ['mentioned', from(d), text(d['kind']) && `in a ${text(d['kind'])}`],
  storyPublished: () => ['story published'],
  storyExpired: () => ['story expired'],
  storyViewed: (d) => ['story viewed', many(d['views']) && `${many(d['views'])} views`],
  stream: stream('announced'),
  streamStarted: stream('live now'),
  streamStopped: (d) => [
    ...stream('ended')(d),
    many(bag(d['stream'])['viewers']) && `${many(bag(d['stream'])['viewers'])} viewers`,
  ],
  streamUpdated: stream('changed'),
  streamComment: (d) => [quote(bag(d['comment'])['text']), named(bag(d['comment'])['author'])],
  streamViewers: (d) => [many(d['viewers']) ? `${many(d['viewers'])} viewers` : 'viewers changed'],
  streamLiked: (d) => [many(d['likes']) ? `${many(d['likes'])} likes` : 'likes changed'],
  queuePublished: (d) => ['published', lower(bag(d['item'])['kind'])],
  queueFailed: (d) => ['not published', lower(bag(d['item'])['kind']), text(d['error'])],
  mediaReady: (d) => [`${lower(bag(d['media'])['type']) || 'file'} is ready`],
  mediaFailed: (d) => [`${lower(bag(d['media'])['type']) || 'file'} failed`, text(d['error'])],
  notification: (d) => [quote(bag(d['notification'])['text'])],
  toast: (d) => [quote(d['text']) || quote(d['message'])],
  unknown: (d) => ['not mapped', text(d['name']) || text(d['type'])],
  test: (d) => ['test', quote(d['message'])],
  // money
  tips: (d) => ['tip', money(d['amountCents']), who(d), quote(d['message'])],
  transaction: (d) => [
    lower(bag(d['transaction'])['type']) || 'transaction',
    money(bag(d['transaction'])['netCents']),
    named(bag(d['transaction'])['user']),
  ],
  chargeback: (d) => ['charged back', money(bag(d['chargeback'])['amountCents']), named(bag(d['chargeback'])['user'])],
  payoutRequested: payout('payout requested'),
  payoutPaid: payout('payout paid'),
  payoutFailed: payout('payout failed'),
  // members of a site
  memberCreated: (d) => ['new member', who(d)],
  memberLoggedIn: (d) => ['signed in', who(d)],
  memberEmailChanged: (d) => ['changed the address', text(d['toEmail'])],
  newsletterSubscribed: (d) => ['subscribed', who(d), text(d['newsletterName'])],
  newsletterUnsubscribed: (d) => ['unsubscribed', who(d), text(d['newsletterName'])],
  commentCreated: (d) => ['commented', who(d)],
  paymentReceived: (d) => ['paid', who(d), money(d['amountCents'])],
  donationReceived: (d) => ['gave', who(d), money(d['amountCents'])],
  subscriptionStarted: (d) => ['new subscription', who(d)],
  // accounts
  'account.connected': (d) => [
    'connected',
    text(bag(d['account'])['label']),
    d['kind'] ? `by ${lower(d['kind'])}` : '',
  ],
  'account.reconnected': (d) => ['works again', long(d['downForSec']) && `after ${long(d['downForSec'])}`],
  'account.reauthenticating': (d) => ['signing in again', lower(d['reason'])],
  'account.degraded': (d) => [lower(d['reason']) || 'degraded', long(d['sinceSec']) && `for ${long(d['sinceSec'])}`],
  'account.recovered': (d) => ['works again', long(d['sinceSec']) && `after ${long(d['sinceSec'])}`],
  'account.reconnect_required': (d) => [lower(d['reason']) || 'reconnect required'],
  'account.challenge_required': (d) => [lower(d['state']) || 'a person must answer a challenge'],
  'account.session_expiring': (d) => [
    typeof d['daysLeft'] === 'number'
      ? `session ends in ${number(d['daysLeft'])} ${d['daysLeft'] === 1 ? 'day' : 'days'}`
      : 'session ends soon',
  ],
  'account.restricted': (d) => moved(d),
  'account.paused': (d) => ['paused', from(d)],
  'account.resumed': (d) => ['resumed', from(d)],
  'account.updated': (d) => ['changed', list(d['changes'])],
  'account.disconnected': (d) => ['disconnected, data destroyed', from(d)],
  'listener.gap': (d) => [d['backfilled'] === true ? 'missing events were fetched' : 'events may be missing'],
  // the organisation
  'connect.attempt_updated': attempt,
  'connect.attempt_completed': attempt,
  'connect.session_finished': (d) => [`link ${lower(d['status'])}`, text(d['referenceId'])],
  'webhook.disabled': (d) => [lower(d['reason']) || 'disabled', text(d['url'])],
  'webhook.recovered': (d) => ['works again', text(d['url'])],
  'key.created': (d) => [quote(d['label']), from(d)],
  'key.revoked': (d) => [quote(d['label']), from(d)],
  'key.leaked': (d) => [quote(d['label']), 'found', text(d['url']) || lower(d['source'])],
  'job.completed': job,
  'job.failed': job,
  'usage.threshold': (d) => [
    typeof d['percent'] === 'number' ? `${number(d['percent'])}% of the month used` : 'most of the month used',
    many(d['used']) && many(d['limit']) && `${many(d['used'])} of ${many(d['limit'])}`,
  ],
}

/** Summarises an event of any kind. A kind that is not known is summarised by the usual members, and else by its name. */
export function summaryOf(kind: string, data: unknown): string {
  const d = bag(data)
  const join = (parts: string[]) => parts.filter(Boolean).join(' · ')
  const known = Object.hasOwn(lines, kind) ? join(lines[kind]!(d)) : ''
  if (known) return known
  const said =
    text(bag(d['message'])['text']) || text(d['text']) || text(bag(d['comment'])['text']) || text(d['message'])
  if (said) return `“${said}”`
  const cents = d['amountCents'] ?? d['priceCents'] ?? bag(d['transaction'])['amountCents']
  if (typeof cents === 'number') return join([who(d), money(cents)])
  const state = lower(d['state']) || lower(d['status']) || lower(d['to'])
  if (state) return join([state, lower(d['reason'])])
  return (
    lower(d['reason']) || text(d['label']) || who(d) || words(kind.replace(/([a-z])([A-Z])/g, '$1 $2')).toLowerCase()
  )
}
