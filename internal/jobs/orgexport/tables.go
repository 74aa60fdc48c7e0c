package orgexport

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
)

// table says what of a table is exported. The test walks over the schema: each column of a tenant's table is in columns or
// withheld, or the table is in Withheld.
type table struct {
	// name is that of the table, kind that of its lines.
	name, kind string
	// org is the column with the organisation. Default: org_id.
	org string
	// columns are exported. Their names become camelCase.
	columns []string
	// order are columns that differ in all rows of an organisation, or of a group. An index has them in this order, so that no
	// page sorts what is left.
	order []string
	// group is a column of text that an index has before order. The groups are exported one after the other. Empty for none.
	group string
	// account is the column with the account whose key seals the lines; empty if they have nothing that came from an account.
	account string
	// personal are columns with what came from an account. They are null once it is deleted.
	personal []string
	// open replaces what is sealed in a row by its content.
	open func(ctx context.Context, e *Exporter, org id.Org, row map[string]any) error
	// withheld are the columns that are not exported, with the reasons.
	withheld map[string]string
}

// The reasons why something is not exported.
const (
	secretValue = "a secret, or what verifies one"
	internal    = "how the service works, not what it knows of the organisation"
	owner       = "the organisation itself, which is in the first line"
	transient   = "it is exported as what it becomes within minutes"
)

// reasons maps columns to one reason.
func reasons(reason string, columns ...string) map[string]string {
	all := map[string]string{"org_id": owner}
	for _, c := range columns {
		all[c] = reason
	}
	return all
}

// with adds columns with another reason.
func with(all map[string]string, reason string, columns ...string) map[string]string {
	for _, c := range columns {
		all[c] = reason
	}
	return all
}

