// Package money is the platform's part about money and marketing: links, promotions, bundles, earnings, payouts, statistics.
//
// Nothing here keeps a sum: balance, charts, statements and statistics are added up from the transactions (world.Creator.Txs), the
// payouts and the people each time they are asked for. Start reading at earnings.go.
package money

import (
	"maps"
	"slices"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Frames of this part.
const (
	frameTrial           = "trial.claimed"
	frameClick           = "link.clicked"
	frameReceived        = "money.received"
	frameChargeback      = "money.charged_back"
	framePayoutRequested = "payout.requested"
	framePayoutPaid      = "payout.paid"
	framePayoutFailed    = "payout.failed"
)

// Routes are its operations.
func Routes() []wire.Route {
	return slices.Concat(
		tracking.routes("/tracking_links"), trials.routes("/trial_links"), trialRoutes(), promotionRoutes(), bundleRoutes(),
		earningRoutes(), payoutRoutes(), statisticRoutes(), topRoutes(),
	)
}

// Dues are what happens by itself when its time has come.
func Dues() map[string]world.Handler { return payoutDues() }

// Happenings are what the world outside can do.
func Happenings() map[string]fanaction.Func {
	all := map[string]fanaction.Func{
		frameTrial: claimTrial, frameClick: click, frameReceived: receive, frameChargeback: chargeBack,
	}
	maps.Copy(all, payoutHappenings())
	return all
}
