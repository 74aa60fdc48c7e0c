// Package config reads the settings of a server from its environment. Only package app reads it; every other package
// takes a small Config of its own.
package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
)

// Config is every setting. The doc tags are what `stagedoord config` prints.
type Config struct {
	Database secret.String `env:"DATABASE_URL" need:"a PostgreSQL URL, such as postgres://stagedoor:password@127.0.0.1:5432/stagedoor" doc:"PostgreSQL, the system of record."`
	Redis    secret.String `env:"REDIS_URL" need:"a Redis or Valkey URL, such as redis://127.0.0.1:6379/0" doc:"Redis or Valkey, for admission. Run it without persistence: older counters are worse than none."`
	NATS     secret.String `env:"NATS_URL" need:"a NATS URL, such as nats://127.0.0.1:4222" doc:"NATS, for pokes between nodes and the event log."`

	Roles          []string      `env:"STAGEDOOR_ROLES" envDefault:"api,worker,listener" doc:"What this process does: any of api, worker, listener. The flag --roles wins."`
	Node           string        `env:"STAGEDOOR_NODE" doc:"The name of this node in logs and lists; the host's name if empty."`
	Listen         string        `env:"STAGEDOOR_LISTEN" envDefault:":8080" doc:"Address of the public listener."`
	InternalListen string        `env:"STAGEDOOR_INTERNAL_LISTEN" envDefault:"127.0.0.1:8081" doc:"Address of the internal listener: health, metrics, profiles, admin API. Never expose it."`
	PublicURL      string        `env:"STAGEDOOR_PUBLIC_URL" need:"the address by which callers reach the service, such as https://api.example.com" doc:"Address by which callers reach the service; links in answers start with it."`
	TrustedProxies []string      `env:"STAGEDOOR_TRUSTED_PROXIES" doc:"Networks, such as 10.0.0.0/8, whose X-Forwarded-For is believed."`
	AdminToken     secret.String `env:"STAGEDOOR_ADMIN_TOKEN" need:"32 or more random characters, such as the output of: openssl rand -hex 32" doc:"Bearer token of the admin API; it carries admin:*."`
	IPHashKey      secret.String `env:"STAGEDOOR_IP_HASH_KEY" need:"32 or more random characters, such as the output of: openssl rand -hex 32" doc:"Key of the hash that stands for addresses in the audit log. The same on all nodes."`

	ConnectURL string `env:"STAGEDOOR_CONNECT_URL" doc:"Address by which creators reach the connect pages; STAGEDOOR_PUBLIC_URL if empty."`

	OIDCIssuer   string        `env:"STAGEDOOR_OIDC_ISSUER" doc:"Issuer of the identity provider by which people sign in to the dashboard, such as https://accounts.google.com; empty for none. See docs/dashboard.md."`
	OIDCClientID string        `env:"STAGEDOOR_OIDC_CLIENT_ID" doc:"What the identity provider knows this service by. Its redirect address is STAGEDOOR_PUBLIC_URL/app/callback."`
	OIDCSecret   secret.String `env:"STAGEDOOR_OIDC_CLIENT_SECRET" doc:"The client's secret at the identity provider."`
	OIDCName     string        `env:"STAGEDOOR_OIDC_NAME" doc:"What people call the identity provider, on the button of the sign-in page."`
	Signup       string        `env:"STAGEDOOR_SIGNUP" doc:"open lets somebody in who is not invited, with a sandbox organisation of their own; closed, the default, does not. Open by default with STAGEDOOR_DEV."`

	Keyring      secret.String `env:"STAGEDOOR_KEYRING_URL" doc:"PostgreSQL where the data keys are, so that they can have short backups of their own; DATABASE_URL if empty."`
	KMS          string        `env:"STAGEDOOR_KMS" need:"the key that all others are wrapped with, such as local:/etc/stagedoor/keyset.json, transit:https://vault.internal:8200/transit/stagedoor, aws:arn:aws:kms:… or gcp:projects/…" doc:"The key that all others are wrapped with: local:FILE, transit:URL/mount/key, aws:ARN or gcp:NAME. See docs/sealing.md."`
	KMSOld       string        `env:"STAGEDOOR_KMS_OLD" doc:"A key in the same form that is still needed to read, while everything is moved to STAGEDOOR_KMS."`
	KMSOldToken  string        `env:"STAGEDOOR_KMS_OLD_TOKEN_FILE" doc:"A file with the token for transit, if STAGEDOOR_KMS_OLD is one."`
	KMSToken     secret.String `env:"STAGEDOOR_KMS_TOKEN" doc:"Token for transit."`
	KMSTokenFile string        `env:"STAGEDOOR_KMS_TOKEN_FILE" doc:"A file with the token for transit. It is read for every call, so it can be renewed."`
	KMSNamespace string        `env:"STAGEDOOR_KMS_NAMESPACE" doc:"Namespace for transit."`
	KMSRoots     string        `env:"STAGEDOOR_KMS_ROOTS" doc:"A file with the certificates that transit's is signed by; the system's if empty."`
	KMSEndpoint  string        `env:"STAGEDOOR_KMS_ENDPOINT" doc:"A private endpoint of AWS or Google KMS, as https://host."`

	SandboxURL string `env:"STAGEDOOR_SANDBOX_URL" envDefault:"http://127.0.0.1:18200" doc:"Origin of the sandbox platform, as the proxies reach it: scheme, host and port."`

	Egress        secret.String `env:"STAGEDOOR_EGRESS" doc:"Proxies by region: us=http://user:password@host:port,socks5://host:port uk=https://host:port. Accounts of a region without one cannot be used. See docs/egress.md."`
	EgressCheck   []string      `env:"STAGEDOOR_EGRESS_CHECK" doc:"Origins, such as https://www.example.com, of which a working proxy must reach one; empty to judge proxies by the calls they carry."`
	EgressMaxIdle int           `env:"STAGEDOOR_EGRESS_MAX_IDLE" envDefault:"20000" doc:"Idle connections to platforms that this node keeps, about 34 KB each."`
	WebhookDeny   []string      `env:"STAGEDOOR_WEBHOOK_DENY" doc:"Networks with public addresses that webhooks must not reach, such as 52.1.0.0/16; private ones are never reached."`

	EventLog         string `env:"STAGEDOOR_EVENT_LOG" envDefault:"jetstream" doc:"Where events wait between listeners and the store: jetstream, or postgres for a single box without JetStream."`
	EventLogReplicas int    `env:"STAGEDOOR_EVENT_REPLICAS" envDefault:"1" doc:"On how many NATS servers an event is before it counts as heard: 1, or 3 on a cluster."`
	EventLogStreams  int    `env:"STAGEDOOR_EVENT_STREAMS" envDefault:"1" doc:"Over how many JetStream streams events are spread; more than 1 makes sense on more machines only."`
	EventLogBytes    int64  `env:"STAGEDOOR_EVENT_LOG_BYTES" envDefault:"1073741824" doc:"What one of these streams may take of the disk, in bytes, before it drops the oldest."`

	Dev          bool          `env:"STAGEDOOR_DEV" envDefault:"false" doc:"Development: anyone signs in without a password, and webhooks may go to this machine. Refused unless the public URL, the connect URL, both listeners and the OIDC issuer are loopback addresses."`
	DrainDelay   time.Duration `env:"STAGEDOOR_DRAIN_DELAY" envDefault:"5s" doc:"How long the process, told to stop, goes on serving while load balancers notice."`
	LogLevel     string        `env:"STAGEDOOR_LOG_LEVEL" envDefault:"info" doc:"debug, info, warn or error."`
	LogFormat    string        `env:"STAGEDOOR_LOG_FORMAT" envDefault:"auto" doc:"json, pretty, or auto: pretty on a terminal."`
	MaxConns     int           `env:"STAGEDOOR_DATABASE_MAX_CONNS" envDefault:"0" doc:"PostgreSQL connections of this node; 0 for four per core, at most 20."`
	RedisTimeout time.Duration `env:"STAGEDOOR_REDIS_TIMEOUT" envDefault:"25ms" doc:"When an answer of Redis is late. A call waits ten times as long for it; several late answers in a row make this node decide alone for a while."`
	OTLPEndpoint string        `env:"OTEL_EXPORTER_OTLP_ENDPOINT" doc:"Where traces go, by OTLP over HTTP, with /v1/traces added; empty for none. OTEL_EXPORTER_OTLP_HEADERS and the exporter's other variables count too."`
	OTLPTraces   string        `env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" doc:"Where traces go, as it is, instead of OTEL_EXPORTER_OTLP_ENDPOINT."`
}

