package testnode

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/stamp/stamptest"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
)

// script is a text file that shows calls and what must be answered to them:
//
//	# What this proves, in a sentence.
//	# limits: callsPerMinute=3 maxKeys=2      of the file's org, where they differ from its plan
//	# node: own                               a node and a database that no other file uses
//	> POST /v1/me/keys   (key: me:read me:write)
//	> X-Request-Id: abc
//	> {"label":"ci"}
//	< 201 application/json
//	< Cache-Control: no-store
//	< {"key":"sd_sandbox_*","id":"$id:key_","label":"ci", …}
//	$ID = id
//	> DELETE /v1/me/keys/$ID
//	< 200 application/json
//	< {"id":"$ID","revoked":true}
//
// Requests. The first line may end in (key: …): default (the org's first key), none, garbage, unknown (well-formed, but
// nobody's), revoked, expired, other-org, operator, a variable, member and a role, for the browser of a member of the org who has it, or
// scopes, for a key that holds just these. Paths under
// /admin/ go to the internal listener with the operators' token, others to the public one; (at: internal) and (at: public)
// override that. Header lines and the body follow; a line ">" ends the headers of a body that looks like one. A body is
// sent as it stands, as application/json unless a header says otherwise; the value - sends no such header.
//
// Answers. The status, the whole Content-Type, headers (- means not sent), and the body. JSON is compared as a whole: a
// member that is added or lost fails. A closing … lets an object have more members, an array more elements. Strings are
// patterns: "*" stands for anything, "$str" for any text but none, "$time" for a time in UTC, "$id:key_" for an id of that
// kind, "$re:…" for a regular expression; "$int" and "$any" stand for values of other types. Of a body that is
// not JSON, every line is a pattern of all of it. Without a line the body must be empty.
//
// Every problem is held against the catalogue, its request's id and its headers, so type, title, status and instance
// can be left out, and so can logUrl.
//
// $NAME = path.to.0.value keeps a part of the last answer. Each file has two orgs to itself: $ORG with $KEY and $KEY_ID, and
// $OTHER_ORG, made after it, with $OTHER_KEY and $OTHER_KEY_ID. $(TEXT*N) is TEXT N times; TEXT may use Go's escapes.
type script struct {
	path    string
	limits  map[string]int
	ownNode bool
	steps   []*step
}

// step is one request and its answer. Pairs are names and values.
type step struct {
	line                    int
	method, target, key, at string
	headers                 [][2]string
	body                    []string

	status   int
	media    string
	expected [][2]string
	want     []string
	keep     [][2]string
}

