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
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// messageInterval is the time between two messages on the platform.
const messageInterval = 50 * time.Millisecond

var (
	// sleepTime is how long the laptop sleeps. In a proof it is long enough for the service to disconnect a client that
	// does not read; in CI the restarts of the server end the connection.
	sleepTime = proof.Scale(0, 60*time.Second)
	// kills is how often a listener is killed.
	kills = proof.Scale(1, 5)
)

// listenFixture holds a node, a creator who gets messages all the time, and the command-line program.
type listenFixture struct {
	t        *testing.T
	node     *testnode.Node
	key      string
	login    string
	platform *sandboxtest.Platform
	program  string
	sent     atomic.Int64
}

func newListenFixture(t *testing.T) *listenFixture {
	t.Helper()
	a := &listenFixture{t: t, login: "ok+listen@sandbox.test", program: buildCommand(t, "stagedoor")}
	platform, setup := testnode.Sandbox(t, nil)
	a.platform, a.node = platform, testnode.Processes(t, 1, setup)[0]
	a.key = a.node.NewOrg(t, unlimited).Key
	a.node.Connect(t, a.key, "/v1/connect/login", map[string]any{"email": a.login, "password": "good", "label": "Maya"})
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

// playMessages sends numbered messages to the creator until the context ends, whatever happens to the node.
func (a *listenFixture) playMessages(ctx context.Context) {
	write := sandbox.Happenings()["chat.message"]
	tick := time.NewTicker(messageInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		text := fmt.Sprintf("message %d", a.sent.Load()+1)
		if err := a.platform.World.Do(a.login, func(w *world.Creator) error { return write(w, fanaction.Input{Text: text}) }); err != nil {
			a.t.Errorf("cannot send a message: %v", err)
			return
		}
		a.sent.Add(1)
		<-tick.C
	}
}

// listener is `stagedoor listen`. It can be stopped, killed and started again.
type listener struct {
	a      *listenFixture
	home   string
	args   []string
	output string
	stderr *bytes.Buffer
	cmd    *exec.Cmd
}

func (a *listenFixture) listener(args ...string) *listener {
	a.t.Helper()
	home := a.t.TempDir()
	l := &listener{a: a, home: home, args: append([]string{"listen"}, args...), output: filepath.Join(home, "output"), stderr: &bytes.Buffer{}}
	a.t.Cleanup(func() {
		if l.cmd != nil {
			_ = l.cmd.Process.Kill()
			_ = l.cmd.Wait()
		}
	})
	return l
}

// command returns a command with the home directory and the key of this listener.
func (l *listener) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.WithoutCancel(l.a.t.Context()), l.a.program, args...)
	cmd.Env = []string{
		"HOME=" + l.home, "XDG_CONFIG_HOME=" + l.home, "XDG_STATE_HOME=" + l.home, "STAGEDOOR_KEYCHAIN=off", "STAGEDOOR_URL=" + l.a.node.URL, "STAGEDOOR_API_KEY=" + l.a.key,
	}
	return cmd
}

