// Package version names the build of the programs in this repository. It is the one place that does, and is not in
// internal/ because the sandbox, which imports nothing from there, is one of the programs.
package version

import (
	"runtime/debug"
	"strings"
)

// release is set by a build that knows its version: -ldflags "-X github.com/stagedoor/stagedoor/version.release=1.2.3".
// scripts/build and deploy/Dockerfile do.
var release string

// Build is what is known about a build.
type Build struct {
	// Version is the release, or what the go command calls the commit, such as 0.0.0-20260102150405-0123456789ab, with +dirty
	// if files were changed after it. It is devel where nothing is known.
	Version string
	// Commit is the first 12 digits of the commit, Time when it was made; both are empty if the go command did not know.
	Commit, Time string
}

// Get returns what is known about this build.
func Get() Build {
	info, _ := debug.ReadBuildInfo()
	return read(info, release)
}

// String returns the version of this build.
func String() string { return Get().Version }

// read takes the release if there is one, else the version of the module, else the commit.
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
