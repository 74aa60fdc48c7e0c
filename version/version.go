// Package version reports the version of the programs in this repository. It is not in internal/ because the sandbox,
// which imports nothing from there, uses it too.
package version

import (
	"runtime/debug"
	"strings"
)

// release is set by scripts/build and deploy/Dockerfile, with
// -ldflags "-X github.com/stagedoor/stagedoor/version.release=1.2.3".
var release string

// Build describes a build.
type Build struct {
	// Version is the release, or else the go command's pseudo-version, such as 0.0.0-20260102150405-0123456789ab, with
	// +dirty if there were uncommitted changes, or else devel.
	Version string
	// Commit is the first 12 digits of the commit, and Time its time. Both are empty if the go command did not know
	// them.
	Commit, Time string
}

// Get describes this build.
func Get() Build {
	info, _ := debug.ReadBuildInfo()
	return read(info, release)
}

// String returns the version of this build.
func String() string { return Get().Version }

// read uses the release for the version, or else the version of the module, or else the commit.
func read(info *debug.BuildInfo, release string) Build {
	b := Build{Version: release}
	modified := ""
	if info == nil {
		info = &debug.BuildInfo{}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value[:min(12, len(s.Value))]
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				modified = "+dirty"
			}
		}
	}
	switch {
	case b.Version != "":
	case info.Main.Version != "" && info.Main.Version != "(devel)":
		b.Version = info.Main.Version
	case b.Commit != "":
		b.Version = "devel-" + b.Commit + modified
	default:
		b.Version = "devel"
	}
	b.Version = strings.TrimPrefix(b.Version, "v")
	return b
}