var (
	headerLine   = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*):(?: (.*))?$`)
	requestLine  = regexp.MustCompile(`^([A-Z]+) (/\S*)((?:\s+\((?:key|at): [^)]*\))*)$`)
	requestPart  = regexp.MustCompile(`\((key|at): ([^)]*)\)`)
	keepLine     = regexp.MustCompile(`^\$([A-Z][A-Z0-9_]*) = (\S+)$`)
	limitPart    = regexp.MustCompile(`(\w+)=(-?\d+)`)
	variable     = regexp.MustCompile(`\$\(((?:[^*\\]|\\.)+)\*(\d+)\)|\$([A-Z][A-Z0-9_]*)`)
	scriptName   = regexp.MustCompile(`^[1-5]\d\d(-[a-z0-9]+)*\.txt$`)
	moreMembers  = regexp.MustCompile(`…(\s*\})`)
	moreElements = regexp.MustCompile(`…(\s*\]|\s*$)`)
	idForm       = regexp.MustCompile(`^[a-z]+_[0-7][0-9a-hjkmnp-tv-z]{25}$`)
)

func readScript(path string) (*script, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &script{path: path, limits: map[string]int{}}
	inside, headers := "", false // which half of a step, and whether headers may still follow
	for i, line := range strings.Split(string(text), "\n") {
		kind, rest := line[:min(1, len(line))], strings.TrimPrefix(line[min(1, len(line)):], " ")
		ok := true
		switch {
		case kind == "#":
			s.setting(rest)
		case kind == ">" && inside != ">":
			s.steps = append(s.steps, &step{line: i + 1})
			ok, inside, headers = s.last().parseRequest(rest), kind, true
		case kind == ">":
			headers = take(rest, headers, &s.last().headers, &s.last().body)
		case kind == "<" && inside == ">":
			ok, inside, headers = s.last().parseAnswer(rest), kind, true
		case kind == "<" && inside == "<":
			headers = take(rest, headers, &s.last().expected, &s.last().want)
		case kind == "$" && inside == "<" && keepLine.MatchString(line):
			m := keepLine.FindStringSubmatch(line)
			s.last().keep = append(s.last().keep, [2]string{m[1], m[2]})
		default:
			ok = line == ""
		}
		if !ok {
			return nil, fmt.Errorf("%s:%d: not understood: %s", path, i+1, line)
		}
	}
	if !strings.HasPrefix(string(text), "# ") || inside != "<" {
		return nil, fmt.Errorf("%s must begin with a comment that says what it proves, and end with an answer", path)
	}
	return s, nil
}

func (s *script) last() *step { return s.steps[len(s.steps)-1] }

func (s *script) setting(comment string) {
	s.ownNode = s.ownNode || comment == "node: own"
	if limits, ok := strings.CutPrefix(comment, "limits: "); ok {
		for _, m := range limitPart.FindAllStringSubmatch(limits, -1) {
			s.limits[m[1]], _ = strconv.Atoi(m[2])
		}
	}
}

func (s *step) parseRequest(line string) bool {
	m := requestLine.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	options := map[string]string{"key": "default", "at": "public"}
	if strings.HasPrefix(m[2], "/admin/") {
		options = map[string]string{"key": "operator", "at": "internal"}
	}
	for _, o := range requestPart.FindAllStringSubmatch(m[3], -1) {
		options[o[1]] = o[2]
	}
	s.method, s.target, s.key, s.at = m[1], m[2], options["key"], options["at"]
	return true
}

func (s *step) parseAnswer(line string) bool {
	status, media, _ := strings.Cut(line, " ")
	n, err := strconv.Atoi(status)
	s.status, s.media = n, media
	return err == nil
}

// take puts a line among the headers or into the body, and says whether another header may follow.
func take(line string, mayBeHeader bool, headers *[][2]string, body *[]string) bool {
	if m := headerLine.FindStringSubmatch(line); mayBeHeader && m != nil {
		*headers = append(*headers, [2]string{m[1], m[2]})
		return true
	}
	if !mayBeHeader || line != "" {
		*body = append(*body, line)
	}
	return false
}

// readScripts reads all scripts below a folder, by the folder they are in.
func readScripts(t testing.TB, dir string) map[string][]*script {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts below %s: %v", dir, err)
	}
	found := map[string][]*script{}
	for _, path := range paths {
		s, err := readScript(path)
		if err != nil || !scriptName.MatchString(filepath.Base(path)) {
			t.Errorf("%s is no script <status>[-<what>].txt: %v", path, err)
			continue
		}
		folder := filepath.Base(filepath.Dir(path))
		found[folder] = append(found[folder], s)
	}
	return found
}

// RunScripts runs every script below a folder against a node, each with orgs of its own.
func RunScripts(t *testing.T, node *Node, dir string) {
	t.Helper()
	scripts := readScripts(t, dir)
	documents := map[string]*document{}
	text, err := node.App.API().OpenAPI()
	documents["public"] = readDocument(t, text, err)
	text, err = node.App.Admin().OpenAPI()
	documents["internal"] = readDocument(t, text, err)
	for _, folder := range slices.Sorted(maps.Keys(scripts)) {
		for _, s := range scripts[folder] {
			t.Run(folder+"/"+strings.TrimSuffix(filepath.Base(s.path), ".txt"), func(t *testing.T) {
				t.Parallel()
				r := &run{T: t, node: node, script: s, documents: documents, browsers: map[string]*Browser{}}
				if s.ownNode {
					r.node = Nodes(t, 1, Setup{})[0]
				}
				mine, other := r.node.NewOrg(t, s.limits), r.node.NewOrg(t, nil)
				r.vars = map[string]string{
					"ORG": mine.ID, "KEY": mine.Key, "KEY_ID": mine.KeyID,
					"OTHER_ORG": other.ID, "OTHER_KEY": other.Key, "OTHER_KEY_ID": other.KeyID,
				}
				for _, step := range s.steps {
					r.step(step)
				}
			})
		}
	}
}

// RequireScripts fails unless the scripts below a folder prove, for each operation, its success and every kind of problem
// that demanded lists, and no folder is about nothing. Folders that begin with _ are about no single operation.
func RequireScripts(t testing.TB, dir string, operations []endpoint.Operation, demanded func(endpoint.Operation) []problem.Kind) {
	t.Helper()
	scripts := readScripts(t, dir)
	mux := http.NewServeMux()
	for _, op := range operations {
		mux.Handle(op.Method+" "+op.Path, http.NotFoundHandler())
	}
	for _, op := range operations {
		proven := map[string]bool{}
		for _, s := range scripts[op.ID] {
			if !s.prove(mux, op.Method+" "+op.Path, proven) {
				t.Errorf("%s has no call of %s that is answered like that", s.path, op.ID)
			}
		}
		if !proven[strconv.Itoa(op.Status)] {
			t.Errorf("%s/%s: no script shows it succeed with %d", dir, op.ID, op.Status)
		}
		for _, k := range demanded(op) {
			if !proven[k.Code] {
				t.Errorf("%s/%s: no script shows it answer %d %s", dir, op.ID, k.Status, k.Code)
			}
		}
		delete(scripts, op.ID)
	}
	for folder := range scripts {
		if !strings.HasPrefix(folder, "_") {
			t.Errorf("%s/%s is about no operation", dir, folder)
		}
	}
}

// prove notes the statuses and codes that a script shows of an operation, and says whether the status in its name is one.
func (s *script) prove(mux *http.ServeMux, operation string, proven map[string]bool) (promised bool) {
	for _, step := range s.steps {
		target, err := url.Parse(step.target)
		if err != nil {
			continue // running it will say so
		}
		_, pattern := mux.Handler(&http.Request{Method: step.method, URL: target})
		if pattern != operation || !strings.HasPrefix(operation, step.method+" ") {
			continue
		}
		status := strconv.Itoa(step.status)
		proven[status] = true
		promised = promised || strings.HasPrefix(filepath.Base(s.path), status)
		if body, err := decode(loosen(strings.Join(step.want, "\n"))); err == nil && step.media == problem.ContentType {
			proven[fmt.Sprint(part(body, "code"))] = true
		}
	}
	return promised
}

// run is one script on its way. Its vars also hold, by their descriptions, the keys that were made for it.
type run struct {
	*testing.T
	node   *Node
	script *script
	vars   map[string]string
	// documents are those of the two listeners; every answer must be one that they describe.
	documents map[string]*document
	// browsers are those of members, by their roles.
	browsers map[string]*Browser
}

func (r *run) step(s *step) {
	r.Helper()
	sent, want := r.expand(strings.Join(s.body, "\n")), r.expand(strings.Join(s.want, "\n"))
	req := r.request(s, sent)
	reply, err := Send(req)
	if err != nil {
		r.Fatalf("%s:%d: %s %s: %v", r.script.path, s.line, s.method, s.target, err)
	}
	faults := append(r.judge(s, want, reply), r.documents[s.at].judge(req, reply)...)
	faults = append(faults, stamptest.Loose(reply.Body)...)
	body, _ := decode(string(reply.Body))
	for _, k := range s.keep {
		value := part(body, k[1])
		if value == nil {
			faults = append(faults, "there is no "+k[1]+" to keep")
		}
		r.vars[k[0]] = fmt.Sprint(value)
	}
	if len(faults) > 0 {
		r.Fatalf("%s:%d: %s %s (key: %s)\n  sent: %.800s\n  want: %d %s %.800s\n  got:  %d %s %.800s\n  - %s", r.script.path, s.line,
			s.method, req.URL.RequestURI(), s.key, sent, s.status, s.media, want,
			reply.Status, reply.Header.Get("Content-Type"), reply.Body, strings.Join(faults, "\n  - "))
	}
}

func (r *run) request(s *step, body string) *http.Request {
	r.Helper()
	base := r.node.URL
	if s.at == "internal" {
		base = r.node.Internal
	}
	// An empty reader is no body to net/http.
	req, err := http.NewRequestWithContext(r.Context(), s.method, base+r.expand(s.target), strings.NewReader(body))
	if err != nil {
		r.Fatalf("%s:%d: %v", r.script.path, s.line, err)
	}
	for _, h := range s.headers {
		req.Header.Add(h[0], r.expand(h[1]))
	}
	if s.body != nil && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if role, ok := strings.CutPrefix(s.key, "member "); ok {
		r.signIn(req, role)
	} else if token := r.token(s.key); token != "" && req.Header["Authorization"] == nil {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	maps.DeleteFunc(req.Header, func(_ string, values []string) bool { return values[0] == "-" })
	return req
}

// expand fills in variables and repetitions.
func (r *run) expand(text string) string {
	r.Helper()
	return variable.ReplaceAllStringFunc(text, func(found string) string {
		m := variable.FindStringSubmatch(found)
		if m[1] != "" {
			if text, err := strconv.Unquote(`"` + m[1] + `"`); err == nil {
				m[1] = text
			}
			n, _ := strconv.Atoi(m[2])
			return strings.Repeat(m[1], n)
		}
		value, ok := r.vars[m[3]]
		if !ok {
			r.Fatalf("%s: nothing has set %s", r.script.path, found)
		}
		return value
	})
}

// fixedKeys need not be made. The unknown one has the form and the checksum of a key.
var fixedKeys = map[string]string{
	"none": "", "default": "$KEY", "other-org": "$OTHER_KEY", "operator": AdminToken, "garbage": "not-a-key",
	"unknown": "sd_sandbox_0000000000000000000000000000000000000000000" + "1Ifomn",
}

// signIn makes a request that of a member's browser. Each role of a file is one person.
func (r *run) signIn(req *http.Request, role string) {
	r.Helper()
	if r.browsers[role] == nil {
		org := r.expand("$ORG")
		r.browsers[role] = r.node.Join(r, org, role+"."+org+"@example.test", role)
	}
	b := r.browsers[role]
	req.AddCookie(&http.Cookie{Name: member.Cookie, Value: b.Cookie})
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	req.Header.Set(member.OrgHeader, b.Org)
}

// token finds or makes the key that a request is to be made with.
func (r *run) token(name string) string {
	r.Helper()
	if key, ok := fixedKeys[name]; ok {
		return r.expand(key)
	}
	if strings.HasPrefix(name, "$") {
		return r.expand(name)
	}
	if r.vars[name] == "" {
		r.vars[name] = r.makeKey(name)
	}
	return r.vars[name]
}

func (r *run) makeKey(name string) string {
	r.Helper()
	var reply Reply
	switch first := r.expand("$KEY"); name {
	case "revoked":
		made := r.node.Mint(r, first)
		r.node.Call(r, http.MethodDelete, "/v1/me/keys/"+made.KeyID, first, nil)
		return made.Key
	case "expired":
		ends := time.Now().Add(2 * time.Second)
		reply = r.node.Call(r, http.MethodPost, "/v1/me/keys", first, map[string]any{"label": "short", "expiresAt": ends})
		<-time.After(time.Until(ends))
	default:
		// Operators' calls are not counted, so that the org's limits stay what the file says.
		reply = r.node.Operate(r, http.MethodPost, "/admin/v1/orgs/"+r.expand("$ORG")+"/keys",
			map[string]any{"label": name, "scopes": strings.Fields(name)})
	}
	if reply.Status != http.StatusCreated {
		r.Fatalf("make a key (%s): %d %s", name, reply.Status, reply.Body)
	}
	return reply.JSON()["key"].(string)
}

// judge lists what is other than the step wants.
func (r *run) judge(s *step, want string, reply Reply) (faults []string) {
	r.Helper()
	media := reply.Header.Get("Content-Type")
	if reply.Status != s.status || !like(s.media, media) {
		faults = append(faults, "the status or the media type is another")
	}
	for _, h := range s.expected {
		got := "-"
		if values := reply.Header.Values(h[0]); len(values) > 0 {
			got = strings.Join(values, ", ")
		}
		faults = append(faults, match(h[0], r.expand(h[1]), got)...)
	}
	for _, name := range []string{"X-Request-Id", "X-Content-Type-Options", "Content-Security-Policy", "Referrer-Policy", "Cache-Control"} {
		if reply.Header.Get(name) == "" {
			faults = append(faults, name+" is missing, which every answer has")
		}
	}
	if kind, _, _ := strings.Cut(media, ";"); strings.HasSuffix(kind, "json") && want != "" {
		return append(faults, judgeJSON(want, reply)...)
	}
	if want == "" && len(reply.Body) > 0 {
		return append(faults, "the body must be empty")
	}
	for _, line := range strings.Split(want, "\n") {
		if want != "" && !like(line, string(reply.Body)) {
			faults = append(faults, "the body is not like "+line)
		}
	}
	return faults
}

// judgeJSON compares a body with a pattern. What judgeProblem looks at need not be in it.
func judgeJSON(want string, reply Reply) (faults []string) {
	pattern, err := decode(loosen(want))
	if err != nil {
		return []string{"the expected body is not JSON: " + err.Error()}
	}
	got, err := decode(string(reply.Body))
	if err != nil {
		return []string{"the body is not JSON: " + err.Error()}
	}
	if members, ok := got.(map[string]any); ok && reply.Header.Get("Content-Type") == problem.ContentType {
		faults = judgeProblem(reply, members)
		for _, name := range []string{"type", "title", "status", "instance", "logUrl"} {
			if part(pattern, name) == nil {
				delete(members, name)
			}
		}
	}
	return append(faults, match("", pattern, got)...)
}

// judgeProblem holds a problem against what is promised of all of them.
func judgeProblem(reply Reply, members map[string]any) (faults []string) {
	kind, ok := problem.Lookup(fmt.Sprint(members["code"]))
	if !ok || kind.Status != reply.Status {
		return []string{"the code is not in the catalogue, or has another status there"}
	}
	page := problem.TypeURL("http://stagedoor.test/problems", kind)
	wait, _ := members["retryAfterSec"].(json.Number)
	challenged := strings.HasPrefix(reply.Header.Get("WWW-Authenticate"), "Bearer")
	instance := any("urn:request:" + reply.Header.Get("X-Request-Id"))
	if reply.Header.Get("Idempotency-Replayed") != "" {
		instance = members["instance"] // that of the request which was answered first
	}
	log := members["logUrl"] // only where somebody is known who may read it
	if log != nil {
		log = "http://stagedoor.test/v1/logs/" + strings.TrimPrefix(fmt.Sprint(instance), "urn:request:")
	}
	for _, rule := range []struct {
		name      string
		want, got any
	}{
		{"logUrl", log, members["logUrl"]},
		{"type", page, members["type"]},
		{"title", kind.Title, members["title"]},
		{"status", strconv.Itoa(kind.Status), fmt.Sprint(members["status"])},
		{"instance", instance, members["instance"]},
		{"Link", "<" + page + `>; rel="type"`, reply.Header.Get("Link")},
		{"Retry-After", wait.String(), reply.Header.Get("Retry-After")},
		{"WWW-Authenticate", reply.Status == http.StatusUnauthorized, challenged},
	} {
		if rule.want != rule.got {
			faults = append(faults, fmt.Sprintf("the problem's %s: want %v, got %v", rule.name, rule.want, rule.got))
		}
	}
	return faults
}

// loosen turns a closing … into JSON: a member or an element that match knows.
func loosen(text string) string {
	return moreElements.ReplaceAllString(moreMembers.ReplaceAllString(text, `"…":0$1`), `"…"$1`)
}

func decode(text string) (value any, err error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	err = dec.Decode(&value)
	return value, err
}

// part finds a part of a JSON value by its path; nil if there is none.
func part(value any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// match lists where a value is other than its pattern.
func match(at string, want, got any) []string {
	switch w := want.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			return matchObject(at, w, g)
		}
	case []any:
		if g, ok := got.([]any); ok {
			return matchArray(at, w, g)
		}
	case string:
		if matchString(w, got) {
			return nil
		}
	default:
		if want == got {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s: want %v, got %v", at, want, got)}
}

func matchObject(at string, want, got map[string]any) (faults []string) {
	_, more := want["…"]
	for name := range want {
		if _, ok := got[name]; !ok && name != "…" {
			faults = append(faults, at+"."+name+" is missing")
		}
	}
	for name, value := range got {
		if pattern, ok := want[name]; ok {
			faults = append(faults, match(at+"."+name, pattern, value)...)
		} else if !more {
			faults = append(faults, at+"."+name+" is not expected")
		}
	}
	slices.Sort(faults)
	return faults
}

func matchArray(at string, want, got []any) (faults []string) {
	if n := len(want); n > 0 && want[n-1] == "…" && len(got) >= n-1 {
		want, got = want[:n-1], got[:n-1]
	}
	if len(want) != len(got) {
		return []string{fmt.Sprintf("%s: want %d elements, got %d", at, len(want), len(got))}
	}
	for i := range want {
		faults = append(faults, match(at+"."+strconv.Itoa(i), want[i], got[i])...)
	}
	return faults
}

func matchString(pattern string, got any) bool {
	text, isText := got.(string)
	switch kind, rest, _ := strings.Cut(pattern, ":"); kind {
	case "$any", "…":
		return true
	case "$int":
		n, _ := got.(json.Number)
		_, err := n.Int64()
		return err == nil
	case "$str":
		return text != ""
	case "$id":
		return strings.HasPrefix(text, rest) && idForm.MatchString(text)
	case "$time":
		_, err := time.Parse(time.RFC3339Nano, text)
		return err == nil && strings.HasSuffix(text, "Z")
	case "$re":
		return isText && regexp.MustCompile(rest).MatchString(text)
	}
	return isText && like(pattern, text)
}

// like compares a text with a pattern in which * stands for anything.
func like(pattern, text string) bool {
	return regexp.MustCompile(`(?s)^` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`) + `$`).MatchString(text)
}
