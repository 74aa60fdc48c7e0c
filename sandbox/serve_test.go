package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/smtp"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

// daemon is a sandboxd process.
type daemon struct {
	t       *testing.T
	program string
	address string
	data    string
	cmd     *exec.Cmd
}

func newDaemon(t *testing.T) *daemon {
	t.Helper()
	dir := t.TempDir()
	d := &daemon{t: t, program: filepath.Join(dir, "sandboxd"), data: filepath.Join(dir, "s.db")}
	if out, err := exec.Command("go", "build", "-o", d.program, "../cmd/sandboxd").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d.address = freeAddress(t)
	return d
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	sandboxtest.OK(t, err)
	defer l.Close()
	return l.Addr().String()
}

// start runs the daemon and waits until it responds.
func (d *daemon) start(args ...string) {
	d.t.Helper()
	d.cmd = exec.Command(d.program, append([]string{"-addr", d.address, "-data", d.data}, args...)...)
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = d.cmd.Process.Kill() })
	for deadline := time.Now().Add(2 * time.Minute); ; {
		if resp, err := http.Get("http://" + d.address + "/control/clock"); err == nil {
			_ = resp.Body.Close()
			return
		} else if time.Now().After(deadline) {
			d.t.Fatal(err)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// stop sends a signal and waits for the process to exit.
func (d *daemon) stop(signal syscall.Signal) error {
	d.t.Helper()
	if err := d.cmd.Process.Signal(signal); err != nil {
		d.t.Fatal(err)
	}
	return d.cmd.Wait()
}

// send makes a request and returns the status and the decoded body. The status is 0 if no response arrived.
func (d *daemon) send(method, path string, header http.Header, body string) (int, map[string]any) {
	req, err := http.NewRequestWithContext(d.t.Context(), method, "http://"+d.address+path, strings.NewReader(body))
	if err != nil {
		d.t.Error(err)
		return 0, nil
	}
	req.Header = header.Clone()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil
	}
	var answer map[string]any
	if err := json.Unmarshal(text, &answer); err != nil {
		d.t.Errorf("%s %s: %s", method, path, text)
	}
	return resp.StatusCode, answer
}

// session opens a session for a login and returns its headers.
func (d *daemon) session(login string) http.Header {
	d.t.Helper()
	status, s := d.send("POST", "/control/sessions", http.Header{}, fmt.Sprintf(`{"login":%q}`, login))
	if status != http.StatusOK {
		d.t.Fatalf("%d %v", status, s)
	}
	h := http.Header{"Cookie": {s["cookie"].(string)}}
	for name, value := range s["headers"].(map[string]any) {
		h.Set(name, value.(string))
	}
	return h
}

func TestWhatWasAnsweredSurvivesAKill(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	header := d.session("ok+kill@sandbox.test")
	var (
		mu    sync.Mutex
		made  []string
		wait  sync.WaitGroup
		ready = make(chan struct{}, 100)
	)
	for worker := range 4 {
		wait.Go(func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("kill %d %d", worker, i)
				status, _ := d.send("POST", "/api/v2/lists", header, fmt.Sprintf(`{"name":%q}`, name))
				if status != http.StatusOK {
					return
				}
				mu.Lock()
				made = append(made, name)
				mu.Unlock()
				select {
				case ready <- struct{}{}:
				default:
				}
			}
		})
	}
	for range 60 {
		<-ready
	}
	_ = d.stop(syscall.SIGKILL) // the error is expected: the process was killed
	wait.Wait()
	d.start()
	there := map[string]bool{}
	for marker := ""; ; {
		status, page := d.send("GET", "/api/v2/lists?type=own&limit=100"+marker, header, "")
		if status != http.StatusOK {
			t.Fatalf("after the kill: %d %v", status, page)
		}
		for _, l := range page["list"].([]any) {
			there[l.(map[string]any)["name"].(string)] = true
		}
		if page["has_more"] != true {
			break
		}
		marker = "&marker=" + page["next_marker"].(string)
	}
	for _, name := range made {
		if !there[name] {
			t.Errorf("the write %q was answered but lost", name)
		}
	}
	t.Logf("%d answered writes survived", len(made))
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Fatalf("exit after SIGTERM: %v", err)
	}
}

func TestTheDaemonReceivesMail(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	mails := freeAddress(t)
	d.start("-mail", mails)
	body := "From: g@ghost.test\r\nSubject: 123456 is your code\r\n\r\nHello."
	sandboxtest.OK(t, smtp.SendMail(mails, nil, "g@ghost.test", []string{"maya@example.com"}, []byte(body)))
	for to, want := range map[string]int{"": 1, "?to=Maya%40example.com": 1, "?to=other%40example.com": 0} {
		status, answer := d.send("GET", "/control/mails"+to, http.Header{}, "")
		list, ok := answer["mails"].([]any)
		if status != http.StatusOK || !ok || len(list) != want {
			t.Fatalf("%q: %d %v", to, status, answer)
		}
		for _, one := range list {
			m := one.(map[string]any)
			delete(m, "at")
			if want := `{"from":"g@ghost.test","html":"","subject":"123456 is your code","text":"Hello.\r\n","to":["maya@example.com"]}`; text(t, m) != want {
				t.Errorf("got %s, want %s", text(t, m), want)
			}
		}
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Errorf("the daemon ends with %v", err)
	}
}

func text(t *testing.T, value any) string {
	t.Helper()
	out, err := json.Marshal(value)
	sandboxtest.OK(t, err)
	return string(out)
}

func TestSettingsThatAreWrongAreExplained(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-regions nonsense":                   "address=name",
		"-unknown":                            "flag provided but not defined",
		"-addr 300.1.1.1:1":                   "cannot listen",
		"-addr 127.0.0.1:0 -mail 300.1.1.1:1": "cannot listen for mail",
	} {
		var out, errs bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if code := sandbox.Main(ctx, strings.Fields(args), time.Now, &out, &errs); code == 0 || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: exit %d, stderr %q", args, code, errs.String())
		}
	}
}

// Every happening works without parameters, can be repeated, and sends its frame.
func TestEverythingCanHappenByItself(t *testing.T) {
	t.Parallel()
	const login = "ok@sandbox.test"
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	for what := range sandbox.Happenings() {
		for range 3 {
			p.Order(login, what, fanaction.Input{})
			if body := c.Frame(what); len(body) == 0 {
				t.Errorf("%s: the frame is empty", what)
			}
		}
	}
}
