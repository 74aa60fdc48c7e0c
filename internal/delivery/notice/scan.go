package notice

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/mail"
)

// failsFor is how long a webhook fails before its organisation is told.
const failsFor = 10 * time.Minute

// scan writes down the webhooks that have been failing for a while, and the keys that expire soon. Each failure and each
// key is told once.
func (s *Notices) scan(ctx context.Context, now time.Time) error {
	webhooks := s.deps.Webhooks.Failing(ctx, now.Add(-failsFor), func(f webhook.FailingHook) error {
		about := string(f.Endpoint)
		if about == "" {
			about = string(f.Account)
		}
		name := fmt.Sprint(about, " ", f.Since.UnixMicro())
		return add(ctx, s.deps.DB, subject{f.Org, mail.WebhookFailing, name, false}, fact{Name: nameWebhook(f, about), At: f.Since}, now)
	})
	keys := s.deps.Keys.Expiring(ctx, now, func(k apikey.Expiring) error {
		name := fmt.Sprint(k.ID, " ", k.ExpiresAt.UnixMicro())
		return add(ctx, s.deps.DB, subject{k.Org, mail.KeyExpiring, name, false}, fact{Name: k.Label, At: k.ExpiresAt}, now)
	})
	return errors.Join(webhooks, keys)
}

// nameWebhook names a webhook without what may be a secret in its address.
func nameWebhook(f webhook.FailingHook, about string) string {
	u, err := url.Parse(f.URL)
	if err != nil {
		return about
	}
	return u.Host + " (" + about + ")"
}
