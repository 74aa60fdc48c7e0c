package sdkjob

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/jobs/job"
)

// maxLanes is how many accounts of a bulk job are open at a time. The others wait until one has no items left.
const maxLanes = 1000

// bulkPoint is where a bulk job continues.
type bulkPoint struct {
	// Done has a bit for each item that is done.
	Done []byte `json:"done"`
	// Tries is how often the next item of an account was tried, by its index.
	Tries map[int]int `json:"tries,omitempty"`
}

func (p *bulkPoint) has(i int) bool { return p.Done[i/8]&(1<<(i%8)) != 0 }

// bulkLine is a line of the result.
type bulkLine struct {
	Index     int             `json:"index"`
	AccountID id.Account      `json:"accountId"`
	Result    json.RawMessage `json:"result,omitempty"`
	Problem   json.RawMessage `json:"problem,omitempty"`
}

// bulk is the run of a bulk job.
type bulk struct {
	run   *job.Run
	items []storedItem
	point bulkPoint
	// open are the items of each account that are not done, in order; accounts are in the order of their first item.
	open     map[id.Account][]int
	accounts []id.Account
	done     int
}

func (k *Kinds) runBulk(ctx context.Context, r *job.Run) error {
	b := bulk{run: r, open: map[id.Account][]int{}}
	w := walk{kinds: k, run: r, lanes: maxLanes, open: b.nextLane, close: b.closeLane, checkpoint: func() any { return b.point }}
	if err := json.Unmarshal(r.Params, &w.params); err != nil {
		return fmt.Errorf("read the parameters of job %s: %w", r.ID, err)
	}
	if err := b.load(ctx); err != nil {
		return err
	}
	if err := w.all(ctx); err != nil {
		return err
	}
	r.Progress.AccountsDone = r.Progress.AccountsTotal
	return nil
}

// load reads the items and where the last run has stopped.
func (b *bulk) load(ctx context.Context) error {
	text, err := b.run.Input(ctx)
	if err != nil {
		return err
	}
	read := json.NewDecoder(bytes.NewReader(text))
	for read.More() {
		var one storedItem
		if err := read.Decode(&one); err != nil {
			return fmt.Errorf("read the items of job %s: %w", b.run.ID, err)
		}
		b.items = append(b.items, one)
	}
	b.point = bulkPoint{Done: make([]byte, (len(b.items)+7)/8)}
	if err := b.run.Checkpoint(&b.point); err != nil {
		return err
	}
	if b.point.Tries == nil {
		b.point.Tries = map[int]int{}
	}
	all := map[id.Account]bool{}
	for i, one := range b.items {
		all[one.Account] = true
		if b.point.has(i) {
			b.done++
			continue
		}
		if b.open[one.Account] == nil {
			b.accounts = append(b.accounts, one.Account)
		}
		b.open[one.Account] = append(b.open[one.Account], i)
	}
	b.run.Progress.AccountsTotal = int64(len(all))
	b.run.Progress.AccountsDone = int64(len(all) - len(b.accounts))
	return nil
}

// nextLane returns the lane of the next account.
func (b *bulk) nextLane() *lane {
	if len(b.accounts) == 0 {
		return nil
	}
	at := b.accounts[0]
	b.accounts = b.accounts[1:]
	items := b.open[at]
	l := &lane{account: at, tries: b.point.Tries[items[0]]}
	l.next = func() (json.RawMessage, string, bool) {
		if len(items) == 0 {
			return nil, "", false
		}
		b.point.Tries[items[0]] = l.tries
		if l.tries == 0 {
			delete(b.point.Tries, items[0])
		}
		return b.items[items[0]].Args, onceKey(b.run.ID, items[0]), true
	}
	l.end = func(o outcome) error {
		i := items[0]
		items = items[1:]
		delete(b.point.Tries, i)
		b.point.Done[i/8] |= 1 << (i % 8)
		b.done++
		p := &b.run.Progress
		p.Percent = max(p.Percent, 100*b.done/len(b.items))
		if o.failed != nil {
			p.Failed++
		}
		return write(b.run, at, o.gone, bulkLine{Index: i, AccountID: at, Result: o.result, Problem: o.failed})
	}
	return l
}

func (b *bulk) closeLane(*lane) { b.run.Progress.AccountsDone++ }
