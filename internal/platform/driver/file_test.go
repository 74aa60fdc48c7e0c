package driver_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// filesAt returns a client for files in other folders than the sandbox's.
func (r *fixture) filesAt(at ...string) *driver.Files {
	r.t.Helper()
	c := *r.catalog
	own := *r.catalog.Files
	own.At = at
	c.Files = &own
	d, err := driver.New(driver.Deps{Catalog: &c, Egress: r.egress, Origin: r.platform.URL, Now: time.Now})
	must.OK(r.t, err)
	files, err := d.Files()
	must.OK(r.t, err)
	return files
}

// Files may be on other hosts. Their traffic leaves through the account's region only: if the region is down, nothing
// is sent.
func TestFilesLeaveThroughTheRegionOnly(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	var mu sync.Mutex
	from := map[string]int{}
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		source, _, _ := net.SplitHostPort(req.RemoteAddr)
		mu.Lock()
		from[source]++
		mu.Unlock()
		got, _ := io.ReadAll(req.Body)
		w.Header().Set("Etag", `"`+string(got)+`"`)
		_, _ = io.WriteString(w, "file")
	}))
	t.Cleanup(host.Close)
	files := r.filesAt(host.URL + "/public/")
	session := r.session(r.login("ok"))
	fetch := func(region, address string) (string, error) {
		f, err := files.Fetch(t.Context(), via(region), session, driver.FileRequest{Method: http.MethodGet, URL: address})
		if err != nil {
			return "", err
		}
		defer f.Body.Close()
		text, err := io.ReadAll(f.Body)
		return string(text), err
	}
	put := func(region string) (string, error) {
		return files.Put(t.Context(), via(region), session, driver.PartRequest{URL: host.URL + "/public/1", Body: strings.NewReader("part"), Size: 4})
	}
	for _, region := range []string{"us", "uk"} {
		if text, err := fetch(region, host.URL+"/public/1"); err != nil || text != "file" {
			t.Errorf("%s: %q, %v", region, text, err)
		}
		if tag, err := put(region); err != nil || tag != "part" {
			t.Errorf("%s: %q, %v", region, tag, err)
		}
	}
	counted := func(when string) {
		mu.Lock()
		defer mu.Unlock()
		if from["127.0.1.1"] != 2 || from["127.0.2.1"] != 2 || len(from) != 2 {
			t.Errorf("requests came from %v %s", from, when)
		}
	}
	counted("while both regions are up")
	for _, p := range r.us {
		p.Kill()
	}
	if _, err := fetch("us", host.URL+"/public/2"); !errors.Is(err, problem.EgressUnavailable.New("")) && !errors.Is(err, problem.UpstreamUnavailable.New("")) {
		t.Errorf("down through a dead region: %v", err)
	}
	if _, err := put("us"); !errors.Is(err, problem.EgressUnavailable.New("")) {
		t.Errorf("up through a dead region: %v", err)
	}
	counted("after one went down")
	for _, address := range []string{host.URL + "/private/1", r.platform.URL + "/media/1/full", host.URL, host.URL + "/public/../private"} {
		if _, err := fetch("uk", address); !errors.Is(err, driver.ErrAddress) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// Errors never contain the URL of a file, which may contain a signature.
func TestFileErrorsDoNotContainURLs(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	files := r.filesAt("/media/")
	session := r.session(r.login("ok"))
	for _, address := range []string{"http://[::1/media/?sig=SECRET", r.platform.URL + "/other/?sig=SECRET", r.platform.URL + "/media/1/none?sig=SECRET"} {
		_, err := files.Fetch(t.Context(), via("us"), session, driver.FileRequest{Method: http.MethodGet, URL: address})
		if err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%v", err)
		}
	}
	_, err := files.Put(t.Context(), via("us"), session, driver.PartRequest{URL: r.platform.URL + "/media/x?sig=SECRET", Body: bytes.NewReader([]byte("x")), Size: 1})
	if err == nil || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("%v", err)
	}
}

// Files fails if the manifest has no section files, or an origin that egress does not accept.
func TestFilesFailsWithoutAUsableSection(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	c := *r.catalog
	c.Files = nil
	d, err := driver.New(driver.Deps{Catalog: &c, Egress: r.egress, Origin: r.platform.URL, Now: time.Now})
	must.OK(t, err)
	if _, err := d.Files(); err == nil {
		t.Error("Files succeeded without a section")
	}
	c.Files = &catalog.Files{At: []string{"https://[::1]/"}}
	if _, err := d.Files(); err == nil {
		t.Error("Files accepted an IPv6 address, which cannot be part of a pool's key")
	}
}

// Fetch rejects any URL that is not clearly in a folder of the platform's files.
func FuzzFileAddress(f *testing.F) {
	const origin = "https://platform.example"
	for _, seed := range []string{
		origin + "/media/1/full?sig=1", "https://platform.example:443/media/1", origin + "/media/../control", origin + "/media/%2e%2e/x", "https://a@platform.example/media/1",
		"https://platform.example@evil.example/media/", `https://platform.example\@evil.example/media/`, origin + "/media//x", "//platform.example/media/x", origin + "/media/%00",
	} {
		f.Add(seed)
	}
	known, err := catalog.Sandbox()
	must.OK(f, err)
	nowhere := egress.New(egress.Deps{Log: slog.New(slog.DiscardHandler), Now: time.Now})
	d, err := driver.New(driver.Deps{Catalog: known, Egress: nowhere, Origin: origin, Now: time.Now})
	must.OK(f, err)
	files, err := d.Files()
	must.OK(f, err)
	f.Fuzz(func(t *testing.T, address string) {
		_, err := files.Fetch(t.Context(), via("us"), driver.Session{}, driver.FileRequest{Method: http.MethodGet, URL: address})
		if err == nil {
			t.Fatal("Fetch succeeded without egress")
		}
		if errors.Is(err, driver.ErrAddress) {
			return
		}
		u, wrong := url.Parse(address)
		if wrong != nil || u.Scheme != "https" || !strings.EqualFold(u.Hostname(), "platform.example") || u.User != nil ||
			!strings.HasPrefix(path.Clean(u.Path), "/media/") && !strings.HasPrefix(path.Clean(u.Path), "/upload/") && path.Clean(u.Path) != "/media" && path.Clean(u.Path) != "/upload" {
			t.Errorf("%q was accepted: %v", address, err)
		}
	})
}