// clientVariables belong to the command line and to scripts. A server meets them in the same environment and must not
// take them for misspellings.
var clientVariables = []string{
	"STAGEDOOR_URL", "STAGEDOOR_URLS", "STAGEDOOR_INTERNAL_URL", "STAGEDOOR_INTERNAL_URLS", "STAGEDOOR_API_KEY",
	"STAGEDOOR_PROFILE", "STAGEDOOR_KEYCHAIN", "STAGEDOOR_MCP_TOKEN",
}

// The roles a process can have.
var roles = []string{"api", "worker", "listener"}

const minSecret = 32

// Read reads and checks the settings. The error lists everything that is wrong, and what to do about it.
func Read(environ []string) (Config, error) {
	vars := env.ToMap(environ)
	var c Config
	if err := env.ParseWithOptions(&c, env.Options{Environment: vars}); err != nil {
		return Config{}, explain(err)
	}
	if c.Node == "" {
		c.Node, _ = os.Hostname()
	}
	if c.MaxConns == 0 {
		c.MaxConns = min(20, 4*runtime.NumCPU())
	}
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	c.SandboxURL = strings.TrimSuffix(c.SandboxURL, "/")
	if c.ConnectURL = strings.TrimSuffix(c.ConnectURL, "/"); c.ConnectURL == "" {
		c.ConnectURL = c.PublicURL
	}
	if c.Keyring.Empty() {
		c.Keyring = c.Database
	}
	if c.Signup == "" {
		c.Signup = map[bool]string{true: "open", false: "closed"}[c.Dev]
	}
	return c, errors.Join(unknown(vars), missing(c), c.check())
}

