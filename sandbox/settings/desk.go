// Package settings is the platform's part about the creator's desk: the notification inbox (notifications.go), settings and sessions
// (settings.go).
package settings

import (
	"slices"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/ledger"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Frames of this part. The last one is of a kind that no driver knows yet, as platforms send them now and then.
const (
	frameNotice     = "notice.new"
	frameCounts     = "counts.changed"
	frameSettings   = "settings.changed"
	frameToast      = "toast.shown"
	frameExperiment = "system.experiment"
)

// Routes are its operations.
func Routes() []wire.Route { return slices.Concat(noticeRoutes(), settingRoutes()) }

// Dues are what happens by itself when its time has come: nothing here does.
func Dues() map[string]world.Handler { return nil }

// Happenings are what the world outside can do.
func Happenings() map[string]fanaction.Func {
	return map[string]fanaction.Func{
		frameNotice: announce, frameSettings: changeOnPhone, frameToast: toast, frameExperiment: experiment,
	}
}

// announce puts a note of the platform's into the inbox.
func announce(c *world.Creator, in fanaction.Input) error {
	if in.User != 0 {
		if _, err := in.Person(c); err != nil {
			return err
		}
	}
	ledger.Notify(c, &row.Notice{Type: "system", Text: in.Words("There is a new way to sort your fans."), Person: in.User})
	return nil
}

// changeOnPhone is the creator who changes the profile in the platform's own app.
func changeOnPhone(c *world.Creator, in fanaction.Input) error {
	places := []string{"Lisbon", "Berlin", "Toronto", "Bristol"}
	next := places[(slices.Index(places, c.Profile.Location)+1)%len(places)]
	c.Profile.Location = in.Words(next)
	c.SaveProfile()
	tellChanged(c, "location")
	return nil
}

// toast is a note that is seen once and not kept.
func toast(c *world.Creator, in fanaction.Input) error {
	c.Flash(frameToast, map[string]any{
		"id": c.Now().UnixMilli(), "title": "Good news", "text": in.Words("Your profile was visited more often than last week."),
	})
	return nil
}

// experiment is a frame of the platform's that nobody was told of.
func experiment(c *world.Creator, in fanaction.Input) error {
	c.Emit(frameExperiment, map[string]any{"name": in.Words("new_profile_header"), "group": "b", "share": 0.5})
	return nil
}
