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
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

const (
	crashDatabase = "JOURNAL_CRASH_DATABASE"
	crashOrg      = "JOURNAL_CRASH_ORG"
)

// TestAsAProcess is the other half of TestAKilledNodeLosesAboutASecond: a node that notes requests and tells of each, until it is killed.
func TestAsAProcess(t *testing.T) {
	t.Parallel()
	address := os.Getenv(crashDatabase)
	if address == "" {
		t.Skip("runs as a process of another test")
	}
	db, err := postgres.Open(t.Context(), postgres.Config{URL: secret.New(address), MaxConns: 2, Name: "crash"})
	if err != nil {
		t.Fatal(err)
	}
	j := requestlog.New(requestlog.Deps{SettleTimeout: time.Minute, DB: db, Ticker: clock.Ticker, Log: slog.New(slog.DiscardHandler), Now: clock.Now})
	go func() { _ = j.Run(t.Context()) }()
	tick, stop := clock.Ticker(time.Millisecond)
	defer stop()
	for n := 0; ; n++ {
		e := plain(id.Org(os.Getenv(crashOrg)), clock.Now())
		e.Request = id.Request("r" + strconv.Itoa(n))
		j.Add(e)
		fmt.Println("noted", n, e.At.UnixMicro())
		<-tick
	}
}

// A node that is killed loses what it noted in the last second or so: never what is older, nor anything in between.
func TestAKilledNodeLosesAboutASecond(t *testing.T) {
	t.Parallel()
	address := testenv.DatabaseURL(t)
	db, err := postgres.Open(t.Context(), postgres.Config{URL: address, MaxConns: 2, Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	owner := id.New[id.Org]()
	node := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAsAProcess$")
	node.Env = append(os.Environ(), crashDatabase+"="+address.Reveal(), crashOrg+"="+string(owner))
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	var noted []time.Time
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 || fields[0] != "noted" {
			continue
		}
		micros, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		noted = append(noted, time.UnixMicro(micros))
		// Shortly before a flush, after some of them.
		if noted[len(noted)-1].Sub(noted[0]) > 3900*time.Millisecond {
			break
		}
	}
	if err := node.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = node.Wait() // it says that it was killed
	if len(noted) == 0 {
		t.Fatal("the node noted nothing")
	}
	killed := noted[len(noted)-1]
	kept := rows(t, db, "org_id = $1", owner)
	if kept == 0 || kept > len(noted)+1000 {
		t.Fatalf("%d rows of %d", kept, len(noted))
	}
	// The kept ones are the first, without a gap.
	if n := rows(t, db, "org_id = $1 AND substr(request_id, 2)::int < $2", owner, kept); n != kept {
		t.Errorf("%d of the first %d are there", n, kept)
	}
	if kept < len(noted) {
		// A flush takes a while itself on a busy machine.
		lost := killed.Sub(noted[kept])
		t.Logf("%d noted, the last %d lost: %s", len(noted), len(noted)-kept, lost)
		if lost > 3*time.Second {
			t.Errorf("%s are lost", lost)
		}
	}
}
