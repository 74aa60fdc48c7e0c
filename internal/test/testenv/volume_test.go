package testenv_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// A volume works again after a power failure while another mount namespace, such as that of a container, still has its
// file system mounted.
func TestVolumeReturnsWhileAnotherNamespaceHasIt(t *testing.T) {
	t.Parallel()
	if err := testenv.CanMount(); err != nil {
		t.Skip("needs root and loop devices:", err)
	}
	v := testenv.NewVolume(t, 64<<20)
	other := exec.Command("unshare", "--mount", "sh", "-c", "echo; exec sleep 600")
	other.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := other.StdoutPipe()
	must.OK(t, err)
	must.OK(t, other.Start())
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	_, err = out.Read(make([]byte, 1)) // it is in its namespace
	must.OK(t, err)
	for range 2 {
		v.CutPower()
		v.Remount()
		must.OK(t, os.WriteFile(filepath.Join(v.Dir, "file"), []byte("text"), 0o600))
	}
}
