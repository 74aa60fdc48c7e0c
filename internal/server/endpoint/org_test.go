package endpoint_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// orgs sends the organisation whose rows the statements of each admission may see.
type orgs struct {
	db   *postgres.DB
	seen chan string
}

func (o orgs) Admit(ctx context.Context, _ admission.Call) (admission.Decision, error) {
	return admission.Decision{}, o.note(ctx)
}

func (o orgs) note(ctx context.Context) error {
	var org string
	err := o.db.QueryRow(ctx, "SELECT current_setting('stagedoor.org')").Scan(&org)
	o.seen <- org
	return err
}

// Row-level security holds for what a table does outside the handler: the check of an open stream, and the link in a
// problem.
func TestWorkBesideTheHandlerSeesOneOrg(t *testing.T) {
	t.Parallel()
	seen := orgs{testenv.Postgres(t), make(chan string, 10)}
	f := newFixture(t, func(d *endpoint.Deps) {
		d.Admit = seen
		d.Reconnect = func(ctx context.Context, _ id.Org, _ id.Account) (string, error) {
			return "https://x.test/r/1", seen.note(ctx)
		}
	})
	f.customer.principal.Scopes = scope.Of(scope.AccountsWrite)
	endpoint.Plain(f.Table, endpoint.Operation{
		ID: "lost", Method: http.MethodGet, Path: "/accounts/{id}", Tag: "T", Summary: "S", Status: http.StatusOK, Quota: admission.Plain, Account: "id",
	}, func(http.ResponseWriter, *http.Request) error { return problem.AccountDisconnected.New("Lost.") })
	open := make(chan struct{})
	endpoint.Plain(f.Table, endpoint.Operation{
		ID: "events", Method: http.MethodGet, Path: "/events", Tag: "T", Summary: "S", Status: http.StatusOK, Quota: admission.Plain,
		Media: []string{"text/event-stream"}, Streams: true,
	}, func(w http.ResponseWriter, r *http.Request) error {
		s, err := endpoint.Stream(w, r)
		if err != nil {
			return err
		}
		defer s.Close()
		close(open)
		<-s.Done()
		return nil
	})
	own := string(f.customer.principal.Org.ID)
	expect := func(what string) {
		t.Helper()
		if org := <-seen.seen; org != own {
			t.Errorf("%s sees the rows of %q", what, org)
		}
	}

	f.do(t, http.MethodGet, "/accounts/"+string(id.New[id.Account]()), nil)
	expect("the admission")
	expect("the link in a problem")

	ctx, leave := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/events", nil)
	r.Header.Set("Authorization", "Bearer x")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.ServeHTTP(&fakeReader{header: http.Header{}}, r)
	}()
	expect("the admission of a stream")
	<-open
	f.Recheck(f.customer.principal.Org.ID)
	expect("the check of a stream")
	leave()
	<-ended
}
