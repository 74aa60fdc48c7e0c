package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/txtar"
	words "mvdan.cc/sh/v3/shell"

	"github.com/stagedoor/stagedoor/internal/command/cli"
	"github.com/stagedoor/stagedoor/internal/command/cli/terminal"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// A transcript is a file testdata/<topic>.txtar with the input and the complete output of commands.
// `go test ./internal/command/cli -update` writes the current output; read the diff before you commit it.
//
//	What it shows, in a sentence.
//	-- account Maya --                            connects an account with this label; its id is $MAYA
//	-- file letter.txt --                         a file in the directory of the commands
//	-- $ stagedoor accounts list --               a command in a pipe; the text below is its standard input
//	-- stdout --                                  its output, if any
//	-- stderr --
//	-- exit 2 --                                  its exit code, unless 0
//	-- tty $ stagedoor connect --method login --  a command on a terminal of 100 columns; a line of the text below is
//	                                              typed at each prompt
//	-- screen --                                  what the terminal showed
//	-- color tty $ stagedoor explain 429 --       the same with colour; ␛ is the escape character
//	-- env NAME=value --                          sets a variable for the commands below; without a value, unsets it
//	-- keep CODE evt_\w+ --                       sets $CODE to the first match in the last output
//	-- until message $ stagedoor events list --   repeats a command until its output matches; the output is not recorded
//	-- browser approve --                         the browser of a developer of the organisation, who approves (or
//	                                              denies) the machines that ask to be signed in
//	-- delivery --                                waits for a webhook: its body is the file body, its signature
//	                                              $SIGNATURE, its event $EVENT
//
// Each transcript has its own organisation, which commands use through STAGEDOOR_API_KEY ($KEY) and STAGEDOOR_URL
// ($URL). $RECEIVER is a server that accepts webhooks at /ok and rejects them at /fail. $LOGIN is unique to the
// transcript, for logins. $OPS_URL is the operators' listener, and $OPS_TOKEN its token. Ids, times and other values that differ between runs are normalised.
var update = flag.Bool("update", false, "write the current transcripts and reference")

// TestTranscripts runs all transcripts against a complete server with the sandbox platform, and with Ghost as a second
// platform whose sites do not exist.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	_, setup := testnode.Sandbox(t, nil)
	setup.Platforms = "sandbox=builtin ghost=" + sandboxGhost(t)
	node := testnode.Nodes(t, 1, setup)[0]
	operated := operatedNode(t)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			if filepath.Base(path) == "ops.txtar" {
				newSession(t, operated, path).play()
				return
			}
			newSession(t, node, path).play()
		})
	}
}

// operatedNode returns a server that only the transcript of operators uses, because they change it for all organisations. It
// has three dead letters, which nothing can make over HTTP.
func operatedNode(t *testing.T) *testnode.Node {
	t.Helper()
	_, setup := testnode.Sandbox(t, nil)
	setup.Database = testenv.DatabaseURL(t)
	node := testnode.Nodes(t, 1, setup)[0]
	conn, err := pgx.Connect(t.Context(), setup.Database.Reveal())
	must.OK(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), `INSERT INTO event_dead_letter (bucket, org_id, source, kind, reason, record, at)
		SELECT 0, l.org_id, l.source, l.kind, l.reason, 'abc'::bytea, now() - interval '36 hours'
		FROM (VALUES (NULL, NULL, NULL, 'unreadable'), ('org_00000000000000000000000000', 'acct_2', 'message', 'refused'), (NULL, NULL, NULL, 'unreadable')) l (org_id, source, kind, reason)`)
	must.OK(t, err)
	return node
}