// explain rewrites the parser's errors without the values, which may be secrets.
func explain(err error) error {
	all, ok := errors.AsType[env.AggregateError](err)
	if !ok {
		return fmt.Errorf("read environment: %w", err)
	}
	var out []error
	for _, e := range all.Errors {
		p, ok := errors.AsType[env.ParseError](e)
		if !ok {
			out = append(out, e)
			continue
		}
		field, _ := reflect.TypeFor[Config]().FieldByName(p.Name)
		out = append(out, fmt.Errorf("%s does not hold a %s: set it to something like %s",
			field.Tag.Get("env"), p.Type, field.Tag.Get("envDefault")))
	}
	return errors.Join(out...)
}

// unknown refuses variables that look like ours and are not: a misspelt setting must not be ignored. What Kubernetes
// sets about Services is no setting, and is ignored.
func unknown(vars map[string]string) error {
	known := slices.Clone(clientVariables)
	for _, v := range Variables() {
		known = append(known, v.Name)
	}
	var out []error
	for name, value := range vars {
		if strings.HasPrefix(name, "STAGEDOOR_") && !slices.Contains(known, name) && !serviceLink.MatchString(name+"="+value) {
			out = append(out, fmt.Errorf("%s is not a setting; did you mean %s? `stagedoord config` lists them", name, nearest(name, known)))
		}
	}
	slices.SortFunc(out, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(out...)
}

// missing names every setting that has no default and was not given.
func missing(c Config) error {
	var out []error
	for _, v := range Variables() {
		if v.Need != "" && v.of(c) == "" {
			out = append(out, fmt.Errorf("%s is not set: set it to %s", v.Name, v.Need))
		}
	}
	return errors.Join(out...)
}

func (c Config) check() error {
	var out []error
	bad := func(format string, args ...any) { out = append(out, fmt.Errorf(format, args...)) }
	for _, r := range c.Roles {
		if !slices.Contains(roles, r) {
			bad("STAGEDOOR_ROLES has %q, which is no role: use any of %s", r, strings.Join(roles, ", "))
		}
	}
	for name, s := range map[string]secret.String{"STAGEDOOR_ADMIN_TOKEN": c.AdminToken, "STAGEDOOR_IP_HASH_KEY": c.IPHashKey} {
		if !s.Empty() && len(s.Reveal()) < minSecret {
			bad("%s is shorter than %d characters: make one with openssl rand -hex 32", name, minSecret)
		}
	}
	for _, read := range []func() error{
		func() error { _, err := c.Proxies(); return err },
		func() error { _, err := c.EgressConfig(); return err },
		func() error { _, err := c.WebhookDenied(); return err },
	} {
		out = append(out, read())
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.LogLevel) {
		bad("STAGEDOOR_LOG_LEVEL is %q: use debug, info, warn or error", c.LogLevel)
	}
	if !slices.Contains([]string{"auto", "json", "pretty"}, c.LogFormat) {
		bad("STAGEDOOR_LOG_FORMAT is %q: use auto, json or pretty", c.LogFormat)
	}
	out = append(out, c.checkAddresses(), c.checkTraces(), c.checkDevelopment(), c.checkEventLog(), c.checkSignIn())
	if c.DrainDelay < 0 || c.DrainDelay > time.Minute {
		bad("STAGEDOOR_DRAIN_DELAY is %s: use 0s to 1m", c.DrainDelay)
	}
	if c.RedisTimeout < time.Millisecond || c.RedisTimeout > 10*time.Second {
		bad("STAGEDOOR_REDIS_TIMEOUT is %s: use 1ms to 10s", c.RedisTimeout)
	}
	if c.MaxConns < 2 {
		bad("STAGEDOOR_DATABASE_MAX_CONNS is %d: use 2 or more", c.MaxConns)
	}
	return errors.Join(out...)
}

// checkAddresses judges the addresses under which others reach the service and the sandbox.
func (c Config) checkAddresses() error {
	var out []error
	bad := func(format string, args ...any) { out = append(out, fmt.Errorf(format, args...)) }
	if u, err := url.Parse(c.PublicURL); c.PublicURL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.User != nil) {
		bad("STAGEDOOR_PUBLIC_URL is no plain http or https address: set it to something like https://api.example.com")
	} else if err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
		bad("STAGEDOOR_PUBLIC_URL is plain http: use https, such as https://api.example.com")
	}
	if c.ConnectURL != c.PublicURL {
		if u, err := url.Parse(c.ConnectURL); err != nil || !origin(c.ConnectURL) {
			bad("STAGEDOOR_CONNECT_URL is no http or https origin: set it to something like https://connect.example.com, with nothing after the host")
		} else if u.Scheme == "http" && !loopback(u.Hostname()) {
			bad("STAGEDOOR_CONNECT_URL is plain http, and creators type their passwords there: use https, such as https://connect.example.com")
		}
	}
	if !origin(c.SandboxURL) {
		bad("STAGEDOOR_SANDBOX_URL is no http or https origin: set it to something like http://127.0.0.1:18200, with nothing after the port")
	}
	return errors.Join(out...)
}

