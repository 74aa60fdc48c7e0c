// Package version reports the version of the programs in this repository. It is not in internal/ because the sandbox,
// which imports nothing from there, uses it too.
package version

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// release, commit and when are set by scripts/build, goreleaser and deploy/Dockerfile, with
// -ldflags "-X github.com/stagedoor/stagedoor/version.release=1.2.3", because the go command does not know them in a second
// work tree of a clone or without .git. when is the time of the commit.
var release, commit, when string

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
	return read(info, release, commit, when)
}

// String returns the version of this build.
func String() string { return Get().Version }

// String returns the version and, if it is known, the commit.
func (b Build) String() string {
	if b.Commit == "" {
		return b.Version
	}
	return b.Version + " (commit " + b.Commit + " of " + b.Time + ")"
}

// read uses the release for the version, or else the version of the module, or else the commit. Commit and time are those
// that were set, or else those of the go command.
func read(info *debug.BuildInfo, release, commit, when string) Build {
	b := Build{Version: release, Commit: commit[:min(12, len(commit))], Time: when}
	modified := ""
	if info == nil {
		info = &debug.BuildInfo{}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = cmp.Or(b.Commit, s.Value[:min(12, len(s.Value))])
		case "vcs.time":
			b.Time = cmp.Or(b.Time, s.Value)
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
