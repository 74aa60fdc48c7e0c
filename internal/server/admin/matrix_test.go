package admin_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/operate/operator"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// leastRoles lists the operations that need more than viewer to read and operator to change something. It repeats what
// the table declares, so that a mistake there is noticed.
var leastRoles = map[string]operator.Role{
	"requestAccess": operator.Support, "listAccess": operator.Support, "openOrg": operator.Support,
	"deleteOrg": operator.Owner, "issueKey": operator.Owner, "inviteToOrg": operator.Owner,
	"listOperatorSessions": operator.Owner, "endOperatorSession": operator.Owner,
}

func leastRole(op endpoint.Operation) operator.Role {
	switch role, listed := leastRoles[op.ID]; {
	case listed:
		return role
	case op.Method == http.MethodGet:
		return operator.Viewer
	}
	return operator.Worker
}

// roster has a person for each role.
func roster() string {
	var all []string
	for _, r := range operator.Roles() {
		all = append(all, string(r)+"@stagedoor.test="+string(r))
	}
	return strings.Join(all, " ")
}

// withOperators starts a node with a person for each role.
func withOperators(t *testing.T) (*testnode.Node, secret.String) {
	t.Helper()
	database := testenv.DatabaseURL(t)
	return testnode.Nodes(t, 1, testnode.Setup{Database: database, Configure: func(c *config.Config) {
		c.Operators, c.OperatorsIssuer = roster(), "https://id.test"
	}})[0], database
}

// signInAs signs a browser in as a person, as the callback of the identity provider does, and returns its cookie.
func signInAs(t *testing.T, database secret.String, email string) *http.Cookie {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database.Reveal())
	must.OK(t, err)
	defer conn.Close(t.Context())
	value := base64.RawURLEncoding.EncodeToString([]byte(id.New[id.BrowserSession]() + "xyz"))
	hash := sha256.Sum256([]byte(value))
	_, err = conn.Exec(t.Context(), `INSERT INTO operator_session (id, hash, issuer, subject, email, name, user_agent, ends_at)
		VALUES ($1, $2, 'https://id.test', $3, $4, 'Test', '', now() + interval '1 hour')`, id.New[id.BrowserSession](), hash[:], "sub:"+email, email)
	must.OK(t, err)
	return &http.Cookie{Name: "__Host-sd_ops", Value: value}
}

// Every operation of the admin API accepts its least role and those above it, and refuses those below it, a person
// without a role, a customer's key and callers who are not signed in.
func TestRoleMatrixOfOperators(t *testing.T) {
	t.Parallel()
	n, database := withOperators(t)
	customer := n.NewOrg(t, nil)
	cookies := map[operator.Role]*http.Cookie{}
	for _, r := range operator.Roles() {
		cookies[r] = signInAs(t, database, string(r)+"@stagedoor.test")
	}
	removed := signInAs(t, database, "removed@stagedoor.test")
	for name := range leastRoles {
		if !slices.ContainsFunc(n.App.Admin().Operations(), func(op endpoint.Operation) bool { return op.ID == name }) {
			t.Errorf("there is no operation %s", name)
		}
	}
	for _, op := range n.App.Admin().Operations() {
		if op.Method != http.MethodGet && op.Audit == "" {
			t.Errorf("%s changes something without an entry in an audit log", op.ID)
		}
	}
	cases := 0
	// call uses ids that do not exist, so that nothing but the switches and the banner can change.
	call := func(op endpoint.Operation, cookie *http.Cookie, token string) testnode.Reply {
		t.Helper()
		cases++
		unknown := "org_01k9x5ahzre4bb3069xb2way0g"
		if strings.Contains(op.Path, "/jobs/") || strings.Contains(op.Path, "/dead-letters/") {
			unknown = "999999999"
		}
		var body any
		if op.HasBody() {
			body = op.Example
		}
		path := strings.NewReplacer("{id}", unknown, "{region}", "us", "{proxy}", "9").Replace(op.Path)
		if cookie == nil {
			r, err := testnode.Do(t.Context(), op.Method, n.Internal+path, token, body)
			must.OK(t, err)
			return r
		}
		headers := map[string]string{"Sec-Fetch-Site": "same-origin"}
		text := ""
		if body != nil {
			raw, err := json.Marshal(body)
			must.OK(t, err)
			headers["Content-Type"], text = "application/json", string(raw)
		}
		return browseJSON(t, op.Method, n.Internal+path, text, headers, cookie)
	}
	for _, op := range n.App.Admin().Operations() {
		least := leastRole(op)
		for i, r := range operator.Roles() {
			reply := call(op, cookies[r], "")
			switch may := i >= slices.Index(operator.Roles(), least); {
			case may && (reply.Status == http.StatusUnauthorized || reply.Code() == "role-required" || reply.Status >= http.StatusInternalServerError):
				t.Errorf("%s as %s: %d %s", op.ID, r, reply.Status, reply.Body)
			case !may && (reply.Status != http.StatusForbidden || reply.Code() != "role-required" || reply.JSON()["requiredRole"] != string(least)):
				t.Errorf("%s as %s: %d %s", op.ID, r, reply.Status, reply.Body)
			}
		}
		for what, c := range map[string]struct {
			cookie      *http.Cookie
			token, want string
		}{
			"nobody": {nil, "", "key-missing"}, "a customer": {nil, customer.Key, "key-invalid"}, "a removed operator": {removed, "", "signed-out"},
			"an unknown cookie": {&http.Cookie{Name: "__Host-sd_ops", Value: strings.Repeat("A", 43)}, "", "signed-out"},
		} {
			if reply := call(op, c.cookie, c.token); reply.Status != http.StatusUnauthorized || reply.Code() != c.want {
				t.Errorf("%s as %s: %d %s", op.ID, what, reply.Status, reply.Body)
			}
		}
	}
	t.Logf("%d cases: %d operations, %d roles and 4 callers without one", cases, len(n.App.Admin().Operations()), len(operator.Roles()))
}

// A request with a customer's browser session is refused by the admin API, and an operator's by the public API.
func TestSessionsOfOneListenerAreUnknownOnTheOther(t *testing.T) {
	t.Parallel()
	n, database := withOperators(t)
	member := n.Join(t, n.NewOrg(t, nil).ID, "owner@acme.test", "owner")
	for _, name := range []string{"__Host-sd_ops", "__Host-sd_session"} {
		r := browse(t, http.MethodGet, n.Internal+"/admin/v1/me", nil, nil, &http.Cookie{Name: name, Value: member.Cookie})
		if r.Status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
		r = browse(t, http.MethodGet, n.URL+"/v1/me", nil, nil, &http.Cookie{Name: name, Value: signInAs(t, database, "owner@stagedoor.test").Value})
		if r.Status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
	}
}
