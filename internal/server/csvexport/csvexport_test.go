package csvexport_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stagedoor/stagedoor/internal/server/csvexport"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// An export has a header row and quotes where needed, and no cell is a formula.
func TestCellsAreHarmless(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	s := csvexport.New(w, "things", "a", "b", "c")
	for _, row := range [][]string{{"=1+1", "+cmd", "-5.5"}, {"@x", "a,\"b\"\nc", "\t=x"}, {"", "-", "Löwe"}} {
		must.OK(t, s.Row(row...))
	}
	must.OK(t, s.End())
	want := "a,b,c\n'=1+1,'+cmd,-5.5\n'@x,\"a,\"\"b\"\"\nc\",'\t=x\n,'-,Löwe\n"
	if got := w.Body.String(); got != want {
		t.Errorf("%q", got)
	}
	if h := w.Header(); h.Get("Content-Disposition") != `attachment; filename="things.csv"` {
		t.Error(h)
	}
}

func TestEmptyExportsHaveAHeaderRow(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	if err := csvexport.New(w, "things", "a", "b").End(); err != nil || w.Body.String() != "a,b\n" {
		t.Errorf("%q %v", w.Body, err)
	}
}

// CSV is sent only to callers that name it before JSON.
func TestRequested(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "text/csv": true, "TEXT/CSV; header=present": true, "application/json": false, "application/json, text/csv": false,
		"text/csv, application/json": true, "text/html,text/csv;q=0.9": true, "text/csvx": false,
	} {
		if got := csvexport.Requested(http.Header{"Accept": {accept}}); got != want {
			t.Errorf("%q: %v", accept, got)
		}
	}
}
