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

// findClone returns the root of the clone of the repository that contains dir, or an empty string.
func findClone(dir string) string {
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

// runInClone starts the system with the clone's scripts, shows its log, and stops it at the end. A system that was
// already running is left running.
func (d *dev) runInClone(ctx context.Context, root string) error {
	running := d.isCloneRunning(ctx, root)
	if err := d.runScript(ctx, root, "up"); err != nil {
		return err
	}
	env, err := readEnv(filepath.Join(root, ".dev", "env"))
	if err != nil {
		return err
	}
	err = d.announce(ctx, endpoint{URL: env["STAGEDOOR_URL"], APIKey: env["STAGEDOOR_API_KEY"]})
	if err == nil {
		if running {
			d.app.Out.Say("The server was already running and will keep running. Stop it with make down.")
		}
		err = d.tailLog(ctx, filepath.Join(root, ".dev", "log", "node-1.log"))
	}
	if running {
		return err
	}
	d.app.Out.Say("Stopping…")
	// Ctrl-C has cancelled the context, so stop with a fresh one.
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if failed := d.runScript(stop, root, "down"); failed != nil {
		return failed
	}
	return err
}

// isCloneRunning reports whether the clone's first node is ready.
func (d *dev) isCloneRunning(ctx context.Context, root string) bool {
	env, err := readEnv(filepath.Join(root, ".dev", "env"))
	if err != nil {
		return false
	}
	return isReady(ctx, env["STAGEDOOR_INTERNAL_URL"])
}

// runScript runs one of the clone's scripts. It shows the script's output on standard error as it comes, because the
// first run installs and builds for minutes.
func (d *dev) runScript(ctx context.Context, root, name string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(root, "scripts", name))
	cmd.Dir = root
	cmd.Env = without(d.app.Env, "STAGEDOOR_")
	cmd.Stdout, cmd.Stderr = d.app.Out.Stderr, d.app.Out.Stderr
	if d.app.Out.Quiet || d.app.Out.JSON {
		cmd.Stdout = io.Discard
	}
	setProcessGroup(cmd)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &core.Fault{Code: core.ExitOther, Text: "scripts/" + name + " failed: " + err.Error(),
			Hint: "See its output above.", Err: err}
	}
	return nil
}

// readEnv reads the file of shell exports that scripts/up writes.
func readEnv(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the environment of scripts/up: %w", err)
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

// tailLog shows new lines of a log until the context ends. With --no-logs it only waits.
func (d *dev) tailLog(ctx context.Context, path string) error {
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
	var line string
	for {
		part, err := lines.ReadString('\n')
		line += part
		if err == nil {
			d.showLogLine(line)
			line = ""
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

// isReady reports whether the node with this internal URL is ready to serve.
func isReady(ctx context.Context, internal string) bool {
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

// without returns the variables whose names do not start with prefix, as name=value.
func without(env map[string]string, prefix string) []string {
	var list []string
	for name, value := range env {
		if !strings.HasPrefix(name, prefix) {
			list = append(list, name+"="+value)
		}
	}
	return list
}
