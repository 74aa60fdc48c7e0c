package dev

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

// cloneOf is the root of the repository's clone that a directory is in; empty if it is in none.
func cloneOf(dir string) string {
	for {
		module, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(module), "module github.com/stagedoor/stagedoor\n") {
			if _, err := os.Stat(filepath.Join(dir, "scripts", "up")); err == nil {
				return dir
			}
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// inClone runs a clone's own scripts. What ran already belongs to somebody else and is not stopped.
func (d *dev) inClone(ctx context.Context, root string) error {
	running := d.answers(ctx, root)
	if err := d.script(ctx, root, "up"); err != nil {
		return err
	}
	env, err := readEnv(filepath.Join(root, ".dev", "env"))
	if err != nil {
		return err
	}
	err = d.present(ctx, place{URL: env["STAGEDOOR_URL"], APIKey: env["STAGEDOOR_API_KEY"]})
	if err == nil {
		if running {
			d.app.Out.Say("It was running before, so it goes on when this ends; make down stops it.")
		}
		err = d.tail(ctx, filepath.Join(root, ".dev", "log", "node-1.log"))
	}
	if running {
		return err
	}
	d.app.Out.Say("Stopping…")
	// The context has ended; stopping needs one that has not.
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if failed := d.script(stop, root, "down"); failed != nil {
		return failed
	}
	return err
}

// answers says whether the clone's system is up.
func (d *dev) answers(ctx context.Context, root string) bool {
	env, err := readEnv(filepath.Join(root, ".dev", "env"))
	if err != nil {
		return false
	}
	return ready(ctx, env["STAGEDOOR_INTERNAL_URL"])
}

// script runs one of the clone's scripts. Its words are shown as they come: a first run installs and builds, which takes minutes.
func (d *dev) script(ctx context.Context, root, name string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(root, "scripts", name))
	cmd.Dir = root
	cmd.Env = without(d.app.Env, "STAGEDOOR_")
	cmd.Stdout, cmd.Stderr = d.app.Out.Stderr, d.app.Out.Stderr
	if d.app.Out.Quiet || d.app.Out.JSON {
		cmd.Stdout = io.Discard
	}
	alone(cmd)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &core.Fault{Code: core.ExitOther, Text: "scripts/" + name + " failed: " + err.Error(), Hint: "Its own words are above.", Err: err}
	}
	return nil
}

// readEnv reads a file of exports that scripts/up writes.
func readEnv(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read what scripts/up wrote: %w", err)
	}
	env := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if ok && !strings.HasPrefix(line, "#") {
			env[name] = strings.Trim(value, "'")
		}
	}
	return env, nil
}

// tail shows what is written to a log from now on.
func (d *dev) tail(ctx context.Context, path string) error {
	if d.noLogs {
		<-ctx.Done()
		return ctx.Err()
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("follow the log: %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(0, io.SeekEnd); err != nil {
		return fmt.Errorf("follow the log: %w", err)
	}
	lines := bufio.NewReader(file)
	var begun string
	for {
		part, err := lines.ReadString('\n')
		begun += part
		if err == nil {
			d.show(begun)
			begun = ""
			continue
		}
		if !errors.Is(err, io.EOF) {
			return fmt.Errorf("follow the log: %w", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// ready says whether a node can serve, by what its internal address answers.
func ready(ctx context.Context, internal string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, internal+"/readyz", nil)
	if err != nil {
		return false
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// without is an environment without the variables whose names begin so.
func without(env map[string]string, prefix string) []string {
	var list []string
	for name, value := range env {
		if !strings.HasPrefix(name, prefix) {
			list = append(list, name+"="+value)
		}
	}
	return list
}