// tables are exported in this order. People and events are not read as tables (steps).
var tables = []table{
	{
		name: "org", kind: "organisation", org: "id", order: []string{"id"},
		columns: []string{
			"id", "name", "plan", "environment", "contact_email", "limits", "suspended_at", "suspended_reason", "deletion_requested_at", "purge_at",
			"created_at", "updated_at",
		},
		withheld: reasons(internal, "auth_epoch", "deletion_suspends", "purge_started_at", "receipt"),
	},
	{
		name: "org_member", kind: "member", order: []string{"person_id"},
		columns: []string{"person_id", "role", "joined_at", "last_seen_at"}, withheld: reasons(""),
	},
	{
		name: "invitation", kind: "invitation", order: []string{"id"},
		columns:  []string{"id", "email", "role", "invited_by_kind", "invited_by_label", "created_at", "expires_at"},
		withheld: reasons(secretValue, "hash"),
	},
	{
		name: "support_access", kind: "supportAccess", order: []string{"id"},
		columns: []string{
			"id", "operator", "reason", "requested_at", "expires_at", "granted_at", "granted_by", "ended_at", "ended_by",
		},
		withheld: reasons(internal, "operator_id"),
	},
	{
		name: "api_key", kind: "key", order: []string{"id"},
		columns: []string{
			"id", "kind", "hint", "label", "scopes", "methods", "account_ids", "person_id", "created_at", "expires_at", "revoked_at", "last_used_at",
			"allowed_ips", "replaced_by", "minted_by",
		},
		withheld: with(reasons(secretValue, "hash"), internal, "session_id"),
	},
	{
		name: "connect_page", kind: "connectPage", order: []string{"org_id"},
		columns:  []string{"brand_light", "brand_dark", "scheme", "allowed_origins", "help_url", "updated_at", "logo"},
		withheld: reasons(internal, "logo_tag"),
	},
	{
		name: "account", kind: "account", order: []string{"id"}, account: "id",
		columns: []string{
			"id", "platform", "site", "credentials", "upstream_id", "label", "username", "display_name", "avatar_url", "state", "state_reason",
			"state_changed_at", "region", "reference_id", "metadata", "remember_credentials", "attempt_id", "attempt_kind", "created_at",
			"first_active_at", "down_since", "session_expires_at", "disconnected_at",
		},
		personal: []string{"site", "upstream_id", "label", "username", "display_name", "avatar_url", "reference_id", "metadata"},
		withheld: reasons(internal, "session_version", "sealed_version", "sign_in", "session_dead", "warn_at", "pending_attempt_id", "reauth_owner",
			"reauth_until", "reauth_tries", "disconnecting_at", "disconnecting_by", "site_root", "site_id", "refresh_until", "version_at"),
	},
	{
		name: "account_health", kind: "accountHealth", order: []string{"account_id"},
		columns:  []string{"account_id", "last_seen_at", "last_checked_at", "listener_state", "listener_since", "last_event_at"},
		withheld: reasons(internal, "shard", "probe_at", "troubles", "troubled_at", "goods"),
	},
	{
		name: "account_consent", kind: "consent", order: []string{"account_id", "attempt_id"},
		columns:  []string{"account_id", "attempt_id", "flow", "text_hash", "text_version", "who", "ip_hash", "at"},
		withheld: reasons(""),
	},
	{
		name: "account_purge", kind: "receipt", order: []string{"account_id"},
		columns: []string{"account_id", "at", "receipt"}, withheld: reasons(""),
	},
	{
		name: "attempt", kind: "attempt", order: []string{"id"}, account: "account_id",
		columns: []string{
			"id", "kind", "state", "account_id", "reconnect", "session_id", "platform", "site", "label", "region", "reference", "metadata", "remember",
			"return_url", "channel", "mask", "challenges", "submissions", "resends", "consent", "started_by", "failure_code", "upstream_code",
			"upstream_message", "upstream_text", "created_at", "updated_at", "finished_at", "expires_at",
		},
		personal: []string{"site", "label", "reference", "metadata", "mask", "consent", "upstream_message", "upstream_text"},
		withheld: with(reasons(secretValue, "login", "secrets", "input", "oauth_state", "oauth_browser"), internal,
			"version", "progress", "available", "challenge_sent", "challenge_expires_at", "resend_at", "qr_expires_at", "step", "step_seq", "step_at",
			"target", "tries", "retry_at", "poll_at", "lease", "lease_end", "sent", "secrets_version", "shredded", "failure_after", "deadline",
			"wake_at", "named", "site_root", "site_id"),
	},
	{
		name: "connect_session", kind: "connectSession", order: []string{"id"}, account: "connected_account",
		columns: []string{
			"id", "status", "kinds", "platform", "site", "reference_id", "label", "region", "account_id", "return_url", "allowed_origins", "locale",
			"remember", "attempts", "active_attempt", "connected_account", "created_at", "updated_at", "opened_at", "expires_at", "finished_at",
			"browser_name", "browser_system", "others",
		},
		personal: []string{"site", "reference_id", "label", "browser_name", "browser_system"},
		withheld: with(reasons(secretValue, "token_hash", "browsers", "receipt_to"), internal, "due_at", "bound_at"),
	},
	{
		name: "webhook", kind: "webhook", order: []string{"account_id"},
		columns: []string{
			"account_id", "url", "events", "ordering", "max_in_flight", "secret_last4", "created_at", "updated_at", "deleted_at",
		},
		withheld: with(reasons(secretValue, "secret", "secret_version", "previous", "previous_version", "previous_until"), internal,
			"bucket", "start_seq", "gen", "test_level", "test_at", "changed_at"),
	},
	{
		name: "webhook_lane", kind: "webhookState", order: []string{"account_id"},
		columns: []string{
			"account_id", "state", "cursor", "fail_since", "fail_count", "next_at", "last_status", "last_error", "reason", "updated_at",
		},
		withheld: reasons(internal, "bucket", "gen", "moved", "head_tries", "head_since"),
	},
	{
		name: "webhook_endpoint", kind: "webhookEndpoint", order: []string{"id"},
		columns: []string{
			"id", "url", "description", "events", "account_ids", "platforms", "ordering", "enabled", "secret_last4", "created_at", "updated_at", "deleted_at",
		},
		withheld: with(reasons(secretValue, "secret", "secret_version", "previous", "previous_version", "previous_until"), internal,
			"bucket", "gen", "test_level", "test_at", "changed_at"),
	},
	{
		name: "webhook_endpoint_progress", kind: "webhookEndpointState", order: []string{"endpoint_id"},
		columns: []string{
			"endpoint_id", "state", "fail_since", "fail_count", "next_at", "last_status", "last_error", "reason", "updated_at",
		},
		withheld: reasons(internal, "after_tx", "after_id"),
	},
	{
		name: "webhook_endpoint_lane", kind: "webhookEndpointAccount", order: []string{"endpoint_id", "source"},
		columns: []string{
			"endpoint_id", "source", "state", "cursor", "fail_since", "fail_count", "next_at", "last_status", "last_error", "reason", "updated_at",
		},
		withheld: reasons(internal, "head_tries", "head_since"),
	},
	{
		name: "webhook_delivery", kind: "delivery", group: "account_id", order: []string{"at", "id"}, account: "account_id", open: openSnippet,
		columns: []string{
			"id", "at", "account_id", "source", "event_id", "seq", "kind", "attempt", "cause", "status", "delivered", "took_us", "error", "snippet",
		},
		withheld: reasons(""),
	},
	{
		name: "request_log", kind: "request", order: []string{"at", "request_id", "operation", "status", "took_us", "bytes_out"},
		columns: []string{
			"request_id", "at", "key_id", "account_id", "operation", "verb", "status", "problem", "reason", "fields", "source", "retryable",
			"replayed", "dry_run", "took_us", "upstream_us", "bytes_in", "bytes_out", "upstream_code", "upstream_text",
			"members", "is_free", "events",
		},
		withheld: reasons(""),
	},
	{
		name: "usage_hour", kind: "usageHour", order: []string{"hour", "account_id", "operation", "access", "outcome"},
		columns: []string{"hour", "account_id", "operation", "access", "outcome", "calls"}, withheld: reasons(""),
	},
	{
		name: "usage_series", kind: "usageSeries", order: []string{"account_id", "hour"},
		columns:  []string{"hour", "account_id", "calls", "limited", "client_errors", "failed", "took"},
		withheld: reasons(""),
	},
	{
		name: "usage_slice", kind: "usageSlices", order: []string{"step", "dimension", "name", "at"},
		columns:  []string{"step", "dimension", "name", "at", "calls", "limited", "client_errors", "failed", "took"},
		withheld: reasons(""),
	},
	{
		name: "usage_event_minute", kind: "usageEventMinutes", order: []string{"minute"},
		columns: []string{"minute", "received", "streamed", "delivered", "failed", "slowest_us"}, withheld: reasons(""),
	},
	{
		name: "usage_bytes", kind: "usageBytes", order: []string{"hour", "region"},
		columns: []string{"hour", "region", "sent", "received"}, withheld: reasons(""),
	},
	{
		name: "usage_event", kind: "usageEvents", order: []string{"hour"},
		columns: []string{"hour", "received", "streamed", "delivered", "failed", "slowest_us"}, withheld: reasons(""),
	},
	{
		name: "month_total", kind: "usageMonth", order: []string{"month"},
		columns: []string{"month", "used"}, withheld: reasons(internal, "told"),
	},
	{
		name: "connect_month", kind: "connectMonth", order: []string{"month"},
		columns: []string{"month", "started", "succeeded", "failed"}, withheld: reasons(""),
	},
	{
		name: "connect_outcome", kind: "connectHour", order: []string{"hour"},
		columns: []string{"hour", "tried", "refused"}, withheld: reasons(""),
	},
	{
		name: "audit_entry", kind: "auditEntry", order: []string{"seq"}, account: "target", open: openChanges,
		columns: []string{
			"seq", "id", "at", "actor_kind", "actor_id", "actor_label", "action", "target", "request_id", "ip_hash", "changes",
		},
		withheld: reasons(internal, "hash", "key_id"),
	},
	{
		name: "job", kind: "job", order: []string{"id"},
		columns: []string{
			"id", "kind", "state", "params", "accounts_done", "accounts_total", "items", "failures", "percent", "error_code", "error_detail",
			"created_at", "started_at", "finished_at", "expired_at",
		},
		withheld: reasons(internal, "asked_by", "checkpoint", "input", "awaits", "parts", "holder", "epoch", "lease_end", "tries", "wake_at"),
	},
	{
		name: "mail", kind: "mail", order: []string{"id"},
		columns:  []string{"id", "kind", "state", "reason", "created_at", "expires_at"},
		withheld: with(reasons(secretValue, "sealed"), internal, "taken_until"),
	},
	{
		name: "notice_setting", kind: "noticeSetting", order: []string{"org_id"},
		columns:  []string{"slack_host", "kinds", "locale"},
		withheld: with(reasons(secretValue, "slack"), internal, "slack_version"),
	},
	{
		name: "notice", kind: "notice", order: []string{"kind", "subject"},
		columns: []string{"kind", "subject", "data", "at", "told_at"}, withheld: reasons(""),
	},
}

