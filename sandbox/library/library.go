// Package library is the platform's part about the vault: media, folders, uploads, release forms, GIFs.
//
// Its operations are routes like those of every part (vault.go, folders.go, uploads.go, forms.go). Beside them it serves two things
// outside the API: the media themselves (Media, painted in paint.go) and the address that takes the parts of an upload (Upload).
package library

import (
	"slices"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Routes are its operations.
func Routes() []wire.Route {
	return slices.Concat(vaultRoutes(), folderRoutes(), uploadRoutes(), formRoutes())
}

// Dues are what happens by itself when its time has come.
func Dues() map[string]world.Handler {
	return map[string]world.Handler{dueUpload: finishUpload}
}

// Happenings are what the world outside can do.
func Happenings() map[string]fanaction.Func {
	return map[string]fanaction.Func{frameReady: mediaArrives, frameFailed: mediaBreaks}
}
