package model

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// EventType is the type of events in lists. The generators write it themselves, with data typed by kind.
const EventType = "Event"

// operationNames maps an operationId to the operation's group and name in the libraries.
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
	"connectToken":          "connect.token",
	"listAttempts":          "connect.listAttempts",
	"getAttempt":            "connect.getAttempt",
	"submitAttempt":         "connect.submit",
	"cancelAttempt":         "connect.cancel",
	"resendCode":            "connect.resendCode",
	"sendEmailToCreator":    "connect.sendEmailToCreator",
	"streamAttempt":         "connect.watch",
	"getAttemptQR":          "connect.getQR",
	"listFlows":             "connect.listFlows",
	"listPlatforms":         "connect.listPlatforms",
	"listReceiptKeys":       "accounts.listReceiptKeys",
	"getOrgReceipt":         "accounts.getOrgReceipt",
	"listEventKinds":        "events.listKinds",
	"getConnectFunnel":      "connect.getFunnel",
	"getConnectPage":        "connect.getPage",
	"setConnectPage":        "connect.setPage",
	"setOrgLogo":            "connect.setLogo",
	"deleteOrgLogo":         "connect.deleteLogo",
	"listConnectSessions":   "connect.listSessions",
	"createConnectSession":  "connect.createSession",
	"getConnectSession":     "connect.getSession",
	"streamEvents":          "events.list",
	"findEvent":             "events.get",
	"streamAccountEvents":   "events.listOfAccount",
	"getEvent":              "events.getOfAccount",
	"createEventToken":      "events.createToken",
	"startJob":              "jobs.start",
	"listJobs":              "jobs.list",
	"getJob":                "jobs.get",
	"cancelJob":             "jobs.cancel",
	"getJobResult":          "jobs.getResult",
	"putJobItems":           "jobs.putItems",
	"listKeys":              "keys.list",
	"mintKey":               "keys.create",
	"revokeKey":             "keys.revoke",
	"revokeMemberKeys":      "team.revokeKeys",
	"rotateKey":             "keys.rotate",
	"updateKey":             "keys.update",
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
	"getNotices":            "team.getNotices",
	"setNotices":            "team.setNotices",
	"resetNotices":          "team.resetNotices",
	"withdrawInvitation":    "team.withdrawInvitation",
	"listBrowserSessions":   "team.listSessions",
	"endBrowserSession":     "team.endSession",
	"listSupportAccess":     "team.listSupportAccess",
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

	"listWebhookEndpoints":          "webhookEndpoints.list",
	"createWebhookEndpoint":         "webhookEndpoints.create",
	"getWebhookEndpoint":            "webhookEndpoints.get",
	"updateWebhookEndpoint":         "webhookEndpoints.update",
	"deleteWebhookEndpoint":         "webhookEndpoints.delete",
	"testWebhookEndpoint":           "webhookEndpoints.test",
	"rotateWebhookEndpointSecret":   "webhookEndpoints.rotateSecret",
	"replayWebhookEndpoint":         "webhookEndpoints.replay",
	"listWebhookEndpointDeliveries": "webhookEndpoints.listDeliveries",
	"getWebhookEndpointDelivery":    "webhookEndpoints.getDelivery",
	"redeliverToWebhookEndpoint":    "webhookEndpoints.redeliver",
	"checkSignature":                "webhooks.checkSignature",
}

// pageTexts describes operations that stream or return pages, as the libraries generate them: with pages.
var pageTexts = map[string]struct{ title, doc string }{
	"streamEvents": {
		"List events of the organisation",
		"Returns the events of all accounts and of the organisation itself, page by page: send `nextCursor` as `after`, " +
			"and `wait` to hold the response until there is an event. With `latest` the newest events come first.\n\n" +
			"Events of one account are in order. The cursors differ from those of an account's events. A key that is limited " +
			"to accounts sees only their events.",
	},
	"streamAccountEvents": {
		"List events of an account",
		"Returns events page by page: send `nextCursor` as `after`, and `wait` to hold the response until there is an event.",
	},
}

// excluded holds the operations that are in no library: the two that all methods of the platform use,
// one for browsers, and those that refuse keys.
var excluded = map[string]bool{
	"readMethod": true, "callMethod": true, "preflightEvents": true, "deleteOrg": true, "restoreOrg": true,
	"grantSupportAccess": true, "revokeSupportAccess": true,
}

// groupDocs describes the groups. Each is a sentence without its subject, since the Go comment starts
// with a type's name.
var groupDocs = map[string]string{
	"accounts":         "Manages connected accounts.",
	"audit":            "Lists who did what in the organisation.",
	"connect":          "Connects creators' accounts and follows connect attempts.",
	"events":           "Lists events of accounts and of the organisation.",
	"jobs":             "Starts work that is longer than a call, and reads its results.",
	"keys":             "Manages API keys.",
	"logs":             "Lists API requests and their errors.",
	"me":               "Reads and updates the organisation, and describes the key in use.",
	"media":            "Transfers files to and from the platform.",
	"problems":         "Explains problem codes.",
	"sandbox":          "Controls the sandbox platform.",
	"sdk":              "Lists the methods of the platform.",
	"status":           "Reports the status of the service.",
	"team":             "Manages members, invitations and browser sessions.",
	"usage":            "Reports limits and usage.",
	"webhooks":         "Manages webhooks and their deliveries.",
	"webhookEndpoints": "Manages endpoints: URLs that receive the events of many accounts.",
}

// groupTitle starts the names of a group's types. The group me differs because the platform has a resource me too.
func groupTitle(group string) string {
	if group == "me" {
		return "Identity"
	}
	return Title(group)
}

// resultTypes holds the types of members that the document leaves open, by schema and member.
var resultTypes = map[string]string{
	"AccountMeResponse.me":  "Me",
	"UploadResponse.result": "Upload",
}

// pathParamName gives path parameters called id a descriptive name.
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
	case "/v1/jobs":
		return "jobId"
	case "/v1/me/keys":
		return "keyId"
	case "/v1/org/members":
		return "memberId"
	case "/v1/org/invitations":
		return "invitationId"
	}
	return name
}

// typeName returns the type name of a schema of the document.
func typeName(schema string) string {
	if page, ok := strings.CutPrefix(schema, "Sdk.Page."); ok {
		return page + "Page"
	}
	return strings.TrimPrefix(schema, "Sdk.")
}

// Title joins words in CamelCase: Title("messages", "send") is MessagesSend,
// Title("account.connected") is AccountConnected.
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

// Wrap splits a paragraph into lines of at most width bytes.
func Wrap(paragraph string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(paragraph) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// singular returns the singular of an English plural, by simple rules.
func singular(name string) string {
	switch {
	case strings.HasSuffix(name, "ies"):
		return strings.TrimSuffix(name, "ies") + "y"
	case strings.HasSuffix(name, "s") && !strings.HasSuffix(name, "ss"):
		return strings.TrimSuffix(name, "s")
	}
	return name
}