// sandboxGhost returns a folder with the manifest of Ghost for organisations of the sandbox, which the transcripts use.
func sandboxGhost(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must.OK(t, os.CopyFS(dir, os.DirFS(testenv.Path(t, "internal", "platform", "catalog", "manifests", "ghost"))))
	path := filepath.Join(dir, "upstream.yaml")
	text, err := os.ReadFile(path)
	must.OK(t, err)
	changed := bytes.Replace(text, []byte("environment: live"), []byte("environment: sandbox"), 1)
	if bytes.Equal(changed, text) {
		t.Fatalf("%s does not say that Ghost is live", path)
	}
	must.OK(t, os.WriteFile(path, changed, 0o600))
	return dir
}

// session is the run of a transcript.
type session struct {
	*testing.T
	node *testnode.Node
	path string
	dir  string
	env  map[string]string
	hook *receiver
	// ids maps the ids in the output to normalised ones.
	ids map[string]string
	// printed is the output of the last command.
	printed string
	// result is the transcript with the current output.
	result txtar.Archive
}

func newSession(t *testing.T, node *testnode.Node, path string) *session {
	t.Helper()
	org := node.NewOrg(t, nil)
	dir := t.TempDir()
	hook := newReceiver(t)
	name := strings.TrimSuffix(filepath.Base(path), ".txtar")
	return &session{
		T: t, node: node, path: path, dir: dir, hook: hook, ids: map[string]string{},
		env: map[string]string{
			"STAGEDOOR_API_KEY": org.Key, "STAGEDOOR_URL": node.URL, "KEY": org.Key, "URL": node.URL, "ORG": org.ID, "KEY_ID": org.KeyID, "RECEIVER": hook.URL,
			"HOME": dir, "XDG_CONFIG_HOME": filepath.Join(dir, "config"), "XDG_STATE_HOME": filepath.Join(dir, "state"), "STAGEDOOR_KEYCHAIN": "off",
			"NO_COLOR": "1", "BROWSER": "true", "TERM": "xterm-256color", "DIR": dir, "OPS_URL": node.Internal, "OPS_TOKEN": testnode.AdminToken, "LOGIN": "cli-" + name, "PATH": os.Getenv("PATH"),
		},
	}
}

// browser makes the commands open a browser that decides about the machine whose code it is given.
func (s *session) browser(decision string) {
	s.Helper()
	b := s.node.Join(s, s.env["ORG"], decision+"@example.test", "developer")
	path := filepath.Join(s.dir, "browser")
	must.OK(s, os.WriteFile(path, fmt.Appendf(nil, `#!/bin/sh
exec curl -sS -o /dev/null -H 'Sec-Fetch-Site: same-origin' -H 'Cookie: %s=%s' \
	-d "user_code=${1##*=}" -d decision=%s -d org=%s %s/app/device
`, member.Cookie, b.Cookie, decision, s.env["ORG"], s.node.URL), 0o700))
	s.env["BROWSER"] = path
}

// play runs the transcript and compares the output, or writes it with -update.
func (s *session) play() {
	s.Helper()
	text, err := os.ReadFile(s.path)
	must.OK(s, err)
	script := txtar.Parse(text)
	if len(bytes.TrimSpace(script.Comment)) == 0 {
		s.Errorf("%s must start with a sentence that says what it shows", s.path)
	}
	s.result.Comment = script.Comment
	for _, f := range script.Files {
		s.step(f)
	}
	got := txtar.Format(&s.result)
	if *update {
		must.OK(s, os.WriteFile(s.path, got, 0o644))
		return
	}
	if !bytes.Equal(got, text) {
		s.Errorf("the output differs from %s; if the new output is right, run go test ./internal/command/cli -update\n%s",
			s.path, difference(string(text), string(got)))
	}
}

// difference returns the first lines that differ.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return fmt.Sprintf("line %d\nwant:\n%s\ngot:\n%s", i+1, strings.Join(a[min(i, len(a)):min(i+8, len(a))], "\n"), strings.Join(b[min(i, len(b)):min(i+8, len(b))], "\n"))
		}
	}
	return ""
}

