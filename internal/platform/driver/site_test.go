package driver_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

const siteCheck = "/ghost/api/admin/site/"

// FindSite finds the root of a site's API, also if the site redirects there.
func TestSitesAreFound(t *testing.T) {
	t.Parallel()
	front := httptest.NewServer(nil)
	t.Cleanup(front.Close)
	r := newGhostFixture(t, "/blog", front.URL)
	// The front redirects to the API's host after one more redirect of its own.
	front.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/maya" + siteCheck:
			http.Redirect(w, req, "/m"+siteCheck, http.StatusFound)
		case "/m" + siteCheck:
			http.Redirect(w, req, r.ghost.root()+siteCheck, http.StatusMovedPermanently)
		default:
			http.NotFound(w, req)
		}
	})
	for site, want := range map[string]driver.Place{
		r.ghost.root():       {Site: r.ghost.root()},
		r.ghost.root() + "/": {Site: r.ghost.root()},
		front.URL + "/maya/": {Site: front.URL + "/maya"},
		front.URL + "/m":     {Site: front.URL + "/m"},
	} {
		want.Platform, want.Root, want.SiteID, want.Title = "ghost", r.ghost.root(), "6f1c0d3a-0000-4000-8000-000000000005", "Maya's letters"
		place, err := r.driver.FindSite(t.Context(), driver.Via{Region: "us", Account: "att_1"}, site)
		if err != nil || place != want {
			t.Errorf("%s: %+v, %v", site, place, err)
		}
	}
}

// A site that does not run the platform's software, leads elsewhere, or does not answer is a problem that says so.
func TestOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(nil)
	t.Cleanup(other.Close)
	gone := httptest.NewServer(nil)
	gone.Close()
	r := newGhostFixture(t, "", other.URL, gone.URL, "http://unlisted.example")
	to := func(format string) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, strings.ReplaceAll(format, "$other", other.URL), http.StatusMovedPermanently)
		}
	}
	answer := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); fmt.Fprint(w, text) }
	}
	mux := http.NewServeMux()
	other.Config.Handler = mux
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    problem.Kind
		field   string // the code of the error at /site
	}{
		"notfound":       {http.NotFound, problem.ValidationFailed, "software"},
		"html":           {answer(200, "<html>Hello</html>"), problem.ValidationFailed, "software"},
		"othersoftware":  {answer(200, `{"name":"WordPress"}`), problem.ValidationFailed, "software"},
		"forbidden":      {answer(403, "no"), problem.ValidationFailed, "software"},
		"starting":       {answer(503, "<html>We'll be right back</html>"), problem.UpstreamUnavailable, ""},
		"broken":         {answer(500, "oops"), problem.UpstreamError, ""},
		"login":          {to("/login"), problem.ValidationFailed, "software"},
		"noaddress":      {answer(301, ""), problem.ValidationFailed, "software"},
		"loops":          {to("/loops" + siteCheck), problem.ValidationFailed, "redirect"},
		"inside":         {to("http://127.0.0.1:1" + siteCheck), problem.UnsafeURL, "scheme"},
		"insidetls":      {to("https://127.0.0.1" + siteCheck), problem.UnsafeURL, "host"},
		"metadata":       {to("http://169.254.169.254" + siteCheck), problem.UnsafeURL, "scheme"},
		"unknownname":    {to("https://no-such-site.invalid" + siteCheck), problem.UnsafeURL, "address"},
		"otherscheme":    {to("ftp://maya.example.com" + siteCheck), problem.UnsafeURL, "scheme"},
		"withpassword":   {to("https://a:b@maya.example.com" + siteCheck), problem.ValidationFailed, "software"},
		"encoded":        {to("$other/%2e%2e" + siteCheck), problem.ValidationFailed, "form"},
		"hangsupatfirst": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, problem.UpstreamUnavailable, ""},
	} {
		mux.HandleFunc("/"+name+siteCheck, c.handler)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantSiteProblem(t, r, other.URL+"/"+name, c.want, c.field)
		})
	}
	for site, c := range map[string]struct {
		want  problem.Kind
		field string
	}{
		gone.URL:                       {problem.UpstreamUnavailable, ""},
		"http://maya.example.com":      {problem.UnsafeURL, "scheme"},
		"https://10.0.0.1":             {problem.UnsafeURL, "host"},
		"https://maya.example.com/?a":  {problem.ValidationFailed, "form"},
		"https://no-such-site.invalid": {problem.UnsafeURL, "address"},
	} {
		wantSiteProblem(t, r, site, c.want, c.field)
	}
}

func wantSiteProblem(t *testing.T, r *ghostFixture, site string, want problem.Kind, field string) {
	t.Helper()
	place, err := r.driver.FindSite(t.Context(), driver.Via{Region: "us", Account: "att_1"}, site)
	p, ok := errors.AsType[*problem.Error](err)
	if !ok || p.Kind.Code != want.Code || place != (driver.Place{}) {
		t.Errorf("%s: %+v, %v", site, place, err)
		return
	}
	if field == "" && len(p.Fields) > 0 || field != "" && (len(p.Fields) != 1 || p.Fields[0].Pointer != "/site" || p.Fields[0].Code != field) {
		t.Errorf("%s: %+v", site, p.Fields)
	}
}

