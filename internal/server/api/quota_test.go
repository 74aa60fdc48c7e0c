package api_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// safeOperations are those that must work when an org has used its quotas up: they stop something, finish a sign-in, or only look.
var safeOperations = []string{
	"revokeKey", "submitAttempt", "cancelAttempt", "disconnectAccount", "pauseAccount", "deleteWebhook", "pauseWebhook", "endBrowserSession",
	"getAttempt", "getUsage",
}

// Quotas never block safety: for an org whose minute or month is used up, every operation of the quotas Safety and Free answers as it would
// otherwise, and every other one is refused.
func TestUsedUpQuotasBlockEverythingButSafety(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, withSandbox(t))[0]
	for reason, limits := range map[string]map[string]int{
		"org_rpm":     {"callsPerMinute": 1, "callsPerMonth": -1, "connectAttemptsPerHour": -1},
		"org_monthly": {"callsPerMinute": -1, "callsPerMonth": 1, "connectAttemptsPerHour": -1},
	} {
		owner := node.NewOrg(t, limits)
		spend := func() {
			for range 3 {
				node.Call(t, http.MethodGet, "/v1/me", owner.Key, nil)
			}
		}
		seen := map[string]bool{}
		for _, op := range node.App.API().Operations() {
			if op.Public {
				continue
			}
			path := op.Path
			if len(endpoint.Parameters(path)) > 0 {
				path = fill(op, unknownID(t, op))
			}
			if op.ID == "listEventDeliveries" {
				path += "?event=evt_01k9x5ahzre4bb3069xb2way0g" // without an event it is refused before admission
			}
			spend() // what has drained meanwhile
			r := ask(t, node, op, path, owner.Key)
			free := op.Quota == admission.Safety || op.Quota == admission.Free
			seen[op.ID] = free
			switch refused := r.Status == http.StatusTooManyRequests; {
			case free && refused:
				t.Errorf("%s: %s is refused: %s", reason, op.ID, r.Body)
			case !free && !refused && beforeAdmission(op, r):
			case !free && (!refused || r.JSON()["reason"] != reason):
				t.Errorf("%s: %s is not refused for it: %d %s", reason, op.ID, r.Status, r.Body)
			}
		}
		for _, one := range safeOperations {
			if !seen[one] {
				t.Errorf("%s is not exempt from quotas", one)
			}
		}
	}
}

// beforeAdmission says that an operation was answered without being admitted: it judges each request first, and an account that does not
// exist has no methods.
func beforeAdmission(op endpoint.Operation, r testnode.Reply) bool {
	return slices.Contains([]string{"callMethod", "readMethod", "uploadMedia", "uploadMediaPart"}, op.ID) && r.Status >= http.StatusBadRequest && r.Status < http.StatusInternalServerError
}

// Safety calls share one limit of 60 a minute per org over all nodes, and the answers say so.
func TestSafetyCallsShareALimitOverAllNodes(t *testing.T) {
	t.Parallel()
	nodes := testnode.Nodes(t, 2, testnode.Setup{})
	owner := nodes[0].NewOrg(t, map[string]int{"callsPerMinute": 5})
	var last testnode.Reply
	for i := range 400 { // it drains one a second, and a busy machine may take a while for 60
		last = nodes[i%2].Call(t, http.MethodDelete, "/v1/me/keys/key_00000000000000000000000000", owner.Key, nil)
		if last.Status == http.StatusTooManyRequests {
			break
		}
		if last.Status != http.StatusNotFound {
			t.Fatalf("call %d: %d %s", i+1, last.Status, last.Body)
		}
		if i == 0 && last.Header.Get("RateLimit-Policy") != `"org_rpm";q=5;w=60, "org_monthly";q=200000000, "safety_rpm";q=60;w=60` {
			t.Errorf("policy %q", last.Header.Get("RateLimit-Policy"))
		}
	}
	if body := last.JSON(); last.Code() != "quota-exceeded" || body["reason"] != "safety_rpm" || body["limit"] != 60.0 || body["retryAfterSec"] != 1.0 {
		t.Errorf("%d %s", last.Status, last.Body)
	}
	if r := nodes[0].Call(t, http.MethodGet, "/v1/accounts", owner.Key, nil); r.Status != http.StatusOK {
		t.Errorf("safety calls used the minute up: %d %s", r.Status, r.Body)
	}
}