// checkTraces judges where traces go.
func (c Config) checkTraces() error {
	var out []error
	for _, v := range []struct{ name, text, instead string }{
		{"OTEL_EXPORTER_OTLP_ENDPOINT", c.OTLPEndpoint, "http://127.0.0.1:4318"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", c.OTLPTraces, "http://127.0.0.1:4318/v1/traces"},
	} {
		if u, err := url.Parse(v.text); v.text != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.User != nil) {
			out = append(out, fmt.Errorf("%s is no plain http or https address: set it to something like %s", v.name, v.instead))
		}
	}
	return errors.Join(out...)
}

// checkDevelopment refuses development where another machine could reach it. In development anyone signs in as anyone,
// without a password, and takes up the invitations to that address.
func (c Config) checkDevelopment() error {
	if !c.Dev {
		return nil
	}
	var out []error
	local := func(name string, ok bool, instead string) {
		if !ok {
			out = append(out, fmt.Errorf("STAGEDOOR_DEV lets anyone sign in without a password, and %s is not a loopback address: set it to something like %s, or remove STAGEDOOR_DEV",
				name, instead))
		}
	}
	local("STAGEDOOR_PUBLIC_URL", c.PublicURL == "" || loopbackURL(c.PublicURL), "http://127.0.0.1:8080")
	local("STAGEDOOR_CONNECT_URL", c.ConnectURL == c.PublicURL || loopbackURL(c.ConnectURL), "http://127.0.0.1:8080")
	local("STAGEDOOR_LISTEN", loopbackAddress(c.Listen), "127.0.0.1:8080")
	local("STAGEDOOR_INTERNAL_LISTEN", loopbackAddress(c.InternalListen), "127.0.0.1:8081")
	local("STAGEDOOR_OIDC_ISSUER", c.OIDCIssuer == "" || loopbackURL(c.OIDCIssuer), "http://127.0.0.1:5556")
	return errors.Join(out...)
}

