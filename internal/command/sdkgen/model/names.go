package model

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// schemaNames says how types of the document are called in client libraries, where its own name is one of our server's
// code. A type that is not here is called as in the document, without Sdk. and what names its place in a request.
var schemaNames = map[string]string{
	"AcceptedOutputBody":       "SandboxAccepted",
	"AccountsBody":             "AccountPage",
	"AttemptsOutputBody":       "AttemptPage",
	"AttemptsBody":             "AttemptUsage",
	"AuditBody":                "AuditPage",
	"BrowserBody":              "BrowserSession",
	"BrowsersOutputBody":       "BrowserSessionList",
	"CallsBody":                "CallUsage",
	"ClearedOutputBody":        "SandboxFaultsCleared",
	"CodeBody":                 "SandboxCode",
	"CurlAnswer":               "CurlAttempt",
	"DeletedOutputBody":        "WebhookDeleted",
	"DeletedOutputBody1":       "AccountDisconnected",
	"DeliverStruct":            "LinkDelivery",
	"EndedOutputBody":          "BrowserSessionEnded",
	"Envelope":                 EventType,
	"ErrorBody":                "ErrorGroup",
	"ErrorsOutputBody":         "ErrorGroupList",
	"EventsBody":               "EventUsage",
	"Extracted":                "CurlExtract",
	"Failure":                  "AttemptFailure",
	"FaultOutputBody":          "SandboxFault",
	"FlowBody":                 "ConnectFlow",
	"FlowField":                "ConnectFlowField",
	"FlowsOutputBody":          "ConnectFlowList",
	"FunnelBody":               "ConnectFunnel",
	"FunnelMethod":             "ConnectFunnelMethod",
	"GeneratorOutputBody":      "SandboxGenerator",
	"HeldBody":                 "AccountUsage",
	"HealthBody":               "WebhookHealth",
	"HookBody":                 "Webhook",
	"InviteOutputBody":         "InvitationSent",
	"KeyEntry":                 "Key",
	"KeysBody":                 "KeyList",
	"ListOutputBody":           "DeliveryPage",
	"Listed":                   "ListedAccount",
	"ListenerView":             "Listener",
	"LogsBody":                 "LogPage",
	"Meta":                     "EventMeta",
	"MintBody":                 "MintedKey",
	"OrgPullBody":              "OrgEventPage",
	"PageBody":                 "ConnectPage",
	"PeriodBody":               "UsagePeriod",
	"PersonasBody":             "PersonaList",
	"PullBody":                 "EventPage",
	"ReceiptOutputBody":        "PurgeReceipt",
	"RemovedOutputBody":        "MemberRemoved",
	"RevokeOutputBody":         "KeyRevoked",
	"SdkBody":                  "MethodCatalog",
	"SdkMethod":                "MethodInfo",
	"SeriesBody":               "UsageSeries",
	"SessionBody":              "ConnectSession",
	"SessionsOutputBody":       "ConnectSessionPage",
	"StatusBody":               "ServiceStatus",
	"StoppedOutputBody":        "SandboxGeneratorStopped",
	"TestOutputBody":           "WebhookTest",
	"TokenOutputBody":          "EventToken",
	"UploadPartBodyPartStruct": "UploadedPart",
	"WebhooksBody":             "WebhookPage",
	"WindowBody":               "UsageWindow",
	"WithdrawnOutputBody":      "InvitationWithdrawn",
}

// EventType is the type of an event as it stands in lists. Libraries write it themselves, typed by its kind.
const EventType = "Event"

