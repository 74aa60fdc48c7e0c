// Package config reads the settings of a server from its environment and checks them. Only package app uses it; every
// other package has its own small Config. Start reading at Read.
package config

import (
	"cmp"
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
	"github.com/stagedoor/stagedoor/internal/base/suggest"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
)

// Config has all settings. `stagedoord config` prints the doc tags.
type Config struct {
	Database secret.String `env:"DATABASE_URL" need:"a PostgreSQL URL, such as postgres://stagedoor:password@127.0.0.1:5432/stagedoor" doc:"PostgreSQL, the system of record."`
	Redis    secret.String `env:"REDIS_URL" need:"a Redis or Valkey URL, such as redis://127.0.0.1:6379/0" doc:"Redis or Valkey, for admission. Run it without persistence: old counters are worse than none."`
	NATS     secret.String `env:"NATS_URL" need:"a NATS URL, such as nats://127.0.0.1:4222" doc:"NATS, for wake-up messages between nodes and for the event log."`

	Roles          []string      `env:"STAGEDOOR_ROLES" envDefault:"api,worker,listener" doc:"The roles of this process: any of api, worker, listener. The flag --roles takes precedence."`
	Node           string        `env:"STAGEDOOR_NODE" doc:"The name of this node in logs and lists. Default: the host name."`
	Listen         string        `env:"STAGEDOOR_LISTEN" envDefault:":8080" doc:"Address of the public listener."`
	InternalListen string        `env:"STAGEDOOR_INTERNAL_LISTEN" envDefault:"127.0.0.1:8081" doc:"Address of the internal listener: health, metrics, profiles, admin API. Never expose it."`
	PublicURL      string        `env:"STAGEDOOR_PUBLIC_URL" need:"the address at which callers reach the service, for example https://api.example.com" doc:"The address at which callers reach the service. Links in responses start with it."`
	TrustedProxies []string      `env:"STAGEDOOR_TRUSTED_PROXIES" doc:"Networks whose X-Forwarded-For is trusted, for example 10.0.0.0/8."`
	AdminToken     secret.String `env:"STAGEDOOR_ADMIN_TOKEN" need:"32 or more random characters, such as the output of: openssl rand -hex 32" doc:"The operator token, for the admin API and the console. It carries admin:*."`
	IPHashKey      secret.String `env:"STAGEDOOR_IP_HASH_KEY" need:"32 or more random characters, such as the output of: openssl rand -hex 32" doc:"The key with which IP addresses in the audit log are hashed, and the sign-in cookie of the dashboard is encrypted. The same on all nodes."`

	ConnectURL string `env:"STAGEDOOR_CONNECT_URL" doc:"The address at which creators reach the connect pages. Default: STAGEDOOR_PUBLIC_URL."`

	OIDCIssuer   string        `env:"STAGEDOOR_OIDC_ISSUER" doc:"The issuer of the identity provider for the dashboard, for example https://accounts.google.com; empty for none. See docs/dashboard.md."`
	OIDCClientID string        `env:"STAGEDOOR_OIDC_CLIENT_ID" doc:"The client id of this service at the identity provider. Its redirect address is STAGEDOOR_PUBLIC_URL/app/callback."`
	OIDCSecret   secret.String `env:"STAGEDOOR_OIDC_CLIENT_SECRET" doc:"The client secret at the identity provider."`
	OIDCName     string        `env:"STAGEDOOR_OIDC_NAME" doc:"The name of the identity provider on the button of the sign-in page."`
	Signup       string        `env:"STAGEDOOR_SIGNUP" doc:"open: users without an invitation can sign in and get their own sandbox organisation. closed: they cannot. Default: closed, or open with STAGEDOOR_DEV."`

	Keyring      secret.String `env:"STAGEDOOR_KEYRING_URL" doc:"The PostgreSQL database of the data keys, so that its backups can be kept for a shorter time. Default: DATABASE_URL."`
	KMS          string        `env:"STAGEDOOR_KMS" need:"the key that wraps all others, such as local:/etc/stagedoor/keyset.json, transit:https://vault.internal:8200/transit/stagedoor, aws:arn:aws:kms:… or gcp:projects/…" doc:"The key that wraps all others: local:FILE, transit:URL/mount/key, aws:ARN or gcp:NAME. See docs/sealing.md."`
	KMSOld       string        `env:"STAGEDOOR_KMS_OLD" doc:"The previous key, in the same form. It is only used to unwrap, until all keys are moved to STAGEDOOR_KMS."`
	KMSOldToken  string        `env:"STAGEDOOR_KMS_OLD_TOKEN_FILE" doc:"A file with the token for transit, if STAGEDOOR_KMS_OLD uses transit."`
	KMSToken     secret.String `env:"STAGEDOOR_KMS_TOKEN" doc:"Token for transit."`
	KMSTokenFile string        `env:"STAGEDOOR_KMS_TOKEN_FILE" doc:"A file with the token for transit. It is read for every call, so the token can be renewed."`
	KMSNamespace string        `env:"STAGEDOOR_KMS_NAMESPACE" doc:"Namespace for transit."`
	KMSRoots     string        `env:"STAGEDOOR_KMS_ROOTS" doc:"A file with the root certificates for transit. Default: those of the system."`
	KMSEndpoint  string        `env:"STAGEDOOR_KMS_ENDPOINT" doc:"A private endpoint of AWS or Google KMS, in the form https://host."`

	Platforms    string        `env:"STAGEDOOR_PLATFORMS" envDefault:"sandbox=builtin" doc:"The creator platforms, as id=folder,url separated by spaces. The folder has the manifest; builtin is a manifest of this release (sandbox, ghost). The URL replaces the origin in the manifest and may be missing. The first platform of an environment is its default. See docs/manifest.md."`
	OAuthClients secret.String `env:"STAGEDOOR_OAUTH_CLIENTS" doc:"OAuth clients that you have registered at platforms, as platform=client-id:client-secret separated by spaces. Their redirect URI is STAGEDOOR_CONNECT_URL/connect/oauth/callback. A platform without a client has no sign-in by OAuth. See docs/operators.md."`
	Sites        []string      `env:"STAGEDOOR_SITES" doc:"Origins of creators' sites that may be plain http or have a private address, for example http://127.0.0.1:2368. All other sites must be public and https. For development."`
	SandboxURL   string        `env:"STAGEDOOR_SANDBOX_URL" envDefault:"http://127.0.0.1:18200" doc:"The origin of the sandbox platform as seen by the proxies: scheme, host and port."`

	Regions       []string      `env:"STAGEDOOR_REGIONS" envDefault:"us,uk" doc:"The regions that an account can have, as two-letter codes; the first is the default. The same on all nodes."`
	Egress        secret.String `env:"STAGEDOOR_EGRESS" doc:"Proxies by region: us=http://user:password@host:port,socks5://host:port uk=https://host:port. Accounts of a region without a proxy cannot be used. See docs/egress.md."`
	EgressCheck   []string      `env:"STAGEDOOR_EGRESS_CHECK" doc:"Origins of which a healthy proxy must reach at least one, for example https://www.example.com; empty to judge proxies by their calls."`
	EgressMaxIdle int           `env:"STAGEDOOR_EGRESS_MAX_IDLE" envDefault:"20000" doc:"The maximum number of idle connections to platforms on this node, about 34 KB each."`
	WebhookDeny   []string      `env:"STAGEDOOR_WEBHOOK_DENY" doc:"Networks with public addresses that webhooks must not reach, for example 52.1.0.0/16. Private networks are never reached."`

	EventLog         string `env:"STAGEDOOR_EVENT_LOG" envDefault:"jetstream" doc:"The event log between listeners and the store: jetstream, or postgres for a single machine without JetStream."`
	EventLogReplicas int    `env:"STAGEDOOR_EVENT_REPLICAS" envDefault:"1" doc:"The number of NATS servers that store an event before it is acknowledged: 1, or 3 on a cluster."`
	EventLogStreams  int    `env:"STAGEDOOR_EVENT_STREAMS" envDefault:"1" doc:"The number of JetStream streams for events. More than 1 only helps with several machines."`
	EventLogBytes    int64  `env:"STAGEDOOR_EVENT_LOG_BYTES" envDefault:"1073741824" doc:"The maximum size of one of these streams on disk, in bytes. When it is reached, listeners wait and fetch the events from the platforms later."`

	Dev          bool          `env:"STAGEDOOR_DEV" envDefault:"false" doc:"Development mode: anyone can sign in without a password, and webhooks may reach this machine. Refused unless the public URL, the connect URL, both listeners and the OIDC issuer are loopback addresses."`
	DrainDelay   time.Duration `env:"STAGEDOOR_DRAIN_DELAY" envDefault:"5s" doc:"How long the process keeps serving after a stop signal, while load balancers notice."`
	LogLevel     string        `env:"STAGEDOOR_LOG_LEVEL" envDefault:"info" doc:"debug, info, warn or error."`
	LogFormat    string        `env:"STAGEDOOR_LOG_FORMAT" envDefault:"auto" doc:"json, pretty, or auto (pretty on a terminal, else json)."`
	MaxConns     int           `env:"STAGEDOOR_DATABASE_MAX_CONNS" envDefault:"0" doc:"The maximum number of PostgreSQL connections of this node; 0 means four per core, at most 20."`
	RedisTimeout time.Duration `env:"STAGEDOOR_REDIS_TIMEOUT" envDefault:"25ms" doc:"The time after which a response of Redis is late. A call waits ten times as long; after several late responses in a row this node enforces limits on its own for a while."`
	OTLPEndpoint string        `env:"OTEL_EXPORTER_OTLP_ENDPOINT" doc:"The base address for traces, with OTLP over HTTP; /v1/traces is added. Empty for none. OTEL_EXPORTER_OTLP_HEADERS and the exporter's other variables apply too."`
	OTLPTraces   string        `env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" doc:"The full address for traces, instead of OTEL_EXPORTER_OTLP_ENDPOINT."`
}

