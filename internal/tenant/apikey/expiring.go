package apikey

import (
	"context"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey/internal/db"
)

// Expiring is a key that expires soon.
type Expiring struct {
	Org       id.Org
	ID        id.Key
	Label     string
	ExpiresAt time.Time
}

// expiringPage is how many rows one query reads.
const expiringPage = 500

// Expiring calls each for every key of all organisations that expires soon: within 7 days, or within one day if it was made
// for less than 14 days. Keys that were made for less than 2 days, and those that a rotation has replaced, are not in it.
func (s *Keys) Expiring(ctx context.Context, now time.Time, each func(Expiring) error) error {
	week, day := now.AddDate(0, 0, 7), now.AddDate(0, 0, 1)
	for after := (Expiring{}); ; {
		rows, err := db.New(s.deps.DB).Expiring(ctx, db.ExpiringParams{
			AfterOrg: string(after.Org), AfterID: string(after.ID), Now: &now, MaxRows: expiringPage,
			InWeek: &week, TwoWeeks: 14 * 24 * time.Hour, InDay: &day, TwoDays: 48 * time.Hour,
		})
		if err != nil {
			return err
		}
		for _, r := range rows {
			after = Expiring{Org: r.OrgID, ID: r.ID, Label: r.Label, ExpiresAt: *r.ExpiresAt}
			if err := each(after); err != nil {
				return err
			}
		}
		if len(rows) < expiringPage {
			return nil
		}
	}
}
