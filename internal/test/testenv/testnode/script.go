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

// script is a text file with requests and expected responses:
//
//	# What this proves, in a sentence.
//	# limits: callsPerMinute=3 maxKeys=2      limits of the script's organisation that differ from its plan
//	# node: own                               use a node and a database that no other script uses
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
// Requests. The first line may end with (key: …), which selects who calls: default (the first key of the
// organisation), none, garbage, unknown (a well-formed key that does not exist), revoked, expired, other-org,
// operator, a variable, "member" and a role (the browser of a member with that role), "stale" and a role (the same
// with a sign-in that is an hour old), or a list of scopes (a key with exactly these). Paths under /admin/ go to the
// internal listener with the token of operators, all others to the public one; (at: internal) and (at: public)
// override that. Header lines and the body follow. An empty line ">" separates them if the body looks like a header.
// The body is sent unchanged, as application/json unless a header says otherwise. A header with the value - is not
// sent.
//
// Responses. The status, the whole Content-Type, headers (- means absent), and the body. JSON is compared completely:
// an additional or a missing member is a failure. A final … allows more members of an object, or more elements of an
// array. Strings are patterns: "*" matches anything, "$str" any text that is not empty, "$time" a time in UTC,
// "$id:key_" an id of that kind, and "$re:…" a regular expression. "$int" and "$any" match values of other types. If
// the body is not JSON, each line is a pattern for the whole body. Without body lines, the body must be empty.
//
// Every problem is compared with the catalogue, the id of its request and its headers. Therefore type, title, status,
// instance and logUrl need not be written.
//
// $NAME = path.to.0.value stores a part of the last response. Each script has two organisations of its own: $ORG with
// $KEY and $KEY_ID, and $OTHER_ORG, which is newer, with $OTHER_KEY and $OTHER_KEY_ID. $SITE is Setup.Site. $(TEXT*N)
// is TEXT repeated N times; TEXT may use the escapes of Go.
type script struct {
	path    string
	limits  map[string]int
	ownNode bool
	steps   []*step
}

// step is one request and its expected response. Pairs are names and values.
type step struct {
	line                    int
	method, target, key, at string
	headers                 [][2]string
	body                    []string

	status      int
	media       string
	wantHeaders [][2]string
	want        []string
	// stores are variables and the paths of their values.
	stores [][2]string
}

