// Package people is the platform's part about people: the creator's own profile, users, fans, whom the creator follows, lists.
//
// subscription.go is how someone becomes, stays and stops being a fan; other parts call Subscribe. tick.go does what time does to
// subscriptions. me.go, users.go, fans.go, following.go and lists.go are the creator's operations; outside.go and tips.go are
// what others do.
package people

import (
	"slices"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Routes are its operations.
func Routes() []wire.Route {
	return slices.Concat(meRoutes(), userRoutes(), fanRoutes(), followingRoutes(), listRoutes())
}

// Dues are what happens by itself when its time has come. Subscriptions are not among them, see Tick.
func Dues() map[string]world.Handler { return nil }

// Happenings are what the world outside can do.
func Happenings() map[string]fanaction.Func {
	return map[string]fanaction.Func{
		frameJoined: join, frameReturned: comeBack, frameRenewed: renewEarly, frameLeft: leave, frameRebill: switchRenewal,
		frameList: toggleMember, frameProfile: editOnPhone, frameOnline: toggleOnline, frameTip: tip,
	}
}

// Frames about people.
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
