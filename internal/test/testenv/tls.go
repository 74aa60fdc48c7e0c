package testenv

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// Authority signs certificates for the engines of one test and for their clients.
type Authority struct {
	// CAFile has the certificate of the authority.
	CAFile string

	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority. Its files can be read by PostgreSQL.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: postgresDir(t)}
	template := certificate("Test authority")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	var der []byte
	der, a.key = sign(t, template, template, nil)
	var err error
	a.cert, err = x509.ParseCertificate(der)
	must.OK(t, err)
	a.CAFile = a.write("ca.pem", "CERTIFICATE", der)
	return a
}

// Issue makes a certificate with a common name, for a server on 127.0.0.1 and for a client, and returns its files.
func (a *Authority) Issue(name string) (certFile, keyFile string) {
	a.t.Helper()
	template := certificate(name)
	template.IPAddresses, template.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, key := sign(a.t, template, a.cert, a.key)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must.OK(a.t, err)
	return a.write(name+".pem", "CERTIFICATE", der), a.write(name+".key", "PRIVATE KEY", private)
}

func certificate(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

// sign makes a key and its certificate. Without a signer, the certificate signs itself.
func sign(t testing.TB, template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (der []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	if signer == nil {
		signer = key
	}
	der, err = x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	must.OK(t, err)
	return der, key
}

func (a *Authority) write(name, kind string, der []byte) (file string) {
	a.t.Helper()
	file = filepath.Join(a.dir, name)
	must.OK(a.t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	if os.Getuid() == 0 {
		chownTo(a.t, file, "postgres")
	}
	return file
}

// TLSPostgres starts a PostgreSQL with the current schema that accepts only clients with a certificate of the authority
// for the user stagedoor. The URL has such a certificate.
func TLSPostgres(t testing.TB, a *Authority) *Store {
	t.Helper()
	cert, key := a.Issue("postgres")
	s := startPostgres(t, initPostgres(t), io.Discard, "ssl=on", "ssl_cert_file="+cert, "ssl_key_file="+key, "ssl_ca_file="+a.CAFile)
	own, ownKey := a.Issue("stagedoor")
	db := s.open(t)
	defer db.Close()
	must.OK(t, os.WriteFile(filepath.Join(s.Dir, "pg_hba.conf"), []byte("hostssl all all 127.0.0.1/32 cert\n"), 0o600))
	_, err := db.Pool().Exec(t.Context(), "SELECT pg_reload_conf()")
	must.OK(t, err)
	plain := *s
	Await(t, "PostgreSQL refuses clear text", func() bool {
		db := plain.open(t)
		defer db.Close()
		return db.Ping(t.Context()) != nil
	})
	s.URL = secret.New("postgres://stagedoor@" + s.address + "/postgres?" + url.Values{
		"sslmode": {"verify-full"}, "sslrootcert": {a.CAFile}, "sslcert": {own}, "sslkey": {ownKey},
	}.Encode())
	s.migrate(t)
	return s
}

// TLSRedis starts a Redis that accepts only clients with a certificate of the authority.
func TLSRedis(t testing.TB, a *Authority) *Store {
	t.Helper()
	requireEngines(t)
	address, dir := FreePort(t), t.TempDir()
	_, port, err := net.SplitHostPort(address)
	must.OK(t, err)
	cert, key := a.Issue("redis")
	binary := "redis-server"
	if _, err := exec.LookPath("valkey-server"); err == nil {
		binary = "valkey-server"
	}
	p := StartProcess(t, address, func() *exec.Cmd {
		return exec.Command(binary, "--port", "0", "--tls-port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir, "--loglevel", "warning",
			"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", a.CAFile, "--tls-auth-clients", "yes")
	})
	return &Store{p, secret.New("rediss://" + address + "/0"), dir}
}

// RoleNATS is one NATS server or a cluster of them, with the configuration of deploy/nats-roles.conf.
type RoleNATS struct {
	// Store is the first server; its URL lists all of them.
	*Store
	Servers []*Store
	// CertFile and KeyFile are a certificate that the servers accept from clients.
	CertFile, KeyFile string
	// Seeds has a file with the NKey of each role.
	Seeds map[string]string
	log   *syncBuffer
}

// NewRoleNATS starts the servers with certificates of the authority and new keys. Several servers form a cluster and
// encrypt the connections between them.
func NewRoleNATS(t testing.TB, a *Authority, servers int) *RoleNATS {
	t.Helper()
	requireEngines(t)
	cert, key := a.Issue("nats")
	n := &RoleNATS{Seeds: map[string]string{}, log: &syncBuffer{}}
	n.CertFile, n.KeyFile = a.Issue("node")
	env := append(os.Environ(), "NATS_CERT_FILE="+cert, "NATS_KEY_FILE="+key, "NATS_CA_FILE="+a.CAFile)
	seeds := t.TempDir()
	for role, variable := range map[string]string{"api": "NATS_NKEY_API", "worker": "NATS_NKEY_WORKER", "listener": "NATS_NKEY_LISTENER"} {
		pair, err := nkeys.CreateUser()
		must.OK(t, err)
		public, err := pair.PublicKey()
		must.OK(t, err)
		seed, err := pair.Seed()
		must.OK(t, err)
		n.Seeds[role] = filepath.Join(seeds, role+".nk")
		must.OK(t, os.WriteFile(n.Seeds[role], seed, 0o600))
		env = append(env, variable+"="+public)
	}
	routes, urls := make([]string, servers), make([]string, servers)
	for i := range routes {
		routes[i] = FreePort(t)
	}
	binary := Path(t, ".dev", "bin", "nats-server")
	for i := range servers {
		address, monitor, dir := FreePort(t), FreePort(t), t.TempDir()
		_, port, err := net.SplitHostPort(address)
		must.OK(t, err)
		_, monitorPort, err := net.SplitHostPort(monitor)
		must.OK(t, err)
		conf := Path(t, "deploy", "nats-roles.conf")
		if servers > 1 {
			conf = n.writeClusterConfig(t, dir, conf, i, routes)
		}
		p := StartProcess(t, address, func() *exec.Cmd {
			cmd := exec.Command(binary, "-c", conf, "-a", "127.0.0.1", "-p", port, "-m", monitorPort)
			cmd.Env, cmd.Stdout, cmd.Stderr = append(slices.Clone(env), "NATS_STORE_DIR="+filepath.Join(dir, "data")), n.log, n.log
			return cmd
		})
		urls[i] = "tls://" + address
		n.Servers = append(n.Servers, &Store{p, secret.New(urls[i]), dir})
	}
	n.Store = &Store{n.Servers[0].Process, secret.New(strings.Join(urls, ",")), n.Servers[0].Dir}
	return n
}

// writeClusterConfig adds to a configuration what makes a server part of a cluster, as docs/operations/nats-cluster.md
// says.
func (n *RoleNATS) writeClusterConfig(t testing.TB, dir, conf string, server int, routes []string) string {
	t.Helper()
	include, err := filepath.Rel(dir, conf) // NATS takes no absolute path
	must.OK(t, err)
	file := filepath.Join(dir, "cluster.conf")
	must.OK(t, os.WriteFile(file, fmt.Appendf(nil, `include %q
server_name: n%d
cluster {
  name: stagedoor
  listen: %q
  no_advertise: true
  routes: ["nats://%s"]
  tls { cert_file: $NATS_CERT_FILE, key_file: $NATS_KEY_FILE, ca_file: $NATS_CA_FILE, verify: true }
}
`, include, server, routes[server], strings.Join(routes, `", "nats://`)), 0o600))
	return file
}

// Log returns what the servers have written. They log every refused subject.
func (n *RoleNATS) Log() string { return n.log.String() }

// syncBuffer is a buffer for concurrent use.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.text.Write(p)
	if err != nil {
		return n, fmt.Errorf("write to the buffer: %w", err)
	}
	return n, nil
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
