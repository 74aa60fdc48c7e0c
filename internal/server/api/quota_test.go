package api_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// safeOperations must work when an org has used up its quotas: they stop something, finish a sign-in, or only read
// state.
var safeOperations = []string{
	"revokeKey", "submitAttempt", "cancelAttempt", "disconnectAccount", "pauseAccount", "deleteWebhook", "pauseWebhook", "endBrowserSession", "cancelJob",
	"deleteOrg", "restoreOrg", "getAttempt", "getUsage",
}

// Quotas never block safety: if the minute or the month of an org is used up, every operation with the quota Safety or
// Free works as usual, and every other one is refused.
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
				path += "?event=evt_01k9x5ahzre4bb3069xb2way0g" // Without an event it is refused before admission.
			}
			spend() // Use up what has become available since.
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

// beforeAdmission reports whether a request was refused before admission, as operations with terms of their own do for
// an unknown account.
func beforeAdmission(op endpoint.Operation, r testnode.Reply) bool {
	return slices.Contains([]string{"callMethod", "readMethod", "uploadMedia", "uploadMediaPart"}, op.ID) && r.Status >= http.StatusBadRequest && r.Status < http.StatusInternalServerError
}

// Safety calls share one limit of 60 a minute per org across all nodes, and the headers show it.
func TestSafetyCallsShareALimitOverAllNodes(t *testing.T) {
	t.Parallel()
	nodes := testnode.Nodes(t, 2, testnode.Setup{})
	owner := nodes[0].NewOrg(t, map[string]int{"callsPerMinute": 5})
	var last testnode.Reply
	for i := range 400 { // The limit recovers by one a second, and a busy machine may be slow.
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
		t.Errorf("safety calls used up the minute: %d %s", r.Status, r.Body)
	}
}
