// Short names for the API's schemas.
import type { components } from './schema'

type S = components['schemas']
export type Account = S['Account']
export type Attempt = S['Attempt']
export type AuditEntry = S['AuditEntry']
export type ConnectSession = S['SessionBody']
export type Delivery = S['DeliveryBody']
export type ErrorGroup = S['ErrorBody']
export type Event = S['Envelope']
export type Flow = S['FlowBody']
export type Identity = S['IdentityBody']
export type Key = S['KeyEntry']
export type Limits = S['LimitsBody']
export type Log = S['LogBody']
export type Method = S['SdkMethod']
export type Usage = S['UsageBody']
export type Webhook = S['HookBody']
export type Window = S['WindowBody']

export type Scope =
  | 'accounts:read'
  | 'accounts:write'
  | 'sdk:call'
  | 'webhooks:read'
  | 'webhooks:write'
  | 'me:read'
  | 'me:write'
  | 'usage:read'
