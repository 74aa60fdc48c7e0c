// Short names for the API's schemas.
import type { components } from './schema'

type S = components['schemas']
export type Account = S['Account']
export type AccountCounts = NonNullable<S['AccountsBody']['counts']>
export type Attempt = S['Attempt']
export type AuditEntry = S['AuditEntry']
export type BrowserSession = S['BrowserBody']
export type ConnectSession = S['SessionBody']
export type Delivery = S['DeliveryBody']
export type ErrorGroup = S['ErrorBody']
export type Event = S['Envelope']
export type Flow = S['FlowBody']
export type Funnel = S['FunnelBody']
export type FunnelMethod = S['FunnelMethod']
export type Identity = S['IdentityBody']
export type Invitation = S['InvitationBody']
export type Key = S['KeyEntry']
export type LatestEvents = S['OrgPullBody']
export type Limits = S['LimitsBody']
export type ListedAccount = S['Listed']
export type Log = S['LogBody']
export type Member = S['MemberBody']
export type Method = S['SdkMethod']
export type Persona = S['PersonaBody']
export type Personas = S['PersonasBody']
export type Role = S['MemberBody']['role']
export type SandboxFault = S['FaultInputBody']
export type SignatureCheck = S['SignatureCheck']
export type SystemStatus = S['StatusBody']
export type Usage = S['UsageBody']
export type UsageSeries = S['SeriesBody']
export type Webhook = S['HookBody']
export type WebhookList = S['WebhooksBody']
export type WebhookRow = S['ListedWebhook']
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
