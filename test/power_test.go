package test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// What PostgreSQL and NATS acknowledge, with the settings of production, survives a power failure, and a disk that was
// full. A file that was not synced does not: the power was really cut.
func TestAcknowledgedWritesSurviveThePower(t *testing.T) {
	t.Parallel()
	if err := testenv.CanMount(); err != nil {
		t.Skipf("this machine cannot run the test: %v", err)
	}
	const writes = 50
	volume := testenv.NewVolume(t, 2<<30)
	folder := func(name string) string {
		dir := filepath.Join(volume.Dir, name)
		must.OK(t, os.Mkdir(dir, 0o700))
		return dir
	}
	database := testenv.PrivatePostgresIn(t, nil, folder("postgres"), "fsync=on", "synchronous_commit=on")
	log := testenv.NATSClusterIn(t, []string{folder("n0"), folder("n1"), folder("n2")})
	volume.Sync() // initdb does not
	conn, err := pgx.Connect(t.Context(), database.URL.Reveal())
	must.OK(t, err)
	_, err = conn.Exec(t.Context(), "CREATE TABLE written (n int)")
	must.OK(t, err)
	stream := openStream(t, log)
	write := func(from, to int) {
		for n := from; n < to; n++ {
			_, err = conn.Exec(t.Context(), "INSERT INTO written VALUES ($1)", n)
			must.OK(t, err)
			_, err = stream.Publish(t.Context(), "written", fmt.Append(nil, n))
			must.OK(t, err)
		}
	}
	write(0, writes/2)
	volume.Fill()
	if err := os.WriteFile(filepath.Join(volume.Dir, "more"), make([]byte, 1<<20), 0o600); err == nil {
		t.Error("a full disk accepted a file")
	}
	volume.Free()
	volume.Sync() // otherwise the disk may be full again after the power failure
	write(writes/2, writes)

	unsynced := filepath.Join(volume.Dir, "unsynced")
	must.OK(t, os.WriteFile(unsynced, []byte("lost"), 0o600))
	volume.CutPower()
	killTree(t, database.Process)
	for _, n := range log.Nodes {
		n.Kill()
	}
	volume.Remount()
	if _, err := os.Stat(unsynced); err == nil {
		t.Error("a file that was not synced survived")
	}
	database.Start()
	for _, n := range log.Nodes {
		n.Start()
	}
	for i := range log.Nodes {
		log.Ready(i)
	}

	found := 0
	testenv.Await(t, "the database accepts queries", func() bool {
		conn, err := pgx.Connect(t.Context(), database.URL.Reveal())
		if err != nil {
			return false
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		return conn.QueryRow(t.Context(), "SELECT count(*) FROM written").Scan(&found) == nil
	})
	info, err := openStream(t, log).Stream(t.Context(), "WRITTEN")
	must.OK(t, err)
	if kept := info.CachedInfo().State.Msgs; found != writes || kept != writes {
		t.Errorf("of %d acknowledged writes, PostgreSQL has %d and NATS %d", writes, found, kept)
	}
}

func openStream(t *testing.T, log *testenv.Cluster) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(log.URL.Reveal(), nats.Timeout(time.Minute))
	must.OK(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	must.OK(t, err)
	testenv.Await(t, "the stream is there", func() bool {
		_, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "WRITTEN", Subjects: []string{"written"}, Replicas: 3})
		return err == nil
	})
	return js
}
