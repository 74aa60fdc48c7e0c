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
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/base/suggest"
	"github.com/stagedoor/stagedoor/internal/engine/logsink"
	"github.com/stagedoor/stagedoor/internal/engine/natslink"
	"github.com/stagedoor/stagedoor/internal/engine/objects"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/redis"
	"github.com/stagedoor/stagedoor/internal/engine/smtp"
	"github.com/stagedoor/stagedoor/internal/engine/telemetry"
	"github.com/stagedoor/stagedoor/internal/operate/operator"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
)

// Config has all settings. `stagedoord config` prints the doc tags.
type Config struct {
	Database  secret.String `env:"DATABASE_URL" need:"a PostgreSQL URL, such as postgres://stagedoor:password@127.0.0.1:5432/stagedoor" doc:"PostgreSQL, the system of record."`
	Migration secret.String `env:"STAGEDOOR_MIGRATION_URL" doc:"The same database with the role that owns the tables, for stagedoord migrate. The role of DATABASE_URL then owns nothing, and row-level security applies to it. Default: DATABASE_URL. See docs/operations/database-roles.md."`
	Redis     secret.String `env:"REDIS_URL" need:"a Redis or Valkey URL, such as redis://127.0.0.1:6379/0" doc:"Redis or Valkey, for admission. Run it without persistence: old counters are worse than none."`
	PgBouncer bool          `env:"STAGEDOOR_PGBOUNCER" doc:"true: DATABASE_URL and STAGEDOOR_KEYRING_URL lead to PgBouncer in transaction mode. Migrations need a direct connection. See docs/operations/pgbouncer.md."`
	NATS      secret.String `env:"NATS_URL" need:"a NATS URL, such as nats://127.0.0.1:4222" doc:"NATS, for wake-up messages between nodes and for the event log."`

	RedisCA         string   `env:"STAGEDOOR_REDIS_CA_FILE" doc:"A file with the certificates of the authorities that sign the certificate of Redis, with a REDIS_URL that begins with rediss://. Default: those of the system. For PostgreSQL, the URL has such settings itself. See docs/operations/transport.md."`
	RedisCert       string   `env:"STAGEDOOR_REDIS_CERT_FILE" doc:"A file with the certificate of this node for Redis."`
	RedisKey        string   `env:"STAGEDOOR_REDIS_KEY_FILE" doc:"A file with the key of STAGEDOOR_REDIS_CERT_FILE."`
	NATSCA          string   `env:"STAGEDOOR_NATS_CA_FILE" doc:"A file with the certificates of the authorities that sign the certificates of the NATS servers. It requires TLS. Default: those of the system, if NATS_URL begins with tls://."`
	NATSCert        string   `env:"STAGEDOOR_NATS_CERT_FILE" doc:"A file with the certificate of this node for NATS. It requires TLS."`
	NATSKey         string   `env:"STAGEDOOR_NATS_KEY_FILE" doc:"A file with the key of STAGEDOOR_NATS_CERT_FILE."`
	NATSCredentials string   `env:"STAGEDOOR_NATS_CREDENTIALS_FILE" doc:"A credentials file for NATS: a JWT and its key."`
	NATSNKey        string   `env:"STAGEDOOR_NATS_NKEY_FILE" doc:"A file with the seed of an NKey for NATS."`
	ClearTextHosts  []string `env:"STAGEDOOR_CLEARTEXT_HOSTS" doc:"Hosts of engines on other machines to which connections may be unencrypted, because the network between is private. All others need TLS, except in development mode."`

	Roles          []string      `env:"STAGEDOOR_ROLES" envDefault:"api,worker,listener" doc:"The roles of this process: any of api, worker, listener. The flag --roles takes precedence."`
	Node           string        `env:"STAGEDOOR_NODE" doc:"The name of this node in logs and lists. Default: the host name."`
	Listen         string        `env:"STAGEDOOR_LISTEN" envDefault:":8080" doc:"Address of the public listener."`
	InternalListen string        `env:"STAGEDOOR_INTERNAL_LISTEN" envDefault:"127.0.0.1:8081" doc:"Address of the internal listener: health, metrics, profiles, admin API. Never expose it."`
	PublicURL      string        `env:"STAGEDOOR_PUBLIC_URL" need:"the address at which callers reach the service, for example https://api.example.com" doc:"The address at which callers reach the service. Links in responses start with it."`
	TrustedProxies []string      `env:"STAGEDOOR_TRUSTED_PROXIES" doc:"Networks whose X-Forwarded-For is trusted, for example 10.0.0.0/8."`
	MetricsToken   secret.String `env:"STAGEDOOR_METRICS_TOKEN" doc:"The token for metrics and profiles, at least 32 characters, sent as a bearer token. Without it, a node serves them only if its internal listener is a loopback address, and then without a token."`
	AdminToken     secret.String `env:"STAGEDOOR_ADMIN_TOKEN" doc:"The operator token, for programs that call the admin API; several are separated by commas. It has the role owner. Without STAGEDOOR_OPERATORS_OIDC_ISSUER it is required, and signs operators in to the console."`
	AdminTokenFile string        `env:"STAGEDOOR_ADMIN_TOKEN_FILE" doc:"A file with operator tokens, one per line, instead of STAGEDOOR_ADMIN_TOKEN. It is read for every use, so a token can be rotated without a restart. See docs/operations/key-rotation.md."`
	IPHashKey      secret.String `env:"STAGEDOOR_IP_HASH_KEY" need:"32 or more random characters, such as the output of: openssl rand -hex 32" doc:"The key with which IP addresses in the audit log are hashed, and the sign-in cookie of the dashboard is encrypted. The same on all nodes."`

	ConnectURL string `env:"STAGEDOOR_CONNECT_URL" doc:"The address at which creators reach the connect pages. Default: STAGEDOOR_PUBLIC_URL."`

	OIDCIssuer   string        `env:"STAGEDOOR_OIDC_ISSUER" doc:"The issuer of the identity provider for the dashboard, for example https://accounts.google.com; empty for none. See docs/dashboard.md."`
	OIDCClientID string        `env:"STAGEDOOR_OIDC_CLIENT_ID" doc:"The client id of this service at the identity provider. Its redirect address is STAGEDOOR_PUBLIC_URL/app/callback."`
	OIDCSecret   secret.String `env:"STAGEDOOR_OIDC_CLIENT_SECRET" doc:"The client secret at the identity provider."`
	OIDCName     string        `env:"STAGEDOOR_OIDC_NAME" doc:"The name of the identity provider on the button of the sign-in page."`
	OIDCAuthTime string        `env:"STAGEDOOR_OIDC_AUTH_TIME" envDefault:"optional" doc:"required: only the claim auth_time proves that a person has just signed in at the identity provider, before they create keys or change the team. Set it if your provider returns the claim. optional: without the claim, a sign-in counts if the dashboard asked the provider for a new one."`
	Signup       string        `env:"STAGEDOOR_SIGNUP" doc:"open: users without an invitation can sign in and get their own sandbox organisation. closed: they cannot. Default: closed, or open with STAGEDOOR_DEV."`

	OperatorsIssuer   string        `env:"STAGEDOOR_OPERATORS_OIDC_ISSUER" doc:"The issuer of the identity provider for operators, who then sign in to the console there; empty for none. See docs/operators.md."`
	OperatorsClientID string        `env:"STAGEDOOR_OPERATORS_OIDC_CLIENT_ID" doc:"The client id of the console at that identity provider. Its redirect address is STAGEDOOR_OPERATORS_URL/ops/callback."`
	OperatorsSecret   secret.String `env:"STAGEDOOR_OPERATORS_OIDC_CLIENT_SECRET" doc:"The client secret of the console."`
	OperatorsScopes   []string      `env:"STAGEDOOR_OPERATORS_OIDC_SCOPES" envDefault:"openid,email,profile" doc:"The scopes that are requested for operators. Some providers return groups only with a scope of their own, such as groups."`
	OperatorsGroups   string        `env:"STAGEDOOR_OPERATORS_OIDC_GROUPS_CLAIM" doc:"The claim with the groups of an operator, such as groups; empty if roles depend on email addresses only."`
	OperatorsURL      string        `env:"STAGEDOOR_OPERATORS_URL" doc:"The address at which operators reach the console. Default: http:// and STAGEDOOR_INTERNAL_LISTEN."`
	Operators         string        `env:"STAGEDOOR_OPERATORS" doc:"The operators with their roles (viewer, support, operator, owner), separated by spaces: ana@example.com=owner group:support-team=support."`
	OperatorsFile     string        `env:"STAGEDOOR_OPERATORS_FILE" doc:"A file with the operators, one per line, instead of STAGEDOOR_OPERATORS. It is read for every request, so a removed operator is refused immediately."`

	Keyring      secret.String `env:"STAGEDOOR_KEYRING_URL" doc:"The PostgreSQL database of the data keys, so that its backups can be kept for a shorter time. Default: DATABASE_URL."`
	KeyringOwner secret.String `env:"STAGEDOOR_KEYRING_MIGRATION_URL" doc:"The database of STAGEDOOR_KEYRING_URL with the role that owns the tables, for stagedoord migrate. Default: STAGEDOOR_KEYRING_URL."`
	SharedKeys   bool          `env:"STAGEDOOR_ALLOW_SHARED_KEYRING" envDefault:"false" doc:"Allow live organisations although their keys are in the main database. Backups of it can then bring back what was deleted. See docs/sealing.md."`
	KMS          string        `env:"STAGEDOOR_KMS" need:"the key that wraps all others, such as local:/etc/stagedoor/keyset.json, transit:https://vault.internal:8200/transit/stagedoor, aws:arn:aws:kms:… or gcp:projects/…" doc:"The key that wraps all others: local:FILE, transit:URL/mount/key, aws:ARN or gcp:NAME. See docs/sealing.md."`
	KMSOld       string        `env:"STAGEDOOR_KMS_OLD" doc:"The previous key, in the same form. It is only used to unwrap, until all keys are moved to STAGEDOOR_KMS."`
	KMSOldToken  string        `env:"STAGEDOOR_KMS_OLD_TOKEN_FILE" doc:"A file with the token for transit, if STAGEDOOR_KMS_OLD uses transit."`
	KMSToken     secret.String `env:"STAGEDOOR_KMS_TOKEN" doc:"Token for transit."`
	KMSTokenFile string        `env:"STAGEDOOR_KMS_TOKEN_FILE" doc:"A file with the token for transit. It is read for every call, so the token can be renewed."`
	KMSNamespace string        `env:"STAGEDOOR_KMS_NAMESPACE" doc:"Namespace for transit."`
	KMSRoots     string        `env:"STAGEDOOR_KMS_ROOTS" doc:"A file with the root certificates for transit. Default: those of the system."`
	KMSEndpoint  string        `env:"STAGEDOOR_KMS_ENDPOINT" doc:"A private endpoint of AWS or Google KMS, in the form https://host."`

	Objects          string        `env:"STAGEDOOR_OBJECTS" doc:"Where results of jobs are stored: a folder that all nodes share, as an absolute path, or s3://bucket/prefix?region=eu-west-1&endpoint=https://host&path-style=true, of which only the bucket is required. They are encrypted. Empty for none: jobs cannot be started. See docs/operations/object-storage.md."`
	ObjectsAccessKey secret.String `env:"STAGEDOOR_OBJECTS_ACCESS_KEY" doc:"The access key for s3://. Default: where AWS's tools find it: variables, files, the role of the machine."`
	ObjectsSecretKey secret.String `env:"STAGEDOOR_OBJECTS_SECRET_KEY" doc:"The secret key of STAGEDOOR_OBJECTS_ACCESS_KEY."`
	ObjectsCA        string        `env:"STAGEDOOR_OBJECTS_CA_FILE" doc:"A file with the certificates of the authorities that sign the certificate of the endpoint. Default: those of the system."`

	PlansFile string `env:"STAGEDOOR_PLANS_FILE" doc:"A file with the plans and their limits, in JSON, which takes effect within seconds when it changes. The same on all nodes. Default: the built-in plans. See docs/operations/plans.md."`

	AuditAnchors string `env:"STAGEDOOR_AUDIT_ANCHORS" doc:"A file to which workers append the heads of the audit logs, as JSON lines, for stagedoord admin verify-audit. Put it where the database cannot reach, best on storage that only allows to append. Empty for none: the heads are only in the log. See docs/operators.md."`

	AuditStream      string `env:"STAGEDOOR_AUDIT_STREAM" doc:"Where workers send all entries of the audit logs, as JSON lines: file:/path, syslog+tls://host:6514, syslog+tcp://host:601 or https://host/path. Empty for none. See docs/operations/audit-stream.md."`
	AuditStreamToken string `env:"STAGEDOOR_AUDIT_STREAM_TOKEN_FILE" doc:"A file with the bearer token for an https address in STAGEDOOR_AUDIT_STREAM. It is read for every request, so the token can be renewed."`
	AuditStreamCA    string `env:"STAGEDOOR_AUDIT_STREAM_CA_FILE" doc:"A file with the certificates of the authorities that sign the certificate of the receiver in STAGEDOOR_AUDIT_STREAM. Default: those of the system."`

	UsageWebhook       string        `env:"STAGEDOOR_USAGE_WEBHOOK" doc:"An https address to which workers send the usage of each organisation on each day, as signed CloudEvents. Empty for none. See docs/operators.md#usage-for-billing."`
	UsageWebhookSecret secret.String `env:"STAGEDOOR_USAGE_WEBHOOK_SECRET" doc:"The secret that signs requests to STAGEDOOR_USAGE_WEBHOOK, at least 32 characters, such as the output of: openssl rand -hex 32"`

	SMTP secret.String `env:"STAGEDOOR_SMTP_URL" doc:"The mail server and the sender of all emails: smtp://user:password@host:587?from=Stagedoor+<no-reply@example.com> (STARTTLS is required), smtps:// (TLS from the first byte) or smtp+insecure:// (no TLS; this machine and STAGEDOOR_CLEARTEXT_HOSTS only). Percent-encode special characters of the password. The same on all nodes. Empty: the service sends no email, and tells callers what they have to send. See docs/operations/mail.md."`

	Platforms    string        `env:"STAGEDOOR_PLATFORMS" envDefault:"sandbox=builtin" doc:"The creator platforms, as id=folder,url separated by spaces. The folder has the manifest; builtin is a manifest of this release (sandbox, ghost). The URL replaces the origin in the manifest and may be missing. The first platform of an environment is its default. See docs/manifest.md."`
	OAuthClients secret.String `env:"STAGEDOOR_OAUTH_CLIENTS" doc:"OAuth clients that you have registered at platforms, as platform=client-id:client-secret separated by spaces. Their redirect URI is STAGEDOOR_CONNECT_URL/connect/oauth/callback. A platform without a client has no sign-in by OAuth. See docs/operators.md."`
	Sites        []string      `env:"STAGEDOOR_SITES" doc:"Origins of creators' sites that may be plain http or have a private address, for example http://127.0.0.1:2368. All other sites must be public and https. For development."`
	SandboxURL   string        `env:"STAGEDOOR_SANDBOX_URL" envDefault:"http://127.0.0.1:18200" doc:"The origin of the sandbox platform as seen by the proxies: scheme, host and port."`

	Regions       []string      `env:"STAGEDOOR_REGIONS" envDefault:"us,uk" doc:"The regions that an account can have, as two-letter codes; the first is the default. The same on all nodes."`
	Egress        secret.String `env:"STAGEDOOR_EGRESS" doc:"Proxies by region: us=http://user:password@host:port,socks5://host:port uk=https://host:port. Accounts of a region without a proxy cannot be used. See docs/egress.md."`
	EgressFile    string        `env:"STAGEDOOR_EGRESS_FILE" doc:"A file with the proxies, instead of STAGEDOOR_EGRESS. When it changes, proxies and regions change within seconds, without a restart. Regions that only the file has are added to STAGEDOOR_REGIONS. See docs/egress.md."`
	EgressCheck   []string      `env:"STAGEDOOR_EGRESS_CHECK" doc:"Origins of which a healthy proxy must reach at least one, for example https://www.example.com; empty to judge proxies by their calls."`
	EgressMaxIdle int           `env:"STAGEDOOR_EGRESS_MAX_IDLE" envDefault:"20000" doc:"The maximum number of idle connections to platforms on this node, about 34 KB each."`
	WebhookDeny   []string      `env:"STAGEDOOR_WEBHOOK_DENY" doc:"Networks with public addresses that webhooks must not reach, for example 52.1.0.0/16. Private networks are never reached."`

	EventLog         string `env:"STAGEDOOR_EVENT_LOG" envDefault:"jetstream" doc:"The event log between listeners and the store: jetstream, or postgres for a single machine without JetStream."`
	EventLogReplicas int    `env:"STAGEDOOR_EVENT_REPLICAS" envDefault:"1" doc:"The number of NATS servers that store an event before it is acknowledged: 1, or 3 on a cluster."`
	EventLogStreams  int    `env:"STAGEDOOR_EVENT_STREAMS" envDefault:"1" doc:"The number of JetStream streams for events. More than 1 only helps with several machines."`
	EventLogBytes    int64  `env:"STAGEDOOR_EVENT_LOG_BYTES" envDefault:"1073741824" doc:"The maximum size of one of these streams on disk, in bytes. When it is reached, listeners wait and fetch the events from the platforms later."`

	SecurityContact []string `env:"STAGEDOOR_SECURITY_CONTACT" doc:"Where to report security problems, as mailto:, https: or tel: addresses, the preferred one first. They are in /.well-known/security.txt, which does not exist without one."`
	SecurityPolicy  string   `env:"STAGEDOOR_SECURITY_POLICY" doc:"The https address of the policy for such reports; empty for none."`
	ScannerKeys     string   `env:"STAGEDOOR_SECRET_SCANNING_KEYS" doc:"The public keys of GitHub's secret scanning: https://api.github.com/meta/public_keys/secret_scanning, or a file with its content. With it, STAGEDOOR_PUBLIC_URL/secret-scanning/github receives reports of published API keys and revokes them. Empty for none."`

	Dev          bool          `env:"STAGEDOOR_DEV" envDefault:"false" doc:"Development mode: anyone can sign in without a password, and webhooks may reach this machine. Refused unless the public URL, the connect URL, both listeners and the OIDC issuer are loopback addresses."`
	DrainDelay   time.Duration `env:"STAGEDOOR_DRAIN_DELAY" envDefault:"5s" doc:"How long the process keeps serving after a stop signal, while load balancers notice."`
	LogLevel     string        `env:"STAGEDOOR_LOG_LEVEL" envDefault:"info" doc:"debug, info, warn or error."`
	LogFormat    string        `env:"STAGEDOOR_LOG_FORMAT" envDefault:"auto" doc:"json, pretty, or auto (pretty on a terminal, else json)."`
	MaxConns     int           `env:"STAGEDOOR_DATABASE_MAX_CONNS" envDefault:"0" doc:"The maximum number of PostgreSQL connections of this node; at least 4; 0 means four per core, at most 20."`
	RedisTimeout time.Duration `env:"STAGEDOOR_REDIS_TIMEOUT" envDefault:"25ms" doc:"The time after which a response of Redis is late. A call waits ten times as long; after several late responses in a row this node enforces limits on its own for a while."`
	LogSample    string        `env:"STAGEDOOR_LOG_SAMPLE" doc:"The share of log lines to write, by level (debug, info, warn) or by the operation of a request, which goes before its level: info=0.1,getMe=0.01. Lines of the level error are always written. Empty: all lines. See docs/operations/observability.md."`

	OTLPEndpoint   string `env:"OTEL_EXPORTER_OTLP_ENDPOINT" doc:"The base address for traces, with OTLP over HTTP; /v1/traces is added. Empty for none. The other OTEL_ variables of the SDK apply too. See docs/operations/observability.md."`
	OTLPTraces     string `env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" doc:"The full address for traces, instead of OTEL_EXPORTER_OTLP_ENDPOINT."`
	TracesExporter string `env:"OTEL_TRACES_EXPORTER" envDefault:"otlp" doc:"otlp, or none to export no traces."`
	SDKDisabled    bool   `env:"OTEL_SDK_DISABLED" envDefault:"false" doc:"Export no traces."`
	TracePlatforms bool   `env:"STAGEDOOR_TRACE_PLATFORMS" envDefault:"false" doc:"Send the context of traces to platforms, in the header traceparent. A platform that is traced by the same collector continues the traces then."`
}

