package requestlog_test

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

const (
	crashDatabase = "JOURNAL_CRASH_DATABASE"
	crashOrg      = "JOURNAL_CRASH_ORG"
)

// TestAsAProcess is the other half of TestAKilledNodeLosesAboutASecond: a node that adds requests and prints each of
// them, until it is killed.
func TestAsAProcess(t *testing.T) {
	t.Parallel()
	address := os.Getenv(crashDatabase)
	if address == "" {
		t.Skip("runs as a process of another test")
	}
	db, err := postgres.Open(t.Context(), postgres.Config{URL: secret.New(address), MaxConns: 2, Name: "crash"})
	must.OK(t, err)
	j := requestlog.New(requestlog.Deps{SettleTimeout: time.Minute, DB: db, Ticker: clock.Ticker, Log: slog.New(slog.DiscardHandler), Now: clock.Now})
	go func() { _ = j.Run(t.Context()) }()
	tick, stop := clock.Ticker(time.Millisecond)
	defer stop()
	for n := 0; ; n++ {
		e := success(id.Org(os.Getenv(crashOrg)), clock.Now())
		e.Request = id.Request("r" + strconv.Itoa(n))
		j.Add(e)
		fmt.Println("added", n, e.At.UnixMicro())
		<-tick
	}
}

// A killed node loses the requests of about its last second. It does not lose older ones, and leaves no gaps.
func TestAKilledNodeLosesAboutASecond(t *testing.T) {
	t.Parallel()
	address := testenv.DatabaseURL(t)
	db, err := postgres.Open(t.Context(), postgres.Config{URL: address, MaxConns: 2, Name: "test"})
	must.OK(t, err)
	defer db.Close()
	owner := id.New[id.Org]()
	node := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAsAProcess$")
	node.Env = append(os.Environ(), crashDatabase+"="+address.Reveal(), crashOrg+"="+string(owner))
	out, err := node.StdoutPipe()
	must.OK(t, err)
	must.OK(t, node.Start())
	var added []time.Time
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 || fields[0] != "added" {
			continue
		}
		micros, err := strconv.ParseInt(fields[2], 10, 64)
		must.OK(t, err)
		added = append(added, time.UnixMicro(micros))
		// Kill it after several flushes, shortly before the next one.
		if added[len(added)-1].Sub(added[0]) > 3900*time.Millisecond {
			break
		}
	}
	must.OK(t, node.Process.Kill())
	_ = node.Wait() // always an error, because the process was killed
	if len(added) == 0 {
		t.Fatal("the node added nothing")
	}
	killed := added[len(added)-1]
	kept := countRows(t, db, "org_id = $1", owner)
	if kept == 0 || kept > len(added)+1000 {
		t.Fatalf("%d rows of %d", kept, len(added))
	}
	// The kept requests are the first ones, without a gap.
	if n := countRows(t, db, "org_id = $1 AND substr(request_id, 2)::int < $2", owner, kept); n != kept {
		t.Errorf("%d of the first %d were kept", n, kept)
	}
	if kept < len(added) {
		// On a busy machine the flush itself takes a while.
		lost := killed.Sub(added[kept])
		t.Logf("%d added, the last %d lost: %s", len(added), len(added)-kept, lost)
		if lost > 3*time.Second {
			t.Errorf("the last %s are lost", lost)
		}
	}
}