// step executes one file of the archive, by its name.
func (s *session) step(f txtar.File) {
	s.Helper()
	word, rest, _ := strings.Cut(f.Name, " ")
	switch {
	case slices.Contains([]string{"stdout", "stderr", "screen", "exit"}, word):
		return // expected output; the command above records the current one
	case word == "account":
		s.connect(rest)
	case word == "browser":
		s.browser(rest)
	case word == "file":
		must.OK(s, os.WriteFile(filepath.Join(s.dir, rest), f.Data, 0o600))
	case word == "env":
		name, value, set := strings.Cut(rest, "=")
		if s.env[name] = s.expand(value); !set {
			delete(s.env, name)
		}
	case word == "keep":
		name, pattern, _ := strings.Cut(rest, " ")
		found := regexp.MustCompile(pattern).FindString(s.printed)
		if found == "" {
			s.Fatalf("%s: nothing matches %s in:\n%s", s.path, pattern, s.printed)
		}
		s.env[name] = found
	case word == "until":
		pattern, command, _ := strings.Cut(rest, " $ ")
		s.until(pattern, command)
	case word == "delivery":
		s.delivery()
	default:
		s.result.Files = append(s.result.Files, f)
		s.command(f)
		return
	}
	s.result.Files = append(s.result.Files, f)
}

// connect connects an account and waits until its listener receives events.
func (s *session) connect(label string) {
	s.Helper()
	body := map[string]any{"email": "ok+" + s.env["LOGIN"] + "-" + strings.ToLower(label) + "@sandbox.test", "password": "good", "label": label, "remember_credentials": true}
	text, err := json.Marshal(body)
	must.OK(s, err)
	req, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.node.URL+"/v1/connect/login", bytes.NewReader(text))
	must.OK(s, err)
	req.Header = http.Header{"Authorization": {"Bearer " + s.env["KEY"]}, "Content-Type": {"application/json"}, "Prefer": {"wait=25"}}
	reply, err := testnode.Send(req)
	must.OK(s, err)
	id, _ := reply.JSON()["account_id"].(string)
	if id == "" {
		s.Fatalf("connect %s: %d %s", label, reply.Status, reply.Body)
	}
	s.env[strings.ToUpper(label)] = id
	testenv.Await(s, "the listener of "+label, func() bool {
		var got struct {
			Account struct {
				State    string
				Listener struct{ State string }
			}
		}
		r := s.node.Call(s.T, http.MethodGet, "/v1/accounts/"+id, s.env["KEY"], nil)
		return json.Unmarshal(r.Body, &got) == nil && got.Account.State == "active" && got.Account.Listener.State == "up"
	})
}

func (s *session) until(pattern, command string) {
	s.Helper()
	want := regexp.MustCompile(pattern)
	testenv.Await(s, pattern, func() bool {
		stdout, stderr, _ := s.piped(s.words(command), nil)
		s.printed = stdout + stderr
		return want.MatchString(s.printed)
	})
}

func (s *session) delivery() {
	s.Helper()
	select {
	case d := <-s.hook.got:
		s.env["SIGNATURE"], s.env["EVENT"] = d.header.Get("X-Webhook-Signature"), d.header.Get("X-Webhook-Id")
		must.OK(s, os.WriteFile(filepath.Join(s.dir, "body"), d.body, 0o600))
	case <-time.After(2 * time.Minute):
		s.Fatalf("%s: timed out waiting for a webhook", s.path)
	}
}

func (s *session) expand(text string) string {
	return os.Expand(text, func(name string) string { return s.env[name] })
}

// words splits a command line like a shell.
func (s *session) words(line string) []string {
	s.Helper()
	fields, err := words.Fields(line, func(name string) string { return s.env[name] })
	if err != nil || len(fields) == 0 || fields[0] != "stagedoor" {
		s.Fatalf("%s: %q is not a command: %v", s.path, line, err)
	}
	args := fields[1:]
	for i, a := range args {
		args[i] = ownFile.ReplaceAllString(a, "${1}"+s.dir+"/")
	}
	return args
}

