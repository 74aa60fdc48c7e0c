package events

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/delivery/stream"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
)

func (e *events) pull(w http.ResponseWriter, r *http.Request, want stream.Want, in *Query) error {
	if err := checkCursor(in.After, want.Account, "query/after"); err != nil {
		return err
	}
	want.After = in.After
	var (
		page stream.Page
		err  error
	)
	if in.searches() {
		var s stream.Search
		if s, err = e.period(in); err == nil {
			page, err = e.Streams.Search(r.Context(), want, s, in.Limit)
		}
	} else {
		page, err = e.Streams.Pull(r.Context(), want, in.Limit)
	}
	if err != nil {
		return err
	}
	if len(page.Events) == 0 && in.Wait > 0 && !in.searches() {
		if page, err = e.wait(w, r, want, page, in); err != nil {
			return err
		}
	}
	if err := e.Permit(r.Context(), want.Org); err != nil { // The org may have been suspended while the call waited.
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err = w.Write(appendPage(nil, page, scannedIf(in.searches(), page.Scanned))); err == nil {
		e.Meter.Streamed(want.Org, int64(len(page.Events)))
	}
	return err
}

// wait holds the response until there is an event after an empty page.
func (e *events) wait(w http.ResponseWriter, r *http.Request, want stream.Want, empty stream.Page, in *Query) (stream.Page, error) {
	atMost := time.Duration(in.Wait) * time.Second
	done, err := endpoint.Hold(w, r, atMost)
	if err != nil {
		return stream.Page{}, err
	}
	defer done()
	want.After = empty.Next
	if err := e.Streams.Await(r.Context(), want, atMost, func() bool { return endpoint.Draining(r.Context()) }); err != nil {
		return stream.Page{}, err
	}
	page, err := e.Streams.Pull(r.Context(), want, in.Limit)
	page.Gap = page.Gap || empty.Gap
	return page, err
}

// appendPage appends a page. The events are already encoded.
func appendPage(to []byte, page stream.Page, scanned string) []byte {
	to = append(to, `{"events":[`...)
	for i, one := range page.Events {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(to, one.Body...)
	}
	to = append(to, `],"nextCursor":"`...)
	to = append(to, page.Next...) // It has only digits, dots and ids.
	to = append(to, `","gap":`...)
	gap, _ := json.Marshal(page.Gap)
	return append(append(append(to, gap...), scanned...), '}', '\n')
}
