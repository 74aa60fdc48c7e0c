package testenv

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// Chains of the packet filter have this prefix, the id of the test process, and a number.
const chainPrefix = "STAGEDOOR-"

var chains atomic.Int64

// CanDropPackets returns why this process may not drop packets; nil if it may.
func CanDropPackets() error {
	if out, err := exec.Command("iptables", "-w", "-S", "INPUT").CombinedOutput(); err != nil {
		return fmt.Errorf("iptables: %w: %s", err, out)
	}
	return nil
}

// DropPackets drops a share of the packets on links, in both directions: 1 for all of them. Connections stay open, and
// neither side learns of it. restore ends it, as does the end of the test. If a test process is killed, the next one
// removes its rules; they concern only ports that the dead process used.
func DropPackets(t testing.TB, share float64, links ...*SlowLink) (restore func()) {
	t.Helper()
	removeDeadChains(t)
	chain := fmt.Sprintf("%s%d-%d", chainPrefix, os.Getpid(), chains.Add(1))
	filter(t, "-N", chain)
	once := sync.OnceFunc(func() { removeChain(t, chain) })
	t.Cleanup(once)
	for _, link := range links {
		_, port, err := net.SplitHostPort(link.Address)
		if err != nil {
			t.Fatal(err)
		}
		for _, side := range []string{"--dport", "--sport"} {
			rule := []string{"-A", chain, "-i", "lo", "-p", "tcp", side, port}
			if share < 1 {
				rule = append(rule, "-m", "statistic", "--mode", "random", "--probability", strconv.FormatFloat(share, 'f', 6, 64))
			}
			filter(t, append(rule, "-j", "DROP")...)
		}
	}
	filter(t, "-I", "INPUT", "-j", chain)
	return once
}

func filter(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command("iptables", append([]string{"-w"}, args...)...).CombinedOutput()
	if err != nil {
		t.Errorf("iptables %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func removeChain(t testing.TB, chain string) {
	t.Helper()
	if strings.Contains(filter(t, "-S", "INPUT"), "-j "+chain+"\n") {
		filter(t, "-D", "INPUT", "-j", chain)
	}
	filter(t, "-F", chain)
	filter(t, "-X", chain)
}

// removeDeadChains removes what a test process has left that was killed.
func removeDeadChains(t testing.TB) {
	t.Helper()
	for line := range strings.Lines(filter(t, "-S")) {
		chain, ok := strings.CutPrefix(strings.TrimSpace(line), "-N ")
		if ok && isLeft(chain, chainPrefix) {
			removeChain(t, chain)
		}
	}
}

// isLeft reports whether a name consists of the prefix, the id of a process that no longer exists, and a number.
func isLeft(name, prefix string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	id, _, _ := strings.Cut(rest, "-")
	pid, err := strconv.Atoi(id)
	return ok && err == nil && syscall.Kill(pid, 0) == syscall.ESRCH
}