// operationNames says where a client has an operation: group and name.
var operationNames = map[string]string{
	"listAccounts":          "accounts.list",
	"getAccount":            "accounts.get",
	"updateAccount":         "accounts.update",
	"disconnectAccount":     "accounts.disconnect",
	"pauseAccount":          "accounts.pause",
	"resumeAccount":         "accounts.resume",
	"reauthenticate":        "accounts.reauthenticate",
	"createReconnectLink":   "accounts.createReconnectLink",
	"getAccountMe":          "accounts.getMe",
	"listAccountAudit":      "accounts.listAudit",
	"getPurgeReceipt":       "accounts.getPurgeReceipt",
	"listAudit":             "audit.list",
	"connectLogin":          "connect.login",
	"connectMobile":         "connect.mobile",
	"connectCookie":         "connect.cookie",
	"connectCurl":           "connect.curl",
	"listAttempts":          "connect.listAttempts",
	"getAttempt":            "connect.getAttempt",
	"submitAttempt":         "connect.submit",
	"cancelAttempt":         "connect.cancel",
	"resendCode":            "connect.resendCode",
	"sendEmailToCreator":    "connect.sendEmailToCreator",
	"streamAttempt":         "connect.watch",
	"getAttemptQR":          "connect.getQR",
	"listFlows":             "connect.listFlows",
	"getConnectFunnel":      "connect.getFunnel",
	"getConnectPage":        "connect.getPage",
	"setConnectPage":        "connect.setPage",
	"listConnectSessions":   "connect.listSessions",
	"createConnectSession":  "connect.createSession",
	"getConnectSession":     "connect.getSession",
	"streamEvents":          "events.list",
	"findEvent":             "events.get",
	"streamAccountEvents":   "events.listOfAccount",
	"getEvent":              "events.getOfAccount",
	"createEventToken":      "events.createToken",
	"listKeys":              "keys.list",
	"mintKey":               "keys.create",
	"revokeKey":             "keys.revoke",
	"listLogs":              "logs.list",
	"getLog":                "logs.get",
	"listErrors":            "logs.listErrors",
	"getMe":                 "me.get",
	"updateMe":              "me.update",
	"fetchMedia":            "media.fetch",
	"uploadMedia":           "media.upload",
	"uploadMediaPart":       "media.uploadPart",
	"downloadMedia":         "media.download",
	"listProblems":          "problems.list",
	"getProblem":            "problems.get",
	"actOnSandbox":          "sandbox.act",
	"setSandboxFault":       "sandbox.setFault",
	"clearSandboxFaults":    "sandbox.clearFaults",
	"fireSandboxEvent":      "sandbox.fireEvent",
	"startSandboxGenerator": "sandbox.startGenerator",
	"stopSandboxGenerator":  "sandbox.stopGenerator",
	"resetSandboxLogin":     "sandbox.resetLogin",
	"advanceSandboxAttempt": "sandbox.advanceAttempt",
	"listSandboxPersonas":   "sandbox.listPersonas",
	"openSandboxSession":    "sandbox.openSession",
	"listMethods":           "sdk.listMethods",
	"getOpenAPI":            "sdk.getOpenAPI",
	"getStatus":             "status.get",
	"listMembers":           "team.listMembers",
	"updateMember":          "team.updateMember",
	"removeMember":          "team.removeMember",
	"inviteMember":          "team.invite",
	"withdrawInvitation":    "team.withdrawInvitation",
	"listBrowserSessions":   "team.listSessions",
	"endBrowserSession":     "team.endSession",
	"getUsage":              "usage.get",
	"getUsageSeries":        "usage.getSeries",
	"listWebhooks":          "webhooks.list",
	"getWebhook":            "webhooks.get",
	"putWebhook":            "webhooks.set",
	"deleteWebhook":         "webhooks.delete",
	"testWebhook":           "webhooks.test",
	"pauseWebhook":          "webhooks.pause",
	"resumeWebhook":         "webhooks.resume",
	"rotateWebhookSecret":   "webhooks.rotateSecret",
	"replayWebhook":         "webhooks.replay",
	"listDeliveries":        "webhooks.listDeliveries",
	"getDelivery":           "webhooks.getDelivery",
	"redeliver":             "webhooks.redeliver",
	"listEventDeliveries":   "webhooks.listEventDeliveries",
	"findDelivery":          "webhooks.findDelivery",
	"checkSignature":        "webhooks.checkSignature",
}

// leftOut are operations that no client has by name: the two that every method of the platform goes through, and what
// only browsers ask.
var leftOut = map[string]bool{"readMethod": true, "callMethod": true, "preflightEvents": true}

// groupDocs says what a group is about.
var groupDocs = map[string]string{
	"accounts": "The creators' accounts that are connected.",
	"audit":    "Who did what in the organisation.",
	"connect":  "Ways to connect a creator's account, and how far they have come.",
	"events":   "What happened on accounts and in the organisation, in pages.",
	"keys":     "The organisation's API keys.",
	"logs":     "The requests that were made, and what goes wrong.",
	"me":       "The organisation and the key in use.",
	"media":    "Files on the platform.",
	"problems": "What each problem means.",
	"sandbox":  "Make things happen on the sandbox.",
	"sdk":      "What can be called.",
	"status":   "Whether the service is well.",
	"team":     "The people of the organisation, and their browsers.",
	"usage":    "Limits, and what is used of them.",
	"webhooks": "Where events are sent, and how that goes.",
}

// groupTitle is how a group's types are called. The platform has a resource called me as well.
func groupTitle(group string) string {
	if group == "me" {
		return "Identity"
	}
	return Title(group)
}

// resultTypes says what a member holds that the document leaves open, by schema and member.
var resultTypes = map[string]string{
	"AccountMeOutputBody.me": "Me",
	"UploadBody.result":      "Upload",
}

// pathParamName renames parameters of paths to what they are.
func pathParamName(path, name string) string {
	if name != "id" {
		return name
	}
	before, _, _ := strings.Cut(path, "/{id}")
	switch before {
	case "/v1/accounts", "/v1/sandbox/accounts":
		return "accountId"
	case "/v1/connect/sessions", "/v1/me/sessions":
		return "sessionId"
	case "/v1/me/keys":
		return "keyId"
	case "/v1/org/members":
		return "memberId"
	case "/v1/org/invitations":
		return "invitationId"
	}
	return name
}

// typeName is how a schema of the document is called.
func typeName(schema string) string {
	if name, ok := schemaNames[schema]; ok {
		return name
	}
	if page, ok := strings.CutPrefix(schema, "Sdk.Page."); ok {
		return page + "Page"
	}
	schema = strings.TrimPrefix(schema, "Sdk.")
	for _, suffix := range []string{"OutputBody", "InputBody", "Body"} {
		if short, ok := strings.CutSuffix(schema, suffix); ok {
			return short
		}
	}
	return schema
}

// Title joins words into CamelCase: Title("messages", "send") is MessagesSend, Title("account.connected") AccountConnected.
func Title(words ...string) string {
	var b strings.Builder
	for _, word := range words {
		for _, part := range strings.FieldsFunc(word, func(r rune) bool { return r == '.' || r == '_' || r == '-' || r == '/' }) {
			first, size := utf8.DecodeRuneInString(part)
			b.WriteRune(unicode.ToUpper(first))
			b.WriteString(part[size:])
		}
	}
	return b.String()
}

// singular is the name of one of many.
func singular(name string) string {
	switch {
	case strings.HasSuffix(name, "ies"):
		return strings.TrimSuffix(name, "ies") + "y"
	case strings.HasSuffix(name, "s") && !strings.HasSuffix(name, "ss"):
		return strings.TrimSuffix(name, "s")
	}
	return name
}
