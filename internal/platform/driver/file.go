package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
)

// Files transfers files between callers and the folders that the manifest lists, and nowhere else.
type Files struct {
	driver *HTTP
	// origins are those of the folders in at, whose paths end in a slash.
	origins egress.Origins
	at      []*url.URL
	// below are the folders below the root of every site. Their paths end in a slash.
	below []string
}

// ErrAddress means that a URL is not in a folder of the platform's files. Nothing was sent.
var ErrAddress = errors.New("the platform keeps no files at this address")

// FileRequest requests a file or a part of one.
type FileRequest struct {
	// Method is GET or HEAD.
	Method string
	URL    string
	// Header holds the caller's range and conditional headers.
	Header http.Header
}

// File is the response to a FileRequest.
type File struct {
	// Status is 200, 206, 304 or 416.
	Status int
	Header http.Header
	// Length is in bytes, or -1 if it is not known.
	Length int64
	// Body must be closed. Its errors are problems.
	Body io.ReadCloser
}

// PartRequest uploads a part of a file to a URL.
type PartRequest struct {
	URL    string
	Header http.Header
	Body   io.Reader
	Size   int64
}

// Limits of file requests. The timeouts do not count time spent waiting for the caller, and there is no limit in total.
const (
	fileHeaderTimeout = 30 * time.Second
	fileIdleTimeout   = 30 * time.Second
	// maxRefusalBytes bounds the bytes that are read of an error response.
	maxRefusalBytes = 64 << 10
	maxAddress      = 8 << 10
)

// Methods to build the problems of file requests with. Both count as reads, because repeating them is harmless.
var (
	getFileMethod = &catalog.Method{Resource: "files", Name: "get", Access: catalog.Read}
	putPartMethod = &catalog.Method{Resource: "files", Name: "put", Access: catalog.Read}
)

// Files returns the client for the platform's files. It fails if the manifest has no section files.
func (d *HTTP) Files() (*Files, error) {
	if d.deps.Catalog.Files == nil {
		return nil, fmt.Errorf("platform %s: the manifest has no files", d.deps.Catalog.ID)
	}
	f := &Files{driver: d}
	var origins []string
	for _, text := range d.deps.Catalog.Files.At {
		if strings.HasPrefix(text, "/") {
			if d.deps.Catalog.Site != nil {
				f.below = append(f.below, text)
				continue
			}
			text = strings.TrimSuffix(d.deps.Origin, "/") + text
		}
		u, err := url.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("platform %s: files.at: %w", d.deps.Catalog.ID, err)
		}
		f.at = append(f.at, u)
		origins = append(origins, u.Scheme+"://"+u.Host)
	}
	var err error
	if f.origins, err = egress.ParseOrigins(origins...); err != nil {
		return nil, fmt.Errorf("platform %s: files.at: %w", d.deps.Catalog.ID, err)
	}
	return f, nil
}

// address is the URL of a file, and the origins that the request for it may be sent to.
type address struct {
	url     *url.URL
	origins egress.Origins
	// withSession means that the request may have the whole session.
	withSession bool
}

// parseAddress parses a URL and checks that it is in one of the folders. URLs come from callers, and the folders are all that keeps a caller from the rest of the host. So it
// also rejects paths that another parser could read differently.
func (f *Files) parseAddress(via Via, text string) (address, error) {
	if len(text) > maxAddress || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' || r == '#' }) {
		return address{}, ErrAddress
	}
	// u.Path is decoded, so this also rejects %2e%2e, %2f.. and the like.
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.User != nil || strings.Contains(u.Path, "\\") || path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") {
		return address{}, ErrAddress
	}
	for _, at := range f.at {
		if sameOrigin(u, at) && strings.HasPrefix(u.Path, at.Path) {
			return address{u, f.origins, f.driver.deps.Catalog.Files.Cookies}, nil
		}
	}
	for _, site := range []string{via.Site, via.Public} {
		root, err := url.Parse(site)
		if err != nil || site == "" || !sameOrigin(u, root) {
			continue
		}
		for _, folder := range f.below {
			if strings.HasPrefix(u.Path, root.Path+folder) {
				origins, err := egress.SiteOrigins(site)
				if err != nil {
					return address{}, ErrAddress
				}
				return address{u, origins, f.driver.deps.Catalog.Files.Cookies && site == via.Site}, nil
			}
		}
	}
	return address{}, ErrAddress
}