// ownFile matches a file in the transcript's directory: ./body, @./body, text=@./body.
var ownFile = regexp.MustCompile(`^((?:[a-zA-Z]+=)?@)?\./`)

func (s *session) command(f txtar.File) {
	s.Helper()
	how, line, ok := strings.Cut(f.Name, "$ ")
	if !ok {
		s.Fatalf("%s: cannot parse %q", s.path, f.Name)
	}
	input := []byte(s.expand(string(f.Data)))
	args := s.words(line)
	var exit int
	if strings.Contains(how, "tty") {
		var screen string
		screen, exit = s.terminal(args, input, strings.Contains(how, "color"))
		s.printed = screen
		s.record("screen", screen)
	} else {
		var stdout, stderr string
		stdout, stderr, exit = s.piped(args, input)
		s.printed = stdout + stderr
		s.record("stdout", stdout)
		s.record("stderr", stderr)
	}
	if exit != 0 {
		s.result.Files = append(s.result.Files, txtar.File{Name: fmt.Sprint("exit ", exit)})
	}
}

func (s *session) record(name, text string) {
	if text = s.normalise(text); text != "" {
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		s.result.Files = append(s.result.Files, txtar.File{Name: name, Data: []byte(text)})
	}
}

func (s *session) environ(color bool) []string {
	var list []string
	for name, value := range s.env {
		if !color || name != "NO_COLOR" {
			list = append(list, name+"="+value)
		}
	}
	return list
}

func (s *session) piped(args []string, input []byte) (stdout, stderr string, exit int) {
	ctx, cancel := context.WithTimeout(s.Context(), 60*time.Second)
	defer cancel()
	var o, e bytes.Buffer
	exit = cli.Main(ctx, args, s.environ(false), bytes.NewReader(input), &o, &e)
	return o.String(), e.String(), exit
}

// terminal runs a command on a pseudo-terminal and types one line of the input at each prompt.
func (s *session) terminal(args []string, input []byte, color bool) (screen string, exit int) {
	s.Helper()
	master, tty, err := pty.Open()
	must.OK(s, err)
	must.OK(s, pty.Setsize(master, &pty.Winsize{Cols: 100, Rows: 40}))
	show := &display{changed: make(chan struct{}, 1)}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = io.Copy(show, master) // returns when the terminal is closed
	}()
	ctx, cancel := context.WithTimeout(s.Context(), 60*time.Second)
	defer cancel()
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Main(ctx, args, s.environ(color), tty, tty, tty)
	}()
	typed := make(chan struct{})
	go func() {
		defer close(typed)
		s.typeLines(ctx, tty, master, show, input)
	}()
	exit = <-ended
	cancel()
	<-typed
	// Write a marker and wait for it: then all output has arrived. EOF does not work, because an interrupted prompt may
	// still hold the terminal open.
	const end = "\x00end"
	if _, err := tty.WriteString(end); err != nil {
		s.Fatal(err)
	}
	for !strings.HasSuffix(show.String(), end) {
		<-show.changed
	}
	for _, end := range []io.Closer{master, tty} {
		must.OK(s, end.Close())
	}
	<-closed
	return strings.ReplaceAll(strings.TrimSuffix(show.String(), end), "\r\n", "\n"), exit
}

// asks matches a screen that ends with a prompt.
var asks = regexp.MustCompile(`: $|Ctrl-D:\r\n$`)

// hides matches a screen that ends with the prompt for a secret.
var hides = regexp.MustCompile(`(?i)(key|password|secret|token)[^\n]*: $`)

func (s *session) typeLines(ctx context.Context, tty *os.File, master io.Writer, show *display, input []byte) {
	from := 0
	for line := range strings.Lines(string(input)) {
		for !asks.MatchString(show.String()[from:]) {
			select {
			case <-ctx.Done():
				return
			case <-show.changed:
			}
		}
		if hides.MatchString(show.String()) && terminal.IsEchoing(tty) {
			s.Errorf("the terminal would echo a secret: %s", show.String())
		}
		paste := strings.HasSuffix(show.String(), "Ctrl-D:\r\n")
		from = len(show.String())
		if paste {
			_, _ = io.WriteString(master, string(input)+"\x04")
			return
		}
		_, _ = io.WriteString(master, line)
	}
}