// clientVariables belong to the command line and to scripts. They may be in the environment of a server and are not
// misspellings.
var clientVariables = []string{
	"STAGEDOOR_URL", "STAGEDOOR_URLS", "STAGEDOOR_INTERNAL_URL", "STAGEDOOR_INTERNAL_URLS", "STAGEDOOR_API_KEY",
	"STAGEDOOR_LIVE_API_KEY", "STAGEDOOR_PROFILE", "STAGEDOOR_KEYCHAIN", "STAGEDOOR_MCP_TOKEN",
}

// roles are all roles of a process.
var roles = []string{"api", "worker", "listener"}

const minSecret = 32

// Read reads and checks the settings. The error lists everything that is wrong, and what to do.
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

// Defaults returns the settings of a server with an empty environment, which are not complete.
func Defaults() Config {
	var c Config
	if err := env.ParseWithOptions(&c, env.Options{Environment: map[string]string{}}); err != nil {
		panic(err) // A default in a tag is invalid.
	}
	return c
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
		out = append(out, fmt.Errorf("%s is not a valid %s: set it to a value such as %s",
			field.Tag.Get("env"), p.Type, field.Tag.Get("envDefault")))
	}
	return errors.Join(out...)
}

// unknown rejects unknown variables with our prefix: a misspelt setting must not be ignored. Variables that Kubernetes
// sets for Services are ignored.
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

