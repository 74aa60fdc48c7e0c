import { describe, expect, it } from 'vitest'
import { checkItems, progressText, timeText } from './words'

const job = {
  id: 'job_1',
  kind: 'bulk',
  method: 'messages.send',
  state: 'running',
  progress: { accountsDone: 1, accountsTotal: 3, items: 12, failed: 2, percent: 40 },
  estimateSec: 90,
  createdAt: '2026-11-14T10:00:00.000Z',
  finishedAt: null,
  result: null,
  error: null,
}

describe('checkItems', () => {
  it('counts lines that are not empty', () => {
    expect(checkItems('{"accountId":"a"}\n\n{"accountId":"b","args":{}}\n')).toEqual({ items: 2, fault: null })
  })
  it('names the first bad line', () => {
    expect(checkItems('{"accountId":"a"}\n{').fault).toBe('Line 2 is not JSON.')
    expect(checkItems('\n{"args":{}}').fault).toBe('Line 2 has no accountId.')
    expect(checkItems('null').fault).toBe('Line 1 has no accountId.')
    expect(checkItems(' \n').fault).toBe('The file has no items.')
  })
})

describe('the progress of a job', () => {
  it('says what is done, what failed and what is left', () => {
    expect(progressText(job)).toBe('1 of 3 accounts · 12 calls done · 2 failed')
    expect(timeText(job)).toBe('about 2 min left')
    expect(timeText({ ...job, estimateSec: null, finishedAt: '2026-11-14T10:00:30.000Z' })).toBe('took 30 s')
    expect(timeText({ ...job, estimateSec: null, state: 'queued' })).toBe('not started yet')
  })
})
