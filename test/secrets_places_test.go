package test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/aead/aesgcm"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/insecuresecretdataaccess"
	"github.com/tink-crypto/tink-go/v2/keyset"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// sink keeps what is written to it.
type sink struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *sink) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *sink) bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.buf.Bytes())
}

// place is data in which a secret may be left, such as a file. Places with the same name are parts of one place.
type place struct {
	name, part string
	data       []byte
}

// privateEngines are the engines of one run, with recordings of everything that was sent to them.
type privateEngines struct {
	t                              *testing.T
	postgres, nats, redis          *testenv.Store
	keyset                         string
	statements, monitor, traces    *sink
	collector                      *httptest.Server
	commands                       net.Conn
	replies                        *bufio.Reader
	sqlText, natsText, commandText string // probes that the search must find
}

// keepEverything copies wrapped data keys when they are inserted, so that they outlive their deletion. It also turns
// off the compression of columns, which would hide secrets.
const keepEverything = `
CREATE SCHEMA probe;
CREATE TABLE probe.data_key (LIKE keyring.data_key);
CREATE FUNCTION probe.keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO probe.data_key SELECT NEW.*; RETURN NULL; END $$;
CREATE TRIGGER keep AFTER INSERT ON keyring.data_key FOR EACH ROW EXECUTE FUNCTION probe.keep();
DO $$ DECLARE c record; BEGIN
  FOR c IN SELECT a.attrelid::regclass AS relation, a.attname FROM pg_attribute a JOIN pg_class r ON r.oid = a.attrelid
    WHERE r.relkind IN ('r', 'p') AND r.relnamespace::regnamespace::text IN ('public', 'keyring') AND a.attnum > 0 AND NOT a.attisdropped AND a.attstorage IN ('x', 'm')
  LOOP EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET STORAGE EXTERNAL', c.relation, c.attname); END LOOP;
END $$;
CREATE TABLE probe.found (bytes bytea, base64 text);`

func newPrivateEngines(t *testing.T) *privateEngines {
	t.Helper()
	e := &privateEngines{
		t: t, statements: &sink{}, monitor: &sink{}, traces: &sink{}, keyset: filepath.Join(t.TempDir(), "keyset.json"),
		sqlText: secretText("sql"), natsText: secretText("nats"), commandText: secretText("redis"),
	}
	e.postgres = testenv.PrivatePostgres(t, e.statements)
	e.sql(keepEverything)
	e.sql("INSERT INTO probe.found VALUES (convert_to($1, 'UTF8'), encode(convert_to('x' || $1 || 'y', 'UTF8'), 'base64'))", e.sqlText)
	e.nats = testenv.PrivateJetStream(t)
	e.recordNATS()
	e.redis = testenv.StoringRedis(t)
	e.recordRedis()
	e.collector = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			unpacked, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body = unpacked
		}
		_, _ = io.Copy(e.traces, body)
	}))
	t.Cleanup(e.collector.Close)
	return e
}

func (e *privateEngines) sql(text string, args ...any) {
	e.t.Helper()
	conn, err := pgx.Connect(e.t.Context(), e.postgres.URL.Reveal())
	must.OK(e.t, err)
	defer conn.Close(e.t.Context())
	if _, err := conn.Exec(e.t.Context(), text, args...); err != nil {
		e.t.Fatal(err)
	}
}

// recordNATS makes JetStream store the messages of the bus.
func (e *privateEngines) recordNATS() {
	e.t.Helper()
	conn, err := nats.Connect(e.nats.URL.Reveal())
	must.OK(e.t, err)
	e.t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	must.OK(e.t, err)
	_, err = js.CreateStream(e.t.Context(), jetstream.StreamConfig{Name: "all", Subjects: []string{"connect.>", "inv.>", "probe.>"}, Storage: jetstream.FileStorage})
	if err == nil {
		_, err = js.Publish(e.t.Context(), "probe.x", []byte(e.natsText))
	}
	must.OK(e.t, err)
}

// recordRedis records every command with MONITOR.
func (e *privateEngines) recordRedis() {
	e.t.Helper()
	address := strings.TrimSuffix(strings.TrimPrefix(e.redis.URL.Reveal(), "redis://"), "/0")
	watch, err := net.Dial("tcp", address)
	must.OK(e.t, err)
	e.t.Cleanup(func() { _ = watch.Close() })
	if _, err := io.WriteString(watch, "MONITOR\r\n"); err != nil {
		e.t.Fatal(err)
	}
	lines := bufio.NewReader(watch)
	if line, err := lines.ReadString('\n'); err != nil || line != "+OK\r\n" {
		e.t.Fatalf("MONITOR: %q %v", line, err)
	}
	go func() { _, _ = io.Copy(e.monitor, lines) }()
	e.commands, err = net.Dial("tcp", address)
	must.OK(e.t, err)
	e.t.Cleanup(func() { _ = e.commands.Close() })
	e.replies = bufio.NewReader(e.commands)
	e.command("SET probe " + e.commandText)
}

// command sends Redis a command whose reply must be OK.
func (e *privateEngines) command(text string) {
	e.t.Helper()
	if _, err := io.WriteString(e.commands, text+"\r\n"); err != nil {
		e.t.Fatal(err)
	}
	if line, err := e.replies.ReadString('\n'); err != nil || line != "+OK\r\n" {
		e.t.Fatalf("%s: %q %v", text, line, err)
	}
}