// missing lists the required settings that are not set.
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
			bad("STAGEDOOR_ROLES has %q, which is not a role: use any of %s", r, strings.Join(roles, ", "))
		}
	}
	for name, s := range map[string]secret.String{"STAGEDOOR_ADMIN_TOKEN": c.AdminToken, "STAGEDOOR_IP_HASH_KEY": c.IPHashKey} {
		if !s.Empty() && len(s.Reveal()) < minSecret {
			bad("%s is shorter than %d characters: generate one with openssl rand -hex 32", name, minSecret)
		}
	}
	for _, read := range []func() error{
		func() error { _, err := c.Proxies(); return err },
		func() error { _, err := c.EgressConfig(); return err },
		func() error { _, err := c.WebhookDenied(); return err },
		func() error { _, err := c.PlatformSources(); return err },
		func() error { _, err := c.PlatformClients(); return err },
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
	if len(c.Regions) == 0 || slices.ContainsFunc(c.Regions, func(name string) bool { return !egress.IsRegion(name) }) {
		bad("STAGEDOOR_REGIONS is %q: use two-letter codes, separated by commas", strings.Join(c.Regions, ","))
	}
	if c.MaxConns < 2 {
		bad("STAGEDOOR_DATABASE_MAX_CONNS is %d: use 2 or more", c.MaxConns)
	}
	return errors.Join(out...)
}

