package sdkjob

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/jobs/job"
)

// exportLanes is how many accounts of an export are read at a time.
const exportLanes = 4

// exportPoint is where an export continues.
type exportPoint struct {
	// Next is the number of the first account that was not begun.
	Next int `json:"next"`
	// Open are the accounts that were begun and are not done.
	Open []*openAccount `json:"open,omitempty"`
}

// openAccount is an account that was begun.
type openAccount struct {
	Account id.Account `json:"account"`
	// Cursor is that of the next page; empty for the first.
	Cursor string `json:"cursor,omitempty"`
	Tries  int    `json:"tries,omitempty"`
}

// exportLine is a line of the result: an item, or why the account has no further ones.
type exportLine struct {
	AccountID id.Account      `json:"accountId"`
	Item      json.RawMessage `json:"item,omitempty"`
	Problem   json.RawMessage `json:"problem,omitempty"`
}

// export is the run of an export.
type export struct {
	kinds    *Kinds
	run      *job.Run
	args     map[string]json.RawMessage
	accounts []id.Account
	point    exportPoint
	// resumed are the accounts that an earlier run has begun.
	resumed []*openAccount
}

func (k *Kinds) runExport(ctx context.Context, r *job.Run) error {
	e := export{kinds: k, run: r}
	w := walk{kinds: k, run: r, lanes: exportLanes, open: e.nextLane, close: func(*lane) {}, checkpoint: func() any { return e.point }}
	if err := json.Unmarshal(r.Params, &w.params); err != nil {
		return fmt.Errorf("read the parameters of job %s: %w", r.ID, err)
	}
	if err := json.Unmarshal(w.params.Args, &e.args); err != nil {
		return fmt.Errorf("read the arguments of job %s: %w", r.ID, err)
	}
	text, err := r.Input(ctx)
	if err != nil {
		return err
	}
	for line := range bytes.FieldsSeq(text) {
		e.accounts = append(e.accounts, id.Account(line))
	}
	if err := r.Checkpoint(&e.point); err != nil {
		return err
	}
	e.resumed = append(e.resumed, e.point.Open...)
	r.Progress.AccountsTotal = int64(len(e.accounts))
	return w.all(ctx)
}

// nextLane returns the lane of an account that was begun, or of the next one.
func (e *export) nextLane() *lane {
	var at *openAccount
	switch {
	case len(e.resumed) > 0:
		at = e.resumed[0]
		e.resumed = e.resumed[1:]
	case e.point.Next < len(e.accounts):
		at = &openAccount{Account: e.accounts[e.point.Next]}
		e.point.Next++
		e.point.Open = append(e.point.Open, at)
	default:
		return nil
	}
	l, over := &lane{account: at.Account, tries: at.Tries}, false
	l.next = func() (json.RawMessage, string, bool) {
		at.Tries = l.tries
		return e.page(at.Cursor), "", !over
	}
	l.end = func(o outcome) error {
		next, err := e.writePage(at, o)
		if over = next == ""; over {
			e.finish(at)
		}
		at.Cursor = next
		return err
	}
	return l
}

// page returns the arguments of a page.
func (e *export) page(cursor string) json.RawMessage {
	if cursor != "" {
		text, err := json.Marshal(cursor)
		if err != nil {
			panic(err) // a string can be encoded
		}
		e.args["cursor"] = text
		defer delete(e.args, "cursor")
	}
	text, err := json.Marshal(e.args)
	if err != nil {
		panic(err) // it was decoded before
	}
	return text
}

// finish notes that an account is done.
func (e *export) finish(at *openAccount) {
	kept := e.point.Open[:0:0]
	for _, one := range e.point.Open {
		if one != at {
			kept = append(kept, one)
		}
	}
	e.point.Open = kept
	p := &e.run.Progress
	p.AccountsDone++
	p.Percent = max(p.Percent, int(100*p.AccountsDone/p.AccountsTotal))
}

// page is a page of a result.
type page struct {
	Items      []json.RawMessage `json:"items"`
	NextCursor string            `json:"nextCursor"`
}

// errSameCursor means that a page names itself as the next one.
var errSameCursor = errors.New("a page is followed by itself")

// writePage writes what a call has returned, and returns the cursor of the next page; empty if there is none.
func (e *export) writePage(at *openAccount, o outcome) (next string, err error) {
	if o.failed != nil {
		e.run.Progress.Failed++
		return "", write(e.run, at.Account, o.gone, exportLine{AccountID: at.Account, Problem: o.failed})
	}
	var p page
	if err := json.Unmarshal(o.result, &p); err != nil || p.Items == nil {
		return "", write(e.run, at.Account, false, exportLine{AccountID: at.Account, Item: o.result}) // not a list
	}
	for _, item := range p.Items {
		if err := write(e.run, at.Account, false, exportLine{AccountID: at.Account, Item: item}); err != nil {
			return "", err
		}
	}
	if p.NextCursor != "" && p.NextCursor == at.Cursor {
		return e.writePage(at, e.kinds.fail(problem.UpstreamInvalidResponse.New("The platform returned a page that is followed by itself.").Because(errSameCursor)))
	}
	return p.NextCursor, nil
}
