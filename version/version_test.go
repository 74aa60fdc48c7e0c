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
		info    *debug.BuildInfo
		release string
		want    version.Build
	}{
		"release": {&debug.BuildInfo{Main: module("v0.0.0-20261116184729-852bbab303e4"), Settings: vcs}, "v1.2.3", version.Build{"1.2.3", "852bbab303e4", "2026-11-16T18:47:29Z"}},
		"module":  {&debug.BuildInfo{Main: module("v0.0.0-20261116184729-852bbab303e4+dirty"), Settings: vcs}, "", version.Build{"0.0.0-20261116184729-852bbab303e4+dirty", "852bbab303e4", "2026-11-16T18:47:29Z"}},
		"install": {&debug.BuildInfo{Main: module("v1.4.0")}, "", version.Build{Version: "1.4.0"}},
		"commit":  {&debug.BuildInfo{Main: module("(devel)"), Settings: vcs}, "", version.Build{"devel-852bbab303e4+dirty", "852bbab303e4", "2026-11-16T18:47:29Z"}},
		"clean":   {&debug.BuildInfo{Main: module(""), Settings: vcs[:2]}, "", version.Build{"devel-852bbab303e4", "852bbab303e4", "2026-11-16T18:47:29Z"}},
		"nothing": {&debug.BuildInfo{Main: module("(devel)")}, "", version.Build{Version: "devel"}},
		"no info": {nil, "", version.Build{Version: "devel"}},
	} {
		if got := version.Read(c.info, c.release); got != c.want {
			t.Errorf("%s: %+v; want %+v", name, got, c.want)
		}
	}
}

// The linker ignores a variable that does not exist, so only a built program shows whether the release is set.
// scripts/image tests the programs that are shipped.
func TestProgramsNameTheReleaseTheyWereBuiltAs(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "run", "-buildvcs=false", "-ldflags", "-X github.com/stagedoor/stagedoor/version.release=v9.8.7", "./testdata/show").CombinedOutput()
	if err != nil || string(out) != "9.8.7" {
		t.Errorf("%v\n%s", err, out)
	}
}