// checkAddresses checks the addresses of the service and of the sandbox.
func (c Config) checkAddresses() error {
	var out []error
	bad := func(format string, args ...any) { out = append(out, fmt.Errorf(format, args...)) }
	if u, err := url.Parse(c.PublicURL); c.PublicURL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.User != nil) {
		bad("STAGEDOOR_PUBLIC_URL is not a plain http or https address: set it to an address such as https://api.example.com")
	} else if err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
		bad("STAGEDOOR_PUBLIC_URL is plain http: use https, such as https://api.example.com")
	}
	if c.ConnectURL != c.PublicURL {
		if u, err := url.Parse(c.ConnectURL); err != nil || !isOrigin(c.ConnectURL) {
			bad("STAGEDOOR_CONNECT_URL is not an http or https origin: set it to an origin such as https://connect.example.com, with nothing after the host")
		} else if u.Scheme == "http" && !loopback(u.Hostname()) {
			bad("STAGEDOOR_CONNECT_URL is plain http, but creators enter their passwords there: use https, such as https://connect.example.com")
		}
	}
	if !isOrigin(c.SandboxURL) {
		bad("STAGEDOOR_SANDBOX_URL is not an http or https origin: set it to an origin such as http://127.0.0.1:18200, with nothing after the port")
	}
	return errors.Join(out...)
}

func (c Config) checkTraces() error {
	var out []error
	for _, v := range []struct{ name, text, instead string }{
		{"OTEL_EXPORTER_OTLP_ENDPOINT", c.OTLPEndpoint, "http://127.0.0.1:4318"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", c.OTLPTraces, "http://127.0.0.1:4318/v1/traces"},
	} {
		if u, err := url.Parse(v.text); v.text != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.User != nil) {
			out = append(out, fmt.Errorf("%s is not a plain http or https address: set it to an address such as %s", v.name, v.instead))
		}
	}
	return errors.Join(out...)
}