// checkEventLog judges where events wait.
func (c Config) checkEventLog() error {
	var out []error
	bad := func(format string, args ...any) { out = append(out, fmt.Errorf(format, args...)) }
	if !slices.Contains([]string{"jetstream", "postgres"}, c.EventLog) {
		bad("STAGEDOOR_EVENT_LOG is %q: use jetstream, or postgres on a single box", c.EventLog)
	}
	if c.EventLogReplicas != 1 && c.EventLogReplicas != 3 {
		bad("STAGEDOOR_EVENT_REPLICAS is %d: use 1, or 3 on a cluster", c.EventLogReplicas)
	}
	if c.EventLogStreams < 1 || c.EventLogStreams > 64 {
		bad("STAGEDOOR_EVENT_STREAMS is %d: use 1 to 64", c.EventLogStreams)
	}
	return errors.Join(out...)
}

// checkSignIn judges how people sign in.
func (c Config) checkSignIn() error {
	var out []error
	bad := func(format string, args ...any) { out = append(out, fmt.Errorf(format, args...)) }
	if c.Signup != "open" && c.Signup != "closed" {
		bad("STAGEDOOR_SIGNUP is %q: use open or closed", c.Signup)
	}
	if c.OIDCIssuer == "" {
		if c.OIDCClientID != "" || !c.OIDCSecret.Empty() {
			bad("STAGEDOOR_OIDC_ISSUER is not set, but the client is: set it to the identity provider's address, such as https://accounts.google.com")
		}
		return errors.Join(out...)
	}
	u, err := url.Parse(c.OIDCIssuer)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		bad("STAGEDOOR_OIDC_ISSUER is no http or https address: set it to something like https://accounts.google.com")
	} else if u.Scheme == "http" && !loopback(u.Hostname()) {
		bad("STAGEDOOR_OIDC_ISSUER is plain http: use https, such as https://accounts.google.com")
	}
	if c.OIDCClientID == "" || c.OIDCSecret.Empty() {
		bad("STAGEDOOR_OIDC_CLIENT_ID or STAGEDOOR_OIDC_CLIENT_SECRET is not set: set both to what the identity provider gave for this service")
	}
	return errors.Join(out...)
}

// TracesURL is where traces are posted; empty for none.
func (c Config) TracesURL() string {
	if c.OTLPTraces != "" || c.OTLPEndpoint == "" {
		return c.OTLPTraces
	}
	return strings.TrimSuffix(c.OTLPEndpoint, "/") + "/v1/traces"
}

