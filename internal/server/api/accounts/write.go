package accounts

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/server/csvexport"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
)

// batchSize is the number of accounts whose details are loaded with one query.
const batchSize = 200

// listWriter writes a list in one format.
type listWriter interface {
	add(one *Listed) error
	end(next *string, counts map[string]int) error
}

// pager collects accounts in batches, adds the requested details and writes them.
type pager struct {
	*accounts
	org    id.Org
	out    listWriter
	most   int
	order  account.Order
	calls  bool
	counts map[account.State]int

	batch []account.Account
	count int
	last  account.PageKey
	more  bool
}

func (p *pager) add(ctx context.Context, one account.Account) error {
	if p.most > 0 && p.count == p.most {
		p.more = true
		return nil
	}
	p.count++
	p.last = one.PageKey()
	if p.batch = append(p.batch, one); len(p.batch) < batchSize {
		return nil
	}
	return p.flush(ctx)
}

func (p *pager) flush(ctx context.Context) error {
	if len(p.batch) == 0 {
		return nil
	}
	ids := make([]id.Account, len(p.batch))
	for i := range p.batch {
		ids[i] = p.batch[i].ID
	}
	states, err := p.Webhooks.States(ctx, p.org, ids)
	if err != nil {
		return err
	}
	var hours map[id.Account][]int64
	if p.calls {
		if hours, err = p.Usage.Activity(ctx, p.org, ids); err != nil {
			return err
		}
	}
	for i := range p.batch {
		one := Listed{Account: p.batch[i].View()}
		if state, ok := states[p.batch[i].ID]; ok {
			one.Webhook = &accountWebhook{State: state}
		}
		if p.calls {
			one.count(hours[p.batch[i].ID])
		}
		if err := p.out.add(&one); err != nil {
			return err
		}
	}
	p.batch = p.batch[:0]
	return nil
}

func (l *Listed) count(hours []int64) {
	var sum int64
	for _, n := range hours {
		sum += n
	}
	if hours == nil {
		hours = make([]int64, usage.ActivityHours)
	}
	l.Calls24h, l.Activity = &sum, hours
}

func (p *pager) end(ctx context.Context) error {
	if err := p.flush(ctx); err != nil {
		return err
	}
	var next *string
	if p.more {
		text := cursor(p.last, p.order)
		next = &text
	}
	var counts map[string]int
	if p.counts != nil {
		counts = map[string]int{"total": 0, needAttention: 0}
		for state, n := range p.counts {
			counts[string(state)] = n
			counts["total"] += n
			if slices.Contains(account.NeedAttention(), state) {
				counts[needAttention] += n
			}
		}
	}
	return p.out.end(next, counts)
}

// document writes a list as JSON. Its buffer is sent when it is full, so that an earlier failure can still become a
// problem.
type document struct {
	w       http.ResponseWriter
	buffer  *bufio.Writer
	encoder *json.Encoder
	started bool
}

const listBuffer = 32 << 10

func newDocument(w http.ResponseWriter) *document {
	d := &document{w: w, buffer: bufio.NewWriterSize(w, listBuffer)}
	d.encoder = json.NewEncoder(d.buffer)
	d.encoder.SetEscapeHTML(false)
	return d
}

func (d *document) add(one *Listed) error {
	lead := ","
	if !d.started {
		d.started = true
		d.w.Header().Set("Content-Type", "application/json")
		lead = `{"accounts":[`
	}
	if _, err := d.buffer.WriteString(lead); err != nil {
		return err
	}
	return d.encoder.Encode(one)
}

func (d *document) end(next *string, counts map[string]int) error {
	tail := struct {
		NextCursor *string        `json:"nextCursor" doc:"Send it as cursor to get the next page; null on the last page."`
		Counts     map[string]int `json:"counts,omitempty" doc:"The number of accounts by state."`
	}{next, counts}
	text, err := json.Marshal(tail)
	if err != nil {
		return err
	}
	lead := "],"
	if !d.started {
		d.w.Header().Set("Content-Type", "application/json")
		lead = `{"accounts":[],`
	}
	// A failed write means that the caller disconnected.
	_, _ = d.buffer.WriteString(lead + strings.TrimPrefix(string(text), "{") + "\n")
	_ = d.buffer.Flush()
	return nil
}

// table writes a list as CSV.
type table struct{ *csvexport.Writer }

func newSheet(w http.ResponseWriter) table {
	return table{csvexport.New(w, "accounts", "id", "label", "state", "stateReason", "stateChangedAt", "username", "displayName", "ofUserId", "proxyCountry", "referenceId",
		"webhook", "calls24h", "rememberCredentials", "createdAt", "lastSeenAt", "sessionExpiresAt")}
}

func (t table) add(one *Listed) error {
	webhook := "none"
	if one.Webhook != nil {
		webhook = one.Webhook.State
	}
	return t.Row(one.ID, one.Label, one.State, csvexport.Text(one.StateReason), csvexport.Time(&one.StateChangedAt), one.Username, one.DisplayName, one.OfUserID,
		one.ProxyCountry, csvexport.Text(one.ReferenceID), webhook, strconv.FormatInt(*one.Calls24h, 10), strconv.FormatBool(one.RememberCredentials),
		csvexport.Time(&one.CreatedAt), csvexport.Time(one.LastSeenAt), csvexport.Time(one.SessionExpiresAt))
}

func (t table) end(*string, map[string]int) error { return t.End() }
