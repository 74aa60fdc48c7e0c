package testenv_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// The check accepts what the contract declares, and rejects members that are missing, unlisted or of the wrong type.
func TestEventsAreCheckedAgainstTheDocument(t *testing.T) {
	t.Parallel()
	good, err := json.Marshal(contract.WebhookDisabled{URL: "https://example.com", Reason: "gone"})
	must.OK(t, err)
	for _, c := range []struct{ kind, data, fault string }{
		{"webhook.disabled", string(good), ""},
		{"webhook.disabled", `{"url":"https://example.com","reason":"gone"}`, "failingSinceSec"},
		{"webhook.disabled", strings.Replace(string(good), "{", `{"extra":1,`, 1), "extra"},
		{"webhook.disabled", strings.Replace(string(good), `"gone"`, "1", 1), "reason"},
		{"webhook.unheard_of", "{}", "webhook.unheard_of"},
		{"message", `{}`, "message"},
	} {
		err := testenv.EventFault(c.kind, testenv.DataPart, []byte(c.data))
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s %s: %v", c.kind, c.data, err)
		}
	}
}

// An event that was written and deleted again is still checked.
func TestEmittedEventsAreRemembered(t *testing.T) {
	t.Parallel()
	url := testenv.UncheckedDatabase(t)
	conn, err := pgx.Connect(t.Context(), url)
	must.OK(t, err)
	defer conn.Close(t.Context())
	for _, sql := range []string{
		`ALTER TABLE outbox DROP CONSTRAINT outbox_org_id_fkey`,
		`INSERT INTO outbox (org_id, id, account_id, kind, data, at) VALUES ('org_1', 'evt_1', '', 'key.revoked', '{}', now())`,
		`DELETE FROM outbox`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	faults, err := testenv.EmittedFaults(t.Context(), url)
	if err != nil || len(faults) != 1 || !strings.Contains(faults[0].Error(), "key.revoked") {
		t.Fatalf("%v, %v", faults, err)
	}
}