func sameOrigin(a, b *url.URL) bool {
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

// Fetch requests a file. Errors are problems, or ErrAddress.
func (f *Files) Fetch(ctx context.Context, via Via, s Session, req FileRequest) (*File, error) {
	out, client, err := f.newRequest(ctx, via, s, req.Method, req.URL, nil)
	if err != nil {
		return nil, err
	}
	maps.Copy(out.Header, req.Header)
	resp, err := client.Do(out, egress.Limits{Header: fileHeaderTimeout, Idle: fileIdleTimeout, Total: egress.None, Bytes: egress.None, Raw: true})
	if err != nil {
		return nil, f.driver.transportProblem(ctx, getFileMethod, err)
	}
	switch resp.StatusCode {
	case http.StatusOK, http.StatusPartialContent, http.StatusNotModified, http.StatusRequestedRangeNotSatisfiable:
		return &File{
			Status: resp.StatusCode, Header: resp.Header, Length: resp.ContentLength,
			Body: &fileBody{ReadCloser: resp.Body, wrap: func(err error) error { return f.driver.transportProblem(ctx, getFileMethod, err) }},
		}, nil
	}
	return nil, f.refusalProblem(resp)
}

// Put uploads a part and returns its ETag. Another goroutine reads the body and may still read it after Put has failed,
// because the platform may refuse a part before it has received all of it. Errors are problems, or ErrAddress.
func (f *Files) Put(ctx context.Context, via Via, s Session, part PartRequest) (etag string, err error) {
	out, client, err := f.newRequest(ctx, via, s, http.MethodPut, part.URL, part.Body)
	if err != nil {
		return "", err
	}
	maps.Copy(out.Header, part.Header)
	// Without GetBody the transport cannot resend the part; the caller's body can be read only once.
	out.ContentLength, out.GetBody = part.Size, nil
	resp, err := client.Do(out, egress.Limits{Header: fileHeaderTimeout, Idle: fileIdleTimeout, Total: egress.None, Bytes: maxRefusalBytes, Raw: true})
	if err != nil {
		return "", f.driver.transportProblem(ctx, putPartMethod, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return "", f.refusalProblem(resp)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return "", f.driver.transportProblem(ctx, putPartMethod, err)
	}
	return strings.Trim(strings.TrimPrefix(resp.Header.Get("Etag"), "W/"), `"`), nil
}

// newRequest builds a request for a file, and the client that can send it. The request has only the user agent of the
// session, unless the manifest asks for the whole session.
func (f *Files) newRequest(
	ctx context.Context, via Via, s Session, method, text string, body io.Reader,
) (*http.Request, *egress.Client, error) {
	at, err := f.parseAddress(via, text)
	if err != nil {
		return nil, nil, err
	}
	out, err := http.NewRequestWithContext(ctx, method, at.url.String(), body)
	if err != nil {
		return nil, nil, ErrAddress // the library's error would repeat the URL, which may contain a signature
	}
	whole := http.Header{}
	s.applyTo(whole, f.driver.deps.Catalog.Session.UserAgent)
	if at.withSession {
		out.Header = whole
	} else {
		out.Header.Set("User-Agent", whole.Get("User-Agent"))
	}
	return out, f.driver.client(via, at.origins), nil
}

// refusalProblem returns the problem for a response without a file. File hosts check URLs and not sessions, so a 401
// from one does not mean that the account's session has ended.
func (f *Files) refusalProblem(resp *http.Response) error {
	defer resp.Body.Close()
	if resp.StatusCode >= 300 && resp.StatusCode < 400 || resp.StatusCode < 300 {
		return problem.UpstreamInvalidResponse.Newf("The platform answered the file request with status %d.", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusalBytes))
	if err != nil {
		body = nil // the status is enough to classify it
	}
	r := &Refused{Refusal: f.driver.deps.Catalog.Classify(resp.StatusCode, resp.Header, body), Status: resp.StatusCode}
	if r.Kind == catalog.RefusedSession {
		r.Kind = catalog.RefusedForbidden
	}
	return r.Problem(getFileMethod)
}

// fileBody turns the errors of Read into problems.
type fileBody struct {
	io.ReadCloser
	wrap func(error) error
}

func (b *fileBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.wrap(err)
	}
	return n, err
}
