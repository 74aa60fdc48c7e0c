package page_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/smtp"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

func TestMailsAreShownAsTheyCame(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	s := &site{T: t, url: p.URL, world: p.World, platform: p}
	s.wants(s.get("/mails"), http.StatusOK, "No mails", "sandboxd -mail")

	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	sandboxtest.OK(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	defer stop()
	go func() { _ = p.Mails.Serve(ctx, listener) }()
	for _, to := range []string{"first@example.com", "second@example.com"} {
		body := "From: g@ghost.test\r\nSubject: <script>alert(1)</script> to " + to + "\r\nContent-Type: text/html\r\n\r\n<img src=x onerror=alert(2)>"
		sandboxtest.OK(t, smtp.SendMail(listener.Addr().String(), nil, "g@ghost.test", []string{to}, []byte(body)))
	}
	all := s.get("/mails")
	s.wants(all, http.StatusOK, "&lt;script&gt;alert(1)&lt;/script&gt; to first@example.com", `srcdoc="&lt;img src=x onerror=alert(2)&gt;`, "From g@ghost.test to second@example.com")
	if strings.Contains(all.text, "<script") || strings.Contains(all.text, "<img") {
		t.Errorf("a mail is part of the page: %s", all.text)
	}
	if strings.Index(all.text, "to second@example.com") > strings.Index(all.text, "to first@example.com") {
		t.Error("the newest mail is not the first")
	}
	one := s.get("/mails?to=first%40example.com")
	s.wants(one, http.StatusOK, "to first@example.com")
	if strings.Contains(one.text, "second@example.com") {
		t.Error("the page of one address shows mails of another")
	}

	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/mails", http.NoBody)
	r.RemoteAddr = "203.0.113.7:4000"
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	if w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "example.com") {
		t.Errorf("another machine gets %d %s", w.Code, w.Body)
	}
}
