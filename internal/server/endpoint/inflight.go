package endpoint

import (
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// Limits of one node. A request counts as working only when its body has arrived: until then it costs a connection and
// little else, and the caller decides how long that takes.
const (
	// maxWorking bounds the requests in progress, most of which wait for a platform (the door bounds the others). It is
	// above the limit of method calls, so that other requests find a place. One org may have at most half of them.
	maxWorking       = 5000
	maxWorkingPerOrg = maxWorking / 2
	// maxBodiesPerOrg bounds the bodies of an org that are still arriving. A normal body takes milliseconds.
	maxBodiesPerOrg = 200
	// maxBodiesPerSource bounds the bodies from one network, whatever their orgs. It is a multiple of the limit per
	// org, because all callers behind a proxy that is not trusted look like one network.
	maxBodiesPerSource = 5 * maxBodiesPerOrg
)

// A body times out if no byte arrives for bodyStall, or if it takes longer than bodyAtMost in total.
const (
	bodyStall  = 3 * time.Second
	bodyAtMost = 10 * time.Second
)

// inFlight counts the requests of a node by org and source. Its zero value is empty.
type inFlight struct {
	mu       sync.Mutex
	working  int
	byOrg    map[id.Org]orgInFlight
	bySource map[string]int
}

type orgInFlight struct{ bodies, working int }

// change adds to the counts of an org, and deletes an org without requests. The caller holds p.mu.
func (p *inFlight) change(org id.Org, bodies, working int) {
	now := p.byOrg[org]
	now.bodies += bodies
	now.working += working
	if now == (orgInFlight{}) {
		delete(p.byOrg, org)
		return
	}
	if p.byOrg == nil {
		p.byOrg = map[id.Org]orgInFlight{}
	}
	p.byOrg[org] = now
}

// startBody counts a body that is about to be read. If it succeeds, endBody must follow.
func (p *inFlight) startBody(org id.Org, source string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.byOrg[org].bodies >= maxBodiesPerOrg:
		return tooMany("org_bodies", "of this organisation", maxBodiesPerOrg)
	case p.bySource[source] >= maxBodiesPerSource:
		return tooMany("source_bodies", "from this network", maxBodiesPerSource)
	}
	p.change(org, 1, 0)
	if p.bySource == nil {
		p.bySource = map[string]int{}
	}
	p.bySource[source]++
	return nil
}

func (p *inFlight) endBody(org id.Org, source string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change(org, -1, 0)
	if p.bySource[source]--; p.bySource[source] == 0 {
		delete(p.bySource, source)
	}
}

// startWork counts a request as working. If it succeeds, endWork must follow.
func (p *inFlight) startWork(org id.Org) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.working >= maxWorking:
		return problem.ServiceUnavailable.New("This server has reached its limit of concurrent requests.").After(1)
	case org != "" && p.byOrg[org].working >= maxWorkingPerOrg:
		return problem.QuotaExceeded.Newf("The organisation has %d concurrent requests on this server.", maxWorkingPerOrg).After(1).
			With("reason", "org_concurrency").With("limit", maxWorkingPerOrg).With("current", maxWorkingPerOrg)
	}
	p.working++
	p.change(org, 0, 1)
	return nil
}

// resumeWork is startWork for a request that has waited outside and can no longer be refused.
func (p *inFlight) resumeWork(org id.Org) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.working++
	p.change(org, 0, 1)
}

func (p *inFlight) endWork(org id.Org) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.working--
	p.change(org, 0, -1)
}

// total returns the number of working requests.
func (p *inFlight) total() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.working
}

func tooMany(reason, whose string, most int) error {
	return problem.QuotaExceeded.Newf("%d request bodies %s are still arriving at this server. Send each body without pauses.", most, whose).
		After(int(bodyStall/time.Second)).With("reason", reason).With("limit", most).With("current", most)
}

// startWork counts the call as working until endWork.
func (t *Table) startWork(_ http.ResponseWriter, _ *http.Request, call *Call) error {
	if err := t.inFlight.startWork(call.org()); err != nil {
		return err
	}
	call.working = true
	return nil
}

// resumeWork counts a call as working again after it waited.
func (c *Call) resumeWork() {
	c.table.inFlight.resumeWork(c.org())
	c.working = true
}

// endWork ends the counting of a call, and frees its place at the door. It does nothing if the call is not counted.
func (c *Call) endWork() {
	c.goOut()
	if c.working {
		c.table.inFlight.endWork(c.org())
		c.working = false
	}
}

// org returns the caller's org; empty for operators and for public operations.
func (c *Call) org() id.Org {
	if p := c.Identity.Principal; p != nil {
		return p.Org.ID
	}
	return ""
}

// receiveBody reads the JSON body of a call, within the limits of time and of concurrently arriving bodies.
func (t *Table) receiveBody(w http.ResponseWriter, r *http.Request, call *Call) ([]byte, error) {
	org := call.org()
	if err := t.inFlight.startBody(org, call.Origin.Source); err != nil {
		t.limitRest(w)
		call.header.Set("Connection", "close") // Otherwise the server reads the body before it sends the response.
		return nil, err
	}
	defer t.inFlight.endBody(org, call.Origin.Source)
	r.Body = &steadyBody{ReadCloser: r.Body, control: http.NewResponseController(w), now: t.deps.Local, end: t.deps.Local().Add(bodyAtMost)}
	body, err := readJSON(w, r)
	switch {
	case err == nil:
		t.prolong(w, max(call.op.Timeout, typedTimeout)) // The time for the body does not count for the operation.
	case problem.Of(err).Kind.Code == problem.RequestTimeout.Code:
		call.header.Set("Connection", "close")
	}
	return body, err
}

// limitRest bounds how long the server waits for a body that will not be read.
func (t *Table) limitRest(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(t.deps.Local().Add(bodyStall)) // Fails only without a connection.
}

// steadyBody is a request body with a deadline for each read and one for all reads.
type steadyBody struct {
	io.ReadCloser
	control *http.ResponseController
	now     func() time.Time
	end     time.Time
}

// Read reads the next part of the body. It fails if none arrives within bodyStall.
func (b *steadyBody) Read(p []byte) (int, error) {
	until := b.now().Add(bodyStall)
	if until.After(b.end) {
		until = b.end
	}
	_ = b.control.SetReadDeadline(until) // A writer without a connection has no deadlines.
	return b.ReadCloser.Read(p)
}