// clientVariables belong to the command line and to scripts. They may be in the environment of a server and are not
// misspellings.
var clientVariables = []string{
	"STAGEDOOR_URL", "STAGEDOOR_URLS", "STAGEDOOR_INTERNAL_URL", "STAGEDOOR_INTERNAL_URLS", "STAGEDOOR_API_KEY",
	"STAGEDOOR_LIVE_API_KEY", "STAGEDOOR_PROFILE", "STAGEDOOR_KEYCHAIN", "STAGEDOOR_MCP_TOKEN",
	"STAGEDOOR_OPS_URL", "STAGEDOOR_OPS_TOKEN_FILE",
}

// roles are all roles of a process.
var roles = []string{"api", "worker", "listener"}

const minSecret = 32

// Read reads and checks the settings. The error lists everything that is wrong, and what to do.
func Read(environ []string) (Config, error) {
	environ, unread := ReadFiles(environ)
	vars := env.ToMap(environ)
	var c Config
	if err := env.ParseWithOptions(&c, env.Options{Environment: vars}); err != nil {
		return Config{}, errors.Join(unread, explain(err))
	}
	if c.Node == "" {
		c.Node, _ = os.Hostname()
	}
	if c.MaxConns == 0 {
		c.MaxConns = min(20, 4*runtime.NumCPU())
	}
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	c.SandboxURL = strings.TrimSuffix(c.SandboxURL, "/")
	c.OperatorsURL = strings.TrimSuffix(c.OperatorsURL, "/")
	if c.ConnectURL = strings.TrimSuffix(c.ConnectURL, "/"); c.ConnectURL == "" {
		c.ConnectURL = c.PublicURL
	}
	if c.Keyring.Empty() {
		c.Keyring = c.Database
	}
	if c.Signup == "" {
		c.Signup = map[bool]string{true: "open", false: "closed"}[c.Dev]
	}
	return c, errors.Join(unread, unknown(vars), missing(c), c.check())
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
	all := Variables()
	for _, v := range all {
		known = append(known, v.Name)
		if file := fileOf(v, all); file != "" {
			known = append(known, file)
		}
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
	for name, s := range map[string]secret.String{
		"STAGEDOOR_IP_HASH_KEY": c.IPHashKey, "STAGEDOOR_METRICS_TOKEN": c.MetricsToken,
	} {
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
		c.checkObjects,
		c.checkAuditStream,
		c.checkUsageWebhook,
		c.checkMail,
	} {
		out = append(out, read())
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.LogLevel) {
		bad("STAGEDOOR_LOG_LEVEL is %q: use debug, info, warn or error", c.LogLevel)
	}
	if _, err := telemetry.ParseShares(c.LogSample); err != nil {
		bad("STAGEDOOR_LOG_SAMPLE: %w", err)
	}
	if !slices.Contains([]string{"auto", "json", "pretty"}, c.LogFormat) {
		bad("STAGEDOOR_LOG_FORMAT is %q: use auto, json or pretty", c.LogFormat)
	}
	out = append(out, c.checkAddresses(), c.checkTraces(), c.checkDevelopment(), c.checkEventLog(), c.checkSignIn(), c.checkOperators(), c.checkTransport(), c.checkDisclosure())
	if c.DrainDelay < 0 || c.DrainDelay > time.Minute {
		bad("STAGEDOOR_DRAIN_DELAY is %s: use 0s to 1m", c.DrainDelay)
	}
	if c.RedisTimeout < time.Millisecond || c.RedisTimeout > 10*time.Second {
		bad("STAGEDOOR_REDIS_TIMEOUT is %s: use 1ms to 10s", c.RedisTimeout)
	}
	if len(c.Regions) == 0 || slices.ContainsFunc(c.Regions, func(name string) bool { return !egress.IsRegion(name) }) {
		bad("STAGEDOOR_REGIONS is %q: use two-letter codes, separated by commas", strings.Join(c.Regions, ","))
	}
	if c.AuditAnchors != "" && !filepath.IsAbs(c.AuditAnchors) {
		bad("STAGEDOOR_AUDIT_ANCHORS is %q, which is not an absolute path: use one such as /mnt/anchors/audit.jsonl", c.AuditAnchors)
	}
	if c.MaxConns < 4 { // each advisory lock keeps one for as long as it is held
		bad("STAGEDOOR_DATABASE_MAX_CONNS is %d: use 4 or more", c.MaxConns)
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
	if c.TracesExporter != "otlp" && c.TracesExporter != "none" {
		out = append(out, fmt.Errorf("OTEL_TRACES_EXPORTER is %q: use otlp, or none", c.TracesExporter))
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
	local("STAGEDOOR_OPERATORS_OIDC_ISSUER", c.OperatorsIssuer == "" || loopbackURL(c.OperatorsIssuer), "http://127.0.0.1:5556")
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
	if c.OIDCAuthTime != "optional" && c.OIDCAuthTime != "required" {
		bad("STAGEDOOR_OIDC_AUTH_TIME is %q: use optional or required", c.OIDCAuthTime)
	}
	return errors.Join(append(out, checkProvider("STAGEDOOR_OIDC", c.OIDCIssuer, c.OIDCClientID, c.OIDCSecret))...)
}

// checkProvider checks the settings of an identity provider, whose names begin with prefix.
func checkProvider(prefix, issuer, clientID string, client secret.String) error {
	var out []error
	bad := func(format string) { out = append(out, fmt.Errorf(format, prefix)) }
	if issuer == "" {
		if clientID != "" || !client.Empty() {
			bad("%s_ISSUER is not set, but the client is: set it to the identity provider's address, such as https://accounts.google.com")
		}
		return errors.Join(out...)
	}
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		bad("%s_ISSUER is not an http or https address: set it to an address such as https://accounts.google.com")
	} else if u.Scheme == "http" && !loopback(u.Hostname()) {
		bad("%s_ISSUER is plain http: use https, such as https://accounts.google.com")
	}
	if clientID == "" || client.Empty() {
		bad("%s_CLIENT_ID or %[1]s_CLIENT_SECRET is not set: set both to the values that the identity provider issued for this service")
	}
	return errors.Join(out...)
}

// checkOperators checks how operators sign in.
func (c Config) checkOperators() error {
	out := []error{checkProvider("STAGEDOOR_OPERATORS_OIDC", c.OperatorsIssuer, c.OperatorsClientID, c.OperatorsSecret)}
	bad := func(format string, args ...any) { out = append(out, fmt.Errorf(format, args...)) }
	if text, err := readOnce("STAGEDOOR_ADMIN_TOKEN", c.AdminToken.Reveal(), c.AdminTokenFile); err != nil {
		out = append(out, err)
	} else if text == "" && c.OperatorsIssuer == "" {
		bad("STAGEDOOR_ADMIN_TOKEN is not set: set it to 32 or more random characters, such as the output of: openssl rand -hex 32")
	} else if _, err := operator.ParseTokens(text); text != "" && err != nil {
		bad("STAGEDOOR_ADMIN_TOKEN: %w", err)
	}
	text, err := readOnce("STAGEDOOR_OPERATORS", c.Operators, c.OperatorsFile)
	roster, wrong := operator.ParseRoster(text)
	switch {
	case err != nil:
		out = append(out, err)
	case wrong != nil:
		bad("STAGEDOOR_OPERATORS: %w", wrong)
	case c.OperatorsIssuer != "" && roster.Empty():
		bad("STAGEDOOR_OPERATORS is not set: list the operators with their roles, such as ana@example.com=owner")
	case c.OperatorsIssuer == "" && !roster.Empty():
		bad("STAGEDOOR_OPERATORS has no effect without STAGEDOOR_OPERATORS_OIDC_ISSUER: set it to the address of your identity provider")
	}
	if u, err := url.Parse(c.OperatorsURL); c.OperatorsURL != "" && (err != nil || !isOrigin(c.OperatorsURL)) {
		bad("STAGEDOOR_OPERATORS_URL is not an http or https origin: set it to an origin such as https://ops.example.com, with nothing after the host")
	} else if c.OperatorsURL != "" && u.Scheme == "http" && !loopback(u.Hostname()) {
		bad("STAGEDOOR_OPERATORS_URL is plain http: use https, such as https://ops.example.com")
	}
	return errors.Join(out...)
}

// readOnce returns the value of a setting that can be in a file, which is read again while the node runs.
func readOnce(name, text, file string) (string, error) {
	if file == "" {
		return text, nil
	}
	if text != "" {
		return "", fmt.Errorf("%s and %[1]s_FILE are both set: remove one of them", name)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%s_FILE: %w", name, err)
	}
	if strings.TrimSpace(string(content)) == "" {
		return "", fmt.Errorf("%s_FILE names an empty file: write the value of %[1]s into it", name)
	}
	return string(content), nil
}

// ConsoleURL returns the address at which operators reach the console.
func (c Config) ConsoleURL() string { return cmp.Or(c.OperatorsURL, "http://"+c.InternalListen) }

// checkTransport checks the certificates for the engines, and rejects clear text to another machine unless the host is
// listed. Development mode accepts it; a node warns of it.
func (c Config) checkTransport() error {
	var out []error
	bad := func(format string, args ...any) { out = append(out, fmt.Errorf(format, args...)) }
	for _, of := range []struct{ prefix, cert, key string }{
		{"STAGEDOOR_REDIS", c.RedisCert, c.RedisKey}, {"STAGEDOOR_NATS", c.NATSCert, c.NATSKey},
	} {
		if (of.cert == "") != (of.key == "") {
			bad("%s_CERT_FILE and %[1]s_KEY_FILE belong together: set both, or none", of.prefix)
		}
	}
	if c.NATSCredentials != "" && c.NATSNKey != "" {
		out = append(out, natslink.ErrAccess)
	}
	if !c.Dev {
		for _, link := range c.ClearText() {
			bad("%s: %s, or list the host in STAGEDOOR_CLEARTEXT_HOSTS if its network is private", link.Says(), link.Instead)
		}
	}
	return errors.Join(out...)
}

// checkDisclosure checks the addresses for reports of security problems.
func (c Config) checkDisclosure() error {
	var out []error
	bad := func(format string, args ...any) { out = append(out, fmt.Errorf(format, args...)) }
	for _, contact := range c.SecurityContact {
		u, err := url.Parse(contact)
		if err != nil || !slices.Contains([]string{"mailto", "https", "tel"}, u.Scheme) || u.Opaque == "" && u.Host == "" || strings.ContainsAny(contact, " \r\n") {
			bad("STAGEDOOR_SECURITY_CONTACT has %q: use an address such as mailto:security@example.com or https://example.com/security", contact)
		}
	}
	if u, err := url.Parse(c.SecurityPolicy); c.SecurityPolicy != "" && (err != nil || u.Scheme != "https" || u.Host == "" || strings.ContainsAny(c.SecurityPolicy, " \r\n")) {
		bad("STAGEDOOR_SECURITY_POLICY is not an https address: set it to an address such as https://example.com/security")
	}
	if u, err := url.Parse(c.ScannerKeys); strings.Contains(c.ScannerKeys, "://") && (err != nil || u.Host == "" || u.Scheme != "https" && !loopback(u.Hostname())) {
		bad("STAGEDOOR_SECRET_SCANNING_KEYS is neither an https address nor a file: set it to https://api.github.com/meta/public_keys/secret_scanning")
	}
	return errors.Join(out...)
}

// ClearLink is a connection to an engine on another machine that may be unencrypted.
type ClearLink struct {
	// Setting is the name of the URL, and Instead says how to encrypt the connection.
	Setting, Host, Instead string
}

// Says describes the link in half a sentence.
func (l ClearLink) Says() string {
	return fmt.Sprintf("%s allows unencrypted connections to %s", l.Setting, l.Host)
}

// ClearText returns the unencrypted connections to other machines that STAGEDOOR_CLEARTEXT_HOSTS does not list.
func (c Config) ClearText() (list []ClearLink) {
	add := func(setting, instead string, hosts []string) {
		for _, host := range hosts {
			if host != "" && !strings.HasPrefix(host, "/") && !loopback(host) && !slices.Contains(c.ClearTextHosts, host) {
				list = append(list, ClearLink{setting, host, instead})
			}
		}
	}
	const verify = "add sslmode=verify-full and sslrootcert=FILE to it"
	add("DATABASE_URL", verify, postgres.ClearText(c.Database))
	if !c.Migration.Empty() {
		add("STAGEDOOR_MIGRATION_URL", verify, postgres.ClearText(c.Migration))
	}
	if c.Keyring.Reveal() != c.Database.Reveal() {
		add("STAGEDOOR_KEYRING_URL", verify, postgres.ClearText(c.Keyring))
	}
	add("REDIS_URL", "begin it with rediss://", redis.ClearText(c.Redis))
	add("NATS_URL", "begin it with tls://", natslink.ClearText(c.NATS, c.NATSAccess()))
	return list
}

// NATSAccess returns the certificates and credentials for NATS. Nodes with the same roles share a prefix of inboxes.
func (c Config) NATSAccess() natslink.Access {
	roles := slices.Sorted(slices.Values(c.Roles))
	return natslink.Access{
		CAFile: c.NATSCA, CertFile: c.NATSCert, KeyFile: c.NATSKey, CredentialsFile: c.NATSCredentials, NKeyFile: c.NATSNKey,
		Inbox: "_INBOX." + cmp.Or(strings.Join(slices.Compact(roles), "-"), "none"),
	}
}

// ObjectStore returns the settings of the object store.
func (c Config) ObjectStore() objects.Config {
	return objects.Config{Location: c.Objects, AccessKey: c.ObjectsAccessKey, SecretKey: c.ObjectsSecretKey, CAFile: c.ObjectsCA}
}

func (c Config) checkObjects() error {
	if c.Objects == "" {
		if !c.ObjectsSecretKey.Empty() || !c.ObjectsAccessKey.Empty() || c.ObjectsCA != "" {
			return errors.New("STAGEDOOR_OBJECTS is not set, but its keys or certificates are: set it to an address such as s3://bucket?region=eu-west-1")
		}
		return nil
	}
	if err := c.ObjectStore().Check(); err != nil {
		return fmt.Errorf("STAGEDOOR_OBJECTS: %w", err)
	}
	return nil
}

// AuditTarget returns the receiver of the audit stream; its Kind is empty for none.
func (c Config) AuditTarget() (logsink.Target, error) {
	if c.AuditStream == "" {
		return logsink.Target{}, nil
	}
	target, err := logsink.Parse(c.AuditStream)
	if err != nil {
		return logsink.Target{}, fmt.Errorf("STAGEDOOR_AUDIT_STREAM: %w", err)
	}
	return target, nil
}

// MayBeClear reports whether a connection to a host may be unencrypted.
func (c Config) MayBeClear(host string) bool {
	return c.Dev || loopback(host) || slices.Contains(c.ClearTextHosts, host)
}

func (c Config) checkAuditStream() error {
	target, err := c.AuditTarget()
	switch {
	case err != nil:
		return err
	case c.AuditStreamToken != "" && target.Kind != "http":
		return errors.New("STAGEDOOR_AUDIT_STREAM_TOKEN_FILE has an effect only with an https address in STAGEDOOR_AUDIT_STREAM: remove it")
	case c.AuditStreamCA != "" && !target.Encrypted:
		return errors.New("STAGEDOOR_AUDIT_STREAM_CA_FILE has an effect only with https or syslog+tls in STAGEDOOR_AUDIT_STREAM: remove it")
	case target.Host != "" && !target.Encrypted && !c.MayBeClear(target.Host):
		return fmt.Errorf("STAGEDOOR_AUDIT_STREAM allows unencrypted connections to %s: use https or syslog+tls, or list the host in STAGEDOOR_CLEARTEXT_HOSTS if its network is private", target.Host)
	}
	return nil
}

// UsageHost returns the host of the usage webhook.
func (c Config) UsageHost() string {
	u, err := url.Parse(c.UsageWebhook)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

func (c Config) checkUsageWebhook() error {
	if c.UsageWebhook == "" {
		if !c.UsageWebhookSecret.Empty() {
			return errors.New("STAGEDOOR_USAGE_WEBHOOK_SECRET has an effect only with STAGEDOOR_USAGE_WEBHOOK: set that as well")
		}
		return nil
	}
	u, err := url.Parse(c.UsageWebhook)
	switch {
	case err != nil || u.Hostname() == "" || u.User != nil || (u.Scheme != "https" && u.Scheme != "http"):
		return errors.New("STAGEDOOR_USAGE_WEBHOOK is not an address such as https://billing.example.com/usage")
	case u.Scheme == "http" && !c.MayBeClear(u.Hostname()):
		return errors.New("STAGEDOOR_USAGE_WEBHOOK is plain http: use https, or list the host in STAGEDOOR_CLEARTEXT_HOSTS if its network is private")
	case len(c.UsageWebhookSecret.Reveal()) < minSecret:
		return errors.New("STAGEDOOR_USAGE_WEBHOOK_SECRET has fewer than 32 characters: use the output of openssl rand -hex 32")
	}
	return nil
}

// MailServer returns the mail server; ok is false if there is none.
func (c Config) MailServer() (s smtp.Settings, ok bool, err error) {
	if c.SMTP.Empty() {
		return smtp.Settings{}, false, nil
	}
	if s, err = smtp.Parse(c.SMTP); err != nil {
		return smtp.Settings{}, false, fmt.Errorf("STAGEDOOR_SMTP_URL: %w", err)
	}
	return s, true, nil
}

func (c Config) checkMail() error {
	s, _, err := c.MailServer()
	if err == nil && s.Insecure && !c.MayBeClear(s.Host) {
		return fmt.Errorf("STAGEDOOR_SMTP_URL sends emails unencrypted to %s: use smtp:// or smtps://, or list the host in STAGEDOOR_CLEARTEXT_HOSTS if its network is private", s.Host)
	}
	return err
}

// ExportsTraces reports whether traces are exported.
func (c Config) ExportsTraces() bool {
	return (c.OTLPTraces != "" || c.OTLPEndpoint != "") && c.TracesExporter != "none" && !c.SDKDisabled
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
	if c.EgressFile != "" && !c.Egress.Empty() {
		return egress.Config{}, errors.New("STAGEDOOR_EGRESS and STAGEDOOR_EGRESS_FILE are both set: remove one of them")
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
	return egress.Config{Regions: regions, Check: check, MaxIdle: c.EgressMaxIdle, Sites: c.Sites, Deny: deny, PropagateTraces: c.TracePlatforms}, nil
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
