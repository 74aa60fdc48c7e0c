package curlimport_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/curlimport"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// checkProblem fails unless err is a problem of one of the kinds that repeats nothing of the text.
func checkProblem(t *testing.T, err error, pointer string, kinds ...string) {
	t.Helper()
	e, ok := errors.AsType[*problem.Error](err)
	if !ok || len(e.Fields) == 0 || e.Unwrap() != nil {
		t.Fatalf("not a problem with a pointer and no cause: %v", err)
	}
	if !strings.Contains(strings.Join(kinds, " "), e.Kind.Code) || e.Fields[0].Pointer != pointer {
		t.Fatalf("%v at %s", err, e.Fields[0].Pointer)
	}
	if strings.Contains(err.Error()+e.Fields[0].Detail, canary) {
		t.Fatalf("the error repeats the text: %v", err)
	}
}

func checkCookies(t *testing.T, cookies map[string]secret.String) {
	t.Helper()
	for name, value := range cookies {
		header := http.Header{"Cookie": {name + "=" + value.Reveal()}}
		if name == "" || strings.ContainsAny(name, "=;\r\n\x00") || strings.ContainsAny(value.Reveal(), ";\r\n\x00") || !utf8.ValidString(value.Reveal()) {
			t.Fatalf("a cookie that would break its header: %q", header)
		}
	}
}

// Whatever is pasted, the result can be sent, and an error repeats nothing of it.
func FuzzCurl(f *testing.F) {
	for _, c := range goodCommands() {
		f.Add(c[0])
	}
	for _, c := range badCommands() {
		if len(c.text) < 4096 {
			f.Add(c.text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := curlimport.Curl(secret.New(text), hosts())
		if err != nil {
			checkProblem(t, err, "/curl", "curl-unparseable", "curl-unsupported", "curl-wrong-host")
			return
		}
		if got.Host != hosts()[0] && got.Host != hosts()[1] {
			t.Fatalf("host %q", got.Host)
		}
		checkCookies(t, got.Cookies)
		for name, value := range got.Headers {
			if !httpguts.ValidHeaderFieldName(name) || name != strings.ToLower(name) || !httpguts.ValidHeaderFieldValue(value.Reveal()) || !utf8.ValidString(value.Reveal()) {
				t.Fatalf("header %q: %q", name, value.Reveal())
			}
		}
		if !httpguts.ValidHeaderFieldValue(got.UserAgent) {
			t.Fatalf("user agent %q", got.UserAgent)
		}
	})
}

// Whatever is pasted, the cookies can be sent, and an error repeats nothing of it.
func FuzzCookies(f *testing.F) {
	for _, text := range []string{"auth_id=42; sess=" + canary, "Cookie: a=b", editThisCookie, playwright, cookiesTxt, "a\tb\tc\td\te\tf\tg", "[", "{}", "#", canary} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := curlimport.Cookies(secret.New(text), hosts())
		if err != nil {
			checkProblem(t, err, "/cookie", "validation-failed")
			return
		}
		checkCookies(t, got)
	})
}
