package catalog_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

const (
	anID = "0123456789abcdef01234567"
)

// The checks of features that testdata/small does not use reject a manifest that violates them.
func TestLoadReportsFaultsOfSites(t *testing.T) {
	t.Parallel()
	const up, types, people, uploads = "upstream.yaml", "types.yaml", "resources/people.yaml", "resources/uploads.yaml"
	const site = "  site:\n    check: GET /site/\n    id: site.uuid\n    title: site.title\n    example: https://maya.example.com/blog\n"
	for name, c := range map[string]struct{ file, from, to, want string }{
		"origin and site":       {up, "  site:\n", "  origin: https://x.test\n  site:\n", "give either origin or site"},
		"neither":               {up, site, "", "give either origin or site"},
		"check of a site":       {up, "check: GET /site/", "check: POST /site/", "upstream.site.check"},
		"example of a site":     {up, "https://maya.example.com/blog", "http://maya.example.com", "upstream.site.example"},
		"environment":           {up, "home:", "environment: moon\n  home:", "upstream.environment"},
		"home":                  {up, "home: https", "home: http", "upstream.home"},
		"ids":                   {up, "'^(?:1|[0-9a-f]{24})$'", "'^(?=1)$'", "ids"},
		"ids without anchors":   {up, "'^(?:1|[0-9a-f]{24})$'", "'[0-9a-f]+'", "must begin with ^, end with $"},
		"empty ids":             {up, "'^(?:1|[0-9a-f]{24})$'", "'^[0-9a-f]*$'", "not match an empty text"},
		"remembered cookie":     {up, "remember: [sid]", "remember: [old]", "old is used but not in kept"},
		"unknown value to send": {up, "origin: $origin", "origin: $host", "session.send: origin: there is no value $host"},
		"two challenges":        {up, "code: [CODE_NEEDED, 77]", "at: a\n    token: b\n    channel: c\n    channels: {sms: s}\n    code: [CODE_NEEDED, 77]", "signIn.challenge: give either at"},
		"no challenge":          {up, "    code: [CODE_NEEDED, 77]\n    by: email\n    lasts: 10m\n", "    {}\n", "signIn.challenge: give either at"},
		"challenge, no code":    {up, "  code: [errors.0.code, errors.0.type]\n", "", "signIn.challenge: a code requires errors.code"},
		"message, no path":      {up, "  message: errors.0.message\n", "", "errors.kinds: rule 1 has a message, which requires errors.message"},
		"oauth on a site":       {up, "  logout:\n", "  oauth: {authorize: /o, token: 'https://a.example/t', hosts: [a.example]}\n  logout:\n", "signIn.oauth.authorize: a platform with sites needs an https URL"},
		"half a challenge":      {up, "    by: email\n", "", "signIn.challenge"},
		"token of a challenge":  {up, "body: {token: $code}", "body: {token: $token}", "signIn.code: there is no value token"},
		"failure of anything":   {up, "{step: resend, failure: step_refused}", "{failure: step_refused}", "signIn.failures.5"},
		"unknown step":          {up, "{step: resend,", "{step: again,", "signIn.failures.5.step"},
		"message of anything":   {up, `message: "Suspended."`, `message: "*"`, "signIn.failures.2.message"},
		"covered failure":       {up, "{step: resend, failure", "{step: code, status: 401, message: x, failure", "signIn.failures: rule 6 never applies, because rule 1"},
		"covered message":       {up, "{status: 403, kind: forbidden}", `{message: "Wrong origin: x", kind: forbidden}`, "errors.kinds: rule 6 never applies, because rule 2"},
		"covered code":          {up, "{status: 403, kind: forbidden}", "{code: 13, status: 400, kind: forbidden}", "errors.kinds: rule 6 never applies, because rule 3"},
		"long wait":             {up, "retryAfter: 600", "retryAfter: 100000", "errors.kinds.4.retryAfter"},
		"half a number":         {up, ", last: meta.pages", "", "numbered pages need number, limit, at and last"},
		"number and cursor":     {up, "number: query.page", "number: query.page, cursor: query.c", "none of cursor"},
		"page without root":     {people, "    root: everyone\n", "    root: \"\"\n", "people.all: the style whole has items: $root, but the method has no root"},
		"two targets":           {people, "[path.id, body.id]", "[path.id, body.name]", "body.name is given twice"},
		"same target":           {people, "[path.id, body.id]", "[path.id, path.id]", "people.yaml"},
		"targets of a member":   {people, "to: [body, query.expiry]}", "to: body}\n        one:       {type: object, to: body, properties: {a: {type: string, to: [b, c]}}}", "to must be a single name"},
		"milliseconds":          {people, "expiresAt: {type: string, as: unixms", "expiresAt: {type: integer, as: unixms", "as: unixms is for a string"},
		"socket and poll":       {up, "poll:\n", "socket: {path: /live, frame: {name: a, body: b}, ping: 20s}\npoll:\n", "give either socket or poll"},
		"events from nowhere":   {up, "poll:\n  every: 5s", "polled:\n  every: 5s", "upstream.yaml"},
		"idle":                  {up, "idle: 2m", "idle: 4s", "idle must not be shorter than every"},
		"feed twice":            {up, "name: posts", "name: activity", "the name activity is used twice"},
		"feed without since":    {up, "after: $since, ", "", "poll.feeds.posts: the query must contain $since"},
		"feed without until":    {up, ", before: $until", "", "poll.feeds.posts: the query must contain $until"},
		"notation":              {up, "times: sqltime", "times: julian", "poll.feeds.1.times"},
		"overlap":               {up, "overlap: 24h", "overlap: 900ms", "overlap must be at least 1s"},
		"frame of a feed":       {up, "{as: post,", "{as: page,", "poll.feeds.posts: no event has the frame page"},
		"two frames of a feed":  {up, "{as: post,", "{as: post, name: x,", "poll.feeds.1.frame"},
		"unused upload":         {up, "    - {method: uploads.any, field: file, url: url}\n", "", "uploads.any: upload: true requires an entry in files.forms"},
		"no upload":             {up, "method: uploads.any", "method: people.me", "files.forms: there is no method people.me"},
		"form after all":        {up, ", types: [image/*, application/x-icon]", "", "uploads.any is never used"},
		"form without url":      {up, "field: file, url: url}", "field: file, url: address}", "uploads.any returns no address"},
		"field twice":           {up, "field: file, types", "field: purpose, types", "uploads.image sends another value as purpose"},
		"forms and upload":      {up, "  forms:", "  upload: {begin: {method: people.update, name: name, size: name, type: name, id: id, partSize: id}, part: {method: people.update, id: name, number: name, url: name}, finish: {method: people.update, id: personId}}\n  forms:", "give either upload or forms"},
		"upload is a DELETE":    {uploads, "POST /files", "DELETE /files", "upload: true is for writes with POST or PUT"},
		"upload with an object": {uploads, "body.width: 100", "body.width.x: 100", "body.width: a field of a form must be a single value"},
		"upload with a list":    {uploads, "as: csv, ", "", "body.tags: a field of a form must be a single value"},
		"upload with arguments": {uploads, "POST /files/upload/\n", "POST /files/upload/\n    args: {required: [x], properties: {x: {type: string, to: body}}}\n    example: {x: a}\n", "requires x, which files does not provide"},
		"csv of another type":   {types, "labelIds:   {items: {as: id}", "labelIds:   {items: {as: unixms}", "must be strings, integers or ids"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := catalog.Load(edited(t, filesOf(t, "sites"), c.file, c.from, c.to))
			faults, ok := errors.AsType[catalog.Faults](err)
			if !ok {
				t.Fatalf("loaded: %v", err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant %q", err, c.want)
			}
			for _, f := range faults {
				if f.File == "" || f.Line == 0 && f.File != up {
					t.Errorf("a fault has no position: %+v", f)
				}
			}
		})
	}
}

