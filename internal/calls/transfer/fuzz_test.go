package transfer_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/calls/transfer"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// fakePlatform is a platform that records uploads.
type fakePlatform struct {
	announced, finished int64
	arrived             bytes.Buffer
}

func (s *fakePlatform) Ready(context.Context, id.Org, id.Account, admission.Decision) (account.Account, driver.Session, error) {
	return account.Account{Region: "us"}, driver.Session{}, nil
}

func (s *fakePlatform) PlatformOf(context.Context, id.Org, id.Account) (string, error) {
	return "sandbox", nil
}

func (s *fakePlatform) Carried(id.Org, string, int64, int64) {}

func (s *fakePlatform) Fetch(context.Context, driver.Via, driver.Session, driver.FileRequest) (*driver.File, error) {
	return nil, driver.ErrAddress
}

func (s *fakePlatform) SendForm(context.Context, driver.Via, driver.Session, driver.FormRequest) (driver.Answer, error) {
	return driver.Answer{}, driver.ErrAddress
}

func (s *fakePlatform) Put(_ context.Context, _ driver.Via, _ driver.Session, p driver.PartRequest) (string, error) {
	n, err := io.Copy(&s.arrived, p.Body)
	if err == nil && n != p.Size {
		panic("a part does not have its declared size")
	}
	return "tag", err
}

func (s *fakePlatform) call(_ context.Context, _ id.Org, _ id.Account, _ admission.Decision, m *catalog.Method, _ catalog.Args) ([]byte, error) {
	switch m.Name {
	case "init":
		s.announced++
		return []byte(`{"id":"1","partSize":7}`), nil
	case "complete":
		s.finished++
	}
	return []byte(`{"url":"http://x/","headers":{}}`), nil
}

// Any form either uploads exactly the file that it contains, or finishes no upload.
func FuzzForm(f *testing.F) {
	body, _ := form(`{"fileName":"a.mp4","size":10,"mimeType":"video/mp4"}`, "file", content(10))
	text := bytes.ReplaceAll(body.Bytes(), body.Bytes()[2:bytes.IndexByte(body.Bytes(), '\r')], []byte("b"))
	f.Add(text, "multipart/form-data; boundary=b")
	alone, _ := form("", "file", content(10), "Content-Type", "video/mp4")
	f.Add(bytes.ReplaceAll(alone.Bytes(), alone.Bytes()[2:bytes.IndexByte(alone.Bytes(), '\r')], []byte("b")), "multipart/form-data; boundary=b")
	f.Add([]byte("--b\r\n\r\n--b--"), "multipart/form-data; boundary=b")
	f.Add([]byte("raw"), "image/png")
	known, err := catalog.Sandbox()
	must.OK(f, err)
	f.Fuzz(func(t *testing.T, body []byte, media string) {
		s := &fakePlatform{}
		flow := transfer.New(transfer.Deps{
			Platforms: registry.Of(registry.Platform{Catalog: known, Files: s}).Get,
			Accounts:  s, Call: s.call, Meter: s,
		})
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
		req.Header.Set("Content-Type", media)
		_, err := flow.Upload(httptest.NewRecorder(), req, transfer.Caller{
			May: func(*catalog.Method) bool { return true }, MaxBytes: 1 << 20,
		}, transfer.Given{FileName: "x"})
		if (err == nil) != (s.finished == 1) || err == nil && !bytes.Contains(body, s.arrived.Bytes()) {
			t.Errorf("%v: announced %d, finished %d, %d bytes arrived", err, s.announced, s.finished, s.arrived.Len())
		}
	})
}
