package egress_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// The direct client does not follow redirects, does not use plain http to other machines, and bounds responses.
func TestDirect(t *testing.T) {
	t.Parallel()
	elsewhere := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere = true }))
	defer other.Close()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/endless":
			_, _ = io.CopyN(w, strings.NewReader(strings.Repeat("x", 4<<20)), 4<<20)
		}
	}))
	defer service.Close()
	client := egress.NewDirect(false)
	defer client.CloseIdleConnections()
	res, err := client.Post(service.URL+"/moved", "text/plain", strings.NewReader("secret"))
	if err != nil || res.StatusCode != http.StatusTemporaryRedirect || elsewhere {
		t.Errorf("%v %v, followed %v", res, err, elsewhere)
	}
	_ = res.Body.Close()
	res, err = client.Get(service.URL + "/endless")
	must.OK(t, err)
	text, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if len(text) != 1<<20 {
		t.Errorf("read %d bytes", len(text))
	}
	res, err = client.Post("http://id.example.test/token", "text/plain", strings.NewReader("secret"))
	if err == nil {
		_ = res.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "plain http") {
		t.Errorf("plain http: %v", err)
	}
}
