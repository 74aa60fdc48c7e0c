package endpoint_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

func deprecated(since, sunset time.Time) endpoint.Operation {
	return endpoint.Operation{
		ID: "old", Method: http.MethodGet, Path: "/old", Tag: "T", Summary: "S", Status: http.StatusOK,
		Deprecated: &endpoint.Deprecation{Since: since, Sunset: sunset, Instead: "Use `new`."},
	}
}

// One declaration puts the end of an operation into the document and into every response, also into refusals.
func TestDeprecatedOperationsAnnounceTheirEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	since := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	endpoint.Plain(f.Table, deprecated(since, since.AddDate(1, 0, 0)), func(w http.ResponseWriter, _ *http.Request) error {
		_, err := w.Write([]byte("{}"))
		return err
	})
	for _, authorization := range []string{"Bearer x", ""} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/old", nil)
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		if w.Header().Get("Deprecation") != "@1798761600" || w.Header().Get("Sunset") != "Sat, 01 Jan 2028 00:00:00 GMT" {
			t.Errorf("with %q: %d %v", authorization, w.Code, w.Header())
		}
	}
	text, err := f.OpenAPI()
	must.OK(t, err)
	var doc struct {
		Paths map[string]map[string]struct {
			Deprecated  bool
			Description string
			Sunset      string `json:"x-sunset"`
		}
	}
	must.OK(t, json.Unmarshal(text, &doc))
	if op := doc.Paths["/old"]["get"]; !op.Deprecated || op.Sunset != "2028-01-01" || !strings.Contains(op.Description, "Use `new`.") {
		t.Errorf("%+v", op)
	}
}

// An operation cannot end sooner than the policy promises.
func TestOperationsEndAfterTwelveMonths(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	defer func() {
		if recover() == nil {
			t.Error("an operation that ends after 11 months was added")
		}
	}()
	since := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	endpoint.Plain(f.Table, deprecated(since, since.AddDate(0, 11, 0)), nil)
}
