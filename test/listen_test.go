package test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// rhythm is how often something happens, all the while.
const rhythm = 50 * time.Millisecond

var (
	// asleep is how long the laptop sleeps. In a proof it is long enough for the service to drop a reader that does not
	// read; in CI the restarts of the server end the connection.
	asleep = proof.Scale(0, 60*time.Second)
	// deaths is how often a listener is killed.
	deaths = proof.Scale(1, 5)
)

// audience is a node, a creator to whom something happens all the time, and the command line that listens.
type audience struct {
	t        *testing.T
	node     *testnode.Node
	key      string
	login    string
	platform *sandboxtest.Platform
	program  string
	fired    atomic.Int64
}

func newAudience(t *testing.T) *audience {
	t.Helper()
	a := &audience{t: t, login: "ok+listen@sandbox.test", program: buildCommand(t, "stagedoor")}
	a.platform = sandboxtest.New(t, func(cfg *sandbox.Config) {
		cfg.Regions = map[string]string{"127.0.1.1": "us", "127.0.2.1": "uk"}
	})
	a.node = testnode.Processes(t, 1, testnode.Setup{
		Sandbox: a.platform.URL, Egress: secret.New("us=" + testenv.NewProxy(t, "127.0.1.1").URL() + " uk=" + testenv.NewProxy(t, "127.0.2.1").URL()),
	})[0]
	a.key = a.node.NewOrg(t, unlimited).Key
	started := a.node.Call(t, http.MethodPost, "/v1/connect/login", a.key, map[string]any{"email": a.login, "password": "good", "label": "Maya"})
	attempt, _ := started.JSON()["attempt_id"].(string)
	await(t, "the account is connected", 60*time.Second, func() bool {
		return a.node.Call(t, http.MethodGet, "/v1/connect/login/"+attempt+"?wait=5", a.key, nil).JSON()["state"] == "completed_success"
	})
	return a
}

// buildCommand builds one of our programs.
func buildCommand(t *testing.T, name string) string {
	t.Helper()
	path := testenv.Path(t, ".dev", "test", name)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/"+name)
	cmd.Dir, cmd.Env = testenv.Path(t), append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, text)
	}
	return path
}

// play lets something happen until the context ends, whatever happens to the node: each time a message with a number of its own.
func (a *audience) play(ctx context.Context) {
	write := sandbox.Happenings()["chat.message"]
	tick := time.NewTicker(rhythm)
	defer tick.Stop()
	for ctx.Err() == nil {
		text := fmt.Sprintf("message %d", a.fired.Load()+1)
		if err := a.platform.World.Do(a.login, func(w *world.Creator) error { return write(w, fanaction.Input{Text: text}) }); err != nil {
			a.t.Errorf("nothing happens: %v", err)
			return
		}
		a.fired.Add(1)
		<-tick.C
	}
}

// listener is `stagedoor listen`, which can be put to sleep, killed and started again.
type listener struct {
	a      *audience
	home   string
	args   []string
	output string
	words  *bytes.Buffer
	cmd    *exec.Cmd
}

func (a *audience) listener(args ...string) *listener {
	a.t.Helper()
	home := a.t.TempDir()
	l := &listener{a: a, home: home, args: append([]string{"listen"}, args...), output: filepath.Join(home, "output"), words: &bytes.Buffer{}}
	a.t.Cleanup(func() {
		if l.cmd != nil {
			_ = l.cmd.Process.Kill()
			_ = l.cmd.Wait()
		}
	})
	return l
}

// command is our program as this listener's user.
func (l *listener) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.WithoutCancel(l.a.t.Context()), l.a.program, args...)
	cmd.Env = []string{
		"HOME=" + l.home, "XDG_CONFIG_HOME=" + l.home, "XDG_STATE_HOME=" + l.home, "STAGEDOOR_KEYCHAIN=off", "STAGEDOOR_URL=" + l.a.node.URL, "STAGEDOOR_API_KEY=" + l.a.key,
	}
	return cmd
}

// start goes on where the last one ended. What it prints is added to what the last one did.
func (l *listener) start() {
	l.a.t.Helper()
	file, err := os.OpenFile(l.output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		l.a.t.Fatal(err)
	}
	defer file.Close()
	l.cmd = l.command(l.args...)
	l.cmd.Stdout, l.cmd.Stderr = file, l.words
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := l.cmd.Start(); err != nil {
		l.a.t.Fatal(err)
	}
}