// The logo is an image without scripts and references, and a part of the revision.
func TestLogo(t *testing.T) {
	t.Parallel()
	const start = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1">`
	load := func(text string) (*catalog.Catalog, error) {
		files := filesOf(t, "sites")
		files["logo.svg"] = &fstest.MapFile{Data: []byte(text)}
		return catalog.Load(files)
	}
	c, err := load(`<?xml version="1.0"?>` + start + `<path id="a" d="M0 0h1"/><use href="#a"/></svg>`)
	must.OK(t, err)
	plain := sites(t)
	if !strings.HasPrefix(c.Logo, "data:image/svg+xml;base64,PD94") || plain.Logo != "" || c.Revision == plain.Revision {
		t.Errorf("%s, %s", c.Logo, c.Revision)
	}
	for text, want := range map[string]string{
		"":                                      "is not an SVG image",
		"<svg":                                  "is not an SVG image",
		"<html></html>":                         "its element is html",
		"<!DOCTYPE svg>" + start + "</svg>":     "document type",
		start + `<script>1</script></svg>`:      "the element script",
		start + `<path onload="x"/></svg>`:      "the attribute onload of path",
		start + `<use href="https://x"/></svg>`: "the attribute href of use",
		start + strings.Repeat(" ", 32<<10) + "</svg>": "is larger than",
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), "logo.svg: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v", text, err)
		}
	}
}

