import { useState } from 'react'
import type { UseQueryResult } from '@tanstack/react-query'
import { isProblem } from '@/api/client'
import type { Persona, Personas } from '@/api/types'
import { useDialogs } from '@/shell/dialogs'
import { Badge, Button, Card, Chips, Copy, Facts, Query, Table, type Column, type Tone } from '@/ui'

const groups: Record<Persona['group'], { word: string; tone: Tone }> = {
  works: { word: 'Works', tone: 'ok' },
  asks: { word: 'Asks', tone: 'info' },
  refuses: { word: 'Refuses', tone: 'bad' },
  breaks: { word: 'Breaks', tone: 'warn' },
  later: { word: 'Later', tone: 'neutral' },
}

// A built-in list, for servers that do not list personas.
const builtIn: Personas = {
  domain: 'sandbox.test',
  password: 'good',
  personas: (
    [
      ['ok', 'works', 'Signs in immediately.'],
      ['sms', 'asks', 'Asks for a code by text message.'],
      ['app', 'asks', 'Asks for a code from the authenticator app.'],
      ['email', 'asks', 'Asks for a code by email.'],
      ['face', 'asks', 'Asks for a selfie.'],
      ['locked', 'refuses', 'The platform has locked the account.'],
      ['flaky', 'breaks', 'Fails twice with 503, then works.'],
      ['expires60', 'later', 'The session ends after 60 seconds.'],
    ] as const
  ).map(([persona, group, effect]) => ({ persona, group, effect, login: `${persona}@sandbox.test` })),
  codes: [
    { code: '123456', effect: 'Correct.' },
    { code: '000000', effect: 'Wrong.' },
  ],
}

/** Lists the sandbox personas and what each one does. */
export function PersonaTable({ personas, why }: { personas: UseQueryResult<Personas>; why: string | null }) {
  const { connect } = useDialogs()
  const [group, setGroup] = useState('')
  const gone = isProblem(personas.error) && personas.error.notFound
  const query = gone ? ({ ...personas, data: builtIn, isError: false } as UseQueryResult<Personas>) : personas
  const columns: Column<Persona>[] = [
    {
      key: 'login',
      head: 'Login',
      cell: (p) => (
        <div className="min-w-0">
          <span className="inline-flex max-w-full items-center gap-1 font-mono text-xs">
            <span className="break-all">{p.login}</span>
            <Copy text={p.login} label={`Copy ${p.login}`} />
          </span>
          <span className="block text-xs text-mute sm:hidden">{p.effect}</span>
        </div>
      ),
    },
    {
      key: 'group',
      head: 'Kind',
      from: 'md',
      cell: (p) => <Badge tone={groups[p.group]?.tone ?? 'neutral'}>{groups[p.group]?.word ?? p.group}</Badge>,
    },
    { key: 'effect', head: 'What happens', from: 'sm', cell: (p) => p.effect },
    {
      key: 'go',
      head: <span className="sr-only">Connect</span>,
      align: 'right',
      cell: (p) => (
        <Button
          size="sm"
          why={why}
          aria-label={`Connect ${p.login}`}
          onClick={() => connect({ method: 'login', email: p.login })}
        >
          Connect
        </Button>
      ),
    },
  ]
  return (
    <Card
      flush
      className="lg:col-span-2"
      title="Personas"
      hint={
        <>
          Any address at sandbox.test is a login. The word before @ or + sets its behaviour: <code>ok+7@</code> is
          another creator like <code>ok@</code>.
        </>
      }
      actions={
        <Chips
          label="Kind"
          value={group}
          onChange={setGroup}
          items={[
            { value: '', label: 'All' },
            ...Object.entries(groups).map(([value, g]) => ({ value, label: g.word })),
          ]}
        />
      }
    >
      <Query query={query} what="the personas">
        {(d) => {
          const rows = (d.personas ?? []).filter((p) => !group || p.group === group)
          return (
            <>
              <Table label="Personas" dense columns={columns} rows={rows} rowKey={(p) => p.persona} />
              <div className="grid gap-4 border-t p-4 sm:grid-cols-2">
                <div>
                  <h3 className="mb-1 font-semibold">Codes</h3>
                  <Facts items={(d.codes ?? []).map((c) => [<code key={c.code}>{c.code}</code>, c.effect])} />
                </div>
                <div>
                  <h3 className="mb-1 font-semibold">Password</h3>
                  <p className="text-soft">
                    Any password works, such as <code>{d.password}</code>; <code>bad</code> and an empty password are
                    wrong.
                  </p>
                </div>
              </div>
            </>
          )
        }}
      </Query>
    </Card>
  )
}