func (l *listener) signal(s syscall.Signal) {
	l.a.t.Helper()
	if err := l.cmd.Process.Signal(s); err != nil {
		l.a.t.Fatal(err)
	}
}

// kill ends it without a warning. It does so between two events: one that it has printed and not yet noted would be printed twice, and
// nothing can be done about that by a program that prints.
func (l *listener) kill() {
	l.a.t.Helper()
	size, since := l.size(), time.Now()
	await(l.a.t, "a moment between two events", 2*time.Minute, func() bool {
		if now := l.size(); now != size {
			size, since = now, time.Now()
		}
		return time.Since(since) > rhythm/4
	})
	l.signal(syscall.SIGKILL)
	_ = l.cmd.Wait() // it was killed
}

func (l *listener) size() int64 {
	info, err := os.Stat(l.output)
	if err != nil {
		l.a.t.Fatal(err)
	}
	return info.Size()
}

// heard lists the durable events that were printed, in order. Others, such as somebody typing, are told live and in no log.
func (l *listener) heard() []string {
	l.a.t.Helper()
	file, err := os.Open(l.output)
	if err != nil {
		l.a.t.Fatal(err)
	}
	defer file.Close()
	var ids []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			ID   string
			Meta struct{ Class string }
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.ID == "" {
			l.a.t.Fatalf("a line is not an event: %q", lines.Text())
		}
		if e.Meta.Class == "durable" {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// log lists the whole event log, and the numbers of the messages in it.
func (a *audience) log() (ids []string, numbers map[string]bool) {
	a.t.Helper()
	numbers = map[string]bool{}
	for after := "0"; ; {
		req, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, a.node.URL+"/v1/events?limit=100&after="+url.QueryEscape(after), nil)
		if err != nil {
			a.t.Fatal(err)
		}
		req.Header = http.Header{"Authorization": {"Bearer " + a.key}, "Accept": {"application/json"}} // otherwise it is a stream
		reply, err := testnode.Send(req)
		if err != nil {
			a.t.Fatal(err)
		}
		var page struct {
			Events []struct {
				ID   string
				Data struct{ Message struct{ Text string } }
			}
			NextCursor string
		}
		if err := json.Unmarshal(reply.Body, &page); err != nil || reply.Status != http.StatusOK {
			a.t.Fatalf("read the log: %d %s", reply.Status, reply.Body)
		}
		for _, e := range page.Events {
			ids = append(ids, e.ID)
			numbers[e.Data.Message.Text] = true
		}
		if len(page.Events) == 0 {
			return ids, numbers
		}
		after = page.NextCursor
	}
}

// receiver is a program on the developer's machine that takes forwarded events and checks their signatures.
type receiver struct {
	*httptest.Server
	secret string

	mu       sync.Mutex
	arrivals []string
	wrong    []error
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the sender was killed; it comes again
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		event, err := stagedoor.VerifyWebhook(r.secret, req.Header, body)
		if err != nil {
			r.wrong = append(r.wrong, err)
			return
		}
		if event.Meta.Class != "durable" {
			return
		}
		r.arrivals = append(r.arrivals, event.ID)
	}))
	t.Cleanup(r.Close)
	return r
}

// taken are the events in the order in which they first came, and how many came again.
func (r *receiver) taken() (ids []string, again int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]bool{}
	for _, id := range r.arrivals {
		if seen[id] {
			again++
			continue
		}
		seen[id] = true
		ids = append(ids, id)
	}
	return ids, again
}

