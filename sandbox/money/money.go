// Package money implements earnings and marketing: links, promotions, bundles, earnings, payouts, statistics.
//
// It stores no totals. It computes balance, charts, statements and statistics from the transactions
// (world.Creator.Txs), the payouts and the people on every request. Start reading at earnings.go.
package money

import (
	"maps"
	"slices"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Frames of this package.
const (
	frameTrial           = "trial.claimed"
	frameClick           = "link.clicked"
	frameReceived        = "money.received"
	frameChargeback      = "money.charged_back"
	framePayoutRequested = "payout.requested"
	framePayoutPaid      = "payout.paid"
	framePayoutFailed    = "payout.failed"
)

// Routes returns the operations of this package.
func Routes() []wire.Route {
	return slices.Concat(
		tracking.routes("/tracking_links"), trials.routes("/trial_links"), trialRoutes(), promotionRoutes(), bundleRoutes(),
		earningRoutes(), payoutRoutes(), statisticRoutes(), topRoutes(),
	)
}

// Dues returns the handlers of the timers that this package sets.
func Dues() map[string]world.Handler { return payoutDues() }

// Happenings returns the happenings of this package, keyed by the frame they send.
func Happenings() map[string]fanaction.Func {
	all := map[string]fanaction.Func{
		frameTrial: claimTrial, frameClick: click, frameReceived: receive, frameChargeback: chargeBack,
	}
	maps.Copy(all, payoutHappenings())
	return all
}
