// Package people implements the people of the platform: the creator's own profile, users, fans, followed creators,
// lists.
//
// subscription.go starts, renews and ends subscriptions; other packages call Subscribe. tick.go renews and ends them
// when they are due. me.go, users.go, fans.go, following.go and lists.go are the creator's operations. outside.go and
// tips.go hold what others do.
package people

import (
	"slices"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Routes returns the operations of this package.
func Routes() []wire.Route {
	return slices.Concat(meRoutes(), userRoutes(), fanRoutes(), followingRoutes(), listRoutes())
}

// Dues returns nil, because this package sets no timers. Tick handles the ends of subscriptions.
func Dues() map[string]world.Handler { return nil }

// Happenings returns the happenings of this package, keyed by the frame they send.
func Happenings() map[string]fanaction.Func {
	return map[string]fanaction.Func{
		frameJoined: join, frameReturned: comeBack, frameRenewed: renewEarly, frameLeft: leave, frameRebill: switchRenewal,
		frameList: toggleMember, frameProfile: editOnPhone, frameOnline: toggleOnline, frameTip: tip,
	}
}

// Frames of this package.
const (
	frameJoined   = "fan.joined"
	frameReturned = "fan.returned"
	frameRenewed  = "fan.renewed"
	frameLeft     = "fan.left"
	frameRebill   = "fan.rebill_changed"
	frameList     = "list.changed"
	frameProfile  = "profile.changed"
	frameOnline   = "user.online"
	frameTip      = "fan.tip"
)