// A call without a site, or with the wrong one, reaches nothing.
func TestCallsNeedTheirSite(t *testing.T) {
	t.Parallel()
	r := newGhostFixture(t, "")
	s := r.session()
	for _, site := range []string{"", "maya", "http://127.0.0.1:1"} {
		_, _, err := r.driver.Probe(t.Context(), driver.Via{Region: "us", Account: "acct_test", Site: site}, s)
		if err == nil {
			t.Errorf("%q answered", site)
		}
	}
}

// A file is uploaded in one request and is then below the site's content, which is all that can be fetched of the site.
func TestFilesOfASite(t *testing.T) {
	t.Parallel()
	for _, sub := range []string{"", "/blog"} {
		r := newGhostFixture(t, sub)
		s := r.session()
		files, err := r.driver.Files()
		must.OK(t, err)
		form, ok := r.catalog.Files.FormFor("image/png")
		if !ok {
			t.Fatal("no form takes a picture")
		}
		args, err := form.Args()
		must.OK(t, err)
		picture := bytes.Repeat([]byte("\x89PNG\r\n--boundary\r\n"), 50_000)
		// The reader returns small pieces, as a caller's connection does, and more than its size.
		body := iotest.HalfReader(io.MultiReader(bytes.NewReader(picture), strings.NewReader("more")))
		answer, err := files.SendForm(t.Context(), r.via(), s, driver.FormRequest{
			Form: form, Args: args, Name: "kyoto.png", MediaType: "image/png", Body: body, Size: int64(len(picture)),
		})
		must.OK(t, err)
		address, ok := form.URL(answer.Result)
		if !ok || !strings.HasPrefix(address, r.ghost.root()+"/content/images/") || answer.Sent <= len(picture) {
			t.Fatalf("%s, %d bytes sent", answer.Result, answer.Sent)
		}
		fetch := func(address string) ([]byte, error) {
			file, err := files.Fetch(t.Context(), r.via(), s, driver.FileRequest{Method: http.MethodGet, URL: address})
			if err != nil {
				return nil, err
			}
			defer file.Body.Close()
			return io.ReadAll(file.Body)
		}
		if got, err := fetch(address); err != nil || !bytes.Equal(got, picture) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		outside := []string{
			r.ghost.root() + siteCheck, r.ghost.root() + "/content/../ghost/", "https://maya.example.com" + sub + "/content/x.png", r.ghost.URL + "/other/content/x.png", "/content/x.png",
		}
		if sub != "" {
			outside = append(outside, r.ghost.URL+"/content/x.png")
		}
		for _, address := range outside {
			if _, err := fetch(address); !errors.Is(err, driver.ErrAddress) {
				t.Errorf("%s: %v", address, err)
			}
		}
	}
}

// If the API is on another host than the site, files of both can be fetched.
func TestFilesOfASiteWithTwoHosts(t *testing.T) {
	t.Parallel()
	public := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %q", r.URL.Path, r.Header.Get("Cookie"))
	}))
	t.Cleanup(public.Close)
	r := newGhostFixture(t, "", public.URL)
	s := r.session()
	files, err := r.driver.Files()
	must.OK(t, err)
	via := r.via()
	fetch := func(address string) (string, error) {
		file, err := files.Fetch(t.Context(), via, s, driver.FileRequest{Method: http.MethodGet, URL: address})
		if err != nil {
			return "", err
		}
		defer file.Body.Close()
		text, err := io.ReadAll(file.Body)
		return string(text), err
	}
	if _, err := fetch(public.URL + "/content/x.png"); !errors.Is(err, driver.ErrAddress) {
		t.Errorf("a host that is not the account's: %v", err)
	}
	via.Public = public.URL
	if got, err := fetch(public.URL + "/content/x.png"); err != nil || got != `/content/x.png ""` {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := fetch(public.URL + "/members/"); !errors.Is(err, driver.ErrAddress) {
		t.Errorf("outside of the folder: %v", err)
	}
}

// An upload that the platform refuses is a refusal. One that breaks off is in doubt, because it is a write.
func TestUploadsThatFail(t *testing.T) {
	t.Parallel()
	r := newGhostFixture(t, "")
	s := r.session()
	files, err := r.driver.Files()
	must.OK(t, err)
	form, _ := r.catalog.Files.FormFor("image/png")
	args, err := form.Args()
	must.OK(t, err)
	send := func(mediaType string, body io.Reader, size int64) error {
		_, err := files.SendForm(t.Context(), r.via(), s, driver.FormRequest{
			Form: form, Args: args, Name: "a.png", MediaType: mediaType, Body: body, Size: size,
		})
		return err
	}
	wantRefusal(t, send("image/heic", strings.NewReader("x"), 1), catalog.RefusedRejected)
	broken := errors.New("the caller hung up")
	if err := send("image/png", io.MultiReader(strings.NewReader("x"), iotest.ErrReader(broken)), 1000); !errors.Is(err, broken) {
		t.Errorf("a broken body: %v", err)
	}
	r.ghost.Close()
	err = send("image/png", strings.NewReader("x"), 1)
	if p, ok := errors.AsType[*problem.Error](err); !ok || p.Kind.Code != problem.UpstreamUnavailable.Code {
		t.Errorf("a dead site: %v", err)
	}
}