// A catalog says where its accounts are and what people see of the platform.
func TestSite(t *testing.T) {
	t.Parallel()
	c := sites(t)
	if c.Environment != environment.Live || c.Home != "https://sites.example/about" || c.Origin != "" || c.Site.Example != "https://maya.example.com/blog" {
		t.Errorf("%+v", c)
	}
	if req := c.Site.Request(); req.Method != http.MethodGet || req.Path != "/admin/api/site/" || req.Query != "" || req.Body != nil {
		t.Errorf("%s %s", req.Method, req.Path)
	}
	info, err := c.Site.Read([]byte(`{"site":{"uuid":"8e1f","title":" Maya\nwrites\u202e "}}`))
	if err != nil || info != (catalog.SiteInfo{ID: "8e1f", Title: "Maya writes"}) {
		t.Errorf("%+v %v", info, err)
	}
	for body, want := range map[string]error{
		``: catalog.ErrInvalid, `<html>`: catalog.ErrInvalid, `{}`: catalog.ErrChanged, `{"site":{"uuid":null,"title":"x"}}`: catalog.ErrChanged,
		`{"site":{"uuid":""}}`: catalog.ErrChanged,
	} {
		if _, err := c.Site.Read([]byte(body)); !errors.Is(err, want) {
			t.Errorf("%s: %v", body, err)
		}
	}
	sandbox, err := catalog.Sandbox()
	must.OK(t, err)
	if sandbox.Site != nil || sandbox.Environment != environment.Sandbox || sandbox.Methods()[0].Platform != "sandbox" {
		t.Errorf("%+v", sandbox)
	}
}

// Every built-in manifest loads and is in the folder of its id.
func TestBuiltins(t *testing.T) {
	t.Parallel()
	ids := catalog.BuiltinIDs()
	if !slices.IsSorted(ids) || !slices.Contains(ids, "sandbox") {
		t.Errorf("%q", ids)
	}
	for _, id := range ids {
		c, err := catalog.Builtin(id)
		must.OK(t, err)
		if c.ID != id {
			t.Errorf("the manifest in %s has the id %s", id, c.ID)
		}
		if again, _ := catalog.Builtin(id); again != c {
			t.Errorf("%s is loaded twice", id)
		}
	}
	if _, err := catalog.Builtin("elsewhere"); err == nil || !strings.Contains(err.Error(), "sandbox") {
		t.Errorf("%v", err)
	}
}

// A request has text ids as strings, one value in several places, and its object below the root.
func TestRequestsOfSites(t *testing.T) {
	t.Parallel()
	c := sites(t)
	for name, r := range map[string]struct{ method, args, path, query, body string }{
		"root and two places": {"update", `{"personId":"` + anID + `","name":"Maya","labels":["1"]}`, "/admin/api/people/" + anID + "/", "",
			`{"people":[{"id":"` + anID + `","name":"Maya","labels":["1"],"kind":"person"}]}`},
		"milliseconds": {"update", `{"personId":"1","expiresAt":"2026-11-14T22:50:00.123Z"}`, "/admin/api/people/1/", "expiry=1794696600123",
			`{"people":[{"id":"1","expires_at":1794696600123,"kind":"person"}]}`},
		"a page":           {"list", `{"labelId":"` + anID + `"}`, "/admin/api/people/", "label=" + anID + "&limit=20", ""},
		"a later page":     {"list", `{"limit":5,"cursor":"7"}`, "/admin/api/people/", "limit=5&page=7", ""},
		"without a body":   {"delete", `{"personId":"1"}`, "/admin/api/people/1/", "", ""},
		"without a root":   {"count", `{}`, "/admin/api/people/count/", "", ""},
		"a trailing slash": {"me", `{}`, "/admin/api/people/me/", "", ""},
	} {
		args, err := method(t, c, "people", r.method).Parse([]byte(r.args), false)
		must.OK(t, err)
		req := args.Request()
		if req.Path != r.path || req.Query != r.query || string(req.Body) != r.body {
			t.Errorf("%s: %s?%s %s", name, req.Path, req.Query, req.Body)
		}
	}
}

