package app

import (
	"context"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/configfile"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/smtp"
	"github.com/stagedoor/stagedoor/internal/operate/fleet"
	"github.com/stagedoor/stagedoor/internal/operate/operator"
	"github.com/stagedoor/stagedoor/internal/operate/pulse"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/idempotency"
	"github.com/stagedoor/stagedoor/internal/tenant/mail"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
	"github.com/stagedoor/stagedoor/version"
)

// operators are the people who operate the service, their decisions, and the nodes that run.
type operators struct {
	people   *operator.Operators
	switches *switches.Control
	fleet    *fleet.Fleet
	pulse    *pulse.Pulse
}

func newOperators(n *Node, eng engines, auditLog *audit.Log) operators {
	control := switches.New(switches.Deps{DB: eng.db, Audit: auditLog, Bus: eng.bus, Log: n.log, Now: n.clock.Now})
	eng.bus.OnConnect(control.Wake)
	n.loop("switches", control.Run)
	nodes := fleet.New(fleet.Deps{DB: eng.db, Bus: eng.bus, Log: n.log, Now: n.clock.Now, Healthy: n.isHealthy, Self: fleet.Node{
		ID: n.process, Name: n.cfg.Node, Roles: n.cfg.Roles, Version: version.String(), Format: fleet.FormatKeyed,
	}})
	n.loop("fleet", nodes.Run)
	n.loop("fleet answers", nodes.AnswerPeers)
	people := operator.New(operator.Deps{
		Config: operator.Config{
			Tokens: n.cfg.AdminToken, TokenFile: n.cfg.AdminTokenFile, Roster: n.cfg.Operators, RosterFile: n.cfg.OperatorsFile,
			Issuer: n.cfg.OperatorsIssuer,
		},
		DB: eng.db, Audit: auditLog, Log: n.log,
	})
	counts := pulse.New(pulse.Deps{
		DB: eng.db, Node: n.cfg.Node, Metrics: n.registry, Fleet: nodes, Switches: control, Down: n.failingChecks,
		Log: n.log, Now: n.clock.Now,
	})
	n.loop("pulse", counts.Run)
	return operators{people, control, nodes, counts}
}

// tenants are the services that know the customers: who they are, what they may do, and what they did.
type tenants struct {
	audit       *audit.Log
	limits      *admission.Limiter
	suspensions *org.Suspensions
	plans       *org.Plans
	orgs        *org.Orgs
	outbox      *outbox.Outbox
	keys        *apikey.Keys
	members     *member.Members
	mails       *mail.Outbox
	usage       *usage.Usage
	requestLog  *requestlog.Journal
	idempotency *idempotency.Keys
	sealer      *seal.Sealer
}

// redisPatience is the maximum wait for Redis, in multiples of its timeout. Admission without Redis is less exact and
// costs a database query, so it is for an outage and not for one slow response.
const redisPatience = 10

// logSettleTimeout bounds how long a reader of the request log waits for requests that this node has not written yet.
const logSettleTimeout = 500 * time.Millisecond

func newTenants(
	ctx context.Context, n *Node, eng engines, sealer *seal.Sealer, auditLog *audit.Log, op operators,
) (tenants, error) {
	plans := org.NewPlans()
	limits := admission.New(admission.Deps{
		Config: admission.Config{
			Timeout: n.cfg.RedisTimeout, Patience: redisPatience * n.cfg.RedisTimeout, Process: n.process,
		},
		Redis: eng.redis, DB: eng.db, Bus: eng.bus, Fleet: op.fleet, Registry: n.registry, Log: n.log, Now: n.clock.Now,
	})
	n.loop("admission", limits.Run)
	n.loop("account limits", func(ctx context.Context) error {
		return eng.bus.Subscribe(ctx, admission.AccountPattern, func(account string, _ []byte) {
			limits.ForgetAccount(id.Account(account))
		})
	})
	suspensions := org.NewSuspensions(org.SuspensionDeps{DB: eng.db, Process: n.process, Log: n.log, Now: n.clock.Now})
	eng.bus.OnConnect(suspensions.Wake)
	n.loop("suspensions", suspensions.Run)
	orgs := org.New(org.Deps{
		DB: eng.db, Plans: plans, Audit: auditLog, Jobs: eng.jobs, Announce: limits, Suspensions: suspensions, Refuse: n.refuseLive(eng), Now: n.clock.Now,
	})
	limits.SetEpochs(orgs)
	events := outbox.New(eng.db, n.clock.Now)
	keys := apikey.New(apikey.Deps{
		DB: eng.db, Orgs: orgs, Audit: auditLog, Outbox: events, Troubled: limits.Troubled, Now: n.clock.Now,
	})
	eng.bus.OnConnect(keys.Distrust)
	if n.cfg.PlansFile != "" {
		if err := n.files.Add(ctx, configfile.File{Setting: "STAGEDOOR_PLANS_FILE", Path: n.cfg.PlansFile, Apply: func(_ context.Context, content []byte) error {
			if err := plans.Replace(content); err != nil {
				return err
			}
			keys.Distrust() // Cached identities have the limits of their plan.
			return nil
		}}); err != nil {
			return tenants{}, err
		}
	}
	meter := usage.New(usage.Deps{DB: eng.db, Log: n.log, Now: n.clock.Now})
	n.loop("usage", meter.Run)
	mails, err := newMails(n, eng, auditLog, sealer)
	if err != nil {
		return tenants{}, err
	}
	requests := requestlog.New(requestlog.Deps{
		DB: eng.db, Ticker: clock.Ticker, SettleTimeout: logSettleTimeout,
		Registry: n.registry, Log: n.log, Now: n.clock.Now,
	})
	n.loop("request log", requests.Run)
	return tenants{
		audit: auditLog, limits: limits, suspensions: suspensions, plans: plans, orgs: orgs, outbox: events, keys: keys,
		members: member.New(member.Deps{
			DB: eng.db, Orgs: orgs, Keys: keys, Audit: auditLog, Mail: mails, PublicURL: n.cfg.PublicURL, Now: n.clock.Now,
		}),
		mails: mails,
		usage: meter, requestLog: requests,
		idempotency: idempotency.New(idempotency.Deps{DB: eng.db, Seal: sealer}),
		sealer:      sealer,
	}, nil
}

// newMails returns the outbox of emails. It has no sender if the service has no mail server.
func newMails(n *Node, eng engines, auditLog *audit.Log, sealer *seal.Sealer) (*mail.Outbox, error) {
	deps := mail.Deps{DB: eng.db, Audit: auditLog, Seal: sealer, Queue: eng.jobs, Sender: nil, Registry: n.registry, Log: n.log}
	server, ok, err := n.cfg.MailServer()
	if ok {
		deps.Sender = smtp.New(smtp.Deps{Settings: server, Dial: egress.DialDirect(server.Address(), server.Implicit, nil), Roots: nil})
	}
	return mail.New(deps), err
}
