// Package library implements the vault of the platform: media, folders, uploads, release forms, GIFs.
//
// Its operations are routes like those of every part (vault.go, folders.go, uploads.go, forms.go). It also serves two
// things outside the API: the media files (Media, painted in paint.go) and the URLs that take the parts of an upload
// (Upload).
package library

import (
	"slices"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Routes returns the operations of this package.
func Routes() []wire.Route {
	return slices.Concat(vaultRoutes(), folderRoutes(), uploadRoutes(), formRoutes())
}

// Dues returns the handlers of the timers that this package sets.
func Dues() map[string]world.Handler {
	return map[string]world.Handler{dueUpload: finishUpload}
}

// Happenings returns the happenings of this package, keyed by the frame they send.
func Happenings() map[string]fanaction.Func {
	return map[string]fanaction.Func{frameReady: mediaArrives, frameFailed: mediaBreaks}
}
