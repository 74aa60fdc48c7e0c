import type { Delivery } from '@/api/types'
import { words } from '@/lib/format'

type Failure = NonNullable<Delivery['error']>

// What is shown in place of a response, and what to do about it.
const failures: Record<Failure, { title: string; help: string }> = {
  destination_blocked: {
    title: 'Address not allowed',
    help: 'The host has no public address, or its name does not resolve. Check the URL.',
  },
  connect: {
    title: 'Connection refused',
    help: 'Nothing accepted a connection at this address. Check that your receiver is running and that its port is open.',
  },
  tls: {
    title: 'TLS handshake failed',
    help: 'The certificate is not valid for this host, or it has expired. Renew it.',
  },
  timeout: {
    title: 'No response within 10 s',
    help: 'Your receiver took too long. Respond first, and process the event afterwards.',
  },
  connection_broken: {
    title: 'Connection lost',
    help: 'Your receiver closed the connection before it responded.',
  },
  bad_response: {
    title: 'Response was not HTTP',
    help: 'Something other than a web server answers at this address. Check the scheme and the port of the URL.',
  },
}

/** Why there was no response, in a few words. */
export function failureTitle(code: string | null): string {
  return code ? (failures[code as Failure]?.title ?? words(code)) : 'No response'
}

/** What to do about it; null for an unknown code. */
export function failureHelp(code: string | null): string | null {
  return code ? (failures[code as Failure]?.help ?? null) : null
}
