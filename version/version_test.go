package version_test

import (
	"os/exec"
	"runtime/debug"
	"testing"

	"github.com/stagedoor/stagedoor/version"
)

func TestVersionIsReleaseElseModuleElseCommit(t *testing.T) {
	t.Parallel()
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "852bbab303e4a65a413ff104e2d5146a4dcd49c2"}, {Key: "vcs.time", Value: "2026-11-16T18:47:29Z"}, {Key: "vcs.modified", Value: "true"}}
	module := func(version string) debug.Module {
		return debug.Module{Path: "github.com/stagedoor/stagedoor", Version: version}
	}
	for name, c := range map[string]struct {
		info *debug.BuildInfo
		set  [3]string
		want version.Build
	}{
		"set":     {&debug.BuildInfo{Main: module("(devel)"), Settings: vcs}, [3]string{"v1.2.3", "0123456789abcdef", "2026-11-17T00:00:00Z"}, version.Build{"1.2.3", "0123456789ab", "2026-11-17T00:00:00Z"}},
		"release": {&debug.BuildInfo{Main: module("v0.0.0-20261116184729-852bbab303e4"), Settings: vcs}, [3]string{"v1.2.3"}, version.Build{"1.2.3", "852bbab303e4", "2026-11-16T18:47:29Z"}},
		"module":  {&debug.BuildInfo{Main: module("v0.0.0-20261116184729-852bbab303e4+dirty"), Settings: vcs}, [3]string{}, version.Build{"0.0.0-20261116184729-852bbab303e4+dirty", "852bbab303e4", "2026-11-16T18:47:29Z"}},
		"install": {&debug.BuildInfo{Main: module("v1.4.0")}, [3]string{}, version.Build{Version: "1.4.0"}},
		"commit":  {&debug.BuildInfo{Main: module("(devel)"), Settings: vcs}, [3]string{}, version.Build{"devel-852bbab303e4+dirty", "852bbab303e4", "2026-11-16T18:47:29Z"}},
		"clean":   {&debug.BuildInfo{Main: module(""), Settings: vcs[:2]}, [3]string{}, version.Build{"devel-852bbab303e4", "852bbab303e4", "2026-11-16T18:47:29Z"}},
		"nothing": {&debug.BuildInfo{Main: module("(devel)")}, [3]string{}, version.Build{Version: "devel"}},
		"no info": {nil, [3]string{}, version.Build{Version: "devel"}},
	} {
		if got := version.Read(c.info, c.set[0], c.set[1], c.set[2]); got != c.want {
			t.Errorf("%s: %+v; want %+v", name, got, c.want)
		}
	}
}

// The linker ignores a variable that does not exist, so only a built program shows whether the release is set.
// scripts/release-snapshot tests the programs that are shipped.
func TestProgramsNameTheReleaseTheyWereBuiltAs(t *testing.T) {
	t.Parallel()
	flags := ""
	for name, value := range map[string]string{"release": "v9.8.7", "commit": "0123456789abcdef", "when": "2026-11-17T00:00:00Z"} {
		flags += " -X github.com/stagedoor/stagedoor/version." + name + "=" + value
	}
	out, err := exec.CommandContext(t.Context(), "go", "run", "-buildvcs=false", "-ldflags", flags, "./testdata/show").CombinedOutput()
	if err != nil || string(out) != "9.8.7 (commit 0123456789ab of 2026-11-17T00:00:00Z)" {
		t.Errorf("%v\n%s", err, out)
	}
}