// joinParts encodes the additional data of a wrapped key, as package seal does.
func joinParts(label string, parts ...string) []byte {
	var out []byte
	for _, part := range append([]string{label}, parts...) {
		out = binary.BigEndian.AppendUint32(out, uint32(len(part)))
		out = append(out, part...)
	}
	return out
}

func numberOf(n int32) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))) }

// plantKeys plants all keys of the run: of the key management service, the root key with those derived from it, and the
// keys of organisations and holders.
func (e *privateEngines) plantKeys(v *vault) {
	t := e.t
	t.Helper()
	text, err := os.ReadFile(e.keyset)
	must.OK(t, err)
	top, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(text)))
	must.OK(t, err)
	v.plant(t, false, "kms key", keyBytes(t, top))
	local, err := kms.OpenLocal(kms.LocalConfig{File: e.keyset})
	must.OK(t, err)
	db, err := postgres.Open(t.Context(), postgres.Config{URL: e.postgres.URL, MaxConns: 2, Name: "keys"})
	must.OK(t, err)
	defer db.Close()
	unwrap := func(stored, aad []byte) string {
		t.Helper()
		wrapped, err := kms.ParseWrapped(stored)
		must.OK(t, err)
		key, err := local.Unwrap(t.Context(), wrapped, aad)
		must.OK(t, err)
		return key.Reveal()
	}
	var org, holder string
	var number int32
	var wrapped []byte
	must.OK(t, db.Pool().QueryRow(t.Context(), "SELECT wrapped FROM keyring.root_key").Scan(&wrapped))
	v.plant(t, false, "root key", unwrap(wrapped, joinParts("sd1root")))
	sealer := seal.New(seal.Deps{DB: db, KMS: local, Log: nil, Now: clock.Now, Config: seal.Config{}, OldKMS: nil, Bus: nil})
	for _, purpose := range []string{"connect.link", "connect.login", "creator manage link", "idempotency"} {
		key, err := sealer.Derive(t.Context(), purpose)
		must.OK(t, err)
		v.plant(t, false, "derived key", string(key))
	}

	orgs := map[string]*keyset.Handle{}
	rows, err := db.Pool().Query(t.Context(), "SELECT org_id, version, wrapped FROM keyring.org_key")
	must.OK(t, err)
	_, err = pgx.ForEachRow(rows, []any{&org, &number, &wrapped}, func() error {
		key := unwrap(wrapped, joinParts("sd1ork", org, numberOf(number)))
		handle, err := insecurecleartextkeyset.Read(keyset.NewBinaryReader(strings.NewReader(key)))
		must.OK(t, err)
		v.plant(t, false, "org key", key, keyBytes(t, handle))
		orgs[org+fmt.Sprint(number)] = handle
		return nil
	})
	must.OK(t, err)
	var generation int32
	rows, err = db.Pool().Query(t.Context(), "SELECT org_id, holder, generation, org_version, wrapped FROM probe.data_key")
	must.OK(t, err)
	_, err = pgx.ForEachRow(rows, []any{&org, &holder, &generation, &number, &wrapped}, func() error {
		above, err := aead.New(orgs[org+fmt.Sprint(number)])
		must.OK(t, err)
		key, err := above.Decrypt(wrapped, joinParts("sd1dek", org, holder, numberOf(generation)))
		must.OK(t, err)
		handle, err := insecurecleartextkeyset.Read(keyset.NewBinaryReader(bytes.NewReader(key)))
		must.OK(t, err)
		v.plant(t, false, "data key", string(key), keyBytes(t, handle))
		return nil
	})
	must.OK(t, err)
}

// keyBytes returns the AES key of a keyset with one key.
func keyBytes(t *testing.T, handle *keyset.Handle) string {
	t.Helper()
	entry, err := handle.Primary()
	must.OK(t, err)
	key, ok := entry.Key().(*aesgcm.Key)
	if !ok {
		t.Fatalf("%T is no AES-GCM key", entry.Key())
	}
	return string(key.KeyBytes().Data(insecuresecretdataaccess.Token{}))
}

// stopAndRead stops the engines and returns their data and the recordings.
func (e *privateEngines) stopAndRead() []place {
	t := e.t
	t.Helper()
	testenv.SaveRedis(t, e.redis)
	dump, err := exec.Command(filepath.Join(testenv.PostgresPrograms(t), "pg_dump"), e.postgres.URL.Reveal()).Output()
	if err != nil {
		t.Fatalf("pg_dump: %v", err)
	}
	e.postgres.Stop()
	e.nats.Signal(syscall.SIGTERM)
	<-e.nats.Exited()
	list := []place{
		{"database dump", "", dump}, {"statements of PostgreSQL", "", e.statements.bytes()},
		{"Redis MONITOR", "", e.monitor.bytes()}, {"traces", "", e.traces.bytes()},
	}
	list = append(list, files(t, "Redis keys", e.redis.Dir)...)
	list = append(list, files(t, "JetStream", e.nats.Dir)...)
	for _, file := range files(t, "files of PostgreSQL", e.postgres.Dir) {
		if strings.HasPrefix(file.part, "pg_wal/") {
			file.name = "WAL"
		}
		list = append(list, file)
	}
	return list
}

func files(t *testing.T, name, folder string) (list []place) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		part, _ := filepath.Rel(folder, path)
		list = append(list, place{name, part, data})
		return err
	})
	must.OK(t, err)
	return list
}