// start starts the program, which resumes where the last one ended. Its output is appended to that of the last one.
func (l *listener) start() {
	l.a.t.Helper()
	file, err := os.OpenFile(l.output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must.OK(l.a.t, err)
	defer file.Close()
	l.cmd = l.command(l.args...)
	l.cmd.Stdout, l.cmd.Stderr = file, l.stderr
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must.OK(l.a.t, l.cmd.Start())
}

func (l *listener) signal(s syscall.Signal) {
	l.a.t.Helper()
	must.OK(l.a.t, l.cmd.Process.Signal(s))
}

// kill kills the program between two events. An event that it has printed but not yet recorded would be printed twice;
// a program that prints cannot avoid that.
func (l *listener) kill() {
	l.a.t.Helper()
	size, since := l.size(), time.Now()
	await(l.a.t, "a moment between two events", 2*time.Minute, func() bool {
		if now := l.size(); now != size {
			size, since = now, time.Now()
		}
		return time.Since(since) > messageInterval/4
	})
	l.signal(syscall.SIGKILL)
	_ = l.cmd.Wait() // it was killed
}

func (l *listener) size() int64 {
	info, err := os.Stat(l.output)
	must.OK(l.a.t, err)
	return info.Size()
}

// printed lists the durable events that were printed, in order. Ephemeral events, such as typing, are not in the log.
func (l *listener) printed() []string {
	l.a.t.Helper()
	file, err := os.Open(l.output)
	must.OK(l.a.t, err)
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
func (a *listenFixture) log() (ids []string, numbers map[string]bool) {
	a.t.Helper()
	numbers = map[string]bool{}
	for after := "0"; ; {
		req, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, a.node.URL+"/v1/events?limit=100&after="+url.QueryEscape(after), nil)
		must.OK(a.t, err)
		// Without Accept the response is a stream.
		req.Header = http.Header{"Authorization": {"Bearer " + a.key}, "Accept": {"application/json"}}
		reply, err := testnode.Send(req)
		must.OK(a.t, err)
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

// receiver is a program on the developer's machine that gets forwarded events and verifies their signatures.
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
			return // the sender was killed and sends the event again
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

// received returns the events in the order of their first arrival, and how many arrived again.
func (r *receiver) received() (ids []string, again int) {
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
// once more. Messages arrive all the time. The listener prints every event of the log once and in order. A receiver of
// forwarded events gets every one in order; only events that were in flight when the sender was killed come twice.
func TestListenLosesNothing(t *testing.T) {
	// Not parallel: it restarts its server several times.
	a := newListenFixture(t)
	hooks := newReceiver(t)
	printing, forwarding := a.listener("--json", "--since", "all"), a.listener("--since", "all", "--forward-to", hooks.URL)
	secret, err := forwarding.command("listen", "--print-secret").Output()
	must.OK(t, err)
	hooks.secret = strings.TrimSpace(string(secret))
	both := []*listener{printing, forwarding}
	for _, l := range both {
		l.start()
		// Later starts resume where the last one ended.
		l.args = slices.DeleteFunc(l.args, func(arg string) bool { return arg == "--since" || arg == "all" })
	}

	playing, stop := context.WithCancel(t.Context())
	var player sync.WaitGroup
	player.Go(func() { a.playMessages(playing) })
	defer player.Wait()
	defer stop()
	a.awaitProgress(printing, hooks)

	for _, l := range both {
		l.signal(syscall.SIGSTOP)
	}
	wake := time.After(sleepTime)
	a.restart(syscall.SIGTERM)
	a.restart(syscall.SIGKILL)
	<-wake
	for _, l := range both {
		l.signal(syscall.SIGCONT)
	}
	a.awaitProgress(printing, hooks)

	for range kills {
		for _, l := range both {
			l.kill()
			l.start()
		}
		a.awaitProgress(printing, hooks)
	}
	a.restart(syscall.SIGTERM)
	a.restart(syscall.SIGKILL)
	a.awaitProgress(printing, hooks)
	stop()
	player.Wait()
	a.verify(printing, hooks)
	for _, l := range both {
		l.interrupt()
	}
	if !strings.Contains(printing.stderr.String(), "(0 missed)") {
		t.Errorf("the listener does not report that it missed nothing:\n%s", printing.stderr)
	}
	t.Logf("%d messages, each listener killed %d times, a sleep of %s, 4 restarts of the server: 0 lost", a.sent.Load(), kills, sleepTime)
}

// restart ends the node by a signal and starts it again.
func (a *listenFixture) restart(s syscall.Signal) {
	a.t.Helper()
	a.node.Process.Signal(s)
	<-a.node.Process.Exited()
	a.node.Restart(a.t)
}

// awaitProgress waits until the listener and the receiver have got an event that happened after this call.
func (a *listenFixture) awaitProgress(l *listener, r *receiver) {
	a.t.Helper()
	now := fmt.Sprintf(`"message %d"`, a.sent.Load()+2)
	await(a.t, "the listener prints a new event", 60*time.Second, func() bool {
		text, err := os.ReadFile(l.output)
		return err == nil && bytes.Contains(text, []byte(now))
	})
	before, _ := r.received()
	await(a.t, "the receiver gets a new event", 60*time.Second, func() bool { ids, _ := r.received(); return len(ids) > len(before) })
}

// verify compares the printed and the forwarded events with the log, once the log has every message.
func (a *listenFixture) verify(l *listener, r *receiver) {
	a.t.Helper()
	var log []string
	last := fmt.Sprintf("message %d", a.sent.Load())
	await(a.t, "the last message is in the log", 60*time.Second, func() bool {
		ids, numbers := a.log()
		log = ids
		return numbers[last]
	})
	_, numbers := a.log()
	for n := range a.sent.Load() {
		if text := fmt.Sprintf("message %d", n+1); !numbers[text] {
			a.t.Errorf("%s is not in the log", text)
		}
	}
	await(a.t, "the listener and the receiver have caught up", 2*time.Minute, func() bool {
		ids, _ := r.received()
		return len(l.printed()) >= len(log) && len(ids) >= len(log)
	})
	if printed := l.printed(); !slices.Equal(printed, log) {
		a.t.Errorf("%d events were printed and %d are in the log; the first difference is at %d", len(printed), len(log), firstDifference(printed, log))
	}
	forwarded, again := r.received()
	if !slices.Equal(forwarded, log) {
		a.t.Errorf("%d events were forwarded and %d are in the log; the first difference is at %d", len(forwarded), len(log), firstDifference(forwarded, log))
	}
	if again > kills {
		a.t.Errorf("%d events were forwarded twice, but the sender was killed only %d times", again, kills)
	}
	if len(r.wrong) > 0 {
		a.t.Errorf("%d forwarded events have wrong signatures: %v", len(r.wrong), r.wrong[0])
	}
}

func firstDifference(a, b []string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// interrupt stops a listener with SIGINT, like Ctrl-C.
func (l *listener) interrupt() {
	l.a.t.Helper()
	l.signal(syscall.SIGINT)
	err := l.cmd.Wait()
	if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.ExitCode() != 130 {
		l.a.t.Errorf("the listener ended with %v, want 130:\n%s", err, l.stderr)
	}
	l.cmd = nil
}