// A text id that cannot exist is not found if it is in the path, and invalid elsewhere. A cursor is the number of a page.
func TestArgumentsOfSites(t *testing.T) {
	t.Parallel()
	c := sites(t)
	for name, r := range map[string]struct {
		method, args, field string
		kind                problem.Kind
	}{
		"id in the path":    {"delete", `{"personId":"2"}`, "/personId format", problem.UpstreamNotFound},
		"path in an id":     {"delete", `{"personId":"../1"}`, "/personId format", problem.UpstreamNotFound},
		"id of two places":  {"update", `{"personId":"x"}`, "/personId format", problem.UpstreamNotFound},
		"id in the query":   {"list", `{"labelId":"2"}`, "/labelId format", problem.ValidationFailed},
		"id in the body":    {"update", `{"personId":"1","labels":["1","2"]}`, "/labels/1 format", problem.ValidationFailed},
		"id as a number":    {"delete", `{"personId":1}`, "/personId type", problem.ValidationFailed},
		"a word as cursor":  {"list", `{"cursor":"abc"}`, "/cursor format", problem.ValidationFailed},
		"the first page":    {"list", `{"cursor":"1"}`, "/cursor format", problem.ValidationFailed},
		"a negative cursor": {"list", `{"cursor":"-2"}`, "/cursor format", problem.ValidationFailed},
		"a signed cursor":   {"list", `{"cursor":"+2"}`, "/cursor format", problem.ValidationFailed},
		"a padded cursor":   {"list", `{"cursor":"02"}`, "/cursor format", problem.ValidationFailed},
		"a huge cursor":     {"list", `{"cursor":"99999999999"}`, "/cursor format", problem.ValidationFailed},
		"no time":           {"update", `{"personId":"1","expiresAt":"soon"}`, "/expiresAt format", problem.ValidationFailed},
	} {
		_, err := method(t, c, "people", r.method).Parse([]byte(r.args), false)
		if !errors.Is(err, r.kind.New("")) || !slices.Equal(fieldsOf(t, err), []string{r.field}) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if schema := string(method(t, c, "people", "delete").ArgSchema("personId")); !strings.Contains(schema, `"pattern":"^(?:1|[0-9a-f]{24})$"`) {
		t.Error(schema)
	}
	if schema := string(method(t, c, "people", "list").ArgSchema("cursor")); strings.Contains(schema, "pattern") {
		t.Errorf("the form of a cursor is published: %s", schema)
	}
}

// A result is the first item below the root; a page has the items below it.
func TestResultsOfSites(t *testing.T) {
	t.Parallel()
	c := sites(t)
	const maya = `{"id":"1","name":"Maya","labels":[{"name":"a"},{"name":"b"}],"label_ids":"1,` + anID + `","expires_at":1794696600123}`
	const mayaResult = `{"id":"1","name":"Maya","firstLabel":"a","labelIds":["1","` + anID + `"],"expiresAt":"2026-11-14T22:50:00.123Z"}`
	for name, r := range map[string]struct{ method, body, want string }{
		"root":               {"me", `{"people":[` + maya + `]}`, mayaResult},
		"nothing else":       {"me", `{"people":[{"id":"1","name":"x","labels":[]}]}`, `{"id":"1","name":"x","firstLabel":null,"labelIds":[],"expiresAt":null}`},
		"no labels":          {"me", `{"people":[{"id":"1","name":"x"}]}`, `{"id":"1","name":"x","firstLabel":null,"labelIds":[],"expiresAt":null}`},
		"fields at the root": {"stats", `{"people":[{"free":3}]}`, `{"free":3,"kind":"stats"}`},
		"no root":            {"count", `{"total":3}`, `{"total":3}`},
		"constants":          {"delete", ``, `{"deleted":true}`},
		"a page":             {"list", `{"people":[` + maya + `],"meta":{"page":1,"pages":3}}`, `{"items":[` + mayaResult + `],"nextCursor":"2","hasMore":true}`},
		"the last page":      {"list", `{"people":[],"meta":{"page":3,"pages":3}}`, `{"items":[],"nextCursor":null,"hasMore":false}`},
		"past the end":       {"list", `{"people":[],"meta":{"page":9,"pages":3}}`, `{"items":[],"nextCursor":null,"hasMore":false}`},
		"no pages":           {"list", `{"people":[],"meta":{"page":1,"pages":0}}`, `{"items":[],"nextCursor":null,"hasMore":false}`},
		"a whole list":       {"all", `{"everyone":[` + maya + `]}`, `{"items":[` + mayaResult + `],"nextCursor":null,"hasMore":false}`},
	} {
		got, err := method(t, c, "people", r.method).Result([]byte(r.body))
		if err != nil || string(got) != r.want {
			t.Errorf("%s: %s %v", name, got, err)
		}
	}
	for name, r := range map[string]struct{ method, body, want string }{
		"empty root":       {"me", `{"people":[]}`, "people.0: is missing"},
		"root is missing":  {"me", `{}`, "people.0: is missing"},
		"root is no list":  {"me", `{"people":{"id":"1"}}`, "people.0: is missing"},
		"a numeric id":     {"me", `{"people":[{"id":1,"name":"x"}]}`, "people.0.id: should be an id of the platform"},
		"another id":       {"me", `{"people":[{"id":"2","name":"x"}]}`, "people.0.id: should be an id of the platform"},
		"list of another":  {"me", `{"people":[{"id":"1","name":"x","label_ids":"1,2"}]}`, "people.0.label_ids.1: has an item"},
		"labels as text":   {"me", `{"people":[{"id":"1","name":"x","labels":"a"}]}`, "people.0.labels: should be an object"},
		"time as text":     {"me", `{"people":[{"id":"1","name":"x","expires_at":"now"}]}`, "people.0.expires_at: should be milliseconds since 1970"},
		"fields":           {"stats", `{"people":[]}`, "people.0: is missing"},
		"page as a text":   {"list", `{"people":[],"meta":{"page":"1","pages":3}}`, "meta.page: should be the number of a page"},
		"a negative page":  {"list", `{"people":[],"meta":{"page":-1,"pages":3}}`, "meta.page: should be the number of a page"},
		"half a page":      {"list", `{"people":[],"meta":{"page":1.5,"pages":3}}`, "meta.page: should be the number of a page"},
		"no last page":     {"list", `{"people":[],"meta":{"page":1,"pages":null}}`, "meta.pages: should be the number of a page"},
		"items are absent": {"list", `{"meta":{"page":1,"pages":1}}`, "people: should be an array"},
	} {
		if got, err := method(t, c, "people", r.method).Result([]byte(r.body)); !errors.Is(err, catalog.ErrChanged) || !strings.Contains(err.Error(), r.want) {
			t.Errorf("%s: %s %v", name, got, err)
		}
	}
}

// Rules about refusals use texts and numbers as codes, the beginning of a message, and waits of the manifest's.
func TestClassifyByTextAndMessage(t *testing.T) {
	t.Parallel()
	c := sites(t)
	for name, r := range map[string]struct {
		status int
		header http.Header
		body   string
		want   catalog.Refusal
	}{
		"the first code":  {400, nil, `{"errors":[{"code":"X","type":"Y"}]}`, catalog.Refusal{Kind: catalog.RefusedRejected, Code: "X"}},
		"the second code": {400, nil, `{"errors":[{"code":null,"type":"Locked"}]}`, catalog.Refusal{Kind: catalog.RefusedRestricted, Code: "Locked"}},
		"a number":        {400, nil, `{"errors":[{"code":13}]}`, catalog.Refusal{Kind: catalog.RefusedRestricted, Code: "13"}},
		"a message":       {403, nil, `{"errors":[{"message":"No session"}]}`, catalog.Refusal{Kind: catalog.RefusedSession, Message: "No session"}},
		"a longer message": {403, nil, `{"errors":[{"message":"No session, really"}]}`,
			catalog.Refusal{Kind: catalog.RefusedForbidden, Message: "No session, really"}},
		"a beginning":         {400, nil, `{"errors":[{"message":"Wrong origin: x"}]}`, catalog.Refusal{Kind: catalog.RefusedSession, Message: "Wrong origin: x"}},
		"both":                {503, nil, `{"errors":[{"code":"Busy"}]}`, catalog.Refusal{Kind: catalog.RefusedUnavailable, Code: "Busy", RetryAfter: 5 * time.Second}},
		"one of both":         {501, nil, `{"errors":[{"code":"Busy"}]}`, catalog.Refusal{Kind: catalog.RefusedError, Code: "Busy"}},
		"a wait":              {429, nil, `{}`, catalog.Refusal{Kind: catalog.RefusedRateLimited, RetryAfter: 10 * time.Minute}},
		"a wait of its own":   {429, http.Header{"Retry-After": {"3"}}, `{}`, catalog.Refusal{Kind: catalog.RefusedRateLimited, RetryAfter: 3 * time.Second}},
		"a wait in the body":  {429, nil, `{"errors":[{"wait":4}]}`, catalog.Refusal{Kind: catalog.RefusedRateLimited, RetryAfter: 4 * time.Second}},
		"no list":             {403, nil, `{"errors":{"code":"X"}}`, catalog.Refusal{Kind: catalog.RefusedForbidden}},
		"an empty list":       {403, nil, `{"errors":[]}`, catalog.Refusal{Kind: catalog.RefusedForbidden}},
		"an unprintable code": {403, nil, `{"errors":[{"code":"a\u0000\nb"}]}`, catalog.Refusal{Kind: catalog.RefusedForbidden, Code: "a b"}},
		"a long code": {403, nil, `{"errors":[{"code":"` + strings.Repeat("x", 200) + `"}]}`,
			catalog.Refusal{Kind: catalog.RefusedForbidden, Code: strings.Repeat("x", 100)}},
	} {
		if got := c.Classify(r.status, r.header, []byte(r.body)); !sameRefusal(got, r.want) {
			t.Errorf("%s: %+v, want %+v", name, got, r.want)
		}
	}
}

// A failed step is what the first rule says whose conditions all hold.
func TestFailureByCondition(t *testing.T) {
	t.Parallel()
	c := sites(t)
	for name, r := range map[string]struct {
		step   string
		status int
		header http.Header
		body   string
		want   string
		wait   time.Duration
	}{
		"step and status":     {catalog.StepCode, 401, nil, "Unauthorized", "wrong_code", 0},
		"another step":        {catalog.StepCredentials, 401, nil, "Unauthorized", "", 0},
		"a text":              {catalog.StepCredentials, 422, nil, `{"errors":[{"code":"PASSWORD"}]}`, "invalid_credentials", 0},
		"a number":            {catalog.StepCode, 422, nil, `{"errors":[{"code":12}]}`, "invalid_credentials", 0},
		"a message":           {catalog.StepCredentials, 403, nil, `{"errors":[{"message":"Suspended."}]}`, "account_banned", 0},
		"another message":     {catalog.StepCredentials, 403, nil, `{"errors":[{"message":"Suspended"}]}`, "", 0},
		"a beginning":         {catalog.StepCredentials, 403, nil, `{"errors":[{"message":"Locked by x"}]}`, "account_locked", 0},
		"another status":      {catalog.StepCredentials, 400, nil, `{"errors":[{"message":"Locked by x"}]}`, "", 0},
		"a wait":              {catalog.StepCredentials, 429, nil, ``, "upstream_rate_limited", time.Hour},
		"a wait of its own":   {catalog.StepCredentials, 429, http.Header{"Retry-After": {"7"}}, ``, "upstream_rate_limited", 7 * time.Second},
		"a wait of the kind":  {catalog.StepCode, 429, nil, ``, "", 10 * time.Minute},
		"any refusal of step": {catalog.StepResend, 400, nil, ``, "step_refused", 0},
	} {
		refusal := c.Classify(r.status, r.header, []byte(r.body))
		if code, wait := c.SignIn.Failure(r.step, r.status, refusal); code != r.want || wait != r.wait {
			t.Errorf("%s: %q after %s", name, code, wait)
		}
	}
}

// A challenge by code has no token, and the code has been sent.
func TestChallengeByCode(t *testing.T) {
	t.Parallel()
	c := sites(t)
	for body, want := range map[string]bool{
		`{"errors":[{"code":"CODE_NEEDED"}]}`: true, `{"errors":[{"code":77}]}`: true, `{"errors":[{"code":null,"type":"CODE_NEEDED"}]}`: true,
		`{"errors":[{"code":"OTHER"}]}`: false, `{}`: false, ``: false,
	} {
		ch, ok := c.SignIn.Challenge([]byte(body), c.Classify(403, nil, []byte(body)))
		if ok != want {
			t.Errorf("%s: %v", body, ok)
		}
		if ok && (!ch.Token.Empty() || ch.Channel != catalog.ChannelEmail || !ch.Sent || ch.Lasts != 10*time.Minute || !ch.ExpiresAt.IsZero()) {
			t.Errorf("%+v", ch)
		}
	}
	if ch, ok := c.SignIn.Challenge([]byte("Created"), catalog.Refusal{}); ok {
		t.Errorf("a success is a challenge: %+v", ch)
	}
	req, err := c.SignIn.Answer(secret.String{}, secret.New("123456"))
	if err != nil || req.Path != "/admin/api/session/verify/" || string(req.Body) != `{"token":"123456"}` {
		t.Errorf("%s %v", req.Path, err)
	}
	if s := c.Session; s.Cookies.Owner != "" || !slices.Equal(s.Cookies.Remember, []string{"sid"}) || s.Send.Get("Origin") != "$origin" {
		t.Errorf("%+v", s)
	}
}

// A feed asks for the items of a window in the platform's notation of times.
func TestFeedRequest(t *testing.T) {
	t.Parallel()
	p := sites(t).Poll
	activity, posts := p.Feeds[0], p.Feeds[1]
	if p.Every != 5*time.Second || p.Idle != 2*time.Minute || activity.Name != "activity" || activity.Every != 20*time.Second ||
		activity.Overlap != 2*time.Minute || activity.Limit != 3 || posts.Every != 0 || posts.Overlap != 24*time.Hour {
		t.Errorf("%+v %+v %+v", p, activity, posts)
	}
	since := time.Date(2026, 11, 14, 22, 50, 0, 999, time.FixedZone("", 3600))
	until := since.Add(time.Hour)
	for name, r := range map[string]struct {
		feed         *catalog.Feed
		since, until time.Time
		path, query  string
	}{
		"ObjectId": {activity, since, until, "/admin/api/events/", "filter=id%3A%3E%276af8d7880000000000000000%27%2Bid%3A%3C%276af8e5980000000000000000%27&limit=3"},
		"no end":   {activity, since, time.Time{}, "/admin/api/events/", "filter=id%3A%3E%276af8d7880000000000000000%27%2Bid%3A%3C%27f48657000000000000000000%27&limit=3"},
		"before 1970": {activity, time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC), until, "/admin/api/events/",
			"filter=id%3A%3E%27000000000000000000000000%27%2Bid%3A%3C%276af8e5980000000000000000%27&limit=3"},
		"text": {posts, since, until, "/admin/api/posts/", "after=2026-11-14+21%3A50%3A00&before=2026-11-14+22%3A50%3A00"},
	} {
		req := r.feed.Request(r.since, r.until)
		if req.Method != http.MethodGet || req.Path != r.path || req.Query != r.query {
			t.Errorf("%s: %s %s?%s", name, req.Method, req.Path, req.Query)
		}
	}
	for notation, want := range map[string]string{
		"rfc3339": "after=2026-11-14T21%3A50%3A00Z&before=2026-11-14T22%3A50%3A00Z",
		"unix":    "after=1794693000&before=1794696600",
	} {
		c, err := catalog.Load(edited(t, filesOf(t, "sites"), "upstream.yaml", "times: sqltime", "times: "+notation))
		must.OK(t, err)
		if req := c.Poll.Feeds[1].Request(since, until); req.Query != want {
			t.Errorf("%s: %s", notation, req.Query)
		}
	}
}

