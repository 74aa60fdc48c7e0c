// Package transfer carries files between callers and platforms, through the account's egress, as they come: only the 32 KiB of a file that
// are on their way are held. A slow side slows the other one down, which is TCP's doing, and is cut off when it stands still. The one
// exception is a form that does not tell its file's size first: the file is kept on disk, encrypted, until its end has come (spool.go).
//
// Download and Fetch bring files (download.go), Upload and Part take them (upload.go). Where files are and which methods hand out their
// addresses is the manifest's to say (package catalog); the requests themselves are package upstream's.
package transfer

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// accounts opens an account's session for a call that was admitted; *account.Accounts does.
type accounts interface {
	Ready(ctx context.Context, org id.Org, account id.Account, d admission.Decision) (account.Account, driver.Session, error)
}

// files is where a platform's files are; *driver.Files is one.
type files interface {
	Fetch(ctx context.Context, via driver.Via, s driver.Session, req driver.FileRequest) (*driver.File, error)
	Put(ctx context.Context, via driver.Via, s driver.Session, part driver.PartRequest) (etag string, err error)
}

// meter counts what passes through a region, in bytes; *usage.Usage does.
type meter interface {
	Carried(org id.Org, region string, sent, received int64)
}

// Platform is where the files of an environment are.
type Platform struct {
	Catalog *catalog.Catalog
	Files   files
}

// Config are the settings. Zero values are good ones.
type Config struct {
	// PerNode and PerAccount bound the transfers that this node has under way; 256 and 8.
	PerNode, PerAccount int
	// Patience is how long the caller may take to give or take the next 32 KiB; 30 s.
	Patience time.Duration
	// SpoolBytes bounds the files that are kept on disk to learn their size, all together; 2 GiB. They lie in the folder for temporary
	// files.
	SpoolBytes int64
}

// Deps is what the flow needs.
type Deps struct {
	Config Config
	// Platforms are by the org's environment; one that is missing has no files.
	Platforms map[org.Environment]Platform
	Accounts  accounts
	// Call calls a method on an account, as the passthrough does: with its session, its retries and its rotations. Its errors are problems,
	// and no one else's: members are added to them.
	Call  func(ctx context.Context, org id.Org, account id.Account, d admission.Decision, m *catalog.Method, args catalog.Args) (result []byte, err error)
	Meter meter
	// Switches say whether uploads are taken; nil for always.
	Switches *switches.Control
	Now      func() time.Time
}

// Transfers is the flow.
type Transfers struct {
	Deps
	buffers sync.Pool
	gauge   prometheus.Gauge
	spool   spool

	mu        sync.Mutex
	underWay  int
	byAccount map[id.Account]int
}

const (
	// chunk is what a transfer holds of a file.
	chunk      = 32 << 10
	perNode    = 256
	perAccount = 8
	patience   = 30 * time.Second
	spoolBytes = 2 << 30
)

// New makes the flow.
func New(d Deps) *Transfers {
	d.Config.PerNode = cmp.Or(d.Config.PerNode, perNode)
	d.Config.PerAccount = cmp.Or(d.Config.PerAccount, perAccount)
	d.Config.Patience = cmp.Or(d.Config.Patience, patience)
	d.Config.SpoolBytes = cmp.Or(d.Config.SpoolBytes, spoolBytes)
	return &Transfers{
		Deps: d, byAccount: map[id.Account]int{}, spool: spool{limit: d.Config.SpoolBytes},
		buffers: sync.Pool{New: func() any { return new([chunk]byte) }},
		gauge:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "stagedoor_transfers", Help: "Files that are on their way through this node."}),
	}
}

// Collectors are to be registered.
func (t *Transfers) Collectors() []prometheus.Collector { return []prometheus.Collector{t.gauge} }

// Caller is who asks, for which account, and what they may do.
type Caller struct {
	Org         id.Org
	Environment org.Environment
	Account     id.Account
	Admission   admission.Decision
	// May says whether the key may call a method.
	May func(resource, method string, sensitive bool) bool
	// MaxBytes bounds an upload; org.Unlimited for no bound.
	MaxBytes int
}

// passage is a transfer that may go ahead.
type passage struct {
	transfers *Transfers
	caller    Caller
	platform  Platform
	via       driver.Via
	session   driver.Session
}

