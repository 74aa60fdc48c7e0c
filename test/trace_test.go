package test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/test/must"
)

// allowedTraces lists where a deleted account may be named in the database, and why. Only its id may be: everything else
// of it must be gone. A table that is not listed must not know the account any more.
var allowedTraces = map[string]string{
	"account.id":                  "the row of a deleted account is empty but for ids and times",
	"account_consent.account_id":  "the creator's consent is kept as evidence",
	"account_purge.account_id":    "the receipt",
	"account_purge.receipt":       "the receipt",
	"attempt.account_id":          "attempts are kept for a week, without what they had of the account",
	"connect_session.account_id":  "sessions are kept for a month, without what they had of the account",
	"audit_entry.target":          "entries stay; they hold ids",
	"event.source":                "events keep id, kind and time",
	"event.body":                  "the envelope of a purged event, and account.disconnected",
	"event_source.source":         "the number of the last event, so that none is given twice",
	"eventlog_entry.data":         "the head of a sealed record, until it is trimmed",
	"outbox.source":               "account.disconnected, until it is stored",
	"outbox.data":                 "account.disconnected, until it is stored",
	"request_log.events":          "ids and kinds of the events that requests caused, until their retention ends",
	"request_log.account_id":      "requests to the account's paths, until their retention ends",
	"request_log.path":            "requests to the account's paths, until their retention ends",
	"webhook_delivery.account_id": "deliveries, without what was answered, until their retention ends",
	"usage_hour.account_id":       "counts, for the bill",
	"usage_series.account_id":     "counts, for the bill",
	"usage_slice.name":            "counts, for charts",
	"keyring.key_holder.holder":   "that the key was destroyed, for 40 days",
	"river_job.args":              "ids of finished jobs, for a day",
}

// leaveTraces uses an account in every way that stores something of it: calls, events, deliveries that fail, changes of
// its label, repeated requests. Then it deletes the account.
func (s *secretsFixture) leaveTraces() {
	s.t.Helper()
	content := func() string {
		text := secretText("c")
		s.vault.plant(s.t, true, "content", text)
		return text
	}
	identity := func(values ...string) {
		s.identity = append(s.identity, values...)
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = r.Write(w) // what it got is in the beginning of its response
	}))
	s.t.Cleanup(receiver.Close)
	label, note, reference := secretText("label"), secretText("note"), secretText("reference")
	p := s.awaitEnd(s.signIn("ok", map[string]any{
		"label": label, "metadata": map[string]string{"note": note}, "reference_id": reference, "remember_credentials": true,
	}), "success", "")
	account := p.text("account_id")
	path, sandboxPath := "/v1/accounts/"+account, "/v1/sandbox/accounts/"+account
	await(s.t, "the account listens", time.Minute, func() bool {
		return s.mustSend(http.StatusOK, http.MethodGet, path, nil).JSON()["account"].(map[string]any)["state"] == "active"
	})
	about := s.mustSend(http.StatusOK, http.MethodGet, path, nil).JSON()["account"].(map[string]any)
	s.lastWords = []string{about["ofUserId"].(string), reference}
	identity(label, note, reference, about["ofUserId"].(string), about["username"].(string))
	if name := about["displayName"].(string); s.isUnique(name) {
		identity(name)
	}
	s.mustSend(http.StatusOK, http.MethodPut, path+"/webhook", map[string]any{"url": receiver.URL + "/hook", "events": []string{"message"}})
	renamed := secretText("renamed")
	identity(renamed)
	s.mustSend(http.StatusOK, http.MethodPatch, path, map[string]any{"label": renamed, "metadata": map[string]string{"note": note + "2"}})
	fans := s.mustSend(http.StatusOK, http.MethodPost, path+"/fans/list", map[string]any{"limit": 1}).JSON()
	fan := fans["result"].(map[string]any)["items"].([]any)[0].(map[string]any)["user"].(map[string]any)["id"]
	message := map[string]any{"chatId": fan, "text": content()}
	key := secretText("")
	for range 2 { // the second response is the stored one
		s.mustSend(http.StatusOK, http.MethodPost, path+"/messages/send", message, "Idempotency-Key", key)
	}
	received := content()
	s.mustSend(http.StatusAccepted, http.MethodPost, sandboxPath+"/fire_event", map[string]any{"event": "message", "data": map[string]any{"text": received}})
	await(s.t, "the message is in the store and its delivery in the log", time.Minute, func() bool {
		events := s.mustSend(http.StatusOK, http.MethodGet, path+"/events", nil, "Accept", "application/json")
		sent := s.mustSend(http.StatusOK, http.MethodGet, path+"/webhook/deliveries?event=message&state=failed", nil)
		return strings.Contains(string(events.Body), received) && strings.Contains(string(sent.Body), `"status":422`)
	})
	s.mustSend(http.StatusOK, http.MethodDelete, path, nil)
	s.mustSend(http.StatusOK, http.MethodGet, path+"/purge-receipt", nil)
	s.checkTraces(account)
}

