package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
)

// Files moves files to and from where the platform's manifest says that they are, and nowhere else.
type Files struct {
	driver  *HTTP
	origins egress.Origins
	at      []*url.URL
}

// ErrAddress means that an address is not one where the platform keeps files. Nothing was sent.
var ErrAddress = errors.New("the platform keeps no files at this address")

// FileRequest asks for a file, or a part of one.
type FileRequest struct {
	// Method is GET or HEAD.
	Method string
	URL    string
	// Header holds what the caller says of ranges and of what it has already.
	Header http.Header
}

// File is the answer to a FileRequest.
type File struct {
	// Status is 200, 206, 304 or 416.
	Status int
	Header http.Header
	// Length is -1 if the platform does not say.
	Length int64
	// Body must be closed. Its errors are problems.
	Body io.ReadCloser
}

// PartRequest gives a part of a file to an address that takes it.
type PartRequest struct {
	URL    string
	Header http.Header
	Body   io.Reader
	Size   int64
}

// How long a platform may take. What the caller's side takes does not count, and a file may take as long as it likes in all.
const (
	fileHeader = 30 * time.Second
	fileIdle   = 30 * time.Second
	// refusalBytes is as much as is read of a refusal.
	refusalBytes = 64 << 10
	maxAddress   = 8 << 10
)

// What the problems of these requests are made with: neither changes anything that a repetition does not change again.
var (
	getFile = &catalog.Method{Resource: "files", Name: "get", Access: catalog.Read}
	putPart = &catalog.Method{Resource: "files", Name: "put", Access: catalog.Read}
)

// Files is the way to the platform's files. It fails if the manifest has none.
func (d *HTTP) Files() (*Files, error) {
	if d.Catalog.Files == nil {
		return nil, fmt.Errorf("platform %s: its manifest has no files", d.Catalog.ID)
	}
	f := &Files{driver: d}
	var origins []string
	for _, text := range d.Catalog.Files.At {
		if strings.HasPrefix(text, "/") {
			text = strings.TrimSuffix(d.Origin, "/") + text
		}
		u, err := url.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("platform %s: files.at: %w", d.Catalog.ID, err)
		}
		f.at = append(f.at, u)
		origins = append(origins, u.Scheme+"://"+u.Host)
	}
	var err error
	if f.origins, err = egress.ParseOrigins(origins...); err != nil {
		return nil, fmt.Errorf("platform %s: files.at: %w", d.Catalog.ID, err)
	}
	return f, nil
}

// address parses an address and makes sure that a file can be there. A path that another reader could take for a different one is
// refused: the folders are what keeps a caller from everything else on the same host.
func (f *Files) address(text string) (*url.URL, error) {
	if len(text) > maxAddress || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' || r == '#' }) {
		return nil, ErrAddress
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.User != nil || strings.Contains(u.Path, "\\") || path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") {
		return nil, ErrAddress
	}
	if !slices.ContainsFunc(f.at, func(at *url.URL) bool { return sameHost(u, at) && strings.HasPrefix(u.Path, at.Path) }) {
		return nil, ErrAddress
	}
	return u, nil
}

func sameHost(a, b *url.URL) bool {
	port := func(u *url.URL) string {
		switch {
		case u.Port() != "":
			return u.Port()
		case u.Scheme == "https":
			return "443"
		}
		return "80"
	}
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

// Fetch asks for a file. Errors are problems, or ErrAddress.
func (f *Files) Fetch(ctx context.Context, via Via, s Session, req FileRequest) (*File, error) {
	out, err := f.request(ctx, s, req.Method, req.URL, nil)
	if err != nil {
		return nil, err
	}
	for name, values := range req.Header {
		out.Header[name] = values
	}
	resp, err := f.client(via).Do(out, egress.Limits{Header: fileHeader, Idle: fileIdle, Total: egress.None, Bytes: egress.None, Raw: true})
	if err != nil {
		return nil, f.driver.lost(ctx, getFile, err)
	}
	switch resp.StatusCode {
	case http.StatusOK, http.StatusPartialContent, http.StatusNotModified, http.StatusRequestedRangeNotSatisfiable:
		return &File{
			Status: resp.StatusCode, Header: resp.Header, Length: resp.ContentLength,
			Body: &fileBody{ReadCloser: resp.Body, failed: func(err error) error { return f.driver.lost(ctx, getFile, err) }},
		}, nil
	}
	return nil, f.refused(resp)
}

// Put gives a part to the platform, which answers with a tag of it. The body is read by another goroutine, and may be read still when
// Put has failed: the platform may refuse a part before it has all of it. Errors are problems, or ErrAddress.
func (f *Files) Put(ctx context.Context, via Via, s Session, part PartRequest) (etag string, err error) {
	out, err := f.request(ctx, s, http.MethodPut, part.URL, part.Body)
	if err != nil {
		return "", err
	}
	for name, values := range part.Header {
		out.Header[name] = values
	}
	out.ContentLength, out.GetBody = part.Size, nil
	resp, err := f.client(via).Do(out, egress.Limits{Header: fileHeader, Idle: fileIdle, Total: egress.None, Bytes: refusalBytes, Raw: true})
	if err != nil {
		return "", f.driver.lost(ctx, putPart, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return "", f.refused(resp)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return "", f.driver.lost(ctx, putPart, err)
	}
	return strings.Trim(strings.TrimPrefix(resp.Header.Get("Etag"), "W/"), `"`), nil
}

// request makes a request for a file. Who asks is told by the browser's name alone, unless the manifest wants the session to go with it.
func (f *Files) request(ctx context.Context, s Session, method, address string, body io.Reader) (*http.Request, error) {
	u, err := f.address(address)
	if err != nil {
		return nil, err
	}
	out, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, ErrAddress // the library's own error repeats the address, and with it its signature
	}
	whole := http.Header{}
	s.dress(whole, f.driver.Catalog.Session.UserAgent)
	if f.driver.Catalog.Files.Cookies {
		out.Header = whole
	} else {
		out.Header.Set("User-Agent", whole.Get("User-Agent"))
	}
	return out, nil
}

func (f *Files) client(via Via) *egress.Client {
	isolation := egress.ByAccount
	if f.driver.Catalog.Isolation == catalog.ByProxy {
		isolation = egress.ByProxy
	}
	return f.driver.Egress.Client(egress.Identity{Region: via.Region, Account: via.Account, Isolation: isolation}, f.origins)
}

// refused is the problem in an answer that brought no file. A file's host knows addresses, not sessions: that it asks who is there says
// nothing about the account.
func (f *Files) refused(resp *http.Response) error {
	defer resp.Body.Close()
	if resp.StatusCode >= 300 && resp.StatusCode < 400 || resp.StatusCode < 300 {
		return problem.UpstreamInvalidResponse.Newf("The platform answered the request for a file with the status %d.", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, refusalBytes))
	if err != nil {
		body = nil // the status tells enough
	}
	r := &Refused{Refusal: f.driver.Catalog.Classify(resp.StatusCode, resp.Header, body), Status: resp.StatusCode}
	if r.Kind == catalog.RefusedSession {
		r.Kind = catalog.RefusedForbidden
	}
	return r.Problem(getFile)
}

// fileBody tells problems instead of errors.
type fileBody struct {
	io.ReadCloser
	failed func(error) error
}

func (b *fileBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.failed(err)
	}
	return n, err
}
