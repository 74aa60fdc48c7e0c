package curlimport_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/curlimport"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

const (
	editThisCookie = `[
{"domain": ".stage.example", "expirationDate": 1798761600.5, "hostOnly": false, "httpOnly": true, "name": "sess", "path": "/", "sameSite": "no_restriction", "secure": true, "session": false, "storeId": "0", "value": "a1b2", "id": 1},
{"domain": "stage.example", "hostOnly": true, "httpOnly": false, "name": "auth_id", "path": "/", "sameSite": "unspecified", "secure": true, "session": true, "storeId": "0", "value": "42", "id": 2},
{"domain": ".other.example", "hostOnly": false, "name": "_ga", "path": "/", "value": "GA1", "id": 3}
]`
	playwright = `{"cookies": [{"name": "sess", "value": "a1b2", "domain": "stage.example", "path": "/", "expires": -1, "httpOnly": true, "secure": true, "sameSite": "Lax"}], "origins": []}`
	cookiesTxt = "# Netscape HTTP Cookie File\n# https://curl.se/docs/http-cookies.html\n\n" +
		"#HttpOnly_.stage.example\tTRUE\t/\tTRUE\t1798761600\tsess\ta1b2\n" +
		"stage.example\tFALSE\t/\tTRUE\t0\tauth_id\t42\n.other.example\tTRUE\t/\tFALSE\t0\t_ga\tGA1\n"
)

func TestCookiesReadsEveryFormat(t *testing.T) {
	t.Parallel()
	for name, c := range map[string][2]string{
		"a header":                       {"auth_id=42; sess=a1b2; fp=77", "auth_id=42; fp=77; sess=a1b2"},
		"a header with its name":         {"Cookie: auth_id=42; sess=a=b==", "auth_id=42; sess=a=b=="},
		"no spaces, extra semicolons":    {"auth_id=42;sess=a1b2;;\n", "auth_id=42; sess=a1b2"},
		"quotes stay":                    {`sess="a b"`, `sess="a b"`},
		"an empty value":                 {"sess=; fp=1", "fp=1; sess="},
		"a value without a name":         {"odd; sess=1; =x", "sess=1"},
		"the first of a header":          {"sess=1; sess=2", "sess=1"},
		"EditThisCookie":                 {editThisCookie, "auth_id=42; sess=a1b2"},
		"Playwright":                     {playwright, "sess=a1b2"},
		"name and value alone":           {`[{"name":"sess","value":"1"}]`, "sess=1"},
		"Firefox' host":                  {`[{"name":"sess","value":"1","host":".stage.example"},{"name":"a","value":"2","host":"other.example"}]`, "sess=1"},
		"the longest path":               {`[{"name":"sess","value":"1","path":"/api"},{"name":"sess","value":"2","path":"/"}]`, "sess=1"},
		"the last of equal paths":        {`[{"name":"sess","value":"1","path":"/"},{"name":"sess","value":"2","path":"/"}]`, "sess=2"},
		"a port does not matter":         {`[{"name":"sess","value":"1","domain":"127.0.0.1"}]`, "sess=1"},
		"subdomains are other hosts":     {`[{"name":"sess","value":"1","domain":"www.stage.example"}]`, ""},
		"a top-level domain":             {`[{"name":"sess","value":"1","domain":".example"}]`, ""},
		"a name that only ends the same": {`[{"name":"sess","value":"1","domain":"age.example"}]`, ""},
		"cookies.txt":                    {cookiesTxt, "auth_id=42; sess=a1b2"},
		"cookies.txt with CRLF":          {strings.ReplaceAll(cookiesTxt, "\n", "\r\n"), "auth_id=42; sess=a1b2"},
		"cookies.txt without a header":   {"stage.example\tFALSE\t/\tTRUE\t0\tsess\t1", "sess=1"},
		"cookies.txt, an empty value":    {"# x\nstage.example\tFALSE\t/\tTRUE\t0\tsess", "sess="},
		"a byte order mark":              {"\ufeffsess=1", "sess=1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := curlimport.Cookies(secret.New(c[0]), hosts())
			must.OK(t, err)
			if pairs(got) != c[1] {
				t.Errorf("got %s, want %s", pairs(got), c[1])
			}
		})
	}
}