// The items of a feed have keys, times and events. An item without an event does not prevent the others.
func TestFeedItems(t *testing.T) {
	t.Parallel()
	c := sites(t)
	activity, posts := c.Poll.Feeds[0], c.Poll.Feeds[1]
	const second = "6a18c938"
	at := time.Date(2026, 5, 28, 23, 1, 12, 0, time.UTC) // 0x6a18c938
	signup := func(id, member string) string {
		return `{"type":"signup_event","data":{"id":"` + id + `","created_at":"2026-01-01T00:00:00.000Z","member_id":` + member + `}}`
	}
	body := `{"events":[` + strings.Join([]string{
		signup(second+"00000000000000aa", `"1"`),
		signup(second+"00000000000000ab", `"`+anID+`"`), // in the same second, and dated back like the first
		signup(second+"00000000000000ac", `7`),
		`{"type":"other_event","data":{"id":"` + second + `00000000000000aa"}}`,
		`{"type":"signup_event","data":{"id":"` + second + `00000000000000ad","created_at":"yesterday","member_id":"1"}}`,
		`{"type":"other_event","data":{"id":"` + second + `00000000000000ae","created_at":null}}`,
	}, ",") + `]}`
	items, err := c.Items(activity, []byte(body))
	must.OK(t, err)
	dated := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, want := range []catalog.Item{
		{Key: "activity:signup_event:" + second + "00000000000000aa", Event: catalog.Event{Kind: "joined", At: dated, Data: []byte(`{"personId":"1"}`)}},
		{Key: "activity:signup_event:" + second + "00000000000000ab", Event: catalog.Event{Kind: "joined", At: dated, Data: []byte(`{"personId":"` + anID + `"}`)}},
		{Key: "activity:signup_event:" + second + "00000000000000ac", Event: catalog.Event{Kind: "joined", At: dated}, Err: catalog.ErrChanged},
		{Key: "activity:other_event:" + second + "00000000000000aa", Err: catalog.ErrUnknownFrame},
		{Key: "activity:signup_event:" + second + "00000000000000ad", Err: catalog.ErrChanged},
		{Key: "activity:other_event:" + second + "00000000000000ae", Err: catalog.ErrUnknownFrame},
	} {
		got := items[i]
		if got.Key != want.Key || !got.At.Equal(at) || got.Event.UpstreamID != want.Key || got.Event.Kind != want.Event.Kind ||
			!got.Event.At.Equal(want.Event.At) || string(got.Event.Data) != string(want.Event.Data) || !errors.Is(got.Err, want.Err) {
			t.Errorf("item %d: %+v, want %+v", i, got, want)
		}
	}
	if len(items) != 6 {
		t.Errorf("%d items", len(items))
	}

	// A platform may compare times in one notation and write them in another.
	for _, updated := range []string{`"2026-11-14T22:50:00.750Z"`, `"2026-11-14T23:50:00+01:00"`, `"2026-11-14 22:50:00"`, `1794696600.5`} {
		items, err := c.Items(posts, []byte(`{"posts":[{"id":"`+anID+`","title":"Hi","updated_at":`+updated+`}]}`))
		must.OK(t, err)
		if len(items) != 1 || items[0].Key != "posts:"+anID || items[0].Err != nil || string(items[0].Event.Data) != `{"postId":"`+anID+`","title":"Hi"}` ||
			!items[0].At.Equal(time.Date(2026, 11, 14, 22, 50, 0, 0, time.UTC)) || items[0].Event.Kind != "posted" {
			t.Errorf("%s: %+v", updated, items)
		}
	}

	for name, r := range map[string]struct {
		feed *catalog.Feed
		body string
		want error
	}{
		"no JSON":         {activity, `<html>`, catalog.ErrInvalid},
		"no list":         {activity, `{}`, catalog.ErrChanged},
		"an object":       {activity, `{"events":{}}`, catalog.ErrChanged},
		"no key":          {activity, `{"events":[{"data":{"id":"` + anID + `"}}]}`, catalog.ErrChanged},
		"a strange key":   {posts, `{"posts":[{"id":"a\u0000b","updated_at":1}]}`, catalog.ErrChanged},
		"a long key":      {posts, `{"posts":[{"id":"` + strings.Repeat("x", 201) + `","updated_at":1}]}`, catalog.ErrChanged},
		"a short id":      {activity, `{"events":[{"type":"a","data":{"id":"6a18c938"}}]}`, catalog.ErrChanged},
		"an id of others": {activity, `{"events":[{"type":"a","data":{"id":"zzzzzzzz0000000000000000"}}]}`, catalog.ErrChanged},
		"no time":         {posts, `{"posts":[{"id":"1"}]}`, catalog.ErrChanged},
		"a null time":     {posts, `{"posts":[{"id":"1","updated_at":null}]}`, catalog.ErrChanged},
	} {
		if items, err := c.Items(r.feed, []byte(r.body)); !errors.Is(err, r.want) {
			t.Errorf("%s: %v %v", name, items, err)
		}
	}
	if items, err := c.Items(activity, []byte(`{"events":[]}`)); err != nil || len(items) != 0 {
		t.Errorf("%v %v", items, err)
	}
}