// KMSSettings reads which keys wrap all others: the one in use, and the one before it.
func (c Config) KMSSettings() (wraps, old kms.Settings) {
	wraps = kms.Settings{
		Key: c.KMS, Token: c.KMSToken, TokenFile: c.KMSTokenFile, Namespace: c.KMSNamespace, RootsFile: c.KMSRoots, Endpoint: c.KMSEndpoint, Create: c.Dev,
	}
	return wraps, kms.Settings{Key: c.KMSOld, TokenFile: c.KMSOldToken, Namespace: c.KMSNamespace, RootsFile: c.KMSRoots}
}

// Proxies reads the trusted networks.
func (c Config) Proxies() ([]netip.Prefix, error) {
	return networks("STAGEDOOR_TRUSTED_PROXIES", c.TrustedProxies)
}

// WebhookDenied reads the networks that webhooks must not reach.
func (c Config) WebhookDenied() ([]netip.Prefix, error) {
	return networks("STAGEDOOR_WEBHOOK_DENY", c.WebhookDeny)
}

func networks(name string, texts []string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("%s has %q, which is no network: write it as 10.0.0.0/8", name, text)
		}
		list = append(list, p)
	}
	return list, nil
}

// EgressConfig reads how traffic to platforms leaves.
func (c Config) EgressConfig() (egress.Config, error) {
	regions, err := egress.ParseRegions(c.Egress)
	if err != nil {
		return egress.Config{}, fmt.Errorf("STAGEDOOR_EGRESS: %w", err)
	}
	check, err := egress.ParseOrigins(c.EgressCheck...)
	if err != nil {
		return egress.Config{}, fmt.Errorf("STAGEDOOR_EGRESS_CHECK: %w", err)
	}
	if c.EgressMaxIdle < 1 {
		return egress.Config{}, fmt.Errorf("STAGEDOOR_EGRESS_MAX_IDLE is %d: use 1 or more", c.EgressMaxIdle)
	}
	return egress.Config{Regions: regions, Check: check, MaxIdle: c.EgressMaxIdle}, nil
}

// origin says whether a text is scheme, host and port of an http or https address, and nothing else.
func origin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil &&
		u.Path == "" && u.RawQuery == "" && !u.ForceQuery && !strings.Contains(text, "#")
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// loopbackURL reports whether an address is on this machine.
func loopbackURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && loopback(u.Hostname())
}

// loopbackAddress reports whether a listener's address, host:port, is on this machine only. Without a host it is not.
func loopbackAddress(text string) bool {
	host, _, err := net.SplitHostPort(text)
	return err == nil && loopback(host)
}

// Variable is one setting, for people.
type Variable struct {
	Name    string
	Default string
	Doc     string
	// Need says what to set it to; empty for settings that may be left alone.
	Need string
	// Secret values are never printed.
	Secret bool
	field  int
}

// Variables lists all settings in the order of the struct.
func Variables() []Variable {
	t := reflect.TypeFor[Config]()
	list := make([]Variable, t.NumField())
	for i := range list {
		f := t.Field(i)
		list[i] = Variable{
			Name: f.Tag.Get("env"), Default: f.Tag.Get("envDefault"), Doc: f.Tag.Get("doc"), Need: f.Tag.Get("need"),
			Secret: f.Type == reflect.TypeFor[secret.String](), field: i,
		}
	}
	return list
}

// of reads the setting's value.
func (v Variable) of(c Config) string {
	switch value := reflect.ValueOf(c).Field(v.field).Interface().(type) {
	case secret.String:
		return value.Reveal()
	case []string:
		return strings.Join(value, ",")
	default:
		return fmt.Sprint(value)
	}
}

// Show is the setting's value for people; a secret shows only whether it is set.
func (v Variable) Show(c Config) string {
	text := v.of(c)
	if v.Secret && text != "" {
		return "(set)"
	}
	return text
}

// nearest finds the name that takes the fewest edits.
func nearest(name string, names []string) string {
	best, fewest := "", len(name)+1
	for _, candidate := range names {
		if n := distance(name, candidate); n < fewest {
			best, fewest = candidate, n
		}
	}
	return best
}

// distance counts the single-character edits between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
