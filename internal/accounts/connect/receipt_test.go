package connect_test

import (
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testmail"
)

// A creator who was mailed a link is mailed a receipt when the account is connected, in the language of the link and with
// the link that ends the connection. Nothing else is mailed: neither after a failure, nor to the login of a test account.
func TestConnectedCreatorIsMailedAReceipt(t *testing.T) {
	t.Parallel()
	server := testmail.New(t, testmail.Setup{})
	r := newFixture(t, options{mail: server})
	connectIn := func(d link.Draft, password string, want attempt.State) connect.Found {
		session, _, err := r.hosted.Create(t.Context(), by, r.org, d)
		must.OK(t, err)
		f := r.start(login("ok"), password, func(s *connect.Start) { s.Hosted, s.Openings = session.ID, session.Openings() })
		return r.waitFor(f.ID, want)
	}
	connectIn(link.Draft{}, "good", attempt.Success)
	connectIn(link.Draft{DeliverEmail: "eve@acme.test"}, "bad", attempt.Failed)
	done := connectIn(link.Draft{DeliverEmail: "luna@acme.test", Locale: "es"}, "good", attempt.Success)
	rows, err := r.db.Query(t.Context(), "SELECT id FROM mail WHERE kind = 'receipt'")
	must.OK(t, err)
	var ids []id.Mail
	for rows.Next() {
		var one id.Mail
		must.OK(t, rows.Scan(&one))
		ids = append(ids, one)
	}
	must.OK(t, rows.Err())
	if len(ids) != 1 {
		t.Fatalf("there are %d receipts, want 1", len(ids))
	}
	must.OK(t, r.mails.Send(t.Context(), r.org.ID, ids[0]))
	m := server.Await(1)[0]
	if m.Envelope != "luna@acme.test" || m.Subject != "Tu cuenta está conectada con Acme" || !strings.Contains(m.HTML, "/manage/mng_") {
		t.Errorf("got %+v", m)
	}
	_, rest, _ := strings.Cut(m.Text, "https://connect.test/manage/")
	token, _, _ := strings.Cut(rest, "\n")
	org, account, err := link.NewLinks(r.seal).Read(t.Context(), token)
	if err != nil || org != r.org.ID || string(account) != *done.AccountID {
		t.Errorf("the link is for %s %s (%v), want %s", org, account, err, *done.AccountID)
	}
	var addresses int
	must.OK(t, r.db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM connect_session WHERE finished_at IS NOT NULL AND receipt_to IS NOT NULL").Scan(&addresses))
	if addresses > 0 {
		t.Errorf("%d sessions that have ended still have an address", addresses)
	}
}