// A method that takes a file is used by the forms only.
func TestForms(t *testing.T) {
	t.Parallel()
	c := sites(t)
	for media, want := range map[string]string{
		"image/png": "uploads.image", "IMAGE/JPEG": "uploads.image", "image/svg+xml; charset=utf-8": "uploads.image", "application/x-icon": "uploads.image",
		"video/mp4": "uploads.any", "imagery/png": "uploads.any", "application/x-icon2": "uploads.any", "": "uploads.any",
	} {
		if form, ok := c.Files.FormFor(media); !ok || form.Method.ID() != want || form.Field != "file" {
			t.Errorf("%s: %+v", media, form)
		}
	}
	form, _ := c.Files.FormFor("image/png")
	args, err := form.Args()
	must.OK(t, err)
	req, fields := form.Request(args)
	want := []catalog.FormField{{Name: "purpose", Value: "image"}, {Name: "width", Value: "100"}, {Name: "ref", Value: "a b"}}
	if req.Method != http.MethodPost || req.Path != "/admin/api/images/upload/" || req.Body != nil || !slices.Equal(fields, want) {
		t.Errorf("%s %s %v", req.Method, req.Path, fields)
	}
	args, err = form.Method.FromObject([]byte(`{"purpose":"a \"b\"","tags":["x","y"]}`), false)
	must.OK(t, err)
	if _, fields = form.Request(args); fields[0].Value != `a "b"` || fields[1].Value != "x,y" {
		t.Errorf("%v", fields)
	}
	result, err := form.Method.Result([]byte(`{"files":[{"url":"https://x.test/content/a.png","ref":null}]}`))
	must.OK(t, err)
	if address, ok := form.URL(result); !ok || address != "https://x.test/content/a.png" {
		t.Errorf("%s %v", address, ok)
	}
	if address, ok := form.URL([]byte(`{"url":""}`)); ok {
		t.Errorf("%q is a URL", address)
	}
	if _, ok := c.Method("uploads", "image"); ok {
		t.Error("the method can be called")
	}
	if _, ok := c.Resource("uploads"); ok || slices.ContainsFunc(c.Methods(), func(m *catalog.Method) bool { return m.Resource == "uploads" }) {
		t.Error("the method is listed")
	}
	without, err := catalog.Load(edited(t, filesOf(t, "sites"), "upstream.yaml", "    - {method: uploads.any, field: file, url: url}\n", "    - {method: uploads.any, field: file, types: [video/*], url: url}\n"))
	must.OK(t, err)
	if form, ok := without.Files.FormFor("text/plain"); ok {
		t.Errorf("%+v", form)
	}
}