// display collects the output of a terminal and signals changes.
type display struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func (d *display) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.text.Write(b)
	select {
	case d.changed <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (d *display) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.String()
}

// receiver is an HTTP server that receives webhooks.
type receiver struct {
	URL string
	got chan received
}

type received struct {
	header http.Header
	body   []byte
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{got: make(chan received, 100)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		if strings.HasPrefix(req.URL.Path, "/fail") {
			http.Error(w, "the queue is full", http.StatusInternalServerError)
			return
		}
		select {
		case r.got <- received{req.Header, body}:
		default:
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

// rules normalise values that differ between runs. Ids keep their length, so that columns stay aligned.
var rules = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\r\x1b\[K|(\x1b\[36m)?[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏](\x1b\[m)? [^\r\n\x1b⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]*`), ""},
	{regexp.MustCompile(`(?m)^[█▀▄ ]{20,}\n([█▀▄ ]{20,}\n)+`), "(QR code)\n"},
	{regexp.MustCompile("\x1b"), "␛"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`), "2026-01-02T15:04:05Z"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "15:04:05"},
	{regexp.MustCompile(`sd_sandbox_[0-9A-Za-z]{49}`), "sd_sandbox_KEY"},
	{regexp.MustCompile(`\b[B-Z]{4}-[B-Z]{4}\b`), "XXXX-XXXX"},
	{regexp.MustCompile(`sd_sandbox_[0-9A-Za-z]{4}…`), "sd_sandbox_Kkkk…"},
	{regexp.MustCompile(`"(hint|keyPrefix)": ?"sd_sandbox_[0-9A-Za-z]{4}"`), `"$1":"sd_sandbox_Kkkk"`},
	{regexp.MustCompile(`whsec_[A-Za-z0-9+/=_-]{8,}`), "whsec_SECRET"},
	{regexp.MustCompile(`"seq": ?\d+`), `"seq":1`},
	{regexp.MustCompile(`"signingSecretLast4": ?"[^"]*"`), `"signingSecretLast4":"last"`},
	{regexp.MustCompile(`(secret\s+)….{4}\n`), "${1}…last\n"},
	{regexp.MustCompile(`http://stagedoor\.test/([asc])/[A-Za-z0-9_-]+`), "http://stagedoor.test/$1/TOKEN"},
	{regexp.MustCompile(`"(client_token|upload_token)": ?"[^"]+"`), `"$1":"TOKEN"`},
	{regexp.MustCompile(`sess=[A-Z0-9]+`), "sess=SESSION"},
	{regexp.MustCompile(`x-device: [0-9a-f]+`), "x-device: DEVICE"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:18080"},
	{regexp.MustCompile(` +\d+ ms\b`), " N ms"},
	{regexp.MustCompile(`(on Maya) in \d+(\.\d+)? s\b`), "$1 in N ms"},
	// A slow machine has started the node more than a minute ago.
	{regexp.MustCompile(`STARTED +SEEN`), "STARTED   SEEN"},
	{regexp.MustCompile(`(just now|\d+ min ago)  just now\b`), "just now  just now"},
	{regexp.MustCompile(`SINCE \d+ [A-Z]+ +COUNT`), "SINCE D MONTH COUNT"},
	{regexp.MustCompile(`\t\d+ ms\b`), "\tN ms"},
	{regexp.MustCompile(`\t\d+\t(cli|api|dashboard)([\t\n])`), "\tN\t$1$2"},
	{regexp.MustCompile(`((?:delivered|failed|true|false)\t\d+)\t\d+\t`), "$1\tN\t"},
	{regexp.MustCompile(` +TOOK\b`), " TOOK"},
	{regexp.MustCompile(`"([a-zA-Z]*(Ms|_ms)|bytesIn|bytesOut|reset|remaining)": ?[\d.]+`), `"$1":0`},
	// The server polls the platform about a selfie every few seconds, so the attempt may have completed already.
	{regexp.MustCompile(`(pass_selfie\. The attempt is now) \w+\.`), "$1 needs_face_otp."},
	{regexp.MustCompile(`\bin \d+ (s|min|h|d)\b`), "in N $1"},
	{regexp.MustCompile(`(@example\.test on) \S+`), "$1 MACHINE"},
	{regexp.MustCompile(`(░ 0 %  )just now`), "${1}in N s"},
	// The transcript of operators.
	{regexp.MustCompile(`\b01[0-9a-z]{24}\b`), "01nodenodenodenodenodenode"},
	{regexp.MustCompile(`(?m)^((?:root )?version(?:\t| +))\d+$`), "${1}N"},
	{regexp.MustCompile(`(?m)^(ingest|listen)(\t|  ).*$`), "$1$2…"},
	{regexp.MustCompile(`(?m)^KIND +NAME +ID +SLOTS.*$`), "KIND  NAME  ID  SLOTS  …"},
	{regexp.MustCompile(`(?m)^((?:uk|us)(?:\t| ).*(?:\t| ))\d+$`), "${1}N"},
	{regexp.MustCompile(`(paused\s+operator\s+)\d+`), "${1}N"},
	{regexp.MustCompile(`Job \d+ \(\w+\) is \w+`), "Job N (KIND) is STATE"},
	{regexp.MustCompile(`http://stagedoor\.test/app/(invitation|support)/[A-Za-z0-9_-]+`), "http://stagedoor.test/app/$1/TOKEN"},
	{regexp.MustCompile(`(?m)^((?:account [rw]|calls|failed|rate limited|connects|events|deliveries)[a-z ]*?)\t\d+`),
		"$1\tN"},
	{regexp.MustCompile(`(?m)^((?:account [rw]|calls|failed|rate limited|connects|events|deliveries)[a-z ]*?) +\d+`),
		"$1 N"},
	{regexp.MustCompile(`commit [0-9a-f]+ of \S+ go\S+ \S+/\S+`), "commit C of T, G, P"},
	{regexp.MustCompile(`"(commit|commitTime|go)": ?"[^"]*"`), `"$1":""`},
	{regexp.MustCompile(`"platform": ?"\w+/\w+"`), `"platform":""`},
	// A listener reports its last event only from time to time.
	{regexp.MustCompile(`"lastEventAt":( ?)null`), `"lastEventAt":$1"2026-01-02T15:04:05Z"`},
	{regexp.MustCompile(`(?m)^(last event[\t ]).*$`), "${1}…"},
	{regexp.MustCompile(`\b(seen|checked)At": ?null`), `${1}At": "2026-01-02T15:04:05Z"`},
}

var ids = regexp.MustCompile(`(org|key|acct|att|cs|evt|whd|whe|whr|req|rpl|aud|inv|sa|job)_[0-7][0-9a-hjkmnp-tv-z]{25}\b`)

// normalise replaces values that differ between runs.
func (s *session) normalise(text string) string {
	text = strings.ReplaceAll(text, s.dir, "/home/maya")
	for _, r := range rules {
		text = r.pattern.ReplaceAllString(text, r.with)
	}
	return ids.ReplaceAllStringFunc(text, func(id string) string {
		kind, _, _ := strings.Cut(id, "_")
		if kind == "req" {
			return "req_00000000000000000000000000"
		}
		if s.ids[id] == "" {
			n := 1
			for known := range s.ids {
				if strings.HasPrefix(known, kind+"_") {
					n++
				}
			}
			s.ids[id] = fmt.Sprintf("%s_%026d", kind, n)
		}
		return s.ids[id]
	})
}