// A laptop sleeps while the server is restarted and killed; then the listener is killed again and again, and the server
// once more. Something happens all the while. The listener prints every event of the log once and in order; a receiver that is forwarded
// to gets every one in order, and one that was on its way when the sender was killed again.
func TestListenLosesNothing(t *testing.T) {
	// Not parallel: it restarts what it measures.
	a := newAudience(t)
	hooks := newReceiver(t)
	printing, forwarding := a.listener("--json", "--since", "all"), a.listener("--since", "all", "--forward-to", hooks.URL)
	secret, err := forwarding.command("listen", "--print-secret").Output()
	if err != nil {
		t.Fatal(err)
	}
	hooks.secret = strings.TrimSpace(string(secret))
	both := []*listener{printing, forwarding}
	for _, l := range both {
		l.start()
		l.args = slices.DeleteFunc(l.args, func(arg string) bool { return arg == "--since" || arg == "all" }) // from now on where it was
	}

	playing, stop := context.WithCancel(t.Context())
	var stage sync.WaitGroup
	stage.Go(func() { a.play(playing) })
	defer stage.Wait()
	defer stop()
	a.goesOn(printing, hooks)

	for _, l := range both {
		l.signal(syscall.SIGSTOP)
	}
	wake := time.After(asleep)
	a.restart(syscall.SIGTERM)
	a.restart(syscall.SIGKILL)
	<-wake
	for _, l := range both {
		l.signal(syscall.SIGCONT)
	}
	a.goesOn(printing, hooks)

	for range deaths {
		for _, l := range both {
			l.kill()
			l.start()
		}
		a.goesOn(printing, hooks)
	}
	a.restart(syscall.SIGTERM)
	a.restart(syscall.SIGKILL)
	a.goesOn(printing, hooks)
	stop()
	stage.Wait()
	a.judge(printing, hooks)
	for _, l := range both {
		l.stopsWell()
	}
	if !strings.Contains(printing.words.String(), "(0 missed)") {
		t.Errorf("the listener does not tell that it missed nothing:\n%s", printing.words)
	}
	t.Logf("%d events, %d killings of each listener, a sleep of %s, 4 ends of the server: 0 lost", a.fired.Load(), deaths, asleep)
}

// restart ends the node by a signal and starts it again.
func (a *audience) restart(s syscall.Signal) {
	a.t.Helper()
	a.node.Process.Signal(s)
	<-a.node.Process.Exited()
	a.node.Restart(a.t)
}

// goesOn waits until both have heard of something that happens after this moment.
func (a *audience) goesOn(l *listener, r *receiver) {
	a.t.Helper()
	now := fmt.Sprintf(`"message %d"`, a.fired.Load()+2)
	await(a.t, "the listener hears what happens now", 60*time.Second, func() bool {
		text, err := os.ReadFile(l.output)
		return err == nil && bytes.Contains(text, []byte(now))
	})
	before, _ := r.taken()
	await(a.t, "the receiver gets what happens now", 60*time.Second, func() bool { ids, _ := r.taken(); return len(ids) > len(before) })
}

// judge compares what was heard with the log, once everything that happened is in it.
func (a *audience) judge(l *listener, r *receiver) {
	a.t.Helper()
	var log []string
	last := fmt.Sprintf("message %d", a.fired.Load())
	await(a.t, "the last that happened is in the log", 60*time.Second, func() bool {
		ids, numbers := a.log()
		log = ids
		return numbers[last]
	})
	_, numbers := a.log()
	for n := range a.fired.Load() {
		if text := fmt.Sprintf("message %d", n+1); !numbers[text] {
			a.t.Errorf("%s is not in the log", text)
		}
	}
	await(a.t, "the listener and the receiver have caught up", 2*time.Minute, func() bool {
		ids, _ := r.taken()
		return len(l.heard()) >= len(log) && len(ids) >= len(log)
	})
	if heard := l.heard(); !slices.Equal(heard, log) {
		a.t.Errorf("%d events were printed and %d are in the log; the first that differs is number %d", len(heard), len(log), differs(heard, log))
	}
	taken, again := r.taken()
	if !slices.Equal(taken, log) {
		a.t.Errorf("%d events were forwarded and %d are in the log; the first that differs is number %d", len(taken), len(log), differs(taken, log))
	}
	if again > deaths {
		a.t.Errorf("%d events were forwarded twice; only those on their way at one of %d killings may be", again, deaths)
	}
	if len(r.wrong) > 0 {
		a.t.Errorf("%d forwarded events have wrong signatures: %v", len(r.wrong), r.wrong[0])
	}
}

func differs(a, b []string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// stopsWell ends a listener as a person does.
func (l *listener) stopsWell() {
	l.a.t.Helper()
	l.signal(syscall.SIGINT)
	err := l.cmd.Wait()
	if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.ExitCode() != 130 {
		l.a.t.Errorf("the listener ended with %v, want 130:\n%s", err, l.words)
	}
	l.cmd = nil
}
