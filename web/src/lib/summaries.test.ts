import { describe, expect, it } from 'vitest'
import { kinds } from '@/api/facts'
import type { Event } from '@/api/types'
import { foldRenewals } from './events'
import { summaryOf } from './summaries'

// Data as the sandbox sends it, without the members that no summary shows.
const user = { name: 'Noah Price', username: 'noah_p10001' }
const recorded: [string, unknown, string][] = [
  ['subscribed', { user, priceCents: 999, kind: 'paid' }, 'new subscriber · Noah Price · $9.99'],
  ['autoRenewChanged', { user, autoRenew: false }, 'turned renewal off · Noah Price'],
  ['listUpdated', { list: { name: 'VIP' }, added: 1, removed: 0 }, 'list “VIP” · 1 added'],
  ['message', { message: { text: 'Just renewed, worth it.' } }, '“Just renewed, worth it.”'],
  ['massMessageSent', { massMessage: { text: 'Hello', recipients: 1401 } }, '“Hello” · to 1,401 fans'],
  ['messageDeleted', { messageId: '1', by: 'fan' }, 'message unsent · by the fan'],
  ['tips', { amountCents: 2500, user, message: 'Nice' }, 'tip · $25.00 · Noah Price · “Nice”'],
  ['postUpdated', { postId: '1', changes: ['text'] }, 'post changed · text'],
  ['postFundraisingUpdated', { targetCents: 60000, progressCents: 5500 }, 'raised · $55.00 of $600.00'],
  ['streamStopped', { stream: { title: 'Rehearsal', viewers: 236 } }, 'ended · “Rehearsal” · 236 viewers'],
  [
    'payoutFailed',
    { payout: { amountCents: 2000 }, reason: 'No such account.' },
    'payout failed · $20.00 · No such account.',
  ],
  ['mediaFailed', { media: { type: 'photo' }, error: 'The file is damaged.' }, 'photo failed · The file is damaged.'],
  ['transaction', { transaction: { type: 'referral', netCents: 1200, user: null } }, 'referral · $12.00'],
  ['account.session_expiring', { daysLeft: 1 }, 'session ends in 1 day'],
  ['account.recovered', { sinceSec: 120 }, 'works again · after 2 min'],
  ['connect.attempt_updated', { state: 'awaiting_mobile_session', label: 'Maya' }, 'waiting for the phone · Maya'],
  [
    'job.completed',
    { job: { kind: 'export', method: 'fans.list', state: 'completed', progress: { items: 12 }, error: null } },
    'export fans.list · completed · 12 lines',
  ],
  ['usage.threshold', { percent: 80, used: 80, limit: 100 }, '80% of the month used · 80 of 100'],
  ['somethingNew', {}, 'something new'],
]

describe('summaries', () => {
  it('say what happened', () => {
    for (const [kind, data, want] of recorded) expect(summaryOf(kind, data), kind).toBe(want)
  })
  it('exist for every kind, whatever its data', () => {
    for (const kind of kinds)
      for (const data of [{}, null, 'text', [1], { user: 1, message: [], post: 'x', by: null, changes: 3 }])
        expect(summaryOf(kind, data), kind).not.toBe('')
  })
})

describe('renewals of QR codes', () => {
  const event = (id: string, kind: string, data: unknown) => ({ id, event: kind, data }) as unknown as Event
  const waits = { attempt_id: 'att_1', state: 'awaiting_mobile_session' }
  it('are folded into the newest', () => {
    const rows = [
      event('4', 'connect.attempt_updated', waits),
      event('3', 'message', {}),
      event('2', 'connect.attempt_updated', waits),
      event('1', 'connect.attempt_updated', waits),
      event('0', 'connect.attempt_updated', { ...waits, state: 'pending' }),
    ]
    const got = foldRenewals(rows)
    expect(got.rows.map((e) => e.id)).toEqual(['4', '3', '0'])
    expect([...got.folded]).toEqual([['4', 2]])
  })
  it('are not folded over attempts', () => {
    const rows = [
      event('2', 'connect.attempt_updated', waits),
      event('1', 'connect.attempt_updated', { ...waits, attempt_id: 'att_2' }),
    ]
    expect(foldRenewals(rows).rows).toBe(rows)
  })
})