// checkDevelopment rejects development mode if another machine could reach the server. In development mode anyone can
// sign in as anyone without a password, and accept the invitations of that address.
func (c Config) checkDevelopment() error {
	if !c.Dev {
		return nil
	}
	var out []error
	local := func(name string, ok bool, instead string) {
		if !ok {
			out = append(out, fmt.Errorf("STAGEDOOR_DEV lets anyone sign in without a password, but %s is not a loopback address: set it to an address such as %s, or remove STAGEDOOR_DEV",
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

func (c Config) checkEventLog() error {
	var out []error
	bad := func(format string, args ...any) { out = append(out, fmt.Errorf(format, args...)) }
	if !slices.Contains([]string{"jetstream", "postgres"}, c.EventLog) {
		bad("STAGEDOOR_EVENT_LOG is %q: use jetstream, or postgres on a single machine", c.EventLog)
	}
	if c.EventLogReplicas != 1 && c.EventLogReplicas != 3 {
		bad("STAGEDOOR_EVENT_REPLICAS is %d: use 1, or 3 on a cluster", c.EventLogReplicas)
	}
	if c.EventLogStreams < 1 || c.EventLogStreams > 64 {
		bad("STAGEDOOR_EVENT_STREAMS is %d: use 1 to 64", c.EventLogStreams)
	}
	return errors.Join(out...)
}

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
		bad("STAGEDOOR_OIDC_ISSUER is not an http or https address: set it to an address such as https://accounts.google.com")
	} else if u.Scheme == "http" && !loopback(u.Hostname()) {
		bad("STAGEDOOR_OIDC_ISSUER is plain http: use https, such as https://accounts.google.com")
	}
	if c.OIDCClientID == "" || c.OIDCSecret.Empty() {
		bad("STAGEDOOR_OIDC_CLIENT_ID or STAGEDOOR_OIDC_CLIENT_SECRET is not set: set both to the values that the identity provider issued for this service")
	}
	return errors.Join(out...)
}

// TracesURL returns the address to which traces are posted; empty for none.
func (c Config) TracesURL() string {
	if c.OTLPTraces != "" || c.OTLPEndpoint == "" {
		return c.OTLPTraces
	}
	return strings.TrimSuffix(c.OTLPEndpoint, "/") + "/v1/traces"
}

// KMSSettings returns the settings of the key that wraps all others, and of the previous one.
func (c Config) KMSSettings() (wraps, old kms.Settings) {
	wraps = kms.Settings{
		Key: c.KMS, Token: c.KMSToken, TokenFile: c.KMSTokenFile, Namespace: c.KMSNamespace, RootsFile: c.KMSRoots, Endpoint: c.KMSEndpoint, Create: c.Dev,
	}
	return wraps, kms.Settings{Key: c.KMSOld, TokenFile: c.KMSOldToken, Namespace: c.KMSNamespace, RootsFile: c.KMSRoots}
}

// Proxies parses the trusted networks.
func (c Config) Proxies() ([]netip.Prefix, error) {
	return networks("STAGEDOOR_TRUSTED_PROXIES", c.TrustedProxies)
}

// WebhookDenied parses the networks that webhooks must not reach.
func (c Config) WebhookDenied() ([]netip.Prefix, error) {
	return networks("STAGEDOOR_WEBHOOK_DENY", c.WebhookDeny)
}

func networks(name string, texts []string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("%s has %q, which is not a network: write it as 10.0.0.0/8", name, text)
		}
		list = append(list, p)
	}
	return list, nil
}

// PlatformSources parses the list of platforms. It does not read their manifests.
func (c Config) PlatformSources() ([]registry.Source, error) {
	list, err := registry.ParseSources(c.Platforms, c.SandboxURL)
	if err != nil {
		return nil, fmt.Errorf("STAGEDOOR_PLATFORMS: %w", err)
	}
	return list, nil
}

// PlatformClients parses the OAuth clients, by the id of their platform.
func (c Config) PlatformClients() (map[string]driver.OAuthClient, error) {
	sources, err := c.PlatformSources()
	if err != nil {
		return nil, nil //nolint:nilnil,nilerr // reported by PlatformSources
	}
	list, err := registry.ParseOAuthClients(c.OAuthClients, sources, cmp.Or(c.ConnectURL, c.PublicURL))
	if err != nil {
		return nil, fmt.Errorf("STAGEDOOR_OAUTH_CLIENTS: %w", err)
	}
	return list, nil
}

// EgressConfig parses the settings of traffic to platforms.
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
	for _, site := range c.Sites {
		if !isOrigin(site) {
			return egress.Config{}, fmt.Errorf("STAGEDOOR_SITES has %q, which is not an http or https origin: write it as http://127.0.0.1:2368", site)
		}
	}
	deny, err := c.WebhookDenied()
	if err != nil {
		return egress.Config{}, err
	}
	return egress.Config{Regions: regions, Check: check, MaxIdle: c.EgressMaxIdle, Sites: c.Sites, Deny: deny}, nil
}

// isOrigin reports whether a text is only the scheme, host and port of an http or https address.
func isOrigin(text string) bool {
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

// Variable describes one setting.
type Variable struct {
	Name    string
	Default string
	Doc     string
	// Need says what to set it to; empty for optional settings.
	Need string
	// Secret values are never printed.
	Secret bool
	field  int
}

// Variables returns all settings in the order of the struct.
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

// of returns the value of the setting.
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

// Show returns the value for printing; of a secret only whether it is set.
func (v Variable) Show(c Config) string {
	text := v.of(c)
	if v.Secret && text != "" {
		return "(set)"
	}
	return text
}

// nearest returns the most similar name.
func nearest(name string, names []string) string {
	best, fewest := "", len(name)+1
	for _, candidate := range names {
		if n := suggest.Distance(name, candidate); n < fewest {
			best, fewest = candidate, n
		}
	}
	return best
}