// Withheld are the tables of which nothing is exported, with the reasons.
var Withheld = map[string]string{
	"account_secret":      "sealed sessions and credentials of accounts: secrets",
	"audit_head":          internal,
	"connect_bucket":      internal,
	"event_dead_letter":   transient,
	"idempotency_key":     "responses that are kept for a day, so that a request is not repeated: what they changed is exported",
	"job_part":            internal,
	"ledger":              internal,
	"mail_subject":        transient,
	"notice_turn":         internal,
	"notice_unsubscribed": internal,
	"outbox":              transient,
	"stream_token":        secretValue,
	"support_offer":       "links with which operators open the dashboard, for minutes: secrets",
	"webhook_errand":      transient,

	"webhook_endpoint_errand": transient,
}

// Stepped are the tables that are not exported as they are, with the kinds of the lines that have their content.
var Stepped = map[string]string{"event": kindEvent, "event_source": kindEvent}

// openChanges replaces the sealed changes of an audit entry.
func openChanges(ctx context.Context, e *Exporter, org id.Org, row map[string]any) error {
	target, _ := row["target"].(string)
	changes, _ := row["changes"].(json.RawMessage)
	opened, err := e.deps.Audit.OpenChanges(ctx, org, target, changes)
	row["changes"] = opened
	return err
}

// openSnippet replaces the sealed beginning of a receiver's response.
func openSnippet(ctx context.Context, e *Exporter, org id.Org, row map[string]any) error {
	d, err := deliveryOf(org, row)
	if err == nil {
		d, err = e.deps.Webhooks.OpenSnippet(ctx, d)
	}
	row["snippet"] = d.Snippet
	return err
}

func deliveryOf(org id.Org, row map[string]any) (webhook.Delivery, error) {
	account, _ := row["account_id"].(string)
	if source, _ := row["source"].(string); source != "" {
		if account = source; source == string(org) {
			account = ""
		}
	}
	snippet, _ := row["snippet"].(string)
	at, ok := row["at"].(stampedTime)
	if !ok {
		return webhook.Delivery{}, fmt.Errorf("a delivery has the time %v", row["at"])
	}
	return webhook.Delivery{Org: org, Account: id.Account(account), At: at.exact, Snippet: snippet}, nil
}