// enter lets a transfer pass or says why not. methods picks those that the key must be allowed to call, nil if the platform lacks
// them. leave must be called at its end.
func (t *Transfers) enter(ctx context.Context, c Caller, methods func(*catalog.Files) []*catalog.Method) (p *passage, leave func(), err error) {
	platform, ok := t.Platforms[c.Environment]
	var needed []*catalog.Method
	if ok && platform.Catalog.Files != nil {
		needed = methods(platform.Catalog.Files)
	}
	if slices.ContainsFunc(needed, func(m *catalog.Method) bool { return m.Access == catalog.Write }) {
		if err := t.Switches.Refuse(switches.Writes); err != nil {
			return nil, nil, err
		}
	}
	for _, m := range needed {
		if !c.May(m.Resource, m.Name, m.Sensitive) {
			return nil, nil, problem.MethodNotAllowedForKey.Newf("This takes the method %s, which this key may not call.", m.ID()).With("method", m.ID())
		}
	}
	if leave, err = t.reserve(c.Account); err != nil {
		return nil, nil, err
	}
	a, session, err := t.Accounts.Ready(ctx, c.Org, c.Account, c.Admission)
	if err == nil && needed == nil {
		err = problem.UpstreamNotFound.New("The account's platform has no files that can be moved like this.")
	}
	if err != nil {
		leave()
		return nil, nil, err
	}
	return &passage{transfers: t, caller: c, platform: platform, via: a.Via(), session: session}, leave, nil
}

// retryAfter is what a caller waits for a place, in seconds.
const retryAfter = 2

// reserve takes a place among the transfers under way.
func (t *Transfers) reserve(at id.Account) (leave func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.byAccount[at] >= t.Config.PerAccount:
		return nil, problem.QuotaExceeded.Newf("The account has %d transfers under way, as many as it may. Wait until one has ended.", t.byAccount[at]).
			After(retryAfter).With("reason", "account_transfers").With("limit", t.Config.PerAccount).With("current", t.byAccount[at])
	case t.underWay >= t.Config.PerNode:
		return nil, problem.ServiceUnavailable.New("This server has as many transfers under way as it can take.").After(retryAfter)
	}
	t.underWay++
	t.byAccount[at]++
	t.gauge.Set(float64(t.underWay))
	return func() { t.release(at) }, nil
}

func (t *Transfers) release(at id.Account) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.underWay--
	t.gauge.Set(float64(t.underWay))
	if t.byAccount[at]--; t.byAccount[at] == 0 {
		delete(t.byAccount, at)
	}
}

// call calls a method on the account.
func (p *passage) call(ctx context.Context, m *catalog.Method, args catalog.Args) ([]byte, error) {
	return p.transfers.Call(ctx, p.caller.Org, p.caller.Account, p.caller.Admission, m, args)
}

// inPath points at arguments where the caller wrote them: in the path, whatever the method calls them.
func inPath(err error, names map[string]string) error {
	if p, ok := errors.AsType[*problem.Error](err); ok {
		for i, f := range p.Fields {
			if name, ok := names[strings.TrimPrefix(f.Pointer, "query/")]; ok {
				p.Fields[i].Pointer = "path/" + name
			}
		}
	}
	return err
}

// changed is the problem when the platform's own answer does not lead to a file.
func changed(err error) error {
	if errors.Is(err, catalog.ErrChanged) || errors.Is(err, driver.ErrAddress) {
		return problem.UpstreamChanged.New("The platform's interface has changed; we have been told.").Because(err)
	}
	return err
}

// line is the connection to the caller, whose limits move on with the transfer.
type line struct {
	header  http.Header
	control *http.ResponseController
	now     func() time.Time
	each    time.Duration
}

func (t *Transfers) line(w http.ResponseWriter) *line {
	return &line{header: w.Header(), control: http.NewResponseController(w), now: t.Now, each: t.Config.Patience}
}

// A writer without a connection has no limits to move, so errors of the three below mean nothing.

// listen lifts the limit of reading: while nothing is read from the caller it would only make it look gone.
func (l *line) listen() { _ = l.control.SetReadDeadline(time.Time{}) }

// expectRead gives the caller its time to send the next piece, expectWrite to take one.
func (l *line) expectRead()  { _ = l.control.SetReadDeadline(l.now().Add(l.each)) }
func (l *line) expectWrite() { _ = l.control.SetWriteDeadline(l.now().Add(l.each)) }

// interrupt ends a read that is waiting for the caller. The connection cannot be used again: the server takes the failed read for the
// caller's going away, and would cancel every later request on it.
func (l *line) interrupt() {
	l.header.Set("Connection", "close")
	_ = l.control.SetReadDeadline(time.Unix(1, 0))
}
