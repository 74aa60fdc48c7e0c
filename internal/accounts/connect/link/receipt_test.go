package link_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/smtp"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/mail"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// unused stands for a mail server in tests that send nothing.
type unused struct{}

func (unused) Send(context.Context, smtp.Mail) error { return nil }

// A receipt goes to the address to which the link was mailed, or else to the login, unless it is that of a test account
// or no address. Without a mail server the audit log has what would have been sent to the first.
func TestRecipientOfAReceipt(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	deps := mail.Deps{DB: r.db.WithClock(r.Now), Audit: r.audit, Seal: sealtest.NewMemory(), Queue: testenv.NoJobs{}, Log: slog.New(slog.DiscardHandler)}
	without := mail.New(deps)
	deps.Sender = unused{}
	live := r.org
	live.Environment = environment.Live
	for name, one := range map[string]struct { //nolint:paralleltest // the audit log of all of them is read afterwards
		deliver, login string
		test           bool
		mails          *mail.Outbox
		want           string
	}{
		"mailed link":                {"luna@acme.test", "other@acme.test", false, mail.New(deps), "l•••@acme.test"},
		"login":                      {"", "other@acme.test", false, mail.New(deps), "o•••@acme.test"},
		"login of a test account":    {"", "other@acme.test", true, mail.New(deps), ""},
		"login that is no address":   {"", "luna", false, mail.New(deps), ""},
		"no mail server":             {"luna@acme.test", "", true, without, "l•••@acme.test"},
		"no mail server and a login": {"", "other@acme.test", false, without, ""},
	} {
		t.Run(name, func(t *testing.T) {
			sessions := link.New(link.Deps{
				DB: r.db, Audit: r.audit, Outbox: r.outbox, Keys: keys{key: "one key for all nodes, 32 bytes."}, Seal: sealtest.NewMemory(), Mail: one.mails,
				ConnectURL: "https://connect.test", Regions: func() []string { return []string{"us"} }, Now: r.Now,
			})
			session, _ := r.createSession(link.Draft{DeliverEmail: one.deliver})
			owner, account := live, id.New[id.Account]()
			if one.test {
				owner = r.org
			}
			receipt, err := sessions.ComposeReceipt(t.Context(), link.Connection{
				Org: owner, Session: session.ID, Account: account, Name: "@luna", PlatformName: "Sandbox", Login: secret.New(one.login), Locale: "es",
			})
			must.OK(t, err)
			must.OK(t, r.db.Tx(t.Context(), func(tx postgres.Tx) error {
				return sessions.AddReceipt(t.Context(), tx, r.org.ID, by("connect.receipt"), receipt)
			}))
			entries, err := r.audit.Choose(t.Context(), r.org.ID, audit.Filter{Action: "connect.receipt", Target: string(account)}, 0, 10)
			must.OK(t, err)
			var got string
			for _, e := range entries {
				got += string(e.Changes)
			}
			if (len(entries) == 1) != (one.want != "") || !strings.Contains(got, one.want) || one.want != "" && !strings.Contains(got, "Tu cuenta") {
				t.Errorf("the audit log has %s, want a mail to %q", got, one.want)
			}
		})
	}
	var stored string
	must.OK(t, r.db.Pool().QueryRow(t.Context(), "SELECT string_agg(row_to_json(s)::text, '') FROM connect_session s").Scan(&stored))
	if strings.Contains(stored, "luna@acme.test") {
		t.Error("an address is readable in the database")
	}
}