var (
	headerLine   = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*):(?: (.*))?$`)
	requestLine  = regexp.MustCompile(`^([A-Z]+) (/\S*)((?:\s+\((?:key|at): [^)]*\))*)$`)
	requestPart  = regexp.MustCompile(`\((key|at): ([^)]*)\)`)
	storeLine    = regexp.MustCompile(`^\$([A-Z][A-Z0-9_]*) = (\S+)$`)
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
			s.applySetting(rest)
		case kind == ">" && inside != ">":
			s.steps = append(s.steps, &step{line: i + 1})
			ok, inside, headers = s.last().parseRequest(rest), kind, true
		case kind == ">":
			headers = addLine(rest, headers, &s.last().headers, &s.last().body)
		case kind == "<" && inside == ">":
			ok, inside, headers = s.last().parseResponse(rest), kind, true
		case kind == "<" && inside == "<":
			headers = addLine(rest, headers, &s.last().wantHeaders, &s.last().want)
		case kind == "$" && inside == "<" && storeLine.MatchString(line):
			m := storeLine.FindStringSubmatch(line)
			s.last().stores = append(s.last().stores, [2]string{m[1], m[2]})
		default:
			ok = line == ""
		}
		if !ok {
			return nil, fmt.Errorf("%s:%d: syntax error: %s", path, i+1, line)
		}
	}
	if !strings.HasPrefix(string(text), "# ") || inside != "<" {
		return nil, fmt.Errorf("%s must start with a comment that says what it proves, and end with a response", path)
	}
	return s, nil
}

func (s *script) last() *step { return s.steps[len(s.steps)-1] }

// applySetting reads the settings "limits" and "node" from a comment. Other comments have no effect.
func (s *script) applySetting(comment string) {
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

func (s *step) parseResponse(line string) bool {
	status, media, _ := strings.Cut(line, " ")
	n, err := strconv.Atoi(status)
	s.status, s.media = n, media
	return err == nil
}

// addLine adds a line to the headers or to the body, and reports whether another header may follow.
func addLine(line string, mayBeHeader bool, headers *[][2]string, body *[]string) bool {
	if m := headerLine.FindStringSubmatch(line); mayBeHeader && m != nil {
		*headers = append(*headers, [2]string{m[1], m[2]})
		return true
	}
	if !mayBeHeader || line != "" {
		*body = append(*body, line)
	}
	return false
}

// readScripts reads all scripts below a folder. The keys are the names of their folders.
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
			t.Errorf("%s is not a script <status>[-<what>].txt: %v", path, err)
			continue
		}
		folder := filepath.Base(filepath.Dir(path))
		found[folder] = append(found[folder], s)
	}
	return found
}

// RunScripts runs the scripts of some operations below a folder, by default of all, against a node, in parallel. Each
// script has its own organisations.
func RunScripts(t *testing.T, node *Node, dir string, operations ...string) {
	t.Helper()
	scripts := readScripts(t, dir)
	documents := map[string]*document{}
	text, err := node.App.API().OpenAPI()
	documents["public"] = readDocument(t, text, err)
	text, err = node.App.Admin().OpenAPI()
	documents["internal"] = readDocument(t, text, err)
	if len(operations) == 0 {
		operations = slices.Sorted(maps.Keys(scripts))
	}
	for _, folder := range operations {
		if len(scripts[folder]) == 0 {
			t.Errorf("no scripts of %s", folder)
		}
		for _, s := range scripts[folder] {
			t.Run(folder+"/"+strings.TrimSuffix(filepath.Base(s.path), ".txt"), func(t *testing.T) {
				t.Parallel()
				r := &run{T: t, node: node, script: s, documents: documents, browsers: map[string]*Browser{}}
				if s.ownNode {
					r.node = Nodes(t, 1, Setup{})[0]
				}
				mine, other := r.node.NewOrg(t, s.limits), r.node.NewOrg(t, nil)
				r.vars = map[string]string{
					"ORG": mine.ID, "KEY": mine.Key, "KEY_ID": mine.KeyID, "SITE": node.Site,
					"OTHER_ORG": other.ID, "OTHER_KEY": other.Key, "OTHER_KEY_ID": other.KeyID,
				}
				for _, step := range s.steps {
					r.runStep(step)
				}
			})
		}
	}
}

// RequireScripts fails unless the scripts below a folder show, for each operation, its success and every kind of
// problem that demanded lists. The name of a folder is the id of an operation; a folder with another name is an
// error, unless it starts with _.
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
			if !s.collectProven(mux, op.Method+" "+op.Path, proven) {
				t.Errorf("%s has no call of %s with the status in its name", s.path, op.ID)
			}
		}
		if !proven[strconv.Itoa(op.Status)] {
			t.Errorf("%s/%s: no script shows a success with %d", dir, op.ID, op.Status)
		}
		for _, k := range demanded(op) {
			if !proven[k.Code] {
				t.Errorf("%s/%s: no script shows the problem %d %s", dir, op.ID, k.Status, k.Code)
			}
		}
		delete(scripts, op.ID)
	}
	for folder := range scripts {
		if !strings.HasPrefix(folder, "_") {
			t.Errorf("%s/%s is not an operation", dir, folder)
		}
	}
}

// collectProven adds the statuses and problem codes that a script shows for an operation to proven. It reports
// whether the status in the name of the script is one of them.
func (s *script) collectProven(mux *http.ServeMux, operation string, proven map[string]bool) (nameProven bool) {
	for _, step := range s.steps {
		target, err := url.Parse(step.target)
		if err != nil {
			continue // RunScripts reports it
		}
		_, pattern := mux.Handler(&http.Request{Method: step.method, URL: target})
		if pattern != operation || !strings.HasPrefix(operation, step.method+" ") {
			continue
		}
		status := strconv.Itoa(step.status)
		proven[status] = true
		nameProven = nameProven || strings.HasPrefix(filepath.Base(s.path), status)
		if body, err := decode(loosen(strings.Join(step.want, "\n"))); err == nil && step.media == problem.ContentType {
			proven[fmt.Sprint(part(body, "code"))] = true
		}
	}
	return nameProven
}

// run is the execution of one script.
type run struct {
	*testing.T
	node   *Node
	script *script
	// vars holds the variables, and by their descriptions (such as "me:read me:write") the keys that were created.
	vars map[string]string
	// documents holds the OpenAPI documents of the two listeners. Every response must match them.
	documents map[string]*document
	// browsers holds the browsers of members by their roles.
	browsers map[string]*Browser
}

// runStep makes a request and fails the test with all differences from the expected response.
func (r *run) runStep(s *step) {
	r.Helper()
	sent, want := r.expand(strings.Join(s.body, "\n")), r.expand(strings.Join(s.want, "\n"))
	req := r.newRequest(s, sent)
	reply, err := Send(req)
	if err != nil {
		r.Fatalf("%s:%d: %s %s: %v", r.script.path, s.line, s.method, s.target, err)
	}
	faults := append(r.checkReply(s, want, reply), r.documents[s.at].check(req, reply)...)
	faults = append(faults, stamptest.Loose(reply.Body)...)
	body, _ := decode(string(reply.Body))
	for _, k := range s.stores {
		value := part(body, k[1])
		if value == nil {
			faults = append(faults, "the response has no "+k[1]+" to store")
		}
		r.vars[k[0]] = fmt.Sprint(value)
	}
	if len(faults) > 0 {
		r.Fatalf("%s:%d: %s %s (key: %s)\n  sent: %.800s\n  want: %d %s %.800s\n  got:  %d %s %.800s\n  - %s", r.script.path, s.line,
			s.method, req.URL.RequestURI(), s.key, sent, s.status, s.media, want,
			reply.Status, reply.Header.Get("Content-Type"), reply.Body, strings.Join(faults, "\n  - "))
	}
}

func (r *run) newRequest(s *step, body string) *http.Request {
	r.Helper()
	base := r.node.URL
	if s.at == "internal" {
		base = r.node.Internal
	}
	// net/http sends no body for an empty reader.
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
	} else if role, ok := strings.CutPrefix(s.key, "stale "); ok {
		r.signIn(req, role)
		r.browsers[role].SetSignInAge(r, time.Hour)
	} else if token := r.token(s.key); token != "" && req.Header["Authorization"] == nil {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	maps.DeleteFunc(req.Header, func(_ string, values []string) bool { return values[0] == "-" })
	return req
}

// expand replaces variables and repetitions.
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
			r.Fatalf("%s: %s is not set", r.script.path, found)
		}
		return value
	})
}

// fixedKeys are keys that need not be created. The unknown one has the form and a valid checksum of a key.
var fixedKeys = map[string]string{
	"none": "", "default": "$KEY", "other-org": "$OTHER_KEY", "operator": AdminToken, "garbage": "not-a-key",
	"unknown": "sd_sandbox_0000000000000000000000000000000000000000000" + "1Ifomn",
}

// signIn turns a request into one of a member's browser. A script has one user per role.
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

// token returns the key for a request, and creates it if necessary.
func (r *run) token(name string) string {
	r.Helper()
	if key, ok := fixedKeys[name]; ok {
		return r.expand(key)
	}
	if strings.HasPrefix(name, "$") {
		return r.expand(name)
	}
	if r.vars[name] == "" {
		r.vars[name] = r.createKey(name)
	}
	return r.vars[name]
}

// createKey creates a key that is revoked, expired, or has the scopes in name.
func (r *run) createKey(name string) string {
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
		<-time.After(time.Until(ends) + time.Second) // the node goes by the database's clock, which it knows only about
	default:
		// Calls of operators do not count against the limits of the organisation.
		reply = r.node.operateWithConsent(r, r.expand("$ORG"), "/keys", map[string]any{"label": name, "scopes": strings.Fields(name)})
	}
	if reply.Status != http.StatusCreated {
		r.Fatalf("create a key (%s): %d %s", name, reply.Status, reply.Body)
	}
	return reply.JSON()["key"].(string)
}

// checkReply returns the differences between a response and what the step expects.
func (r *run) checkReply(s *step, want string, reply Reply) (faults []string) {
	r.Helper()
	media := reply.Header.Get("Content-Type")
	if reply.Status != s.status || !like(s.media, media) {
		faults = append(faults, "the status or the media type is wrong")
	}
	for _, h := range s.wantHeaders {
		got := "-"
		if values := reply.Header.Values(h[0]); len(values) > 0 {
			got = strings.Join(values, ", ")
		}
		faults = append(faults, match(h[0], r.expand(h[1]), got)...)
	}
	for _, name := range []string{"X-Request-Id", "X-Content-Type-Options", "Content-Security-Policy", "Referrer-Policy", "Cache-Control"} {
		if reply.Header.Get(name) == "" {
			faults = append(faults, name+" is missing, which every response must have")
		}
	}
	if kind, _, _ := strings.Cut(media, ";"); strings.HasSuffix(kind, "json") && want != "" {
		return append(faults, checkJSON(want, reply)...)
	}
	if want == "" && len(reply.Body) > 0 {
		return append(faults, "the body must be empty")
	}
	for _, line := range strings.Split(want, "\n") {
		if want != "" && !like(line, string(reply.Body)) {
			faults = append(faults, "the body does not match "+line)
		}
	}
	return faults
}

// checkJSON compares a body with a pattern. The pattern need not contain the members that checkProblem checks.
func checkJSON(want string, reply Reply) (faults []string) {
	pattern, err := decode(loosen(want))
	if err != nil {
		return []string{"the expected body is not JSON: " + err.Error()}
	}
	got, err := decode(string(reply.Body))
	if err != nil {
		return []string{"the body is not JSON: " + err.Error()}
	}
	if members, ok := got.(map[string]any); ok && reply.Header.Get("Content-Type") == problem.ContentType {
		faults = checkProblem(reply, members)
		for _, name := range []string{"type", "title", "status", "instance", "logUrl"} {
			if part(pattern, name) == nil {
				delete(members, name)
			}
		}
	}
	return append(faults, match("", pattern, got)...)
}

// checkProblem checks the members and headers that every problem must have.
func checkProblem(reply Reply, members map[string]any) (faults []string) {
	kind, ok := problem.Lookup(fmt.Sprint(members["code"]))
	if !ok || kind.Status != reply.Status {
		return []string{"the code is not in the catalogue, or has a different status there"}
	}
	page := problem.TypeURL("http://stagedoor.test/problems", kind)
	wait, _ := members["retryAfterSec"].(json.Number)
	challenged := strings.HasPrefix(reply.Header.Get("WWW-Authenticate"), "Bearer")
	instance := any("urn:request:" + reply.Header.Get("X-Request-Id"))
	if reply.Header.Get("Idempotency-Replayed") != "" {
		instance = members["instance"] // of the original request
	}
	log := members["logUrl"] // only present if the caller may read the log
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

// loosen replaces a final … by a member or an element that match understands, so that the pattern is valid JSON.
func loosen(text string) string {
	return moreElements.ReplaceAllString(moreMembers.ReplaceAllString(text, `"…":0$1`), `"…"$1`)
}

func decode(text string) (value any, err error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	err = dec.Decode(&value)
	return value, err
}

// part returns the part of a JSON value at a path such as list.0.id; nil if there is none.
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

// match returns the differences between a value and its pattern.
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

// like reports whether a text matches a pattern in which * stands for anything.
func like(pattern, text string) bool {
	return regexp.MustCompile(`(?s)^` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`) + `$`).MatchString(text)
}
