package ops_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/command/cli"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// Usage is exported by organisation and day, in the formats of billing systems. A repeated export has the same identifiers.
func TestUsageIsExportedForBilling(t *testing.T) {
	t.Parallel()
	database := testenv.DatabaseURL(t)
	node := testnode.Nodes(t, 1, testnode.Setup{Database: database})[0]
	first, second := node.NewOrg(t, nil).ID, node.NewOrg(t, nil).ID
	yesterday := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -1)
	day := yesterday.Format(time.DateOnly)
	conn, err := pgx.Connect(t.Context(), database.Reveal())
	must.OK(t, err)
	defer conn.Close(t.Context())
	for _, insert := range []string{
		`INSERT INTO usage_hour (org_id, hour, account_id, operation, access, outcome, calls) VALUES
			($1, $2, 'acct_1', 'messages.list', 'read', 'ok', 40), ($1, $2, 'acct_2', 'messages.list', 'read', 'failed', 2)`,
		`INSERT INTO usage_event (org_id, hour, received, streamed, delivered, failed) VALUES ($1, $2, 9, 8, 7, 6)`,
		`INSERT INTO usage_bytes (org_id, hour, region, sent, received) VALUES ($1, $2, 'us', 1000, 2000)`,
	} {
		_, err := conn.Exec(t.Context(), insert, first, yesterday)
		must.OK(t, err)
	}
	_, err = conn.Exec(t.Context(), `INSERT INTO usage_event (org_id, hour, received, streamed, delivered, failed) VALUES ($1, $2, 3, 0, 0, 0)`, second, yesterday)
	must.OK(t, err)

	dir := t.TempDir()
	token, customers := filepath.Join(dir, "token"), filepath.Join(dir, "customers.csv")
	must.OK(t, os.WriteFile(token, []byte(testnode.AdminToken), 0o600))
	must.OK(t, os.WriteFile(customers, []byte(first+", cus_1\n"), 0o600))
	environ := []string{"HOME=" + dir, "STAGEDOOR_OPS_URL=" + node.Internal, "STAGEDOOR_OPS_TOKEN_FILE=" + token}
	export := func(args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		code = cli.Main(t.Context(), append([]string{"ops", "usage", "--from", day}, args...), environ, strings.NewReader(""), &out, &errs)
		return code, out.String(), errs.String()
	}
	const figures = `"calls":42,"failedCalls":2,"rateLimitedCalls":0,"activeAccounts":2,"eventsReceived":9,"eventsStreamed":8,"eventsDelivered":7,` +
		`"failedDeliveries":6,"bytesSent":1000,"bytesReceived":2000}`
	row := `{"orgId":"` + first + `","plan":"scale","environment":"sandbox","day":"` + day + `",` + figures
	meter := func(name, value string) string {
		return `{"event_name":"` + name + `","identifier":"` + first + "/" + day + "/" + name + `","timestamp":"` + day + `T00:00:00Z","payload":{"stripe_customer_id":"cus_1","value":"` + value + `"}}` + "\n"
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "org,plan,environment,day,calls,failed_calls,rate_limited_calls,active_accounts,events_received,events_streamed,events_delivered,failed_deliveries,bytes_sent,bytes_received\n" +
			first + ",scale,sandbox," + day + ",42,2,0,2,9,8,7,6,1000,2000\n" + second + ",scale,sandbox," + day + ",0,0,0,0,3,0,0,0,0,0\n"},
		{[]string{"--org", first, "--json"}, row + "\n"},
		{[]string{"--org", first, "--format", "cloudevents"}, `{"specversion":"1.0","id":"` + first + "/" + day + `","source":"stagedoor","type":"stagedoor.usage.day","subject":"` + first +
			`","time":"` + day + `T00:00:00Z","datacontenttype":"application/json","data":` + row + "}\n"},
		{[]string{"--org", first, "--format", "stripe", "--customers", customers}, meter("stagedoor_calls", "42") + meter("stagedoor_active_accounts", "2") +
			meter("stagedoor_events_delivered", "7") + meter("stagedoor_bytes", "3000")},
	} {
		for range 2 {
			if code, stdout, stderr := export(c.args...); code != 0 || stdout != c.want {
				t.Errorf("%q: %d\n%s%s\nwant\n%s", c.args, code, stdout, stderr, c.want)
			}
		}
	}
	// second has no customer, so that nothing is printed.
	if code, stdout, stderr := export("--format", "stripe", "--customers", customers); code != core.ExitUsage || stdout != "" || !strings.Contains(stderr, second) {
		t.Errorf("without a customer: %d %s %s", code, stdout, stderr)
	}
	must.OK(t, os.WriteFile(customers, []byte(first+",\n"+second+",\n"), 0o600))
	if code, stdout, stderr := export("--format", "stripe", "--customers", customers); code != 0 || stdout != "" {
		t.Errorf("with customers that are skipped: %d %s %s", code, stdout, stderr)
	}
}
