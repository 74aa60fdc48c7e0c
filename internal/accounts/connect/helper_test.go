package connect_test

import (
	"bytes"
	"net/http"
)

// control calls the sandbox's control API.
func (r *fixture) control(path, body string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.platform.URL+path, bytes.NewReader([]byte(body)))
	must(r.t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	must(r.t, err)
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		r.t.Fatalf("%s: %d", path, res.StatusCode)
	}
}
