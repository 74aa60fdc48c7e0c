package accesslog_test

import (
	"net/http"
	"testing"

	"github.com/stagedoor/stagedoor/internal/server/accesslog"
)

// discard is a response that no client reads. Unlike httptest.ResponseRecorder it accepts a status after a 1xx.
type discard struct{}

func (discard) Header() http.Header { return nil }

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func (discard) WriteHeader(int) {}

func TestRecorderSkipsInformationalStatus(t *testing.T) {
	t.Parallel()
	rec := &accesslog.Recorder{ResponseWriter: discard{}}
	rec.WriteHeader(http.StatusEarlyHints)
	if rec.Status != 0 {
		t.Errorf("the status is %d before the final header", rec.Status)
	}
	rec.WriteHeader(http.StatusNotFound)
	if _, err := rec.Write([]byte("four")); err != nil {
		t.Fatal(err)
	}
	if rec.Status != http.StatusNotFound || rec.Bytes != 4 {
		t.Errorf("recorded %d with %d bytes", rec.Status, rec.Bytes)
	}
}