func TestCookieOfAParentDomainIsSentToSubdomains(t *testing.T) {
	t.Parallel()
	const list = `[{"name":"a","value":"1","domain":".stage.example"},{"name":"b","value":"2","domain":"stage.example","hostOnly":true}]`
	got, err := curlimport.Cookies(secret.New(list), []string{"www.stage.example"})
	if err != nil || pairs(got) != "a=1" {
		t.Errorf("got %s, %v, want a=1", pairs(got), err)
	}
}

func TestCookiesRefusesTheRestAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing":                "",
		"space":                  " \r\n\t",
		"a word":                 canary,
		"no name":                "=" + canary,
		"a long header":          "sess=" + canary + strings.Repeat("x", 16<<10),
		"a long export":          "[" + strings.Repeat(" ", 64<<10) + canary,
		"two lines":              "sess=" + canary + "\nfp=1",
		"a control character":    "sess=" + canary + "\x01",
		"no UTF-8":               "sess=" + canary + "\xff",
		"half of JSON":           `[{"name":"sess","value":"` + canary,
		"text after JSON":        `[{"name":"sess","value":"` + canary + `"}] x`,
		"an empty list":          `[]`,
		"an object of something": `{"sess":"` + canary + `"}`,
		"texts in a list":        `["` + canary + `"]`,
		"a number as value":      `[{"name":"` + canary + `","value":1}]`,
		"no value":               `[{"name":"` + canary + `"}]`,
		"no name in JSON":        `[{"value":"` + canary + `"}]`,
		"an empty name in JSON":  `[{"name":"","value":"` + canary + `"}]`,
		"a semicolon in JSON":    `[{"name":"sess","value":"` + canary + `; x=1"}]`,
		"a line's end in JSON":   `[{"name":"sess","value":"` + canary + `\r\nx: y"}]`,
		"a name with a space":    `[{"name":"` + canary + ` x","value":"1"}]`,
		"too many":               "[" + strings.Repeat(`{"name":"a","value":"1"},`, 1000) + `{"name":"a","value":"1"}]`,
		"only comments":          "# Netscape HTTP Cookie File\n# " + canary,
		"a few fields":           "# Netscape HTTP Cookie File\nstage.example\tTRUE\t" + canary,
		"too many fields":        "stage.example\tTRUE\t/\tTRUE\t0\tsess\t" + canary + "\tx",
		"a semicolon in a file":  "stage.example\tTRUE\t/\tTRUE\t0\tsess\t" + canary + ";x",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := curlimport.Cookies(secret.New(text), hosts())
			e, ok := errors.AsType[*problem.Error](err)
			if !ok || e.Kind.Code != "validation-failed" || len(e.Fields) != 1 || e.Fields[0].Pointer != "/cookie" || got != nil {
				t.Fatalf("got %v, %v, want validation-failed at /cookie", got, err)
			}
			document, err := e.Document(problem.Place{ProblemsURL: "https://x.example", Instance: "urn:x"})
			must.OK(t, err)
			if strings.Contains(e.Error()+string(document), canary) {
				t.Errorf("the error repeats the text: %s", document)
			}
		})
	}
}

func TestListReportsEachInvalidCookie(t *testing.T) {
	t.Parallel()
	good := curlimport.Cookie{Name: "sess", Value: secret.New("1"), Domain: "stage.example"}
	bad := curlimport.Cookie{Name: "fp", Value: secret.New(canary + "\n")}
	got, err := curlimport.List([]curlimport.Cookie{good, {Name: "x", Value: secret.New("2"), Domain: "other.example"}}, hosts())
	if err != nil || pairs(got) != "sess=1" {
		t.Errorf("got %s, %v, want sess=1", pairs(got), err)
	}
	_, err = curlimport.List([]curlimport.Cookie{good, bad, {}}, hosts())
	e, ok := errors.AsType[*problem.Error](err)
	if !ok || len(e.Fields) != 2 || e.Fields[0].Pointer != "/cookies/1" || e.Fields[1].Pointer != "/cookies/2" {
		t.Fatalf("got %v, want errors at /cookies/1 and /cookies/2", err)
	}
	if strings.Contains(err.Error()+e.Fields[0].Detail, canary) {
		t.Error("the error repeats the value")
	}
	if _, err := curlimport.List(make([]curlimport.Cookie, 1001), hosts()); err == nil {
		t.Error("1001 cookies were accepted")
	}
}