// isUnique reports whether only one account has a display name. The sandbox gives the same few hundred names again.
func (s *secretsFixture) isUnique(name string) bool {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.engines.postgres.URL.Reveal())
	must.OK(s.t, err)
	defer conn.Close(s.t.Context())
	var accounts int
	must.OK(s.t, conn.QueryRow(s.t.Context(), "SELECT count(*) FROM account WHERE display_name = $1", name).Scan(&accounts))
	return accounts == 1
}

// checkTraces walks over every column of every table. It fails if one still names the account that allowedTraces does not
// list, or has anything else of it.
func (s *secretsFixture) checkTraces(account string) {
	s.t.Helper()
	ctx := s.t.Context()
	conn, err := pgx.Connect(ctx, s.engines.postgres.URL.Reveal())
	must.OK(s.t, err)
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `SELECT c.oid::regclass::text, coalesce(i.inhparent, c.oid)::regclass::text
		FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
		WHERE c.relkind = 'r' AND c.relnamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema', 'probe')`)
	must.OK(s.t, err)
	parents := map[string]string{}
	var table, parent string
	_, err = pgx.ForEachRow(rows, []any{&table, &parent}, func() error { parents[table] = parent; return nil })
	must.OK(s.t, err)
	if len(parents) < 30 {
		s.t.Fatalf("only %d tables were found", len(parents))
	}
	columns := 0
	for _, table := range slices.Sorted(maps.Keys(parents)) {
		for name, values := range s.tracesIn(conn, table, account) {
			columns++
			where := parents[table] + "." + name
			for _, value := range values {
				switch {
				case value == account && allowedTraces[where] != "":
				case where == "event.body" && slices.Contains(s.lastWords, value):
				default:
					s.t.Errorf("%s still has %q of the deleted account", where, value)
				}
			}
		}
	}
	s.t.Logf("%d tables, %d columns with the id of the deleted account", len(parents), columns)
	if columns == 0 {
		s.t.Error("the walk found nothing, not even the tombstone")
	}
}

// tracesIn returns the columns of a table that contain the account's id or something of its identity, and what they
// contain.
func (s *secretsFixture) tracesIn(conn *pgx.Conn, table, account string) map[string][]string {
	s.t.Helper()
	found := map[string][]string{}
	for _, value := range append([]string{account}, s.identity...) {
		for _, form := range forms(value) {
			rows, err := conn.Query(s.t.Context(), `SELECT DISTINCT column_of.key FROM `+table+` AS t, LATERAL jsonb_each_text(to_jsonb(t)) AS column_of
				WHERE position($1 IN column_of.value) > 0`, form.text)
			must.OK(s.t, err)
			names, err := pgx.CollectRows(rows, pgx.RowTo[string])
			must.OK(s.t, err)
			for _, name := range names {
				if !slices.Contains(found[name], value) {
					found[name] = append(found[name], value)
				}
			}
		}
	}
	return found
}
